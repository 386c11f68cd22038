/* SPDX-License-Identifier: Apache-2.0 */
/* store.h -- the blocks of a shard: arena, index, eviction and expiry together, without any I/O. One thread. The caller
 * passes times in, in nanoseconds of the shard's clock. */
#ifndef KVRAIL_STORE_STORE_H
#define KVRAIL_STORE_STORE_H

#include "store/block.h"
#include "store/doubt.h"
#include "store/evict_policies.h"
#include "store/heat.h"
#include "store/hot.h"
#include "store/pins.h"
#include "store/room.h"
#include "store/tombs.h"

struct store_options {
	void *base;           /* the arena's memory */
	uint64_t limit_bytes; /* of it; honoured exactly */
	uint64_t seed;        /* of the index hash, secret */
	uint64_t digest_seed; /* of the keys' digests, which clients know */
	uint64_t generation;  /* the first block's; grows by one per block */
	uint64_t now_ns;
	const struct evict_policy *policy;
	uint64_t blocks_max; /* 0: by STORE_BYTES_PER_BLOCK */
};

enum store_event { STORE_EVICTED, STORE_EXPIRED, STORE_EVENTS };

struct store {
	uint8_t *base;
	struct arena arena;
	struct index index;
	struct evict evict;
	struct expire expire;
	struct tombs tombs;
	struct doubt doubt;
	struct slab blocks, pins, rooms;
	struct kv_list left;     /* sets of pins whose sessions have ended, to be dropped (pins.c) */
	struct kv_list clearing; /* rooms that have memory, each with a stretch of its own (room.c) */
	unsigned rooms_begun;    /* that search or clear; ROOMS_AT_ONCE over several steps */
	uint32_t blocks_max;
	uint32_t hot_round;   /* of the last walk (hot.h) */
	uint64_t hot_settled; /* live blocks that hot_settle was called for */
	uint64_t generation;
	uint64_t staged_bytes, pinned_bytes, gone_bytes; /* of the arena: of blocks in those states */
	uint64_t events[STORE_EVENTS];                   /* counted since the start */
};

enum {
	STORE_BYTES_PER_BLOCK =
		1024, /* blocks_max 0: one block per so many bytes of the limit. That bounds the memory of metadata */
	STORE_BLOCKS_MIN = 1024,
	STORE_BLOCKS_MAX = 1 << 29,
	STORE_ROOMS_MAX = 4096,     /* values that memory is being cleared for */
	STORE_BORN_SLACK_MS = 1000, /* see store_copy_allowed */
	STORE_STEPS_AT_ONCE =
		512 /* blocks looked at or evicted when a value comes, and in each step after that: 0.1 ms */
};

struct room;

/* store_init -- 0, -KV_EINVAL or -KV_ENOMEM. store_fini -- nothing refers to a block any more; memory at base stays the
 * caller's. */
int store_init(struct store *s, const struct store_options *options);
void store_fini(struct store *s);

/* store_find -- the live block of a key, or NULL. A block whose time has come is deleted on the way. store_peek -- the
 * block of a key, also if it is in doubt or its time has come. store_use -- tell the eviction policy of a hit. */
struct block *store_find(struct store *s, const void *key, size_t len, uint64_t now_ns);
struct block *store_peek(const struct store *s, const void *key, size_t len);
void store_use(struct store *s, struct block *b);

/* store_digests_find -- which keys have a live block, of n that only digests are known of (index.h): 8 bytes each,
 * little-endian, one after the other. Sets bit i % 8 of byte i / 8 of the bitmap for key i, and clears none. A block
 * whose time has come is deleted on the way. store_digests_deleted -- the same for those of them that were deleted
 * lately and whose bit in `found` is 0. Returns whether there is one. */
void store_digests_find(struct store *s, const uint8_t *digests, uint32_t n, uint64_t now_ns, uint8_t *bitmap);
bool store_digests_deleted(const struct store *s, const uint8_t *digests, uint32_t n, uint64_t now_ns,
			   const uint8_t *found, uint8_t *bitmap);

/* Several look-ups at once: store_ahead for each key, store_ahead_block with what it returned, store_ahead_data with
 * what that returned (NULL: nothing is likely to be found), then store_find. Each step begins to load what the next one
 * reads. They change nothing and may be left out. */
uint64_t store_ahead(const struct store *s, const void *key, size_t len);
const struct block *store_ahead_block(const struct store *s, uint64_t hash);
void store_ahead_data(const struct store *s, const struct block *b);

static inline uint8_t *store_data(const struct store *s, const struct block *b)
{
	return s->base + b->offset;
}

