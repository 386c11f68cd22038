/* SPDX-License-Identifier: Apache-2.0 */
/* msg.h -- messages: the pool of send buffers, and how they go out. Private to engine/. */
#ifndef KVRAIL_ENGINE_MSG_H
#define KVRAIL_ENGINE_MSG_H

#include "engine/link.h"
#include "host/host.h"

struct msg {
	struct te_msg pub;
	struct kv_list node; /* a link's queue, ended.msgs, or msgs.free */
	struct link *link;
	uint64_t deadline_ns;
	int status;
};

/* The message memory of an engine: its send buffers, and behind them the receive buffers of each rail. Only msg.c
 * changes it. */
struct msgs {
	struct kv_area area;
	uint64_t bytes;  /* that were asked for; the area may be larger */
	struct msg *all; /* count of them */
	uint32_t count;
	struct kv_list free;
	bool starved; /* te_msg_acquire found none: te_handlers.room is due when one is free */
};

/* msgs_init -- as if nothing were there. msgs_open -- map `bytes` of memory on this node (KV_NODE_ANY), and make the
 * first m->count * KV_MSG_MAX of them send buffers. 0, or a code with *err. msgs_close -- undo it, also after half of
 * it. */
void msgs_init(struct msgs *m, uint32_t count);
int msgs_open(struct msgs *m, uint64_t bytes, int node, struct kv_error *err);
void msgs_close(struct msgs *m);

/* msgs_room -- te_msg_acquire found no buffer: run te_handlers.room if one is free now. */
void msgs_room(struct te *te);

/* msg_post -- post it over this link. POST_DONE: it is the provider's; else it is where it was. */
enum post msg_post(struct link *l, struct msg *m);

/* msg_op_done -- rail_events.sent: the owner's `sent` runs, and the buffer is free. */
void msg_op_done(struct op *op, int status);

/* msg_fail_queued -- take it out of its queue; msgs_notify tells its `sent`. */
void msg_fail_queued(struct msg *m, int status);

/* msgs_notify -- tell `sent` of the messages that failed in a queue. Runs callbacks. Returns whether there was any. */
bool msgs_notify(struct te *te);

#endif
