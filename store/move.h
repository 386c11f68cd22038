/* SPDX-License-Identifier: Apache-2.0 */
/* move.h -- values of kept stores move to a server with other worker threads, or less memory: to the store of the shard
 * that their keys have now. A part of store.h. */
#ifndef KVRAIL_STORE_MOVE_H
#define KVRAIL_STORE_MOVE_H

#include "base/base.h"

/* A kept store: restored, with the bytes that its file describes. It stays as it is. Zero `order` before. */
struct move_from {
	struct store store;
	struct block **order; /* live blocks, the next victim first; from malloc */
	uint64_t count;
};

/* move_begin -- fill order. 0 or -KV_ENOMEM. move_end -- free it. */
int move_begin(struct move_from *f);
void move_end(struct move_from *f);

/* The empty store of a shard. */
struct move_to {
	struct store *store;
	const struct kv_area *area;
	uint32_t shard, shards;
	uint64_t now_ns;
	uint64_t moved, dropped; /* values; dropped: the next victims, beyond the memory or the limit of values */
};

/* move_values -- copy the values of `to` here, in one order of eviction, with namespaces, expiry and birth. Tombstones
 * stay behind, because they do not say which shard their keys have. Several threads may move from the same stores. */
void move_values(struct move_to *to, const struct move_from *from, unsigned count);

#endif
