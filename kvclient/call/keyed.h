/* SPDX-License-Identifier: Apache-2.0 */
/* keyed.h -- parts of the calls about one key, for other calls. Private to kvclient/. On the client's loop; only
 * *_await parks. */
#ifndef KVRAIL_KVCLIENT_CALL_KEYED_H
#define KVRAIL_KVCLIENT_CALL_KEYED_H

#include "kvclient/request/trace.h"

/* kvc_there_await -- whether any server has an undeleted value of the key, as a part of call t with these flags. 0 or a
 * code. */
int kvc_there_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns,
		    struct kvc_trace *t);

/* kvc_delete_begin -- ask node n to delete a key. 0 and *out, which the caller releases; -KV_EBUSY: no room now.
 * kvc_delete_item_await -- make the whole DELETE, as a part of call t with these flags. again: an earlier attempt
 * failed. 0 or a code. kvc_delete_at_await -- as kvc_delete_at. */
int kvc_delete_begin(struct kvc_node *n, struct kvc_key key, uint64_t deadline_ns, struct kvc_wait *wait,
		     struct kvc_req **out);
int kvc_delete_item_await(struct kvc_client *c, struct kvc_key key, unsigned flags, uint64_t deadline_ns, bool again,
			  struct kvc_trace *t);
int kvc_delete_at_await(struct kvc_client *c, struct kvc_key key, uint64_t time_ns, const struct kvc_call *call);

/* kvc_tombs_await -- as kvc_tombs, of call->server and shard call->shard - 1. */
int kvc_tombs_await(struct kvc_client *c, uint64_t from, struct kvc_tombs *out, const struct kvc_call *call);

#endif
