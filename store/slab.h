/* SPDX-License-Identifier: Apache-2.0 */
/* slab.h -- a bounded pool of equal objects, which grows with use and is freed at the end. */
#ifndef KVRAIL_STORE_SLAB_H
#define KVRAIL_STORE_SLAB_H

#include "base/base.h"

struct slab_chunk;

struct slab {
	size_t object_bytes;
	uint32_t max, made, used;
	void *free;     /* linked through the objects' first word */
	uint8_t *fresh; /* end of the newest chunk: objects never handed out */
	uint32_t fresh_count;
	struct slab_chunk *chunks;
};

/* slab_init -- at most max objects of object_bytes, cache line aligned. Allocates nothing yet. */
void slab_init(struct slab *s, size_t object_bytes, uint32_t max);
void slab_fini(struct slab *s); /* frees every object, in use or not */

/* slab_more -- the slow part of slab_get: an object never handed out, or NULL. */
void *slab_more(struct slab *s);

/* slab_span -- objects are numbered from 0 on in the order in which they were first handed out. Returns the first
 * object of the chunk with number below - 1, in use or not, and its number; the others follow it. below: 1 to `made`.
 */
void *slab_span(const struct slab *s, uint32_t below, uint32_t *out_first);

/* slab_get -- an object with undefined contents, or NULL. slab_put -- give it back. */
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
