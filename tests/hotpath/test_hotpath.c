/* SPDX-License-Identifier: Apache-2.0 */
/* test_hotpath.c -- a GET takes no memory from the allocator and no lock, on the client's loop and on the server's.
 *
 * Server and client are in this process, so that one count sees both. What is counted begins when every worker has
 * warmed up and ends before the first of them returns: starting and ending a worker is not a GET. Nothing else happens
 * in between: the server's heartbeats, for which OpenSSL allocates, are a minute apart. Our own code makes no such call
 * at all; what the provider does is reported. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kvclient/kvclient.h"
#include "kvserver/kvserver.h"
#include "tests/hotpath/count.h"
#include "tests/provider.h"

enum { WORKERS = 8, CLIENTS = 2, SHARDS = 2, BATCH = 16, KEYS = 64, GETS = 2000, SIZE_MAX_BYTES = 64 << 10 };

static const char psk[] = "hotpath:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static struct kvs_server *server;
static struct kvc_pool *pool;
static struct kvc_mem *mem;

static uint8_t value[SIZE_MAX_BYTES], plain[WORKERS][BATCH * SIZE_MAX_BYTES];
static _Alignas(4096) uint8_t registered[WORKERS][BATCH * SIZE_MAX_BYTES];
static char key_text[KEYS][16];

/* What is being run. The warm-up is as long as what is counted. */
static struct {
	int64_t (*get)(struct kvc_client *, unsigned w, unsigned from);
	unsigned each; /* GETs that one call makes */
	uint64_t size;
	_Atomic unsigned begun, failed;
	_Atomic uint64_t gets, counted;
} run;

static struct kvc_key key_at(unsigned i)
{
	return (struct kvc_key){key_text[i % KEYS], strlen(key_text[i % KEYS])};
}

static int64_t get_plain(struct kvc_client *client, unsigned w, unsigned from)
{
	return kvc_get_await(client, key_at(from), plain[w], run.size, NULL) - (int64_t)run.size;
}

static int64_t get_registered(struct kvc_client *client, unsigned w, unsigned from)
{
	return kvc_get_await(client, key_at(from), registered[w], run.size, NULL) - (int64_t)run.size;
}

static int64_t get_view(struct kvc_client *client, unsigned w, unsigned from)
{
	struct kvc_view v;
	int64_t rc = kvc_get_view_await(client, key_at(from), run.size, NULL, &v);
	(void)w;
	if (rc < 0)
		return rc;
	kvc_view_release(client, &v);
	return rc - (int64_t)run.size;
}

static int64_t get_batch(struct kvc_client *client, unsigned w, unsigned from)
{
	struct kvc_item items[BATCH];
	for (unsigned i = 0; i < BATCH; i++)
		items[i] = (struct kvc_item){.key = key_at(from + i), .data = plain[w] + i * run.size, .len = run.size};
	return kvc_get_batch_await(client, items, BATCH, NULL);
}

static void worker(struct kvc_client *client, unsigned w, void *arg)
{
	uint64_t at;
	(void)arg;
	atomic_fetch_add(&run.begun, 1);
	/* All of them run, and each has made as many as will be counted of it; then one starts the count, and who sees
	 * it full ends it. */
	for (unsigned i = 0; (at = atomic_load(&run.gets)) < 3 * GETS || atomic_load(&run.begun) < WORKERS; i++) {
		if (run.get(client, w, w * 7 + i) != 0)
			atomic_fetch_add(&run.failed, 1);
		at = atomic_fetch_add(&run.gets, run.each);
		if (at < GETS && at + run.each >= GETS)
			count_start();
		else if (at < 2 * GETS && at + run.each >= 2 * GETS)
			count_stop();
		if (at >= GETS && at < 2 * GETS)
			atomic_fetch_add(&run.counted, run.each);
		if (atomic_load(&run.failed) > 0)
			break;
	}
}

static void skip_if_impossible(void)
{
	if (count_possible())
		return;
	printf("# skip: a sanitizer has the allocator and the locks for itself\n");
	skip();
}

static void put_all(uint64_t size)
{
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key_text[i], sizeof(key_text[i]), "%llu/%u", (unsigned long long)size, i);
		assert_int_equal(kvc_put(pool, key_at(i), value, size, NULL), 0);
	}
}

static void ours_is_none(const char *what, int64_t (*get)(struct kvc_client *, unsigned, unsigned), unsigned each,
			 uint64_t size)
{
	skip_if_impossible();
	put_all(size);
	for (unsigned i = 0; i < 2; i++) { /* the first time is the warm-up of starting and ending, too */
		memset(&run, 0, sizeof(run));
		run.get = get;
		run.each = each;
		run.size = size;
		assert_int_equal(kvc_run(pool, WORKERS, worker, NULL), 0);
		count_stop();
		assert_int_equal(run.failed, 0);
	}
	assert_in_range(run.counted, GETS - BATCH, GETS + WORKERS * BATCH);
	printf("#: %s of %llu KiB: the provider makes %.2f calls of the allocator and takes %.1f locks for each\n",
	       what, (unsigned long long)size >> 10, (double)count_get(COUNT_FABRIC, COUNT_ALLOC) / (double)run.counted,
	       (double)count_get(COUNT_FABRIC, COUNT_LOCK) / (double)run.counted);
	count_print(COUNT_OURS);
	count_print(COUNT_OTHER);
	for (unsigned i = 0; i < COUNT_WHATS; i++) {
		assert_int_equal(count_get(COUNT_OURS, i), 0);
		assert_int_equal(count_get(COUNT_OTHER, i), 0);
	}
}

