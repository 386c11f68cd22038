/* SPDX-License-Identifier: Apache-2.0 */
/* room.h -- a stretch of the arena that is being cleared for one value, in steps. */
#ifndef KVRAIL_STORE_ROOM_H
#define KVRAIL_STORE_ROOM_H

#include "store/arena.h"

struct block;
struct store;

enum {
	ROOMS_AT_ONCE = 64,   /* rooms of a store that search or clear over several turns; the others wait */
	ROOM_PATIENCE = 30,   /* steps that a room waits for a block in its way: 3 s, a step for each tick of the
			       * shard */
	ROOM_LOOKS = 256,     /* looks at blocks beside the policy's next victims, when the search begins */
	ROOM_LOOKS_EACH = 64, /* ... of them, at those behind one victim */
	ROOM_CHEAP_SHARE =
		16, /* a stretch whose bytes go a sixteenth of a lifetime too early, on average, is good enough */
	ROOM_MOVE_MAX = 1 << 20, /* bytes of a pinned block that may be moved out of the way: a quarter of a
				  * millisecond */
	ROOM_MOVE_STEP = 2048,   /* bytes that are copied in the time of a step */
	ROOM_MOVE_SHARE = 4,     /* pinned blocks may be a quarter of a value's room */
	ROOM_MOVE_TRIES = 16,    /* victims whose place a moved block is offered, where no hole fits, */
	ROOM_MOVE_EVICTS = 2048  /* with so many of their neighbours, at once: half a millisecond */
};

struct room {
	struct arena_walk walk; /* the search: `from` begins the stretch that could be cleared so far */
	struct kv_list node;    /* of the store's `clearing`, while mem is not NULL */
	struct block *block;    /* whose it will be; BLOCK_STAGED */
	uint64_t size, start;   /* bytes; where in the arena the search began */
	uint64_t pinned;        /* bytes of pinned blocks in the stretch */
	bool begun, wrapped, pinned_too, found, waits; /* begun: it has a walk, and may have memory. They are facts of
							* the search, not states: most combinations occur */
	bool met;        /* values being written, or pins of a session that ended, were in the way of the search */
	bool swept;      /* every block of the stretch was visited once, and went if it
			  * could */
	bool tried;      /* it has begun at least once */
	unsigned waited; /* steps, for blocks in the way */
	unsigned tries;  /* to find a place for the pinned block in the way */
	struct arena_block *mem, *last; /* the first and the last piece that was claimed; NULL: none yet */
	uint64_t end;                   /* where the stretch ends */
};

/* room_begin -- size bytes (whole granules) for a block. Takes no memory yet. */
void room_begin(struct room *r, uint64_t size, struct block *b);

/* room_step -- search and evict, at most *budget blocks looked at or evicted, and moves of the same cost; lowers it.
 * Moving one block may exceed it, by ROOM_MOVE_MAX bytes and ROOM_MOVE_EVICTS blocks. 0: r->mem has the size and is the
 * block's. -EAGAIN: call again. If r->waits, that is of use only when a block in the way is no longer in use; or,
 * without r->begun, when a value in the way was stored or another room has ended. -KV_ENOMEM: there is no such stretch
 * (nothing was evicted), or no longer: a large block in it was pinned meanwhile, or there is no other place for a
 * pinned one. */
int room_step(struct store *s, struct room *r, unsigned *budget);

/* room_end -- give back the pieces that were claimed. Not after room_step returned 0. */
void room_end(struct store *s, struct room *r);

#endif