/* store_stage -- a private block of len bytes for key, at this end of a hole, evicting what must go for it. The block
 * has one reference, the caller's. 0, and *out has memory. -EAGAIN: it takes longer; *out has none yet, and *out_room
 * is to be given to store_stage_step until that says something else, or to store_stage_end. Errors, which leave
 * nothing: -KV_EINVAL (key or length), -KV_ETOOBIG (more than the arena can ever hold), -KV_ENOMEM (what lies in the
 * way may not be evicted; nothing was), -KV_EBUSY (too many wait). */
int store_stage(struct store *s, const void *key, size_t key_len, uint64_t len, enum arena_end end, struct block **out,
		struct room **out_room);

/* store_stage_spare -- as store_stage, but nothing is evicted for the block: -KV_ENOMEM if that is needed.
 * store_last -- the live block, which nobody used yet, is the first one to be evicted. */
int store_stage_spare(struct store *s, const void *key, size_t key_len, uint64_t len, enum arena_end end,
		      struct block **out);
void store_last(struct store *s, struct block *b);

/* store_stage_step -- go on clearing memory, at most *budget blocks; lowers it. As store_stage; the room ends unless it
 * is -EAGAIN. store_stage_end -- give it up: room and block go. */
int store_stage_step(struct store *s, struct room *r, unsigned *budget);
void store_stage_end(struct store *s, struct room *r);

/* store_commit -- make a staged block visible, which is born now. Returns 0; -KV_EEXIST when the key is live already:
 * then *out_holder is that block and the staged one is unchanged (store_drop it); -KV_ENOMEM (unchanged). The caller's
 * reference stays. expires_ns: KV_NEVER for none.
 * store_commit_born -- the same for a copy, which is born no earlier than born_ns. */
int store_commit(struct store *s, struct block *b, uint64_t checksum, uint64_t expires_ns, uint64_t now_ns,
		 struct block **out_holder);
int store_commit_born(struct store *s, struct block *b, uint64_t checksum, uint64_t expires_ns, uint64_t born_ns,
		      uint64_t now_ns, struct block **out_holder);

/* store_copy_allowed -- a copy of this key may be older than what is known of the key here. 0: it may be stored, and
 * lives no longer than *expires_ns, which is lowered to what a TOUCH said. -KV_EDELETED: the key was deleted since
 * born_ns. -KV_ECANCELED: it seems so, but by less than the second that born_ns may be too early by; or its time is
 * over as a TOUCH said, of which a later one may not have come here. */
int store_copy_allowed(const struct store *s, const void *key, size_t len, uint64_t born_ns, uint64_t now_ns,
		       uint64_t *expires_ns);

/* store_delete -- the value of a key as it was at time_ns is deleted, and its copies are refused from now on. Whether
 * it was there. store_delete_block -- the same for this live block, as far as copies that are no younger. */
bool store_delete(struct store *s, const void *key, size_t len, uint64_t time_ns, uint64_t now_ns);
void store_delete_block(struct store *s, struct block *b, uint64_t now_ns);

/* store_yield -- as store_delete_block, of a block that another server has deleted: the DELETE may be on its way to
 * this server, too. store_delete says of the key that it was there then, once. */
void store_yield(struct store *s, struct block *b, uint64_t now_ns);

/* store_touch -- the value of a key as it was at time_ns lives until expires_ns. b: it, or NULL if it is not here. Its
 * copies that come later live no longer, if this shortens its life, or if b is NULL. */
void store_touch(struct store *s, const void *key, size_t len, struct block *b, uint64_t expires_ns, uint64_t time_ns,
		 uint64_t now_ns);

/* store_key_deleted -- whether a key that store_find does not find was deleted lately, and when. */
bool store_key_deleted(const struct store *s, const void *key, size_t len, uint64_t now_ns, uint64_t *out_ns);

/* store_drop -- a staged or live block becomes invisible at once; its memory is free when the last reference goes. */
void store_drop(struct store *s, struct block *b);

void store_expire_at(struct store *s, struct block *b, uint64_t expires_ns);

/* store_doubt -- blocks that were born before now may have been deleted without this server: they are hidden.
 * store_judge -- blocks in doubt that have a verdict go, the others are back. The verdicts are sorted, and stay until
 * the next call. NULL: all of them go. */
void store_doubt(struct store *s, uint64_t now_ns);
void store_judge(struct store *s, const struct verdict *verdict, uint32_t count);

/* store_dropped -- whether a live block is to go, since nobody said whether it was deleted. */
bool store_dropped(const struct store *s, const struct block *b);

/* store_sweep -- delete expired blocks, with a bounded amount of work. Returns how many. */
unsigned store_sweep(struct store *s, uint64_t now_ns, unsigned budget);

#endif
