/* SPDX-License-Identifier: Apache-2.0 */
/* index.h -- a shard's index: from a key to the item that holds it. It owns its slots, never the items. */
#ifndef KVRAIL_STORE_INDEX_H
#define KVRAIL_STORE_INDEX_H

#include "base/base.h"
#include "host/host.h"

/* The part of an entry that the index reads. It neither moves nor changes while it is in the index. */
struct index_item {
	uint64_t hash;
	uint8_t key_len;
	uint8_t key[KV_KEY_MAX];
	uint8_t of_owner[7]; /* room that the index does not use (block.h) */
};

struct index_slot {
	uint64_t hash;
	struct index_item *item; /* NULL: empty */
};

struct index_table {
	struct index_slot *slots; /* a power of two of them */
	uint64_t mask, count;
	struct kv_area area; /* that they lie in; zeroed: in the heap */
};

struct index {
	struct index_table now, old; /* old: what is still to be moved while the index grows */
	uint64_t cursor;             /* old slots below it are empty */
	uint64_t seed, digest_seed;
};

/* index_init -- an empty index. seed is secret, digest_seed is not. Returns 0 or -KV_ENOMEM. */
int index_init(struct index *ix, uint64_t seed, uint64_t digest_seed);
void index_fini(struct index *ix);

/* index_digest_hash -- where a key of this digest is. index_hash -- where a key is: by its digest, which others may
 * know, and the secret seed, so that nobody can tell which keys fall on neighbouring slots. */
static inline uint64_t index_digest_hash(const struct index *ix, uint64_t digest)
{
	/* The way in which XXH3 mixes 8 bytes, inline: an EXISTS has hundreds of digests. */
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

/* index_find -- the item with exactly this key, or NULL. */
struct index_item *index_find(const struct index *ix, uint64_t hash, const void *key, size_t len);

/* index_prefetch -- begin to load the slot where a look-up of this hash will begin. index_peek -- the item of this
 * hash, or NULL, without a look at its key. (Inline, as above.) */
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

/* index_remove -- take out an item that is in the index. */
void index_remove(struct index *ix, struct index_item *item);

uint64_t index_count(const struct index *ix);

/* index_near -- the first item at or after a position that `random` chooses, or NULL when the index is empty. Nearly
 * uniform. */
struct index_item *index_near(const struct index *ix, uint64_t random);

#endif
