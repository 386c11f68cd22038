/* SPDX-License-Identifier: Apache-2.0 */
/* test_revoke.c -- several threads unregister memory at the same time. The loop of their client is kept busy, so that
 * the server's answers come in one read: each is its own thread's, and no connection is lost over it. */
#include "tests/check.h"

#include <pthread.h>
#include <unistd.h>

#include "tests/kvclient/server.h"

enum { THREADS = 6, ROUNDS = 10, BYTES = 64 << 10, BUSY_US = 10000 };

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
	};
	return cmocka_run_group_tests_name("kvclient/revoke", tests, up, down);
}
