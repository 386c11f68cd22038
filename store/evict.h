/* SPDX-License-Identifier: Apache-2.0 */
/* evict.h -- the interface of eviction policies. A new one: evict_NAME.c with a struct evict_policy, and a row in
 * evict_policies.h. */
#ifndef KVRAIL_STORE_EVICT_H
#define KVRAIL_STORE_EVICT_H

#include "base/base.h"
#include "store/ghosts.h"

enum { EVICT_TIME_BITS = 30, EVICT_HITS_BITS = 2 };

/* A part of each block. Zero it before insert. The policy keeps stamp, used and hits, which evict_peek_next and
 * evict_worth read. The functions below set queue and parked. */
struct evict_node {
	struct kv_list node;
	uint64_t stamp : EVICT_TIME_BITS;
	uint64_t used : EVICT_TIME_BITS;
	uint64_t hits : EVICT_HITS_BITS; /* since its policy last looked, saturating */
	uint64_t queue : 1;
	uint64_t parked : 1; /* referred to when a search met it; out of the policy until evict_unpark */
};

enum { EVICT_QUEUES = 2 };

struct evict {
	const struct evict_policy *policy;
	struct kv_list queue[EVICT_QUEUES]; /* each newest first */
	uint64_t in[EVICT_QUEUES];          /* their nodes */
	struct kv_list *hand;               /* sieve: the stop of the last search; &queue[0]: the oldest */
	uint64_t count;                     /* nodes in all queues */
	uint64_t *time; /* counts inserts and moves; wraps at EVICT_TIME_BITS. Its own, or that of others */
	uint64_t own_time;
	struct ghosts ghosts; /* of policies with ghosts */
	/* Inserts of ghosts; of these, before half or a quarter of all nodes were evicted after them. */
	uint64_t returned, returned_half, returned_quarter;
};

/* Rules: insert, access and remove are O(1). A search looks at EVICT_SWEEP_MAX nodes with hits at most, then takes the
 * next one. A node in use by a reader or lease leaves its queue when a search meets it, and returns as the newest: a
 * client with thousands of blocks slows no search. */
enum { EVICT_SWEEP_MAX = 4096 };

#define EVICT_TIME_MASK ((1ull << EVICT_TIME_BITS) - 1)

struct evict_policy {
	const char *name;
	bool ghosts;       /* the policy remembers evicted blocks */
	unsigned queues;   /* that it uses */
	unsigned hits_max; /* clock: hits that count, at most */
	/* insert -- as the newest. returned: it is a ghost. */
	void (*insert)(struct evict *e, struct evict_node *n, bool returned);
	void (*access)(struct evict *e, struct evict_node *n);
	void (*remove)(struct evict *e, struct evict_node *n);
	/* victim -- the node to evict next that may_go allows, still in the policy; NULL: there is none. The search
	 * parks nodes that may not go. */
	struct evict_node *(*victim)(struct evict *e, bool (*may_go)(const struct evict_node *n));
	/* remembers -- whether this node becomes a ghost when it is evicted. NULL: always. */
	bool (*remembers)(const struct evict_node *n);
};

/* evict_init -- an empty policy for at most count_max nodes; *e stays where it is. 0 or -KV_ENOMEM. evict_fini -- nodes
 * are the caller's. */
int evict_init(struct evict *e, const struct evict_policy *policy, uint64_t count_max);
void evict_fini(struct evict *e);

/* A walk over all nodes of a policy that does not change meanwhile, by age, the oldest first. */
struct evict_walk {
	struct kv_list *at[EVICT_QUEUES];
};

void evict_walk_begin(const struct evict *e, struct evict_walk *w);
struct evict_node *evict_walk_next(const struct evict *e, struct evict_walk *w); /* NULL: no more */

/* Look at likely victims without a change of the policy: the oldest nodes of each queue without hits, among
 * EVICT_PEEK_MAX. */
enum { EVICT_PEEK_MAX = 256 };

struct evict_peek {
	struct evict_walk walk;
	unsigned looked;
};

void evict_peek_begin(struct evict *e, struct evict_peek *p);
struct evict_node *evict_peek_next(const struct evict *e, struct evict_peek *p,
				   bool (*may_go)(const struct evict_node *n)); /* NULL: no more */

/* evict_age -- the time since the node got its place. evict_worth -- how far the node's eviction now is ahead of its
 * turn, where a node of age `oldest` is next; each hit adds a lifetime. */
static inline uint64_t evict_age(const struct evict *e, const struct evict_node *n)
{
	return (*e->time - n->stamp) & EVICT_TIME_MASK;
}

static inline uint64_t evict_worth(const struct evict *e, const struct evict_node *n, uint64_t oldest)
{
	return oldest - KV_MIN(evict_age(e, n), oldest) + n->hits * oldest;
}

/* For policies. evict_stamp -- make the node the newest. evict_park -- take a node that may not go out of its queue. */
static inline void evict_stamp(struct evict *e, struct evict_node *n)
{
	n->stamp = ++*e->time & EVICT_TIME_MASK;
}

void evict_link(struct evict *e, struct evict_node *n, unsigned queue);
void evict_unlink(struct evict *e, struct evict_node *n);
void evict_park(struct evict *e, struct evict_node *n);
static inline struct evict_node *evict_oldest(const struct evict *e, unsigned queue)
{
	return e->in[queue] ? KV_LIST_ENTRY(e->queue[queue].prev, struct evict_node, node) : NULL;
}

/* evict_insert -- add a new value. id: hash of its name, for ghosts. */
void evict_insert(struct evict *e, struct evict_node *n, uint64_t id);

/* evict_return -- add a node again after evict_remove, as the newest. */
static inline void evict_return(struct evict *e, struct evict_node *n)
{
	e->policy->insert(e, n, false);
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
	n->parked = 0;
}

/* evict_demote -- make a node without hits the next victim. */
void evict_demote(struct evict *e, struct evict_node *n);

/* evict_remember -- before evict_remove of an evicted, not deleted node. */
void evict_remember(struct evict *e, const struct evict_node *n, uint64_t id);

/* evict_unpark -- the last reference to its block has ended. Harmless if it is not parked. */
static inline void evict_unpark(struct evict *e, struct evict_node *n)
{
	if (!n->parked)
		return;
	n->parked = 0;
	e->policy->insert(e, n, false);
}

static inline struct evict_node *evict_victim(struct evict *e, bool (*may_go)(const struct evict_node *n))
{
	return e->policy->victim(e, may_go);
}

#endif
