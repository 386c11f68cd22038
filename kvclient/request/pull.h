/* SPDX-License-Identifier: Apache-2.0 */
/* pull.h -- GETs whose bytes the client reads itself. Private to kvclient/. On the client's loop; only *_await
 * parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_PULL_H
#define KVRAIL_KVCLIENT_REQUEST_PULL_H

#include "kvclient/core/client.h"

#define KC_LEASE_MAX_NS 60000000000ull /* upper limit for leases */

/* A read, the engine's until `done`, even without its request. */
struct kc_pull {
	struct te_xfer xfer;
	struct kv_list node;  /* in the free list */
	struct kc_req *req;   /* NULL: no request needs its bytes */
	struct kc_link *link; /* the read references its attachment, owner of the arena's keys */
	uint64_t lease, end_ns;
};

/* kc_pull_check -- once the engine is open: whether our provider can read if the pool demands it. 0 or -KV_ENOTSUP
 * with *err. */
int kc_pull_check(const struct kvc_client *c, struct kv_error *err);

/* kc_pulls_init -- make a client's reads before the first lease; repeatable. 0 or -KV_ENOMEM. kc_pulls_fini -- free
 * them, if made. */
int kc_pulls_init(struct kvc_client *c);
void kc_pulls_fini(struct kvc_client *c);

/* kc_pull_start -- after a reply with a lease: read `length` bytes to the request's destination. 0: the request ends
 * with the read; or its status. Always returns the lease. */
int kc_pull_start(struct kvc_client *c, struct kc_req *r, const struct wire_reply *p, uint64_t length);

/* kc_pull_leave -- detach the request from its read: its memory is safe or in quarantine. Harmless without a read. */
void kc_pull_leave(struct kvc_client *c, struct kc_req *r);

#endif
