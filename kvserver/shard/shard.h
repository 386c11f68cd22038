/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h -- a shard: one data loop of the server, with an engine, a part of the memory, and its attachments. */
#ifndef KVRAIL_KVSERVER_SHARD_SHARD_H
#define KVRAIL_KVSERVER_SHARD_SHARD_H

#include "engine/engine.h"
#include "host/host.h"
#include "kvserver/shard/doubt.h"
#include "kvserver/shard/kept.h"
#include "kvserver/shard/landing.h"
#include "kvserver/shard/publish.h"
#include "store/store.h"
#include "loop/loop.h"
#include "wire/wire.h"

enum {
	SHARD_REQUESTS_MAX = 65536,
	SHARD_SLOW_LINES = 10,      /* log lines about slow requests per second */
	SHARD_REFUSED_LINES = 1,    /* about PUTs without room, likewise */
	SHARD_DAMAGED_LINES = 1,    /* about values damaged in memory, likewise */
	SHARD_HASH_BYTES = 1 << 20, /* of checksums per turn: about 0.1 ms */
	SHARD_SWEEP_NODES = 4096,   /* of the expiry wheel per tick */
	/* Quarantine budget: the memory that transfers of dead clients may hold before their endpoint is closed. */
	SHARD_QUARANTINE_SHARE = 4,       /* a quarter of the memory */
	SHARD_QUARANTINE_ATTACHMENTS = 32 /* of the 64 places for ending attachments */
};

#define SHARD_TICK_NS       100000000ull
#define SHARD_LOOK_NS       2000000000ull   /* interval of checks that the machine still has the endpoints' addresses */
#define SHARD_STAGE_IDLE_NS 60000000000ull  /* a PUT without progress for this time is dropped */
#define SHARD_REPLY_NS      10000000000ull  /* a reply that cannot be posted within this time is dropped */
#define SHARD_REQUEST_NS    120000000000ull /* maximum time for a GET or PUT, whatever its deadline */
#define SHARD_QUARANTINE_NS 5000000000ull   /* until a dead client's transfers count against the budget */
#define SHARD_CLOSE_NS      6000000000ull   /* for files to answer */
#define SHARD_STALL_NS      300000000ull    /* until they are fenced where they block all others */

struct call;
struct request;
struct link;
struct session;
struct shard_attachment;
struct shard_local;
struct shard;
struct tenants;
struct tenant_orders;
struct work;

/* begin_fn -- a record of this type came by a link: answer at once, or begin a request. *q's pointers lie in the frame,
 * valid during the call. */
typedef void begin_fn(struct link *l, const struct wire_request *q, uint64_t now_ns);

/* The operations (ops/) for a shard: one const table. All functions run on the shard's thread, none parks, and none may
 * be NULL except in `begin`. */
struct shard_ops {
	/* By type. RELEASE and CANCEL come without credits as well, the others only with them; SESSION and PROVE never
	 * come. The id is new, except for RELEASE, which has none. */
	begin_fn *begin[WIRE_TYPES];
	/* attachment_stop -- the attachment takes no more requests, or has other addresses: drop incoming values.
	 * attachment_left -- it ends, and its client may not know. attachment_idle -- its client says goodbye, and
	 * reads nothing any more. attachment_tick -- now and then, while it is open. session_end -- as attachment_stop,
	 * for one of its sessions. */
	void (*attachment_stop)(struct shard_attachment *s);
	void (*attachment_left)(struct shard_attachment *s);
	void (*attachment_idle)(struct shard_attachment *s);
	void (*attachment_tick)(struct shard_attachment *s, uint64_t now_ns);
	void (*session_end)(struct shard_attachment *s, const struct session *o);
	/* local_released -- a local client gives a lease back; false: it has no such lease. local_end -- its socket is
	 * closed: end at most `budget` of its leases, and return how many. */
	bool (*local_released)(struct shard_local *l, uint64_t lease);
	unsigned (*local_end)(struct shard_local *l, unsigned budget);
	/* turn -- do a bounded part of the work that takes several turns; returns its amount. active -- whether there
	 * is more. tick -- every SHARD_TICK_NS. */
	int (*turn)(struct shard *s);
	bool (*active)(const struct shard *s);
	void (*tick)(struct shard *s);
	/* judged -- as store_judge, which was called before. */
	void (*judged)(struct shard *s, const struct verdict *verdict, uint32_t count);
	/* saving -- the shard drains: begin or continue to save values for a later start. Whether there are more. */
	bool (*saving)(struct shard *s);
	/* busy -- after close: whether reads or writes of files are in flight. */
	bool (*busy)(const struct shard *s);
	/* device -- the counters of the tier's device i, and its path; NULL: there is none. */
	const char *(*device)(const struct shard *s, unsigned i, struct tier_stats *out);
	/* stats -- the gauges of the operations, by enum wire_stat. */
	void (*stats)(const struct shard *s, uint64_t *out);
	/* open -- make s->work, with engine, store and s->region ready. 0, or a code with *err. close -- the engine is
	 * closed. clear -- release their references in the store. destroy -- free s->work; also when `open` failed or
	 * was never called. */
	int (*open)(struct shard *s, struct kv_error *err);
	void (*close)(struct shard *s);
	void (*clear)(struct shard *s);
	void (*destroy)(struct shard *s);
};

