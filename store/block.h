/* SPDX-License-Identifier: Apache-2.0 */
/* block.h -- a block: a stored value with its key, its states and its references. */
#ifndef KVRAIL_STORE_BLOCK_H
#define KVRAIL_STORE_BLOCK_H

#include "base/base.h"
#include "store/arena.h"
#include "store/evict.h"
#include "store/expire.h"
#include "store/index.h"

/* BLOCK_STAGED: private to a PUT; BLOCK_LIVE: in the index; BLOCK_GONE: neither, waiting for its last reference
 * (quarantine). */
enum block_state { BLOCK_STAGED, BLOCK_LIVE, BLOCK_GONE };

enum { BLOCK_REFS_MAX = (1 << 26) - 1 };

/* A GET reads two neighbouring cache lines of it (three if the key is longer than 55 bytes) and, for eviction and
 * expiry, the last one: with a million blocks each line is a miss. */
struct block {
	uint64_t len, checksum, generation;
	uint64_t offset;     /* in the arena: what mem says, too, but a GET does not look at mem */
	struct kv_list pins; /* struct pin; a pinned block is not in the eviction policy */
	uint32_t mark;       /* the walk that counted it last (kvserver: quarantine.c) */
	uint32_t refs : 26;  /* requests, replies, leases, stages and lanes of BENCH that use the memory: see
			      * BLOCK_REFS_MAX */
	uint32_t sure : 4;   /* the round of doubts in which it came or was found good (doubt.h) */
	enum block_state state : 2;
	struct arena_block *mem;
	struct index_item item; /* the second cache line: hash, length, key */
	struct evict_node evict;
	struct expire_node expire;
};

/* When the value was put, in microseconds of the shard's clock. Of a copy: not later than that. It lies where the item
 * would be padded, in the cache line of eviction and expiry. */
static inline uint64_t block_born_ns(const struct block *b)
{
	uint64_t us = 0;

	memcpy(&us, b->item.of_owner, sizeof(b->item.of_owner));
	return us * 1000;
}

static inline void block_born_at(struct block *b, uint64_t born_ns)
{
	uint64_t us = born_ns / 1000;

	memcpy(b->item.of_owner, &us, sizeof(b->item.of_owner));
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(struct index_item) == 8 + 1 + KV_KEY_MAX + 7,
	       "the time of birth takes no room of its own");
_Static_assert(offsetof(struct block, item) == KV_CACHELINE,
	       "the index compares keys in the block's second cache line");
_Static_assert(offsetof(struct block, evict) / KV_CACHELINE == (sizeof(struct block) - 1) / KV_CACHELINE,
	       "eviction and expiry share the last cache line");

struct store;

static inline bool block_evictable(const struct block *b)
{
	return b->state == BLOCK_LIVE && b->refs == 0 && kv_list_empty(&b->pins);
}

/* block_may_go -- searches of the policy ask this: whether nothing refers to the block. */
bool block_may_go(const struct evict_node *n);

/* block_ref -- one more user of the memory. block_unref -- one less: with the last reference a block that is GONE is
 * freed, and another one may be evicted again. */
static inline void block_ref(struct block *b)
{
	b->refs++;
}

void block_unref(struct store *s, struct block *b);

/* block_retire -- a staged or live block becomes invisible: it leaves index, policy, expiry and pins, and is GONE and
 * counted so. block_free -- of a block that is GONE and that nothing refers to. Returns the hole that it leaves. */
void block_retire(struct store *s, struct block *b);
struct arena_block *block_free(struct store *s, struct block *b);

/* block_evict -- remember, retire and free a block that block_evictable says yes to. Returns the hole that it leaves.
 */
struct arena_block *block_evict(struct store *s, struct block *b);

#endif
