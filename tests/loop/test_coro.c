/* SPDX-License-Identifier: Apache-2.0 */
/* test_coro.c -- coroutines: order, waking, timeouts, queues, bounds. */
#include <stdio.h>
#include <stdlib.h>

#include "loop/sanitize.h"
#include "tests/loop/harness.h"

enum { MANY = KV_TSAN ? 2000 : 10000 }; /* ThreadSanitizer's fibers are few */

static int order[MANY], ordered;

static void note(void *arg)
{
	if (ordered < MANY)
		order[ordered++] = (int)(intptr_t)arg;
}

static void note_yield_note(void *arg)
{
	note(arg);
	CHECK(co_yield_await() == 0);
	note(arg);
}

static void ready_coroutines_run_in_order(void **state)
{
	struct loop *loop = harness_loop(NULL);
	(void)state;
	ordered = 0;
	for (intptr_t i = 0; i < 3; i++)
		harness_spawn(loop, note_yield_note, (void *)i);
	harness_run(loop);
	assert_int_equal(ordered, 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(order[i], i % 3);
	loop_destroy(&loop);
	assert_null(loop);
}

static struct co_queue gate;

static void wait_at_gate(void *arg)
{
	CHECK(co_queue_wait_await(&gate, KV_NEVER) == 0);
	note(arg);
}

static void open_gate(void *arg)
{
	(void)arg;
	CHECK(co_queue_wake_one(&gate));
	CHECK(co_yield_await() == 0);
	CHECK(ordered == 1);
	co_queue_wake_all(&gate);
	CHECK(co_queue_empty(&gate));
	CHECK(!co_queue_wake_one(&gate));
}

static void ten_thousand_wait_in_fifo_order(void **state)
{
	struct loop *loop = harness_loop(NULL);
	struct loop_stats stats;
	(void)state;
	ordered = 0;
	co_queue_init(&gate);
	for (intptr_t i = 0; i < MANY; i++)
		harness_spawn(loop, wait_at_gate, (void *)i);
	assert_int_equal(loop_turn(loop, 0), MANY);
	loop_stats(loop, &stats);
	assert_int_equal(stats.coroutines, MANY);
	assert_int_equal(stats.coroutines_peak, MANY);
	harness_spawn(loop, open_gate, NULL);
	harness_run(loop);
	assert_int_equal(ordered, MANY);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(order[i], i);
	loop_destroy(&loop);
}

static struct co *sleeper;
static int result;
static uint64_t woke_ns;

static void park_once(void *arg)
{
	sleeper = co_self();
	result = co_park_await(*(uint64_t *)arg);
	woke_ns = loop_now(loop_current());
}

static void park_times_out_at_its_deadline(void **state)
{
	struct loop *loop = harness_loop(NULL);
	uint64_t deadline = loop_now(loop) + 3 * MS;
	(void)state;
	harness_spawn(loop, park_once, &deadline);
	harness_run(loop);
	assert_int_equal(result, -KV_ETIMEOUT);
	assert_true(woke_ns >= deadline);
	loop_destroy(&loop);
}

static void wake_ends_a_park(void **state)
{
	struct loop *loop = harness_loop(NULL);
	uint64_t never = KV_NEVER;
	(void)state;
	harness_spawn(loop, park_once, &never);
	loop_turn(loop, 0);
	assert_int_equal(harness_live(loop), 1);
	co_wake(sleeper);
	co_wake(sleeper);
	harness_run(loop);
	assert_int_equal(result, 0);
	loop_destroy(&loop);
}

static void wake_self_then_park_twice(void *arg)
{
	(void)arg;
	co_wake(co_self());
	co_wake(co_self());
	CHECK(co_park_await(KV_NEVER) == 0);
	CHECK(co_park_await(loop_now(loop_current()) + MS) == -KV_ETIMEOUT);
}

static void one_wake_before_the_park_is_kept(void **state)
{
	struct loop *loop = harness_loop(NULL);
	(void)state;
	harness_spawn(loop, wake_self_then_park_twice, NULL);
	harness_run(loop);
	loop_destroy(&loop);
}

static void wake_sleeper(struct loop_timer *t)
{
	(void)t;
	co_wake(sleeper);
}

static void wake_beats_a_timeout_of_the_same_instant(void **state)
{
	/* The deadline was armed first and fires first; the wake comes before the coroutine has run. */
	struct loop *loop = harness_loop(NULL);
	uint64_t deadline = loop_now(loop) + 2 * MS;
	struct loop_timer timer = {.fire = wake_sleeper};
	(void)state;
	harness_spawn(loop, park_once, &deadline);
	loop_turn(loop, 0);
	loop_timer_arm(loop, &timer, deadline);
	harness_run(loop);
	assert_int_equal(result, 0);
	loop_destroy(&loop);
}

static void sleep_through_wakes(void *arg)
{
	uint64_t until = loop_now(loop_current()) + 2 * MS;
	(void)arg;
	sleeper = co_self();
	CHECK(co_sleep_await(until) == 0);
	CHECK(loop_now(loop_current()) >= until);
	CHECK(co_park_await(KV_NEVER) == 0); /* the wake was kept */
}

static void wake_does_not_end_a_sleep(void **state)
{
	struct loop *loop = harness_loop(NULL);
	(void)state;
	harness_spawn(loop, sleep_through_wakes, NULL);
	loop_turn(loop, 0);
	co_wake(sleeper);
	harness_run(loop);
	loop_destroy(&loop);
}

static void queue_times_out(void *arg)
{
	(void)arg;
	CHECK(co_queue_wait_await(&gate, loop_now(loop_current()) + MS) == -KV_ETIMEOUT);
	CHECK(co_queue_empty(&gate));
	CHECK(co_queue_wait_await(&gate, 0) == -KV_ETIMEOUT);
}

static void queue_wait_times_out_and_leaves_the_queue(void **state)
{
	struct loop *loop = harness_loop(NULL);
	(void)state;
	co_queue_init(&gate);
	harness_spawn(loop, queue_times_out, NULL);
	harness_run(loop);
	loop_destroy(&loop);
}

static void awaits_outside_a_coroutine_are_refused(void **state)
{
	struct loop *loop = harness_loop(NULL);
	char c;
	int fd;
	(void)state;
	co_queue_init(&gate);
	assert_null(co_self());
	assert_null(loop_current());
	assert_int_equal(co_park_await(0), -KV_EINVAL);
	assert_int_equal(co_yield_await(), -KV_EINVAL);
	assert_int_equal(co_sleep_await(0), -KV_EINVAL);
	assert_int_equal(co_queue_wait_await(&gate, 0), -KV_EINVAL);
	assert_true(co_queue_empty(&gate));
	assert_int_equal(io_read_await(0, &c, 1, 0), -KV_EINVAL);
	assert_int_equal(io_write_await(0, &c, 1, 0), -KV_EINVAL);
	assert_int_equal(io_accept_await(0, &fd, NULL, 0), -KV_EINVAL);
	struct sockaddr_storage sa = {.ss_family = AF_INET};
	assert_int_equal(io_connect_await(&sa, sizeof(sa), &fd, 0), -KV_EINVAL);
	assert_int_equal(io_poll_await(0, 1, 0), -KV_EINVAL);
	loop_destroy(&loop);
}

static void spawn_is_bounded(void **state)
{
	struct loop *loop = harness_loop(&(struct loop_options){.name = "small", .coroutines_max = 3});
	(void)state;
	ordered = 0;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++)
			harness_spawn(loop, note, NULL);
		assert_int_equal(co_spawn(loop, note, NULL, "one too many"), -KV_EBUSY);
		harness_run(loop);
	}
	assert_int_equal(ordered, 6);
	loop_destroy(&loop);
}

