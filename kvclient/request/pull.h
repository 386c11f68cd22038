/* SPDX-License-Identifier: Apache-2.0 */
/* pull.h -- GETs whose bytes we read ourselves: arenas, leases, reads, releases. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_REQUEST_PULL_H
#define KVRAIL_KVCLIENT_REQUEST_PULL_H

#include "base/base.h"
#include "engine/engine.h"
#include "loop/loop.h"
#include "wire/wire.h"

struct kvc_client;
struct kvc_link;
struct kvc_node;
struct kvc_req;
struct kvc_session;

enum {
	KVC_RELEASES = 32,           /* leases that a link gives back at a time */
	KVC_ARENA_KEYS_MAX = 1 << 18 /* of all shards of a server: bounds what its ARENAs make us keep (4 MiB) */
};

#define KVC_RELEASE_NS   1000000ull     /* so long a release waits for a request to go with */
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

struct kvc_pulls {
	struct kvc_pull *pull; /* NULL until a server is to be read from */
	struct kv_list free;
	uint32_t used;
};

/* The memory of a server's shards, and what its leases are read by. */
struct kvc_arenas {
	struct te_remote shard[KV_SHARDS_MAX];
	unsigned count; /* told so far */
	uint64_t keys;
	bool write_emulated, read_emulated; /* of any shard */
};

/* kvc_arenas_await -- of the connection being set up: ask for the arenas, if GETs may be pulled from this server, and
 * decide whether they will be (session.pull). Returns 0, or a code with n->error: a pool that demands it gets no
 * session with a server that does not allow it (-KV_ENOTSUP). */
int kvc_arenas_await(struct kvc_node *n, uint64_t deadline_ns);
void kvc_arenas_free(struct kvc_arenas **arenas);

/* kvc_pull_check -- whether our own provider can read where the pool demands it. 0 or -KV_ENOTSUP with *err. */
int kvc_pull_check(const struct kvc_client *c, struct kv_error *err);
void kvc_pulls_fini(struct kvc_client *c);

/* kvc_pull_start -- a reply with a lease has come: read `length` bytes to where the request wants them. 0: the request
 * is not over until the read is; or its status. The lease is given back in any case. */
int kvc_pull_start(struct kvc_client *c, struct kvc_req *r, const struct wire_reply *p, uint64_t length);

/* kvc_pull_stop -- read no more of it; what is under way still ends. kvc_pull_leave -- the same, and the request does
 * not wait for that: somebody else has seen to its memory. Both harmless on a request without a read. */
void kvc_pull_stop(struct kvc_client *c, struct kvc_req *r);
void kvc_pull_leave(struct kvc_client *c, struct kvc_req *r);

/* kvc_release_add -- give a lease back with the link's next frame, or soon. kvc_release_write -- what is to be given
 * back into a frame that is being filled. kvc_release_end -- the link's session is over, and its leases with it. */
void kvc_release_add(struct kvc_link *l, uint64_t lease);
void kvc_release_write(struct kvc_link *l, struct wire_writer *w);
void kvc_release_end(struct kvc_link *l);
void kvc_release_fire(struct loop_timer *t);

#endif
