/* SPDX-License-Identifier: Apache-2.0 */
/* former.c -- which servers may have a key that its server does not have, because the view changed lately.
 *
 * Four kinds: a server that drains, past which calls go, is the key's own, or stood in for that until it drained, too,
 * or was the second one of a value that is kept twice; it has what was put there before. While the key's own server
 * joins, the one that has the key without those that join: it stood in, or was the owner, and a client that has not
 * seen the change knows it, too. For kvc_options.settle_ns after the key's own server was seen to have restarted, with
 * nothing in its memory, the one that has the key without it: it stood in, and was handed what the server had if that
 * drained. (Not every source knows who joins, and nothing changes where a server is back before its source takes it
 * out.) And for as long after a view came into force that places keys otherwise, the owner by the older view
 * (pool/cluster.c keeps up to KVC_FORMER_PLACES of them); where that drains or is gone, also the one that stood in for
 * it by that view. A join moves one key in n + 1, so only that one pays another round trip, and no hit is lost. A key
 * that nobody has pays it, too, KVC_FORMERS_ASKED times at most.
 *
 * Only servers that are up are asked: one that is down cannot tell, and waiting for it would make a miss expensive.
 * What is found there is copied to where it belongs now (repair.c).
 *
 * A DELETE goes further: also to all that this client could have taken for a stand-in within kvc_options.settle_ns.
 * These have no share in the key any more, and a GET asks them only when the next server is lost; by then nobody would
 * know what was deleted.
 *
 * Rejected: to ask all stand-ins of an outage after a miss. Which server stood in depends on what else was down when
 * the value was put, and that no client knows of another. */
#include "kvclient/call/former.h"

#include "kvclient/call/call.h"
#include "kvclient/call/second.h"
#include "kvclient/core/placement.h"

static struct kvc_node *elder(struct kvc_client *c, struct kvc_key key)
{
	const struct kvc_place_set *joining = &c->cluster.joining;
	if (joining->count == 0 || !kvc_place_set_has(joining, kvc_call_owner(c, key)->index))
		return NULL;
	return &c->node[kvc_place_among(&c->cluster.place, key.data, key.len, joining)];
}

static struct kvc_node *stand_in(struct kvc_client *c, struct kvc_key key)
{
	struct kvc_node *owner = kvc_call_owner(c, key);
	struct kvc_place_set without = {0};
	if (!kvc_place_set_has(&c->cluster.restarted, owner->index))
		return NULL;
	kvc_place_set_put(&without, owner->index, true);
	return &c->node[kvc_place_among(&c->cluster.place, key.data, key.len, &without)];
}

static bool asked(const struct kvc_node *n)
{
	return n->state == KVC_NODE_UP && !n->retired;
}

/* Servers in the key's order by a placement that are looked at: those that are gone, and those that drain, past which
 * values go, may stand before the one that has it. */
enum { ONCE = 4 };

/* The k-th of them that can be asked; NULL: there is none, or `copies` of those before it do not drain, so that a value
 * went no further. */
static struct kvc_node *once(struct kvc_client *c, const struct kvc_place *p, struct kvc_key key, unsigned k,
			     unsigned copies)
{
	unsigned at = kvc_place_node(p, key.data, key.len), num = 0;
	struct kvc_place_set before = {0};
	for (unsigned i = 0; i < ONCE && copies > 0 && at < c->num_nodes; i++) {
		struct kvc_node *n = &c->node[at];
		if (!kvc_place_set_put(&before, at, true))
			return NULL; /* it was the last one */
		if (asked(n) && num++ == k)
			return n;
		copies -= asked(n) && !kvc_place_set_has(&c->cluster.draining, at);
		if (copies > 0)
			at = kvc_place_among(p, key.data, key.len, &before);
	}
	return NULL;
}

/* The first candidates are by the placement in force: those that drain. Then who has the key without an owner that
 * restarted, without all that join, and the same as the first by older placements, the newest first. */
enum { STAND_IN = ONCE, ELDER, OLDER, FORMERS_MAX = OLDER + KVC_FORMER_PLACES * ONCE };

static struct kvc_node *candidate(struct kvc_client *c, struct kvc_key key, bool twice, unsigned i)
{
	if (i < STAND_IN)
		return c->cluster.draining.count > 0 ? once(c, c->placement, key, i, twice ? 2 : 1) : NULL;
	if (i == STAND_IN)
		return stand_in(c, key);
	if (i == ELDER)
		return elder(c, key);
	i -= OLDER;
	return once(c, &c->cluster.former[i / ONCE].place, key, i % ONCE, 1);
}

