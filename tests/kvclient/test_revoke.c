/* SPDX-License-Identifier: Apache-2.0 */
/* test_revoke.c -- unregistering memory: by several threads at the same time, and memory that is in use. */
#include "tests/check.h"

#include <pthread.h>
#include <unistd.h>

#include "kvclient/conn/node.h"
#include "kvclient/pool/hosted.h"
#include "tests/kvclient/server.h"

enum { THREADS = 6, ROUNDS = 10, BYTES = 64 << 10, BUSY_US = 10000, MORE = 64 };

#define ATTACH_NS 10000000000ull

static struct test_server server;
static struct kvc_pool *pool;
static uint8_t memory[THREADS][BYTES] __attribute__((aligned(4096)));
static pthread_barrier_t barrier;
static _Atomic unsigned failed;
static _Atomic bool over;

static void *thread_main(void *arg)
{
	uint8_t *at = arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct kvc_mem *mem;
		struct kv_error err;
		if (kvc_register(pool, at, BYTES, &mem, &err) != 0) {
			printf("# %s\n", err.text);
			failed++;
			mem = NULL;
		}
		pthread_barrier_wait(&barrier);
		if (mem)
			failed += kvc_unregister(pool, &mem) != 0;
	}
	return NULL;
}

/* Holds the loop's thread for a while, again and again. */
static void busy(struct kvc_client *client, unsigned w, void *arg)
{
	(void)w, (void)arg;
	while (!over) {
		usleep(BUSY_US);
		(void)kvc_ping_await(client, NULL);
	}
}

/* The loop of their client is kept busy, so that the server's answers come in one read: each is its own thread's, and
 * no connection is lost over it. */
static void answers_that_come_together_are_all_taken(void **state)
{
	const struct test_server *servers[] = {&server};
	struct kvc_counters c = {.size = sizeof(c)};
	pthread_t thread[THREADS];
	(void)state;
	test_server_need(&server);
	pool = test_pool(servers, 1, 1);
	pthread_barrier_init(&barrier, NULL, THREADS);
	assert_int_equal(kvc_spawn(pool, 0, busy, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, thread_main, memory[i]), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	over = true;
	assert_int_equal(failed, 0);
	assert_int_equal(kvc_counters(pool, &c), 0);
	assert_int_equal(c.lost_connections, 0);
	assert_int_equal(c.reconnects, 0);
	kvc_pool_close(&pool);
	pthread_barrier_destroy(&barrier);
}

/* ---- memory that is in use ---- */

static const struct kvc_key key = {"revoke", 6};
static _Atomic bool held, used;

static void gets(struct kvc_client *client, unsigned w, void *arg)
{
	(void)w, (void)arg;
	while (!over) {
		used = true;
		failed += kvc_get_await(client, key, memory[0], BYTES, NULL) != BYTES;
	}
}

static void one_get(struct kvc_client *client, unsigned w, void *arg)
{
	(void)w, (void)arg;
	failed += kvc_get_await(client, key, memory[1], BYTES, NULL) != BYTES;
}

static void attach_again(void *arg)
{
	kc_node_redo(&((struct kvc_client *)arg)->node[0], "the test wants it");
}

/* Holds the loop of client 1; client 0 attaches again meanwhile. */
static void hold(struct kvc_client *client, unsigned w, void *arg)
{
	(void)client, (void)w, (void)arg;
	held = true;
	usleep(100000);
	while (loop_post(kc_pool_client_loop(pool, 0), attach_again, kc_pool_client(pool, 0)) < 0)
		usleep(1000);
	usleep(200000);
}

/* Client 0 has stopped to use the memory, and attaches to the server without it, while client 1 has not been asked: it
 * refuses, and client 0 goes on as if nothing had been. */
static void memory_that_is_in_use_stays_known_everywhere(void **state)
{
	const struct test_server *servers[] = {&server};
	struct kvc_options o = test_options(servers, 1, 2);
	struct kvc_server_info i = {.size = sizeof(i)};
	struct kvc_mem *mem = NULL;
	struct kv_error err = {0};
	(void)state;
	test_server_need(&server);
	failed = 0;
	over = false;
	o.num_threads = 2;
	if (kvc_pool_open(&o, &pool, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(kvc_put(pool, key, memory[0], BYTES, NULL), 0);
	assert_int_equal(kvc_register(pool, memory, sizeof(memory), &mem, NULL), 0);
	assert_int_equal(kvc_spawn(pool, 1, gets, NULL), 0);
	while (!used)
		usleep(1000);
	assert_int_equal(kvc_spawn(pool, 1, hold, NULL), 0);
	while (!held)
		usleep(1000);
	assert_int_equal(kvc_unregister(pool, &mem), -KV_EBUSY);
	assert_int_equal(kvc_server_info(pool, 0, 0, &i), 0);
	assert_in_range(i.attaches, 2, 3);
	assert_int_equal(kvc_run(pool, 1, one_get, NULL), 0);
	over = true;
	assert_int_equal(failed, 0);
	kvc_pool_close(&pool);
}

/* ---- memory that comes and goes while a client attaches ---- */

static void *come_and_go(void *arg)
{
	while (!over) {
		struct kvc_mem *mem = NULL;
		int rc = kvc_register(pool, arg, BYTES, &mem, NULL);
		if (rc == 0)
			rc = kvc_unregister(pool, &mem);
		failed += rc != 0;
		used = true;
	}
	return NULL;
}

/* However often a program registers memory and takes it back, a client attaches again, and soon. */
static void memory_that_comes_and_goes_keeps_no_client_from_attaching(void **state)
{
	const struct test_server *servers[] = {&server};
	struct kvc_server_info i = {.size = sizeof(i)};
	uint64_t begun_ns;
	struct kvc_mem *more[MORE];
	pthread_t thread;
	(void)state;
	test_server_need(&server);
	failed = 0;
	over = used = false;
	pool = test_pool(servers, 1, 1);
	for (unsigned n = 0; n < MORE; n++)
		assert_int_equal(kvc_register(pool, memory[1] + n * 4096, 4096, &more[n], NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, memory[0]), 0);
	while (!used)
		usleep(1000);
	begun_ns = kv_clock_now(&kv_clock_monotonic);
	for (unsigned n = 0; n < ROUNDS; n++) {
		while (loop_post(kc_pool_client_loop(pool, 0), attach_again, kc_pool_client(pool, 0)) < 0)
			usleep(1000);
		do {
			usleep(1000);
			assert_int_equal(kvc_server_info(pool, 0, 0, &i), 0);
		} while (i.attaches < 2 + n && kv_clock_now(&kv_clock_monotonic) - begun_ns < ATTACH_NS);
	}
	over = true;
	pthread_join(thread, NULL);
	assert_true(i.attaches > ROUNDS);
	assert_int_equal(failed, 0);
	kvc_pool_close(&pool);
}

static int up(void **state)
{
	(void)state;
	kvc_program_setup();
	test_server_up(&server, NULL);
	return 0;
}

static int down(void **state)
{
	(void)state;
	test_server_kill(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_that_come_together_are_all_taken),
		cmocka_unit_test(memory_that_is_in_use_stays_known_everywhere),
		cmocka_unit_test(memory_that_comes_and_goes_keeps_no_client_from_attaching),
	};
	return cmocka_run_group_tests_name("kvclient/revoke", tests, up, down);
}
