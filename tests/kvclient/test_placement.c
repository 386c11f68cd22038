/* SPDX-License-Identifier: Apache-2.0 */
/* test_placement.c -- which server and shard a key goes to: spread, stability, and agreement with the protocol. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kvclient/route/notes_carry.h"

enum { NODES = 5, MANY = 100, KEYS = 20000, SHARDS = 7 };

/* Of n nodes, from number `first` on, by steps of `step`; without the one whose number is `gone`. */
static void make(struct kc_place *p, unsigned n, int first, int step, int gone)
{
	unsigned at = 0, left = n - (gone >= 0);
	assert_int_equal(kc_place_init(p, left), 0);
	for (unsigned i = 0; i < n; i++, first += step) {
		char id[32];
		snprintf(id, sizeof(id), "node-%d", first);
		if (first != gone)
			p->seed[at++] = kc_place_seed(id);
	}
	assert_int_equal(at, left);
}

/* Within 5 standard deviations of a binomial: never by chance, and the keys are fixed. */
static void assert_even(const unsigned *count, unsigned n)
{
	double mean = (double)KEYS / n, bound = 25.0 * mean * (1.0 - 1.0 / n);
	for (unsigned i = 0; i < n; i++)
		assert_true((count[i] - mean) * (count[i] - mean) < bound);
}

static const unsigned sizes[] = {2, NODES, KC_PLACE_DIRECT, KC_PLACE_DIRECT + 1, MANY};

static void keys_spread_evenly_over_servers(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		unsigned count[MANY] = {0};
		struct kc_place p;
		make(&p, sizes[i], 0, 1, -1);
		for (uint32_t k = 0; k < KEYS; k++)
			count[kc_place_node(&p, &k, sizeof(k))]++;
		assert_even(count, sizes[i]);
		kc_place_fini(&p);
	}
}

/* A weight that rises takes keys from the others, in proportion, and no other key moves; alike they are as none. */
static void weights_share_the_keys(void **state)
{
	static const uint16_t weight[NODES] = {1, 1, 2, 3, 3}, more[NODES] = {1, 1, 2, 3, 13},
			      same[NODES] = {7, 7, 7, 7, 7};
	const unsigned sum[2] = {10, 20};
	struct kc_place_set last = {0};
	unsigned count[2][NODES] = {{0}}, stood_in[NODES] = {0};
	struct kc_place plain, alike, p[2];
	(void)state;
	make(&plain, NODES, 0, 1, -1);
	make(&alike, NODES, 0, 1, -1);
	make(&p[0], NODES, 0, 1, -1);
	make(&p[1], NODES, 0, 1, -1);
	assert_int_equal(kc_place_weigh(&alike, same), 0);
	assert_int_equal(kc_place_weigh(&p[0], weight), 0);
	assert_int_equal(kc_place_weigh(&p[1], more), 0);
	kc_place_set_put(&last, NODES - 1, true);
	for (uint32_t k = 0; k < KEYS; k++) {
		unsigned a = kc_place_node(&p[0], &k, sizeof(k)), b = kc_place_node(&p[1], &k, sizeof(k));
		assert_int_equal(kc_place_node(&plain, &k, sizeof(k)), kc_place_node(&alike, &k, sizeof(k)));
		assert_true(a == b || b == NODES - 1);
		count[0][a]++;
		count[1][b]++;
		stood_in[kc_place_among(&p[1], &k, sizeof(k), &last)]++;
		assert_true(b == NODES - 1 || kc_place_among(&p[1], &k, sizeof(k), &last) == b);
	}
	for (unsigned i = 0; i < NODES; i++)
		for (unsigned w = 0; w < 2; w++) {
			double share = (double)(w ? more : weight)[i] / sum[w], mean = KEYS * share;
			double off = (double)count[w][i] - mean;
			assert_true(off * off < 25.0 * mean * (1.0 - share));
		}
	/* While the heavy one is away its keys go to the others by their weights: 1, 1, 2, 3 of 7. */
	assert_int_equal(stood_in[NODES - 1], 0);
	assert_true(fabs(stood_in[3] - KEYS * 3.0 / 7) < 5 * sqrt(KEYS * 12.0 / 49));
	for (unsigned w = 0; w < 2; w++)
		kc_place_fini(&p[w]);
	kc_place_fini(&plain);
	kc_place_fini(&alike);
}

