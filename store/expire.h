/* SPDX-License-Identifier: Apache-2.0 */
/* expire.h -- when blocks expire: a wheel of one-second buckets, swept a bounded number of nodes at a time. */
#ifndef KVRAIL_STORE_EXPIRE_H
#define KVRAIL_STORE_EXPIRE_H

#include "base/base.h"

enum { EXPIRE_BUCKETS = 4096 };

/* A part of what expires. Zeroed: in no wheel. */
struct expire_node {
	struct kv_list node;
	uint64_t when_ns; /* KV_NEVER: not in the wheel */
};

struct expire {
	uint64_t tick;      /* seconds: buckets up to this one were moved to due */
	struct kv_list due; /* to be looked at */
	uint64_t count;     /* nodes in the wheel */
	struct kv_list bucket[EXPIRE_BUCKETS];
};

void expire_init(struct expire *e, uint64_t now_ns);

/* expire_set -- (re)place a node: it expires at when_ns; KV_NEVER takes it out. The node was zeroed before its first
 * use. */
void expire_set(struct expire *e, struct expire_node *n, uint64_t when_ns);

/* expire_next -- a node whose time has come, no longer in the wheel, or NULL. Looks at no more than *budget nodes and
 * buckets and lowers it by what it did. Called again and again, every node is found within about a second of its time
 * (later only if budgets are too small). */
struct expire_node *expire_next(struct expire *e, uint64_t now_ns, unsigned *budget);

static inline bool expire_over(const struct expire_node *n, uint64_t now_ns)
{
	return n->when_ns <= now_ns;
}

#endif
