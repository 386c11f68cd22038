/* SPDX-License-Identifier: Apache-2.0 */
/* link.c -- what is posted next: queues, windows, credits, stalls, deadlines.
 *
 * A link is in one of three states. IDLE: it has nothing to post, or its window is full; a new operation or a
 * completion activates it. READY: it may post and stands in its rail's line, served round-robin one operation at a
 * time, so that peers share a rail's credits evenly whatever they queued. STALLED: the provider said -EAGAIN
 * (connecting, handshake, back-pressure); it is tried once per te_poll, and never stands in front of another link.
 *
 * On a link messages go first (they are small and somebody waits for them), do not count against the window, have
 * credits of a rail to themselves, and bring their link to the head of the line. Many of them may be in flight while
 * half of the credits are free, then two; a link stays at the head while one of its own may be posted. Then transfers,
 * one chunk each in turn: a huge one does not starve small ones. The pinned queue (link.xfers) and the peer's
 * (te_peer.xfers, striped over its links) alternate.
 *
 * Nothing here calls the owner: what ends is put on a notify list, so that no list changes under a walk. Deadlines of
 * queued things are looked at when the earliest one has passed; te.next_sweep is never later than that. Rejected: a
 * timer per operation, which costs on every operation for what almost never happens. */
#include "engine/inside.h"

void link_init(struct link *l, struct te_peer *peer, unsigned index, struct rail *rail, unsigned remote)
{
	l->peer = peer;
	l->index = (uint16_t)index;
	l->rail = rail;
	l->remote = (uint16_t)remote;
	l->use = true;
	kv_list_init(&l->node);
	kv_list_init(&l->follow_node);
	kv_list_init(&l->msgs);
	kv_list_init(&l->xfers);
}

/* Beyond the few operations that are always allowed, a link may fill its window in bytes only while more than half of
 * the rail's credits are free: it takes hundreds of peers that accept nothing to use up what all need. (A link that is
 * kept back by that has operations out, and the next completion of one activates it.) */
bool link_room(const struct link *l)
{
	const struct te *te = l->peer->te;
	return l->ops < te->link_ops || (l->bytes < te->link_bytes && l->rail->credits > l->rail->half);
}

/* Whether it may post another message: the same bound. */
static bool msg_room(const struct link *l)
{
	return l->sends < TE_LINK_SENDS || l->rail->credits > l->rail->half;
}

bool link_direct_msg(const struct link *l)
{
	return l->addr && l->sched != LINK_STALLED && kv_list_empty(&l->msgs) && msg_room(l);
}

bool link_direct(const struct link *l)
{
	return l->addr && l->sched == LINK_IDLE && kv_list_empty(&l->msgs) && kv_list_empty(&l->rail->ready);
}

bool link_has_work(const struct link *l)
{
	return !kv_list_empty(&l->msgs) || !kv_list_empty(&l->xfers) || (l->use && !kv_list_empty(&l->peer->xfers));
}

/* Whether a message of it may be posted: then it stands at the head, since whoever lacks a transfer's credit ends the
 * serving of the line. */
static bool msg_due(const struct link *l)
{
	return !kv_list_empty(&l->msgs) && msg_room(l);
}

void link_activate(struct link *l)
{
	if (msg_due(l)) {
		link_activate_first(l);
		return;
	}
	if (l->sched != LINK_IDLE || !l->addr)
		return;
	l->sched = LINK_READY;
	kv_list_add_tail(&l->rail->ready, &l->node);
}

void link_activate_first(struct link *l)
{
	if (l->sched == LINK_STALLED || !l->addr)
		return;
	kv_list_del(&l->node);
	l->sched = LINK_READY;
	kv_list_add_head(&l->rail->ready, &l->node);
}

void link_stall(struct link *l)
{
	struct te *te = l->peer->te;
	if (kv_list_empty(&te->stalled))
		te->stalled_since = te_now(te);
	kv_list_del(&l->node);
	l->sched = LINK_STALLED;
	kv_list_add_tail(&te->stalled, &l->node);
}

struct op *link_follow_take(struct link *l)
{
	struct op *op = l->follow;
	if (!op)
		return NULL;
	l->follow = NULL;
	kv_list_del(&l->follow_node);
	if (l->stamp == l->rail->stamp && l->addr)
		return op;
	rail_op_put(l->rail, op);
	return NULL;
}

void link_rest(struct link *l)
{
	kv_list_del(&l->node);
	l->sched = LINK_IDLE;
}

/* ---- posting ---- */

