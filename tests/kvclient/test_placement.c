/* SPDX-License-Identifier: Apache-2.0 */
/* test_placement.c -- which server and shard a key goes to: spread, stability, and agreement with the protocol. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "kvclient/core/placement.h"

enum { NODES = 5, MANY = 100, KEYS = 20000, SHARDS = 7 };

/* Of n nodes, from number `first` on, by steps of `step`; without the one whose number is `gone`. */
static void make(struct kvc_place *p, unsigned n, int first, int step, int gone)
{
	unsigned at = 0, left = n - (gone >= 0);
	assert_int_equal(kvc_place_init(p, left), 0);
	for (unsigned i = 0; i < n; i++, first += step) {
		char id[32];
		snprintf(id, sizeof(id), "node-%d", first);
		if (first != gone)
			p->seed[at++] = kvc_place_seed(id);
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

static const unsigned sizes[] = {2, NODES, KVC_PLACE_DIRECT, KVC_PLACE_DIRECT + 1, MANY};

static void keys_spread_evenly_over_servers(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		unsigned count[MANY] = {0};
		struct kvc_place p;
		make(&p, sizes[i], 0, 1, -1);
		for (uint32_t k = 0; k < KEYS; k++)
			count[kvc_place_node(&p, &k, sizeof(k))]++;
		assert_even(count, sizes[i]);
		kvc_place_fini(&p);
	}
}

/* A weight that rises takes keys from the others, in proportion, and no other key moves; alike they are as none. */
static void weights_share_the_keys(void **state)
{
	static const uint16_t weight[NODES] = {1, 1, 2, 3, 3}, more[NODES] = {1, 1, 2, 3, 13},
			      same[NODES] = {7, 7, 7, 7, 7};
	const unsigned sum[2] = {10, 20};
	struct kvc_place_set last = {0};
	unsigned count[2][NODES] = {{0}}, stood_in[NODES] = {0};
	struct kvc_place plain, alike, p[2];
	(void)state;
	make(&plain, NODES, 0, 1, -1);
	make(&alike, NODES, 0, 1, -1);
	make(&p[0], NODES, 0, 1, -1);
	make(&p[1], NODES, 0, 1, -1);
	assert_int_equal(kvc_place_weigh(&alike, same), 0);
	assert_int_equal(kvc_place_weigh(&p[0], weight), 0);
	assert_int_equal(kvc_place_weigh(&p[1], more), 0);
	kvc_place_set_put(&last, NODES - 1, true);
	for (uint32_t k = 0; k < KEYS; k++) {
		unsigned a = kvc_place_node(&p[0], &k, sizeof(k)), b = kvc_place_node(&p[1], &k, sizeof(k));
		assert_int_equal(kvc_place_node(&plain, &k, sizeof(k)), kvc_place_node(&alike, &k, sizeof(k)));
		assert_true(a == b || b == NODES - 1);
		count[0][a]++;
		count[1][b]++;
		stood_in[kvc_place_among(&p[1], &k, sizeof(k), &last)]++;
		assert_true(b == NODES - 1 || kvc_place_among(&p[1], &k, sizeof(k), &last) == b);
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
		kvc_place_fini(&p[w]);
	kvc_place_fini(&plain);
	kvc_place_fini(&alike);
}

/* Also where so few are left that they are compared for each key. */
static void a_server_that_leaves_moves_only_its_own_keys(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		unsigned n = sizes[i];
		struct kvc_place p, fewer;
		make(&p, n, 0, 1, -1);
		for (unsigned gone = 0; gone < n; gone += n / 2) {
			make(&fewer, n, 0, 1, (int)gone);
			for (uint32_t k = 0; k < KEYS; k++) {
				unsigned before = kvc_place_node(&p, &k, sizeof(k));
				if (before != gone)
					assert_int_equal(fewer.seed[kvc_place_node(&fewer, &k, sizeof(k))],
							 p.seed[before]);
			}
			kvc_place_fini(&fewer);
		}
		kvc_place_fini(&p);
	}
}

/* With any set of servers avoided: as if they were not in the list, however many; the order of the list has no say. */
static void avoided_servers_are_as_if_they_were_not_there(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		unsigned n = sizes[i];
		struct kvc_place p, turned;
		struct kvc_place_set avoided = {{0}, 0}, mirrored = {{0}, 0};
		make(&p, n, 0, 1, -1);
		make(&turned, n, (int)n - 1, -1, -1);
		for (unsigned round = 0; round < 6; round++) {
			for (unsigned s = 0; s < n; s++) {
				bool in = round == 0   ? false
					  : round == 5 ? true
						       : kv_hash_key(&s, sizeof(s), round) % 3 < 2;
				kvc_place_set_put(&avoided, s, in);
				kvc_place_set_put(&mirrored, n - 1 - s, in);
			}
			assert_int_equal(avoided.count, mirrored.count);
			for (uint32_t k = 0; k < KEYS / 100; k++) {
				unsigned owner = kvc_place_node(&p, &k, sizeof(k));
				unsigned at = kvc_place_among(&p, &k, sizeof(k), &avoided);
				struct kvc_place_set but = avoided;
				assert_true(avoided.count == n || !kvc_place_set_has(&avoided, at));
				if (avoided.count == n || !kvc_place_set_has(&avoided, owner))
					assert_int_equal(at, owner);
				assert_int_equal(p.seed[at],
						 turned.seed[kvc_place_among(&turned, &k, sizeof(k), &mirrored)]);
				/* One more that is avoided moves nothing that is not its own. */
				kvc_place_set_put(&but, (at + 1) % n, true);
				if (but.count < n)
					assert_int_equal(kvc_place_among(&p, &k, sizeof(k), &but), at);
			}
		}
		kvc_place_fini(&p);
		kvc_place_fini(&turned);
	}
}

