/* SPDX-License-Identifier: Apache-2.0 */
/* second.c -- the two servers of a value kept twice (KVC_TWO_COPIES): the first two in the key's order, without those
 * down or draining.
 *
 * If the first is lost, the second becomes the first. If a server joins before them, one of the two stays.
 *
 * A GET asks the one with fewer requests. Among equals a bit of the key's hash decides, which spreads a batch; for a
 * hot key they alternate, which spreads single calls. */
#include "kvclient/route/second.h"

#include "kvclient/core/placement.h"
#include "kvclient/core/pool.h"
#include "kvclient/route/owner.h"

unsigned route_client(const struct kvc_pool *pool, struct kvc_key key)
{
	enum { SEED = 2 }; /* spread unlike over servers */
	return kc_key_valid(key) ? kc_digest_shard(kv_hash_key(key.data, key.len, SEED), pool->num_clients) : 0;
}

struct kc_node *route_second(struct kvc_client *c, struct kvc_key key)
{
	const struct kc_node *first = route_first(c, key);
	struct kc_place_set others = c->nodes.shunned;
	struct kc_node *n;
	kc_place_set_put(&others, first->index, true);
	n = &c->node[kc_place_among(c->placement, key.data, key.len, &others)];
	return kc_place_set_has(&others, n->index) ? NULL : n; /* all are in the set: it is the owner */
}

bool route_of_two(struct kvc_client *c, struct kvc_key key, const struct kc_node *n)
{
	return n == route_first(c, key) || n == route_second(c, key);
}

struct kc_node *route_other_place(struct kvc_client *c, struct kvc_key key, const struct kc_node *asked)
{
	struct kc_node *first = route_first(c, key), *n = asked == first ? route_second(c, key) : first;
	return n && n->state != KC_NODE_DOWN ? n : NULL;
}

/* Calls wait for the first one to connect even for values kept once. */
struct kc_node *route_other(struct kvc_client *c, struct kvc_key key, const struct kc_node *asked)
{
	struct kc_node *n = route_other_place(c, key, asked);
	return n && (n->state == KC_NODE_UP || n == route_first(c, key)) ? n : NULL;
}

/* Golden-ratio steps: balanced even if only every k-th choice counts. */
static bool first_turn(struct kvc_client *c)
{
	c->hints.reader_turn += 0x9E3779B97F4A7C15u;
	return c->hints.reader_turn >> 63;
}

struct kc_node *route_reader(struct kvc_client *c, struct kvc_key key, bool turns)
{
	struct kc_node *first = route_first(c, key), *second = route_second(c, key);
	if (!second || second->state != KC_NODE_UP)
		return first;
	if (first->state != KC_NODE_UP)
		return second;
	if (first->share.reqs != second->share.reqs)
		return first->share.reqs < second->share.reqs ? first : second;
	if (turns)
		return first_turn(c) ? first : second;
	return kv_hash_key(key.data, key.len, 0) & 1 ? first : second; /* placement uses the other end of the hash */
}
