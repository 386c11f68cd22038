/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c -- the first server for a key, and its stand-in if it is lost.
 *
 * Calls avoid DOWN and draining servers: they use the next one in the key's order. A pending call also moves, after its
 * requests ended and the caller's memory was fenced. Stand-ins are not remembered: clients would disagree. */
#include "kvclient/route/owner.h"

#include "kvclient/conn/node.h"

struct kc_node *route_owner(struct kvc_client *c, struct kvc_key key)
{
	return &c->node[kc_place_node(c->placement, key.data, key.len)];
}

struct kc_node *route_first(struct kvc_client *c, struct kvc_key key)
{
	struct kc_node *n = route_owner(c, key);
	if (KV_LIKELY(!kc_place_set_has(&c->nodes.shunned, n->index)))
		return n;
	n = &c->node[kc_place_among(c->placement, key.data, key.len, &c->nodes.shunned)];
	if (!kc_place_set_has(&c->nodes.shunned, n->index))
		return n;
	/* Only draining servers are left. */
	return &c->node[kc_place_among(c->placement, key.data, key.len, &c->nodes.avoided)];
}

void route_stand_in(struct kc_node *n, struct kvc_key key)
{
	const struct kc_node *owner = route_owner(n->client, key);
	/* If the owner is not avoided, n is the key's second server. */
	if (n != owner && kc_place_set_has(&n->client->nodes.shunned, owner->index))
		kc_add(&n->client->count.stand_ins, 1);
}

static bool is_lost(const struct kc_node *n, int64_t rc)
{
	return rc == -KV_ELEFT || kc_node_down(n, rc);
}

bool route_moved(struct kc_node **n, struct kvc_key key, int64_t rc, uint64_t deadline_ns)
{
	struct kvc_client *c = (*n)->client;
	struct kc_node *next;
	if (KV_LIKELY(!is_lost(*n, rc)) || c->closing || loop_now(c->loop) >= deadline_ns)
		return false;
	next = route_first(c, key);
	if (next->state == KC_NODE_DOWN)
		return false;
	kc_add(&c->count.failovers, next != *n);
	route_count(next, key);
	*n = next;
	return true;
}

int64_t route_down(const struct kc_node *n, unsigned flags, int64_t rc)
{
	bool down_is_miss = (n->client->pool->options.flags | flags) & KVC_DOWN_IS_MISS;
	bool miss = rc == -KV_ELEFT || rc == -KV_EDELETED || (down_is_miss && kc_node_down(n, rc));
	return miss ? -KV_ENOTFOUND : rc;
}
