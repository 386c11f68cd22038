/* SPDX-License-Identifier: Apache-2.0 */
/* test_post.c -- work from other threads: nothing lost, order per producer, the bound, the bell; loop_run and
 * loop_stop. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/loop/harness.h"

enum { PRODUCERS = 4, POSTS = 20000 };

static struct loop *loop;
static int pair[2];

struct producer {
	pthread_t thread;
	int next, out_of_order; /* the loop's */
	uint64_t busy;          /* the producer's: how often the queue was full */
	struct item {
		struct producer *producer;
		int number;
	} items[POSTS];
};

static struct producer producers[PRODUCERS];
static int ended;

static void consume(void *arg)
{
	struct item *item = arg;
	struct producer *p = item->producer;
	p->out_of_order += item->number != p->next;
	p->next = item->number + 1;
	if (p->next == POSTS && ++ended == PRODUCERS)
		loop_stop(loop);
}

static void *produce(void *arg)
{
	struct producer *p = arg;
	for (int i = 0; i < POSTS; i++) {
		p->items[i] = (struct item){.producer = p, .number = i};
		while (loop_post(loop, consume, &p->items[i]) == -KV_EBUSY) {
			p->busy++;
			sched_yield();
		}
		if (i % 1000 == 0) /* let the loop fall asleep now and then */
			usleep(300);
	}
	return NULL;
}

static void *run_loop(void *arg)
{
	*(int *)arg = loop_run(loop);
	return NULL;
}

static void four_producers_lose_nothing_and_keep_order(void **state)
{
	pthread_t thread;
	struct loop_stats stats;
	int rc = -1;
	(void)state;
	loop = harness_loop(&(struct loop_options){.name = "posts", .post_depth = 64});
	assert_int_equal(pthread_create(&thread, NULL, run_loop, &rc), 0);
	for (int i = 0; i < PRODUCERS; i++)
		assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(producers[i].thread, NULL);
	pthread_join(thread, NULL);
	assert_int_equal(rc, 0);
	for (int i = 0; i < PRODUCERS; i++) {
		assert_int_equal(producers[i].next, POSTS);
		assert_int_equal(producers[i].out_of_order, 0);
	}
	loop_stats(loop, &stats);
	assert_int_equal(stats.posts, PRODUCERS * POSTS);
	loop_destroy(&loop);
}

static int ran;

static void count(void *arg)
{
	(void)arg;
	ran++;
}

static void the_bound_is_exact(void **state)
{
	(void)state;
	loop = harness_loop(&(struct loop_options){.name = "bound", .post_depth = 8});
	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < 8; i++)
			assert_int_equal(loop_post(loop, count, NULL), 0);
		assert_int_equal(loop_post(loop, count, NULL), -KV_EBUSY);
		assert_int_equal(loop_turn(loop, 0), 8);
		assert_int_equal(ran, 8 * round);
	}
	loop_destroy(&loop);
}

static void post_again(void *arg)
{
	int *left = arg;
	CHECK(loop_current() == loop);
	CHECK(co_self() == NULL);
	if (--*left > 0)
		CHECK(loop_post(loop, post_again, left) == 0);
}

static void a_posted_function_may_post(void **state)
{
	int left = 1000;
	(void)state;
	loop = harness_loop(&(struct loop_options){.name = "again", .post_depth = 2});
	assert_int_equal(loop_post(loop, post_again, &left), 0);
	for (int i = 0; i < 1000 && left > 0; i++)
		loop_turn(loop, 0);
	assert_int_equal(left, 0);
	assert_int_equal(harness_failures, 0);
	loop_destroy(&loop);
}

/* A poller's arm() runs between the last look at the queue and the sleep: exactly the moment at which a post must not
 * be missed. */
static void (*in_window)(void);

static int window_poll(struct loop_poller *p)
{
	(void)p;
	return 0;
}

static int window_arm(struct loop_poller *p)
{
	(void)p;
	in_window();
	return 0;
}

