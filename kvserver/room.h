/* SPDX-License-Identifier: Apache-2.0 */
/* room.h -- a stretch of the arena that is being cleared for one value, in steps. Private to kvserver/. */
#ifndef KVRAIL_KVSERVER_ROOM_H
#define KVRAIL_KVSERVER_ROOM_H

#include "kvserver/arena.h"

struct block;
struct store;

enum {
	ROOM_MOVE_MAX = 1 << 20, /* bytes of a pinned block that is moved out of the way: a quarter of a millisecond */
	ROOM_MOVE_SHARE = 4,     /* of a value's room pinned blocks may be a quarter */
	ROOM_MOVE_TRIES = 16,    /* victims whose place a moved block is offered, where no hole fits */
	ROOM_COPY_STEP = 2 << 10, /* bytes: to copy so many takes as long as a step */
	ROOM_LOOK_STEP = 16       /* blocks to look at beside a victim */
};

struct room {
	struct arena_walk walk; /* the search: `from` begins the stretch that could be cleared so far; then `at`, the last that was cleared or passed */
	struct block *block;    /* whose it will be; BLOCK_STAGED */
	uint64_t size, start;   /* bytes; where in the arena the search began */
	uint64_t pinned;        /* bytes of pinned blocks in the stretch */
	bool wrapped, pinned_too, found, waits;
	struct arena_block *mem, *last; /* the first and the last piece that was claimed; NULL: none yet */
	uint64_t end;                   /* where the stretch ends */
};

/* room_begin -- size bytes (whole granules) for a block. Takes no memory yet. */
void room_begin(struct store *s, struct room *r, uint64_t size, struct block *b);

/* room_step -- search and evict, at most *budget blocks looked at or evicted (a pinned one that moves counts for more, and may be the last); lowers it. 0: r->mem is of the size and the block's.
 * -EAGAIN: to be continued; r->waits: only when a block in the way is not in use any more. -KV_ENOMEM: there is no such stretch
 * (nothing was evicted), or somebody has pinned a large block in it meanwhile. */
int room_step(struct store *s, struct room *r, unsigned *budget);

/* room_end -- give back what was claimed; none if room_step returned 0. */
void room_end(struct store *s, struct room *r);

#endif
