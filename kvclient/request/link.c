/* SPDX-License-Identifier: Apache-2.0 */
/* link.c -- requests on their way out: credits, ids, frames.
 *
 * A request is queued (no id yet), then sent (an id, a credit, an entry in the map), then done. Ids are given when a
 * record goes into a frame, so that they ascend in sending order whatever was cancelled while it waited. Requests made
 * in one turn of the loop to one link share frames: submitting only marks the link dirty and wakes the flusher, which
 * runs after the coroutines that are ready already.
 *
 * A credit is taken by every record and comes back with its reply. The last few are kept for CANCEL and PING: a link
 * whose requests are all stuck can still cancel them.
 *
 * A server serves a link once it has back the nonce that its answer to our PING brought (kvc_link_nonce). The nonce
 * goes at the head of every frame until another request by that link is answered: a frame may be lost with a link that
 * comes and goes, or be overtaken by a later one (EFA), whose requests would be dropped else. So the first call after a
 * PING costs no turn more.
 *
 * A frame that could not be sent says that the link is broken in a way the engine could not mend: the whole connection
 * is made anew, and its requests are made again. Rejected: failing only the requests of that frame, which may have been
 * delivered all the same. */
#include "kvclient/pool/client.h"

enum { NO_DEADLINE_US = 0xFFFFFFFFu };

#define FRAME_TIMEOUT_NS 10000000000ull /* a frame that cannot be posted for so long means a broken link */

static struct kvc_client *link_client(const struct kvc_link *l)
{
	return l->session->node->client;
}

void kvc_link_dirty(struct kvc_link *l)
{
	struct kvc_client *c = link_client(l);
	if (kv_list_empty(&l->dirty_node))
		kv_list_add_tail(&c->dirty, &l->dirty_node);
	if (c->flusher)
		co_wake(c->flusher);
}

struct kvc_link *kvc_link_pick(struct kvc_session *s, unsigned shard)
{
	struct kvc_link *first = &s->link[shard * s->links_per_shard], *l;
	if (KV_LIKELY(s->links_per_shard == 1))
		return first;
	for (unsigned tries = 0; tries < s->links_per_shard; tries++) {
		l = &first[s->next_link++ % s->links_per_shard];
		if (l->up)
			return l;
	}
	return first;
}

struct kvc_link *kvc_link_keep(struct kvc_session *s, unsigned shard, uint32_t turn)
{
	struct kvc_link *first = &s->link[shard * s->links_per_shard];
	for (unsigned tries = 0; tries < s->links_per_shard; tries++)
		if (first[(turn + tries) % s->links_per_shard].up)
			return &first[(turn + tries) % s->links_per_shard];
	return first;
}

/* ---- the life of a request ---- */

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
	kv_list_add_tail(&c->orphans, &r->orphan_node);
}

static void req_recycle(struct kvc_client *c, struct kvc_req *r)
{
	if (r->orphan)
		kv_list_del(&r->orphan_node);
	kvc_room_return(c, r);
	kvc_req_recycle(&c->reqs, r);
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
		kvc_req_end(link_client(l), r, -KV_ERESET);
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

void kvc_link_submit(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait)
{
	submit(l, r, wait, false);
}

void kvc_link_urgent(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait)
{
	submit(l, r, wait, true);
}

void kvc_req_cancel(struct kvc_req *r, int status)
{
	struct kvc_link *l = r->link;
	if (r->state == KVC_REQ_QUEUED) {
		kvc_req_end(link_client(l), r, status);
		return;
	}
	if (r->state != KVC_REQ_SENT || r->cancelling)
		return;
	r->cancelling = true;
	kvc_add(&link_client(l)->count.cancels, 1);
	kvc_pull_stop(link_client(l), r);
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
		c->orphan_bytes += r->piece.len_bytes;
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

/* ---- frames ---- */

/* The request whose turn it is, if a credit is there for it. */
static struct kvc_req *queue_head(const struct kvc_link *l)
{
	struct kvc_req *r;
	if (KV_UNLIKELY(!kv_list_empty(&l->turns)))
		r = kvc_turn_head(l);
	else if (kv_list_empty(&l->queue))
		return NULL;
	else
		r = KV_LIST_ENTRY(l->queue.next, struct kvc_req, node);
	return l->credits > (r->wire.type == WIRE_PING ? 0 : l->reserve) ? r : NULL;
}

static bool link_has_work(const struct kvc_link *l)
{
	return (!kv_list_empty(&l->cancels) && l->credits > 0) || l->release_due || l->prove_due || queue_head(l);
}

static void frame_sent(struct te_msg *msg, int status)
{
	struct kvc_link *l = msg->arg;
	struct kvc_session *s = l->session;
	l->frames--;
	link_client(l)->frames--;
	if (s->open && link_has_work(l))
		kvc_link_dirty(l);
	/* Our own closing and fencing say -KV_ECLOSED and -KV_ERESET. */
	if (status < 0 && status != -KV_ECLOSED && status != -KV_ERESET && s->open) {
		if (l->up || s->links_per_shard == 1)
			kvc_node_redo(s->node, "a message could not be sent over the fabric");
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

void kvc_link_nonce(struct kvc_link *l, uint64_t nonce)
{
	l->nonce = nonce;
	l->prove_due = nonce != 0;
	if (nonce)
		kvc_link_dirty(l);
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
	struct kvc_client *c = link_client(l);
	const struct kvc_sub_at *whose = NULL;
	struct kvc_req *r;
	while ((r = queue_head(l))) {
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
		kvc_node_redo(s->node, "a frame could not be sealed");
		return -KV_EINTERNAL;
	}
	msg->sent = frame_sent;
	msg->arg = l;
	l->frames++;
	c->frames++;
	s->refs++;
	te_msg_send(c->te, s->peer[l->shard], l->index, msg, now_ns + FRAME_TIMEOUT_NS);
	return 0;
}

/* A link whose peer takes nothing keeps its frames with the engine. It may have several only while half of the buffers
 * are free, then one: servers that are stopped leave some to the others. frame_sent goes on with what is left. */
static bool frame_allowed(const struct kvc_link *l)
{
	return l->frames == 0 || link_client(l)->frames < KVC_FRAMES / 2;
}

void kvc_link_flush(struct kvc_client *c)
{
	while (!kv_list_empty(&c->dirty)) {
		struct kvc_link *l = KV_LIST_ENTRY(c->dirty.next, struct kvc_link, dirty_node);
		while (link_has_work(l) && frame_allowed(l))
			if (link_send(c, l) < 0)
				return; /* it stays dirty; kvc_client_room goes on */
		kv_list_del(&l->dirty_node);
	}
}

void kvc_client_room(void *arg)
{
	struct kvc_client *c = arg;
	if (c->flusher && !kv_list_empty(&c->dirty))
		co_wake(c->flusher);
}

void kvc_link_credit(struct kvc_link *l)
{
	if (l->credits < l->session->credits)
		l->credits++;
	if (link_has_work(l))
		kvc_link_dirty(l);
}
