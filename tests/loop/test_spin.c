/* SPDX-License-Identifier: Apache-2.0 */
/* test_spin.c -- whether to look again or to sleep: numbers in, decisions out, no clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "loop/spin.h"

#define US    1000ull
#define LIMIT (20 * US)

static struct spin s;
static uint64_t now;

static int set_up(void **state)
{
	(void)state;
	spin_init(&s, LIMIT);
	now = 1000000 * US;
	return 0;
}

/* A rest of this length, looking once a microsecond while it may. Returns the number of yields. */
static int rest(uint64_t ns, bool blind)
{
	uint64_t end = now + ns;
	int yields = 0;
	while (now < end && spin_again(&s, now, blind)) {
		yields++;
		now += US;
	}
	now = KV_MAX(now, end);
	spin_found(&s, now);
	now += 10 * US; /* the work */
	return yields;
}

static void rests(int n, uint64_t ns)
{
	while (n-- > 0)
		rest(ns, false);
}

static void a_new_loop_sleeps(void **state)
{
	(void)state;
	assert_int_equal(rest(5 * US, false), 0);
}

static void short_rests_are_spun_after_a_few(void **state)
{
	(void)state;
	rests(SPIN_SCORE_ENOUGH / SPIN_SCORE_STEP, 5 * US);
	assert_int_equal(rest(5 * US, false), 5);
}

static void long_rests_are_slept_after_a_few(void **state)
{
	(void)state;
	rests(100, 5 * US);
	assert_int_equal(rest(1000 * US, false), LIMIT / US); /* the limit, and then asleep */
	rests(SPIN_SCORE_MAX / SPIN_SCORE_STEP, 1000 * US);
	assert_int_equal(rest(1000 * US, false), 0);
}

static void a_sleep_that_ends_soon_speaks_for_spinning(void **state)
{
	(void)state;
	rests(SPIN_SCORE_MAX, LIMIT + SPIN_WAKE_NS);
	assert_int_equal(rest(5 * US, false), 5);
	rests(SPIN_SCORE_MAX, LIMIT + SPIN_WAKE_NS + 1);
	assert_int_equal(rest(5 * US, false), 0);
}

static void what_cannot_wake_us_is_always_spun_for(void **state)
{
	(void)state;
	rests(100, 1000 * US);
	assert_int_equal(rest(1000 * US, true), LIMIT / US);
}

static void no_limit_is_no_spinning(void **state)
{
	(void)state;
	spin_init(&s, 0);
	rests(100, US);
	assert_int_equal(rest(US, false), 0);
	assert_int_equal(rest(US, true), 0);
}

/* Somebody else had the processor for a whole slice. */
static void yield_long(void)
{
	assert_true(spin_again(&s, now, false));
	now += SPIN_AWAY_NS;
	spin_found(&s, now);
}

static void a_long_yield_bans_spinning_for_a_while(void **state)
{
	(void)state;
	rests(100, 5 * US);
	yield_long();
	uint64_t ban_end = now + SPIN_PENALTY_MIN_NS;
	while (now < ban_end - 100 * US)
		assert_int_equal(rest(5 * US, false), 0);
	now = ban_end;
	assert_int_equal(rest(5 * US, false), 5);
}

static void bans_grow_while_yields_stay_long(void **state)
{
	uint64_t length = SPIN_PENALTY_MIN_NS;
	(void)state;
	rests(100, 5 * US);
	for (int i = 0; i < 10; i++) {
		yield_long();
		assert_int_equal(s.banned_ns - now, length);
		while (now < s.banned_ns)
			rest(5 * US, false);
		length = KV_MIN(2 * length, SPIN_PENALTY_MAX_NS);
	}
	now += SPIN_PENALTY_MAX_NS; /* peace for as long as the last ban */
	rests(100, 5 * US);
	yield_long();
	assert_int_equal(s.banned_ns - now, SPIN_PENALTY_MIN_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_new_loop_sleeps, set_up),
		cmocka_unit_test_setup(short_rests_are_spun_after_a_few, set_up),
		cmocka_unit_test_setup(long_rests_are_slept_after_a_few, set_up),
		cmocka_unit_test_setup(a_sleep_that_ends_soon_speaks_for_spinning, set_up),
		cmocka_unit_test_setup(what_cannot_wake_us_is_always_spun_for, set_up),
		cmocka_unit_test_setup(no_limit_is_no_spinning, set_up),
		cmocka_unit_test_setup(a_long_yield_bans_spinning_for_a_while, set_up),
		cmocka_unit_test_setup(bans_grow_while_yields_stay_long, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
