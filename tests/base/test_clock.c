/* SPDX-License-Identifier: Apache-2.0 */
/* test_clock.c -- time does not go back, and deadlines do not wrap. */
#include "tests/check.h"

static void time_does_not_go_back(void **state)
{
	(void)state;
	uint64_t last = kv_clock_now(&kv_clock_monotonic);
	assert_true(last > 0);
	for (int i = 0; i < 10000; i++) {
		uint64_t now = kv_clock_now(&kv_clock_monotonic);
		assert_true(now >= last);
		last = now;
	}
}

static uint64_t seven(const struct kv_clock *clock)
{
	(void)clock;
	return 7;
}

static void a_simulation_can_own_time(void **state)
{
	(void)state;
	const struct kv_clock clock = {.now_ns = seven};
	assert_int_equal(kv_clock_now(&clock), 7);
}

static void deadlines_add_and_saturate(void **state)
{
	(void)state;
	assert_int_equal(kv_deadline(100, 23), 123);
	assert_int_equal(kv_deadline(100, 0), 100);
	assert_true(kv_deadline(0, KV_NEVER) == KV_NEVER);
	assert_true(kv_deadline(100, KV_NEVER) == KV_NEVER);
	assert_true(kv_deadline(100, KV_NEVER - 100) == KV_NEVER);
	assert_true(kv_deadline(100, KV_NEVER - 101) == KV_NEVER - 1);
	assert_true(kv_deadline(100, KV_NEVER - 99) == KV_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_does_not_go_back),
		cmocka_unit_test(a_simulation_can_own_time),
		cmocka_unit_test(deadlines_add_and_saturate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
