/* SPDX-License-Identifier: Apache-2.0 */
/* index.h -- a shard's index from key to item. It owns its slots, never the items. */
#ifndef KVRAIL_STORE_INDEX_H
#define KVRAIL_STORE_INDEX_H

#include "base/base.h"
#include "host/host.h"

/* The part of an item that the index reads. It neither moves nor changes while it is in the index. */
struct index_item {
	uint64_t hash;
	uint8_t key_len;
	uint8_t key[KV_KEY_MAX];
	uint8_t of_owner[7]; /* free for the item's owner (block.h) */
};

struct index_slot {
	uint64_t hash;
	struct index_item *item; /* NULL: empty */
};

struct index_table {
	struct index_slot *slots; /* a power of two */
	uint64_t mask, count;
	struct kv_area area; /* their memory; zeroed: the heap */
};

struct index {
	struct index_table now, old; /* old: its items move while the index grows */
	uint64_t cursor;
	uint64_t seed, digest_seed;
};

/* index_init -- an empty index. seed is secret, digest_seed is not. Returns 0 or -KV_ENOMEM. */
int index_init(struct index *ix, uint64_t seed, uint64_t digest_seed);
void index_fini(struct index *ix);

/* index_digest_hash, index_hash -- the hash of a digest or key: the digest is public, the seed secret, so that nobody
 * can predict neighbouring slots. */
static inline uint64_t index_digest_hash(const struct index *ix, uint64_t digest)
{
	/* XXH3's mix of 8 bytes, inline: an EXISTS has hundreds of digests. */
	uint64_t h = digest ^ ix->seed;
	h ^= (h << 49 | h >> 15) ^ (h << 24 | h >> 40);
	h *= 0x9FB21C651E98DF25u;
	h ^= (h >> 35) + sizeof(h);
	h *= 0x9FB21C651E98DF25u;
	return h ^ h >> 28;
}

static inline uint64_t index_hash(const struct index *ix, const void *key, size_t len)
{
	return index_digest_hash(ix, kv_hash_key(key, len, ix->digest_seed));
}

/* index_reserve -- room for count items in an empty index, which then does not grow before. 0 or -KV_ENOMEM. */
int index_reserve(struct index *ix, uint64_t count);

/* index_find -- the item with exactly this key, or NULL. */
struct index_item *index_find(const struct index *ix, uint64_t hash, const void *key, size_t len);

/* index_prefetch -- start loading the slot of this hash. index_peek -- the item with this hash, or NULL; its key is not
 * compared. */
static inline void index_prefetch(const struct index *ix, uint64_t hash)
{
	__builtin_prefetch(&ix->now.slots[hash & ix->now.mask]);
	if (KV_UNLIKELY(ix->old.slots))
		__builtin_prefetch(&ix->old.slots[hash & ix->old.mask]);
}

static inline struct index_item *index_table_peek(const struct index_table *t, uint64_t hash)
{
	for (uint64_t i = hash & t->mask; t->slots[i].item; i = (i + 1) & t->mask)
		if (t->slots[i].hash == hash)
			return t->slots[i].item;
	return NULL;
}

static inline struct index_item *index_peek(const struct index *ix, uint64_t hash)
{
	struct index_item *item = index_table_peek(&ix->now, hash);
	return item || KV_LIKELY(!ix->old.slots) ? item : index_table_peek(&ix->old, hash);
}

/* index_insert -- add an item whose hash is not in the index. item->hash is index_hash of its key. Returns 0 or
 * -KV_ENOMEM (nothing changed). */
int index_insert(struct index *ix, struct index_item *item);

/* index_remove -- take out an item of the index. */
void index_remove(struct index *ix, struct index_item *item);

uint64_t index_count(const struct index *ix);

/* index_near -- the first item at or behind a position given by `random`, or NULL if the index is empty. For tests. */
struct index_item *index_near(const struct index *ix, uint64_t random);

#endif