static void post_in_window(void)
{
	assert_int_equal(loop_post(loop, count, NULL), 0);
}

static void stop_in_window(void)
{
	loop_stop(loop);
}

static uint64_t sleeps_with(void (*fn)(void), bool run)
{
	struct loop_poller poller = {.poll = window_poll, .arm = window_arm};
	struct loop_stats stats;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	poller.wait_fd = pair[0];
	in_window = fn;
	loop = harness_loop(NULL);
	ran = 0;
	assert_int_equal(loop_poller_add(loop, &poller), 0);
	if (run)
		assert_int_equal(loop_run(loop), 0);
	else
		assert_int_equal(loop_turn(loop, SECOND), 1);
	loop_stats(loop, &stats);
	loop_poller_del(loop, &poller);
	loop_destroy(&loop);
	close(pair[0]);
	close(pair[1]);
	return stats.sleeps;
}

static void a_post_just_before_the_sleep_prevents_it(void **state)
{
	(void)state;
	assert_int_equal(sleeps_with(post_in_window, false), 0);
	assert_int_equal(ran, 1);
}

static void a_stop_just_before_the_sleep_prevents_it(void **state)
{
	(void)state;
	assert_int_equal(sleeps_with(stop_in_window, true), 0);
}

static void a_depth_that_is_no_power_of_two_is_refused(void **state)
{
	struct kv_error err;
	(void)state;
	loop = NULL;
	assert_int_equal(loop_create(&(struct loop_options){.name = "odd", .post_depth = 100}, &loop, &err),
			 -KV_EINVAL);
	assert_non_null(strstr(err.text, "post_depth 100"));
	assert_null(loop);
}

/* ---- loop_run and loop_stop ---- */

static void a_stop_before_the_run_counts(void **state)
{
	(void)state;
	loop = harness_loop(NULL);
	loop_stop(loop);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(loop_turns(loop), 0);
	loop_destroy(&loop);
}

static void *stop_many_times(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++)
		loop_stop(loop);
	return NULL;
}

static void stop_wakes_a_sleeping_loop(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		pthread_t runner, stopper;
		int rc = -1;
		loop = harness_loop(NULL);
		assert_int_equal(pthread_create(&runner, NULL, run_loop, &rc), 0);
		if (i % 2)
			usleep(500);
		assert_int_equal(pthread_create(&stopper, NULL, stop_many_times, NULL), 0);
		pthread_join(runner, NULL);
		pthread_join(stopper, NULL);
		assert_int_equal(rc, 0);
		loop_destroy(&loop);
	}
}

static int nested_run, nested_turn;

static void run_inside(void *arg)
{
	(void)arg;
	nested_turn = loop_turn(loop, 0);
	nested_run = loop_run(loop);
	loop_stop(loop);
}

static void a_turn_inside_a_turn_is_refused(void **state)
{
	(void)state;
	loop = harness_loop(NULL);
	assert_int_equal(loop_post(loop, run_inside, NULL), 0);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(nested_turn, -KV_EBUSY);
	assert_int_equal(nested_run, -KV_EINVAL);
	loop_destroy(&loop);
}

static char thread_name[16];

static void read_name(void *arg)
{
	(void)arg;
	pthread_getname_np(pthread_self(), thread_name, sizeof(thread_name));
	loop_stop(loop);
}

static void the_thread_bears_the_loop_s_name_while_it_runs(void **state)
{
	char before[16], after[16];
	(void)state;
	loop = harness_loop(&(struct loop_options){.name = "kv-0"});
	pthread_getname_np(pthread_self(), before, sizeof(before));
	loop_post(loop, read_name, NULL);
	assert_int_equal(loop_run(loop), 0);
	pthread_getname_np(pthread_self(), after, sizeof(after));
	assert_string_equal(thread_name, "kv-0");
	assert_string_equal(after, before);
	loop_destroy(&loop);
}

static char unread[64];

