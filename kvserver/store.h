/* SPDX-License-Identifier: Apache-2.0 */
/* store.h -- a shard's blocks: arena, index, eviction and expiry together, without any I/O.
 * Times are nanoseconds of the shard's clock, passed in. One thread. */
#ifndef KVRAIL_KVSERVER_STORE_H
#define KVRAIL_KVSERVER_STORE_H

#include "kvserver/block.h"

struct store_options {
	void *base;           /* the arena's memory */
	uint64_t limit_bytes; /* of it; honoured exactly */
	uint64_t seed;        /* of the index hash, secret */
	uint64_t generation;  /* the first block's; grows by one per block */
	uint64_t now_ns;
	const struct evict_policy *policy;
};

enum store_event { STORE_EVICTED, STORE_EXPIRED, STORE_EVENTS };

struct store {
	uint8_t *base;
	struct arena arena;
	struct index index;
	struct evict evict;
	struct expire expire;
	struct slab blocks, pins;
	uint64_t generation;
	uint64_t staged_bytes, pinned_bytes, gone_bytes; /* of the arena: of blocks in those states */
	uint64_t events[STORE_EVENTS];                   /* counted since the start */
};

enum {
	STORE_BYTES_PER_BLOCK = 1024, /* at most one block per so many bytes of limit: bounds what the metadata costs */
	STORE_BLOCKS_MIN = 1024,
	STORE_STUCK_MAX = 64 /* holes between immovable neighbours that one allocation puts up with */
};

/* store_init -- 0, -KV_EINVAL or -KV_ENOMEM. store_fini -- everything must be unreferenced or forgotten; memory at base
 * stays the caller's. */
int store_init(struct store *s, const struct store_options *options);
void store_fini(struct store *s);

/* store_find -- the live block of a key, or NULL. One whose time has come is deleted on the way. store_use -- tell the
 * eviction policy of a hit. */
struct block *store_find(struct store *s, const void *key, size_t len, uint64_t now_ns);
void store_use(struct store *s, struct block *b);

/* Several look-ups at once: store_ahead for each key, store_ahead_block with what it returned, store_ahead_data with what
 * that returned (NULL: nothing is likely to be found), then store_find. Each step begins to load what the next one
 * reads. They change nothing and may be left out. */
uint64_t store_ahead(const struct store *s, const void *key, size_t len);
const struct block *store_ahead_block(const struct store *s, uint64_t hash);
void store_ahead_data(const struct store *s, const struct block *b);

static inline uint8_t *store_data(const struct store *s, const struct block *b)
{
	return s->base + b->offset;
}

/* store_stage -- a private block of len bytes for key, evicting what must go. It has one reference, the caller's.
 * Returns 0, -KV_EINVAL (key or length), -KV_ETOOBIG (more than the arena can ever hold), -KV_ENOMEM (what is there may
 * not be evicted). */
int store_stage(struct store *s, const void *key, size_t key_len, uint64_t len, struct block **out);

/* store_commit -- make a staged block visible. Returns 0; -KV_EEXIST when the key is live already: then *out_holder is
 * that block and the staged one is unchanged (store_drop it); -KV_ENOMEM (unchanged). The caller's reference stays.
 * expires_ns: KV_NEVER for none. */
int store_commit(struct store *s, struct block *b, uint64_t checksum, uint64_t expires_ns, uint64_t now_ns,
		 struct block **out_holder);

/* store_drop -- a staged or live block becomes invisible at once; its memory is free when the last reference goes. */
void store_drop(struct store *s, struct block *b);

void store_expire_at(struct store *s, struct block *b, uint64_t expires_ns);

/* store_sweep -- delete expired blocks, with a bounded amount of work. Returns how many. */
unsigned store_sweep(struct store *s, uint64_t now_ns, unsigned budget);

static inline void block_ref(struct block *b)
{
	b->refs++;
}

void block_unref(struct store *s, struct block *b);

#endif
