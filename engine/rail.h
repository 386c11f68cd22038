/* SPDX-License-Identifier: Apache-2.0 */
/* rail.h -- one NIC: its endpoint, its pool of operations, its receives. Private to engine/. */
#ifndef KVRAIL_ENGINE_RAIL_H
#define KVRAIL_ENGINE_RAIL_H

#include "engine/addr.h"
#include "engine/engine.h"
#include "engine/fabric/fabric.h"

struct te_link;
struct msg;

enum op_kind { OP_FREE, OP_SEND, OP_WRITE, OP_READ, OP_RECV };
enum op_state { OP_IDLE, OP_POSTED, OP_LIMBO /* its endpoint is abandoned and not closed yet */, OP_ENDED };
enum post { POST_DONE, POST_NO_CREDIT, POST_STALLED, POST_FAILED, POST_NOTHING };
/* One operation. The provider may write to ctx until its event or until the endpoint closed. */
struct op {
	struct fab_ctx ctx; /* first */
	struct op *next;    /* free list */
	struct te_link *link;
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
	bool left;        /* it was in limbo, and its credit was returned then */
};

/* The state of a rail's endpoint:
 *
 *   UP              --a connection broke for good-->             BROKE
 *   UP              --the machine lost its address-->            BROKE
 *   UP, BROKE       --its endpoint failed-->                     DEAD
 *   BROKE           --te_reset-->                                UP
 *   DEAD            --te_reset-->                                UP, or OUT after repeated failures
 *   UP, BROKE, DEAD --te_reset, the rebuild fails-->             OUT
 *   UP, BROKE, DEAD --te_reset, abandoned endpoints not closed-> WAITING
 *   OUT, WAITING    --retry, the endpoint opens-->               FRESH, else OUT
 *   FRESH           --the reset that reports it-->               UP
 *
 * A broken connection does not count against the rail: peers break connections. */
enum rail_state {
	RAIL_UP,
	RAIL_FRESH,  /* just reopened: the reset that reports it need not reopen it */
	RAIL_BROKE,  /* a connection broke: rebuild at the next safe point */
	RAIL_DEAD,   /* it failed: rebuild at the next safe point */
	RAIL_OUT,    /* closed after a failed rebuild or repeated failures; retried at retry_at */
	RAIL_WAITING /* closed until the abandoned endpoints are closed and its turn comes */
};

struct pool {
	struct op *ops; /* `limit` of them for each set */
	struct op *free;
	uint32_t limit, credits;
	uint32_t reserve;  /* credits for messages only */
	uint32_t withheld; /* credits without room since a rebuild with smaller queues */
	uint32_t half;     /* withheld, and half of the others */
};

struct receives {
	struct op *all; /* `count` of them for each set */
	struct op *set; /* the set in use */
	uint32_t count;
	bool left[2];      /* this set belongs to an abandoned endpoint, which may write to it */
	struct op *idle;   /* could not be posted; the next poll retries */
	uint32_t failures; /* in a row */
};

struct rail {
	struct te *te;
	unsigned index;
	int numa_node; /* of its NIC; -1: unknown */
	bool shared;   /* several devices share its domain */
	char device[KV_NAME_MAX];
	struct fab *fab;
	struct fab_mr *msg_mr; /* the engine's message memory */
	uint32_t sets;         /* sets of operations and receives: 2 where endpoints close slowly (one for the abandoned
				  endpoint), else 1 */
	struct pool pool;
	struct receives recv;
	struct kv_list ready; /* links that may post */
	struct addrs addrs;
	uint32_t stamp; /* changes whenever a connection may have been replaced: at every poll, with a refused posting,
			   and with an address */
	enum rail_state state;
	uint64_t trial_ns; /* fence.c: when it was rebuilt after a failure */
	uint64_t retry_at;
	uint64_t backoff_ns; /* ... and its last time out */
	struct te_stats stats;
};

static inline bool rail_up(const struct rail *r)
{
	return r->state < RAIL_OUT;
}

/* rail_failed -- its endpoint is broken: rebuild it at the next safe point. No effect on a closed one. */
static inline void rail_failed(struct rail *r)
{
	if (rail_up(r))
		r->state = RAIL_DEAD;
}

/* rail_log_due -- whether to log event number `count`: peers can cause some, so only every power of two. */
static inline bool rail_log_due(uint64_t count)
{
	return (count & (count - 1)) == 0;
}

/* rail_stranded -- whether the machine has lost the address of its endpoint; then it will be rebuilt. rail_device_take
 * -- update the device name: a rebuilt endpoint may have another address. */
bool rail_stranded(struct rail *r);
void rail_device_take(struct rail *r);

/* rail_open -- open te->rails[index] on this device. Returns 0, or a code with *err; rail_stop
 * and rail_free end it either way. Thread: te_open's, under its lock. rail_start -- register the message memory,
 * msgs.area, and post the receives. As fab_mr_reg. */
int rail_open(struct te *te, unsigned index, const struct fab_device *device, const struct te_options *options,
	      struct kv_error *err);
int rail_start(struct rail *r, struct kv_error *err);

/* rail_stop -- close the endpoint: nothing touches memory any more. rail_free -- free the operations after all have
 * ended. */
void rail_stop(struct rail *r);
void rail_free(struct rail *r);

/* rail_depth_take, rail_receives -- how many operations and receives may be posted: a rebuilt endpoint may have smaller
 * queues. rail_receives_post -- post all receives after a rebuild. rail_receive_post -- post one; if it is refused, it
 * waits for rail_receives_retry, which ends with the first refusal. */
void rail_depth_take(struct rail *r);
uint32_t rail_receives(const struct rail *r);
void rail_receives_post(struct rail *r);
void rail_receive_post(struct rail *r, struct op *op);
void rail_receives_retry(struct rail *r);

/* rail_end_posted -- the endpoint is closed or abandoned: every posted operation becomes OP_ENDED, for te_notify, or
 * OP_LIMBO where closing may take long. Returns the number in limbo. rail_limbo_end -- all abandoned endpoints are
 * closed: every OP_LIMBO becomes OP_ENDED. */
uint32_t rail_end_posted(struct rail *r, int status);
void rail_limbo_end(struct rail *r, int status);

/* rail_op_get -- an operation from the pool; NULL without credit. Transfers leave the reserve to messages. rail_op_put
 * -- return an unused one. */
struct op *rail_op_get(struct rail *r, enum op_kind kind);
void rail_op_put(struct rail *r, struct op *op);

/* rail_op_posted -- judge rc, the result of posting to this address. POST_DONE: the operation is the provider's until
 * its event. Else it is back in the pool: POST_STALLED (retry later) or POST_FAILED. */
enum post rail_op_posted(struct rail *r, struct op *op, struct addr *a, int rc);

/* rails_down -- 0 while a rail is up. -KV_EBUSY: the rails wait until the abandoned endpoints are closed.
 * -KV_EPROVIDER: a rebuild failed. */
int rails_down(const struct te *te);

#endif
