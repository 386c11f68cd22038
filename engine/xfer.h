/* SPDX-License-Identifier: Apache-2.0 */
/* xfer.h -- transfers and the posting of their chunks. Private to engine/. */
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

/* xfer_post -- post the next chunk over this link. Except for POST_DONE it is unchanged. xfer_blocked -- a read with a
 * full window: no chunk may be posted. */
enum post xfer_post(struct te_link *l, struct te_xfer *x);
bool xfer_blocked(const struct te_xfer *x);

/* xfer_op_done -- a chunk has ended. Runs the owner's callbacks after the last one. */
void xfer_op_done(struct op *op, int status);

/* xfer_unqueue -- remove it from its queue, if any. xfer_finalize -- no more chunks will be posted: xfers_notify
 * reports it. xfer_fail_queued -- both, with this status. */
void xfer_unqueue(struct te_xfer *x);
void xfer_finalize(struct te_xfer *x);
void xfer_fail_queued(struct te_xfer *x, int status);

/* xfers_notify -- run the due callbacks of this list, ended.xfers. Returns whether there were any. */
bool xfers_notify(struct kv_list *ended);

#endif
