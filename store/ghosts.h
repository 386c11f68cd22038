/* SPDX-License-Identifier: Apache-2.0 */
/* ghosts.h -- which names were evicted not long ago: a bounded set that forgets the oldest. */
#ifndef KVRAIL_STORE_GHOSTS_H
#define KVRAIL_STORE_GHOSTS_H

#include "base/base.h"
#include "host/host.h"

/* Zeroed: there are none, and none can be added. */
struct ghosts {
	struct ghost *ghost; /* a power of two of buckets */
	uint64_t mask;       /* of the buckets in use, less one */
	uint64_t buckets_max;
	uint32_t time;       /* ghosts that were ever added */
	struct kv_area area; /* that they lie in; zeroed: in the heap */
};

/* ghosts_init -- room to remember count_max names (4 million at most), in at most 64 bytes each; memory is touched as
 * it is needed. 0 or -KV_ENOMEM. */
int ghosts_init(struct ghosts *g, uint64_t count_max);
void ghosts_fini(struct ghosts *g);

/* ghosts_add -- remember a name by a hash of it, beside the last `keep` that were added. ghosts_take -- how many were
 * added since this one, itself included, if it is among the last `keep`; else 0. It is forgotten. Both are O(1), one
 * cache line; neither allocates. */
void ghosts_add(struct ghosts *g, uint64_t id, uint64_t keep);
uint64_t ghosts_take(struct ghosts *g, uint64_t id, uint64_t keep);

#endif
