/* SPDX-License-Identifier: Apache-2.0 */
/* stat.h -- the counters and gauges of a shard, as STAT returns them. The shard's thread. */
#ifndef KVRAIL_KVSERVER_SHARD_STAT_H
#define KVRAIL_KVSERVER_SHARD_STAT_H

#include <stdint.h>

#include "wire/wire.h"

struct shard;

enum { STAT_BYTES = 16 * WIRE_STAT_END }; /* of all of them, packed */

/* shard_stats -- all of them. shard_stat_get -- one. */
void shard_stats(struct shard *s, uint64_t out[WIRE_STAT_END]);
uint64_t shard_stat_get(struct shard *s, enum wire_stat id);

/* shard_stat_pairs -- all of them as packed pairs in buf[cap]; returns their number. */
uint32_t shard_stat_pairs(struct shard *s, uint8_t *buf, uint32_t cap);

#endif
