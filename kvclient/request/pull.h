/* SPDX-License-Identifier: Apache-2.0 */
/* pull.h -- GETs whose bytes we read ourselves. Private to kvclient/. All of these on the client's loop; what does not
 * end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_REQUEST_PULL_H
#define KVRAIL_KVCLIENT_REQUEST_PULL_H

#include "kvclient/core/client.h"

#define KVC_LEASE_MAX_NS 60000000000ull /* longer leases are not believed */

/* A read. From its start until `done` ran it is the engine's, whatever becomes of the request: therefore it has a
 * life of its own. */
struct kvc_pull {
	struct te_xfer xfer;
	struct kv_list node;   /* of the free ones */
	struct kvc_req *req;   /* NULL: nobody wants its bytes any more */
	struct kvc_link *link; /* its session is held by a reference: the arena's keys are there */
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

/* kvc_pull_leave -- read no more of it, and the request does not wait for the read's end: somebody else has seen to its
 * memory. Harmless on a request without a read. */
void kvc_pull_leave(struct kvc_client *c, struct kvc_req *r);

#endif
