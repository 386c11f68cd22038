/* SPDX-License-Identifier: Apache-2.0 */
/* pull.h -- pull: GETs whose bytes the client reads itself. Private to kvclient/. All functions run on the client's
 * loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_PULL_H
#define KVRAIL_KVCLIENT_REQUEST_PULL_H

#include "kvclient/core/client.h"

#define KVC_LEASE_MAX_NS 60000000000ull /* longer leases are not believed */

/* A read. From its start until `done` ran it is the engine's, whatever becomes of its request: therefore it has a life
 * of its own. */
struct kvc_pull {
	struct te_xfer xfer;
	struct kv_list node;   /* the list of free reads */
	struct kvc_req *req;   /* NULL: no request wants its bytes any more */
	struct kvc_link *link; /* the read holds a reference to the attachment, which has the arena's keys */
	uint64_t lease, end_ns;
};

/* kvc_pull_check -- after the engine was opened: whether our own provider can read where the pool demands it. 0 or
 * -KV_ENOTSUP with *err. */
int kvc_pull_check(const struct kvc_client *c, struct kv_error *err);

/* kvc_pulls_init -- room for the reads of a client, before the first lease is asked for; any number of times. 0 or
 * -KV_ENOMEM. kvc_pulls_fini -- free it; one that was never made is fine. */
int kvc_pulls_init(struct kvc_client *c);
void kvc_pulls_fini(struct kvc_client *c);

/* kvc_pull_start -- a reply with a lease has come: read `length` bytes to where the request wants them. 0: the request
 * is not over until the read is; or its status. The lease is given back in any case. */
int kvc_pull_start(struct kvc_client *c, struct kvc_req *r, const struct wire_reply *p, uint64_t length);

/* kvc_pull_leave -- read no more of it, and let the request not wait for the read's end, since its memory is safe or in
 * quarantine. Harmless on a request without a read. */
void kvc_pull_leave(struct kvc_client *c, struct kvc_req *r);

#endif
