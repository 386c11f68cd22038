/* SPDX-License-Identifier: Apache-2.0 */
/* hot.h -- the blocks of a store that are likely to be asked for again, the hottest first, some at a time. */
#ifndef KVRAIL_STORE_HOT_H
#define KVRAIL_STORE_HOT_H

#include "base/base.h"
#include "store/arena.h"

struct block;
struct store;

/* How likely. Of COLD ones nothing is told. */
enum hot_class { HOT_COLD, HOT_NEWER, HOT_HIT, HOT_OFTEN };

/* Zero it before the first hot_next. */
struct hot {
	struct arena_walk walk;
	enum hot_class class; /* of the pass that is under way */
	bool begun, over;
	uint64_t half; /* the age of the older half of the blocks, in the policy's time */
};

/* hot_next -- the next block that is live, to be used before the store changes. It looks at *budget stretches of memory
 * at most, and takes them from it. NULL with *budget 0: call again; NULL with h->over: that was all. Blocks that come
 * or change their class meanwhile may be told twice or not at all. hot_end -- at any time. */
struct block *hot_next(struct store *s, struct hot *h, unsigned *budget);
void hot_end(struct hot *h);

#endif
