/* SPDX-License-Identifier: Apache-2.0 */
/* msg.h -- messages, and how they go out. Private to engine/. */
#ifndef KVRAIL_ENGINE_MSG_H
#define KVRAIL_ENGINE_MSG_H

#include "engine/link.h"

struct msg {
	struct te_msg pub;
	struct kv_list node; /* a link's queue, te.notify_msgs, or te.msgs_free */
	struct link *link;
	uint64_t deadline_ns;
	int status;
};

/* msgs_init -- te's pool of count buffers of KV_MSG_MAX bytes in this memory. 0 or -KV_ENOMEM. */
int msgs_init(struct te *te, uint32_t count, uint8_t *memory);

/* msg_post -- post it over this link. POST_DONE: it is the provider's; else it is where it was. */
enum post msg_post(struct link *l, struct msg *m);

/* msg_op_done -- rail_events.sent: the owner's `sent` runs, and the buffer is free. */
void msg_op_done(struct op *op, int status);

/* msg_fail_queued -- take it out of its queue; its `sent` is told by msgs_notify. */
void msg_fail_queued(struct msg *m, int status);

/* msgs_notify -- tell what has failed in a queue. Runs callbacks. Returns whether there was any. */
bool msgs_notify(struct te *te);

#endif
