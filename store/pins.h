/* SPDX-License-Identifier: Apache-2.0 */
/* pins.h -- the blocks that a session protects from eviction: a set with a budget, dropped with the session. */
#ifndef KVRAIL_STORE_PINS_H
#define KVRAIL_STORE_PINS_H

#include "base/base.h"

struct block;
struct store;
struct tenant;

/* A pin of one session on one block, in a list of each. */
struct pin {
	struct kv_list of_set, of_block;
	struct pin_set *set;
	struct block *block;
};

struct pin_set {
	struct kv_list pins;
	struct kv_list node; /* in the store, when it is left */
	uint64_t bytes;      /* of arena memory, in its blocks ... */
	uint64_t own_bytes;  /* ... and in blocks that no other set has */
	bool left;
	struct tenant *tenant; /* charged for its bytes; or NULL */
};

struct pins {
	struct pin_set *set; /* NULL: no pin yet */
	struct tenant *tenant;
};

enum { PINS_AT_ONCE = 512 }; /* pins dropped in a turn (0.15 ms) */

static inline void pins_init(struct pins *p)
{
	*p = (struct pins){0};
}

static inline uint64_t pins_bytes(const struct pins *p)
{
	return p->set ? p->set->bytes : 0;
}

/* pins_add -- pin a live block; a second time changes nothing. Returns 0, -KV_EBUSY (this set would exceed set_budget,
 * all sets all_budget, or the tenant's its limit or the shares of others) or -KV_ENOMEM. */
int pins_add(struct store *s, struct pins *p, struct block *b, uint64_t set_budget, uint64_t all_budget);

/* pins_remove -- harmless if the set does not have the block. */
void pins_remove(struct store *s, struct pins *p, struct block *b);

/* pins_leave -- the session ends: its set stops counting and is empty. pins_sweep -- drop at most `budget` of its pins;
 * false: none is left. pins_leaving -- whether any is. pins_drop_all -- at the end of the store. */
void pins_leave(struct store *s, struct pins *p);
bool pins_sweep(struct store *s, unsigned budget);
bool pins_leaving(const struct store *s);
void pins_drop_all(struct store *s);

/* pins_release_block -- remove a LIVE block from every set. For the store. */
void pins_release_block(struct store *s, struct block *b);

#endif
