/* SPDX-License-Identifier: Apache-2.0 */
/* room.h -- a stretch of the arena, cleared for one value, in steps. */
#ifndef KVRAIL_STORE_ROOM_H
#define KVRAIL_STORE_ROOM_H

#include "store/arena.h"

struct block;
struct store;

enum {
	ROOMS_AT_ONCE = 64,      /* rooms that search or clear over several turns; others wait */
	ROOM_PATIENCE = 30,      /* steps that a room waits for a block in its way: 3 s */
	ROOM_SEARCHES = 5,       /* while leases alone are in the way, after 1, 2, 4, 8 and 16 steps: 3 s */
	ROOM_LOOKS = 256,        /* blocks examined beside the next victims, at the start of a search */
	ROOM_LOOKS_EACH = 64,    /* ... behind one victim */
	ROOM_CHEAP_SHARE = 16,   /* a stretch is cheap if its bytes go a sixteenth of a lifetime early, on average */
	ROOM_MOVE_MAX = 1 << 20, /* bytes of a pinned block that may move: a quarter of a millisecond */
	ROOM_MOVE_STEP = 2048,   /* bytes copied in a step */
	ROOM_MOVE_SHARE = 4,     /* pinned blocks may be a quarter of a value's room */
	ROOM_MOVE_TRIES = 16,    /* victims tried as places of a moved block, where no hole fits, */
	ROOM_MOVE_EVICTS = 2048  /* with this many neighbours: half a millisecond */
};

struct room {
	struct arena_walk walk; /* `from` begins the stretch so far */
	struct kv_list node;    /* in the store's `clearing`, while mem is not NULL */
	struct block *block;    /* BLOCK_STAGED, the later owner */
	uint64_t size, start;   /* bytes; where the search in the arena began */
	uint64_t pinned;        /* bytes of pinned blocks in the stretch */
	bool begun, wrapped, pinned_too, found,
		waits;   /* begun: it has a walk, and may have memory. Facts, not states: most combinations occur */
	bool charged;    /* its tenant has its bytes; before that nothing else begins */
	bool met;        /* the search met values being written, or pins of an ended session */
	bool swept;      /* every block of the stretch was visited once */
	bool leased;     /* the last search met leased blocks, and found nothing */
	bool tried;      /* it has begun once */
	unsigned waited; /* steps */
	unsigned futile; /* searches that leases alone made futile, */
	unsigned rests;  /* and steps until the next one */
	unsigned tries;  /* for the pinned block in the way */
	struct arena_block *mem, *last; /* first and last claimed piece, or NULL */
	uint64_t end;                   /* of the stretch */
};

/* room_begin -- for size bytes (whole granules) of a block. Takes no memory yet. */
void room_begin(struct room *r, uint64_t size, struct block *b);

/* room_step -- examine, evict or move, at the cost of *budget blocks, which it lowers; one move may exceed it. 0:
 * r->mem has the size. -EAGAIN: call again; with r->waits once a block in the way is free, or, without r->begun, once a
 * value was stored or a room has ended; with r->leased leases are in the way. -KV_ENOMEM: no such stretch. */
int room_step(struct store *s, struct room *r, unsigned *budget);

/* room_end -- give back the claimed pieces. Not after room_step returned 0. */
void room_end(struct store *s, struct room *r);

#endif
