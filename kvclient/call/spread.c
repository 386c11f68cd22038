/* SPDX-License-Identifier: Apache-2.0 */
/* spread.c -- a large batch of a thread is cut into parts of equal work, for several cores.
 *
 * An item's work is its bytes plus ITEM_WORK. A part pays for its two context switches from PART_WORK on. Workers'
 * batches stay on their client. */
#include "kvclient/call/spread.h"

enum { ITEM_WORK = 16 << 10, PART_WORK = 2 << 20 };

static uint64_t item_work(const struct kc_spread *s, unsigned i)
{
	return ITEM_WORK + (s->bytes ? KV_MIN(s->items[i].len, KV_VALUE_MAX) : 0);
}

unsigned kc_spread_begin(struct kc_spread *s, const struct kvc_pool *pool, const struct kvc_item *items, unsigned n,
			 bool bytes)
{
	unsigned most = KV_MIN(KV_MIN(pool->num_loops, pool->num_clients), (unsigned)KC_SPREAD_MAX);
	*s = (struct kc_spread){.items = items, .n = n, .count = 1, .bytes = bytes};
	if (most == 1 || n < 2)
		return 1;
	for (unsigned i = 0; i < n; i++)
		s->work += item_work(s, i);
	s->count = (unsigned)KV_MIN(s->work / PART_WORK, (uint64_t)KV_MIN(n, most));
	s->count = KV_MAX(s->count, 1u);
	return s->count;
}

/* The k-th part begins after k shares of the work. */
unsigned kc_spread_next(struct kc_spread *s, unsigned *out_from)
{
	unsigned last = s->n - (s->count - ++s->part); /* leaves one item for each part that follows */
	*out_from = s->at;
	if (s->part == s->count) {
		s->at = s->n;
	} else {
		do
			s->done += item_work(s, s->at++);
		while (s->at < last && s->done < s->work / s->count * s->part);
	}
	return s->at - *out_from;
}

unsigned kc_spread_idlest(const struct kvc_pool *pool, const _Atomic uint32_t *load, unsigned turn)
{
	unsigned n = pool->num_clients, best = turn % n;
	uint64_t least = UINT64_MAX;
	for (unsigned k = 0; k < n && least > 0; k++) {
		unsigned i = (turn + k) % n;
		uint64_t down = atomic_load_explicit(&pool->loads.down[i], memory_order_relaxed);
		uint64_t all = down << 32 | atomic_load_explicit(&load[i], memory_order_relaxed);
		if (all < least) {
			least = all;
			best = i;
		}
	}
	return best;
}

struct kvc_client *kc_spread_client(const struct kvc_pool *pool, unsigned turn, unsigned k)
{
	unsigned loops = KV_MIN(pool->num_loops, pool->num_clients), loop = (turn + k) % loops;
	unsigned clients = (pool->num_clients - loop + loops - 1) / loops;
	return pool->client[loop + turn / loops % clients * loops];
}
