/* SPDX-License-Identifier: Apache-2.0 */
/* evict.h -- the interface of eviction policies: which block goes first when memory is short. A new policy is a file
 * evict_NAME.c with a struct evict_policy, a declaration in evict_policies.h, a row in evict_policies.c and a name in
 * base/opt_rows.c (kv_opt_eviction_names), in the same order. */
#ifndef KVRAIL_STORE_EVICT_H
#define KVRAIL_STORE_EVICT_H

#include "base/base.h"
#include "store/ghosts.h"

enum { EVICT_TIME_BITS = 30, EVICT_HITS_BITS = 2 };

/* A part of each block that may be evicted. Zero it before insert. The policy writes stamp, used and hits;
 * evict_peek_next and evict_worth read stamp and hits for store/room.c, so every policy keeps them true. evict_link
 * sets queue, evict_park, evict_unpark and evict_remove set parked. */
struct evict_node {
	struct kv_list node;
	uint64_t stamp : EVICT_TIME_BITS; /* when it got its place in the order of eviction */
	uint64_t used : EVICT_TIME_BITS;  /* the time of its last hit */
	uint64_t hits : EVICT_HITS_BITS;  /* since its policy last looked; no more than fit */
	uint64_t queue : 1;               /* which one it is in */
	uint64_t parked : 1;              /* a search found that it may not go: it is out of the policy until
					   * evict_unpark */
};

enum { EVICT_QUEUES = 2 };

struct evict {
	const struct evict_policy *policy;
	struct kv_list queue[EVICT_QUEUES]; /* each newest first */
	uint64_t in[EVICT_QUEUES];          /* nodes in each */
	struct kv_list *hand;               /* sieve: where the last search stopped; &queue[0]: at the oldest */
	uint64_t count;                     /* nodes in all queues */
	uint64_t time;                      /* counts inserts and other places that were given; EVICT_TIME_BITS of it
					     * matter */
	struct ghosts ghosts;               /* if the policy has them */
	/* Inserts of ghosts, which are what was evicted not long ago; of them, those that came back before half, or a
	 * quarter, as many were evicted as there are nodes. */
	uint64_t returned, returned_half, returned_quarter;
};

/* The rules of every policy. Insert, access and remove are O(1). A search for a victim looks at EVICT_SWEEP_MAX nodes
 * that were hit at most; then it takes the next one, hit or not. Otherwise the search would stop the shard for 0.1 s
 * when all of a million nodes were hit. A node that may not go (a reader or a lease holds it) leaves its queue when a
 * search meets it, and comes back as the newest when it may go. Otherwise a client that holds tens of thousands of
 * blocks would make every search step over all of them. So each step of a search is paid for by a hit or by a new
 * reference to a block, and the search ends when the queues are empty. */
enum { EVICT_SWEEP_MAX = 4096 };

#define EVICT_TIME_MASK ((1ull << EVICT_TIME_BITS) - 1)

struct evict_policy {
	const char *name;
	bool ghosts;       /* the policy remembers the blocks that it evicted */
	unsigned hits_max; /* clock: how many hits count */
	/* insert -- as the newest. returned: it was evicted not long ago (only with ghosts). */
	void (*insert)(struct evict *e, struct evict_node *n, bool returned);
	void (*access)(struct evict *e, struct evict_node *n);
	void (*remove)(struct evict *e, struct evict_node *n);
	/* victim -- the node to evict next among those that may_go allows, still in the policy; NULL when none may. The
	 * search parks the nodes on its way that may not go. */
	struct evict_node *(*victim)(struct evict *e, bool (*may_go)(const struct evict_node *n));
	/* remembers -- whether a node that is evicted now becomes a ghost. NULL: every one does. */
	bool (*remembers)(const struct evict_node *n);
};

/* evict_init -- an empty policy for at most count_max nodes. 0 or -KV_ENOMEM (the ghosts' table). evict_fini -- the
 * nodes are the caller's. */
int evict_init(struct evict *e, const struct evict_policy *policy, uint64_t count_max);
void evict_fini(struct evict *e);

/* The nodes that go first, or nearly so, without any change of the policy: the oldest of each queue that were not hit.
 * EVICT_PEEK_MAX nodes are looked at in all. */
enum { EVICT_PEEK_MAX = 256 };

struct evict_peek {
	struct kv_list *at[EVICT_QUEUES];
	unsigned looked;
};

void evict_peek_begin(struct evict *e, struct evict_peek *p);
struct evict_node *evict_peek_next(const struct evict *e, struct evict_peek *p,
				   bool (*may_go)(const struct evict_node *n)); /* NULL: no more */

/* evict_age -- the time since the node got its place. evict_worth -- how much too early the node would go now, in the
 * same unit, if one of the age `oldest` is the one to go: 0 for that one, and a lifetime more for each hit. */
static inline uint64_t evict_age(const struct evict *e, const struct evict_node *n)
{
	return (e->time - n->stamp) & EVICT_TIME_MASK;
}

static inline uint64_t evict_worth(const struct evict *e, const struct evict_node *n, uint64_t oldest)
{
	return oldest - KV_MIN(evict_age(e, n), oldest) + n->hits * oldest;
}

/* For policies: lists and counts. evict_stamp -- the node gets the newest place. evict_park -- the node may not go. */
static inline void evict_stamp(struct evict *e, struct evict_node *n)
{
	n->stamp = ++e->time & EVICT_TIME_MASK;
}

void evict_link(struct evict *e, struct evict_node *n, unsigned queue);
void evict_unlink(struct evict *e, struct evict_node *n);
void evict_park(struct evict *e, struct evict_node *n);
static inline struct evict_node *evict_oldest(const struct evict *e, unsigned queue)
{
	return e->in[queue] ? KV_LIST_ENTRY(e->queue[queue].prev, struct evict_node, node) : NULL;
}

/* evict_insert -- a new value; id: a hash of its name, by which a ghost is known again. */
void evict_insert(struct evict *e, struct evict_node *n, uint64_t id);

/* evict_return -- a node that was here, and was taken out by evict_remove: the newest again. */
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

/* evict_demote -- the node, which was not hit yet, goes before all others. */
void evict_demote(struct evict *e, struct evict_node *n);

/* evict_remember -- n is about to be evicted, and not deleted: before evict_remove. */
void evict_remember(struct evict *e, const struct evict_node *n, uint64_t id);

/* evict_unpark -- the node may go again: the last reference to its block has gone. Harmless when it is not parked. */
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
