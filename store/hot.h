/* SPDX-License-Identifier: Apache-2.0 */
/* hot.h -- all blocks of a store, those first that are the most likely to be asked for again, some at a time. */
#ifndef KVRAIL_STORE_HOT_H
#define KVRAIL_STORE_HOT_H

#include "base/base.h"
#include "store/arena.h"

struct block;
struct store;

/* How likely. Blocks that were hit come first. Of the others the newest eighth of the time that blocks have been there
 * comes first, then the rest of the newest quarter, then the rest of the newer half, then the older half. */
enum hot_class { HOT_OLD, HOT_NEWER, HOT_NEW, HOT_NEWEST, HOT_HIT, HOT_OFTEN };

#define HOT_SETTLED UINT32_MAX /* arena_block.told: hot_settle was called for the block */

/* A walk. Zero it before the first hot_next. */
struct hot {
	struct arena_walk walk;
	enum hot_class class; /* of the pass that is under way */
	unsigned round; /* 0: the passes, one for each class; then it counts up: all blocks that are not settled */
	uint32_t mark;  /* in arena_block.told: this round told of the block */
	bool begun, over, told;
	uint64_t time, oldest; /* when the walk began, in the policy's time; the age of the oldest block then */
};

/* hot_next -- the next block that is live, to be used before the store changes. It looks at *budget stretches of memory
 * at most, and takes them from it. NULL without h->over: call again; the budget was spent, or a round is at its end. A
 * round tells of each block once, also if it comes or changes its class meanwhile. The next round tells of the blocks
 * that are not settled. NULL with h->over: a round after the first found none.
 * hot_end -- at any time. */
struct block *hot_next(struct store *s, struct hot *h, unsigned *budget);
void hot_end(struct hot *h);

/* hot_settle -- no walk tells of this live block from now on. hot_left -- how many live blocks are not settled; those
 * count whose time to live is over and which nobody has found yet. */
void hot_settle(struct store *s, struct block *b);
uint64_t hot_left(const struct store *s);

/* hot_class_of -- of a live block, in this walk, which has begun. */
enum hot_class hot_class_of(const struct hot *h, const struct block *b);

#endif
