/* SPDX-License-Identifier: Apache-2.0 */
/* link.c -- one of our rails paired with one of a peer's: its place in line and its window; the lifetime of a peer's
 * memory; the backlog.
 *
 * IDLE: nothing to post, or its window is full. READY: it stands in its rail's line, served round-robin, one operation
 * at a time. STALLED: the provider returned -EAGAIN; the link is retried once per te_poll, outside the line. A peer's
 * memory lives while the owner, an operation in flight, or a queued or unfinished message or transfer refers to it. */
#include <stdlib.h>

#include "engine/inside.h"
#include "engine/link.h"
#include "engine/rail.h"

void backlog_init(struct backlog *b)
{
	kv_list_init(&b->peers);
	kv_list_init(&b->stalled);
	kv_list_init(&b->full);
	b->next_sweep = KV_NEVER;
}

void link_init(struct te_link *l, struct te_peer *peer, unsigned index, struct rail *rail, unsigned remote)
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

/* Beyond the operations always allowed, a link may fill its window only while more than half of the rail's credits are
 * free. So hundreds of stuck peers are needed to use up the credits. A held-back link has operations in flight, and the
 * next completion activates it. */
bool link_room(const struct te_link *l)
{
	const struct te *te = l->peer->te;
	return l->ops < te->rules.link_ops ||
	       (l->bytes < te->rules.link_bytes && l->rail->pool.credits > l->rail->pool.half);
}

bool link_msg_room(const struct te_link *l)
{
	return l->sends < TE_LINK_SENDS || l->rail->pool.credits > l->rail->pool.half;
}

bool link_direct_msg(const struct te_link *l)
{
	return l->addr && l->sched != LINK_STALLED && kv_list_empty(&l->msgs) && link_msg_room(l);
}

bool link_direct(const struct te_link *l)
{
	return l->addr && l->sched == LINK_IDLE && kv_list_empty(&l->msgs) && kv_list_empty(&l->rail->ready);
}

bool link_has_work(const struct te_link *l)
{
	return !kv_list_empty(&l->msgs) || !kv_list_empty(&l->xfers) || (l->use && !kv_list_empty(&l->peer->xfers));
}

bool link_msg_due(const struct te_link *l)
{
	return !kv_list_empty(&l->msgs) && link_msg_room(l);
}

void link_activate(struct te_link *l)
{
	if (link_msg_due(l)) {
		link_activate_first(l);
		return;
	}
	if (l->sched != LINK_IDLE || !l->addr)
		return;
	l->sched = LINK_READY;
	kv_list_add_tail(&l->rail->ready, &l->node);
}

void link_activate_first(struct te_link *l)
{
	if (l->sched == LINK_STALLED || !l->addr)
		return;
	kv_list_del(&l->node);
	l->sched = LINK_READY;
	kv_list_add_head(&l->rail->ready, &l->node);
}

void link_stall(struct te_link *l)
{
	struct backlog *b = &l->peer->te->backlog;
	if (kv_list_empty(&b->stalled))
		b->stalled_since = te_now(l->peer->te);
	kv_list_del(&l->node);
	l->sched = LINK_STALLED;
	kv_list_add_tail(&b->stalled, &l->node);
}

struct op *link_follow_take(struct te_link *l)
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

void link_rest(struct te_link *l)
{
	kv_list_del(&l->node);
	l->sched = LINK_IDLE;
}

/* ---- the peer of a link ---- */

void peer_release(struct te_peer *peer)
{
	KV_ASSERT_HOT(peer->refs > 0);
	if (--peer->refs > 0)
		return;
	KV_ASSERT(!peer->channel);
	kv_list_del(&peer->node);
	free(peer);
}

void peer_queued(struct te_peer *peer, uint64_t deadline_ns)
{
	struct backlog *b = &peer->te->backlog;
	b->queued++;
	if (peer->queued++ == 0)
		kv_list_add_tail(&b->peers, &peer->waiting);
	b->next_sweep = KV_MIN(b->next_sweep, deadline_ns);
}

void peer_unqueued(struct te_peer *peer)
{
	peer->te->backlog.queued--;
	if (--peer->queued == 0)
		kv_list_del(&peer->waiting);
}
