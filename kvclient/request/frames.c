/* SPDX-License-Identifier: Apache-2.0 */
/* frames.c -- the contents of frames to servers, and their sending: a proof, released leases, CANCELs, then requests in
 * turn.
 *
 * A frame that cannot be sent means a broken link: the node attaches again and all requests are repeated, since even
 * that frame may have been delivered. */
#include "kvclient/request/requests.h"

#include "kvclient/request/attachment.h"
#include "kvclient/request/landing.h"
#include "kvclient/request/lanes.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"
#include "kvclient/request/pack.h"
#include "kvclient/request/private.h"

enum { NO_DEADLINE_US = 0xFFFFFFFFu };

#define FRAME_TIMEOUT_NS 10000000000ull /* after this wait a link counts as broken */

static void frame_sent(struct te_msg *msg, int status)
{
	struct kc_link *l = msg->arg;
	struct kc_attachment *s = l->attachment;
	l->frames--;
	l->stuck = false;
	kc_link_client(l)->requests->out.frames--;
	if (s->open && kc_link_has_work(l))
		kc_link_dirty(l);
	/* Our own closing and fencing use -KV_ECLOSED and -KV_ERESET. */
	if (status < 0 && status != -KV_ECLOSED && status != -KV_ERESET && s->open) {
		if (l->up || s->links_per_shard == 1)
			kc_link_redo(s->node, "a message could not be sent over the fabric");
		else
			kc_link_lost(l, status);
	}
	kc_attachment_unref(s);
}

static uint32_t time_left_us(uint64_t deadline_ns, uint64_t now_ns)
{
	uint64_t us;
	if (deadline_ns == KV_NEVER)
		return NO_DEADLINE_US;
	us = (deadline_ns - now_ns) / 1000;
	return us >= NO_DEADLINE_US ? NO_DEADLINE_US - 1 : (uint32_t)us;
}

static uint64_t id_take(struct kc_link *l, struct kc_req *r)
{
	uint64_t id = l->next_id++;
	l->credits--;
	kc_map_put(&l->map, id, r);
	return id;
}

static void frame_prove(struct kc_link *l, struct wire_writer *w)
{
	struct wire_request q = {.type = WIRE_PROVE, .time_left_us = NO_DEADLINE_US, .prove.nonce = l->nonce};
	l->prove_due = false;
	if (KV_UNLIKELY(l->nonce))
		wire_request_add(w, &q);
}

/* False: full. */
static bool frame_cancels(struct kc_link *l, struct wire_writer *w)
{
	while (!kv_list_empty(&l->cancels) && l->credits > 0) {
		struct kc_req *r = KV_LIST_ENTRY(l->cancels.next, struct kc_req, cancel_node);
		struct wire_request q = {
			.type = WIRE_CANCEL, .id = l->next_id, .time_left_us = NO_DEADLINE_US, .cancel.id = r->id};
		if (wire_request_add(w, &q) < 0)
			return false;
		r->cancel_id = id_take(l, r);
		kv_list_del(&r->cancel_node);
	}
	return true;
}

static int record_add(struct wire_writer *w, const struct kc_req *r, const struct kc_session_at **whose)
{
	if (KV_UNLIKELY(r->session != *whose) && !kc_frame_switch(w, r, whose))
		return -KV_EBUSY;
	return wire_request_add(w, &r->wire);
}

/* A landing PUT, once its write is started. 1: no place, others pass. */
static int record_land(struct kc_link *l, struct wire_writer *w, struct kc_req *r, const struct kc_session_at **whose,
		       bool *follows)
{
	const struct kc_session_at *whose_before = *whose;
	struct wire_writer before = *w;
	int rc = r->session || !kc_queue_kept(&l->parked, r) ? kc_push_place(l, r) : -KV_EBUSY;
	if (rc == -KV_EBUSY)
		return kc_push_park(l, r) ? 1 : rc;
	if (rc == 0)
		rc = record_add(w, r, whose);
	if (rc == 0)
		rc = kc_push_start(kc_link_client(l), l, r);
	if (rc == 0) {
		*follows = !l->attachment->local;
		return 0;
	}
	kc_push_displace(l, r);
	*w = before;
	*whose = whose_before;
	return rc;
}

/* A packed PUT. 1: as record_land. */
static int record_pack(struct kc_link *l, struct wire_writer *w, struct kc_req *r, const struct kc_session_at **whose,
		       uint64_t now_ns, bool *follows)
{
	const struct kc_session_at *whose_before = *whose;
	struct wire_writer before = *w;
	int rc;
	if (r->mem.pack)
		return record_add(w, r, whose);
	rc = r->session || !kc_queue_kept(&l->parked, r) ? kc_pack_make(l, w, r, r->session != *whose, now_ns) : 1;
	if (rc == 1)
		return kc_push_park(l, r) ? 1 : -KV_EBUSY;
	if (rc == 0)
		rc = record_add(w, r, whose);
	if (rc == 0)
		rc = kc_pack_write(l, r);
	if (rc == 0) {
		*follows = true;
		return 0;
	}
	kc_pack_unmake(l, r);
	*w = before;
	*whose = whose_before;
	return rc;
}

