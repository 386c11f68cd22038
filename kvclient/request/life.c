/* SPDX-License-Identifier: Apache-2.0 */
/* life.c -- the life of a request; core/request.c has its states.
 *
 * Ids are given when a record enters a frame, so they ascend in sending order. Submitting marks the link dirty and
 * wakes the flusher, which runs after the ready coroutines: their requests share frames (frames.c).
 *
 * A request released too early becomes an orphan: it keeps entry and piece until nothing can arrive, or a fence or its
 * attachment's end (end.c). */
#include "kvclient/request/life.h"

#include "kvclient/request/admission.h"
#include "kvclient/request/lanes.h"
#include "kvclient/request/link.h"
#include "kvclient/request/order.h"
#include "kvclient/request/private.h"
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

/* to: KVC_REQ_ORPHAN or KVC_REQ_LATE. */
static void req_leave(struct kvc_client *c, struct kvc_req *r, enum kvc_req_state to)
{
	kvc_req_advance(r, to);
	r->orphan.since_ns = loop_turn_now(c->loop);
	kv_list_add_tail(&c->requests->unsafe.orphans, &r->orphan.node);
}

static void req_recycle(struct kvc_client *c, struct kvc_req *r)
{
	if (kvc_req_orphaned(r))
		kv_list_del(&r->orphan.node);
	kvc_room_return(c, r);
	kvc_reqs_give(&c->reqs, r);
	kvc_room_feed(c);
}

static bool req_over(const struct kvc_req *r)
{
	return r->id == 0 && r->cancel_id == 0;
}

void kvc_req_end(struct kvc_client *c, struct kvc_req *r, int status)
{
	bool queued = r->state == KVC_REQ_QUEUED, orphaned = kvc_req_orphaned(r);
	if (r->state != KVC_REQ_DONE && r->state != KVC_REQ_LATE) {
		kvc_req_advance(r, orphaned ? KVC_REQ_LATE : KVC_REQ_DONE);
		r->status = status;
		r->at.done_ns = kvc_req_now(c, r);
		kvc_room_return_imms(c, r);
		if (orphaned)
			kvc_room_return_piece(c, r);
		req_tell(r);
	}
	if (!req_over(r))
		return;
	/* Others may have waited behind it. */
	kv_list_del(&r->node);
	if (KV_UNLIKELY(queued && r->link && kvc_req_lands(r)))
		kvc_link_look(r->link);
	kv_list_del(&r->cancel_node);
	if (KV_UNLIKELY(r->session && queued))
		kvc_lane_left(r);
	r->link = NULL;
	if (orphaned)
		req_recycle(c, r);
}

static void submit(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait, bool first)
{
	if (KV_UNLIKELY(r->session != NULL))
		l = kvc_lane_link(l, r);
	r->link = l;
	r->trace = wait->trace && wait->trace->on ? wait->trace : NULL;
	r->at.server = (uint16_t)l->attachment->node->index;
	r->at.shard = l->shard;
	r->at.link = l->index;
	r->wait = wait;
	wait->left++;
	if (KV_UNLIKELY(!l->attachment->open)) {
		kvc_req_end(kvc_link_client(l), r, -KV_ERESET);
		return;
	}
	kvc_req_advance(r, KVC_REQ_QUEUED);
	if (KV_UNLIKELY(r->session != NULL))
		kvc_lane_add(l, r);
	else if (first)
		kv_list_add_head(&l->queue, &r->node);
	else
		kvc_queue_in(l, &l->queue, r);
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
	if (r->state != KVC_REQ_SENT)
		return;
	kvc_req_advance(r, KVC_REQ_GIVEN_UP);
	r->at.given_up_ns = loop_now(kvc_link_client(l)->loop);
	kvc_add(&kvc_link_client(l)->count.cancels, 1);
	if (r->mem.pull) /* the read under way still ends */
		te_xfer_cancel(kvc_link_client(l)->te, &r->mem.pull->xfer);
	if (r->said != KVC_SAID_REPLY) {
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
	if (r->state == KVC_REQ_QUEUED)
		kvc_req_end(c, r, -KV_ECANCELED); /* leaves the queue and its lane */
	if (kvc_req_out(r)) {
		kvc_req_cancel(r, -KV_ECANCELED);
		kvc_add(&c->count.orphans, 1);
		kvc_room_not_out(r);
		req_leave(c, r, KVC_REQ_ORPHAN);
		/* EXISTS names no memory: its keys were sent in the frame. */
		if (r->wire.dest.count == 0)
			kvc_room_return_piece(c, r);
		c->requests->unsafe.orphan_bytes += r->mem.piece.len_bytes;
		kvc_client_quarantine_count(c);
		kvc_room_feed(c);
	} else if (r->state == KVC_REQ_DONE && !req_over(r)) {
		kvc_room_return_piece(c, r);
		req_leave(c, r, KVC_REQ_LATE);
		kvc_room_feed(c);
	} else {
		req_recycle(c, r);
	}
}

void kvc_req_settle(struct kvc_client *c, struct kvc_req *r)
{
	bool replied = r->said == KVC_SAID_REPLY, orphaned = kvc_req_orphaned(r);
	int status = replied ? r->status : -KV_ECANCELED;
	if (kvc_req_out(r) && !kvc_req_quiet(r)) {
		/* A failure need not wait for the last write. */
		if (replied && r->status < 0 && r->wait && r->wait->co)
			co_wake(r->wait->co);
		return;
	}
	if (r->mem.arrived > r->mem.posted)
		status = -KV_EPROTO;
	if (r->state == KVC_REQ_ORPHAN) {
		c->requests->unsafe.orphan_bytes -= r->mem.piece.len_bytes;
		kvc_client_quarantine_count(c);
	}
	kvc_req_end(c, r, status);
	if (orphaned)
		kvc_room_feed(c);
}
