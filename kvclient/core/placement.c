/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c -- the server of a key: rendezvous hashing of 2^18 partitions. A key's hash names its partition; the
 * server with the highest number for that wins: a strong mix of partition and seed (splitmix64's finaliser). The first
 * look-up notes the winner, later ones load it. A note depends on the seeds alone and never changes, so a relaxed store
 * suffices. Notes are shared (notes.c) and carried to the next view (notes_carry.c). Keys of an avoided server use the
 * next highest number for a while, without a note. With unequal weights (--members) the numbers are logarithms, see
 * drawn(), with the same result for equal weights. needed() excludes most numbers before the slow logarithm. */
#include "kvclient/core/placement.h"

#include <math.h>
#include <stdlib.h>

static bool notes(struct kc_place *p)
{
	if (!p->notes)
		p->notes = kc_notes_make();
	return p->notes;
}

int kc_place_init(struct kc_place *p, unsigned n)
{
	*p = (struct kc_place){.n = n, .seed = calloc(n, sizeof(*p->seed))};
	if (p->seed && (n <= KC_PLACE_DIRECT || notes(p)))
		return 0;
	kc_place_fini(p);
	return -KV_ENOMEM;
}

int kc_place_weigh(struct kc_place *p, const uint16_t *weight)
{
	unsigned same = 1;
	while (same < p->n && weight[same] == weight[0])
		same++;
	if (same >= p->n)
		return 0;
	p->weight = calloc(p->n, sizeof(*p->weight));
	if (!p->weight || !notes(p)) /* logarithms are too slow for each key */
		return -KV_ENOMEM;
	memcpy(p->weight, weight, p->n * sizeof(*p->weight));
	for (unsigned i = 1; i < p->n; i++)
		p->heavy = weight[i] > weight[p->heavy] ? i : p->heavy;
	return 0;
}

void kc_place_fini(struct kc_place *p)
{
	free(p->seed);
	free(p->node);
	free(p->weight);
	kc_notes_drop(&p->notes);
	*p = (struct kc_place){0};
}

uint64_t kc_place_seed(const char *name)
{
	return kv_hash_key(name, strlen(name), 0);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

/* Weighted rendezvous hashing: the largest log of a random number in (0, 1), divided by the weight, wins. Shares of
 * keys are in proportion to the weights. */
static double drawn(const struct kc_place *p, unsigned i, uint64_t random)
{
	return log(((double)random + 0.5) * 0x1p-64) / p->weight[i];
}

/* The best server so far. */
struct best {
	unsigned i;      /* p->n: none */
	uint64_t random; /* its number */
	double drawn;    /* its weighted number */
	uint64_t least;  /* smaller numbers do not win */
};

/* Lower bound of a winning random number: log(u) <= u - 1. The margin exceeds all rounding errors. */
static double needed(double drawn, unsigned weight)
{
	return 1 + drawn * weight - 1e-9;
}

/* Of equal numbers the lower index wins. */
static void best_try_weighed(const struct kc_place *p, struct best *b, unsigned i, uint64_t random)
{
	double own, least;
	if (b->i < p->n && (double)random * 0x1p-64 < needed(b->drawn, p->weight[i]))
		return;
	own = drawn(p, i, random);
	if (b->i < p->n && (own < b->drawn || (own == b->drawn && i >= b->i)))
		return;
	least = needed(own, p->weight[p->heavy]);
	*b = (struct best){.i = i, .drawn = own, .least = least > 0 ? (uint64_t)(least * 0x1p64) : 0};
}

static inline void best_try(const struct kc_place *p, struct best *b, uint64_t partition, unsigned i)
{
	uint64_t random = mix(partition ^ p->seed[i]);
	if (KV_LIKELY(random < b->least))
		return;
	if (p->weight)
		best_try_weighed(p, b, i, random);
	else if (b->i == p->n || random > b->random || i < b->i)
		*b = (struct best){.i = i, .random = random, .least = random};
}

static unsigned find_alike(const struct kc_place *p, uint64_t partition)
{
	uint64_t most = mix(partition ^ p->seed[0]);
	unsigned best = 0;
	for (unsigned i = 1; i < p->n; i++) {
		uint64_t random = mix(partition ^ p->seed[i]);
		if (random > most) {
			best = i;
			most = random;
		}
	}
	return best;
}

unsigned kc_place_find(const struct kc_place *p, uint64_t partition)
{
	struct best b = {.i = p->n};
	if (KV_LIKELY(!p->weight))
		return find_alike(p, partition);
	best_try(p, &b, partition, p->heavy); /* it wins often, and raises the bar */
	for (unsigned i = 0; i < p->n; i++)
		best_try(p, &b, partition, i);
	return b.i;
}

void kc_place_note(struct kc_place *p, uint64_t partition, unsigned best, const uint16_t *other, unsigned n)
{
	struct best b = {.i = p->n};
	best_try(p, &b, partition, best);
	for (unsigned i = 0; i < n; i++)
		best_try(p, &b, partition, other[i]);
	atomic_store_explicit(&p->notes->holder[partition], (uint16_t)(b.i + 1), memory_order_relaxed);
}

static uint64_t partition_of(const void *key, size_t len)
{
	return kv_hash_key(key, len, 0) >> (64 - KC_PLACE_BITS);
}

static unsigned node_of(const struct kc_place *p, unsigned i)
{
	return p->node ? p->node[i] : i;
}

unsigned kc_place_node(const struct kc_place *p, const void *key, size_t len)
{
	uint64_t partition;
	unsigned noted;
	if (p->n == 1)
		return node_of(p, 0);
	partition = partition_of(key, len);
	if (!p->notes)
		return node_of(p, kc_place_find(p, partition));
	noted = atomic_load_explicit(&p->notes->holder[partition], memory_order_relaxed);
	if (KV_UNLIKELY(noted == 0)) {
		noted = kc_place_find(p, partition) + 1;
		atomic_store_explicit(&p->notes->holder[partition], (uint16_t)noted, memory_order_relaxed);
	}
	return node_of(p, noted - 1);
}

unsigned kc_place_among(const struct kc_place *p, const void *key, size_t len, const struct kc_place_set *avoided)
{
	uint64_t partition = partition_of(key, len);
	struct best b = {.i = p->n};
	if (p->weight && !kc_place_set_has(avoided, node_of(p, p->heavy)))
		best_try(p, &b, partition, p->heavy);
	for (unsigned i = 0; i < p->n; i++)
		if (!kc_place_set_has(avoided, node_of(p, i)))
			best_try(p, &b, partition, i);
	return b.i < p->n ? node_of(p, b.i) : kc_place_node(p, key, len);
}
