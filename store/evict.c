/* SPDX-License-Identifier: Apache-2.0 */
/* evict.c -- shared by all eviction policies: queues, counts, ghosts. Each policy has a file evict_NAME.c. */
#include "store/evict.h"

int evict_init(struct evict *e, const struct evict_policy *policy, uint64_t count_max)
{
	*e = (struct evict){.policy = policy, .time = &e->own_time};
	for (unsigned i = 0; i < EVICT_QUEUES; i++)
		kv_list_init(&e->queue[i]);
	e->hand = &e->queue[0];
	return policy->ghosts ? ghosts_init(&e->ghosts, count_max) : 0;
}

void evict_fini(struct evict *e)
{
	ghosts_fini(&e->ghosts);
}

void evict_link(struct evict *e, struct evict_node *n, unsigned queue)
{
	n->queue = queue & 1;
	kv_list_add_head(&e->queue[queue], &n->node);
	e->in[queue]++;
	e->count++;
}

void evict_unlink(struct evict *e, struct evict_node *n)
{
	kv_list_del(&n->node);
	e->in[n->queue]--;
	e->count--;
}

void evict_park(struct evict *e, struct evict_node *n)
{
	e->policy->remove(e, n);
	n->parked = 1;
}

void evict_walk_begin(const struct evict *e, struct evict_walk *w)
{
	for (unsigned i = 0; i < EVICT_QUEUES; i++)
		w->at[i] = e->queue[i].prev;
}

struct evict_node *evict_walk_next(const struct evict *e, struct evict_walk *w)
{
	struct evict_node *oldest = NULL;
	for (unsigned i = 0; i < EVICT_QUEUES; i++) {
		struct evict_node *n = KV_LIST_ENTRY(w->at[i], struct evict_node, node);
		if (w->at[i] != &e->queue[i] && (!oldest || evict_age(e, n) > evict_age(e, oldest)))
			oldest = n;
	}
	if (oldest)
		w->at[oldest->queue] = oldest->node.prev;
	return oldest;
}

void evict_peek_begin(struct evict *e, struct evict_peek *p)
{
	evict_walk_begin(e, &p->walk);
	p->looked = 0;
	if (e->hand != &e->queue[0])
		p->walk.at[0] = e->hand;
}

struct evict_node *evict_peek_next(const struct evict *e, struct evict_peek *p,
				   bool (*may_go)(const struct evict_node *n))
{
	while (p->looked++ < EVICT_PEEK_MAX) {
		struct evict_node *oldest = evict_walk_next(e, &p->walk);
		if (!oldest || (!oldest->hits && may_go(oldest)))
			return oldest;
	}
	return NULL;
}

void evict_insert(struct evict *e, struct evict_node *n, uint64_t id)
{
	uint64_t ago = ghosts_take(&e->ghosts, id, e->count);
	e->returned += ago > 0;
	e->returned_half += ago > 0 && ago <= e->count / 2;
	e->returned_quarter += ago > 0 && ago <= e->count / 4;
	e->policy->insert(e, n, ago > 0);
}

void evict_demote(struct evict *e, struct evict_node *n)
{
	uint64_t stamp = n->stamp;
	if (n->parked)
		return;
	e->policy->remove(e, n);
	for (unsigned i = 0; i < EVICT_QUEUES; i++) {
		const struct evict_node *oldest = evict_oldest(e, i);
		if (oldest && evict_age(e, oldest) > ((*e->time - stamp) & EVICT_TIME_MASK))
			stamp = oldest->stamp;
	}
	n->stamp = stamp;
	n->used = stamp;
	n->hits = 0;
	n->queue = 0;
	kv_list_add_tail(&e->queue[0], &n->node);
	e->in[0]++;
	e->count++;
}

void evict_remember(struct evict *e, const struct evict_node *n, uint64_t id)
{
	if (!e->policy->remembers || e->policy->remembers(n))
		ghosts_add(&e->ghosts, id, e->count);
}
