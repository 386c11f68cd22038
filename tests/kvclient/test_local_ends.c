/* SPDX-License-Identifier: Apache-2.0 */
/* test_local_ends.c -- connections to servers on this host that end, or never begin: replies that come after the
 * attachment has left, children of fork(), and memory that cannot be mapped. Servers give nothing away for ever.
 *
 * An observer that uses the fabric alone reads the server's gauges. */
#include "calls.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/local.h"

static struct test_server own;
static const struct test_server *const servers[] = {&own};
static struct kvc_pool *observer;

static int start(void **state)
{
	struct kvc_options o;
	(void)state;
	if (!test_server_binary())
		return 0;
	test_server_start(&own, "own");
	o = test_options(servers, 1, 1);
	o.local = KVC_LOCAL_OFF;
	return kvc_pool_open(&o, &observer, NULL);
}

static int end(void **state)
{
	(void)state;
	if (own.pid)
		test_server_cont(&own);
	kvc_pool_close(&observer);
	if (own.pid)
		test_server_kill(&own);
	return 0;
}

static void need_own(void)
{
	test_server_need(&own);
}

static bool is_local(struct kvc_pool *pool)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	assert_int_equal(kvc_server_info(pool, 0, 0, &s), 0);
	return s.local;
}

/* The observer may be connecting again. */
static void observe(const char *name, uint64_t value)
{
	uint64_t until = now_ns() + WAIT_NS;
	while ((kvc_ping(observer, NULL) < 0 || test_stat(observer, name) != value) && now_ns() < until)
		usleep(2000);
	assert_int_equal(test_stat(observer, name), value);
}

static void store(struct kvc_pool *pool, struct kvc_key key, size_t len)
{
	uint8_t *value = malloc(len);
	test_fill(value, len, 1);
	assert_int_equal(kvc_put(pool, key, value, len, NULL), 0);
	free(value);
}

/* ---- late replies ---- */

enum { GETTERS = 48, LEN = 65536 };

static struct kvc_pool *pool;
static _Atomic bool stop;

static void *getter_main(void *arg)
{
	struct kvc_call call = brief();
	struct kvc_borrowed b;
	(void)arg;
	while (!stop)
		if (kvc_get_borrowed(pool, NAMED("late"), LEN, &call, &b) >= 0)
			kvc_borrowed_release(NULL, &b);
	return NULL;
}

/* The server stands still until the client has given it up, with requests in its rings. */
static void stand_still(void)
{
	pthread_t getter[GETTERS];
	uint64_t until = now_ns() + WAIT_NS, lost = counters(pool).lost_connections;
	stop = false;
	for (unsigned i = 0; i < GETTERS; i++)
		assert_int_equal(pthread_create(&getter[i], NULL, getter_main, NULL), 0);
	usleep(20000);
	test_server_stop(&own);
	while (counters(pool).lost_connections == lost && now_ns() < until)
		usleep(2000);
	stop = true;
	for (unsigned i = 0; i < GETTERS; i++)
		pthread_join(getter[i], NULL);
	test_server_cont(&own);
	assert_int_not_equal(counters(pool).lost_connections, lost);
	while (!is_local(pool) && now_ns() < until)
		usleep(2000);
	assert_true(is_local(pool));
}

static void late_replies_keep_no_leases(void **state)
{
	struct kvc_borrowed held[3];
	(void)state;
	need_own();
	pool = test_pool(servers, 1, 1);
	assert_true(is_local(pool));
	store(pool, NAMED("late"), LEN);
	for (unsigned i = 0; i < KV_COUNT(held); i++) {
		assert_int_equal(kvc_get_borrowed(pool, NAMED("late"), LEN, NULL, &held[i]), LEN);
		assert_int_equal(held[i].in_place, 1);
		stand_still();
		observe("local_leases", i + 1);
	}
	for (unsigned i = 0; i < KV_COUNT(held); i++)
		kvc_borrowed_release(NULL, &held[i]);
	observe("local_leases", 0);
	kvc_pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(late_replies_keep_no_leases, start, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
