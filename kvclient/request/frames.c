/* SPDX-License-Identifier: Apache-2.0 */
/* frames.c -- frames on their way out.
 *
 * One frame takes what a link has to send: a proof, leases that are given back, CANCELs, requests in their turn.
 *
 * A frame that could not be sent says that the link is broken in a way the engine could not mend: the whole connection
 * is made anew, and its requests are made again. Rejected: failing only the requests of that frame, which may have been
 * delivered all the same. */
#include "kvclient/request/frames.h"

#include "kvclient/request/attachment.h"
#include "kvclient/request/lanes.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"
#include "kvclient/request/release.h"

enum { NO_DEADLINE_US = 0xFFFFFFFFu };

#define FRAME_TIMEOUT_NS 10000000000ull /* a frame that cannot be posted for so long means a broken link */

static void frame_sent(struct te_msg *msg, int status)
{
	struct kvc_link *l = msg->arg;
	struct kvc_session *s = l->session;
	l->frames--;
	kvc_link_client(l)->out.frames--;
	if (s->open && kvc_link_has_work(l))
		kvc_link_dirty(l);
	/* Our own closing and fencing say -KV_ECLOSED and -KV_ERESET. */
	if (status < 0 && status != -KV_ECLOSED && status != -KV_ERESET && s->open) {
		if (l->up || s->links_per_shard == 1)
			kvc_link_redo(s->node, "a message could not be sent over the fabric");
		else
			kvc_link_lost(l, status);
	}
	kvc_session_unref(s);
}

static uint32_t time_left_us(uint64_t deadline_ns, uint64_t now_ns)
{
	uint64_t us;
	if (deadline_ns == KV_NEVER)
		return NO_DEADLINE_US;
	us = (deadline_ns - now_ns) / 1000;
	return us >= NO_DEADLINE_US ? NO_DEADLINE_US - 1 : (uint32_t)us;
}

static uint64_t id_take(struct kvc_link *l, struct kvc_req *r)
{
	uint64_t id = l->next_id++;
	l->credits--;
	kvc_map_put(&l->map, id, r);
	return id;
}

/* The first record of a frame, if there is one to be. */
static void frame_prove(struct kvc_link *l, struct wire_writer *w)
{
	struct wire_request q = {.type = WIRE_PROVE, .time_left_us = NO_DEADLINE_US, .prove.nonce = l->nonce};
	l->prove_due = false;
	if (KV_UNLIKELY(l->nonce))
		wire_request_add(w, &q);
}

/* CANCELs of this link into the frame. False: the frame is full. */
static bool frame_cancels(struct kvc_link *l, struct wire_writer *w)
{
	while (!kv_list_empty(&l->cancels) && l->credits > 0) {
		struct kvc_req *r = KV_LIST_ENTRY(l->cancels.next, struct kvc_req, cancel_node);
		struct wire_request q = {
			.type = WIRE_CANCEL, .id = l->next_id, .time_left_us = NO_DEADLINE_US, .cancel.id = r->id};
		if (wire_request_add(w, &q) < 0)
			return false;
		r->cancel_id = id_take(l, r);
		kv_list_del(&r->cancel_node);
	}
	return true;
}

static bool frame_requests(struct kvc_link *l, struct wire_writer *w, uint64_t now_ns)
{
	struct kvc_client *c = kvc_link_client(l);
	const struct kvc_sub_at *whose = NULL;
	struct kvc_req *r;
	while ((r = kvc_link_head(l))) {
		int rc = 0;
		if (r->deadline_ns <= now_ns) {
			kvc_req_end(c, r, -KV_ETIMEOUT);
			continue;
		}
		r->wire.id = l->next_id;
		r->wire.time_left_us = time_left_us(r->deadline_ns, now_ns);
		if (KV_UNLIKELY(r->sub != whose) && !kvc_frame_switch(w, r, &whose))
			rc = -KV_EBUSY;
		else
			rc = wire_request_add(w, &r->wire);
		if (rc == -KV_EBUSY && w->records > 0)
			return false;
		if (rc < 0) {
			kvc_req_end(c, r, -KV_EINVAL);
			continue;
		}
		r->id = id_take(l, r);
		r->state = KVC_REQ_SENT;
		r->at.sent_ns = now_ns;
		kvc_add(&c->count.requests, 1);
		kvc_add(&c->count.queue_ns, now_ns - r->at.made_ns);
		kvc_max(&c->count.queue_max_ns, now_ns - r->at.made_ns);
		kv_list_del(&r->node);
		kv_list_add_tail(&l->sent, &r->node);
		if (KV_UNLIKELY(r->sub || !kv_list_empty(&l->turns)))
			kvc_turn_taken(l, r);
	}
	return true;
}

/* One frame. 0, or -KV_EBUSY: no message buffer is free. */
static int link_send(struct kvc_client *c, struct kvc_link *l)
{
	struct kvc_session *s = l->session;
	struct wire_frame frame = {
		.session = s->number, .mark = s->node->index, .link = (uint8_t)l->index, .shard = (uint8_t)l->shard};
	uint64_t now_ns = loop_now(c->loop);
	struct wire_writer w;
	struct te_msg *msg = te_msg_acquire(c->te);
	if (!msg)
		return -KV_EBUSY;
	wire_frame_begin(&w, msg->data, KV_MSG_MAX, &frame);
	frame_prove(l, &w);
	kvc_release_write(l, &w);
	if (frame_cancels(l, &w))
		frame_requests(l, &w, now_ns);
	msg->len = wire_frame_end(&w);
	if (msg->len == 0) {
		te_msg_release(c->te, msg);
		return 0;
	}
	if (KV_UNLIKELY(wire_seal(&l->seal, msg->data, msg->len) != 0)) {
		te_msg_release(c->te, msg);
		kvc_link_redo(s->node, "a frame could not be sealed");
		return -KV_EINTERNAL;
	}
	msg->sent = frame_sent;
	msg->arg = l;
	l->frames++;
	c->out.frames++;
	s->refs++;
	te_msg_send(c->te, s->peer[l->shard], l->index, msg, now_ns + FRAME_TIMEOUT_NS);
	return 0;
}

/* A link whose peer takes nothing keeps its frames with the engine. It may have several only while half of the buffers
 * are free, then one: servers that are stopped leave some to the others. frame_sent goes on with what is left. */
static bool frame_allowed(const struct kvc_link *l)
{
	return l->frames == 0 || kvc_link_client(l)->out.frames < KVC_FRAMES / 2;
}

void kvc_link_flush(struct kvc_client *c)
{
	while (!kv_list_empty(&c->out.dirty)) {
		struct kvc_link *l = KV_LIST_ENTRY(c->out.dirty.next, struct kvc_link, dirty_node);
		while (kvc_link_has_work(l) && frame_allowed(l))
			if (link_send(c, l) < 0)
				return; /* it stays dirty; kvc_client_room goes on */
		kv_list_del(&l->dirty_node);
	}
}

void kvc_client_room(void *arg)
{
	struct kvc_client *c = arg;
	if (c->out.flusher && !kv_list_empty(&c->out.dirty))
		co_wake(c->out.flusher);
}

void kvc_link_lost(struct kvc_link *l, int status)
{
	struct kvc_client *c = l->session->node->client;
	KV_LIST_EACH_SAFE (node, &l->sent) {
		struct kvc_req *r = KV_LIST_ENTRY(node, struct kvc_req, node);
		kvc_map_del(&l->map, r->id);
		r->id = 0;
		r->replied = true;
		kvc_link_credit(l);
		kvc_req_end(c, r, status);
	}
}
