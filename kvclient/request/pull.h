/* SPDX-License-Identifier: Apache-2.0 */
/* pull.h -- GETs whose bytes the client reads itself. Private to kvclient/. On the client's loop; only *_await
 * parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_PULL_H
#define KVRAIL_KVCLIENT_REQUEST_PULL_H

#include "kvclient/core/client.h"

#define KVC_LEASE_MAX_NS 60000000000ull /* upper limit for leases */

/* A read, the engine's until `done`, even without its request. */
struct kvc_pull {
	struct te_xfer xfer;
	struct kv_list node;   /* in the free list */
	struct kvc_req *req;   /* NULL: no request needs its bytes */
	struct kvc_link *link; /* the read references its attachment, owner of the arena's keys */
	uint64_t lease, end_ns;
};

/* kvc_pull_check -- once the engine is open: whether our provider can read if the pool demands it. 0 or -KV_ENOTSUP
 * with *err. */
int kvc_pull_check(const struct kvc_client *c, struct kv_error *err);

/* kvc_pulls_init -- make a client's reads before the first lease; repeatable. 0 or -KV_ENOMEM. kvc_pulls_fini -- free
 * them, if made. */
int kvc_pulls_init(struct kvc_client *c);
void kvc_pulls_fini(struct kvc_client *c);

/* kvc_pull_start -- after a reply with a lease: read `length` bytes to the request's destination. 0: the request ends
 * with the read; or its status. Always returns the lease. */
int kvc_pull_start(struct kvc_client *c, struct kvc_req *r, const struct wire_reply *p, uint64_t length);

/* kvc_pull_leave -- detach the request from its read: its memory is safe or in quarantine. Harmless without a read. */
void kvc_pull_leave(struct kvc_client *c, struct kvc_req *r);

#endif
