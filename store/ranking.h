/* SPDX-License-Identifier: Apache-2.0 */
/* ranking.h -- walk over all blocks of a store, the most likely to be read first. */
#ifndef KVRAIL_STORE_RANKING_H
#define KVRAIL_STORE_RANKING_H

#include "base/base.h"
#include "store/arena.h"

struct block;
struct store;

/* Blocks with hits come first. The others follow by age, as parts of the oldest block's age: newest eighth, second
 * eighth, second quarter, older half of the age of the oldest block. */
enum rank { RANK_OLD, RANK_NEWER, RANK_NEW, RANK_NEWEST, RANK_HIT, RANK_OFTEN };

#define RANKING_DONE UINT32_MAX /* arena_block.walked: ranking_done was called */

/* A walk. Zero it before the first ranking_next. */
struct ranking {
	struct arena_walk walk;
	enum rank class;         /* of the current pass */
	unsigned round;          /* 0: passes by class; later rounds: all unsettled blocks */
	uint32_t mark;           /* in arena_block.walked: returned in this round */
	bool begun, over, found; /* found: a block in this round */
	uint64_t time, oldest;   /* at the walk's begin, in the policy's time; the oldest block's age then */
};

/* ranking_next -- the next live block, to be used before the store changes. Examines at most *budget stretches of
 * memory, and lowers it. NULL without h->over: call again. A round returns each block once; the next round returns the
 * unsettled ones. NULL with h->over: a later round found none. ranking_end -- at any time. */
struct block *ranking_next(struct store *s, struct ranking *h, unsigned *budget);
void ranking_end(struct ranking *h);

/* ranking_done -- no walk returns this live block again. ranking_left -- the number of unsettled live blocks,
 * expired ones included until they are found. */
void ranking_done(struct store *s, struct block *b);
uint64_t ranking_left(const struct store *s);

/* rank_of -- the class of a live block in this walk, which has begun. */
enum rank rank_of(const struct ranking *h, const struct block *b);

#endif
