/* SPDX-License-Identifier: Apache-2.0 */
/* expire.h -- the expiry of blocks, swept in bounded steps. */
#ifndef KVRAIL_STORE_EXPIRE_H
#define KVRAIL_STORE_EXPIRE_H

#include "base/base.h"

enum { EXPIRE_BUCKETS = 4096 };

/* A part of each block. Zeroed: in no wheel. */
struct expire_node {
	struct kv_list node;
	uint64_t when_ns; /* KV_NEVER: not in the wheel */
};

struct expire {
	uint64_t tick;      /* seconds: buckets up to this one have moved to due */
	struct kv_list due; /* to be examined */
	uint64_t count;     /* nodes in the wheel */
	struct kv_list bucket[EXPIRE_BUCKETS];
};

void expire_init(struct expire *e, uint64_t now_ns);

/* expire_set -- (re)place a node, zeroed before its first use. KV_NEVER removes it. */
void expire_set(struct expire *e, struct expire_node *n, uint64_t when_ns);

/* expire_next -- remove and return an expired node, or NULL. Examines at most *budget nodes and buckets, and lowers it.
 * With enough budget each node is found within a second of its time. */
struct expire_node *expire_next(struct expire *e, uint64_t now_ns, unsigned *budget);

static inline bool expire_over(const struct expire_node *n, uint64_t now_ns)
{
	return n->when_ns <= now_ns;
}

#endif
