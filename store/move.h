/* SPDX-License-Identifier: Apache-2.0 */
/* move.h -- values of kept stores move to a server with other worker threads, or less memory: to the store of the shard
 * that their keys have now. By address, part by part, so that the memory of a part may be given back once it is copied.
 * A part of store.h.
 *
 *   move_begin of each former store; move_plan of each new one; move_part of each new one, part by part; move_finish of
 *   each new one; move_end of all */
#ifndef KVRAIL_STORE_MOVE_H
#define KVRAIL_STORE_MOVE_H

#include "base/base.h"

/* A kept store: restored, with the bytes that its file describes. Zero `order` before. */
struct move_from {
	struct store store;
	struct block **order; /* live blocks, the next victim first; from malloc */
	uint64_t count;
};

/* move_begin -- fill order. 0 or -KV_ENOMEM. move_from_end -- free it. */
int move_begin(struct move_from *f);
void move_from_end(struct move_from *f);

/* The empty store of a shard. Set the fields up to arg. */
struct move_to {
	struct store *store;
	uint32_t shard, shards;
	uint64_t now_ns, passed_ns; /* the clock of all stores; values that end within passed_ns are left out */
	/* room -- memory up to this offset is about to be written. False: there is none. NULL: it is there. */
	bool (*room)(void *arg, uint64_t end);
	void *arg;
	struct block **order; /* of the values that moved, the next victim first; from malloc */
	uint64_t count;
	uint64_t moved, dropped; /* values; dropped: ended, or next victims beyond the memory or the limit of values */
};

/* move_plan -- choose the values, and make the namespaces. Several threads may plan for different shards. 0 or
 * -KV_ENOMEM. */
int move_plan(struct move_to *to, const struct move_from *from, unsigned count);

/* move_part -- after all plans: copy the chosen values of a former store from *at on that begin before `end`. *at: at
 * first store.arena.first; NULL: none is left. Several threads may copy to different shards. */
void move_part(struct move_to *to, const struct move_from *from, const struct arena_block **at, uint64_t end);

/* move_finish -- all is copied: the values get their order of eviction. move_end -- free the order; also after errors.
 */
void move_finish(struct move_to *to);
void move_end(struct move_to *to);

#endif