/* Also where so few are left that they are compared for each key. */
static void a_server_that_leaves_moves_only_its_own_keys(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		unsigned n = sizes[i];
		struct kc_place p, fewer;
		make(&p, n, 0, 1, -1);
		for (unsigned gone = 0; gone < n; gone += n / 2) {
			make(&fewer, n, 0, 1, (int)gone);
			for (uint32_t k = 0; k < KEYS; k++) {
				unsigned before = kc_place_node(&p, &k, sizeof(k));
				if (before != gone)
					assert_int_equal(fewer.seed[kc_place_node(&fewer, &k, sizeof(k))],
							 p.seed[before]);
			}
			kc_place_fini(&fewer);
		}
		kc_place_fini(&p);
	}
}

/* With any set of servers avoided: as if they were not in the list, however many; the order of the list has no say. */
static void avoided_servers_are_as_if_they_were_not_there(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		unsigned n = sizes[i];
		struct kc_place p, turned;
		struct kc_place_set avoided = {{0}, 0}, mirrored = {{0}, 0};
		make(&p, n, 0, 1, -1);
		make(&turned, n, (int)n - 1, -1, -1);
		for (unsigned round = 0; round < 6; round++) {
			for (unsigned s = 0; s < n; s++) {
				bool in = round == 0   ? false
					  : round == 5 ? true
						       : kv_hash_key(&s, sizeof(s), round) % 3 < 2;
				kc_place_set_put(&avoided, s, in);
				kc_place_set_put(&mirrored, n - 1 - s, in);
			}
			assert_int_equal(avoided.count, mirrored.count);
			for (uint32_t k = 0; k < KEYS / 100; k++) {
				unsigned owner = kc_place_node(&p, &k, sizeof(k));
				unsigned at = kc_place_among(&p, &k, sizeof(k), &avoided);
				struct kc_place_set but = avoided;
				assert_true(avoided.count == n || !kc_place_set_has(&avoided, at));
				if (avoided.count == n || !kc_place_set_has(&avoided, owner))
					assert_int_equal(at, owner);
				assert_int_equal(p.seed[at],
						 turned.seed[kc_place_among(&turned, &k, sizeof(k), &mirrored)]);
				/* One more that is avoided moves nothing that is not its own. */
				kc_place_set_put(&but, (at + 1) % n, true);
				if (but.count < n)
					assert_int_equal(kc_place_among(&p, &k, sizeof(k), &but), at);
			}
		}
		kc_place_fini(&p);
		kc_place_fini(&turned);
	}
}

static void the_order_of_the_list_does_not_matter(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		struct kc_place p, turned;
		make(&p, sizes[i], 0, 1, -1);
		make(&turned, sizes[i], (int)sizes[i] - 1, -1, -1);
		for (uint32_t k = 0; k < KEYS; k++)
			assert_int_equal(turned.seed[kc_place_node(&turned, &k, sizeof(k))],
					 p.seed[kc_place_node(&p, &k, sizeof(k))]);
		kc_place_fini(&p);
		kc_place_fini(&turned);
	}
}

/* What was noted is what would be found again, for each partition. */
static void what_is_noted_is_right(void **state)
{
	struct kc_place p, again;
	unsigned noted = 0;
	(void)state;
	make(&p, MANY, 0, 1, -1);
	make(&again, MANY, 0, 1, -1);
	for (uint32_t k = 0; k < KEYS; k++) {
		unsigned first = kc_place_node(&p, &k, sizeof(k));
		assert_int_equal(kc_place_node(&p, &k, sizeof(k)), first);
		memset(again.notes->holder, 0,
		       ((size_t)1 << KC_PLACE_BITS) * sizeof(*again.notes->holder) / 1024 *
			       (k % 64 == 0)); /* some are asked anew */
		assert_int_equal(kc_place_node(&again, &k, sizeof(k)), first);
	}
	for (unsigned i = 0; i < 1u << KC_PLACE_BITS; i++)
		noted += p.notes->holder[i] != 0;
	assert_in_range(noted, KEYS / 2, KEYS);
	kc_place_fini(&p);
	kc_place_fini(&again);
}

/* ---- the quick ways are the slow one ---- */

static unsigned logs;

/* Counted: placement.c calls this one. */
double log(double x)
{
	logs++;
	return (double)logl(x);
}

static uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

