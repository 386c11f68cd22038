/* SPDX-License-Identifier: Apache-2.0 */
/* evict.h -- which block goes first when memory is short: a small policy interface, and the table of policies. */
#ifndef KVRAIL_KVSERVER_EVICT_H
#define KVRAIL_KVSERVER_EVICT_H

#include "base/base.h"

/* Embedded in what may be evicted. Zero it before insert. */
struct evict_node {
	struct kv_list node;
	bool visited;
	bool parked; /* a search found that it may not go: out of the policy until evict_unpark */
};

struct evict {
	const struct evict_policy *policy;
	struct kv_list queue; /* newest first */
	struct kv_list *hand; /* where the last search stopped; &queue: at the oldest */
	uint64_t count;
};

/* Every function is O(1); victim is O(1) amortised over inserts, accesses and unparks. */
struct evict_policy {
	const char *name;
	void (*insert)(struct evict *e, struct evict_node *n);
	void (*access)(struct evict *e, struct evict_node *n);
	void (*remove)(struct evict *e, struct evict_node *n);
	/* victim -- the node to evict next among those that may_go allows, still in the policy; NULL when none may. Those on its
	 * way that may not are parked. */
	struct evict_node *(*victim)(struct evict *e, bool (*may_go)(const struct evict_node *n));
};

extern const struct evict_policy evict_sieve;

/* evict_policies -- by number, in the order of kvs_eviction_names; ends with NULL. */
extern const struct evict_policy *const evict_policies[];

void evict_init(struct evict *e, const struct evict_policy *policy);

static inline void evict_insert(struct evict *e, struct evict_node *n)
{
	e->policy->insert(e, n);
}

static inline void evict_access(struct evict *e, struct evict_node *n)
{
	if (!n->parked)
		e->policy->access(e, n);
}

static inline void evict_remove(struct evict *e, struct evict_node *n)
{
	if (!n->parked)
		e->policy->remove(e, n);
	n->parked = false;
}

/* evict_unpark -- it may go again: whoever makes it so calls this. Harmless when it is not parked. */
static inline void evict_unpark(struct evict *e, struct evict_node *n)
{
	if (!n->parked)
		return;
	n->parked = false;
	e->policy->insert(e, n);
}

static inline struct evict_node *evict_victim(struct evict *e, bool (*may_go)(const struct evict_node *n))
{
	return e->policy->victim(e, may_go);
}

#endif