static void read_for_ever(void *arg)
{
	(void)arg;
	io_read_await(pair[0], unread, sizeof(unread), KV_NEVER);
	CHECK(false);
}

static void stop_now(void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void destroy_after_the_thread_has_ended_leaves_no_request(void **state)
{
	struct kv_log silent = {.level = KV_LOG_OFF};
	pthread_t thread;
	char buf[4];
	int rc = -1;
	(void)state;
	loop = harness_loop(&(struct loop_options){.name = "left", .log = &silent});
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	harness_spawn(loop, read_for_ever, NULL);
	assert_int_equal(pthread_create(&thread, NULL, run_loop, &rc), 0);
	usleep(5000);
	assert_int_equal(loop_post(loop, stop_now, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(rc, 0);
	assert_int_equal(write(pair[1], "ab", 2), 2);
	loop_destroy(&loop);
	assert_int_equal(write(pair[1], "cd", 2), 2);
	usleep(20000);
	assert_int_equal(recv(pair[0], buf, 4, MSG_DONTWAIT), 4);
	assert_memory_equal(buf, "abcd", 4);
	assert_int_equal(unread[0], 0);
	close(pair[0]);
	close(pair[1]);
}

static struct loop *foreign;

static void destroy_foreign(void *arg)
{
	char c;
	(void)arg;
	loop_destroy(&foreign);
	CHECK(io_read_await(pair[0], &c, 1, loop_now(loop) + MS) == -KV_ETIMEOUT);
	loop_stop(loop);
}

static void destroying_a_foreign_ring_spares_our_own(void **state)
{
	/* A registered ring number is per thread: the foreign ring's number must not be unregistered in our table. With
	 * a single issuer the kernel itself would refuse. */
	pthread_t thread;
	int rc = -1;
	(void)state;
	loop = harness_loop(&(struct loop_options){.name = "foreign", .host_turned = true});
	loop_post(loop, stop_now, NULL);
	assert_int_equal(pthread_create(&thread, NULL, run_loop, &rc), 0);
	pthread_join(thread, NULL);
	assert_int_equal(rc, 0);
	foreign = loop;
	loop = harness_loop(NULL);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	harness_spawn(loop, destroy_foreign, NULL);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(harness_failures, 0);
	loop_destroy(&loop);
	close(pair[0]);
	close(pair[1]);
}

static void the_same_seed_gives_the_same_numbers(void **state)
{
	uint64_t first[2], secret[2] = {0};
	(void)state;
	for (int i = 0; i < 2; i++) {
		loop = harness_loop(&(struct loop_options){.seed = 42});
		first[i] = kv_prng_next(loop_prng(loop));
		assert_int_equal(loop_random(loop, &secret[i], sizeof(secret[i])), 0);
		loop_destroy(&loop);
	}
	assert_true(first[0] == first[1]);
	assert_true(secret[0] != secret[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: both threads must give their first ring number to these rings. */
		cmocka_unit_test(destroying_a_foreign_ring_spares_our_own),
		cmocka_unit_test(four_producers_lose_nothing_and_keep_order),
		cmocka_unit_test(the_bound_is_exact),
		cmocka_unit_test(a_posted_function_may_post),
		cmocka_unit_test(a_post_just_before_the_sleep_prevents_it),
		cmocka_unit_test(a_stop_just_before_the_sleep_prevents_it),
		cmocka_unit_test(a_depth_that_is_no_power_of_two_is_refused),
		cmocka_unit_test(a_stop_before_the_run_counts),
		cmocka_unit_test(stop_wakes_a_sleeping_loop),
		cmocka_unit_test(a_turn_inside_a_turn_is_refused),
		cmocka_unit_test(the_thread_bears_the_loop_s_name_while_it_runs),
		cmocka_unit_test(destroy_after_the_thread_has_ended_leaves_no_request),
		cmocka_unit_test(the_same_seed_gives_the_same_numbers),
	};
	alarm(120); /* a lost wake-up ends the test instead of hanging it */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
