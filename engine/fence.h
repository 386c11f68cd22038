/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h -- rebuilding the endpoints. Private to engine/. */
#ifndef KVRAIL_ENGINE_FENCE_H
#define KVRAIL_ENGINE_FENCE_H

#include "base/base.h"
#include "engine/engine.h"

/* The endpoints of the engine, taken together; drawn in fence.c. */
enum fence_state {
	FENCE_OPEN = 0,
	FENCE_LIMBO = 1,     /* an endpoint that was given up is not closed yet: operations in limbo may touch memory */
	FENCE_DOWN = 2,      /* no rail is up */
	FENCE_DOWN_LIMBO = 3 /* both */
};

/* The state of the endpoints. Files below fence.c read state, generation, map and status. peer.c and te_address set
 * exposed; te_close changes the generation and ends limbo. */
struct fence {
	enum fence_state state;
	uint32_t generation;       /* of the endpoints: it changes whenever they are closed */
	uint8_t map[KV_RAILS_MAX]; /* the rail that stands for each: itself, or while it is down one that is not */
	bool exposed;              /* a peer may know the present endpoints */
	bool reset_due;            /* the owner is still to be told of the present endpoints */
	int status;                /* it will be told: 0, or why no rail is up */
	uint32_t tokens;           /* fences that may be told at once; one more every TE_FENCE_REFILL_NS */
	uint64_t refilled_ns;      /* up to when tokens are counted */
	uint64_t quiet_until;      /* the owner is told no sooner; 0: at once */
};

static inline bool fence_down(const struct fence *f)
{
	return f->state & FENCE_DOWN;
}

static inline bool fence_limbo(const struct fence *f)
{
	return f->state & FENCE_LIMBO;
}

/* fence_init -- no rail is open yet: each stands for itself. */
void fence_init(struct fence *f, uint64_t now);

/* te_reset -- rebuild all endpoints: a fence of every peer. te_reset_turn tells the owner. 0, or the code of a rebuild
 * that failed, with *err (may be NULL): endpoints are closed then. Runs no callbacks. */
int te_reset(struct te *te, struct kv_error *err);

/* te_reset_turn -- once per te_poll: rebuild what died or is due, tell the owner. Runs callbacks. */
void te_reset_turn(struct te *te);

#endif
