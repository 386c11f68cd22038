/* SPDX-License-Identifier: Apache-2.0 */
/* life.c -- the life of a request, from the moment that its call submits it until nobody refers to it any more.
 *
 * A request is queued (no id yet), then sent (an id, a credit, an entry in the map), then done. Ids are given when a
 * record goes into a frame, so that they ascend in sending order whatever was cancelled while it waited. Requests made
 * in one turn of the loop to one link share frames: submitting only marks the link dirty and wakes the flusher, which
 * runs after the coroutines that are ready already (frames.c).
 *
 * A caller may let go of a request in any state. One that is out is then an orphan: it keeps its entry and its piece
 * until nothing can arrive for it, or a fence or the end of its session says so (end.c). */
#include "kvclient/request/life.h"

#include "kvclient/request/admission.h"
#include "kvclient/request/lanes.h"
#include "kvclient/request/link.h"
#include "kvclient/request/pull.h"
#include "kvclient/request/quarantine.h"
#include "kvclient/request/trace.h"

static void req_tell(struct kvc_req *r)
{
	if (!r->wait)
		return;
	r->wait->left--;
	if (r->wait->co)
		co_wake(r->wait->co);
	r->wait = NULL;
}

static void req_orphan(struct kvc_client *c, struct kvc_req *r)
{
	r->orphan = true;
	r->orphan_ns = loop_turn_now(c->loop);
	kv_list_add_tail(&c->unsafe.orphans, &r->orphan_node);
}

static void req_recycle(struct kvc_client *c, struct kvc_req *r)
{
	if (r->orphan)
		kv_list_del(&r->orphan_node);
	kvc_room_return(c, r);
	kvc_reqs_give(&c->reqs, r);
	kvc_room_feed(c);
}

/* Whether no message can refer to it any more. */
static bool req_over(const struct kvc_req *r)
{
	return r->id == 0 && r->cancel_id == 0;
}

void kvc_req_end(struct kvc_client *c, struct kvc_req *r, int status)
{
	bool queued = r->state == KVC_REQ_QUEUED;
	if (r->state != KVC_REQ_DONE) {
		r->state = KVC_REQ_DONE;
		r->status = status;
		r->at.done_ns = kvc_req_now(c, r);
		kvc_room_return_imms(c, r);
		if (r->orphan)
			kvc_room_return_piece(c, r);
		req_tell(r);
	}
	if (!req_over(r))
		return;
	kv_list_del(&r->node);
	kv_list_del(&r->cancel_node);
	if (KV_UNLIKELY(r->sub && queued))
		kvc_lane_left(r);
	r->link = NULL;
	if (r->orphan)
		req_recycle(c, r);
}

static void submit(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait, bool first)
{
	if (KV_UNLIKELY(r->sub != NULL))
		l = kvc_lane_link(l, r);
	r->link = l;
	r->trace = wait->trace && wait->trace->on ? wait->trace : NULL;
	r->at.server = (uint16_t)l->session->node->index;
	r->at.shard = l->shard;
	r->at.link = l->index;
	r->wait = wait;
	wait->left++;
	if (KV_UNLIKELY(!l->session->open)) {
		kvc_req_end(kvc_link_client(l), r, -KV_ERESET);
		return;
	}
	r->state = KVC_REQ_QUEUED;
	if (KV_UNLIKELY(r->sub != NULL))
		kvc_lane_add(l, r);
	else if (first)
		kv_list_add_head(&l->queue, &r->node);
	else
		kv_list_add_tail(&l->queue, &r->node);
	kvc_link_dirty(l);
}

void kvc_req_submit(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait)
{
	submit(l, r, wait, false);
}

void kvc_req_submit_first(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait)
{
	submit(l, r, wait, true);
}

void kvc_req_cancel(struct kvc_req *r, int status)
{
	struct kvc_link *l = r->link;
	if (r->state == KVC_REQ_QUEUED) {
		kvc_req_end(kvc_link_client(l), r, status);
		return;
	}
	if (r->state != KVC_REQ_SENT || r->cancelling)
		return;
	r->cancelling = true;
	kvc_add(&kvc_link_client(l)->count.cancels, 1);
	if (r->pull) /* read no more of it; what is under way still ends */
		te_xfer_cancel(kvc_link_client(l)->te, &r->pull->xfer);
	if (!r->replied) {
		kv_list_add_tail(&l->cancels, &r->cancel_node);
		kvc_link_dirty(l);
	}
}

void kvc_req_release(struct kvc_client *c, struct kvc_req *r)
{
	if (KV_UNLIKELY(r->trace != NULL)) {
		kvc_trace_note(r->trace, r, loop_turn_now(c->loop));
		r->trace = NULL;
	}
	if (r->wait) {
		r->wait->left--;
		r->wait = NULL;
	}
	if (r->state == KVC_REQ_SENT) {
		kvc_req_cancel(r, -KV_ECANCELED);
		kvc_add(&c->count.orphans, 1);
		kvc_room_not_out(r);
		req_orphan(c, r);
		/* The keys of an EXISTS: they went with the frame, and the peer knows nothing of where they were. */
		if (r->wire.dest.count == 0)
			kvc_room_return_piece(c, r);
		c->unsafe.orphan_bytes += r->piece.len_bytes;
		kvc_client_quarantine_count(c);
		kvc_room_feed(c);
	} else if (r->state == KVC_REQ_DONE && r->link && !req_over(r)) {
		kvc_room_return_piece(c, r);
		req_orphan(c, r);
		kvc_room_feed(c);
	} else {
		req_recycle(c, r);
	}
}

void kvc_req_settle(struct kvc_client *c, struct kvc_req *r)
{
	int status = r->replied ? r->status : -KV_ECANCELED;
	uint64_t piece = r->piece.len_bytes;
	bool orphan = r->orphan, was_out = r->state == KVC_REQ_SENT;
	if (was_out && !kvc_req_quiet(r)) {
		/* A failure is worth knowing before its last write has arrived. */
		if (r->replied && r->status < 0 && r->wait && r->wait->co)
			co_wake(r->wait->co);
		return;
	}
	if (r->arrived > r->posted)
		status = -KV_EPROTO;
	if (orphan && was_out) {
		c->unsafe.orphan_bytes -= piece;
		kvc_client_quarantine_count(c);
	}
	kvc_req_end(c, r, status);
	if (orphan)
		kvc_room_feed(c);
}
