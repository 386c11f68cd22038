/* SPDX-License-Identifier: Apache-2.0 */
/* test_fork.c -- a child of fork() and its parent's pool, under traffic: every call of the child ends with -KV_ECLOSED,
 * nothing hangs, the parent goes on undisturbed, and a child has a pool of its own if it wants one. A child tells by
 * its exit status: 0, or the number of the line where something was wrong, less BASE. A child that hangs is ended by
 * its alarm. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "loop/sanitize.h"
#include "server.h"
#include "tests/short.h"

enum { THREADS = 3, ROUNDS = 20, FEW = 5, KEYS = 16, VALUE = 70000, CHILD_S = 120 };

static struct test_server server;
static const struct test_server *const one[] = {&server};
static struct kvc_pool *pool;
static struct kvc_mem *mem;
static struct kvc_session *sub;
static uint8_t *registered;
static const struct kvc_key key = {"fork", 4};

/* ---- traffic ---- */

static pthread_t thread[THREADS];
static atomic_bool stop;
static atomic_uint calls, wrong;

static void *traffic(void *arg)
{
	unsigned t = (unsigned)(uintptr_t)arg;
	uint8_t *value = malloc(VALUE), *got = malloc(VALUE);
	for (unsigned i = 0; value && got && !atomic_load(&stop); i++) {
		char name[32];
		struct kvc_key k = {name, (size_t)snprintf(name, sizeof(name), "traffic-%u-%u", t, i % KEYS)};
		struct kvc_call call = {.size = sizeof(call), .timeout_ns = 120000000000ull};
		test_fill(value, VALUE, t * KEYS + i % KEYS);
		if (kvc_put(pool, k, value, VALUE, &call) < 0 || kvc_get(pool, k, got, VALUE, &call) != VALUE ||
		    memcmp(value, got, VALUE) != 0)
			atomic_fetch_add(&wrong, 1);
		atomic_fetch_add(&calls, 1);
	}
	free(value);
	free(got);
	return NULL;
}

static void traffic_start(void)
{
	atomic_store(&stop, false);
	atomic_store(&calls, 0);
	for (unsigned t = 0; t < THREADS; t++)
		assert_int_equal(pthread_create(&thread[t], NULL, traffic, (void *)(uintptr_t)t), 0);
}

static void traffic_goes_on(void)
{
	unsigned before = atomic_load(&calls);
	while (atomic_load(&calls) < before + 2 * THREADS)
		usleep(1000);
}

/* Nothing failed, and no connection was lost or made again. */
static void traffic_stop(void)
{
	struct kvc_counters c = {.size = sizeof(c)};
	traffic_goes_on();
	atomic_store(&stop, true);
	for (unsigned t = 0; t < THREADS; t++)
		assert_int_equal(pthread_join(thread[t], NULL), 0);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_int_equal(kvc_counters(pool, &c), 0);
	assert_int_equal(c.lost_connections + c.reconnects + c.fences + c.timeouts, 0);
}

static int setup(void **state)
{
	(void)state;
	test_server_up(&server, "fork");
	registered = aligned_alloc(4096, 1 << 20);
	if (server.pid) {
		struct kvc_options o = test_options(one, 1, 2);
		struct kv_error err;
		o.peer_timeout_ns =
			60000000000ull; /* that no connection is lost is looked at, however busy this machine is */
		assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
		memset(registered, 0, 1 << 20);
		assert_int_equal(kvc_register(pool, registered, 1 << 20, &mem, &err), 0);
		assert_int_equal(kvc_session_open(pool, 0, NULL, &sub, &err), 0);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (pool) {
		assert_int_equal(kvc_unregister(pool, &mem), 0);
		assert_int_equal(kvc_session_close(pool, &sub, 0), 0);
	}
	kvc_pool_close(&pool);
	test_server_kill(&server);
	free(registered);
	return 0;
}

/* ---- the child ---- */

enum { BASE = __LINE__ }; /* what a child finds wrong is in the 255 lines behind it */

#define CHILD(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			_exit(__LINE__ - BASE);                                                                        \
	} while (0)
#define CLOSED(call) CHILD((call) == -KV_ECLOSED)