/* As docs/reference/protocol.md has it: of all servers, one after the other. */
static unsigned slow_find(const struct kc_place *p, uint64_t partition, const struct kc_place_set *without)
{
	double most = 0;
	uint64_t largest = 0;
	unsigned best = p->n;
	for (unsigned i = 0; i < p->n; i++) {
		uint64_t random = mixed(partition ^ p->seed[i]);
		double own = p->weight ? log(((double)random + 0.5) * 0x1p-64) / p->weight[i] : 0;
		if (kc_place_set_has(without, i) || (best < p->n && (p->weight ? own <= most : random <= largest)))
			continue;
		best = i;
		most = own;
		largest = random;
	}
	return best;
}

/* How weights are spread. */
enum spread { ALIKE, SMALL, WIDE, ONE, SPREADS };

static unsigned weight_of(struct kv_prng *rng, enum spread spread, unsigned i)
{
	switch (spread) {
	case SMALL:
		return 1 + (unsigned)kv_prng_below(rng, 3);
	case WIDE:
		return 1 + (unsigned)kv_prng_below(rng, UINT64_C(1) << kv_prng_below(rng, 17)) % UINT16_MAX;
	case ONE:
		return i == 7 ? UINT16_MAX : 1;
	default:
		return 5;
	}
}

static void random_make(struct kc_place *p, struct kv_prng *rng, unsigned n, enum spread spread)
{
	uint16_t weight[KC_PLACE_MAX];
	assert_int_equal(kc_place_init(p, n), 0);
	for (unsigned i = 0; i < n; i++) {
		p->seed[i] = kv_prng_next(rng);
		weight[i] = (uint16_t)weight_of(rng, spread, i);
	}
	assert_int_equal(kc_place_weigh(p, weight), 0);
}

