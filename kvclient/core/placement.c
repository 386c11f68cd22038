/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c -- which server holds a key: rendezvous hashing (highest random weight) of partitions.
 *
 * A key's hash names one of 2^18 partitions. Every server gets a weight for the partition, and the highest wins. The
 * weight is a strong mix of the partition's number and the server's seed: the finaliser of splitmix64, a bijection with
 * good avalanche. With many servers that is too much work for each key (256 servers: 2,000 instructions, a third of a
 * small GET). So the first look-up notes the winner of a partition, and later ones find it by one load. The note
 * depends on nothing but the seeds and never changes: two threads that compute it at once note the same, so a relaxed
 * store is enough.
 *
 * The price of partitions is a little balance: with 16 servers shares differ by 0.8 %, with 256 by 3 % (the square root
 * of servers by partitions).
 *
 * A server that is down is avoided: its keys go to the server of the next highest weight that is not. Weights are what
 * they were, so no other key moves, and all come home when it is back. Such a look-up is not noted: it lasts a while,
 * and an outage may cost the time.
 *
 * Weights that are not alike (--members) make the numbers other than random ones: see drawn(). Where they are, nothing
 * changes by it.
 *
 * Rejected: a ring with virtual nodes, and Maglev's table. Both have to be built, in 50 ms or more for a thousand
 * servers, and Maglev's moves keys of servers that stay. Weights for each key, vectorised: 256 servers still cost as
 * much as the rest of the look-up. */
#include "kvclient/core/placement.h"

#include <math.h>
#include <stdlib.h>

static bool notes(struct kvc_place *p)
{
	if (!p->holder)
		p->holder = calloc((size_t)1 << KVC_PLACE_BITS, sizeof(*p->holder));
	return p->holder;
}

int kvc_place_init(struct kvc_place *p, unsigned n)
{
	*p = (struct kvc_place){.n = n, .seed = calloc(n, sizeof(*p->seed))};
	if (p->seed && (n <= KVC_PLACE_DIRECT || notes(p)))
		return 0;
	kvc_place_fini(p);
	return -KV_ENOMEM;
}

int kvc_place_weigh(struct kvc_place *p, const uint16_t *weight)
{
	unsigned same = 1;
	while (same < p->n && weight[same] == weight[0])
		same++;
	if (same >= p->n)
		return 0;
	p->weight = calloc(p->n, sizeof(*p->weight));
	if (!p->weight || !notes(p)) /* logarithms are too much work for each key */
		return -KV_ENOMEM;
	memcpy(p->weight, weight, p->n * sizeof(*p->weight));
	return 0;
}

void kvc_place_fini(struct kvc_place *p)
{
	free(p->seed);
	free(p->node);
	free(p->weight);
	free(p->holder);
	*p = (struct kvc_place){0};
}

uint64_t kvc_place_seed(const char *name)
{
	return kv_hash_key(name, strlen(name), 0);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

/* Where servers are not alike, each divides the logarithm of its random number in (0, 1) by its weight, and the largest
 * wins: so the shares of keys are those of the weights (weighted rendezvous hashing). */
static double drawn(const struct kvc_place *p, unsigned i, uint64_t random)
{
	return log(((double)random + 0.5) * 0x1p-64) / p->weight[i];
}

static bool beats(const struct kvc_place *p, unsigned i, uint64_t random, unsigned best, uint64_t best_random)
{
	if (KV_LIKELY(!p->weight))
		return random > best_random;
	return drawn(p, i, random) > drawn(p, best, best_random);
}

static unsigned heaviest(const struct kvc_place *p, uint64_t partition)
{
	uint64_t best_weight = 0;
	unsigned best = 0;
	for (unsigned i = 0; i < p->n; i++) {
		uint64_t weight = mix(partition ^ p->seed[i]);
		if (i == 0 || beats(p, i, weight, best, best_weight)) {
			best = i;
			best_weight = weight;
		}
	}
	return best;
}

static uint64_t partition_of(const void *key, size_t len)
{
	return kv_hash_key(key, len, 0) >> (64 - KVC_PLACE_BITS);
}

static unsigned node_of(const struct kvc_place *p, unsigned i)
{
	return p->node ? p->node[i] : i;
}

unsigned kvc_place_node(const struct kvc_place *p, const void *key, size_t len)
{
	uint64_t partition;
	unsigned noted;
	if (p->n == 1)
		return node_of(p, 0);
	partition = partition_of(key, len);
	if (!p->holder)
		return node_of(p, heaviest(p, partition));
	noted = atomic_load_explicit(&p->holder[partition], memory_order_relaxed);
	if (KV_UNLIKELY(noted == 0)) {
		noted = heaviest(p, partition) + 1;
		atomic_store_explicit(&p->holder[partition], (uint16_t)noted, memory_order_relaxed);
	}
	return node_of(p, noted - 1);
}

unsigned kvc_place_among(const struct kvc_place *p, const void *key, size_t len, const struct kvc_place_set *avoided)
{
	uint64_t partition = partition_of(key, len), best_weight = 0;
	unsigned best = p->n;
	for (unsigned i = 0; i < p->n; i++) {
		uint64_t weight;
		if (kvc_place_set_has(avoided, node_of(p, i)))
			continue;
		weight = mix(partition ^ p->seed[i]);
		if (best == p->n || beats(p, i, weight, best, best_weight)) {
			best = i;
			best_weight = weight;
		}
	}
	return best < p->n ? node_of(p, best) : kvc_place_node(p, key, len);
}
