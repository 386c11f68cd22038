/* SPDX-License-Identifier: Apache-2.0 */
/* former.c -- servers that may have a key because the view changed lately.
 *
 * In this order: draining: the key's servers or stand-ins until they drained. Stand-in: the next server, if the owner
 * restarted empty within kvc_options.settle_ns. Elder: the key's server without those that join. Older: the owner by an
 * older placement (route/view.c), or its next server if it drains or left.
 *
 * A miss must be cheap, so only UP servers are asked.
 *
 * DELETE and TOUCH also reach every server that this client may have used as a stand-in within settle_ns: a later GET
 * may ask it, without knowing of the deletion. */
#include "kvclient/route/former.h"

#include "kvclient/core/placement.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/private.h"
#include "kvclient/route/second.h"

static struct kc_node *elder(struct kvc_client *c, struct kvc_key key)
{
	const struct kc_place_set *joining = &c->cluster.joining;
	if (joining->count == 0 || !kc_place_set_has(joining, route_owner(c, key)->index))
		return NULL;
	return &c->node[kc_place_among(&c->cluster.place, key.data, key.len, joining)];
}

static struct kc_node *stand_in(struct kvc_client *c, struct kvc_key key)
{
	struct kc_node *owner = route_owner(c, key);
	struct kc_place_set without = {0};
	if (!kc_place_set_has(&c->cluster.restarted, owner->index))
		return NULL;
	kc_place_set_put(&without, owner->index, true);
	return &c->node[kc_place_among(&c->cluster.place, key.data, key.len, &without)];
}

static bool asked(const struct kc_node *n)
{
	return n->state == KC_NODE_UP && !n->retired;
}

/* Servers looked at in the key's order: some that left or drain may come first. */
enum { ONCE = 4 };

/* Server k that can be asked. NULL: none. The search ends after `copies` servers that do not drain:
 * a value is never beyond them. */
static struct kc_node *once(struct kvc_client *c, const struct kc_place *p, struct kvc_key key, unsigned k,
			    unsigned copies)
{
	unsigned at = kc_place_node(p, key.data, key.len), num = 0;
	struct kc_place_set before = {0};
	for (unsigned i = 0; i < ONCE && copies > 0 && at < c->num_nodes; i++) {
		struct kc_node *n = &c->node[at];
		if (!kc_place_set_put(&before, at, true))
			return NULL; /* it was the last one */
		if (asked(n) && num++ == k)
			return n;
		copies -= asked(n) && !kc_place_set_has(&c->cluster.draining, at);
		if (copies > 0)
			at = kc_place_among(p, key.data, key.len, &before);
	}
	return NULL;
}

enum { STAND_IN = ONCE, ELDER, OLDER, FORMERS_MAX = OLDER + KC_FORMER_PLACES * ONCE };

static struct kc_node *candidate(struct kvc_client *c, struct kvc_key key, bool twice, unsigned i)
{
	if (i < STAND_IN)
		return c->cluster.draining.count > 0 ? once(c, c->placement, key, i, twice ? 2 : 1) : NULL;
	if (i == STAND_IN)
		return stand_in(c, key);
	if (i == ELDER)
		return elder(c, key);
	i -= OLDER;
	return once(c, &c->cluster.own->former[i / ONCE].place, key, i % ONCE, 1);
}

struct kc_node *route_former(struct kvc_client *c, struct kvc_key key, bool twice, unsigned k)
{
	struct kc_node *seen[2 + FORMERS_MAX] = {route_first(c, key), twice ? route_second(c, key) : NULL};
	unsigned charged = twice ? 2 : 1, num = charged;
	for (unsigned i = 0; i < OLDER + c->cluster.num_former * ONCE && num < charged + k + 1; i++) {
		struct kc_node *n = candidate(c, key, twice, i);
		unsigned at = 0;
		while (at < num && seen[at] != n)
			at++;
		if (at == num && n && asked(n))
			seen[num++] = n;
	}
	return num == charged + k + 1 ? seen[charged + k] : NULL;
}

static bool tell(struct kc_place_set *told, const struct kc_node *n)
{
	return n && n->state != KC_NODE_DOWN && kc_place_set_put(told, n->index, true);
}

static struct kc_node *twice_drop(struct kvc_client *c, struct kvc_key key, struct kc_place_set *told)
{
	for (unsigned i = 0; i < c->cluster.num_former * ONCE; i++) {
		struct kc_node *n = once(c, &c->cluster.own->former[i / ONCE].place, key, i % ONCE, 2);
		if (tell(told, n))
			return n;
	}
	return NULL;
}

/* Stand-ins of absent servers: the key's order up to the first (twice: second) present one. */
static struct kc_node *absent_drop(struct kvc_client *c, const struct kc_place *p, struct kvc_key key, bool twice,
				   struct kc_place_set *told)
{
	unsigned at = kc_place_node(p, key.data, key.len), left = twice ? 2 : 1;
	struct kc_place_set before = {0};
	for (unsigned i = 0; i < ONCE && left > 0 && at < c->num_nodes; i++) {
		struct kc_node *n = &c->node[at];
		if (!kc_place_set_put(&before, at, true))
			break;
		if ((p == c->placement || asked(n)) && tell(told, n))
			return n;
		left -= !kc_place_set_has(&c->cluster.absent, at);
		at = kc_place_among(p, key.data, key.len, &before);
	}
	return NULL;
}

static struct kc_node *absents_drop(struct kvc_client *c, struct kvc_key key, bool twice, struct kc_place_set *told)
{
	struct kc_node *n = absent_drop(c, c->placement, key, twice, told);
	for (unsigned i = 0; !n && i < c->cluster.num_former; i++)
		n = absent_drop(c, &c->cluster.own->former[i].place, key, twice, told);
	return n;
}

bool route_absent(struct kvc_client *c, struct kvc_key key)
{
	return c->cluster.absent.count > 0 && kc_place_set_has(&c->cluster.absent, route_owner(c, key)->index);
}

struct kc_node *route_every(struct kvc_client *c, struct kvc_key key, bool twice, struct kc_place_set *told)
{
	struct kc_node *n = route_first(c, key);
	if (tell(told, n))
		return n;
	if (twice && tell(told, n = route_second(c, key)))
		return n;
	for (unsigned k = 0; route_formers(c) && (n = route_former(c, key, twice, k)); k++)
		if (tell(told, n))
			return n;
	if (twice && (n = twice_drop(c, key, told)))
		return n;
	return c->cluster.absent.count > 0 ? absents_drop(c, key, twice, told) : NULL;
}
