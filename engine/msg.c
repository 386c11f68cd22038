/* SPDX-License-Identifier: Apache-2.0 */
/* msg.c -- messages in registered send buffers.
 *
 * A buffer is free, acquired by the caller, queued on a link, posted, or due for its `sent`. When the pool is empty
 * te_msg_acquire returns NULL, and te_handlers.room announces a free buffer. A message has at most KV_MSG_MAX bytes,
 * which is eager on every provider: on rxm a rendezvous send loses its completion if the peer dies. A message to a
 * local peer is copied into its ring and is due at once; if the ring is full, it waits in the peer's own queue, in
 * order. */
#include <stdlib.h>

#include "engine/inside.h"
#include "engine/link.h"
#include "engine/local_peers.h"
#include "engine/msg.h"
#include "engine/rail.h"

void msgs_init(struct msgs *m, uint32_t count)
{
	kv_list_init(&m->free);
	m->count = count;
}

int msgs_open(struct msgs *m, uint64_t bytes, int node, struct kv_error *err)
{
	int rc = kv_area_map_on(bytes, node, &m->area, err);
	if (rc)
		return rc;
	m->bytes = bytes;
	m->all = calloc(m->count, sizeof(*m->all));
	if (!m->all)
		return kv_fail(err, -KV_ENOMEM, "no memory for message buffers");
	for (uint32_t i = 0; i < m->count; i++) {
		m->all[i].pub.data = (uint8_t *)m->area.base + (uint64_t)i * KV_MSG_MAX;
		kv_list_add_tail(&m->free, &m->all[i].node);
	}
	return 0;
}

void msgs_close(struct msgs *m)
{
	kv_area_unmap(&m->area);
	free(m->all);
}

struct te_msg *te_msg_acquire(struct te *te)
{
	struct kv_list *n = kv_list_pop(&te->msgs.free);
	if (!n) {
		te->stats.msg_exhausted++;
		te->msgs.starved = true;
		return NULL;
	}
	struct msg *m = KV_LIST_ENTRY(n, struct msg, node);
	m->pub.len = 0;
	m->pub.sent = NULL;
	m->pub.arg = NULL;
	return &m->pub;
}

void te_msg_release(struct te *te, struct te_msg *msg)
{
	struct msg *m = KV_CONTAINER(msg, struct msg, pub);
	KV_ASSERT_HOT(kv_list_empty(&m->node)); /* 5: neither free nor queued */
	/* At the head: its lines are still in the cache. */
	kv_list_add_head(&te->msgs.free, &m->node);
}

void msgs_room(struct te *te)
{
	if (kv_list_empty(&te->msgs.free))
		return;
	te->msgs.starved = false;
	if (te->handlers.room)
		te->handlers.room(te->arg);
}

/* The message has ended: report it, then free the buffer. Only where callbacks may run. */
static void finish(struct te *te, struct msg *m, int status)
{
	te->live--;
	if (m->pub.sent)
		m->pub.sent(&m->pub, status);
	te_msg_release(te, &m->pub);
}

static void notify(struct te *te, struct msg *m, int status)
{
	m->status = status;
	kv_list_add_tail(&te->ended.msgs, &m->node);
}

static enum post post(struct te_link *l, struct msg *m, struct op *op)
{
	struct rail *r = l->rail;
	op->of.msg = m;
	op->len = m->pub.len;
	enum post p =
		link_posted(l, op, fab_send(r->fab, m->pub.data, m->pub.len, r->msg_mr, l->addr->handle, &op->ctx));
	l->sends += p == POST_DONE;
	return p;
}

enum post msg_post(struct te_link *l, struct msg *m)
{
	struct op *op = rail_op_get(l->rail, OP_SEND);
	return op ? post(l, m, op) : POST_NO_CREDIT;
}

void msg_op_done(struct op *op, int status)
{
	struct te_link *l = op->link;
	struct te_peer *peer = l->peer;
	l->sends--;
	if (status == 0)
		l->rail->stats.sends++;
	if (link_has_work(l))
		link_activate(l);
	finish(peer->te, op->of.msg, status);
	peer_release(peer);
}

