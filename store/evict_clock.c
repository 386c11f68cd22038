/* SPDX-License-Identifier: Apache-2.0 */
/* evict_clock.c -- two policies with second chances: clock, with one bit (Corbato 1968), and clock2g, the default, with
 * two bits and ghosts (docs/internals/decisions/002-clock2g.md).
 *
 * A hit is counted in the node and moves nothing. A search looks at the oldest node: with hits, it loses one and gets a
 * newer place; without, it is the victim. A value that returns as a ghost starts with one hit. A node with a hit since
 * it got its place gets the place of its last hit, any other becomes the newest. So there are two lists: YOUNG by
 * insertion, KEPT with new places; the older head is the oldest node.
 *
 * Time is the number of inserts, in EVICT_TIME_BITS. */
#include "store/evict_policies.h"

enum { YOUNG, KEPT };

static void clock_insert(struct evict *e, struct evict_node *n, bool returned)
{
	n->hits = returned;
	evict_stamp(e, n);
	n->used = n->stamp;
	evict_link(e, n, YOUNG);
}

static void clock_access(struct evict *e, struct evict_node *n)
{
	n->used = *e->time & EVICT_TIME_MASK;
	if (n->hits < e->policy->hits_max)
		n->hits++;
}

static struct evict_node *clock_oldest(const struct evict *e)
{
	struct evict_node *young = evict_oldest(e, YOUNG), *kept = evict_oldest(e, KEPT);
	if (!young || !kept)
		return young ? young : kept;
	return evict_age(e, young) >= evict_age(e, kept) ? young : kept;
}

/* A hit pays for a newer place. */
static void clock_keep(struct evict *e, struct evict_node *n)
{
	n->hits--;
	n->stamp = ((*e->time - n->used) & EVICT_TIME_MASK) < evict_age(e, n) ? n->used : *e->time & EVICT_TIME_MASK;
	evict_unlink(e, n);
	evict_link(e, n, KEPT);
}

static struct evict_node *clock_victim(struct evict *e, bool (*may_go)(const struct evict_node *n))
{
	struct evict_node *n;
	for (unsigned passed = 0; (n = clock_oldest(e)) != NULL;) {
		if (!may_go(n))
			evict_park(e, n);
		else if (!n->hits || passed++ == EVICT_SWEEP_MAX)
			break;
		else
			clock_keep(e, n);
	}
	return n;
}

const struct evict_policy evict_clock2g = {
	.name = "clock2g",
	.queues = EVICT_QUEUES,
	.ghosts = true,
	.hits_max = (1 << EVICT_HITS_BITS) - 1,
	.insert = clock_insert,
	.access = clock_access,
	.remove = evict_unlink,
	.victim = clock_victim,
};

const struct evict_policy evict_clock = {
	.name = "clock",
	.queues = EVICT_QUEUES,
	.hits_max = 1,
	.insert = clock_insert,
	.access = clock_access,
	.remove = evict_unlink,
	.victim = clock_victim,
};
