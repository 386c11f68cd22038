/* SPDX-License-Identifier: Apache-2.0 */
/* hot.h -- walk over all blocks of a store, the most likely to be read first. */
#ifndef KVRAIL_STORE_HOT_H
#define KVRAIL_STORE_HOT_H

#include "base/base.h"
#include "store/arena.h"

struct block;
struct store;

/* Blocks with hits come first. The others follow by age, as parts of the oldest block's age: newest eighth, second
 * eighth, second quarter, older half. */
enum hot_class { HOT_OLD, HOT_NEWER, HOT_NEW, HOT_NEWEST, HOT_HIT, HOT_OFTEN };

#define HOT_SETTLED UINT32_MAX /* arena_block.told: hot_settle was called */

/* A walk. Zero it before the first hot_next. */
struct hot {
	struct arena_walk walk;
	enum hot_class class; /* of the current pass */
	unsigned round;       /* 0: passes by class; later rounds: all unsettled blocks */
	uint32_t mark;        /* in arena_block.told: returned in this round */
	bool begun, over, told;
	uint64_t time, oldest; /* at the walk's begin, in the policy's time; the oldest block's age then */
};

/* hot_next -- the next live block, to be used before the store changes. Examines at most *budget stretches of memory,
 * and lowers it. NULL without h->over: call again. A round returns each block once; the next round returns the
 * unsettled ones. NULL with h->over: a later round found none. hot_end -- at any time. */
struct block *hot_next(struct store *s, struct hot *h, unsigned *budget);
void hot_end(struct hot *h);

/* hot_settle -- no walk returns this live block again. hot_left -- the number of unsettled live blocks,
 * expired ones included until they are found. */
void hot_settle(struct store *s, struct block *b);
uint64_t hot_left(const struct store *s);

/* hot_class_of -- the class of a live block in this walk, which has begun. */
enum hot_class hot_class_of(const struct hot *h, const struct block *b);

#endif