/* reset -- the engine lost its peers: attachments must be renewed. lost -- *shard_attachment_args.anew was set for an
 * attachment: inform its client. On the shard's loop. Not 0: not possible now; the shard retries. May be NULL. */
struct shard_reports {
	int (*reset)(void *arg, struct shard *s);
	int (*lost)(void *arg, struct shard *s);
	void *arg;
};

struct shard_options {
	unsigned index, shards; /* shards: of the server; 0: 1 */
	struct loop *loop;      /* its future loop */
	uint64_t memory_bytes;
	uint64_t shard_seed;
	uint32_t attachments_max, credits;
	uint64_t values_max;
	/* ttl_ns 0: none. slow_ns: requests at least this slow are logged; 0: none. shard_rates_set changes both at run
	 * time. */
	uint64_t value_max, ttl_ns, slow_ns;
	bool own_thread; /* the loop's thread is ours, and may be bound to CPUs */
	bool allow_pull, pull_where_safe, prefault;
	bool publish;       /* keep a copy of the counters for other threads (publish.h) */
	bool arena_private; /* no other process may map the memory for values */
	const struct kept_options *kept;
	uint64_t landing_bytes; /* for PUTs of all clients; 0: none */
	uint64_t lease_ns;      /* allow_pull: how long clients may read a block */
	const struct shard_ops *ops;
	const struct evict_policy *policy;
	const struct kv_log *log;
	struct te_options engine;
	struct shard_reports reports;
	struct journal *journal;
	struct doubt_orders *doubt;
	struct tenant_orders *tenants;       /* likewise */
	const struct tier_files *tier_files; /* NULL: no tier */
	struct tier_options tier;            /* all but what a shard knows by itself */
	const _Atomic uint64_t *control;
};

struct lease_holder {
	struct kv_list leases; /* struct lease */
	uint32_t count;
	uint64_t bytes; /* of the arena; leases of one block count once if they are near (ops/lease.c) */
};

struct shard_locals {
	struct kv_list all; /* struct shard_local, in the order of their places */
	unsigned count;
	unsigned active;
	uint64_t places;        /* given so far */
	uint64_t landing_bytes; /* of their landing areas */
	uint64_t landing_limit;
};

/* The attachments of a shard (attachment.c), by the lower 16 bits of their numbers. */
struct attachments {
	struct shard_attachment **slot;
	unsigned slots, count, sessions; /* sessions: further sessions */
	struct kv_list ending;           /* with operations in flight */
};

struct replies {
	struct kv_list dirty;
	struct kv_list blocked;
	struct slab held; /* such replies */
	uint32_t frames, frames_max;
};

struct calls {
	struct kv_list undelivered; /* struct call */
	struct call *drained;       /* finished when no request is in flight */
	struct call *closed;        /* finished when nothing of the closed shard is in flight, */
	uint64_t closed_ns;         /* or SHARD_CLOSE_NS after this */
	bool reset_due, lost_due;
};

struct shard_doubt {
	struct loop_poller first; /* before the engine's: detects that this thread stood still */
	uint64_t turned_ns;       /* its last turn */
	uint64_t late_ns;         /* the last turn before this thread stood still; 0: judged */
	uint64_t number;
	struct doubt_verdicts *verdicts;
};

/* Counters, and the copy of them for other threads (stat.c, publish.c). */
struct counts {
	uint64_t of[WIRE_STAT_END];
	struct tally tally;
	struct published *published; /* or NULL */
	struct kv_rate slow_lines;
	bool values_logged;
};

