/* SPDX-License-Identifier: Apache-2.0 */
/* test_shm.c -- clients over shm, whose loops nothing wakes. (That a server may be killed under them:
 * test_outage.c.) */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "kvclient/kvclient.h"
#include "loop/loop.h"
#include "server.h"

enum { SIZE = 64 << 10, GETS = 20 };

static struct test_server server;
static const struct test_server *const one[] = {&server};

static int setup(void **state)
{
	(void)state;
	setenv("KVRAIL_TEST_PROVIDER", "shm", 1);
	if (!test_server_binary() || access("/dev/shm", W_OK) != 0)
		return 0;
	kvc_program_setup();
	test_server_start(&server, "shm");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (server.pid)
		test_server_end(&server);
	return 0;
}

static void need_server(void)
{
	if (!server.pid) {
		print_message("kv-server is not built (KV_SERVER or build/MODE/kv-server), or /dev/shm is not there\n");
		skip();
	}
}

struct reader {
	uint8_t *value, *back;
	int64_t rc;
	struct loop_stats stats;
};

static void reader_main(struct kvc_client *client, unsigned w, void *arg)
{
	struct reader *r = arg;
	struct kvc_key key = {"value", 5};
	(void)w;
	r->rc = kvc_put_await(client, key, r->value, SIZE, NULL);
	for (unsigned i = 0; i < GETS && r->rc >= 0; i++)
		r->rc = kvc_get_await(client, key, r->back, SIZE, NULL);
	loop_stats(loop_current(), &r->stats);
}

/* The one processor left to this process: fewer than loops, where clients of other providers sleep at once. */
static cpu_set_t cpus_narrow(void)
{
	cpu_set_t before, first;
	unsigned cpu = 0;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	while (!CPU_ISSET(cpu, &before))
		cpu++;
	CPU_ZERO(&first);
	CPU_SET(cpu, &first);
	assert_int_equal(sched_setaffinity(0, sizeof(first), &first), 0);
	return before;
}

static void loops_look_again_before_they_sleep_however_few_processors_there_are(void **state)
{
	static uint8_t value[SIZE], back[SIZE];
	struct reader r = {.value = value, .back = back};
	cpu_set_t before;
	struct kvc_pool *pool;
	(void)state;
	need_server();
	test_fill(r.value, SIZE, 1);
	before = cpus_narrow();
	pool = test_pool(one, 1, 1);
	assert_int_equal(kvc_run(pool, 1, reader_main, &r), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(r.rc, SIZE);
	assert_true(test_same(r.back, SIZE, 1));
	assert_in_range(r.stats.spins, 1, UINT64_MAX);
	kvc_pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loops_look_again_before_they_sleep_however_few_processors_there_are),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