/* False: full. */
static bool frame_requests(struct kc_link *l, struct wire_writer *w, uint64_t now_ns, bool *follows)
{
	struct kvc_client *c = kc_link_client(l);
	const struct kc_session_at *whose = NULL;
	struct kc_req *r;
	while ((r = kc_link_head(l))) {
		int rc = 0;
		if (r->deadline_ns <= now_ns) {
			kc_req_end(c, r, -KV_ETIMEOUT);
			continue;
		}
		r->wire.id = l->next_id;
		r->wire.time_left_us = time_left_us(r->deadline_ns, now_ns);
		if (KV_UNLIKELY(r->mem.small))
			rc = record_pack(l, w, r, &whose, now_ns, follows);
		else if (KV_UNLIKELY(kc_req_lands(r)))
			rc = record_land(l, w, r, &whose, follows);
		else
			rc = record_add(w, r, &whose);
		if (rc == 1)
			continue;
		if (rc == -KV_EBUSY && (w->records > 0 || l->stuck))
			return l->stuck;
		if (rc < 0) {
			kc_req_end(c, r, -KV_EINVAL);
			continue;
		}
		r->id = id_take(l, r);
		kc_req_advance(r, KC_REQ_SENT);
		r->at.sent_ns = now_ns;
		kc_add(&c->count.requests, 1);
		kc_add(&c->count.queue_ns, now_ns - r->at.made_ns);
		kc_max(&c->count.queue_max_ns, now_ns - r->at.made_ns);
		kv_list_del(&r->node);
		kv_list_add_tail(&l->sent, &r->node);
		if (KV_UNLIKELY(r->session || !kv_list_empty(&l->turns)))
			kc_turn_taken(l, r);
	}
	return true;
}

/* Whether a frame only repeats a proof. A blocked PUT would send one at each try, and they would keep its bytes
 * blocked. */
static bool proof_again(const struct kc_link *l, const struct wire_writer *w, bool due)
{
	return l->nonce && !due && w->records == 1 && !kc_link_has_work(l);
}

/* 0; -KV_EBUSY: no message buffer; or -KV_EINTERNAL: the node attaches again. */
static int link_send(struct kvc_client *c, struct kc_link *l)
{
	struct kc_attachment *s = l->attachment;
	struct wire_frame frame = {
		.session = s->number, .mark = s->node->index, .link = (uint8_t)l->index, .shard = (uint8_t)l->shard};
	uint64_t now_ns = loop_now(c->loop);
	bool ordered = s->landing && !s->local, follows = false, proof_due = l->prove_due;
	struct wire_writer w;
	struct te_msg *msg = te_msg_acquire(c->te);
	if (!msg)
		return -KV_EBUSY;
	wire_frame_begin(&w, msg->data, KV_MSG_MAX, &frame);
	frame_prove(l, &w);
	kc_release_write(l, &w);
	if (ordered)
		te_order_begin(c->te);
	if (frame_cancels(l, &w))
		frame_requests(l, &w, now_ns, &follows);
	msg->len = wire_frame_end(&w);
	if (msg->len == 0 || proof_again(l, &w, proof_due)) {
		if (ordered)
			te_order_end(c->te);
		te_msg_release(c->te, msg);
		return 0;
	}
	/* The kernel knows the sender of a channel's frame. */
	if (KV_UNLIKELY(!s->local && wire_seal(&l->seal, msg->data, msg->len) != 0)) {
		if (ordered)
			te_order_end(c->te);
		te_msg_release(c->te, msg);
		kc_link_redo(s->node, "a frame could not be sealed");
		return -KV_EINTERNAL;
	}
	msg->sent = frame_sent;
	msg->arg = l;
	l->frames++;
	c->requests->out.frames++;
	s->refs++;
	if (follows) {
		c->requests->out.follow_link = l;
		c->requests->out.follow_msg = msg;
	}
	if (ordered)
		te_order_end(c->te);
	if (!follows) {
		te_msg_send(c->te, s->peer[l->shard], l->index, msg, now_ns + FRAME_TIMEOUT_NS);
	} else if (c->requests->out.follow_msg) {
		c->requests->out.follow_msg = NULL;
		te_msg_release(c->te, msg);
		l->frames--;
		c->requests->out.frames--;
		kc_attachment_unref(s);
		kc_link_redo(s->node, "a message could not follow its bytes");
		return -KV_EINTERNAL;
	}
	return 0;
}

/* Beyond one frame per link, only while half of the buffers are free: stopped servers leave some. frame_sent
 * continues. */
static bool frame_allowed(const struct kc_link *l)
{
	return l->frames == 0 || kc_link_client(l)->requests->out.frames < KC_FRAMES / 2;
}

void kc_link_flush(struct kvc_client *c)
{
	while (!kv_list_empty(&c->requests->out.dirty)) {
		struct kc_link *l = KV_LIST_ENTRY(c->requests->out.dirty.next, struct kc_link, dirty_node);
		while (kc_link_has_work(l) && frame_allowed(l))
			if (link_send(c, l) < 0)
				return; /* still dirty; kc_client_room continues */
		kv_list_del(&l->dirty_node);
	}
}

void kc_client_follow(void *arg)
{
	struct kvc_client *c = arg;
	const struct kc_link *l = c->requests->out.follow_link;
	if (c->requests->out.follow_msg &&
	    te_msg_follow(c->te, l->attachment->peer[l->shard], l->index, c->requests->out.follow_msg) == 0)
		c->requests->out.follow_msg = NULL;
}

void kc_client_room(void *arg)
{
	struct kvc_client *c = arg;
	if (c->requests->out.flusher && !kv_list_empty(&c->requests->out.dirty))
		co_wake(c->requests->out.flusher);
}

void kc_link_lost(struct kc_link *l, int status)
{
	struct kvc_client *c = l->attachment->node->client;
	KV_LIST_EACH_SAFE (node, &l->sent) {
		struct kc_req *r = KV_LIST_ENTRY(node, struct kc_req, node);
		kc_map_del(&l->map, r->id);
		r->id = 0;
		r->said = KC_SAID_REPLY;
		r->status = status;
		kc_link_credit(l);
		kc_push_lost(r, l);
		kc_pack_lost(r);
		if (r->mem.push)
			kc_req_settle(c, r); /* it ends with our own write */
		else
			kc_req_end(c, r, status);
	}
}
