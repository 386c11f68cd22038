/* SPDX-License-Identifier: Apache-2.0 */
/* block.h -- a value with its key: what the store holds and requests refer to. */
#ifndef KVRAIL_KVSERVER_BLOCK_H
#define KVRAIL_KVSERVER_BLOCK_H

#include "base/base.h"
#include "kvserver/arena.h"
#include "kvserver/evict.h"
#include "kvserver/expire.h"
#include "kvserver/index.h"

/* BLOCK_STAGED: private to a PUT; BLOCK_LIVE: in the index; BLOCK_GONE: neither, waiting for its last reference
 * (quarantine). */
enum block_state { BLOCK_STAGED, BLOCK_LIVE, BLOCK_GONE };

struct block {
	struct index_item item; /* first: the index gives items back */
	enum block_state state;
	uint32_t refs; /* requests and transfers that use the memory */
	struct arena_block *mem;
	uint64_t len, checksum, generation;
	uint64_t mark; /* the walk that counted it last (shard.c) */
	struct evict_node evict;
	struct expire_node expire;
	struct kv_list pins; /* struct pin; a pinned block is not in the eviction policy */
};

#endif
