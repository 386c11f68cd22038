/* SPDX-License-Identifier: Apache-2.0 */
/* test_place.c -- which server and shard a key goes to: spread, stability, and agreement with the protocol. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "kvclient/place.h"

enum { NODES = 5, KEYS = 20000, SHARDS = 7 };

static void seeds_make(uint64_t *seeds)
{
	for (unsigned i = 0; i < NODES; i++) {
		char id[32];
		snprintf(id, sizeof(id), "node-%u", i);
		seeds[i] = kvc_place_seed(id);
	}
}

/* Within 5 standard deviations of a binomial: never by chance, and the keys are fixed. */
static void assert_even(const unsigned *count, unsigned n)
{
	double mean = (double)KEYS / n, bound = 25.0 * mean * (1.0 - 1.0 / n);
	for (unsigned i = 0; i < n; i++)
		assert_true((count[i] - mean) * (count[i] - mean) < bound);
}

static void keys_spread_evenly_over_servers(void **state)
{
	unsigned count[NODES] = {0};
	uint64_t seeds[NODES];
	(void)state;
	seeds_make(seeds);
	for (uint32_t k = 0; k < KEYS; k++)
		count[kvc_place_node(seeds, NODES, &k, sizeof(k))]++;
	assert_even(count, NODES);
}

static void a_server_that_leaves_moves_only_its_own_keys(void **state)
{
	uint64_t seeds[NODES], fewer[NODES - 1];
	(void)state;
	seeds_make(seeds);
	for (unsigned gone = 0; gone < NODES; gone++) {
		unsigned n = 0;
		for (unsigned i = 0; i < NODES; i++)
			if (i != gone)
				fewer[n++] = seeds[i];
		for (uint32_t k = 0; k < KEYS; k++) {
			unsigned before = kvc_place_node(seeds, NODES, &k, sizeof(k));
			if (before != gone)
				assert_int_equal(fewer[kvc_place_node(fewer, n, &k, sizeof(k))], seeds[before]);
		}
	}
}

static void the_order_of_the_list_does_not_matter(void **state)
{
	uint64_t seeds[NODES], turned[NODES];
	(void)state;
	seeds_make(seeds);
	for (unsigned i = 0; i < NODES; i++)
		turned[i] = seeds[NODES - 1 - i];
	for (uint32_t k = 0; k < KEYS; k++)
		assert_int_equal(turned[kvc_place_node(turned, NODES, &k, sizeof(k))],
				 seeds[kvc_place_node(seeds, NODES, &k, sizeof(k))]);
}

static void the_same_server_twice_is_the_first(void **state)
{
	uint64_t seeds[2] = {kvc_place_seed("a"), kvc_place_seed("a")};
	(void)state;
	for (uint32_t k = 0; k < 100; k++)
		assert_int_equal(kvc_place_node(seeds, 2, &k, sizeof(k)), 0);
}

static void shards_are_even_and_follow_the_formula_of_the_protocol(void **state)
{
	unsigned count[SHARDS] = {0};
	(void)state;
	for (uint32_t k = 0; k < KEYS; k++) {
		uint64_t hash = kv_hash_key(&k, sizeof(k), 42);
		unsigned shard = kvc_place_shard(42, SHARDS, &k, sizeof(k));
		assert_int_equal(shard, (hash >> 32) * SHARDS >> 32);
		count[shard]++;
	}
	assert_even(count, SHARDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_spread_evenly_over_servers),
		cmocka_unit_test(a_server_that_leaves_moves_only_its_own_keys),
		cmocka_unit_test(the_order_of_the_list_does_not_matter),
		cmocka_unit_test(the_same_server_twice_is_the_first),
		cmocka_unit_test(shards_are_even_and_follow_the_formula_of_the_protocol),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
