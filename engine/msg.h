/* SPDX-License-Identifier: Apache-2.0 */
/* msg.h -- messages and the pool of send buffers. Private to engine/. */
#ifndef KVRAIL_ENGINE_MSG_H
#define KVRAIL_ENGINE_MSG_H

#include "engine/link.h"
#include "host/host.h"

struct msg {
	struct te_msg pub;
	struct kv_list node; /* a link's queue, a local peer's, ended.msgs, or msgs.free */
	struct te_link *link;
	uint64_t deadline_ns;
	int status;
};

/* The message memory of an engine: its send buffers, followed by the receive buffers of each rail. Only msg.c changes
 * it. */
struct msgs {
	struct kv_area area;
	uint64_t bytes;  /* requested; the area may be larger */
	struct msg *all; /* count of them */
	uint32_t count;
	struct kv_list free;
	bool starved; /* te_msg_acquire found none: te_handlers.room is due when one is free */
};

/* msgs_init -- an empty pool. msgs_open -- map `bytes` of memory on this node (KV_NODE_ANY: any), and make the first
 * m->count * KV_MSG_MAX bytes send buffers. Returns 0, or a code with *err. msgs_close -- undo it, even if it failed
 * half-way. */
void msgs_init(struct msgs *m, uint32_t count);
int msgs_open(struct msgs *m, uint64_t bytes, int node, struct kv_error *err);
void msgs_close(struct msgs *m);

/* msgs_room -- run te_handlers.room if te_msg_acquire had failed and a buffer is free now. */
void msgs_room(struct te *te);

/* msg_post -- post it over this link. POST_DONE: it is the provider's; else it is unchanged. */
enum post msg_post(struct te_link *l, struct msg *m);

/* msg_post_local -- put the first message that waits for this peer's ring there, and report it. POST_STALLED: the ring
 * is full. POST_FAILED: the peer is down; the message still waits. */
enum post msg_post_local(struct te_peer *peer);

/* msg_op_done -- runs the owner's `sent` and frees the buffer. */
void msg_op_done(struct op *op, int status);

/* msg_end_queued -- remove it from its queue; msgs_notify reports this status to `sent`. */
void msg_end_queued(struct msg *m, int status);

/* msgs_notify -- run `sent` for messages that ended without an operation. Returns their number. */
int msgs_notify(struct te *te);

#endif