static void yield_for_ever(void *arg)
{
	while (!*(bool *)arg)
		co_yield_await();
}

static void set_flag(struct loop_timer *t);
static bool stop_yielding;

static void set_flag(struct loop_timer *t)
{
	(void)t;
	stop_yielding = true;
}

static void yielding_does_not_starve_timers(void **state)
{
	struct loop *loop = harness_loop(NULL);
	struct loop_timer timer = {.fire = set_flag};
	(void)state;
	stop_yielding = false;
	loop_timer_arm(loop, &timer, loop_now(loop) + 2 * MS);
	harness_spawn(loop, yield_for_ever, &stop_yielding);
	harness_run(loop);
	assert_true(stop_yielding);
	loop_destroy(&loop);
}

static int warnings;

static void count_warning(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	if (level == KV_LOG_WARN && strstr(line, "2 coroutines still parked"))
		warnings++;
}

static void destroy_drops_parked_coroutines_and_says_so(void **state)
{
	struct kv_log log = {.level = KV_LOG_WARN, .write = count_warning};
	struct loop *loop = harness_loop(&(struct loop_options){.name = "dropped", .log = &log});
	uint64_t never = KV_NEVER;
	(void)state;
	warnings = 0;
	harness_spawn(loop, park_once, &never);
	harness_spawn(loop, park_once, &never);
	loop_turn(loop, 0);
	loop_destroy(&loop);
	assert_int_equal(warnings, 1);
	loop_destroy(&loop); /* NULL is accepted */
}

static uint64_t churned;

static void churn(void *arg)
{
	volatile char frame[2000];
	uint64_t *left = arg;
	frame[0] = frame[1999] = 1;
	churned += (uint64_t)frame[0];
	if (--*left > 0)
		CHECK(co_spawn(loop_current(), churn, left, "child") == 0);
}

static void a_hundred_thousand_lives_need_one_or_two_stacks(void **state)
{
	struct loop *loop = harness_loop(NULL);
	struct loop_stats stats;
	uint64_t left = KV_TSAN ? 10000 : 100000;
	const uint64_t lives = left;
	(void)state;
	churned = 0;
	harness_spawn(loop, churn, &left);
	harness_run(loop);
	loop_stats(loop, &stats);
	assert_int_equal(churned, lives);
	assert_int_equal(stats.coroutines_peak, 2);
	assert_int_equal(stats.stacks_touched, 2);
	loop_destroy(&loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ready_coroutines_run_in_order),
		cmocka_unit_test(ten_thousand_wait_in_fifo_order),
		cmocka_unit_test(park_times_out_at_its_deadline),
		cmocka_unit_test(wake_ends_a_park),
		cmocka_unit_test(one_wake_before_the_park_is_kept),
		cmocka_unit_test(wake_beats_a_timeout_of_the_same_instant),
		cmocka_unit_test(wake_does_not_end_a_sleep),
		cmocka_unit_test(queue_wait_times_out_and_leaves_the_queue),
		cmocka_unit_test(awaits_outside_a_coroutine_are_refused),
		cmocka_unit_test(spawn_is_bounded),
		cmocka_unit_test(yielding_does_not_starve_timers),
		cmocka_unit_test(destroy_drops_parked_coroutines_and_says_so),
		cmocka_unit_test(a_hundred_thousand_lives_need_one_or_two_stacks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
