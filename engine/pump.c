/* SPDX-License-Identifier: Apache-2.0 */
/* pump.c -- the choice of the next operation to post, and the end of those past their deadline.
 *
 * On a link messages come first, because receivers wait for them: outside the window, with reserved credits, at the
 * head of the line. Then come transfers, one chunk each in turn, alternating between the link's own queue and the
 * peer's. Nothing here calls the owner: ended operations join a list of notify.h. */
#include "engine/inside.h"
#include "engine/link.h"
#include "engine/msg.h"
#include "engine/peer.h"
#include "engine/pump.h"
#include "engine/xfer.h"

/* ---- posting ---- */

static enum post post_msg(struct te_link *l)
{
	struct msg *m = KV_LIST_ENTRY(l->msgs.next, struct msg, node);
	enum post p = msg_post(l, m);
	if (p == POST_DONE) {
		kv_list_del(&m->node);
		peer_unqueued(l->peer);
		peer_release(l->peer); /* the operation holds it now */
	} else if (p == POST_FAILED) {
		msg_end_queued(m, -KV_EPROVIDER);
		p = POST_DONE;
	}
	return p;
}

static struct te_xfer *first_of(struct kv_list *queue)
{
	KV_LIST_EACH (n, queue) {
		struct te_xfer *x = KV_LIST_ENTRY(n, struct te_xfer, priv.node);
		if (!xfer_blocked(x))
			return x;
	}
	return NULL;
}

static enum post post_chunk(struct te_link *l, struct kv_list *queue)
{
	struct te_xfer *x = first_of(queue);
	if (!x)
		return POST_NOTHING;
	enum post p = xfer_post(l, x);
	if (p == POST_FAILED) {
		xfer_fail_queued(x, -KV_EPROVIDER);
		return POST_DONE;
	}
	if (p != POST_DONE)
		return p;
	if (x->priv.state & XFER_FINAL) {
		xfer_unqueue(x);
		xfer_finalize(x);
	} else {
		kv_list_del(&x->priv.node);
		kv_list_add_tail(queue, &x->priv.node);
	}
	return POST_DONE;
}

static enum post post_some_chunk(struct te_link *l)
{
	if (KV_UNLIKELY(!l->use))
		return post_chunk(l, &l->xfers);
	struct kv_list *first = l->own_turn ? &l->xfers : &l->peer->xfers,
		       *second = l->own_turn ? &l->peer->xfers : &l->xfers;
	l->own_turn = !l->own_turn;
	enum post p = post_chunk(l, first);
	return p == POST_NOTHING ? post_chunk(l, second) : p;
}

/* One operation of a link. POST_NOTHING: no work, or no room in the window. */
static enum post post_one(struct te_link *l)
{
	bool msgs = !kv_list_empty(&l->msgs);
	enum post p;
	if (!l->addr)
		return POST_NOTHING;
	if (msgs && link_msg_room(l))
		return post_msg(l);
	if (!link_room(l))
		return POST_NOTHING;
	p = post_some_chunk(l);
	/* Its messages brought it to the head of the line, where it must not block those of others. The completion of
	 * one of its own brings it back. */
	return p == POST_NO_CREDIT && msgs ? POST_NOTHING : p;
}

static void pump_rail(struct rail *r)
{
	while (!kv_list_empty(&r->ready)) {
		struct te_link *l = KV_LIST_ENTRY(r->ready.next, struct te_link, node);
		switch (post_one(l)) {
		case POST_DONE:
		case POST_FAILED:
			if (link_msg_due(l))
				break; /* it stays at the head */
			kv_list_del(&l->node);
			kv_list_add_tail(&r->ready, &l->node);
			break;
		case POST_NOTHING:
			link_rest(l);
			break;
		case POST_STALLED:
			link_stall(l);
			break;
		case POST_NO_CREDIT:
			return; /* messages stand at the head: none waits behind this one */
		}
	}
}

static void pump_stalled(struct backlog *b)
{
	struct kv_list batch, *n;
	kv_list_init(&batch);
	for (unsigned i = 0; i < TE_STALLED_PER_POLL && (n = kv_list_pop(&b->stalled)); i++)
		kv_list_add_tail(&batch, n);
	uint64_t since = b->stalled_since;
	while ((n = kv_list_pop(&batch))) {
		struct te_link *l = KV_LIST_ENTRY(n, struct te_link, node);
		l->sched = LINK_IDLE;
		switch (post_one(l)) {
		case POST_DONE:
		case POST_FAILED:
		case POST_NO_CREDIT:
			link_activate(l);
			break;
		case POST_STALLED:
			link_stall(l);
			b->stalled_since = since;
			break;
		case POST_NOTHING:
			break;
		}
	}
}

static void pump_local(struct te_peer *peer)
{
	enum post p = POST_DONE;
	while (!kv_list_empty(&peer->local_msgs) && p == POST_DONE)
		p = msg_post_local(peer);
	if (p == POST_FAILED)
		peer_down(peer);
}

void te_pump(struct te *te)
{
	if (!kv_list_empty(&te->backlog.stalled))
		pump_stalled(&te->backlog);
	KV_LIST_EACH_SAFE (n, &te->backlog.full)
		pump_local(KV_LIST_ENTRY(n, struct te_peer, local_node));
	for (unsigned i = 0; i < te->nrails; i++)
		pump_rail(&te->rails[i]);
}

/* ---- deadlines ---- */

static uint64_t sweep_msgs(struct kv_list *queue, uint64_t now, uint64_t next)
{
	KV_LIST_EACH_SAFE (n, queue) {
		struct msg *m = KV_LIST_ENTRY(n, struct msg, node);
		if (m->deadline_ns <= now)
			msg_end_queued(m, -KV_ETIMEOUT);
		else
			next = KV_MIN(next, m->deadline_ns);
	}
	return next;
}

static uint64_t sweep_xfers(struct kv_list *queue, uint64_t now, uint64_t next)
{
	KV_LIST_EACH_SAFE (n, queue) {
		struct te_xfer *x = KV_LIST_ENTRY(n, struct te_xfer, priv.node);
		if (x->deadline_ns <= now)
			xfer_fail_queued(x, -KV_ETIMEOUT);
		else
			next = KV_MIN(next, x->deadline_ns);
	}
	return next;
}

void te_sweep(struct te *te)
{
	struct backlog *b = &te->backlog;
	uint64_t now = te_now(te), next = KV_NEVER;
	if (now < b->next_sweep)
		return;
	KV_LIST_EACH_SAFE (n, &b->peers) {
		struct te_peer *peer = KV_LIST_ENTRY(n, struct te_peer, waiting);
		next = sweep_xfers(&peer->xfers, now, next);
		next = sweep_msgs(&peer->local_msgs, now, next);
		for (unsigned i = 0; i < peer->nlinks; i++) {
			next = sweep_msgs(&peer->links[i].msgs, now, next);
			next = sweep_xfers(&peer->links[i].xfers, now, next);
		}
	}
	b->next_sweep = next == KV_NEVER ? KV_NEVER : KV_MAX(next, now + TE_SWEEP_MIN_NS);
}
