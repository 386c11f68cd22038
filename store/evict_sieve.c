/* SPDX-License-Identifier: Apache-2.0 */
/* evict_sieve.c -- the policy SIEVE (Zhang et al., NSDI 2024): one queue, one bit per block, one hand.
 *
 * A hit sets the bit. The hand walks from the oldest node to the newest, clears bits, and stops at the first clear one.
 * New nodes enter at the newest end. Invariant: the hand points at a node of the queue, or at its head (next: the
 * oldest). */
#include "store/evict_policies.h"

static void sieve_insert(struct evict *e, struct evict_node *n, bool returned)
{
	(void)returned;
	n->hits = 0;
	evict_stamp(e, n);
	evict_link(e, n, 0);
}

static void sieve_access(struct evict *e, struct evict_node *n)
{
	(void)e;
	n->hits = 1;
}

static void sieve_remove(struct evict *e, struct evict_node *n)
{
	if (e->hand == &n->node)
		e->hand = n->node.prev;
	evict_unlink(e, n);
}

static struct evict_node *sieve_victim(struct evict *e, bool (*may_go)(const struct evict_node *n))
{
	unsigned passed = 0;
	while (e->count > 0) {
		struct evict_node *n;
		if (e->hand == &e->queue[0])
			e->hand = e->queue[0].prev;
		n = KV_LIST_ENTRY(e->hand, struct evict_node, node);
		if (!may_go(n)) {
			evict_park(e, n);
			continue;
		}
		if (!n->hits || passed++ == EVICT_SWEEP_MAX)
			return n;
		n->hits = 0;
		e->hand = e->hand->prev;
	}
	return NULL;
}

const struct evict_policy evict_sieve = {
	.name = "sieve",
	.queues = 1,
	.insert = sieve_insert,
	.access = sieve_access,
	.remove = sieve_remove,
	.victim = sieve_victim,
};
