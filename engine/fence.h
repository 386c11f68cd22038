/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h -- rebuilding the endpoints. Private to engine/. */
#ifndef KVRAIL_ENGINE_FENCE_H
#define KVRAIL_ENGINE_FENCE_H

#include "base/base.h"
#include "engine/engine.h"

/* The endpoints of the engine, taken together:
 *
 *   OPEN                --te_reset-->                OPEN, or LIMBO where closing an endpoint takes long
 *   LIMBO               --all abandoned ones closed--> OPEN
 *   LIMBO               --te_reset-->                DOWN_LIMBO (every rail in use becomes WAITING)
 *   DOWN_LIMBO          --all abandoned ones closed--> DOWN
 *   OPEN                --te_reset, no rail is up--> DOWN
 *   DOWN                --retry-->                   OPEN if a rail is back, else DOWN
 *
 * Each arrow except those out of limbo sets reset_due, until te_handlers.reset has run. */
enum fence_state {
	FENCE_OPEN = 0,
	FENCE_LIMBO = 1,     /* an abandoned endpoint is not closed yet: operations in limbo may touch memory */
	FENCE_DOWN = 2,      /* no rail is up */
	FENCE_DOWN_LIMBO = 3 /* both */
};

/* The state of the endpoints. Files below fence.c read state, generation, map and status. peer.c and te_address set
 * exposed; te_close changes the generation and ends limbo. */
struct fence {
	enum fence_state state;
	uint32_t generation;       /* of the endpoints: changes whenever they close */
	uint8_t map[KV_RAILS_MAX]; /* the rail that stands for each: itself, or another while it is not up */
	bool exposed;              /* a peer may know the present endpoints */
	bool reset_due;            /* te_handlers.reset is still to run for the present endpoints */
	int status;
	uint32_t tokens;      /* resets that may be reported at once; one more every TE_FENCE_REFILL_NS */
	uint64_t refilled_ns; /* tokens are counted up to this time */
	uint64_t quiet_until; /* no report before this time; 0: at once */
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

/* te_reset -- rebuild all endpoints: a fence of every peer. te_reset_turn reports it to the owner. Returns 0, or the
 * code of a failed rebuild with *err (may be NULL); the endpoints are then closed. Runs no callbacks. */
int te_reset(struct te *te, struct kv_error *err);

/* te_reset_turn -- once per te_poll: rebuild dead and due rails, and report to the owner. Runs callbacks. */
void te_reset_turn(struct te *te);

#endif
