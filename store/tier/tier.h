/* SPDX-License-Identifier: Apache-2.0 */
/* tier.h -- the NVMe tier of a shard: values that memory has no room for, on one or more devices. No I/O of its own
 * (device.h); one thread, the shard's; no clock of its own.
 *
 * Writes: tier_turn copies the values that will leave memory next into write buffers of 1 MiB, ahead of their eviction,
 * and submits them front to back, at most TIER_WRITES at a time. A value that must leave before is lost (counted).
 * Reads: tier_get finds the record, makes room in memory, reads, compares the whole key and the checksum, and commits a
 * block that was born when the value was. All who ask for a key share one read.
 * Keys are of the namespace that the store has entered. Records of its earlier generations are not found; their index
 * entries are dropped some at a time, their bytes with their segment. What the devices know of generations becomes the
 * store's when the first turns have read it.
 * A device that errors or stalls is a missing tier: misses, and a new attempt after a while. */
#ifndef KVRAIL_STORE_TIER_TIER_H
#define KVRAIL_STORE_TIER_TIER_H

#include "store/tier/device.h"
#include "store/tier/fifo.h"
#include "store/tier/format.h"

struct store;
struct block;
struct space;
struct verdict;
struct tier;

enum {
	TIER_BUFFER = 1 << 20, /* bytes of a write */
	TIER_WRITES = 4,       /* write buffers of a device and shard, in flight or being filled */
	TIER_READ = 256 << 10, /* bytes of a read; a larger value has several at once */
	TIER_READS = 16,       /* in flight, per device and shard */
	TIER_GETS_MAX = 1024,  /* values being read or waiting for it, per shard */
	TIER_ERRORS_MAX = 3,   /* in a row: then the device is down */
	TIER_SEGMENT_DEFAULT = 64 << 20
};

#define TIER_STALL_NS     5000000000ull /* without a completion, then the device is down */
#define TIER_AGAIN_NS     1000000000ull /* until the first new attempt; doubled after each, up to */
#define TIER_AGAIN_MAX_NS 60000000000ull
#define TIER_LINGER_NS    20000000ull /* a buffer with room left is written after this time without a new value */

/* READING: superblock and footers; then UP. DOWN: no reads, no writes, until `again`. */
enum tier_device_state { TIER_READING, TIER_UP, TIER_DOWN };

/* Counters and gauges of one device and shard; bytes are on the device. */
struct tier_stats {
	uint64_t state;                      /* enum tier_device_state */
	uint64_t reads, read_bytes, read_ns; /* completed transfers, and the sum of their times */
	uint64_t writes, write_bytes, write_ns;
	uint64_t read_errors, write_errors;
	uint64_t damaged;        /* records whose key, head or checksum was not the expected */
	uint64_t queue;          /* reads waiting or in flight, now */
	uint64_t writes_now;     /* in flight, now */
	uint64_t values_written; /* records, without those written again */
	uint64_t values_kept;    /* written again before their segment was reused */
	uint64_t value_bytes;    /* of values_written; write_bytes / value_bytes: the amplification of writes */
	uint64_t segments, segments_used;
	uint64_t rate_left, day_left; /* of the budgets, bytes; UINT64_MAX: none */
	uint64_t downs;               /* times it was declared down */
	uint64_t bytes;               /* capacity */
};

/* Of the tier of one shard. */
struct tier_totals {
	uint64_t hits, misses; /* of tier_get: records found, keys without one */
	uint64_t busy;         /* found, but not in time */
	uint64_t failed;       /* found, but not read: damaged, device down, no memory */
	uint64_t shared;       /* requests that shared a read of another */
	uint64_t lost;         /* values that left memory without being on the tier, though admitted */
	uint64_t refused;      /* values not admitted */
	uint64_t deletes;      /* records dropped by DELETE, TOUCH or a new value */
	uint64_t records;      /* now */
	uint64_t index_bytes;  /* now */
	uint64_t recovered;    /* records found at the start */
};

struct tier_options {
	unsigned shard, shards;
	uint64_t segment_bytes; /* TIER_SEGMENT_MIN to TIER_SEGMENT_MAX, a multiple of TIER_BUFFER */
	enum tier_admit admit;
	uint64_t rate_bytes;          /* written per second and device of this shard; 0: no limit */
	uint64_t day_bytes;           /* per day, likewise */
	bool members;                 /* the server is one of a cluster: the device gets all deletions (log.c) */
	uint64_t key_seed;            /* the digests' */
	uint64_t silent_ns;           /* how long ago the devices were last written */
	uint64_t now_ns, wall_us;     /* both clocks now; the wall clock (since 1970) is never read again */
	const struct kv_area *area;   /* kv_area_ready is called for it before memory is written; or NULL */
	uint64_t ahead_bytes;         /* memory whose next victims are written ahead; 0: a sixteenth */
	uint32_t records_max;         /* 0: what the devices have room for */
	const struct kv_clock *clock; /* the shard's */
	const struct kv_entropy *entropy;
	const struct kv_log *log;
};

/* tier_create -- over `count` devices, which outlive it; their footers are read from the first turn on. `store` calls
 * back at evictions.
 * Errors: -KV_EINVAL (a device too small for TIER_SEGMENTS_MIN segments: *err has the size needed), -KV_ENOMEM.
 * tier_destroy -- after tier_stop. With transfers in flight its memory is not freed. NULL is accepted. */
int tier_create(const struct tier_options *options, struct store *store, struct tier_device *const *devices,
		unsigned count, struct tier **out, struct kv_error *err);
void tier_destroy(struct tier **tier);

