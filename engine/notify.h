/* SPDX-License-Identifier: Apache-2.0 */
/* notify.h -- where callbacks of the owner run, and the lists of those that are due. Private to engine/. */
#ifndef KVRAIL_ENGINE_NOTIFY_H
#define KVRAIL_ENGINE_NOTIFY_H

#include "engine/engine.h"

/* Operations that have ended, while their owner is still to be told. rail.c, xfer.c and msg.c put them in; their
 * functions that te_notify calls take them out. */
struct ended {
	bool ops;                   /* a rail has operations in OP_ENDED */
	struct kv_list xfers, msgs; /* transfers that may be due (xfer.c); messages that failed in a queue (msg.c) */
};

/* Ordered writes, while the message behind them is still to be sent. rail.c opens it too, around te_handlers.message;
 * xfer.c puts links in, and link_follow_take takes one out. */
struct order {
	bool open;            /* te_handlers.message runs, or the code between te_order_begin and te_order_end */
	struct kv_list links; /* that wait for their message behind ordered writes, until te_handlers.follow has run */
};

/* notify_init -- nothing has ended, and nothing is ordered. */
void notify_init(struct ended *ended, struct order *order);

/* te_notify -- run the callbacks that are due. Returns whether there were any; they may have made others due. Only
 * where no list is being walked. */
bool te_notify(struct te *te);

/* te_follow -- rail_events.follow: let the owner send what goes behind its ordered writes. */
void te_follow(struct te *te);

#endif
