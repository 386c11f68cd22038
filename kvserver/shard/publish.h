/* SPDX-License-Identifier: Apache-2.0 */
/* publish.h -- the counters of a shard where any thread may read them. */
#ifndef KVRAIL_KVSERVER_SHARD_PUBLISH_H
#define KVRAIL_KVSERVER_SHARD_PUBLISH_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/base.h"
#include "wire/wire.h"

struct shard;

enum { TALLY_TYPES = WIRE_PROVE + 1 };

/* What a shard counts for metrics and not for STAT. */
struct tally {
	uint64_t answered[TALLY_TYPES][WIRE_STATUS_MAX];            /* replies, by enum wire_type and wire_status */
	uint64_t post[KV_METRIC_BUCKETS], serve[KV_METRIC_BUCKETS]; /* of replies: posted_ns, replied_ns */
	uint64_t asked, present;                                    /* keys of EXISTS; of them, the prefixes */
};

struct published_rail {
	_Atomic uint64_t up, bytes, errors;
	char nic[KV_NAME_MAX]; /* as the engine calls it; written once, by published_name */
};

/* The copy. One writer, the shard's thread; readers take each number as it is, with a relaxed load. */
struct published {
	_Atomic uint64_t stat[WIRE_STAT_END];
	_Atomic uint64_t answered[TALLY_TYPES][WIRE_STATUS_MAX];
	_Atomic uint64_t post[KV_METRIC_BUCKETS], serve[KV_METRIC_BUCKETS];
	_Atomic uint64_t asked, present;
	struct published_rail rail[KV_RAILS_MAX];
	unsigned rails;
};

/* published_make -- an empty copy, with lines of its own; free() it. 0 or -KV_ENOMEM. */
int published_make(struct published **out);

/* shard_publish -- bring the copy up to date, if there is one. The shard's thread, at every tick. The first call,
 * before others may read, also writes what does not change. */
void shard_publish(struct shard *s);

#endif
