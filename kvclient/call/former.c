/* SPDX-License-Identifier: Apache-2.0 */
/* former.c -- which servers may have a key that its server does not have, because the view changed lately.
 *
 * Three kinds: a server that drains, past which calls go, is the key's own and has what was put there before. While the
 * key's own server joins, the one that has the key without those that join: it stood in, or was the owner, and a client
 * that has not seen the change knows it, too. And for kvc_options.settle_ns after a view came into force that places
 * keys otherwise, the owner by the older view (pool/cluster.c keeps up to KVC_FORMER_PLACES of them). A join moves one
 * key in n + 1, so only that one pays another round trip, and no hit is lost. A key that nobody has pays it, too,
 * KVC_FORMERS_ASKED times at most.
 *
 * Only servers that are up are asked: one that is down cannot tell, and waiting for it would make a miss expensive.
 * What is found there is copied to where it belongs now (repair.c).
 *
 * Rejected: the stand-ins of an outage. Which server stood in depends on what was down when the value was put, and
 * that no client knows of another. */
#include "kvclient/call/former.h"

#include "kvclient/call/call.h"
#include "kvclient/core/placement.h"

static struct kvc_node *leaver(struct kvc_client *c, struct kvc_key key)
{
	struct kvc_node *owner = kvc_call_owner(c, key);
	return kvc_place_set_has(&c->cluster.draining, owner->index) ? owner : NULL;
}

static struct kvc_node *elder(struct kvc_client *c, struct kvc_key key)
{
	const struct kvc_place_set *joining = &c->cluster.joining;
	if (joining->count == 0 || !kvc_place_set_has(joining, kvc_call_owner(c, key)->index))
		return NULL;
	return &c->node[kvc_place_among(&c->cluster.place, key.data, key.len, joining)];
}

/* Candidate 0 is the owner, if it drains, and 1 who has the key without an owner that joins; those behind them are
 * owners by older placements, the newest first. */
enum { FORMER_FIRST = 2 };

static struct kvc_node *candidate(struct kvc_client *c, struct kvc_key key, unsigned i)
{
	unsigned at;
	if (i < FORMER_FIRST)
		return i == 0 ? leaver(c, key) : elder(c, key);
	at = kvc_place_node(&c->cluster.former[i - FORMER_FIRST].place, key.data, key.len);
	return at < c->num_nodes ? &c->node[at] : NULL;
}

struct kvc_node *kvc_former(struct kvc_client *c, struct kvc_key key, unsigned k)
{
	struct kvc_node *seen[1 + KVC_FORMERS_ASKED] = {kvc_call_node(c, key)};
	unsigned num = 1;
	for (unsigned i = 0; i < FORMER_FIRST + c->cluster.num_former && num < k + 2; i++) {
		struct kvc_node *n = candidate(c, key, i);
		unsigned at = 0;
		while (at < num && seen[at] != n)
			at++;
		if (at == num && n && n->state == KVC_NODE_UP && !n->retired)
			seen[num++] = n;
	}
	return num == k + 2 ? seen[k + 1] : NULL;
}

bool kvc_former_next(struct kvc_client *c, struct kvc_key key, int64_t rc, unsigned *k, struct kvc_node **n)
{
	struct kvc_node *next = NULL;
	if (KV_LIKELY(rc != -KV_ENOTFOUND || !kvc_formers(c)))
		return false;
	while (*k < KVC_FORMERS_ASKED && (next = kvc_former(c, key, *k)) == *n)
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