static struct kv_prng rng_make(void)
{
	const char *text = getenv("KVRAIL_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 30;
	struct kv_prng rng;
	print_message("seed %llu\n", (unsigned long long)seed);
	kv_prng_seed(&rng, seed);
	return rng;
}

/* For a key of this partition, too. */
static void partition_check(const struct kc_place *p, uint64_t partition)
{
	const struct kc_place_set none = {0};
	assert_int_equal(kc_place_find(p, partition), slow_find(p, partition, &none));
}

static void what_is_found_quickly_is_found_slowly(void **state)
{
	static const struct {
		unsigned n, step; /* each step-th partition */
	} tries[] = {{2, 1}, {9, 1}, {30, 16}, {300, 256}, {1000, 1024}};
	struct kv_prng rng = rng_make();
	(void)state;
	for (unsigned t = 0; t < KV_COUNT(tries); t++)
		for (unsigned spread = 0; spread < SPREADS; spread++) {
			struct kc_place_set without = {0};
			struct kc_place p;
			random_make(&p, &rng, tries[t].n, spread);
			for (uint64_t i = kv_prng_below(&rng, tries[t].step); i < KC_PLACE_PARTITIONS;
			     i += tries[t].step)
				partition_check(&p, i);
			for (unsigned i = 0; i < p.n; i++)
				kc_place_set_put(&without, i, without.count + 1 < p.n && kv_prng_below(&rng, 2));
			for (uint32_t k = 0; k < KEYS / tries[t].n; k++)
				assert_int_equal(
					kc_place_among(&p, &k, sizeof(k), &without),
					slow_find(&p, kv_hash_key(&k, sizeof(k), 0) >> (64 - KC_PLACE_BITS), &without));
			kc_place_fini(&p);
		}
}

/* With a thousand servers. Each one took two. */
static void few_logarithms_are_computed(void **state)
{
	enum { LOOKS = 2000, LOGS = 20 };
	struct kv_prng rng = rng_make();
	(void)state;
	for (unsigned spread = SMALL; spread < SPREADS; spread++) {
		struct kc_place p;
		random_make(&p, &rng, 1000, spread);
		logs = 0;
		for (uint64_t i = 0; i < LOOKS; i++)
			(void)kc_place_find(&p, i * 100);
		if (logs == 0 || logs > LOOKS * LOGS)
			fail_msg("weights of kind %u: %u logarithms for %u look-ups", spread, logs, LOOKS);
		kc_place_fini(&p);
	}
}

/* ---- notes that are shared and carried over ---- */

/* Another view: some servers have gone, some have come or have another weight, and the order is another. */
static void next_make(struct kc_place *to, const struct kc_place *from, struct kv_prng *rng)
{
	enum spread spread = from->weight ? WIDE : ALIKE;
	uint16_t weight[KC_PLACE_MAX];
	unsigned n = 0, come = (unsigned)kv_prng_below(rng, 4), turn = (unsigned)kv_prng_below(rng, from->n);
	uint64_t seed[KC_PLACE_MAX];
	for (unsigned k = 0; k < from->n; k++) {
		unsigned i = (k + turn) % from->n;
		if (kv_prng_below(rng, 20) == 0)
			continue;
		seed[n] = from->seed[i];
		weight[n] =
			from->weight && kv_prng_below(rng, 20) ? from->weight[i] : (uint16_t)weight_of(rng, spread, i);
		n++;
	}
	for (; come > 0 || n < 10; come -= come > 0, n++) {
		seed[n] = kv_prng_next(rng);
		weight[n] = (uint16_t)weight_of(rng, spread, n);
	}
	assert_int_equal(kc_place_init(to, n), 0);
	memcpy(to->seed, seed, n * sizeof(*seed));
	assert_int_equal(kc_place_weigh(to, weight), 0);
}

static unsigned noted(const struct kc_place *p, bool check)
{
	const struct kc_place_set none = {0};
	unsigned n = 0;
	for (unsigned i = 0; i < KC_PLACE_PARTITIONS; i++) {
		unsigned holder = p->notes->holder[i];
		n += holder != 0;
		if (check && holder && holder - 1 != (i % 16 ? kc_place_find(p, i) : slow_find(p, i, &none)))
			fail_msg("partition %u is noted as of server %u of %u", i, holder - 1, p->n);
	}
	return n;
}

static void all_note(struct kc_place *p)
{
	for (unsigned i = 0; i < KC_PLACE_PARTITIONS; i++)
		p->notes->holder[i] = (uint16_t)(kc_place_find(p, i) + 1);
}

static void what_is_carried_over_is_right(void **state)
{
	struct kv_prng rng = rng_make();
	(void)state;
	for (unsigned round = 0; round < 6; round++) {
		struct kc_place p, next;
		struct kc_carry carry;
		unsigned steps, before, after;
		random_make(&p, &rng, 10 + (unsigned)kv_prng_below(&rng, 30), round % 2 ? SMALL : ALIKE);
		all_note(&p);
		for (unsigned view = 0; view < 3; view++) {
			next_make(&next, &p, &rng);
			kc_carry_begin(&carry, &p, &next);
			if (!carry.from) /* weights have come, or gone */
				assert_true(!p.weight != !next.weight);
			before = noted(&p, false);
			for (steps = 1; kc_carry_step(&carry, &next); steps++)
				assert_in_range(steps, 1,
						(uint64_t)KC_PLACE_PARTITIONS * (2 + carry.num_other) / KC_CARRY_STEP);
			after = noted(&next, true);
			/* What servers had that have left is not; they may have had much by their weights. */
			if (carry.from && !p.weight)
				assert_in_range(after, before / 2, before);
			kc_carry_end(&carry);
			kc_place_fini(&p);
			p = next;
		}
		kc_place_fini(&p);
	}
}

/* One server joins a thousand: nearly all is carried over, in turns of a bounded length. */
static void a_join_leaves_nearly_all_notes(void **state)
{
	enum { MOST = 1000, NOTED = 20000 };
	struct kv_prng rng = rng_make();
	struct kc_place p, next;
	struct kc_carry carry;
	uint16_t weight[MOST + 1];
	unsigned steps = 1;
	(void)state;
	random_make(&p, &rng, MOST, SMALL);
	assert_int_equal(kc_place_init(&next, MOST + 1), 0);
	memcpy(next.seed, p.seed, MOST * sizeof(*p.seed));
	memcpy(weight, p.weight, MOST * sizeof(*weight));
	next.seed[MOST] = kv_prng_next(&rng);
	weight[MOST] = 2;
	assert_int_equal(kc_place_weigh(&next, weight), 0);
	for (unsigned i = 0; i < NOTED; i++)
		p.notes->holder[i * 13] = (uint16_t)(kc_place_find(&p, i * 13) + 1);
	kc_carry_begin(&carry, &p, &next);
	while (kc_carry_step(&carry, &next))
		steps++;
	assert_int_equal(steps, KC_PLACE_PARTITIONS / (KC_CARRY_STEP / 2));
	assert_int_equal(noted(&next, false), NOTED);
	for (unsigned i = 0; i < NOTED; i++)
		assert_int_equal(next.notes->holder[i * 13], kc_place_find(&next, i * 13) + 1);
	kc_carry_end(&carry);
	kc_place_fini(&p);
	kc_place_fini(&next);
}

static void placements_that_are_the_same_share_notes(void **state)
{
	struct kv_prng rng = rng_make();
	struct kc_notes_home home;
	struct kc_place p[4];
	const struct kc_notes *first;
	(void)state;
	kc_notes_home_init(&home);
	for (unsigned i = 0; i < KV_COUNT(p); i++)
		random_make(&p[i], &rng, 20, SMALL);
	for (unsigned i = 1; i < KV_COUNT(p); i++)
		memcpy(p[i].seed, p[0].seed, 20 * sizeof(*p->seed));
	for (unsigned i = 1; i < 3; i++)
		memcpy(p[i].weight, p[0].weight, 20 * sizeof(*p->weight));
	p[2].seed[19]++;
	p[3].weight[0] = p[0].weight[0] + 1;
	first = p[0].notes;
	assert_false(kc_notes_share(&p[0], &home));
	assert_true(kc_notes_share(&p[1], &home));
	assert_false(kc_notes_share(&p[2], &home));
	assert_false(kc_notes_share(&p[3], &home));
	assert_ptr_equal(p[1].notes, first);
	assert_ptr_not_equal(p[2].notes, first);
	assert_ptr_not_equal(p[3].notes, first);
	kc_place_fini(&p[0]);
	all_note(&p[1]);
	assert_int_equal(noted(&p[1], false), KC_PLACE_PARTITIONS);
	for (unsigned i = 1; i < KV_COUNT(p); i++)
		kc_place_fini(&p[i]);
	assert_true(kv_list_empty(&home.all));
	kc_notes_home_fini(&home);
}

/* The figure is the protocol's: another client of the same list has to find the same server. */
static void the_formula_is_the_protocols(void **state)
{
	static const unsigned expected[] = {1, 2, 4, 2, 4, 1, 3, 2, 0, 3, 2, 4, 3, 1, 2, 0};
	struct kc_place p;
	(void)state;
	make(&p, NODES, 0, 1, -1);
	for (uint32_t k = 0; k < KV_COUNT(expected); k++)
		assert_int_equal(kc_place_node(&p, &k, sizeof(k)), expected[k]);
	kc_place_fini(&p);
}

static void the_same_server_twice_is_the_first(void **state)
{
	struct kc_place p;
	(void)state;
	assert_int_equal(kc_place_init(&p, 2), 0);
	p.seed[0] = p.seed[1] = kc_place_seed("a");
	for (uint32_t k = 0; k < 100; k++)
		assert_int_equal(kc_place_node(&p, &k, sizeof(k)), 0);
	kc_place_fini(&p);
}

static void shards_are_even_and_follow_the_formula_of_the_protocol(void **state)
{
	unsigned count[SHARDS] = {0};
	(void)state;
	for (uint32_t k = 0; k < KEYS; k++) {
		uint64_t hash = kv_hash_key(&k, sizeof(k), 42);
		unsigned shard = kc_place_shard(42, SHARDS, &k, sizeof(k));
		assert_int_equal(shard, (hash >> 32) * SHARDS >> 32);
		count[shard]++;
	}
	assert_even(count, SHARDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_spread_evenly_over_servers),
		cmocka_unit_test(weights_share_the_keys),
		cmocka_unit_test(a_server_that_leaves_moves_only_its_own_keys),
		cmocka_unit_test(avoided_servers_are_as_if_they_were_not_there),
		cmocka_unit_test(the_order_of_the_list_does_not_matter),
		cmocka_unit_test(what_is_noted_is_right),
		cmocka_unit_test(what_is_found_quickly_is_found_slowly),
		cmocka_unit_test(few_logarithms_are_computed),
		cmocka_unit_test(what_is_carried_over_is_right),
		cmocka_unit_test(a_join_leaves_nearly_all_notes),
		cmocka_unit_test(placements_that_are_the_same_share_notes),
		cmocka_unit_test(the_formula_is_the_protocols),
		cmocka_unit_test(the_same_server_twice_is_the_first),
		cmocka_unit_test(shards_are_even_and_follow_the_formula_of_the_protocol),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
