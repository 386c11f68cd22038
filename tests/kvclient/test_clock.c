/* SPDX-License-Identifier: Apache-2.0 */
/* test_clock.c -- what a client makes of a server's clock is never later than that clock. */
#include "tests/check.h"

#include "kvclient/core/clock.h"

#define MS     1000000ull
#define SECOND 1000000000ull

/* A server's clock that runs faster or slower by up to half of what is allowed for, and messages that take their time.
 */
static void no_time_is_too_late(void **state)
{
	struct kv_prng p = check_seed();
	(void)state;
	for (unsigned run = 0; run < 200; run++) {
		struct kc_clock k = {0};
		uint64_t zero = 1 + kv_prng_below(&p, 1000 * SECOND), now = 100 * SECOND;
		double rate = 1 + ((double)kv_prng_below(&p, 2000) - 1000) / 2000000;
		assert_int_equal(kc_clock_at(&k, now), 1);
		for (unsigned i = 0; i < 100; i++) {
			uint64_t sent = zero + (uint64_t)((double)now * rate), at;
			now += kv_prng_below(&p, 50 * MS); /* on its way */
			kc_clock_take(&k, sent, now);
			now += kv_prng_below(&p, 10 * SECOND);
			at = now - KV_MIN(kv_prng_below(&p, 20 * SECOND), now - SECOND);
			assert_true(kc_clock_at(&k, at) <= zero + (uint64_t)((double)at * rate) + 1);
			/* nor much too early */
			assert_true(kc_clock_at(&k, now) + 150 * MS > zero + (uint64_t)((double)now * rate));
		}
	}
}

/* What the server said is true of the time when it came, to the nanosecond: a PUT after a DELETE is later. */
static void the_last_word_counts_for_what_follows(void **state)
{
	struct kc_clock k = {0};
	(void)state;
	kc_clock_take(&k, 5000, 100 * SECOND);
	assert_int_equal(kc_clock_at(&k, 100 * SECOND), 5000);
	assert_true(kc_clock_at(&k, 100 * SECOND + 1) >= 5000);
	assert_true(kc_clock_at(&k, 100 * SECOND - 1000) <= 4000);
	assert_int_equal(kc_clock_at(&k, 1), 1);
}

/* A machine that was suspended is behind. */
static void a_clock_that_fell_behind_is_believed(void **state)
{
	struct kc_clock k = {0};
	(void)state;
	kc_clock_take(&k, 100 * SECOND, 100 * SECOND);
	kc_clock_take(&k, 101 * SECOND - 10 * MS, 101 * SECOND); /* a slow message */
	assert_true(kc_clock_at(&k, 101 * SECOND) > 101 * SECOND - 2 * MS);
	kc_clock_take(&k, 92 * SECOND, 102 * SECOND);
	assert_int_equal(kc_clock_at(&k, 102 * SECOND), 92 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_time_is_too_late),
		cmocka_unit_test(the_last_word_counts_for_what_follows),
		cmocka_unit_test(a_clock_that_fell_behind_is_believed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
