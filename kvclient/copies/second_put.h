/* SPDX-License-Identifier: Apache-2.0 */
/* second_put.h -- the second copy of a value that was put. Private to kvclient/. On the client's loop; one parks only
 * if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_COPIES_SECOND_PUT_H
#define KVRAIL_KVCLIENT_COPIES_SECOND_PUT_H

#include "kvclient/core/client.h"
#include "kvclient/core/target.h"

/* A value that is at its first server. */
struct kvc_second_value {
	struct kvc_key key;
	const struct kvc_target *from; /* as for kvc_put_init; it is copied */
	uint64_t len, checksum;
	uint64_t born_ns; /* when the call began, or earlier */
	uint32_t ttl_s;
};

/* kvc_second_put_await -- have the value put at the key's second server, in the background: when this returns, its
 * memory is the caller's again. If that server is behind, or there is no room, it is not, and counts as dropped. It
 * parks, for nothing but to let others run while a large value is copied. */
void kvc_second_put_await(struct kvc_client *c, const struct kvc_second_value *v);

/* kvc_second_forget -- the key is about to be deleted: this client begins no second copy of it that waits. True: one
 * waits or is under way. kvc_second_forget_await -- none is any more, or the deadline is over. */
bool kvc_second_forget(struct kvc_client *c, struct kvc_key key);
void kvc_second_forget_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns);

/* kvc_second_landed_await -- the key is about to be touched: none of this client's second copies of it is under way any
 * more, or the deadline is over. A copy that landed later would live as long as the value was put for. */
void kvc_second_landed_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns);

/* kvc_second_fini -- the client has closed, and no copy is under way. */
void kvc_second_fini(struct kvc_client *c);

#endif
