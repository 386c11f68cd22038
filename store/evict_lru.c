/* SPDX-License-Identifier: Apache-2.0 */
/* evict_lru.c -- the policy LRU, for comparison: a hit makes a node the newest, and the oldest is the victim. */
#include "store/evict_policies.h"

static void lru_insert(struct evict *e, struct evict_node *n, bool returned)
{
	(void)returned;
	evict_stamp(e, n);
	evict_link(e, n, 0);
}

static void lru_access(struct evict *e, struct evict_node *n)
{
	evict_unlink(e, n);
	evict_stamp(e, n);
	evict_link(e, n, 0);
}

static struct evict_node *lru_victim(struct evict *e, bool (*may_go)(const struct evict_node *n))
{
	struct evict_node *n;
	while ((n = evict_oldest(e, 0)) != NULL && !may_go(n))
		evict_park(e, n);
	return n;
}

const struct evict_policy evict_lru = {
	.name = "lru",
	.queues = 1,
	.insert = lru_insert,
	.access = lru_access,
	.remove = evict_unlink,
	.victim = lru_victim,
};
