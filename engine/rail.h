/* SPDX-License-Identifier: Apache-2.0 */
/* rail.h -- one NIC: its endpoint, its pool of operations, its receives. Private to engine/. */
#ifndef KVRAIL_ENGINE_RAIL_H
#define KVRAIL_ENGINE_RAIL_H

#include "engine/addr.h"
#include "engine/engine.h"
#include "engine/fabric.h"

struct link;
struct msg;

enum { TE_ADDR_BUCKETS = 256 };

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

/* What a rail hands up, and asks; filled once, when it is opened. sent, moved -- an OP_SEND, or an OP_WRITE or OP_READ,
 * has ended with this status: once for each that was posted, from rail_poll and rail_dispatch_ended. The operation is a
 * copy: it is free already, so that its owner may start the next one, and the reference to its address is given back.
 * follow -- the handler of a message returned, and links are in te.following. any_well -- whether any peer has no
 * trouble with its connections. */
struct rail_events {
	void (*sent)(struct op *op, int status);
	void (*moved)(struct op *op, int status);
	void (*follow)(struct te *te);
	bool (*any_well)(const struct te *te);
};

struct rail {
	struct te *te;
	const struct rail_events *events;
	unsigned index;
	int numa_node;            /* of its NIC; -1: unknown */
	char device[KV_NAME_MAX]; /* its domain, and its address where that is what tells devices apart */
	struct fab *fab;
	struct fab_mr *msg_mr; /* the engine's message memory */
	struct op *ops;        /* tx_limit of them for each set */
	struct op *free;
	uint32_t sets; /* 2 where endpoints are closed slowly: one for that which is given up; else 1 */
	uint32_t tx_limit, credits, reserve;
	uint32_t withheld, half; /* credits that an endpoint rebuilt with smaller queues has no room for; those, and
				    half of the others */
	struct op *recvs;        /* the set that is in use: nrecvs of all_recvs */
	struct op *all_recvs;
	bool recvs_left[2];    /* the set is of an endpoint that is given up, and may be written to */
	struct op *recvs_idle; /* could not be posted; tried again by the next poll */
	uint32_t nrecvs, recv_failures;
	struct kv_list ready; /* links that may post */
	struct kv_list addrs[TE_ADDR_BUCKETS];
	uint32_t naddrs;  /* in the provider's address vector */
	uint32_t stamp;   /* changes whenever a connection may have been replaced: at every poll, when a posting is
			     refused, and with an address */
	bool dead;        /* rebuild it at the next safe point: it failed */
	bool broke;       /* the same, because of a connection that broke: no failure of the rail's own */
	uint64_t heal_at; /* when to look whether anybody needs a connection that broke; 0: none did */
	bool down;        /* closed: a rebuild failed, or it failed too often */
	bool waits;       /* down until the endpoints that are given up are closed, and it was tried again */
	bool fresh;       /* was just opened again: the reset that tells everybody need not do it once more */
	uint64_t trial_ns, retry_at,
		backoff_ns; /* fence.c: when it was rebuilt because it had failed; while down: when it is tried again */
	struct te_stats stats;
};

/* rail_open -- open te->rails[index] on this device. events: what it hands up, for its life. 0, or a code with *err;
 * either way rail_stop and rail_free come next to end it. Thread: te_open's, behind its lock. rail_start -- register
 * the message memory, te.msg_area, and post the receives. As fab_mr_reg. */
int rail_open(struct te *te, unsigned index, const struct fab_device *device, const struct te_options *options,
	      const struct rail_events *events, struct kv_error *err);
int rail_start(struct rail *r, struct kv_error *err);

/* rail_stop -- close the endpoint: nothing touches memory any more. rail_free -- its operations, when all have ended.
 */
void rail_stop(struct rail *r);
void rail_free(struct rail *r);

/* rail_poll -- read what has happened, a bounded number of events, and hand it up. Returns how many. Callbacks of the
 * owner run; one that fences ends the reading. */
int rail_poll(struct rail *r);

/* rail_depth_take -- how many operations may be posted, rail_receives -- how many receives: a rebuilt endpoint may have
 * smaller queues. rail_receives_post -- all of them: after a rebuild. */
void rail_depth_take(struct rail *r);
uint32_t rail_receives(const struct rail *r);
void rail_receives_post(struct rail *r);

/* rail_end_posted -- the endpoint is closed or given up: every posted operation becomes OP_ENDED, or OP_LIMBO where
 * closing may take long. Returns how many are in limbo. rail_limbo_end -- what is in limbo becomes OP_ENDED: all that
 * was given up is closed. rail_dispatch_ended -- what is OP_ENDED is handed up, where callbacks may run. Returns
 * whether there was any. */
uint32_t rail_end_posted(struct rail *r, int status);
void rail_limbo_end(struct rail *r, int status);
bool rail_dispatch_ended(struct rail *r);

/* rail_op_get -- an operation from the pool; NULL without credit. Transfers leave the reserve to messages. rail_op_put
 * -- it was not used. */
struct op *rail_op_get(struct rail *r, enum op_kind kind);
void rail_op_put(struct rail *r, struct op *op);

/* rail_op_posted -- judge rc, which posting to this address returned. POST_DONE: the operation is the provider's, with
 * a reference to the address, until its event. Else it is back in the pool: POST_STALLED (try again later) or
 * POST_FAILED.
 */
enum post rail_op_posted(struct rail *r, struct op *op, struct addr *a, int rc);

/* te_waiting -- of an engine that is down: not because of a failure, but for what was given up to be closed, and its
 * turn after that. */
bool te_waiting(const struct te *te);

#endif
