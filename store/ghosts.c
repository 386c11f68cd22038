/* SPDX-License-Identifier: Apache-2.0 */
/* ghosts.c -- a bounded set of evicted names: buckets of one cache line with eight ghosts, each half a hash and a time.
 *
 * A full bucket overwrites its oldest ghost, and ghosts older than the last `keep` do not count: nothing is removed.
 * There are four places per remembered name; two names are confused once in 2^29 look-ups. The table starts with one
 * bucket and doubles when `keep` needs it; then half of the ghosts are lost. */
#include "store/ghosts.h"
#include "host/host.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { COUNT_MAX = 1 << 22, BUCKET = 8, PLACES_EACH = 4, AREA_BYTES_MIN = 2 << 20 };

struct ghost {
	uint32_t half; /* of the hash; 0: the place is free */
	uint32_t time;
};

_Static_assert(BUCKET * sizeof(struct ghost) == KV_CACHELINE, "a bucket is a cache line");

int ghosts_init(struct ghosts *g, uint64_t count_max)
{
	uint64_t buckets = 1, bytes;
	count_max = KV_MIN(count_max, (uint64_t)COUNT_MAX);
	while (buckets * BUCKET < count_max * PLACES_EACH)
		buckets *= 2;
	bytes = buckets * BUCKET * sizeof(struct ghost);
	*g = (struct ghosts){.buckets_max = buckets};
	if (bytes < AREA_BYTES_MIN) {
		g->ghost = aligned_alloc(KV_CACHELINE, bytes);
		if (g->ghost)
			memset(g->ghost, 0, bytes);
	} else if (kv_area_map_lazy(bytes, &g->area, NULL) == 0) {
		g->ghost = g->area.base;
		/* Small pages: names are spread over the table, and a few evictions must not touch all of it. */
		(void)madvise(g->area.base, g->area.len_bytes, MADV_NOHUGEPAGE);
	}
	return g->ghost ? 0 : -KV_ENOMEM;
}

void ghosts_fini(struct ghosts *g)
{
	if (g->area.base)
		kv_area_unmap(&g->area);
	else
		free(g->ghost);
	*g = (struct ghosts){0};
}

size_t ghosts_bytes(const struct ghosts *g)
{
	return g->ghost ? (g->mask + 1) * BUCKET * sizeof(struct ghost) : 0;
}

bool ghosts_resize(struct ghosts *g, uint64_t mask, uint32_t time)
{
	if (!g->ghost || mask >= g->buckets_max || (mask & (mask + 1)))
		return false;
	g->mask = mask;
	g->time = time;
	return true;
}

static struct ghost *bucket_of(const struct ghosts *g, uint64_t id)
{
	return g->ghost + (id & g->mask) * BUCKET;
}

/* Never 0. */
static uint32_t half_of(uint64_t id)
{
	return (uint32_t)(id >> 32) | 1;
}

void ghosts_add(struct ghosts *g, uint64_t id, uint64_t keep)
{
	struct ghost *bucket, *oldest;
	if (!g->ghost)
		return;
	while ((g->mask + 1) * BUCKET < keep * PLACES_EACH && g->mask + 1 < g->buckets_max)
		g->mask = 2 * g->mask + 1;
	bucket = oldest = bucket_of(g, id);
	for (unsigned i = 0; i < BUCKET && oldest->half; i++)
		if (!bucket[i].half || g->time - bucket[i].time > g->time - oldest->time)
			oldest = &bucket[i];
	*oldest = (struct ghost){half_of(id), g->time++};
}

static struct ghost *ghost_find(const struct ghosts *g, uint64_t id)
{
	struct ghost *bucket = g->ghost ? bucket_of(g, id) : NULL;
	for (unsigned i = 0; bucket && i < BUCKET; i++)
		if (bucket[i].half == half_of(id))
			return &bucket[i];
	return NULL;
}

/* Names added since it, if it is among the last `keep`. */
static uint32_t ago(const struct ghosts *g, const struct ghost *of, uint64_t keep)
{
	uint32_t n = of ? g->time - of->time : 0;
	return n <= keep ? n : 0;
}

uint64_t ghosts_take(struct ghosts *g, uint64_t id, uint64_t keep)
{
	struct ghost *of = ghost_find(g, id);
	uint32_t n = ago(g, of, keep);
	if (of)
		of->half = 0;
	return n;
}

bool ghosts_know(const struct ghosts *g, uint64_t id, uint64_t keep)
{
	return ago(g, ghost_find(g, id), keep) > 0;
}
