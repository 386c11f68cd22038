/* SPDX-License-Identifier: Apache-2.0 */
/* work.h -- what the operations of a shard have under way. For the operations: to the shard it is opaque. */
#ifndef KVRAIL_KVSERVER_OPS_WORK_H
#define KVRAIL_KVSERVER_OPS_WORK_H

#include "kvserver/ops/lease.h"
#include "kvserver/ops/pack.h"
#include "kvserver/shard/shard.h"

struct work {
	struct shard *shard;
	struct packs packs;
	struct leases leases;
	struct slab stages, hashers, waits;
	struct kv_list hashing;       /* struct stage: bytes to sum up */
	struct kv_list hash_gets;     /* struct request, likewise */
	struct kv_list rooms;         /* struct put_wait: memory is being cleared; in turn */
	struct kv_list rooms_later;   /* ... when a block in the way is free: looked at by the tick */
	struct kv_list rooms_queued;  /* ... when another has ended, or a value that is being written was stored: looked
					 at by the tick, too */
	struct kv_list benches;       /* struct bench with writes to start at the end of the turn */
	struct kv_rate refused_lines; /* about PUTs without room */
};

#endif
