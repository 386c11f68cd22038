/* SPDX-License-Identifier: Apache-2.0 */
/* space.h -- the namespaces of a shard: sets of keys, each with a generation that a clear advances. */
#ifndef KVRAIL_STORE_SPACE_H
#define KVRAIL_STORE_SPACE_H

#include "base/base.h"

enum { SPACE_BITS = 12, SPACES_MAX = 1 << SPACE_BITS /* numbers that fit a block */ };

struct evict;
struct tenant;

struct space {
	char name[KV_SPACE_MAX + 1];
	uint16_t index; /* its number in spaces.at, and in its blocks */
	uint16_t next;
	uint32_t users;      /* sessions */
	uint64_t refs;       /* blocks of every generation and state */
	uint64_t generation; /* only the server's own tables compare it; blocks are compared by seed */
	uint64_t seed; /* of the index, for keys of this generation: secret, and of no other generation or space */
	uint64_t mark; /* in the numbers of its tombstones (tombs.h); equal at all servers */
	uint64_t cleared_ns;   /* when this shard learned of the generation; 0: with the space */
	uint64_t used_ns;      /* when its last session began or ended */
	struct tenant *tenant; /* is charged for its blocks; of this policy: */
	struct evict *evict;
	uint64_t tier_bytes, tier_charged; /* its values of this generation on the tier (tenant.h) */
	/* Counters. blocks and bytes of the arena: live, with earlier generations until they are freed. */
	uint64_t blocks, bytes, gets, hits;
};

/* A name and its generation, beside the arena, for a recovery (recover.h). All bytes are set. sum: of the rest; 0: none
 * here. The place behind the last one has the floor. */
struct space_note {
	uint64_t sum, generation;
	char name[KV_SPACE_MAX + 8]; /* ends with zeros */
};

enum { SPACE_NOTES = SPACES_MAX + 1 };

struct spaces {
	struct space *at[SPACES_MAX]; /* at[0]: the default one. NULL: free */
	uint16_t chain[SPACES_MAX];
	uint32_t count;
	uint64_t floor;           /* generation of a space that begins */
	uint64_t secret, seeds;   /* of the seeds; how many were made */
	uint64_t changes, clears; /* of names, generations and the floor; of these, those that end a generation */
	struct space nowhere; /* of no name, without a number: nothing is in it, and no key of it is in another space */
	/* begun -- a space has begun, and gets its tenant; NULL: nobody asks. ended -- it is forgotten. */
	void (*begun)(void *arg, struct space *sp);
	void (*ended)(void *arg, struct space *sp);
	void *arg;
	struct space_note *notes; /* SPACE_NOTES, written before a change is seen; NULL: none */
};

/* spaces_init -- with the default space, which stays. 0 or -KV_ENOMEM. secret: of the index. */
int spaces_init(struct spaces *t, uint64_t secret);
void spaces_fini(struct spaces *t);

/* spaces_restore -- the table of a store without sessions and blocks becomes that of a former one, with the default
 * space alone; then space_restore for each other of its spaces, in their order, and for the default one. The seed is
 * the former one. 0; -KV_EINVAL: the name is there already, or there are too many; -KV_ENOMEM. */
void spaces_restore(struct spaces *t, uint64_t secret, uint64_t seeds, uint64_t floor);
int space_restore(struct spaces *t, const char *name, uint64_t generation, uint64_t seed, uint64_t cleared_ns);

/* space_floor -- spaces that begin have this generation at least. space_seed -- the next seed. space_note_good --
 * whether a note was written completely. spaces_note -- keep notes in this memory from now on, and write all. */
void space_floor(struct spaces *t, uint64_t floor);
uint64_t space_seed(struct spaces *t);
bool space_note_good(const struct space_note *n);
void spaces_note(struct spaces *t, struct space_note *notes);

/* space_find -- the space of a valid name (base/space.h), or NULL. */
struct space *space_find(const struct spaces *t, const char *name);

/* space_take -- the space of a valid name, which may begin now. A full table forgets the space that has been unused for
 * longest, with neither sessions nor blocks. 0, -KV_EFULL, or -KV_ENOMEM. */
int space_take(struct spaces *t, const char *name, uint64_t now_ns, struct space **out);

/* space_take_instead -- as space_take, but one that begins takes the place of such a space of this tenant. */
int space_take_instead(struct spaces *t, const struct tenant *of, const char *name, uint64_t now_ns,
		       struct space **out);

/* space_advance -- the space has this generation, if it is a higher one. Blocks of the former one are not found any
 * more. Returns whether it changed. */
bool space_advance(struct spaces *t, struct space *sp, uint64_t generation, uint64_t now_ns);

/* space_clear -- the space has a higher generation, and at least this one. The highest number stays, with another
 * seed: no value of it is left here, but others may copy such values. */
void space_clear(struct spaces *t, struct space *sp, uint64_t least, uint64_t now_ns);

#endif
