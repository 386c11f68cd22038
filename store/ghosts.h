/* SPDX-License-Identifier: Apache-2.0 */
/* ghosts.h -- recently evicted names: a bounded set. */
#ifndef KVRAIL_STORE_GHOSTS_H
#define KVRAIL_STORE_GHOSTS_H

#include "base/base.h"
#include "host/host.h"

/* Zeroed: empty, and nothing can be added. */
struct ghosts {
	struct ghost *ghost; /* a power of two of buckets */
	uint64_t mask;       /* of the buckets in use, less one */
	uint64_t buckets_max;
	uint32_t time;       /* ghosts added so far */
	struct kv_area area; /* their memory; zeroed: the heap */
};

/* ghosts_init -- for count_max names (4 million at most), in at most 64 bytes each, touched on demand. 0 or -KV_ENOMEM.
 */
int ghosts_init(struct ghosts *g, uint64_t count_max);
void ghosts_fini(struct ghosts *g);

/* ghosts_bytes -- of the part in use, to be saved with mask and time; 0: none. ghosts_resize -- let an empty set have
 * those of a saved one; the caller then fills in the bytes. False: this set is smaller, or none. */
size_t ghosts_bytes(const struct ghosts *g);
bool ghosts_resize(struct ghosts *g, uint64_t mask, uint32_t time);

/* ghosts_add -- remember a name by its hash, beside the last `keep`. ghosts_take -- forget a name; returns the number
 * of names added since it, itself included, or 0 if it is not among the last `keep`. ghosts_know -- whether it is among
 * them. O(1), without allocation. */
void ghosts_add(struct ghosts *g, uint64_t id, uint64_t keep);
uint64_t ghosts_take(struct ghosts *g, uint64_t id, uint64_t keep);
bool ghosts_know(const struct ghosts *g, uint64_t id, uint64_t keep);

#endif
