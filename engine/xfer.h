/* SPDX-License-Identifier: Apache-2.0 */
/* xfer.h -- transfers, and how their chunks go out. Private to engine/. */
#ifndef KVRAIL_ENGINE_XFER_H
#define KVRAIL_ENGINE_XFER_H

#include "engine/link.h"

/* bits of te_xfer.priv.state */
enum {
	XFER_LIVE = 1,    /* started, done has not run */
	XFER_QUEUED = 2,  /* in a link's or peer's queue */
	XFER_FINAL = 4,   /* no more chunks will be posted */
	XFER_TOLD = 8,    /* posting_done ran, or will not run */
	XFER_NOTIFY = 16, /* in ended.xfers */
	XFER_CANCELED = 32
};

/* xfer_post -- post the next chunk over this link. Anything but POST_DONE leaves it as it was. xfer_blocked -- a read
 * whose window is full: nothing of it may be posted. */
enum post xfer_post(struct link *l, struct te_xfer *x);
bool xfer_blocked(const struct te_xfer *x);

/* xfer_op_done -- rail_events.moved: a chunk has ended. Runs the owner's callbacks when it was the last. */
void xfer_op_done(struct op *op, int status);

/* xfer_unqueue -- out of its queue, if it is in one. xfer_finalize -- nothing more of it will be posted: xfers_notify
 * tells its owner. xfer_fail_queued -- both, with this status. */
void xfer_unqueue(struct te_xfer *x);
void xfer_finalize(struct te_xfer *x);
void xfer_fail_queued(struct te_xfer *x, int status);

/* xfers_notify -- run the callbacks that are due for this list, ended.xfers. Returns whether there were any. */
bool xfers_notify(struct kv_list *ended);

#endif
