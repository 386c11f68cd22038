/* SPDX-License-Identifier: Apache-2.0 */
/* store.h -- the blocks of a shard: arena, index, eviction and expiry, without I/O. One thread. Times are passed in, in
 * nanoseconds of the shard's clock. */
#ifndef KVRAIL_STORE_STORE_H
#define KVRAIL_STORE_STORE_H

#include "store/block.h"
#include "store/doubt.h"
#include "store/evict_policies.h"
#include "store/heat.h"
#include "store/journal.h"
#include "store/ranking.h"
#include "store/records.h"
#include "store/pins.h"
#include "store/room.h"
#include "store/space.h"
#include "store/tenant.h"
#include "store/tier/tier.h"
#include "store/tombs.h"

struct store_options {
	void *base;           /* the arena's memory */
	uint64_t limit_bytes; /* exact */
	uint64_t seed;        /* of the index, secret */
	uint64_t digest_seed; /* of the keys' digests, public */
	uint64_t generation;
	uint64_t now_ns;
	const struct evict_policy *policy;
	uint64_t blocks_max; /* 0: by STORE_BYTES_PER_BLOCK */
	/* Overwrite the bytes of dropped blocks, so that a use after a release is seen: where rules are checked. */
	bool poison;
	struct journal *journal; /* reports what is stored and removed; or NULL */
};

enum store_event { STORE_EVICTED, STORE_EXPIRED, STORE_EVENTS };

struct store {
	uint8_t *base;
	struct arena arena;
	struct index index;
	struct evict evict; /* of blocks without a tenant */
	struct tenancy tenancy;
	struct expire expire;
	struct tombs tombs;
	struct doubt doubt;
	struct spaces spaces;
	struct space *space;            /* of all keys passed in, and in index.seed (store_enter) */
	struct arena_walk cleared;      /* over blocks of earlier generations ... */
	bool cleared_on, cleared_again; /* ... while there may be any; again: another clear since it began */
	struct records records;         /* set by the owner after store_init; no places: none */
	struct index *waiting;          /* blocks to be verified (recover.h), staged; NULL: none */
	struct slab blocks, pins, rooms;
	struct kv_list left;     /* sets of ended sessions, to be dropped (pins.c) */
	struct kv_list clearing; /* rooms with memory, each with its own stretch (room.c) */
	unsigned rooms_begun;    /* that search or clear */
	uint32_t blocks_max;
	uint64_t charge_min;         /* of a block to its tenant: its part of the number of blocks (store_charge) */
	uint32_t ranking_round;      /* of the last walk (ranking.h) */
	uint64_t ranking_done_count; /* live blocks */
	uint64_t generation;
	uint64_t staged_bytes, pinned_bytes, gone_bytes; /* in the arena, of blocks in those states */
	uint64_t events[STORE_EVENTS];                   /* counters */
	bool poison;                                     /* of store_options */
	/* evicted -- a block leaves memory to make room, now; its bytes are still there. NULL: nobody asks. */
	void (*evicted)(void *arg, const struct block *b);
	void *evicted_arg;
	struct journal *journal; /* of store_options */
};

enum {
	STORE_BYTES_PER_BLOCK = 1024, /* with blocks_max 0: one block for these bytes of the limit */
	STORE_BLOCKS_MIN = 1024,
	STORE_POISON = 0xDB,
	STORE_BLOCKS_MAX = 1 << 29,
	STORE_ROOMS_MAX = 4096,     /* that memory is cleared for */
	STORE_BORN_SLACK_MS = 1000, /* store_copy_allowed */

	STORE_STEPS_AT_ONCE = 512 /* blocks examined or evicted for a new value, and in each step: 0.1 ms */
};

struct room;

/* store_init -- returns 0, -KV_EINVAL or -KV_ENOMEM. store_fini -- no block has references; base stays the caller's. */
int store_init(struct store *s, const struct store_options *options);
void store_fini(struct store *s);

/* store_charge -- what a value of this length is charged to its tenant: its memory, or its part of blocks_max. */
static inline uint64_t store_charge(const struct store *s, uint64_t len)
{
	return KV_MAX(arena_round(len), s->charge_min);
}

/* store_enter -- the keys passed to the functions below are of this space, until another one is entered. At first it is
 * the default space. Functions about a block take it from the block. */
static inline void store_enter(struct store *s, struct space *sp)
{
	s->space = sp;
	s->index.seed = sp->seed;
}

static inline struct space *store_space_default(const struct store *s)
{
	return s->spaces.at[0];
}

/* store_space_advance -- the space has this generation, if it is a higher one: its blocks are not found any more.
 * store_space_clear -- it has a higher one, and at least this one.
 * store_cleared_sweep -- free such blocks, at most `budget` looks; false: there are none. */
void store_space_clear(struct store *s, struct space *sp, uint64_t least, uint64_t now_ns);
void store_space_advance(struct store *s, struct space *sp, uint64_t generation, uint64_t now_ns);
bool store_cleared_sweep(struct store *s, unsigned budget);

