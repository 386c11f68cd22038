/* SPDX-License-Identifier: Apache-2.0 */
/* pins.h -- the blocks that a session wants kept: a set with a budget, released with the session. */
#ifndef KVRAIL_STORE_PINS_H
#define KVRAIL_STORE_PINS_H

#include "base/base.h"

struct block;
struct store;

/* One session has pinned one block; it lies in a list of each. */
struct pin {
	struct kv_list of_set, of_block;
	struct pins *set;
	struct block *block;
};

struct pins {
	struct kv_list set;
	uint64_t bytes; /* of the arena, pinned by this set */
};

void pins_init(struct pins *p);

/* pins_add -- pin a live block; pinning it again changes nothing. Returns 0, -KV_EBUSY when this set would hold more
 * than set_budget bytes or all sets together more than all_budget, or -KV_ENOMEM (no pin object). */
int pins_add(struct store *s, struct pins *p, struct block *b, uint64_t set_budget, uint64_t all_budget);

/* pins_remove -- harmless when the set does not hold the block. pins_clear -- the whole set. */
void pins_remove(struct store *s, struct pins *p, struct block *b);
void pins_clear(struct store *s, struct pins *p);

/* pins_release_block -- the block goes: take it out of every set. For the store, while the block is still LIVE. */
void pins_release_block(struct store *s, struct block *b);

#endif
