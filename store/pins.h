/* SPDX-License-Identifier: Apache-2.0 */
/* pins.h -- the blocks that a session keeps from eviction: a set with a budget, which goes with the session. */
#ifndef KVRAIL_STORE_PINS_H
#define KVRAIL_STORE_PINS_H

#include "base/base.h"

struct block;
struct store;

/* One session has pinned one block; it lies in a list of each. */
struct pin {
	struct kv_list of_set, of_block;
	struct pin_set *set;
	struct block *block;
};

struct pin_set {
	struct kv_list pins;
	struct kv_list node; /* of the store, once it is left */
	uint64_t bytes;      /* of the arena, in its blocks ... */
	uint64_t own_bytes;  /* ... and in those that no other set has */
	bool left;
};

struct pins {
	struct pin_set *set; /* NULL: it never had a pin */
};

enum { PINS_AT_ONCE = 512 }; /* pins dropped in a turn: 0.15 ms */

static inline void pins_init(struct pins *p)
{
	p->set = NULL;
}

static inline uint64_t pins_bytes(const struct pins *p)
{
	return p->set ? p->set->bytes : 0;
}

/* pins_add -- pin a live block; pinning it again changes nothing. Returns 0, -KV_EBUSY when this set would hold more
 * than set_budget bytes or all sets together more than all_budget, or -KV_ENOMEM (no pin object). */
int pins_add(struct store *s, struct pins *p, struct block *b, uint64_t set_budget, uint64_t all_budget);

/* pins_remove -- harmless when the set does not hold the block. */
void pins_remove(struct store *s, struct pins *p, struct block *b);

/* pins_leave -- the session ends: its set counts no more, at once, and is empty. Its pins are dropped by pins_sweep,
 * `budget` of them at most; false: none is left. pins_leaving -- whether any is. pins_drop_all -- all at once: at the
 * end of the store. */
void pins_leave(struct store *s, struct pins *p);
bool pins_sweep(struct store *s, unsigned budget);
bool pins_leaving(const struct store *s);
void pins_drop_all(struct store *s);

/* pins_release_block -- the block goes: take it out of every set. For the store, while the block is still LIVE. */
void pins_release_block(struct store *s, struct block *b);

#endif
