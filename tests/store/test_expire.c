/* SPDX-License-Identifier: Apache-2.0 */
/* test_expire.c -- the wheel against an array of times. */
#include "tests/check.h"

#include "store/expire.h"

enum { NODES = 500, STEPS = 20000 };

#define SECOND 1000000000ull

static struct expire wheel;
static struct expire_node node[NODES];

static unsigned drain(uint64_t now)
{
	unsigned n = 0, budget = 1000000;
	struct expire_node *x;
	while ((x = expire_next(&wheel, now, &budget)) != NULL) {
		assert_true(x->when_ns <= now);
		x->when_ns = KV_NEVER;
		n++;
	}
	return n;
}

static void everything_is_found_within_a_second(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	uint64_t now = 77 * SECOND + 123;
	memset(node, 0, sizeof(node));
	for (unsigned i = 0; i < NODES; i++)
		node[i].when_ns = KV_NEVER;
	expire_init(&wheel, now);
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)kv_prng_below(&p, NODES);
		if (kv_prng_below(&p, 4))
			/* Up to three laps ahead; sometimes a time that is past already. */
			expire_set(&wheel, &node[i], now - 2 * SECOND + kv_prng_below(&p, 3 * EXPIRE_BUCKETS * SECOND));
		else
			expire_set(&wheel, &node[i], KV_NEVER);
		now += kv_prng_below(&p, 3 * SECOND);
		if (kv_prng_below(&p, 1000) == 0)
			now += 2 * EXPIRE_BUCKETS * SECOND;
		drain(now);
		for (unsigned j = 0; step % 16 == 0 && j < NODES; j++)
			assert_true(node[j].when_ns == KV_NEVER || node[j].when_ns + 4 * SECOND > now);
	}
}

static void a_budget_bounds_the_work(void **state)
{
	(void)state;
	unsigned budget = 10, found = 0;
	memset(node, 0, sizeof(node));
	expire_init(&wheel, 0);
	for (unsigned i = 0; i < NODES; i++)
		expire_set(&wheel, &node[i], SECOND / 2 + i);
	while (expire_next(&wheel, 5 * SECOND, &budget))
		found++;
	assert_int_equal(budget, 0);
	assert_in_range(found, 1, 10);
	assert_int_equal(wheel.count, NODES - found);
	budget = 10 * NODES;
	while (expire_next(&wheel, 5 * SECOND, &budget))
		found++;
	assert_int_equal(found, NODES);
}

static void a_block_that_shall_never_expire_leaves_the_wheel(void **state)
{
	(void)state;
	memset(node, 0, sizeof(node));
	expire_init(&wheel, 0);
	expire_set(&wheel, &node[0], 3 * SECOND);
	expire_set(&wheel, &node[1], 3 * SECOND);
	expire_set(&wheel, &node[0], KV_NEVER);
	assert_int_equal(drain(10 * SECOND), 1);
	assert_int_equal(wheel.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_found_within_a_second),
		cmocka_unit_test(a_budget_bounds_the_work),
		cmocka_unit_test(a_block_that_shall_never_expire_leaves_the_wheel),
	};
	return cmocka_run_group_tests_name("store/expire", tests, NULL, NULL);
}