/* store_space_learn -- other servers have this generation of a space. It is remembered even if the space is unknown
 * here. store_floor_learn -- they have forgotten spaces of lower generations. store_space_believed -- whether this can
 * be the generation of a space at another server (KV_GENERATIONS_MAX). */
void store_space_learn(struct store *s, const char *name, uint64_t generation, uint64_t now_ns);
bool store_space_believed(const struct store *s, const char *name, uint64_t generation);
void store_floor_learn(struct store *s, uint64_t floor, uint64_t now_ns);

/* store_hash, store_id -- the hash of a key here, and its number at all servers (tombs.h). */
static inline uint64_t store_hash(const struct store *s, const void *key, size_t len)
{
	return index_hash(&s->index, key, len);
}

static inline uint64_t store_id(const struct store *s, const void *key, size_t len)
{
	return tombs_id(key, len) ^ s->space->mark;
}

/* store_find -- the live block of a key, or NULL; an expired one is deleted. store_peek -- the block of a key, also in
 * doubt or expired. store_use -- count a hit of a live block for eviction. */
struct block *store_find(struct store *s, const void *key, size_t len, uint64_t now_ns);
struct block *store_peek(const struct store *s, const void *key, size_t len);
void store_use(struct store *s, struct block *b);

/* store_digests_find -- look up n digests (8 bytes each, little-endian; index.h): set bit i of the bitmap if key i has
 * a live block. Clears no bit. Expired blocks are deleted. store_digests_deleted -- the same for keys deleted lately
 * whose bit in `found` is 0. Returns whether there is one. */
void store_digests_find(struct store *s, const uint8_t *digests, uint32_t n, uint64_t now_ns, uint8_t *bitmap);
bool store_digests_deleted(const struct store *s, const uint8_t *digests, uint32_t n, uint64_t now_ns,
			   const uint8_t *found, uint8_t *bitmap);

/* Several look-ups at once, in steps that each prefetch for the next one: store_ahead per key, store_ahead_block with
 * its result, store_ahead_data with that result (NULL: probably nothing there), then store_find. Optional. */
uint64_t store_ahead(const struct store *s, const void *key, size_t len);
const struct block *store_ahead_block(const struct store *s, uint64_t hash);
void store_ahead_data(const struct store *s, const struct block *b);

/* store_evict_of -- the policy that has the block. tenant_evict -- of a tenant. store_evict_next -- that of the next
 * victim. */
static inline struct evict *store_evict_of(const struct store *s, const struct block *b)
{
	return s->spaces.at[b->space]->evict;
}

struct evict *tenant_evict(struct store *s, struct tenant *t);
struct evict *store_evict_next(struct store *s);

static inline uint8_t *store_data(const struct store *s, const struct block *b)
{
	return s->base + b->offset;
}

/* store_poison -- if the options say so: nothing refers to these bytes any more. */
static inline void store_poison(const struct store *s, const struct arena_block *m)
{
	if (KV_UNLIKELY(s->poison))
		memset(s->base + m->offset, STORE_POISON, m->size);
}

/* store_stage -- a private block of len bytes for key, at this end of a hole; evicts as needed. The caller has its only
 * reference. 0: *out has memory. -EAGAIN: not yet; continue *out_room with store_stage_step or store_stage_end. Errors
 * leave nothing: -KV_EINVAL (key, length), -KV_ETOOBIG (the arena), -KV_ENOMEM (nothing more may go), -KV_EBUSY (too
 * many wait). */
int store_stage(struct store *s, const void *key, size_t key_len, uint64_t len, enum arena_end end, struct block **out,
		struct room **out_room);

/* store_stage_spare -- as store_stage, but evicts nothing: -KV_ENOMEM instead. store_last -- make a live block without
 * hits the next victim. */
int store_stage_spare(struct store *s, const void *key, size_t key_len, uint64_t len, enum arena_end end,
		      struct block **out);
void store_last(struct store *s, struct block *b);

/* store_stage_step -- clear more memory, at most *budget blocks, which it lowers. Returns as store_stage; the room ends
 * unless -EAGAIN. store_stage_end -- drop room and block. */
int store_stage_step(struct store *s, struct room *r, unsigned *budget);
void store_stage_end(struct store *s, struct room *r);

/* store_commit -- make a staged block visible, born now. expires_ns: KV_NEVER for none. The caller's reference stays.
 * Returns 0; -KV_EEXIST: the key is live in *out_holder, and the staged block is unchanged (store_drop it); -KV_ENOMEM
 * or -KV_ESTALE: its space was cleared (unchanged). store_commit_born -- the same for a copy, born at born_ns at the
 * earliest. */
int store_commit(struct store *s, struct block *b, uint64_t checksum, uint64_t expires_ns, uint64_t now_ns,
		 struct block **out_holder);