/* ---- reads ---- */

/* What became of a read. HERE: the block is in memory, live now. GONE: it is not: a miss. */
enum tier_end { TIER_HERE, TIER_GONE };

/* One who waits for a key. Zero it, set `end` and `arg`. */
struct tier_wait {
	struct kv_list node;
	void (*end)(struct tier_wait *w, enum tier_end how); /* once, in tier_turn or a completion; may start others */
	void *arg;
	struct tier_get *get; /* NULL: it does not wait */
};

/* tier_get -- read the value of a key, which memory does not have, by deadline_ns. 0: w waits. -KV_ENOTFOUND: the tier
 * does not have it. -KV_ETIMEOUT: it does, but reading it would take longer. -KV_EBUSY: it does, but no memory or place
 * in the queue is free. tier_get_cancel -- w does not wait any longer; the read continues if others do. */
int tier_get(struct tier *t, const void *key, size_t key_len, uint64_t deadline_ns, uint64_t now_ns,
	     struct tier_wait *w);
void tier_get_cancel(struct tier *t, struct tier_wait *w);

/* tier_has -- whether the tier has the key, by its hash in the store's index (which has it from a digest as well). */
bool tier_has(const struct tier *t, uint64_t hash, uint64_t now_ns);

/* tier_look -- whether the tier has the key; *out_expires_ns: the end of its life, to the second, or KV_NEVER. */
bool tier_look(struct tier *t, const void *key, size_t key_len, uint64_t now_ns, uint64_t *out_expires_ns);

/* ---- changes ---- */

/* One who waits until deletions are safe: after a crash the values do not come back. Zero it, set `end` and `arg`. */
struct tier_safe {
	struct kv_list node;
	/* Once, not within tier_safe_wait. rc: 0; or -EIO: a device failed, and values may return after a crash. */
	void (*end)(struct tier_safe *s, int rc);
	void *arg;
	uint64_t mark; /* 0: it does not wait */
};

/* tier_delete -- the key's value on the tier is deleted. *out_was: whether there was one. 0: safe; -EAGAIN: not yet,
 * see tier_safe_wait; -EIO: deleted here, but it may return after a crash, since its device has failed. tier_touch --
 * the value of a key lives until expires_ns (KV_NEVER: for ever); safe as tier_delete, if its life becomes shorter.
 * tier_shorten -- the same if that is earlier than now: the caller means an earlier value, and a record has no birth.
 */
int tier_delete(struct tier *t, const void *key, size_t key_len, uint64_t now_ns, bool *out_was);
int tier_touch(struct tier *t, const void *key, size_t key_len, uint64_t expires_ns, uint64_t now_ns, bool *out_was);
int tier_shorten(struct tier *t, const void *key, size_t key_len, uint64_t expires_ns, uint64_t now_ns, bool *out_was);

/* tier_cleared -- the store has just cleared this namespace, or given it a higher generation. Safe as tier_delete. */
int tier_cleared(struct tier *t, const struct space *sp, uint64_t now_ns);

/* tier_safe_wait -- after -EAGAIN: wait for all deletions so far. tier_safe_cancel -- s->end will not be called. */
void tier_safe_wait(struct tier *t, struct tier_safe *s);
void tier_safe_cancel(struct tier *t, struct tier_safe *s);

/* tier_stored -- a new value of this block's key was committed by a PUT, so an older one on the tier is void. With
 * TIER_ADMIT_PUT it will be written soon. tier_evicted -- the block leaves memory now; the store calls it. */
void tier_stored(struct tier *t, const struct block *b, uint64_t now_ns);
void tier_evicted(void *tier, const struct block *b);

/* tier_members -- the names (tier_member_name) of the cluster's members, and of those that left lately, for the next
 * process; copied. tier_remembers -- the deletions that earlier processes logged are among the store's tombstones:
 * until then, the store's do not say what was deleted. */
void tier_members(struct tier *t, const uint64_t *names, uint32_t count);
bool tier_remembers(const struct tier *t);

/* tier_judge -- other servers deleted these keys while this one was away (store_judge): their records are dropped.
 * NULL: all records are. While store->doubt waits, and until this is done, the tier is empty. Blocks are written only
 * if the doubt does not stand against them (store_good). */
void tier_judge(struct tier *t, const struct verdict *verdict, uint32_t count);

/* ---- work ---- */

/* tier_turn -- a bounded part of the work: copy values into write buffers (1 MiB at most), submit, take completed reads
 * (1 MiB). Returns the amount done. tier_active -- whether there is more without waiting. tier_tick -- about every 100
 * ms: time limits, budgets, new attempts. */
int tier_turn(struct tier *t, uint64_t now_ns);
bool tier_active(const struct tier *t);
void tier_tick(struct tier *t, uint64_t now_ns);

/* tier_flush -- for a server that will stop: values with hits are written as well, hottest first, until tier_flushed
 * returns true: all is written, footers included, or the devices are down. Reads continue. */
void tier_flush(struct tier *t, uint64_t now_ns);
bool tier_flushed(const struct tier *t);

/* tier_stop -- the devices are about to be closed: every wait ends with TIER_GONE, and no transfer is begun. */
void tier_stop(struct tier *t);

/* tier_flying -- transfers in flight. */
unsigned tier_flying(const struct tier *t);

unsigned tier_devices(const struct tier *t);
void tier_stats(const struct tier *t, unsigned device, struct tier_stats *out);
void tier_totals(const struct tier *t, struct tier_totals *out);
bool tier_reading(const struct tier *t); /* footers are still being read: more records may appear */

#endif
