/* SPDX-License-Identifier: Apache-2.0 */
/* block.h -- a block: a stored value with its key, its states and its references. */
#ifndef KVRAIL_STORE_BLOCK_H
#define KVRAIL_STORE_BLOCK_H

#include "base/base.h"
#include "store/arena.h"
#include "store/evict.h"
#include "store/expire.h"
#include "store/index.h"
#include "store/space.h"

/* STAGED: private to a PUT. LIVE: in the index. GONE: in quarantine until its last reference ends. */
enum block_state { BLOCK_STAGED, BLOCK_LIVE, BLOCK_GONE };

enum { BLOCK_REFS_MAX = (1 << 26) - 1 };

/* The fields of a GET lie in two neighbouring cache lines, or three with a key of more than 55 bytes. Eviction and
 * expiry use the last line. */
struct block {
	uint64_t len, checksum, generation;
	uint64_t offset;                 /* in the arena; a copy, so that a GET does not read mem */
	struct kv_list pins;             /* struct pin; then the policy does not have the block */
	uint32_t mark : 32 - SPACE_BITS; /* the last walk that counted it (kvserver: quarantine.c) */
	uint32_t space : SPACE_BITS;     /* its namespace (spaces.at) */
	uint32_t refs : 26;              /* requests, replies, leases and stages that use the memory */
	uint32_t sure : 4;               /* the last round of doubts that it passed (doubt.h) */
	enum block_state state : 2;
	struct arena_block *mem;
	struct index_item item; /* second cache line: hash, length, key */
	struct evict_node evict;
	struct expire_node expire;
};

/* When the value was put, in microseconds of the shard's clock; a copy has that time or an earlier one. */
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

/* block_may_go -- whether nothing refers to the block, for searches of the policy. */
bool block_may_go(const struct evict_node *n);

/* block_hash_now -- the hash of its key in the present generation of its space. block_current -- whether it is of that
 * generation. */
uint64_t block_hash_now(const struct store *s, const struct block *b);
bool block_current(const struct store *s, const struct block *b);

/* block_again -- whether the key of a block of an earlier generation has a block of the present one. */
bool block_again(const struct store *s, const struct block *b);

/* block_ref -- add a user of the memory. block_unref -- remove one. After the last one a GONE block is freed, and any
 * other may be evicted again. */
static inline void block_ref(struct block *b)
{
	b->refs++;
}

void block_unref(struct store *s, struct block *b);

/* block_retire -- make a staged or live block GONE: it leaves index, policy, expiry and pins. block_free -- free a GONE
 * block without references. Returns the hole. */
void block_retire(struct store *s, struct block *b);
struct arena_block *block_free(struct store *s, struct block *b);

/* block_evict -- remember, retire and free a block_evictable block. Returns the hole. */
struct arena_block *block_evict(struct store *s, struct block *b);

#endif
