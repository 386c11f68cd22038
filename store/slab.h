/* SPDX-License-Identifier: Apache-2.0 */
/* slab.h -- a pool of equal objects with a bound: memory comes in chunks, grows with use and is given back only at the
 * end. */
#ifndef KVRAIL_STORE_SLAB_H
#define KVRAIL_STORE_SLAB_H

#include "base/base.h"

struct slab_chunk;

struct slab {
	size_t object_bytes;
	uint32_t max, made, used;
	void *free;     /* singly linked through the objects' first word */
	uint8_t *fresh; /* objects that were never handed out, at the end of the newest chunk */
	uint32_t fresh_count;
	struct slab_chunk *chunks;
};

/* slab_init -- objects of object_bytes, cache line aligned, at most max of them. Allocates nothing yet. */
void slab_init(struct slab *s, size_t object_bytes, uint32_t max);
void slab_fini(struct slab *s); /* frees every object, in use or not */

/* slab_more -- the slow part of slab_get, when no object was given back: one that was never handed out, or NULL. */
void *slab_more(struct slab *s);

/* slab_get -- an object with undefined contents, or NULL (max reached, or no memory). slab_put gives it back. */
static inline void *slab_get(struct slab *s)
{
	void *object = s->free;

	if (KV_UNLIKELY(!object))
		return slab_more(s);
	s->free = *(void **)object;
	s->used++;
	return object;
}

static inline void slab_put(struct slab *s, void *object)
{
	*(void **)object = s->free;
	s->free = object;
	s->used--;
}

#endif