int store_commit_born(struct store *s, struct block *b, uint64_t checksum, uint64_t expires_ns, uint64_t born_ns,
		      uint64_t now_ns, struct block **out_holder);

/* store_copy_allowed -- whether a copy of the key of this space and hash may be stored. 0: yes; *expires_ns is lowered
 * to a TOUCH's. -KV_EDELETED: the key was deleted since born_ns. -KV_ECANCELED: it was deleted within
 * STORE_BORN_SLACK_MS of born_ns, or a TOUCH says that it has expired, and a later TOUCH may be missing here. */
int store_copy_allowed(const struct store *s, const struct space *sp, uint64_t hash, uint64_t born_ns, uint64_t now_ns,
		       uint64_t *expires_ns);

/* store_delete -- delete the value of a key as of time_ns, and refuse its copies from now on. Returns whether it was
 * there. store_delete_block -- the same for a live block and copies no younger than it. */
bool store_delete(struct store *s, const void *key, size_t len, uint64_t time_ns, uint64_t now_ns);
void store_delete_block(struct store *s, struct block *b, uint64_t now_ns);

/* store_yield -- as store_delete_block, for a block that another server has deleted: the same DELETE may arrive here,
 * and store_delete then reports once that the key was there. */
void store_yield(struct store *s, struct block *b, uint64_t now_ns);

/* store_touch -- the value of a key as of time_ns lives until expires_ns. b: it, or NULL if it is not here. If this
 * shortens its life, or b is NULL, later copies live no longer. */
void store_touch(struct store *s, const void *key, size_t len, struct block *b, uint64_t expires_ns, uint64_t time_ns,
		 uint64_t now_ns);

/* store_key_deleted -- whether, and when, the key with this hash, which store_find does not find, was deleted lately.
 */
bool store_key_deleted(const struct store *s, uint64_t hash, uint64_t now_ns, uint64_t *out_ns);

/* store_drop -- make a staged or live block invisible; its memory is freed with the last reference. */
void store_drop(struct store *s, struct block *b);

/* store_expire_at -- a block lives until expires_ns; KV_NEVER: without end. */
void store_expire_at(struct store *s, struct block *b, uint64_t expires_ns);

/* store_doubt -- hide blocks born before now: other servers may have deleted them. store_judge -- drop judged blocks in
 * doubt, show the others. verdicts: sorted, kept until the next call. NULL: drop all. */
void store_doubt(struct store *s, uint64_t now_ns);
void store_judge(struct store *s, const struct verdict *verdict, uint32_t count);

/* store_doubt_copies -- as store_doubt, for a member's first arrival: blocks of store_put_here stay visible, unless
 * there was a doubt before. store_put_here -- a live block was put by a client, and is no copy of another server's. */
void store_doubt_copies(struct store *s, uint64_t now_ns);
void store_put_here(struct store *s, struct block *b);

/* store_hidden -- whether a doubt hides a live block, or drops it when it is asked for. */
bool store_hidden(const struct store *s, const struct block *b);

/* store_good -- whether no doubt stands against a live block: it is shown, or its verdict would show it. */
bool store_good(const struct store *s, const struct block *b);

/* store_pushable -- whether a drain pushes a live block: one that is good, or, while a doubt waits, any that no earlier
 * doubt has dropped. The other members refuse values that were deleted there meanwhile. */
bool store_pushable(const struct store *s, const struct block *b);

/* store_dead -- whether a doubt has dropped all values born then: one that comes later, from a tier or a recovery, too.
 */
static inline bool store_dead(const struct store *s, uint64_t born_ns)
{
	return born_ns < KV_MAX(s->doubt.dead_ns, s->doubt.all_dead_ns);
}

/* store_judge_some -- where a journal reports removals, judge blocks in doubt without being asked for them, at most
 * `budget` of them, until all were judged. */
void store_judge_some(struct store *s, uint64_t now_ns, unsigned budget);

/* store_note -- report an event of a block, if the options ask for it. */
static inline void store_note(const struct store *s, enum journal_what what, const struct block *b)
{
	if (KV_UNLIKELY(s->journal != NULL))
		journal_put(s->journal, what, JOURNAL_MEMORY, s->spaces.at[b->space]->name, b->item.key,
			    b->item.key_len, b->len);
}

/* store_walk -- call fn for live blocks until it returns false (that block comes again), at most `budget` blocks at a
 * time. *at: UINT32_MAX at first; 0 at the end. A block that lives during the whole walk is visited once. Expired
 * blocks count as long as the journal has not reported their removal. */
void store_walk(const struct store *s, uint32_t *at, unsigned budget, bool (*fn)(void *arg, const struct block *b),
		void *arg);

/* store_sweep -- delete expired blocks, at most `budget`. Returns how many. */
unsigned store_sweep(struct store *s, uint64_t now_ns, unsigned budget);

/* Parts of this header. */
#include "store/keep.h"
#include "store/move.h"
#include "store/recover.h"

#endif
