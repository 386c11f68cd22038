/* SPDX-License-Identifier: Apache-2.0 */
/* keyed.h -- parts of the calls about one key, for other calls. Private to kvclient/. On the client's loop; only
 * *_await parks. */
#ifndef KVRAIL_KVCLIENT_CALL_KEYED_H
#define KVRAIL_KVCLIENT_CALL_KEYED_H

#include "kvclient/request/trace.h"

/* kc_keyed_await -- a whole call about one key: checks, then fn_await with a whole struct kvc_call, then the end. */
int kc_keyed_await(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call, enum kvc_op op,
		   int (*fn_await)(struct kvc_client *c, struct kvc_key key, const struct kvc_call *call,
				   struct kc_trace *t));

/* kc_there_await -- whether any server has an undeleted value of the key, as a part of call t with these flags. 0 or a
 * code. */
int kc_there_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns, struct kc_trace *t);

/* kc_delete_begin -- ask node n to delete a key. 0 and *out, which the caller releases; -KV_EBUSY: no room now.
 * kc_delete_item_await -- make the whole DELETE, as a part of call t with these flags. again: an earlier attempt
 * failed. 0 or a code. kc_delete_at_await -- as kc_delete_at. */
int kc_delete_begin(struct kc_node *n, struct kvc_key key, uint64_t deadline_ns, struct kc_wait *wait,
		    struct kc_req **out);
int kc_delete_item_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns, bool again,
			 struct kc_trace *t);
int kc_delete_at_await(struct kvc_client *c, struct kvc_key key, uint64_t time_ns, const struct kvc_call *call);

/* kc_tombs_await -- as kc_tombs, of call->server and shard call->shard - 1. */
int kc_tombs_await(struct kvc_client *c, uint64_t from, struct kc_tombs *out, const struct kvc_call *call);

/* kc_spaces_await -- a page of the namespaces of the same shard, from number `from` on. 0 or a code; -KV_EINVAL: no
 * such shard. */
enum { KC_SPACES_MAX = 4096, KC_TENANTS_MAX = 512, KC_HOLDERS_MAX = 65536 }; /* of a shard */
int kc_spaces_await(struct kvc_client *c, uint64_t from, struct kc_rows *out, const struct kvc_call *call);

#endif
