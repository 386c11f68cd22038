/* SPDX-License-Identifier: Apache-2.0 */
/* notify.h -- where callbacks of the owner run, and the lists of due ones. Private to engine/. */
#ifndef KVRAIL_ENGINE_NOTIFY_H
#define KVRAIL_ENGINE_NOTIFY_H

#include "engine/engine.h"

/* Ended operations not yet reported to their owner. rail.c, xfer.c and msg.c add them; their functions called by
 * te_notify remove them. */
struct ended {
	bool ops; /* a rail has operations in OP_ENDED */
	struct kv_list xfers,
		msgs; /* transfers that may be due (xfer.c); messages that ended without an operation (msg.c) */
};

/* Ordered writes whose message is still to be sent. rail.c opens it as well, around te_handlers.message; xfer.c adds
 * links, and link_follow_take removes one. */
struct order {
	bool open;            /* te_handlers.message runs, or the code between te_order_begin and te_order_end */
	struct kv_list links; /* waiting for their message behind ordered writes, until te_handlers.follow has run */
};

void notify_init(struct ended *ended, struct order *order);

/* te_notify -- run the due callbacks. Returns whether there were any; they may have made others due. Only where no list
 * is being walked. */
bool te_notify(struct te *te);

/* te_reap -- read a bounded number of events of each rail, and of frames of each local peer, and report them. While
 * local peers are busy and the fabric is quiet, it looks at the rails in one of TE_FABRIC_TURNS turns. Returns the
 * number of events and frames. Callbacks of the owner run; one that fences ends the reading of its rail. */
int te_reap(struct te *te);

#endif