void msg_end_queued(struct msg *m, int status)
{
	struct te_peer *peer = m->link->peer;
	struct te *te = peer->te;
	kv_list_del(&m->node);
	if (kv_list_empty(&peer->local_msgs))
		kv_list_del(&peer->local_node);
	peer_unqueued(peer);
	if (status == -KV_ETIMEOUT)
		te->stats.timeouts++;
	notify(te, m, status);
}

int msgs_notify(struct te *te)
{
	struct kv_list due, *n;
	int count = 0;
	kv_list_init(&due);
	kv_list_splice_tail(&due, &te->ended.msgs);
	for (; (n = kv_list_pop(&due)); count++) {
		struct msg *m = KV_LIST_ENTRY(n, struct msg, node);
		struct te_peer *peer = m->link->peer;
		finish(te, m, m->status);
		peer_release(peer);
	}
	return count;
}

enum post msg_post_local(struct te_peer *peer)
{
	struct msg *m = KV_LIST_ENTRY(peer->local_msgs.next, struct msg, node);
	enum post p = local_post(peer, m->pub.data, m->pub.len);
	if (p == POST_DONE)
		msg_end_queued(m, 0);
	return p;
}

static void wait_for_ring(struct te_peer *peer, struct msg *m)
{
	struct backlog *b = &peer->te->backlog;
	if (kv_list_empty(&peer->local_msgs))
		kv_list_add_tail(&b->full, &peer->local_node);
	kv_list_add_tail(&peer->local_msgs, &m->node);
	peer_queued(peer, m->deadline_ns);
}

static void send_local(struct te_peer *peer, struct msg *m)
{
	enum post p = POST_FAILED;
	if (!peer->down)
		p = kv_list_empty(&peer->local_msgs) ? local_post(peer, m->pub.data, m->pub.len) : POST_STALLED;
	peer_hold(peer);
	if (KV_LIKELY(p == POST_DONE))
		notify(peer->te, m, 0);
	else if (p == POST_STALLED)
		wait_for_ring(peer, m);
	else
		notify(peer->te, m, -KV_EPEERDOWN);
}

void te_msg_send(struct te *te, struct te_peer *peer, unsigned link, struct te_msg *msg, uint64_t deadline_ns)
{
	struct msg *m = KV_CONTAINER(msg, struct msg, pub);
	struct te_link *l = &peer->links[link < peer->nlinks ? link : 0];
	KV_ASSERT_HOT(kv_list_empty(&m->node)); /* 5: neither free nor queued */
	te->live++;
	m->link = l;
	m->deadline_ns = deadline_ns;
	bool possible = link < peer->nlinks && msg->len <= KV_MSG_MAX;
	if ((peer->channel || peer->down) && possible) {
		send_local(peer, m);
		return;
	}
	enum post p = link_direct_msg(l) && possible ? msg_post(l, m) : POST_NOTHING;
	if (KV_LIKELY(p == POST_DONE))
		return;
	peer_hold(peer); /* until its `sent` ran or it is posted */
	if (p == POST_FAILED || peer->closed || te->closing || !possible) {
		int status = p == POST_FAILED ? -KV_EPROVIDER : -KV_ECLOSED;
		notify(te, m, possible ? status : -KV_EINVAL);
		return;
	}
	kv_list_add_tail(&l->msgs, &m->node);
	peer_queued(peer, deadline_ns);
	if (p == POST_STALLED)
		link_stall(l);
	else
		link_activate_first(l);
}

int te_msg_follow(struct te *te, struct te_peer *peer, unsigned link, struct te_msg *msg)
{
	struct msg *m = KV_CONTAINER(msg, struct msg, pub);
	struct te_link *l = &peer->links[link];
	struct op *op = peer->channel ? NULL : link_follow_take(l);
	if (!op)
		return -KV_EBUSY;
	m->link = l;
	m->deadline_ns = KV_NEVER;
	if (post(l, m, op) != POST_DONE)
		return -KV_EBUSY;
	te->live++;
	return 0;
}
