/* SPDX-License-Identifier: Apache-2.0 */
/* rail.h -- one NIC: its endpoint, its pool of operations, its receives. Private to engine/. */
#ifndef KVRAIL_ENGINE_RAIL_H
#define KVRAIL_ENGINE_RAIL_H

#include "engine/addr.h"
#include "engine/engine.h"
#include "engine/fabric.h"

struct link;
struct msg;

enum op_kind { OP_FREE, OP_SEND, OP_WRITE, OP_READ, OP_RECV };
enum op_state { OP_IDLE, OP_POSTED, OP_LIMBO /* its endpoint is given up and not closed yet */, OP_ENDED };
enum post { POST_DONE, POST_NO_CREDIT, POST_STALLED, POST_FAILED, POST_NOTHING };
/* One operation. From the rail's pool: the provider may write to ctx until the event came or the endpoint was closed.
 */
struct op {
	struct fab_ctx ctx; /* first */
	struct op *next;    /* free list */
	struct link *link;
	struct addr *addr;
	union {
		struct te_xfer *xfer;
		struct msg *msg;
		uint8_t *buf; /* OP_RECV */
	} of;
	uint32_t len, chunk;
	int status; /* of OP_ENDED */
	uint8_t kind, state;
	bool after_break; /* posted while addr->broke */
	bool in_handler;  /* OP_RECV: the owner reads the buffer now */
	bool left;        /* it was in limbo: its credit was given back then */
};

/* The functions that a rail calls upwards; filled once, when it is opened. sent, moved -- an OP_SEND, or an OP_WRITE or
 * OP_READ, has ended with this status: once for each that was posted, from rail_poll and rail_dispatch_ended. The
 * operation is a copy: it is free already, so that its owner may start the next one, and the reference to its address
 * is given back. follow -- the handler of a message returned, and links are in order.links. any_well -- whether any
 * peer has no trouble with its connections. */
struct rail_events {
	void (*sent)(struct op *op, int status);
	void (*moved)(struct op *op, int status);
	void (*follow)(struct te *te);
	bool (*any_well)(const struct te *te);
};

/* The state of a rail's endpoint; drawn in fence.c. */
enum rail_state {
	RAIL_UP,
	RAIL_FRESH, /* it was just opened again: the reset that tells everybody need not open it once more */
	RAIL_BROKE, /* to be rebuilt at the next safe point because of a connection that broke: no failure of its own */
	RAIL_DEAD,  /* to be rebuilt at the next safe point: it failed */
	RAIL_OUT,   /* closed: a rebuild failed, or it failed too often; it is tried again at retry_at */
	RAIL_WAITING /* closed, until the endpoints that were given up are closed and its turn comes */
};

/* The operations that may be posted. */
struct pool {
	struct op *ops; /* limit of them for each set */
	struct op *free;
	uint32_t limit, credits;
	uint32_t reserve;  /* credits for messages only */
	uint32_t withheld; /* credits that an endpoint rebuilt with smaller queues has no room for */
	uint32_t half;     /* withheld, and half of the others */
};

/* The receives that are posted. */
struct receives {
	struct op *all; /* count of them for each set */
	struct op *set; /* the set that is in use */
	uint32_t count;
	bool left[2];      /* this set is of an endpoint that is given up, and may be written to */
	struct op *idle;   /* could not be posted; tried again by the next poll */
	uint32_t failures; /* in a row */
};

struct rail {
	struct te *te;
	const struct rail_events *events;
	unsigned index;
	int numa_node;            /* of its NIC; -1: unknown */
	bool shared;              /* several devices share its domain */
	char device[KV_NAME_MAX]; /* its domain; and its address, where several devices share the domain */
	struct fab *fab;
	struct fab_mr *msg_mr; /* the engine's message memory */
	uint32_t sets; /* of operations and receives: 2 where endpoints are closed slowly, one of them for that which is
			  given up; else 1 */
	struct pool pool;
	struct receives recv;
	struct kv_list ready; /* links that may post */
	struct addrs addrs;
	uint32_t stamp; /* changes whenever a connection may have been replaced: at every poll, when a posting is
			   refused, and with an address */
	enum rail_state state;
	uint64_t trial_ns;   /* fence.c: when it was rebuilt because it had failed */
	uint64_t retry_at;   /* while it is closed: when it is tried again */
	uint64_t backoff_ns; /* ... and how long it was out last */
	struct te_stats stats;
};

static inline bool rail_up(const struct rail *r)
{
	return r->state < RAIL_OUT;
}

/* rail_failed -- its endpoint does not work any more: it is rebuilt at the next safe point. Of one that is closed there
 * is nothing to say. */
static inline void rail_failed(struct rail *r)
{
	if (rail_up(r))
		r->state = RAIL_DEAD;
}

/* rail_stranded -- whether the machine has lost the address of its endpoint; then it is to be rebuilt. rail_device_take
 * -- name its device anew: a rebuilt endpoint may have another address. */
bool rail_stranded(struct rail *r);
void rail_device_take(struct rail *r);

/* rail_open -- open te->rails[index] on this device. events: its calls upwards, for its life. 0, or a code with *err;
 * either way rail_stop and rail_free come next to end it. Thread: te_open's, behind its lock. rail_start -- register
 * the message memory, msgs.area, and post the receives. As fab_mr_reg. */
int rail_open(struct te *te, unsigned index, const struct fab_device *device, const struct te_options *options,
	      const struct rail_events *events, struct kv_error *err);
int rail_start(struct rail *r, struct kv_error *err);

/* rail_stop -- close the endpoint: nothing touches memory any more. rail_free -- its operations, when all have ended.
 */
void rail_stop(struct rail *r);
void rail_free(struct rail *r);

/* rail_poll -- read a bounded number of events, and hand them up. Returns how many. Callbacks of the owner run; one
 * that fences ends the reading. */
int rail_poll(struct rail *r);

/* rail_depth_take -- how many operations may be posted, rail_receives -- how many receives: a rebuilt endpoint may have
 * smaller queues. rail_receives_post -- all of them: after a rebuild. */
void rail_depth_take(struct rail *r);
uint32_t rail_receives(const struct rail *r);
void rail_receives_post(struct rail *r);

/* rail_end_posted -- the endpoint is closed or given up: every posted operation becomes OP_ENDED, or OP_LIMBO where
 * closing may take long. Returns how many are in limbo. rail_limbo_end -- every OP_LIMBO becomes OP_ENDED: all
 * endpoints that were given up are closed. rail_dispatch_ended -- every OP_ENDED is handed up, where callbacks may run.
 * Returns whether there was any. */
uint32_t rail_end_posted(struct rail *r, int status);
void rail_limbo_end(struct rail *r, int status);
bool rail_dispatch_ended(struct rail *r);

/* rail_op_get -- an operation from the pool; NULL without credit. Transfers leave the reserve to messages. rail_op_put
 * -- it was not used. */
struct op *rail_op_get(struct rail *r, enum op_kind kind);
void rail_op_put(struct rail *r, struct op *op);

/* rail_op_posted -- judge rc, the result of posting to this address. POST_DONE: the operation is the provider's, with a
 * reference to the address, until its event. Else it is back in the pool: POST_STALLED (try again later) or
 * POST_FAILED. */
enum post rail_op_posted(struct rail *r, struct op *op, struct addr *a, int rc);

/* rails_down -- 0 while a rail is up. -KV_EBUSY: the rails wait for the endpoints that were given up to be closed, and
 * for their turn after that. -KV_EPROVIDER: a rebuild failed. */
int rails_down(const struct te *te);

#endif