static enum post post_msg(struct link *l)
{
	struct msg *m = KV_LIST_ENTRY(l->msgs.next, struct msg, node);
	enum post p = msg_post(l, m);
	if (p == POST_DONE) {
		kv_list_del(&m->node);
		peer_unqueued(l->peer);
		peer_release(l->peer); /* the operation holds it now */
	} else if (p == POST_FAILED) {
		msg_fail_queued(m, -KV_EPROVIDER);
		p = POST_DONE;
	}
	return p;
}

/* The first transfer of a queue that can go on. */
static struct te_xfer *first_of(struct kv_list *queue)
{
	KV_LIST_EACH (n, queue) {
		struct te_xfer *x = KV_LIST_ENTRY(n, struct te_xfer, priv.node);
		if (!xfer_blocked(x))
			return x;
	}
	return NULL;
}

static enum post post_chunk(struct link *l, struct kv_list *queue)
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

/* A chunk of either queue, which take turns. */
static enum post post_some_chunk(struct link *l)
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
static enum post post_one(struct link *l)
{
	bool msgs = !kv_list_empty(&l->msgs);
	enum post p;
	if (!l->addr)
		return POST_NOTHING;
	if (msgs && msg_room(l))
		return post_msg(l);
	if (!link_room(l))
		return POST_NOTHING;
	p = post_some_chunk(l);
	/* Its messages brought it to the head of the line, where it must not keep back those of others. The completion
	 * of one of its own brings it back. */
	return p == POST_NO_CREDIT && msgs ? POST_NOTHING : p;
}

static void pump_rail(struct rail *r)
{
	while (!kv_list_empty(&r->ready)) {
		struct link *l = KV_LIST_ENTRY(r->ready.next, struct link, node);
		switch (post_one(l)) {
		case POST_DONE:
		case POST_FAILED:
			if (msg_due(l))
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

/* Each stalled link once, and not more than a bounded number of them. */
static void pump_stalled(struct te *te)
{
	struct kv_list batch, *n;
	kv_list_init(&batch);
	for (unsigned i = 0; i < TE_STALLED_PER_POLL && (n = kv_list_pop(&te->stalled)); i++)
		kv_list_add_tail(&batch, n);
	uint64_t since = te->stalled_since;
	while ((n = kv_list_pop(&batch))) {
		struct link *l = KV_LIST_ENTRY(n, struct link, node);
		l->sched = LINK_IDLE;
		switch (post_one(l)) {
		case POST_DONE:
		case POST_FAILED:
		case POST_NO_CREDIT:
			link_activate(l);
			break;
		case POST_STALLED:
			link_stall(l);
			te->stalled_since = since;
			break;
		case POST_NOTHING:
			break;
		}
	}
}

void te_pump(struct te *te)
{
	if (!kv_list_empty(&te->stalled))
		pump_stalled(te);
	for (unsigned i = 0; i < te->nrails; i++)
		pump_rail(&te->rails[i]);
}

/* ---- what is queued, and its deadlines ---- */

void peer_queued(struct te_peer *peer, uint64_t deadline_ns)
{
	struct te *te = peer->te;
	te->queued++;
	if (peer->queued++ == 0)
		kv_list_add_tail(&te->waiting, &peer->waiting);
	te->next_sweep = KV_MIN(te->next_sweep, deadline_ns);
}

void peer_unqueued(struct te_peer *peer)
{
	peer->te->queued--;
	if (--peer->queued == 0)
		kv_list_del(&peer->waiting);
}

static uint64_t sweep_msgs(struct kv_list *queue, uint64_t now, uint64_t next)
{
	KV_LIST_EACH_SAFE (n, queue) {
		struct msg *m = KV_LIST_ENTRY(n, struct msg, node);
		if (m->deadline_ns <= now)
			msg_fail_queued(m, -KV_ETIMEOUT);
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
	uint64_t now = te_now(te), next = KV_NEVER;
	if (now < te->next_sweep)
		return;
	KV_LIST_EACH_SAFE (n, &te->waiting) {
		struct te_peer *peer = KV_LIST_ENTRY(n, struct te_peer, waiting);
		next = sweep_xfers(&peer->xfers, now, next);
		for (unsigned i = 0; i < peer->nlinks; i++) {
			next = sweep_msgs(&peer->links[i].msgs, now, next);
			next = sweep_xfers(&peer->links[i].xfers, now, next);
		}
	}
	te->next_sweep = next == KV_NEVER ? KV_NEVER : KV_MAX(next, now + TE_SWEEP_MIN_NS);
}
