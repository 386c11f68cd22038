/* SPDX-License-Identifier: Apache-2.0 */
/* test_outage.c -- when an outage begins and ends, for one server and for one of two; deadlines. */
#include "kvbench/measure/outage.h"
#include "tests/kvbench/check.h"

#define MS      1000000ull
#define TIMEOUT (1000 * MS)

static struct bench_outages o;

static int set_up(void **state)
{
	(void)state;
	return bench_outages_init(&o, 10);
}

static int tear_down(void **state)
{
	(void)state;
	bench_outages_fini(&o);
	return 0;
}

static void call(uint64_t key, uint64_t from_ms, uint64_t to_ms, bool failed)
{
	bench_outages_call(&o, key, from_ms * MS, to_ms * MS, TIMEOUT, failed);
}

static void check_outage(unsigned i, uint64_t from_ms, uint64_t to_ms, uint64_t failed)
{
	assert_true(i < o.count);
	assert_int_equal(o.row[i].from_ns, from_ms * MS);
	assert_int_equal(o.row[i].to_ns, to_ms * MS);
	assert_int_equal(o.row[i].failed, failed);
}

static void calls_that_succeed_are_no_outage(void **state)
{
	(void)state;
	call(1, 1000, 1001, false);
	call(2, 1001, 1002, false);
	assert_int_equal(o.calls, 2);
	assert_int_equal(o.count, 0);
	assert_false(o.open);
}

static void an_outage_lasts_from_the_first_failure_to_the_first_success(void **state)
{
	(void)state;
	call(1, 1000, 1005, true);
	call(2, 1006, 1010, true);
	call(1, 1500, 1501, false);
	assert_int_equal(o.count, 1);
	check_outage(0, 1000, 1501, 2);
	assert_false(o.open);
}

/* As the PUTs of a mix are: each has a key of its own. */
static void a_call_whose_key_comes_never_again_is_only_counted(void **state)
{
	(void)state;
	call(1, 1000, 1005, true);
	bench_outages_count(&o, 1006 * MS, 1400 * MS, TIMEOUT);
	assert_true(o.open);
	assert_int_equal(o.now.failed, 1);
	assert_int_equal(o.calls, 2);
	assert_int_equal(o.longest_ns, 394 * MS);
	bench_outages_count(&o, 1000 * MS, 1000 * MS + TIMEOUT + BENCH_LATE_NS + MS, TIMEOUT);
	assert_int_equal(o.overdue, 1);
	call(1, 1500, 1501, false);
	check_outage(0, 1000, 1501, 1);
}

static void a_success_of_another_server_ends_nothing(void **state)
{
	(void)state;
	call(1, 1000, 1005, true);
	call(7, 1006, 1007, false); /* lives elsewhere */
	assert_true(o.open);
	call(1, 2000, 2001, false);
	check_outage(0, 1000, 2001, 1);
}

static void a_call_that_waited_is_an_outage(void **state)
{
	(void)state;
	call(3, 1000, 1199, false);
	assert_int_equal(o.count, 0);
	call(3, 2000, 2200, false);
	check_outage(0, 2000, 2200, 0);
}

static void what_began_before_the_end_opens_no_other(void **state)
{
	(void)state;
	call(1, 1000, 1005, true);
	call(2, 1004, 1600, false); /* waited it out */
	call(3, 1010, 1620, false);
	call(4, 1500, 1630, true);
	assert_int_equal(o.count, 1);
	assert_false(o.open);
	check_outage(0, 1000, 1600, 1);
}

static void the_longest_call_counts_from_its_start(void **state)
{
	(void)state;
	call(2, 1100, 1105, true);
	call(1, 1000, 1900, true); /* ended later, began earlier */
	call(2, 2000, 2001, false);
	check_outage(0, 1000, 2001, 2);
}

static void overdue_is_more_than_250_ms_past_the_deadline(void **state)
{
	(void)state;
	call(1, 1000, 2250, true);
	assert_int_equal(o.overdue, 0);
	bench_outages_call(&o, 1, 3000 * MS, 4250 * MS + 1, TIMEOUT, false);
	assert_int_equal(o.overdue, 1);
	assert_int_equal(o.longest_ns, 1250 * MS + 1);
}

static void more_outages_than_are_kept_are_counted(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < BENCH_OUTAGES_MAX + 5; i++) {
		call(1, 1000 + 10 * i, 1001 + 10 * i, true);
		call(1, 1002 + 10 * i, 1003 + 10 * i, false);
	}
	assert_int_equal(o.count, BENCH_OUTAGES_MAX + 5);
	check_outage(BENCH_OUTAGES_MAX - 1, 1000 + 10 * (BENCH_OUTAGES_MAX - 1), 1003 + 10 * (BENCH_OUTAGES_MAX - 1),
		     1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(calls_that_succeed_are_no_outage),
		TEST(an_outage_lasts_from_the_first_failure_to_the_first_success),
		TEST(a_call_whose_key_comes_never_again_is_only_counted),
		TEST(a_success_of_another_server_ends_nothing),
		TEST(a_call_that_waited_is_an_outage),
		TEST(what_began_before_the_end_opens_no_other),
		TEST(the_longest_call_counts_from_its_start),
		TEST(overdue_is_more_than_250_ms_past_the_deadline),
		TEST(more_outages_than_are_kept_are_counted),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
