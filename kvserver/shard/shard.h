/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h -- one data loop's part of the server: an engine, a part of the memory, and the sessions as this loop sees
 * them. */
#ifndef KVRAIL_KVSERVER_SHARD_SHARD_H
#define KVRAIL_KVSERVER_SHARD_SHARD_H

#include "engine/engine.h"
#include "host/host.h"
#include "kvserver/control/loopcall.h"
#include "kvserver/ops/lease.h"
#include "kvserver/ops/pack.h"
#include "kvserver/ops/request.h"
#include "kvserver/shard/session.h"
#include "kvserver/ops/stage.h"
#include "store/store.h"
#include "loop/loop.h"
#include "wire/wire.h"

enum {
	SHARD_REQUESTS_MAX = 65536,
	SHARD_KEEP_PART = 8,     /* pins, stages and leases together leave an eighth of the memory to everything else */
	SHARD_SLOW_LINES = 10,   /* lines about slow requests per second */
	SHARD_REFUSED_LINES = 1, /* about PUTs without room, likewise */
	SHARD_HASH_BYTES = 1 << 20, /* of checksums per turn: about 0.1 ms */
	SHARD_SWEEP_NODES = 4096,   /* of the expiry wheel per tick */
	/* The quarantine budget of a shard: what transfers of dead clients may hold before their endpoint is closed. */
	SHARD_QUARANTINE_SHARE = 4,    /* a quarter of the memory */
	SHARD_QUARANTINE_SESSIONS = 32 /* of the 64 places for sessions that end */
};

#define SHARD_TICK_NS       100000000ull
#define SHARD_STAGE_IDLE_NS 60000000000ull  /* a PUT without progress for so long is given up */
#define SHARD_REPLY_NS      10000000000ull  /* a reply that cannot be posted for so long is dropped */
#define SHARD_REQUEST_NS    120000000000ull /* no GET or PUT is worked on for longer, whatever time it brings along */
#define SHARD_QUARANTINE_NS 5000000000ull   /* until a dead client's transfers count against the budget */

struct shard_options {
	unsigned index, shards; /* shards: of the server; 0: 1 */
	struct loop *loop;      /* that it will live on */
	uint64_t memory_bytes;
	uint32_t sessions_max, credits;
	uint64_t values_max;        /* there at a time; 0: one per KiB */
	uint64_t value_max, ttl_ns; /* ttl_ns 0: none */
	uint64_t slow_ns;           /* requests that take so long are logged; 0: none */
	bool own_thread;            /* the loop's thread is ours, and may be bound to CPUs */
	bool allow_bench, allow_pull, pull_where_safe, prefault;
	uint64_t lease_ns; /* allow_pull: how long clients may read a block */
	const struct evict_policy *policy;
	const struct kv_log *log;
	struct te_options engine;
	/* reset -- the engine lost its peers: sessions must be made anew. On the shard's loop. Not 0: it could not be
	 * told now; the shard tries again. May be NULL. */
	int (*reset)(void *arg, struct shard *s);
	/* lost -- *session_args.anew was set for a session: its client is to be told. As for reset. */
	int (*lost)(void *arg, struct shard *s);
	void *arg;
	const _Atomic uint64_t
		*control; /* counters of the control loop, by enum wire_stat, to be shown with ours; or NULL */
};

struct shard {
	struct shard_options opt;
	struct loop *loop;
	const struct kv_entropy *entropy;
	struct te *te; /* NULL once closed */
	struct te_info info;
	struct kv_area area;
	struct kv_numa_place place;
	struct te_region *region;
	struct packs packs;
	struct store store;
	struct slab requests, held, stages, hashers, waits;
	struct leases leases;
	struct te_remote arena; /* allow_pull: what clients are told of it, but for keys. Never changes: the control
				   loop reads it too */
	struct session **slot;  /* by the lower 16 bits of the session number */
	unsigned slots, session_count, owner_count; /* owners: further sessions */
	struct kv_list ending;                      /* sessions that end but have something in flight */
	struct kv_list dirty;                       /* links with a frame to send at the end of this turn */
	struct kv_list blocked;                     /* links whose replies wait for a send buffer */
	struct kv_list hashing;                     /* struct stage: bytes to sum up */
	struct kv_list hash_gets;                   /* struct request, likewise */
	struct kv_list rooms;                       /* struct put_wait: memory is being cleared; in turn */
	struct kv_list rooms_later;                 /* ... when a block in the way is free: looked at by the tick */
	struct kv_list rooms_queued; /* ... when another has ended, or a value that is being written was stored: looked
					at by the tick, too */
	struct kv_list benches;      /* struct bench with writes to start at the end of the turn */
	struct kv_list undelivered;  /* struct call */
	struct call *drained;        /* finished when no request is in flight */
	bool attached, draining, reset_due, lost_due;
	uint32_t frames, frames_max; /* reply frames begun and not sent; send buffers in all */
	uint64_t fenced_ns;
	uint32_t mark; /* of blocks counted in one walk */
	uint64_t stat[WIRE_STAT_END];
	struct kv_rate slow_lines, refused_lines;
	bool told_values; /* that there may be no more of them */
	struct loop_poller poller;
	struct loop_timer tick;
};

/* shard_create -- memory, engine, store. Thread: any one; from shard_start on the loop's only.
 * Errors: -KV_ENOMEM, and what te_open and te_region_register say. */
int shard_create(const struct shard_options *options, const struct kv_entropy *entropy, const struct kv_clock *clock,
		 struct shard **out, struct kv_error *err);

/* shard_start -- begin to poll the engine from the loop. 0 or -KV_ENOMEM. */
int shard_start(struct shard *s);

/* shard_drain -- refuse new work; finish `drained` when none is in flight. */
void shard_drain(struct shard *s, struct call *drained);

/* shard_close -- end the engine with everything in flight, and leave the loop. Sessions go as their calls are finished.
 * Not from a callback. */
void shard_close(struct shard *s);

/* shard_destroy -- the loop turns no more; every session is gone. NULL is accepted. */
void shard_destroy(struct shard **s);

/* shard_kept -- bytes of the memory that pins, stages and leases keep from eviction; what two of them keep counts
 * twice. shard_keep_left -- how many more they may keep together. */
uint64_t shard_kept(const struct shard *s);
uint64_t shard_keep_left(const struct shard *s);

/* shard_session -- by number, or NULL. */
struct session *shard_session(const struct shard *s, uint32_t number);

/* shard_arena_keys -- allow_pull: the arena's keys as ARENA has them, to be freed; of each rail, or of the one that
 * stands for it now: good for a session that was opened since. 0, -KV_ENOMEM, -KV_ECLOSED. */
int shard_arena_keys(const struct shard *s, uint8_t **out);

/* shard_stat_get -- one counter or gauge. */
uint64_t shard_stat_get(struct shard *s, enum wire_stat id);

/* shard_quarantine_check -- if transfers of clients that are gone for SHARD_QUARANTINE_NS hold more than the budget,
 * fence the one that holds most: at most once in that time. Called by the tick. */
void shard_quarantine_check(struct shard *s, uint64_t now_ns);

static inline void shard_count(struct shard *s, enum wire_stat id)
{
	s->stat[id]++;
}

/* shard_lost -- a session's client is to begin anew. */
void shard_lost(struct shard *s);

/* shard_settle -- a request went. */
void shard_settle(struct shard *s);

#endif
