/* SPDX-License-Identifier: Apache-2.0 */
/* slab.c -- pool of equal objects.
 *
 * Objects never move and chunks are never returned before slab_fini: pointers into a slab stay valid for its life, and
 * after warm-up no operation allocates. The free list is last-in first-out, so that a hot object is reused while it is
 * in cache. `made` counts objects that exist, `used` those handed out; used <= made <= max. */
#include "kvserver/slab.h"

#include <stdlib.h>

enum { CHUNK_BYTES = 64 * 1024 };

void slab_init(struct slab *s, size_t object_bytes, uint32_t max)
{
	*s = (struct slab){.object_bytes = kv_align_up(object_bytes, KV_CACHELINE), .max = max};
}

void slab_fini(struct slab *s)
{
	while (s->chunks) {
		void *chunk = s->chunks;
		s->chunks = *(void **)chunk;
		free(chunk);
	}
	*s = (struct slab){0};
}

static void slab_grow(struct slab *s)
{
	uint32_t want = (uint32_t)KV_MAX((CHUNK_BYTES - KV_CACHELINE) / s->object_bytes, (size_t)1);
	uint32_t n = KV_MIN(want, s->max - s->made);
	uint8_t *chunk;

	if (n == 0)
		return;
	chunk = aligned_alloc(KV_CACHELINE, KV_CACHELINE + n * s->object_bytes);
	if (!chunk)
		return;
	*(void **)(void *)chunk = s->chunks;
	s->chunks = chunk;
	s->made += n;
	for (uint32_t i = n; i-- > 0;) {
		void *object = chunk + KV_CACHELINE + i * s->object_bytes;
		*(void **)object = s->free;
		s->free = object;
	}
}

void *slab_get(struct slab *s)
{
	void *object;

	if (KV_UNLIKELY(!s->free))
		slab_grow(s);
	object = s->free;
	if (!object)
		return NULL;
	s->free = *(void **)object;
	s->used++;
	return object;
}

void slab_put(struct slab *s, void *object)
{
	*(void **)object = s->free;
	s->free = object;
	s->used--;
}
