/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c -- which server holds a key: rendezvous hashing (highest random weight) of partitions.
 *
 * A key's hash names one of 2^18 partitions. Every server gets a weight for the partition, and the highest wins. The
 * weight is a strong mix of the partition's number and the server's seed: the finaliser of splitmix64, a bijection with
 * good avalanche. With many servers that is too much work for each key (256 servers: 2,000 instructions, a third of a
 * small GET). So the first look-up notes the winner of a partition, and later ones find it by one load. The note
 * depends on nothing but the seeds and never changes: two threads that compute it at once note the same, so a relaxed
 * store is enough. Notes are shared (notes.c), and carried over when the view changes (carry.c).
 *
 * The price of partitions is a little balance: with 16 servers shares differ by 0.8 %, with 256 by 3 % (the square root
 * of servers by partitions).
 *
 * A server that is down is avoided: its keys go to the server of the next highest weight that is not. Weights are what
 * they were, so no other key moves, and all come home when it is back. Such a look-up is not noted: it lasts a while,
 * and an outage may cost the time.
 *
 * Weights that are not alike (--members) make the numbers other than random ones: see drawn(). Where they are, nothing
 * changes by it. A logarithm takes as long as six servers otherwise, and few are computed: needed() says which numbers
 * are too small to win.
 *
 * Rejected: a ring with virtual nodes, and Maglev's table. Both have to be built, in 50 ms or more for a thousand
 * servers, and Maglev's moves keys of servers that stay. Weights for each key, vectorised: 256 servers still cost as
 * much as the rest of the look-up. */
#include "kvclient/core/placement.h"

#include <math.h>
#include <stdlib.h>

static bool notes(struct kvc_place *p)
{
	if (!p->notes)
		p->notes = kvc_notes_make();
	return p->notes;
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
	for (unsigned i = 1; i < p->n; i++)
		p->heavy = weight[i] > weight[p->heavy] ? i : p->heavy;
	return 0;
}

void kvc_place_fini(struct kvc_place *p)
{
	free(p->seed);
	free(p->node);
	free(p->weight);
	kvc_notes_drop(&p->notes);
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

/* The server that wins so far. */
struct best {
	unsigned i;      /* p->n: none */
	uint64_t random; /* its number ... */
	double drawn;    /* ... and, of servers that are not alike, what it is compared by */
	uint64_t least;  /* no server with a smaller number wins against it */
};

/* What the random number u of a server with this weight has to be, at least, or it does not win: log(u) is not above
 * u - 1. The margin is larger than all errors of rounding. */
static double needed(double drawn, unsigned weight)
{
	return 1 + drawn * weight - 1e-9;
}

/* Of equal numbers the lower index wins. */
static void best_try_weighed(const struct kvc_place *p, struct best *b, unsigned i, uint64_t random)
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

static inline void best_try(const struct kvc_place *p, struct best *b, uint64_t partition, unsigned i)
{
	uint64_t random = mix(partition ^ p->seed[i]);
	if (KV_LIKELY(random < b->least))
		return;
	if (p->weight)
		best_try_weighed(p, b, i, random);
	else if (b->i == p->n || random > b->random || i < b->i)
		*b = (struct best){.i = i, .random = random, .least = random};
}

static unsigned find_alike(const struct kvc_place *p, uint64_t partition)
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

unsigned kvc_place_find(const struct kvc_place *p, uint64_t partition)
{
	struct best b = {.i = p->n};
	if (KV_LIKELY(!p->weight))
		return find_alike(p, partition);
	best_try(p, &b, partition, p->heavy); /* it wins often: then the others have large numbers to beat */
	for (unsigned i = 0; i < p->n; i++)
		best_try(p, &b, partition, i);
	return b.i;
}

void kvc_place_note(struct kvc_place *p, uint64_t partition, unsigned best, const uint16_t *other, unsigned n)
{
	struct best b = {.i = p->n};
	best_try(p, &b, partition, best);
	for (unsigned i = 0; i < n; i++)
		best_try(p, &b, partition, other[i]);
	atomic_store_explicit(&p->notes->holder[partition], (uint16_t)(b.i + 1), memory_order_relaxed);
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
	if (!p->notes)
		return node_of(p, kvc_place_find(p, partition));
	noted = atomic_load_explicit(&p->notes->holder[partition], memory_order_relaxed);
	if (KV_UNLIKELY(noted == 0)) {
		noted = kvc_place_find(p, partition) + 1;
		atomic_store_explicit(&p->notes->holder[partition], (uint16_t)noted, memory_order_relaxed);
	}
	return node_of(p, noted - 1);
}

unsigned kvc_place_among(const struct kvc_place *p, const void *key, size_t len, const struct kvc_place_set *avoided)
{
	uint64_t partition = partition_of(key, len);
	struct best b = {.i = p->n};
	if (p->weight && !kvc_place_set_has(avoided, node_of(p, p->heavy)))
		best_try(p, &b, partition, p->heavy);
	for (unsigned i = 0; i < p->n; i++)
		if (!kvc_place_set_has(avoided, node_of(p, i)))
			best_try(p, &b, partition, i);
	return b.i < p->n ? node_of(p, b.i) : kvc_place_node(p, key, len);
}
