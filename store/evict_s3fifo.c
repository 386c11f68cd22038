/* SPDX-License-Identifier: Apache-2.0 */
/* evict_s3fifo.c -- the policy S3-FIFO (Yang et al., SOSP 2023): new values enter a small queue; those with hits move
 * to the main one, others become ghosts, and a returning ghost enters the main queue. A hit there keeps a value for
 * another round. The small queue has half of all nodes, not a tenth: KV-cache prefixes are read later than web objects.
 */
#include "store/evict_policies.h"

enum { SMALL, MAIN, SMALL_SHARE = 2, HITS_MAX = (1 << EVICT_HITS_BITS) - 1 };

static void s3fifo_insert(struct evict *e, struct evict_node *n, bool returned)
{
	n->hits = 0;
	evict_stamp(e, n);
	evict_link(e, n, returned ? MAIN : SMALL);
}

static void s3fifo_access(struct evict *e, struct evict_node *n)
{
	(void)e;
	if (n->hits < HITS_MAX)
		n->hits++;
}

static void s3fifo_keep(struct evict *e, struct evict_node *n)
{
	n->hits = n->queue == MAIN ? n->hits - 1u : 0;
	evict_unlink(e, n);
	evict_stamp(e, n);
	evict_link(e, n, MAIN);
}

static struct evict_node *s3fifo_victim(struct evict *e, bool (*may_go)(const struct evict_node *n))
{
	struct evict_node *n;
	for (unsigned passed = 0; e->count > 0;) {
		n = evict_oldest(e, e->in[SMALL] * SMALL_SHARE >= e->count || e->in[MAIN] == 0 ? SMALL : MAIN);
		if (!may_go(n))
			evict_park(e, n);
		else if (!n->hits || passed++ == EVICT_SWEEP_MAX)
			return n;
		else
			s3fifo_keep(e, n);
	}
	return NULL;
}

static bool s3fifo_remembers(const struct evict_node *n)
{
	return n->queue == SMALL;
}

const struct evict_policy evict_s3fifo = {
	.name = "s3fifo",
	.queues = EVICT_QUEUES,
	.ghosts = true,
	.insert = s3fifo_insert,
	.access = s3fifo_access,
	.remove = evict_unlink,
	.victim = s3fifo_victim,
	.remembers = s3fifo_remembers,
};
