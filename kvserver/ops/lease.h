/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h -- blocks that clients read by themselves, each kept for a while. */
#ifndef KVRAIL_KVSERVER_OPS_LEASE_H
#define KVRAIL_KVSERVER_OPS_LEASE_H

#include "loop/loop.h"
#include "wire/wire.h"

struct block;
struct link;
struct session;
struct shard;

enum {
	LEASES_MAX = 65536,        /* of a shard */
	LEASES_SESSION_MAX = 4096, /* twice as many as a client of ours has requests */
	LEASE_SHARE = 2,           /* of a shard's memory, leases keep at most a half, */
	LEASE_SESSION_SHARE = 4,   /* those of one session a quarter, */
	LEASES_SESSION_MIN = 2,    /* but so many whatever they keep: a large value is read two ranges at a time */
	LEASES_AT_ONCE = 1024      /* end in one turn of the loop because their time is over */
};

#define LEASE_MIN_NS  10000000ull
#define LEASE_MAX_NS  60000000000ull
#define LEASE_NS      1000000000ull /* default */
#define LEASE_PART_NS 1000000ull    /* ... and a 64th is added to what the client is told: clocks differ */

struct lease {
	struct kv_list node;     /* of the shard: those given out, the oldest first; or those that are free */
	struct kv_list sibling;  /* of the session */
	struct session *session; /* NULL: it is free, or its session has ended */
	struct block *block;     /* a reference is ours */
	uint64_t end_ns;
	uint32_t generation;
};

struct leases {
	struct lease *lease; /* NULL: clients are not to read */
	struct kv_list free, out;
	uint32_t made, count;    /* entries that were ever used; given out now */
	uint64_t time_ns;        /* of a lease, as the client is told */
	struct loop_timer timer; /* for the oldest one; armed while one is out */
};

/* leases_init -- 0 or -KV_ENOMEM. leases_fini -- none is out. */
int leases_init(struct leases *l, uint64_t time_ns);
void leases_fini(struct leases *l);

/* lease_give -- keep the block for a session. False: beyond the budget. Otherwise *out_id names the lease in this
 * session, and the block neither changes nor goes until it is released, its time is over, or the client says goodbye.
 */
bool lease_give(struct session *s, struct block *b, uint64_t *out_id);

/* lease_release -- harmless (and counted) when the session has no such lease any more, or never had. */
void lease_release(struct session *s, uint64_t id);

/* release_begin -- begin_fn of RELEASE. It begins nothing and has no answer, and whoever sends it twice has released
 * twice. */
void release_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);

/* leases_drop -- end those of a session: the client says goodbye, and believes no read any more. leases_leave -- the
 * session ends and the client may not know: they end with their time. leases_clear -- all of a shard: nothing can be
 * read any more. */
void leases_drop(struct session *s);
void leases_leave(struct session *s);
void leases_clear(struct shard *shard);

#endif
