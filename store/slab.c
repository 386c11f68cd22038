/* SPDX-License-Identifier: Apache-2.0 */
/* slab.c -- a pool of equal objects. They never move, and chunks stay until slab_fini: pointers stay valid, and after
 * warm-up nothing allocates. The free list is last-in first-out. Chunks double from 64 KiB to 2 MiB, then huge pages.
 * `made`: objects handed out ever, `used`: now; used <= made <= max. */
#include "store/slab.h"
#include "host/host.h"

#include <stdlib.h>

enum { CHUNK_BYTES_MIN = 64 << 10, CHUNK_BYTES_MAX = 2 << 20 };

/* In front of its objects. */
struct slab_chunk {
	struct slab_chunk *next;
	uint64_t bytes;
	uint64_t mapped_bytes; /* 0: from the heap */
	uint32_t first;        /* the number of its first object */
};

_Static_assert(sizeof(struct slab_chunk) <= KV_CACHELINE, "objects begin at the second cache line of a chunk");

void slab_init(struct slab *s, size_t object_bytes, uint32_t max)
{
	*s = (struct slab){.object_bytes = kv_align_up(object_bytes, KV_CACHELINE), .max = max};
}

void slab_fini(struct slab *s)
{
	while (s->chunks) {
		struct slab_chunk *chunk = s->chunks;
		struct kv_area area = {.base = chunk, .len_bytes = chunk->mapped_bytes};
		s->chunks = chunk->next;
		if (area.len_bytes)
			kv_area_unmap(&area);
		else
			free(chunk);
	}
	*s = (struct slab){0};
}

static struct slab_chunk *chunk_make(uint64_t bytes)
{
	struct kv_area area = {0};
	struct slab_chunk *chunk;
	if (bytes < CHUNK_BYTES_MAX)
		chunk = aligned_alloc(KV_CACHELINE, bytes);
	else
		chunk = kv_area_map_lazy(bytes, &area, NULL) == 0 ? area.base : NULL;
	if (chunk)
		*chunk = (struct slab_chunk){.bytes = bytes, .mapped_bytes = area.len_bytes};
	return chunk;
}

static void slab_grow(struct slab *s)
{
	uint64_t bytes = s->chunks ? KV_MIN(2 * s->chunks->bytes, (uint64_t)CHUNK_BYTES_MAX) : CHUNK_BYTES_MIN;
	uint64_t n = KV_MAX((bytes - KV_CACHELINE) / s->object_bytes, (uint64_t)1);
	struct slab_chunk *chunk;
	n = KV_MIN(n, (uint64_t)(s->max - s->made));
	if (n == 0)
		return;
	/* The last chunk is no larger than needed; huge pages are always whole. */
	if (bytes < CHUNK_BYTES_MAX || n == 1)
		bytes = KV_CACHELINE + n * s->object_bytes;
	chunk = chunk_make(bytes);
	if (!chunk)
		return;
	chunk->next = s->chunks;
	chunk->first = s->made;
	s->chunks = chunk;
	s->fresh = (uint8_t *)chunk + KV_CACHELINE;
	s->fresh_count = (uint32_t)n;
}

void *slab_more(struct slab *s)
{
	void *object;
	if (s->fresh_count == 0)
		slab_grow(s);
	if (s->fresh_count == 0)
		return NULL;
	object = s->fresh;
	s->fresh += s->object_bytes;
	s->fresh_count--;
	s->made++;
	s->used++;
	return object;
}

void *slab_span(const struct slab *s, uint32_t below, uint32_t *out_first)
{
	struct slab_chunk *chunk = s->chunks;
	KV_ASSERT(below > 0 && below <= s->made);
	while (chunk->first >= below)
		chunk = chunk->next;
	*out_first = chunk->first;
	return (uint8_t *)chunk + KV_CACHELINE;
}
