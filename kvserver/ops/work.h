/* SPDX-License-Identifier: Apache-2.0 */
/* work.h -- struct work: the state of the operations of one shard, opaque to the shard. */
#ifndef KVRAIL_KVSERVER_OPS_WORK_H
#define KVRAIL_KVSERVER_OPS_WORK_H

#include "kvserver/ops/lease.h"
#include "kvserver/ops/pack.h"
#include "kvserver/ops/put_memory.h"
#include "kvserver/ops/tier.h"
#include "kvserver/shard/shard.h"

struct work {
	struct shard *shard;
	struct packs packs;
	struct leases leases;
	struct slab stages, hashers, waits;
	struct kv_list hashing;            /* struct stage: bytes to sum */
	struct kv_list hash_gets;          /* struct request, likewise */
	struct kv_list rooms[WAIT_STATES]; /* struct put_wait, by state */
	struct kv_rate refused_lines;      /* about PUTs without room */
	struct kv_rate damaged_lines;      /* about values damaged in memory */
	struct heat heat;                  /* of the keys found by GETs */
	struct shard_tier *tier;           /* NULL: none */
};

#endif
