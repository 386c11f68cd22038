/* SPDX-License-Identifier: Apache-2.0 */
/* publish.h -- a copy of a shard's counters for other threads. */
#ifndef KVRAIL_KVSERVER_SHARD_PUBLISH_H
#define KVRAIL_KVSERVER_SHARD_PUBLISH_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/base.h"
#include "store/store.h"
#include "wire/wire.h"

struct shard;

enum {
	TALLY_TYPES = WIRE_TYPES,
	PUBLISHED_ROWS = 32, /* namespaces, and tenants, with numbers of their own */
	PUBLISHED_NUMBERS = 7
};

enum published_kind {
	PUBLISHED_SPACES,  /* values, their bytes, GETs, hits */
	PUBLISHED_TENANTS, /* bytes charged, evictions, refusals for a limit, requests in flight, bytes read, bytes
			      pinned, bytes on the tier */
	PUBLISHED_KINDS
};

struct tally {
	uint64_t answered[TALLY_TYPES][WIRE_STATUS_MAX];
	uint64_t post[KV_METRIC_BUCKETS], serve[KV_METRIC_BUCKETS]; /* of replies: posted_ns, replied_ns */
	uint64_t asked, present;                                    /* keys of EXISTS; of them, the prefixes */
};

struct published_rail {
	_Atomic uint64_t up, bytes, errors;
	char nic[KV_NAME_MAX]; /* the engine's name for it; written once, by names_publish */
};

/* Published of each device of the tier: X(member, metric, its type, its value in struct tier_stats t, help). */
#define PUBLISHED_DEVICE(X)                                                                                            \
	X(up, "up", GAUGE, t.state != TIER_DOWN, "1 while the device of the tier works, else 0.")                      \
	X(reads, "reads_total", COUNTER, t.reads, "Reads of the device.")                                              \
	X(read_bytes, "read_bytes_total", COUNTER, t.read_bytes, "Bytes read from the device.")                        \
	X(read_ns, "read_seconds_total", COUNTER, t.read_ns, "Times of these reads, added up.")                        \
	X(writes, "writes_total", COUNTER, t.writes, "Writes to the device.")                                          \
	X(write_bytes, "write_bytes_total", COUNTER, t.write_bytes, "Bytes written to the device.")                    \
	X(value_bytes, "value_bytes_total", COUNTER, t.value_bytes, "Bytes of the values among them, once each.")      \
	X(errors, "errors_total", COUNTER, t.read_errors + t.write_errors, "Reads and writes that failed.")            \
	X(queue, "queue", GAUGE, t.queue, "Pieces of values that wait to be read, or are being read.")                 \
	X(rate_left, "rate_left_bytes", GAUGE, t.rate_left, "Bytes that --tier-rate leaves to be written now.")        \
	X(day_left, "day_left_bytes", GAUGE, t.day_left, "Bytes that --tier-day leaves to be written now.")

struct published_device {
#define FIELD(member, metric, type, value, help) _Atomic uint64_t member;
	PUBLISHED_DEVICE(FIELD)
#undef FIELD
	const char *_Atomic path; /* NULL: there is none (yet) */
};

/* A namespace or tenant. name[0..KV_SPACE_MAX] and zeros. */
struct published_row {
	char name[KV_SPACE_MAX + 8];
	uint64_t number[PUBLISHED_NUMBERS]; /* see enum published_kind */
};

enum { PUBLISHED_WORDS = sizeof(struct published_row) / sizeof(uint64_t) };

/* The first rows of a kind. turn: odd while they change. */
struct published_table {
	_Atomic uint64_t row[PUBLISHED_ROWS][PUBLISHED_WORDS], rows, turn;
};

/* The copy. One writer, the shard's thread; readers use relaxed loads. */
struct published {
	_Atomic uint64_t stat[WIRE_STAT_END];
	_Atomic uint64_t answered[TALLY_TYPES][WIRE_STATUS_MAX];
	_Atomic uint64_t post[KV_METRIC_BUCKETS], serve[KV_METRIC_BUCKETS];
	_Atomic uint64_t asked, present;
	struct published_rail rail[KV_RAILS_MAX];
	unsigned rails;
	struct published_device device[TIER_DEVICES_MAX];
	struct published_table table[PUBLISHED_KINDS];
};

/* published_make -- an empty copy in cache lines of its own; free() it. 0 or -KV_ENOMEM. */
int published_make(struct published **out);

/* shard_publish -- update the copy, if any. The shard's thread, at every tick. The first call, before others read, also
 * writes the constant values. */
void shard_publish(struct shard *s);

/* published_rows -- the first namespaces or tenants of the shard. Returns how many; 0 also while they change again and
 * again. */
unsigned published_rows(const struct published_table *t, struct published_row out[PUBLISHED_ROWS]);

#endif
