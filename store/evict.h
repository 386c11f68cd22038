/* SPDX-License-Identifier: Apache-2.0 */
/* evict.h -- which block goes first when memory is short: a small policy interface. */
#ifndef KVRAIL_STORE_EVICT_H
#define KVRAIL_STORE_EVICT_H

#include "base/base.h"
#include "store/ghosts.h"

enum { EVICT_TIME_BITS = 30, EVICT_HITS_BITS = 2 };

/* Embedded in what may be evicted. Zero it before insert. The fields behind the first are the policy's. */
struct evict_node {
	struct kv_list node;
	uint64_t stamp : EVICT_TIME_BITS; /* when it got its place in the order of going */
	uint64_t used : EVICT_TIME_BITS;  /* the time of its last hit */
	uint64_t hits : EVICT_HITS_BITS;  /* since its policy last looked; no more than fit */
	uint64_t queue : 1;               /* which one it is in */
	uint64_t parked : 1;              /* a search found that it may not go: out of the policy until evict_unpark */
};

enum { EVICT_QUEUES = 2 };

struct evict {
	const struct evict_policy *policy;
	struct kv_list queue[EVICT_QUEUES]; /* each newest first */
	uint64_t in[EVICT_QUEUES];          /* nodes in each */
	struct kv_list *hand;               /* sieve: where the last search stopped; &queue[0]: at the oldest */
	uint64_t count;                     /* nodes in all queues */
	uint64_t time;                      /* inserts so far, and other places given; of them EVICT_TIME_BITS count */
	struct ghosts ghosts;               /* of a policy that has them */
};

/* What every policy keeps to. Insert, access and remove are O(1). A search for a victim looks at EVICT_SWEEP_MAX nodes
 * that were hit at most: then it takes the next one, hit or not. Where all of a million were, it would else stand still
 * for 0.1 s to find the first. A node that may not go (a reader holds it, or a lease) leaves its queue when a search
 * meets it, and comes back as the newest when it may: a client that holds tens of thousands of blocks would else have
 * every search step over all of them. So a step of a search is paid for by a hit or by somebody who took hold of a
 * block, and ends when the queues are empty. */
enum { EVICT_SWEEP_MAX = 4096 };

#define EVICT_TIME_MASK ((1ull << EVICT_TIME_BITS) - 1)

struct evict_policy {
	const char *name;
	bool ghosts;       /* remembers what it evicted */
	unsigned hits_max; /* clock: how many hits count */
	/* insert -- as the newest. returned: it was evicted not long ago (only with ghosts). */
	void (*insert)(struct evict *e, struct evict_node *n, bool returned);
	void (*access)(struct evict *e, struct evict_node *n);
	void (*remove)(struct evict *e, struct evict_node *n);
	/* victim -- the node to evict next among those that may_go allows, still in the policy; NULL when none may.
	 * Those on its way that may not are parked. */
	struct evict_node *(*victim)(struct evict *e, bool (*may_go)(const struct evict_node *n));
	/* remembers -- whether a node that is evicted now is to be a ghost. NULL: every one. */
	bool (*remembers)(const struct evict_node *n);
};

/* evict_init -- an empty policy for at most count_max nodes. 0 or -KV_ENOMEM (the ghosts' table). evict_fini -- the
 * nodes are the caller's. */
int evict_init(struct evict *e, const struct evict_policy *policy, uint64_t count_max);
void evict_fini(struct evict *e);

/* Nodes near those that go first, without any change of the policy: the oldest of each queue that were not hit,
 * EVICT_PEEK_MAX looked at in all. */
enum { EVICT_PEEK_MAX = 256 };

struct evict_peek {
	struct kv_list *at[EVICT_QUEUES];
	unsigned looked;
};

void evict_peek_begin(struct evict *e, struct evict_peek *p);
struct evict_node *evict_peek_next(const struct evict *e, struct evict_peek *p,
				   bool (*may_go)(const struct evict_node *n)); /* NULL: no more */

/* evict_age -- since it got its place. evict_worth -- how much too early it would go now, in the same unit, if one of
 * the age `oldest` is to go: 0 for that one, a lifetime more for each hit. */
static inline uint64_t evict_age(const struct evict *e, const struct evict_node *n)
{
	return (e->time - n->stamp) & EVICT_TIME_MASK;
}

static inline uint64_t evict_worth(const struct evict *e, const struct evict_node *n, uint64_t oldest)
{
	return oldest - KV_MIN(evict_age(e, n), oldest) + n->hits * oldest;
}

/* For policies: lists and counts. evict_stamp -- it gets the newest place. evict_park -- it may not go. */
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

/* evict_remember -- n is about to be evicted, and not deleted: before evict_remove. */
void evict_remember(struct evict *e, const struct evict_node *n, uint64_t id);

/* evict_unpark -- it may go again: whoever makes it so calls this. Harmless when it is not parked. */
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
