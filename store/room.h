/* SPDX-License-Identifier: Apache-2.0 */
/* room.h -- a stretch of the arena that is being cleared for one value, in steps. */
#ifndef KVRAIL_STORE_ROOM_H
#define KVRAIL_STORE_ROOM_H

#include "store/arena.h"

struct block;
struct store;

enum {
	ROOMS_AT_ONCE = 64,   /* of a store that search or clear over several turns; the others wait */
	ROOM_PATIENCE = 30,   /* steps that one waits for a block in its way: 3 s, one for each of the shard's ticks */
	ROOM_LOOKS = 256,     /* at blocks beside the policy's next victims, when the search begins */
	ROOM_LOOKS_EACH = 64, /* of them, at those behind one victim */
	ROOM_CHEAP_SHARE =
		16, /* a stretch whose bytes go a sixteenth of a lifetime too early, on average, is good enough */
	ROOM_MOVE_MAX = 1 << 20, /* bytes of a pinned block that is moved out of the way: a quarter of a millisecond */
	ROOM_MOVE_STEP = 2048,   /* bytes: to copy so many takes as long as a step */
	ROOM_MOVE_SHARE = 4,     /* of a value's room pinned blocks may be a quarter */
	ROOM_MOVE_TRIES = 16,    /* victims whose place a moved block is offered, where no hole fits, */
	ROOM_MOVE_EVICTS = 2048  /* with so many of their neighbours, at once: half a millisecond */
};

struct room {
	struct arena_walk walk; /* the search: `from` begins the stretch that could be cleared so far */
	struct kv_list node;    /* of the store's `clearing`, while mem is not NULL */
	struct block *block;    /* whose it will be; BLOCK_STAGED */
	uint64_t size, start;   /* bytes; where in the arena the search began */
	uint64_t pinned;        /* bytes of pinned blocks in the stretch */
	bool begun, wrapped, pinned_too, found, waits; /* begun: it has a walk, and may have memory */
	bool met;                                      /* values being written were in the way of the search */
	bool swept;                                    /* what may go of the stretch has gone once */
	bool tried;                                    /* once, at least */
	unsigned waited;                               /* steps, for blocks in the way */
	unsigned tries;                                /* to find a place for the pinned block in the way */
	struct arena_block *mem, *last; /* the first and the last piece that was claimed; NULL: none yet */
	uint64_t end;                   /* where the stretch ends */
};

/* room_begin -- size bytes (whole granules) for a block. Takes no memory yet. */
void room_begin(struct room *r, uint64_t size, struct block *b);

/* room_step -- search and evict, at most *budget blocks looked at or evicted, and moves of the same cost; lowers it.
 * Moving one block may exceed it, by ROOM_MOVE_MAX bytes and ROOM_MOVE_EVICTS blocks. 0: r->mem is of the size and the
 * block's. -EAGAIN: to be continued; r->waits: only when a block in the way is not in use any more, or, if it is not
 * r->begun, has been stored, or another room has ended. -KV_ENOMEM: there is no such stretch (nothing was evicted), or
 * not any more: somebody has pinned a large block in it meanwhile, or there is no other place for a pinned one. */
int room_step(struct store *s, struct room *r, unsigned *budget);

/* room_end -- give back what was claimed; none if room_step returned 0. */
void room_end(struct store *s, struct room *r);

#endif
