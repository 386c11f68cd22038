/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h -- the allocator of a shard's memory. It returns offsets and never touches the bytes. */
#ifndef KVRAIL_STORE_ARENA_H
#define KVRAIL_STORE_ARENA_H

#include "base/base.h"
#include "store/slab.h"

enum {
	ARENA_GRANULE = 64,   /* bytes: the unit of all offsets and sizes */
	ARENA_SPLIT_BITS = 5, /* size classes per power of two: 32 */
	ARENA_LEVELS = 48
};

/* A stretch of the arena: in use (owner set) or a hole (owner NULL). */
struct arena_block {
	uint64_t offset, size;           /* bytes */
	struct arena_block *prev, *next; /* neighbours by address; NULL at the ends */
	void *owner;
	struct kv_list node;
	uint32_t leases; /* counted by kvserver/ops/lease.c */
	uint32_t walked; /* the last walk that returned its block, or RANKING_DONE (ranking.h) */
};

/* A walk over the arena by address, over several turns. It follows blocks that join. */
struct arena_walk {
	struct kv_list node;
	struct arena_block *from, *at;
};

struct arena {
	uint64_t limit, used; /* bytes, in whole granules */
	struct arena_block *first;
	struct slab blocks;
	struct kv_list walks;
	uint64_t level_map;
	uint32_t class_map[ARENA_LEVELS];
	struct kv_list holes[ARENA_LEVELS][1 << ARENA_SPLIT_BITS];
};

/* arena_init -- an empty arena over limit bytes, rounded down to a granule, for at most blocks_max blocks in use.
 * Returns 0, -KV_EINVAL (less than a granule) or -KV_ENOMEM. */
int arena_init(struct arena *a, uint64_t limit, uint32_t blocks_max);
void arena_fini(struct arena *a);

enum arena_end { ARENA_LOW, ARENA_HIGH };

/* arena_alloc -- size bytes, at least 1 and rounded up to a granule, at this end of a hole. owner: not NULL. Returns
 * NULL if no hole fits. O(1). */
struct arena_block *arena_alloc(struct arena *a, uint64_t size, void *owner, enum arena_end end);

/* arena_place -- size bytes at this offset of a hole. The rest of the hole, before and behind, stays. NULL: no
 * descriptor is left. */
struct arena_block *arena_place(struct arena *a, struct arena_block *hole, uint64_t offset, uint64_t size, void *owner);

/* arena_free -- turn a block into a hole, joined with its neighbours. Returns that hole, valid until the next call. */
struct arena_block *arena_free(struct arena *a, struct arena_block *b);

/* arena_take -- like arena_alloc, from this hole, which is large enough. NULL: no descriptor is left. */
struct arena_block *arena_take(struct arena *a, struct arena_block *hole, uint64_t size, void *owner,
			       enum arena_end end);

/* arena_join -- join b and the block behind it, both in use. Nothing may refer to the second one. */
void arena_join(struct arena *a, struct arena_block *b);

/* arena_walk_begin -- begin at this block. arena_walk_end -- end it; a zeroed walk is fine. */
void arena_walk_begin(struct arena *a, struct arena_walk *w, struct arena_block *from);
void arena_walk_end(struct arena_walk *w);

static inline uint64_t arena_round(uint64_t size)
{
	return kv_align_up(size, ARENA_GRANULE);
}

static inline uint64_t arena_free_bytes(const struct arena *a)
{
	return a->limit - a->used;
}

#endif
