/* SPDX-License-Identifier: Apache-2.0 */
/* expire.c -- a wheel of one-second buckets.
 *
 * A node lies in bucket (second of its time) % 4096, in any lap. Each second one bucket moves to `due`; its nodes are
 * examined one by one, and those of a later lap go back. So nothing allocates, and a sweep keeps to its budget.
 * Look-ups check when_ns themselves: the wheel only frees memory. */
#include "store/expire.h"

#define SECOND_NS 1000000000ull

void expire_init(struct expire *e, uint64_t now_ns)
{
	e->tick = now_ns / SECOND_NS;
	e->count = 0;
	kv_list_init(&e->due);
	for (unsigned i = 0; i < EXPIRE_BUCKETS; i++)
		kv_list_init(&e->bucket[i]);
}

/* If its bucket has moved already, a node lies in the next one. */
static void wheel_add(struct expire *e, struct expire_node *n)
{
	uint64_t second = KV_MAX(n->when_ns / SECOND_NS, e->tick + 1);
	kv_list_add_tail(&e->bucket[second % EXPIRE_BUCKETS], &n->node);
	e->count++;
}

static void wheel_del(struct expire *e, struct expire_node *n)
{
	if (n->node.next && n->node.next != &n->node) {
		kv_list_del(&n->node);
		e->count--;
	}
}

void expire_set(struct expire *e, struct expire_node *n, uint64_t when_ns)
{
	wheel_del(e, n);
	n->when_ns = when_ns;
	if (when_ns != KV_NEVER)
		wheel_add(e, n);
}

/* A bucket becomes due when its second is over. After a long pause one lap moves all buckets. */
static void wheel_turn(struct expire *e, uint64_t now_ns, unsigned *budget)
{
	uint64_t over = now_ns / SECOND_NS;
	over = over ? over - 1 : 0;
	if (over > e->tick + EXPIRE_BUCKETS)
		e->tick = over - EXPIRE_BUCKETS;
	while (e->tick < over && *budget && kv_list_empty(&e->due)) {
		e->tick++;
		(*budget)--;
		kv_list_splice_tail(&e->due, &e->bucket[e->tick % EXPIRE_BUCKETS]);
	}
}

struct expire_node *expire_next(struct expire *e, uint64_t now_ns, unsigned *budget)
{
	while (*budget) {
		struct kv_list *l;
		struct expire_node *n;
		wheel_turn(e, now_ns, budget);
		l = kv_list_pop(&e->due);
		if (!l)
			return NULL;
		if (*budget)
			(*budget)--;
		n = KV_LIST_ENTRY(l, struct expire_node, node);
		e->count--;
		if (expire_over(n, now_ns))
			return n;
		wheel_add(e, n);
	}
	return NULL;
}