/* Its place in the loop (shard.c). */
struct shard_turns {
	struct loop_poller poller;
	struct loop_timer tick;
	bool attached;
	uint64_t look_ns; /* next check of the addresses (SHARD_LOOK_NS) */
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
	struct te_remote arena; /* allow_pull: its announcement without keys. Constant: the control loop reads it too */
	struct store store;
	struct shard_kept kept; /* opt.kept */
	struct slab requests;
	uint64_t leased_bytes; /* of the arena, in blocks that clients may read by themselves */
	struct landings landings;
	struct shard_locals locals;
	struct work *work;
	/* Set by an operation that gathers requests; called when all records of a frame, or of one session in it, were
	 * taken. The function resets it to NULL. */
	void (*records_end)(struct shard *s);
	struct attachments attachments;
	struct replies replies;
	struct calls calls;
	struct shard_doubt doubt;
	struct tenants *tenants; /* the table; NULL: none */
	uint64_t tenants_number;
	struct counts counts;
	bool draining;
	uint64_t born_ns;
	uint64_t fenced_ns;
	uint32_t mark : 32 - SPACE_BITS; /* of blocks counted in one walk */
	struct shard_turns turns;
};

/* shard_create -- memory, engine, store. Thread: any one; from shard_start on the loop's only. Errors: -KV_ENOMEM, and
 * those of te_open and te_region_register. */
int shard_create(const struct shard_options *options, const struct kv_entropy *entropy, const struct kv_clock *clock,
		 struct shard **out, struct kv_error *err);

/* shard_start -- begin to poll the engine from the loop. 0 or -KV_ENOMEM. */
int shard_start(struct shard *s);

/* shard_rates_set -- change the default time to live and slow_ns. Thread: any. shard_ttl_ns -- the present one. */
static inline void shard_rates_set(struct shard *s, uint64_t ttl_ns, uint64_t slow_ns)
{
	__atomic_store_n(&s->opt.ttl_ns, ttl_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&s->opt.slow_ns, slow_ns, __ATOMIC_RELAXED);
}

static inline uint64_t shard_ttl_ns(const struct shard *s)
{
	return __atomic_load_n(&s->opt.ttl_ns, __ATOMIC_RELAXED);
}

/* shard_drain -- refuse new work; finish `drained` when none is in flight. */
void shard_drain(struct shard *s, struct call *drained);

/* shard_close -- end the engine with everything in flight, and leave the loop. Attachments are freed as their calls
 * finish. Not from a callback. */
void shard_close(struct shard *s);

/* shard_closed -- after shard_close: finish the call when no file is read or written any more. */
void shard_closed(struct shard *s, struct call *closed);

/* shard_destroy -- after the loop has stopped and every attachment is freed. NULL is accepted. */
void shard_destroy(struct shard **s);

/* shard_arena_keys -- allow_pull: the arena's keys for an ARENA message, to be freed: of each rail, or of the one that
 * stands for it now. Valid for later attachments. 0, -KV_ENOMEM, -KV_ECLOSED. */
int shard_arena_keys(const struct shard *s, uint8_t **out);

/* shard_clock -- a time of the shard's clock as clients see it, with another zero, so that it is not taken for a time
 * of another clock. shard_clock_local -- the reverse; 0: before that zero. */
static inline uint64_t shard_clock(uint64_t shard_seed, uint64_t now_ns)
{
	return now_ns + (shard_seed >> 24) + 1;
}

static inline uint64_t shard_clock_local(const struct shard *s, uint64_t client_ns)
{
	uint64_t zero = shard_clock(s->opt.shard_seed, 0);
	return client_ns > zero ? client_ns - zero : 0;
}

/* shard_key_text -- a key for the log. With tenants it is theirs, and not the operator's. */
static inline const char *shard_key_text(const struct shard *s, const void *key, size_t len, char text[KV_KEY_TEXT])
{
	return s->tenants ? "(of a tenant)" : kv_key_text(key, len, text);
}

static inline void shard_count(struct shard *s, enum wire_stat id)
{
	s->counts.of[id]++;
}

/* shard_kept -- bytes that pins, stages and leases protect from eviction; counted twice if two do. shard_keep_left --
 * how many more bytes they may protect together. */
static inline uint64_t shard_kept(const struct shard *s)
{
	return s->store.pinned_bytes + s->store.staged_bytes + s->leased_bytes;
}

static inline uint64_t shard_keep_left(const struct shard *s)
{
	uint64_t budget = kept_part(KEPT_ALL, s->store.arena.limit), kept = shard_kept(s);
	return budget > kept ? budget - kept : 0;
}

#endif
