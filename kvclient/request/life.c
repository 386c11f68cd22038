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
#include "kvclient/request/private.h"
#include "kvclient/request/pull.h"
#include "kvclient/request/fence.h"
#include "kvclient/request/trace.h"

static void req_tell(struct kc_req *r)
{
	if (!r->wait)
		return;
	r->wait->left--;
	if (r->wait->co)
		co_wake(r->wait->co);
	r->wait = NULL;
}

static void req_leave(struct kvc_client *c, struct kc_req *r, enum kc_req_state to)
{
	kc_req_advance(r, to);
	r->orphan.since_ns = loop_turn_now(c->loop);
	kv_list_add_tail(&c->requests->unsafe.orphans, &r->orphan.node);
}

static void req_recycle(struct kvc_client *c, struct kc_req *r)
{
	if (kc_req_orphaned(r))
		kv_list_del(&r->orphan.node);
	kc_room_return(c, r);
	kc_reqs_give(&c->reqs, r);
	kc_room_feed(c);
}

static bool req_over(const struct kc_req *r)
{
	return r->id == 0 && r->cancel_id == 0;
}

void kc_req_end(struct kvc_client *c, struct kc_req *r, int status)
{
	bool queued = r->state == KC_REQ_QUEUED, orphaned = kc_req_orphaned(r);
	if (r->state != KC_REQ_DONE && r->state != KC_REQ_LATE) {
		kc_req_advance(r, orphaned ? KC_REQ_LATE : KC_REQ_DONE);
		r->status = status;
		r->at.done_ns = kc_req_now(c, r);
		kc_room_return_imms(c, r);
		if (orphaned)
			kc_room_return_piece(c, r);
		req_tell(r);
	}
	if (!req_over(r))
		return;
	/* Others may have waited behind it. */
	kv_list_del(&r->node);
	if (KV_UNLIKELY(queued && r->link && kc_req_lands(r)))
		kc_link_look(r->link);
	kv_list_del(&r->cancel_node);
	if (KV_UNLIKELY(r->session && queued))
		kc_lane_left(r);
	r->link = NULL;
	if (orphaned)
		req_recycle(c, r);
}

static void submit(struct kc_link *l, struct kc_req *r, struct kc_wait *wait, bool first)
{
	if (KV_UNLIKELY(r->session != NULL))
		l = kc_lane_link(l, r);
	r->link = l;
	r->trace = wait->trace && wait->trace->on ? wait->trace : NULL;
	r->at.server = (uint16_t)l->attachment->node->index;
	r->at.shard = l->shard;
	r->at.link = l->index;
	r->wait = wait;
	wait->left++;
	if (KV_UNLIKELY(!l->attachment->open)) {
		kc_req_end(kc_link_client(l), r, -KV_ERESET);
		return;
	}
	kc_req_advance(r, KC_REQ_QUEUED);
	if (KV_UNLIKELY(r->session != NULL))
		kc_lane_add(l, r);
	else if (first)
		kv_list_add_head(&l->queue, &r->node);
	else
		kc_queue_in(l, &l->queue, r);
	kc_link_dirty(l);
}

void kc_req_submit(struct kc_link *l, struct kc_req *r, struct kc_wait *wait)
{
	submit(l, r, wait, false);
}

void kc_req_submit_first(struct kc_link *l, struct kc_req *r, struct kc_wait *wait)
{
	submit(l, r, wait, true);
}

void kc_req_cancel(struct kc_req *r, int status)
{
	struct kc_link *l = r->link;
	if (r->state == KC_REQ_QUEUED) {
		kc_req_end(kc_link_client(l), r, status);
		return;
	}
	if (r->state != KC_REQ_SENT)
		return;
	kc_req_advance(r, KC_REQ_GIVEN_UP);
	r->at.given_up_ns = loop_now(kc_link_client(l)->loop);
	kc_add(&kc_link_client(l)->count.cancels, 1);
	if (r->mem.pull) /* the read under way still ends */
		te_xfer_cancel(kc_link_client(l)->te, &r->mem.pull->xfer);
	if (r->said != KC_SAID_REPLY) {
		kv_list_add_tail(&l->cancels, &r->cancel_node);
		kc_link_dirty(l);
	}
}

void kc_req_release(struct kvc_client *c, struct kc_req *r)
{
	kc_lease_drop(&r->mem.lease);
	if (KV_UNLIKELY(r->trace != NULL)) {
		kc_trace_note(r->trace, r, loop_turn_now(c->loop));
		r->trace = NULL;
	}
	if (r->wait) {
		r->wait->left--;
		r->wait = NULL;
	}
	if (r->state == KC_REQ_QUEUED)
		kc_req_end(c, r, -KV_ECANCELED); /* leaves the queue and its lane */
	if (kc_req_out(r)) {
		KV_ASSERT(!(r->mem.callers && kc_req_unsafe(r))); /* rule 16: it was fenced */
		kc_req_cancel(r, -KV_ECANCELED);
		kc_add(&c->count.orphans, 1);
		kc_room_not_out(r);
		req_leave(c, r, KC_REQ_ORPHAN);
		/* EXISTS names no memory: its keys were sent in the frame. */
		if (r->wire.dest.count == 0)
			kc_room_return_piece(c, r);
		c->requests->unsafe.orphan_bytes += r->mem.piece.len_bytes;
		kc_client_quarantine_count(c);
		kc_room_feed(c);
	} else if (r->state == KC_REQ_DONE && !req_over(r)) {
		kc_room_return_piece(c, r);
		req_leave(c, r, KC_REQ_LATE);
		kc_room_feed(c);
	} else {
		req_recycle(c, r);
	}
}

void kc_req_settle(struct kvc_client *c, struct kc_req *r)
{
	bool replied = r->said == KC_SAID_REPLY, orphaned = kc_req_orphaned(r);
	int status = replied ? r->status : -KV_ECANCELED;
	if (kc_req_out(r) && !kc_req_quiet(r)) {
		/* A failure need not wait for the last write. */
		if (replied && r->status < 0 && r->wait && r->wait->co)
			co_wake(r->wait->co);
		return;
	}
	if (r->mem.arrived > r->mem.posted)
		status = -KV_EPROTO;
	if (r->state == KC_REQ_ORPHAN) {
		c->requests->unsafe.orphan_bytes -= r->mem.piece.len_bytes;
		kc_client_quarantine_count(c);
	}
	kc_req_end(c, r, status);
	if (orphaned)
		kc_room_feed(c);
}
