/* SPDX-License-Identifier: Apache-2.0 */
/* evict.c -- SIEVE (Zhang et al., NSDI 2024): one queue, one bit per block, one hand.
 *
 * A hit sets the bit and moves nothing. The hand walks from the oldest to the newest, clears bits, and stops at the
 * first clear one; new blocks enter at the newest end, so that what the hand has passed survives until it comes round.
 * Hence one-time blocks leave quickly and the hot ones stay, with less work per hit than LRU.
 *
 * The hand always points at a node of the queue or at its head (the list's anchor: start again at the oldest). Removing
 * the node under the hand moves the hand on. A node that may not go (a reader holds it, or a lease) leaves the queue, and comes
 * back as the newest when it may: a client that holds tens of thousands of blocks would else have every search step over all
 * of them. So a step of a search is paid for by a hit or by somebody who took hold of a block, and ends when the queue is empty.
 * A search that has passed SWEEP_MAX blocks that were hit takes the next one, hit or not: where all of a million were, it
 * would stand still for 0.1 s to find the first. */
#include "kvserver/evict.h"

enum { SWEEP_MAX = 4096 };

static void sieve_insert(struct evict *e, struct evict_node *n)
{
	n->visited = false;
	kv_list_add_head(&e->queue, &n->node);
	e->count++;
}

static void sieve_access(struct evict *e, struct evict_node *n)
{
	(void)e;
	n->visited = true;
}

static void sieve_remove(struct evict *e, struct evict_node *n)
{
	if (e->hand == &n->node)
		e->hand = n->node.prev;
	kv_list_del(&n->node);
	e->count--;
}

static struct evict_node *sieve_victim(struct evict *e, bool (*may_go)(const struct evict_node *n))
{
	unsigned passed = 0;

	while (e->count > 0) {
		struct evict_node *n;
		if (e->hand == &e->queue)
			e->hand = e->queue.prev;
		n = KV_LIST_ENTRY(e->hand, struct evict_node, node);
		if (!may_go(n)) {
			sieve_remove(e, n);
			n->parked = true;
			continue;
		}
		if (!n->visited || passed++ == SWEEP_MAX)
			return n;
		n->visited = false;
		e->hand = e->hand->prev;
	}
	return NULL;
}

const struct evict_policy evict_sieve = {
	.name = "sieve",
	.insert = sieve_insert,
	.access = sieve_access,
	.remove = sieve_remove,
	.victim = sieve_victim,
};

const struct evict_policy *const evict_policies[] = {&evict_sieve, NULL};

void evict_init(struct evict *e, const struct evict_policy *policy)
{
	*e = (struct evict){.policy = policy};
	kv_list_init(&e->queue);
	e->hand = &e->queue;
}