struct kvc_node *kvc_former(struct kvc_client *c, struct kvc_key key, bool twice, unsigned k)
{
	struct kvc_node *seen[2 + FORMERS_MAX] = {kvc_call_node(c, key), twice ? kvc_second(c, key) : NULL};
	unsigned charged = twice ? 2 : 1, num = charged; /* those in charge of the key, which were asked before */
	for (unsigned i = 0; i < OLDER + c->cluster.num_former * ONCE && num < charged + k + 1; i++) {
		struct kvc_node *n = candidate(c, key, twice, i);
		unsigned at = 0;
		while (at < num && seen[at] != n)
			at++;
		if (at == num && n && asked(n))
			seen[num++] = n;
	}
	return num == charged + k + 1 ? seen[charged + k] : NULL;
}

static bool tell(struct kvc_place_set *told, const struct kvc_node *n)
{
	return n && n->state != KVC_NODE_DOWN && kvc_place_set_put(told, n->index, true);
}

/* Both servers of a value that is kept twice, by an older placement. */
static struct kvc_node *twice_drop(struct kvc_client *c, struct kvc_key key, struct kvc_place_set *told)
{
	for (unsigned i = 0; i < c->cluster.num_former * ONCE; i++) {
		struct kvc_node *n = once(c, &c->cluster.former[i / ONCE].place, key, i % ONCE, 2);
		if (tell(told, n))
			return n;
	}
	return NULL;
}

/* Those that stood in for servers of the key that were absent: all up to the first (twice: the second) that was not. */
static struct kvc_node *absent_drop(struct kvc_client *c, const struct kvc_place *p, struct kvc_key key, bool twice,
				    struct kvc_place_set *told)
{
	unsigned at = kvc_place_node(p, key.data, key.len), left = twice ? 2 : 1;
	struct kvc_place_set before = {0};
	for (unsigned i = 0; i < ONCE && left > 0 && at < c->num_nodes; i++) {
		struct kvc_node *n = &c->node[at];
		if (!kvc_place_set_put(&before, at, true))
			break;
		if ((p == c->placement || asked(n)) && tell(told, n))
			return n;
		left -= !kvc_place_set_has(&c->cluster.absent, at);
		at = kvc_place_among(p, key.data, key.len, &before);
	}
	return NULL;
}

static struct kvc_node *absents_drop(struct kvc_client *c, struct kvc_key key, bool twice, struct kvc_place_set *told)
{
	struct kvc_node *n = absent_drop(c, c->placement, key, twice, told);
	for (unsigned i = 0; !n && i < c->cluster.num_former; i++)
		n = absent_drop(c, &c->cluster.former[i].place, key, twice, told);
	return n;
}

bool kvc_former_absent(struct kvc_client *c, struct kvc_key key)
{
	return c->cluster.absent.count > 0 && kvc_place_set_has(&c->cluster.absent, kvc_call_owner(c, key)->index);
}

struct kvc_node *kvc_former_drop(struct kvc_client *c, struct kvc_key key, bool twice, struct kvc_place_set *told)
{
	struct kvc_node *n = kvc_call_node(c, key);
	if (tell(told, n))
		return n;
	if (twice && tell(told, n = kvc_second(c, key)))
		return n;
	for (unsigned k = 0; kvc_formers(c) && (n = kvc_former(c, key, twice, k)); k++)
		if (tell(told, n))
			return n;
	if (twice && (n = twice_drop(c, key, told)))
		return n;
	return c->cluster.absent.count > 0 ? absents_drop(c, key, twice, told) : NULL;
}

bool kvc_former_next(struct kvc_client *c, struct kvc_key key, bool twice, int64_t rc, unsigned *k, struct kvc_node **n)
{
	struct kvc_node *next = NULL;
	if (KV_LIKELY(rc != -KV_ENOTFOUND || !kvc_formers(c)))
		return false;
	while (*k < KVC_FORMERS_ASKED && (next = kvc_former(c, key, twice, *k)) == *n)
		++*k; /* it was asked already: the view changed while it was */
	if (!next || *k == KVC_FORMERS_ASKED)
		return false;
	++*k;
	*n = next;
	return true;
}

int64_t kvc_former_code(int64_t rc, unsigned k)
{
	switch (k > 0 ? rc : 0) {
	case -KV_ETIMEOUT:
	case -KV_EPEERDOWN:
	case -KV_ELEFT:
	case -KV_EBUSY:
	case -KV_EPROVIDER:
	case -KV_EDENIED:
		return -KV_ENOTFOUND;
	default:
		return rc;
	}
}