static void the_order_of_the_list_does_not_matter(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		struct kvc_place p, turned;
		make(&p, sizes[i], 0, 1, -1);
		make(&turned, sizes[i], (int)sizes[i] - 1, -1, -1);
		for (uint32_t k = 0; k < KEYS; k++)
			assert_int_equal(turned.seed[kvc_place_node(&turned, &k, sizeof(k))],
					 p.seed[kvc_place_node(&p, &k, sizeof(k))]);
		kvc_place_fini(&p);
		kvc_place_fini(&turned);
	}
}

/* What was noted is what would be found again, for each partition. */
static void what_is_noted_is_right(void **state)
{
	struct kvc_place p, again;
	unsigned noted = 0;
	(void)state;
	make(&p, MANY, 0, 1, -1);
	make(&again, MANY, 0, 1, -1);
	for (uint32_t k = 0; k < KEYS; k++) {
		unsigned first = kvc_place_node(&p, &k, sizeof(k));
		assert_int_equal(kvc_place_node(&p, &k, sizeof(k)), first);
		memset(again.holder, 0,
		       ((size_t)1 << KVC_PLACE_BITS) * sizeof(*again.holder) / 1024 *
			       (k % 64 == 0)); /* some are asked anew */
		assert_int_equal(kvc_place_node(&again, &k, sizeof(k)), first);
	}
	for (unsigned i = 0; i < 1u << KVC_PLACE_BITS; i++)
		noted += p.holder[i] != 0;
	assert_in_range(noted, KEYS / 2, KEYS);
	kvc_place_fini(&p);
	kvc_place_fini(&again);
}

/* The figure is the protocol's: another client of the same list has to find the same server. */
static void the_formula_is_the_protocols(void **state)
{
	static const unsigned expected[] = {1, 2, 4, 2, 4, 1, 3, 2, 0, 3, 2, 4, 3, 1, 2, 0};
	struct kvc_place p;
	(void)state;
	make(&p, NODES, 0, 1, -1);
	for (uint32_t k = 0; k < KV_COUNT(expected); k++)
		assert_int_equal(kvc_place_node(&p, &k, sizeof(k)), expected[k]);
	kvc_place_fini(&p);
}

static void the_same_server_twice_is_the_first(void **state)
{
	struct kvc_place p;
	(void)state;
	assert_int_equal(kvc_place_init(&p, 2), 0);
	p.seed[0] = p.seed[1] = kvc_place_seed("a");
	for (uint32_t k = 0; k < 100; k++)
		assert_int_equal(kvc_place_node(&p, &k, sizeof(k)), 0);
	kvc_place_fini(&p);
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
		cmocka_unit_test(weights_share_the_keys),
		cmocka_unit_test(a_server_that_leaves_moves_only_its_own_keys),
		cmocka_unit_test(avoided_servers_are_as_if_they_were_not_there),
		cmocka_unit_test(the_order_of_the_list_does_not_matter),
		cmocka_unit_test(what_is_noted_is_right),
		cmocka_unit_test(the_formula_is_the_protocols),
		cmocka_unit_test(the_same_server_twice_is_the_first),
		cmocka_unit_test(shards_are_even_and_follow_the_formula_of_the_protocol),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