static void child_waited(pid_t pid)
{
	int status = 0;
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		fail_msg("the child was ended by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status) != 0)
		fail_msg("the child found line %d of test_fork.c wrong", WEXITSTATUS(status) + BASE);
}

static void never(struct kvc_client *c, unsigned w, void *arg)
{
	(void)c, (void)w, (void)arg;
	_exit(1);
}

/* Of the parent's pool and clients: client is one of its, or NULL where the caller has none. */
static void await_calls_are_closed(struct kvc_client *client)
{
	struct kvc_item item = {.key = key, .data = registered, .len = 8};
	struct kvc_stat_item stat;
	struct kvc_borrowed borrowed;
	struct kvc_session *copy = sub, *none = NULL;
	struct kv_error err;
	CLOSED(kvc_get_await(client, key, registered, 8, NULL));
	CLOSED(kvc_get_borrowed_await(client, key, 0, NULL, &borrowed));
	CLOSED(kvc_put_await(client, key, registered, 8, NULL));
	CLOSED(kvc_exists_await(client, &key, 1, NULL, NULL, NULL));
	CLOSED(kvc_delete_await(client, key, NULL));
	CLOSED(kvc_touch_await(client, key, NULL));
	CLOSED(kvc_ttl_await(client, key, NULL, NULL));
	CLOSED(kvc_pin_await(client, key, NULL));
	CLOSED(kvc_unpin_await(client, key, NULL));
	CLOSED(kvc_ping_await(client, NULL));
	CLOSED(kvc_drain_await(client, NULL, NULL));
	CLOSED(kvc_get_batch_await(client, &item, 1, NULL));
	CHILD(item.result == -KV_ECLOSED);
	CLOSED(kvc_put_batch_await(client, &item, 1, NULL));
	CLOSED(kvc_stat_await(client, &stat, 1, NULL));
	CLOSED(kvc_borrow_await(client, 4096, 0, &borrowed));
	CLOSED(kvc_put_borrow_await(client, key, 4096, 0, &borrowed));
	borrowed = (struct kvc_borrowed){.priv = {0, 4096}};
	kvc_borrowed_release(client, &borrowed);
	CHILD(borrowed.priv[1] == 0);
	CLOSED(kvc_session_open_await(client, NULL, &none, &err));
	CLOSED(kvc_session_close_await(client, &copy, 0));
}

static void every_call_is_closed(void)
{
	struct kvc_borrowed borrowed;
	struct kvc_item item = {.key = key, .data = registered, .len = 8};
	struct kvc_stat_item stat;
	struct kvc_info info = {.size = sizeof(info)};
	struct kvc_counters counters = {.size = sizeof(counters)};
	struct kvc_server_info si = {.size = sizeof(si)};
	struct kvc_rail_info ri = {.size = sizeof(ri)};
	struct kvc_session_info xi = {.size = sizeof(xi)};
	struct kvc_mem *more = NULL;
	struct kvc_session *none = NULL;
	struct kv_error err;
	CLOSED(kvc_get(pool, key, registered, 8, NULL));
	CLOSED(kvc_get_borrowed(pool, key, 0, NULL, &borrowed));
	CLOSED(kvc_put_borrow(pool, key, 8, 0, &borrowed));
	CLOSED(kvc_put(pool, key, registered, 8, NULL));
	CLOSED(kvc_exists(pool, &key, 1, NULL, NULL, NULL));
	CLOSED(kvc_delete(pool, key, NULL));
	CLOSED(kvc_touch(pool, key, NULL));
	CLOSED(kvc_ttl(pool, key, NULL, NULL));
	CLOSED(kvc_ping(pool, NULL));
	CLOSED(kvc_get_batch(pool, &item, 1, NULL));
	CHILD(item.result == -KV_ECLOSED);
	CLOSED(kvc_put_batch(pool, &item, 1, NULL));
	CLOSED(kvc_stat(pool, &stat, 1, NULL));
	CLOSED(kvc_run(pool, 1, never, NULL));
	CLOSED(kvc_spawn(pool, 0, never, NULL));
	CLOSED(kvc_register(pool, registered, 8, &more, &err));
	CLOSED(kvc_unregister(pool, &mem));
	CLOSED(kvc_session_open(pool, 0, NULL, &none, &err));
	CLOSED(kvc_session_info(pool, sub, 0, &xi));
	CLOSED(kvc_session_close(pool, &sub, 0));
	CLOSED(kvc_info(pool, &info));
	CLOSED(kvc_counters(pool, &counters));
	CLOSED(kvc_server_info(pool, 0, 0, &si));
	CLOSED(kvc_server_info_within(pool, 0, 0, 1, &si));
	CLOSED(kvc_rail_info(pool, 0, 0, &ri));
	CHILD(kvc_num_clients(pool) == 2);
	kvc_pool_close(&pool);
	CHILD(!pool);
}

static void calls_of_a_child_end_at_once(void **state)
{
	(void)state;
	test_server_need(&server);
	traffic_start();
	for (unsigned i = 0; i < test_rounds(ROUNDS, FEW); i++) {
		pid_t pid = fork();
		if (pid == 0) {
			alarm(CHILD_S);
			every_call_is_closed();
			_exit(0);
		}
		child_waited(pid);
		traffic_goes_on();
	}
	traffic_stop();
}

static void forking_worker(struct kvc_client *client, unsigned w, void *arg)
{
	pid_t pid = fork();
	(void)w;
	if (pid == 0) {
		alarm(CHILD_S);
		CHILD(kvc_client_pool(client) == pool);
		await_calls_are_closed(client);
		every_call_is_closed();
		_exit(0);
	}
	*(pid_t *)arg = pid;
}

static void calls_of_a_workers_child_end_at_once(void **state)
{
	(void)state;
	test_server_need(&server);
	traffic_start();
	for (unsigned i = 0; i < test_rounds(ROUNDS, FEW); i++) {
		pid_t pid = -1;
		assert_int_equal(kvc_run(pool, 1, forking_worker, &pid), 0);
		child_waited(pid);
	}
	traffic_stop();
}

/* The child need not close the parent's pool before, and its own children are strangers to both pools. */
static void pool_of_ones_own(void)
{
	struct kvc_options o = test_options(one, 1, 1);
	struct kvc_pool *mine = NULL;
	struct kv_error err = {0};
	uint8_t got[8];
	int status = 0;
	pid_t pid;
	CHILD(kvc_pool_open(&o, &mine, &err) == 0);
	CHILD(kvc_put(mine, key, "12345678", 8, NULL) == 0);
	CHILD(kvc_get(mine, key, got, 8, NULL) == 8 && memcmp(got, "12345678", 8) == 0);
	CLOSED(kvc_get(pool, key, got, 8, NULL));
	pid = fork();
	if (pid == 0) {
		alarm(CHILD_S);
		CLOSED(kvc_get(mine, key, got, 8, NULL));
		CLOSED(kvc_get(pool, key, got, 8, NULL));
		kvc_pool_close(&mine);
		_exit(0);
	}
	CHILD(waitpid(pid, &status, 0) == pid && status == 0);
	CHILD(kvc_get(mine, key, got, 8, NULL) == 8);
	kvc_pool_close(&pool);
	kvc_pool_close(&mine);
	CHILD(!mine);
}

static void a_child_has_a_pool_of_its_own(void **state)
{
	(void)state;
	test_server_need(&server);
	if (KV_TSAN || test_provider_is("shm")) {
		print_message("ThreadSanitizer lets no child start threads, and shm's endpoints are their process's\n");
		skip();
	}
	/* Its allocator has no handlers of fork() in gcc 12: another thread's lock of it stays locked in the child,
	 * which waits for it for ever in its first malloc. */
	if (KV_ASAN) {
		print_message("AddressSanitizer's allocator may be locked for ever in a child of several threads\n");
		skip();
	}
	traffic_start();
	for (unsigned i = 0; i < test_rounds(ROUNDS, FEW); i++) {
		pid_t pid = fork();
		if (pid == 0) {
			alarm(CHILD_S);
			pool_of_ones_own();
			_exit(0);
		}
		child_waited(pid);
	}
	traffic_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_of_a_child_end_at_once),
		cmocka_unit_test(calls_of_a_workers_child_end_at_once),
		cmocka_unit_test(a_child_has_a_pool_of_its_own),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