static void a_get_of_64_kib_into_plain_memory(void **state)
{
	(void)state;
	ours_is_none("GET", get_plain, 1, 64 << 10);
}

static void a_get_of_64_kib_into_registered_memory(void **state)
{
	(void)state;
	ours_is_none("GET into registered memory", get_registered, 1, 64 << 10);
}

static void a_get_of_64_kib_into_a_view(void **state)
{
	(void)state;
	ours_is_none("GET into a view", get_view, 1, 64 << 10);
}

static void a_get_of_4_kib_into_plain_memory(void **state)
{
	(void)state;
	ours_is_none("GET", get_plain, 1, 4 << 10);
}

static void a_get_of_4_kib_into_a_view(void **state)
{
	(void)state;
	ours_is_none("GET into a view", get_view, 1, 4 << 10);
}

static void a_get_of_1_kib_inside_the_reply(void **state)
{
	(void)state;
	ours_is_none("GET", get_plain, 1, 1 << 10);
}

static void a_batch_of_16_of_4_kib(void **state)
{
	(void)state;
	ours_is_none("batch GET", get_batch, BATCH, 4 << 10);
}

static void a_batch_of_16_of_64_kib(void **state)
{
	(void)state;
	ours_is_none("batch GET", get_batch, BATCH, 64 << 10);
}

/* A call that takes no memory and no lock would not show whether the counting works. */
static void what_is_not_a_get_is_counted(void **state)
{
	void *volatile p;
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	(void)state;
	skip_if_impossible();
	count_start();
	p = malloc(100);
	free(p);
	pthread_mutex_lock(&m);
	pthread_mutex_unlock(&m);
	p = strdup("the C library's malloc");
	count_stop();
	free(p);
	assert_int_equal(count_get(COUNT_OURS, COUNT_ALLOC), 2);
	assert_int_equal(count_get(COUNT_OURS, COUNT_LOCK), 1);
	assert_int_equal(count_get(COUNT_OTHER, COUNT_ALLOC), 1);
	assert_int_equal(count_get(COUNT_FABRIC, COUNT_ALLOC), 0);
}

static int up(void **state)
{
	static const struct kv_log log = {.level = KV_LOG_WARN, .write = kv_log_stderr};
	const struct kvs_options so = {.listen_addr = "127.0.0.1:0",
				       .provider = test_provider(),
				       .shards = SHARDS,
				       .memory_bytes = 64 << 20,
				       .heartbeat_ms = 60000,
				       .psk = psk,
				       .log = &log};
	char name[64];
	const char *names[] = {name};
	struct kvc_options co = {.size = sizeof(co),
				 .flags = KVC_OPEN_WAIT,
				 .num_clients = CLIENTS,
				 .num_threads = CLIENTS,
				 .buffer_bytes = 16 << 20,
				 .servers = names,
				 .num_servers = 1,
				 .provider = test_provider(),
				 .timeout_ns = 10000000000,
				 .peer_timeout_ns = 200000000000,
				 .psk = psk,
				 .log_level = KV_LOG_WARN};
	struct kv_error err = {0};
	struct kv_prng p;
	(void)state;
	kvc_program_setup();
	kv_prng_seed(&p, 1);
	kv_prng_fill(&p, value, sizeof(value));
	if (kvs_server_create(&so, &server, &err) < 0 || kvs_server_start(server, &err) < 0)
		goto fail;
	kvs_server_address(server, name, sizeof(name));
	if (kvc_pool_open(&co, &pool, &err) < 0 || kvc_register(pool, registered, sizeof(registered), &mem, &err) < 0)
		goto fail;
	return 0;
fail:
	fprintf(stderr, "%s\n", err.text);
	return -1;
}

static int down(void **state)
{
	int rc = kvc_unregister(pool, &mem);
	(void)state;
	kvc_pool_close(&pool);
	kvs_server_destroy(&server);
	return rc;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_a_get_is_counted),
		cmocka_unit_test(a_get_of_64_kib_into_plain_memory),
		cmocka_unit_test(a_get_of_64_kib_into_registered_memory),
		cmocka_unit_test(a_get_of_64_kib_into_a_view),
		cmocka_unit_test(a_get_of_4_kib_into_plain_memory),
		cmocka_unit_test(a_get_of_4_kib_into_a_view),
		cmocka_unit_test(a_get_of_1_kib_inside_the_reply),
		cmocka_unit_test(a_batch_of_16_of_4_kib),
		cmocka_unit_test(a_batch_of_16_of_64_kib),
	};
	return cmocka_run_group_tests(tests, up, down);
}
