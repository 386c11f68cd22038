/* SPDX-License-Identifier: Apache-2.0 */
/* second_put.h -- the second copy of a PUT. Private to kvclient/. On the client's loop; only *_await parks. */
#ifndef KVRAIL_KVCLIENT_COPIES_SECOND_PUT_H
#define KVRAIL_KVCLIENT_COPIES_SECOND_PUT_H

#include "kvclient/core/client.h"
#include "kvclient/core/target.h"

/* A value that its first server has. */
struct kc_second_value {
	struct kvc_key key;
	const struct kc_target *from; /* as for kc_put_init; copied */
	uint64_t len, checksum;
	uint64_t born_ns; /* start of the call, or earlier */
	uint32_t ttl_s;
};

/* kc_second_put_await -- put the value at the key's second server in the background; on return its memory is the
 * caller's. Dropped and counted without room, or if that server is behind. Parks only to yield while it copies a large
 * value. */
void kc_second_put_await(struct kvc_client *c, const struct kc_second_value *v);

/* kc_second_forget -- before a DELETE: begin no waiting second copy of the key by this client. True: one waits or is
 * under way. kc_second_forget_await -- the same, and wait until none is, or the deadline. */
bool kc_second_forget(struct kvc_client *c, struct kvc_key key);
void kc_second_forget_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns);

/* kc_second_landed_await -- before a TOUCH: wait until none of this client's second copies of the key is under way, or
 * the deadline. */
void kc_second_landed_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns);

/* kc_second_fini -- after the client closed, with no copy under way. */
void kc_second_fini(struct kvc_client *c);

#endif
