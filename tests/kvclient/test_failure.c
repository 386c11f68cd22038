/* SPDX-License-Identifier: Apache-2.0 */
/* test_failure.c -- calls that are given up, and what becomes of their memory: a server process that is stopped
 * (SIGSTOP) hears nothing and finishes later what it had begun. Its heart has not missed enough beats to be taken for
 * dead unless a test waits for that. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "server.h"

#define MIB      ((size_t)1 << 20)
#define SHORT_NS 200000000ull
#define VALUE    (16 * MIB)
#define WAIT_NS  20000000000ull

static const struct test_server *const one[] = {&test_first}, *const two[] = {&test_first, &test_second};

/* However a test ended. */
static int let_go(void **state)
{
	(void)state;
	if (test_first.pid)
		test_server_cont(&test_first);
	if (test_second.pid)
		test_server_cont(&test_second);
	return 0;
}

static void need_server(void)
{
	test_server_need(&test_first);
}

static struct kvc_pool *pool_open(const struct test_server *const *servers, unsigned n, uint64_t buffer_bytes)
{
	struct kvc_options o = test_options(servers, n, 1);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	o.buffer_bytes = buffer_bytes;
	if (kvc_pool_open(&o, &pool, &err) < 0)
		fail_msg("%s", err.text);
	return pool;
}

static struct kvc_pool *pool_open_clients(const struct test_server *const *servers, unsigned n, unsigned clients)
{
	struct kvc_options o = test_options(servers, n, clients);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	o.buffer_bytes = 64 * MIB;
	if (kvc_pool_open(&o, &pool, &err) < 0)
		fail_msg("%s", err.text);
	return pool;
}

static struct kvc_counters counters(struct kvc_pool *pool)
{
	struct kvc_counters n = {.size = sizeof(n)};
	assert_int_equal(kvc_counters(pool, &n), 0);
	return n;
}

/* Until the quarantine is empty. */
static void quarantine_wait(struct kvc_pool *pool)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	while (counters(pool).quarantined_bytes > 0 && kv_clock_now(&kv_clock_monotonic) < until)
		usleep(10000);
	assert_int_equal(counters(pool).quarantined_bytes, 0);
}

static struct kvc_call brief(void)
{
	return (struct kvc_call){.size = sizeof(struct kvc_call), .timeout_ns = SHORT_NS};
}

#define KEY(text) ((struct kvc_key){text, sizeof(text) - 1})

static void a_piece_of_a_call_given_up_is_quarantined_until_the_server_answers(void **state)
{
	static uint8_t buf[100000];
	struct kvc_call call = brief();
	struct kvc_pool *pool;
	(void)state;
	need_server();
	pool = pool_open(one, 1, 64 * MIB);
	test_fill(buf, sizeof(buf), 1);
	assert_int_equal(kvc_put(pool, KEY("quarantine"), buf, sizeof(buf), NULL), 0);
	test_server_stop(&test_first);
	assert_int_equal(kvc_get(pool, KEY("quarantine"), buf, sizeof(buf), &call), -KV_ETIMEOUT);
	assert_int_equal(counters(pool).quarantined_bytes, 131072);
	assert_int_equal(counters(pool).timeouts, 1);
	assert_int_equal(counters(pool).cancels, 1);
	test_server_cont(&test_first);
	quarantine_wait(pool);
	assert_int_equal(counters(pool).fences, 0);
	assert_int_equal(kvc_get(pool, KEY("quarantine"), buf, sizeof(buf), NULL), sizeof(buf));
	assert_true(test_same(buf, sizeof(buf), 1));
	assert_int_equal(kvc_delete(pool, KEY("quarantine"), NULL), 0);
	kvc_pool_close(&pool);
}

static void a_full_quarantine_is_ended_by_a_fence(void **state)
{
	static uint8_t buf[100000];
	struct kvc_call call = brief();
	struct kvc_pool *pool;
	(void)state;
	need_server();
	pool = pool_open(one, 1, MIB); /* a quarter of it: two pieces */
	call.timeout_ns = 50000000;
	assert_int_equal(kvc_put(pool, KEY("fence"), buf, sizeof(buf), NULL), 0);
	test_server_stop(&test_first);
	for (int i = 0; i < 2; i++)
		assert_int_equal(kvc_get(pool, KEY("fence"), buf, sizeof(buf), &call), -KV_ETIMEOUT);
	assert_int_equal(counters(pool).quarantined_bytes, 262144);
	assert_int_equal(counters(pool).fences, 0);
	assert_int_equal(kvc_get(pool, KEY("fence"), buf, sizeof(buf), &call), -KV_ETIMEOUT);
	assert_int_equal(counters(pool).fences, 1);
	quarantine_wait(pool); /* on EFA until the endpoint is closed */
	test_server_cont(&test_first);
	assert_int_equal(kvc_get(pool, KEY("fence"), buf, sizeof(buf), NULL), sizeof(buf));
	assert_int_equal(kvc_delete(pool, KEY("fence"), NULL), 0);
	kvc_pool_close(&pool);
}

static void registered_memory_is_not_touched_after_a_put_was_given_up(void **state)
{
	struct kvc_call call = brief();
	uint8_t *buf = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kvc_pool *pool;
	struct kvc_mem *mem;
	struct kv_error err;
	int64_t rc;
	(void)state;
	need_server();
	pool = pool_open(one, 1, 64 * MIB);
	assert_int_equal(kvc_register(pool, buf, 4 * MIB, &mem, &err), 0);
	test_fill(buf, 4 * MIB, 5);
	test_server_stop(&test_first);
	assert_int_equal(kvc_put(pool, KEY("reput"), buf, 4 * MIB, &call), -KV_ETIMEOUT);
	/* What a late reader would see now must not be stored. */
	memset(buf, 0, 4 * MIB);
	test_server_cont(&test_first);
	rc = kvc_get(pool, KEY("reput"), buf, 4 * MIB, NULL);
	assert_true(rc == -KV_ENOTFOUND || (rc == (int64_t)(4 * MIB) && test_same(buf, 4 * MIB, 5)));
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	kvc_delete(pool, KEY("reput"), NULL);
	kvc_pool_close(&pool);
	munmap(buf, 4 * MIB);
}

static void every_item_of_a_batch_ends(void **state)
{
	enum { N = 300 };
	static char text[N][32];
	static struct kvc_item items[N];
	static uint8_t buf[N][5000];
	struct kvc_call call = brief();
	struct kvc_pool *pool;
	(void)state;
	need_server();
	pool = pool_open(one, 1, 64 * MIB);
	for (unsigned i = 0; i < N; i++) {
		int len = snprintf(text[i], sizeof(text[i]), "batch/%u", i);
		items[i] = (struct kvc_item){.key = {text[i], (size_t)len}, .data = buf[i], .len = sizeof(buf[i])};
	}
	assert_int_equal(kvc_put_batch(pool, items, N, NULL), 0);
	test_server_stop(&test_first);
	assert_int_equal(kvc_get_batch(pool, items, N, &call), -KV_ETIMEOUT);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(items[i].result, -KV_ETIMEOUT);
	test_server_cont(&test_first);
	quarantine_wait(pool);
	assert_int_equal(kvc_get_batch(pool, items, N, NULL), 0);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_delete(pool, items[i].key, NULL), 0);
	kvc_pool_close(&pool);
}

/* ---- closing under calls ---- */

struct caller {
	struct kvc_pool *pool;
	int64_t rc;
};

static void *call_main(void *arg)
{
	struct caller *c = arg;
	static uint8_t buf[100000];
	c->rc = kvc_get(c->pool, KEY("close"), buf, sizeof(buf), NULL);
	return NULL;
}

static void closing_ends_calls_in_progress(void **state)
{
	static uint8_t buf[100000];
	struct caller c = {0};
	pthread_t thread;
	(void)state;
	need_server();
	c.pool = pool_open(one, 1, 64 * MIB);
	assert_int_equal(kvc_put(c.pool, KEY("close"), buf, sizeof(buf), NULL), 0);
	test_server_stop(&test_first);
	assert_int_equal(pthread_create(&thread, NULL, call_main, &c), 0);
	usleep(100000);
	kvc_pool_close(&c.pool); /* the call's own deadline is 20 s away */
	pthread_join(thread, NULL);
	assert_int_equal(c.rc, -KV_ECLOSED);
	test_server_cont(&test_first);
	c.pool = pool_open(one, 1, 64 * MIB);
	assert_int_equal(kvc_delete(c.pool, KEY("close"), NULL), 0);
	kvc_pool_close(&c.pool);
}

/* ---- a batch that never begins ---- */

struct hog {
	_Atomic bool stop, begun;
};

/* Keeps the loop from turning. */
static void hog_worker(struct kvc_client *client, unsigned w, void *arg)
{
	struct hog *h = arg;
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	(void)client, (void)w;
	h->begun = true;
	while (!h->stop && kv_clock_now(&kv_clock_monotonic) < until)
		usleep(1000);
}

static void *hog_main(void *arg)
{
	void **a = arg;
	kvc_run(a[0], 1, hog_worker, a[1]);
	return NULL;
}

static void items_check(struct kvc_item *items, int rc, int code)
{
	assert_int_equal(rc, code);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(items[i].result, code);
		items[i].result = 0; /* as a caller may have left it: a value of 0 bytes */
	}
}

static void a_batch_that_never_begins_tells_every_item(void **state)
{
	const struct kvc_call bad = {.size = sizeof(bad), .flags = ~0u};
	struct kvc_item items[3] = {{.key = KEY("x")}, {.key = KEY("y")}, {.key = KEY("z")}};
	struct kvc_call call = brief();
	struct hog h = {false};
	struct kvc_pool *pool;
	pthread_t thread;
	(void)state;
	need_server();
	pool = pool_open(one, 1, 64 * MIB);
	items_check(items, kvc_get_batch(pool, items, 3, &bad), -KV_EINVAL);
	items_check(items, kvc_put_batch(pool, items, 3, &bad), -KV_EINVAL);
	assert_int_equal(pthread_create(&thread, NULL, hog_main, (void *[]){pool, &h}), 0);
	while (!h.begun)
		usleep(1000);
	items_check(items, kvc_get_batch(pool, items, 3, &call), -KV_ETIMEOUT);
	items_check(items, kvc_put_batch(pool, items, 3, &call), -KV_ETIMEOUT);
	h.stop = true;
	pthread_join(thread, NULL);
	kvc_pool_close(&pool);
}

/* ---- a fence because of one server, seen from the other ---- */

struct innocent {
	_Atomic bool stop;
	_Atomic unsigned done, failed;
	char key[64];
};

static void innocent_worker(struct kvc_client *client, unsigned w, void *arg)
{
	struct innocent *in = arg;
	uint8_t *buf = malloc(50000);
	(void)w;
	while (!in->stop) {
		int64_t rc = kvc_get_await(client, (struct kvc_key){in->key, strlen(in->key)}, buf, 50000, NULL);
		if (rc != 50000 || !test_same(buf, 50000, 3))
			in->failed++;
		in->done++;
	}
	free(buf);
}

static void *innocent_main(void *arg)
{
	void **a = arg;
	kvc_run(a[0], 8, innocent_worker, a[1]);
	return NULL;
}

/* A key that is stored on server `index`. */
static void key_on(struct kvc_pool *pool, unsigned index, char *key, size_t cap, const void *value, size_t len)
{
	for (unsigned i = 0;; i++) {
		struct kvc_call call = {.size = sizeof(call), .server = index};
		struct kvc_stat_item before[64], after[64];
		int n = snprintf(key, cap, "on-%u-%u-%zu-%llx", index, i, len,
				 (unsigned long long)kv_hash_block(
					 value, KV_MIN(len, (size_t)4096))); /* other tests keep other values */
		int k = kvc_stat(pool, before, KV_COUNT(before), &call);
		assert_int_equal(kvc_put(pool, (struct kvc_key){key, (size_t)n}, value, len, NULL), 0);
		assert_int_equal(kvc_stat(pool, after, KV_COUNT(after), &call), k);
		for (int j = 0; j < k; j++)
			if (strcmp(before[j].name, "blocks") == 0 && after[j].value > before[j].value)
				return;
		assert_true(i < 100);
	}
}

static void calls_to_other_servers_survive_a_fence(void **state)
{
	struct kvc_call call = brief();
	struct innocent in = {0};
	uint8_t *buf = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kvc_pool *pool;
	struct kvc_mem *mem;
	struct kv_error err;
	char guilty[64];
	pthread_t thread;
	unsigned done;
	void *args[2];
	(void)state;
	need_server();
	if (test_provider_is("shm")) {
		print_message("over shm what a server has under way to an endpoint that was fenced never ends, and "
			      "fills its links (docs/internals/providers.md)\n");
		skip();
	}
	pool = pool_open(two, 2, 64 * MIB);
	assert_int_equal(kvc_register(pool, buf, MIB, &mem, &err), 0);
	test_fill(buf, MIB, 3);
	key_on(pool, 0, in.key, sizeof(in.key), buf, 50000);
	key_on(pool, 1, guilty, sizeof(guilty), buf, MIB);
	args[0] = pool;
	args[1] = &in;
	assert_int_equal(pthread_create(&thread, NULL, innocent_main, args), 0);
	for (int i = 0; i < 3; i++) {
		test_server_stop(&test_second);
		assert_int_equal(kvc_get(pool, (struct kvc_key){guilty, strlen(guilty)}, buf, MIB, &call),
				 -KV_ETIMEOUT);
		test_server_cont(&test_second);
		assert_int_equal(kvc_get(pool, (struct kvc_key){guilty, strlen(guilty)}, buf, MIB, NULL), MIB);
		assert_true(test_same(buf, MIB, 3));
	}
	done = in.done;
	for (int i = 0; i < 1000 && in.done < done + 100; i++)
		usleep(10000);
	in.stop = true;
	pthread_join(thread, NULL);
	assert_true(in.done >= done + 100);
	assert_int_equal(in.failed, 0);
	assert_int_equal(counters(pool).fences, 3);
	if (!test_provider_speaks_tcp()) /* there the others are cut as well */
		assert_true(counters(pool).retries > 0);
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	kvc_pool_close(&pool);
	munmap(buf, MIB);
}

/* ---- the fence of one server alone ---- */

#define CANARY 0xc5

struct stalled_get {
	struct kvc_pool *pool;
	const char *key;
	uint8_t *to;
	int64_t rc;
};

static void *stalled_main(void *arg)
{
	struct stalled_get *g = arg;
	struct kvc_call call = brief();
	g->rc = kvc_get(g->pool, (struct kvc_key){g->key, strlen(g->key)}, g->to, VALUE, &call);
	return NULL;
}

static bool all_are(const uint8_t *p, size_t len, uint8_t byte)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != byte)
			return false;
	return true;
}

static struct kvc_server_info info_of(struct kvc_pool *pool, unsigned client, unsigned server)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	assert_int_equal(kvc_server_info(pool, client, server, &s), 0);
	return s;
}

/* Looks at memory that a transfer under way writes. Who embeds the client must not; here that it changes is what is
 * waited for, so ThreadSanitizer is told not to look. */
__attribute__((noinline, no_sanitize("thread"))) static uint8_t peek(const volatile uint8_t *p)
{
	return *p;
}

/* Of the guilty server, which is stopped when the first bytes are there. Whether it was soon enough for the call to
 * time out. */
static bool stall(struct kvc_pool *pool, const char *key, uint8_t *to)
{
	struct stalled_get g = {.pool = pool, .key = key, .to = to};
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + SHORT_NS / 2;
	pthread_t thread;
	memset(to, CANARY, VALUE);
	assert_int_equal(pthread_create(&thread, NULL, stalled_main, &g), 0);
	while (peek(to) == CANARY && kv_clock_now(&kv_clock_monotonic) < until)
		;
	test_server_stop(&test_second);
	pthread_join(thread, NULL);
	if (g.rc == -KV_ETIMEOUT)
		return true;
	assert_int_equal(g.rc, VALUE);
	return false;
}

/* Three servers, of which one is stopped again and again in the middle of GETs into registered memory. The others lose
 * neither a connection nor a session nor a call, and nothing of the one arrives late; continued, it is used again. */
static void a_stalled_server_costs_the_others_nothing(void **state)
{
	enum { STALLS = 3, TRIES = 60, CLIENTS = 2 };
	struct test_server third = {0};
	const struct test_server *const three[] = {&test_first, &test_second, &third};
	struct innocent in[2] = {0};
	uint8_t *buf = mmap(NULL, VALUE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kvc_pool *pool;
	struct kvc_mem *mem;
	struct kv_error err;
	char guilty[64];
	pthread_t thread[2];
	void *args[2][2];
	unsigned stalls = 0;
	(void)state;
	need_server();
	if (!test_provider_speaks_tcp()) {
		print_message("only behind a doorkeeper can one server be fenced alone\n");
		skip();
	}
	test_server_up(&third, "three");
	pool = pool_open_clients(three, 3, CLIENTS);
	assert_int_equal(kvc_register(pool, buf, VALUE, &mem, &err), 0);
	test_fill(buf, VALUE, 3);
	for (unsigned i = 0; i < 2; i++) {
		key_on(pool, 2 * i, in[i].key, sizeof(in[i].key), buf, 50000);
		args[i][0] = pool;
		args[i][1] = &in[i];
		assert_int_equal(pthread_create(&thread[i], NULL, innocent_main, args[i]), 0);
	}
	key_on(pool, 1, guilty, sizeof(guilty), buf, VALUE);
	for (unsigned i = 0; i < TRIES && stalls < STALLS; i++) {
		bool stalled = stall(pool, guilty, buf);
		if (stalled) {
			memset(buf, CANARY, VALUE);
			stalls++;
		}
		test_server_cont(&test_second);
		if (!stalled)
			continue;
		/* It finishes what it had begun, and is used again. */
		usleep(100000);
		assert_true(all_are(buf, VALUE, CANARY));
		assert_int_equal(kvc_get(pool, (struct kvc_key){guilty, strlen(guilty)}, buf, VALUE, NULL), VALUE);
		assert_true(test_same(buf, VALUE, 3));
	}
	assert_int_equal(stalls, STALLS);
	for (unsigned i = 0; i < 2; i++) {
		in[i].stop = true;
		pthread_join(thread[i], NULL);
		assert_true(in[i].done > 0);
		assert_int_equal(in[i].failed, 0);
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		assert_int_equal(info_of(pool, i, 0).attaches, 1);
		assert_int_equal(info_of(pool, i, 2).attaches, 1);
		assert_int_equal(info_of(pool, i, 0).fences + info_of(pool, i, 2).fences, 0);
	}
	assert_true(info_of(pool, 0, 1).fences + info_of(pool, 1, 1).fences >= STALLS);
	assert_int_equal(counters(pool).fences, info_of(pool, 0, 1).fences + info_of(pool, 1, 1).fences);
	assert_true(counters(pool).reattaches >= STALLS);
	assert_int_equal(counters(pool).reconnects, 0); /* not even to that one */
	assert_int_equal(counters(pool).quarantined_bytes, 0);
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	kvc_pool_close(&pool);
	test_server_kill(&third);
	munmap(buf, VALUE);
}

/* The kernel accepts the connection, and nobody answers the hello. */
static void opening_ends_when_the_server_is_stopped(void **state)
{
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	need_server();
	o = test_options(one, 1, 2);
	o.connect_timeout_ns = SHORT_NS;
	test_server_stop(&test_first);
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_ETIMEOUT);
	assert_null(pool);
	if (!strstr(err.text, test_first.address))
		fail_msg("\"%s\" does not name the server", err.text);
	test_server_cont(&test_first);
}

/* What the caller saw while a pool opened. */
struct opening {
	unsigned looks, open, up;
	unsigned give_up_at; /* clients open; 0: never */
	bool backwards;
};

static bool opening_look(void *arg, unsigned clients_open, unsigned clients_up)
{
	struct opening *s = arg;
	s->looks++;
	s->backwards |= clients_open < s->open || clients_up < s->up || clients_up > clients_open;
	s->open = clients_open;
	s->up = clients_up;
	return s->give_up_at == 0 || clients_open < s->give_up_at;
}

static void opening_shows_how_far_it_is(void **state)
{
	struct opening seen = {0};
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	(void)state;
	need_server();
	o = test_options(one, 1, 5);
	o.buffer_bytes = MIB;
	o.opening = opening_look;
	o.opening_arg = &seen;
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	assert_in_range(seen.looks, 1, 1000000);
	assert_int_equal(seen.open, 5);
	assert_int_equal(seen.up, 5);
	assert_false(seen.backwards);
	kvc_pool_close(&pool);
}

/* A server that says nothing keeps it open long enough to look. */
static void opening_can_be_given_up(void **state)
{
	struct opening seen = {.give_up_at = 1};
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	need_server();
	o = test_options(one, 1, 2);
	o.opening = opening_look;
	o.opening_arg = &seen;
	test_server_stop(&test_first);
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_ECANCELED);
	test_server_cont(&test_first);
	assert_null(pool);
	assert_non_null(strstr(err.text, "of 2 clients open"));
	assert_int_equal(seen.up, 0);
}

/* One loop, which opens one client after the other: what is short for the first is not tried for the rest. */
static void the_first_client_that_fails_ends_opening(void **state)
{
	struct opening seen = {0};
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	if (!test_provider_is("tcp") && !test_provider_is("tcp-native")) {
		print_message("what makes opening fail is a setting of tcp's\n");
		skip();
	}
	need_server();
	o = test_options(one, 1, 3);
	o.num_threads = 1;
	o.opening = opening_look;
	o.opening_arg = &seen;
	assert_int_equal(setenv("FI_TCP_ZEROCOPY_SIZE", "4096", 1),
			 0); /* refused by the engine, not by the pre-flight */
	int rc = kvc_pool_open(&o, &pool, &err);
	unsetenv("FI_TCP_ZEROCOPY_SIZE");
	assert_int_equal(rc, -KV_ENOTSUP);
	assert_non_null(strstr(err.text, "client 0"));
	assert_int_equal(seen.open, 0);
	assert_null(pool);
}

static void a_server_that_stands_still_for_long_is_down_and_comes_back(void **state)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	struct kvc_call call = brief();
	struct kvc_pool *pool;
	char b[8];
	int64_t rc;
	(void)state;
	need_server();
	pool = pool_open(one, 1, MIB);
	assert_int_equal(kvc_put(pool, KEY("still"), "1234567", 8, NULL), 0);
	test_server_stop(&test_first);
	while ((rc = kvc_get(pool, KEY("still"), b, 8, &call)) != -KV_EPEERDOWN &&
	       kv_clock_now(&kv_clock_monotonic) < until)
		assert_int_equal(rc, -KV_ETIMEOUT);
	assert_int_equal(rc, -KV_EPEERDOWN);
	test_server_cont(&test_first);
	until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	while ((rc = kvc_get(pool, KEY("still"), b, 8, &call)) != 8 && kv_clock_now(&kv_clock_monotonic) < until)
		usleep(10000);
	assert_int_equal(rc, 8);
	assert_true(counters(pool).reconnects >= 1);
	assert_int_equal(kvc_delete(pool, KEY("still"), NULL), 0);
	kvc_pool_close(&pool);
}

/* ---- control connections outlive their sessions ---- */

static uint64_t stat_at(struct kvc_pool *pool, unsigned server, const char *name)
{
	struct kvc_call call = {.size = sizeof(call), .server = server};
	struct kvc_stat_item item[256];
	int n = kvc_stat(pool, item, KV_COUNT(item), &call);
	for (int i = 0; i < n; i++)
		if (strcmp(item[i].name, name) == 0)
			return item[i].value;
	fail_msg("no counter %s of server %u", name, server);
	return 0;
}

static struct kvc_server_info server_info(struct kvc_pool *pool, unsigned server)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	assert_int_equal(kvc_server_info(pool, 0, server, &s), 0);
	return s;
}

/* Calls into memory of the caller to a server that is stopped, the second, make fences. Neither server accepts one more
 * connection, whatever sessions that costs. */
static void fences_keep_them(const struct test_server *const *servers, struct test_server *stopped,
			     const char *psk_file)
{
	enum { FENCES = 4 };
	struct kvc_call call = brief();
	struct kvc_options o = test_options(servers, 2, 1);
	uint8_t *buf = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	struct kvc_mem *mem;
	char guilty[64], other[64];
	uint64_t accepted[2];
	o.psk_file = psk_file;
	o.peer_timeout_ns = o.connect_timeout_ns =
		60 * 1000000000ull; /* this machine may be slow, and that is no silence */
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	assert_int_equal(kvc_register(pool, buf, MIB, &mem, &err), 0);
	test_fill(buf, MIB, 3);
	key_on(pool, 0, other, sizeof(other), buf, 50000);
	key_on(pool, 1, guilty, sizeof(guilty), buf, MIB);
	for (unsigned i = 0; i < 2; i++)
		accepted[i] = stat_at(pool, i, "handshakes");
	for (unsigned i = 0; i < FENCES; i++) {
		test_server_stop(stopped);
		assert_int_equal(kvc_get(pool, (struct kvc_key){guilty, strlen(guilty)}, buf, MIB, &call),
				 -KV_ETIMEOUT);
		assert_int_equal(kvc_get(pool, (struct kvc_key){other, strlen(other)}, buf, MIB, NULL), 50000);
		assert_true(test_same(buf, 50000, 3));
		test_server_cont(stopped);
		assert_int_equal(kvc_get(pool, (struct kvc_key){guilty, strlen(guilty)}, buf, MIB, NULL), MIB);
		assert_true(test_same(buf, MIB, 3));
	}
	assert_int_equal(counters(pool).fences, FENCES);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(server_info(pool, i).connects, 1);
		assert_int_equal(stat_at(pool, i, "handshakes"), accepted[i]);
	}
	assert_int_equal(stat_at(pool, 0, "sessions"), 1);
	assert_int_equal(counters(pool).reconnects, 0);
	/* The guilty one's session was made again, the other's where a fence is one of all. */
	assert_int_equal(counters(pool).reattaches, server_info(pool, 0).attaches + server_info(pool, 1).attaches - 2);
	assert_true(server_info(pool, 1).attaches >= 1 + FENCES);
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	kvc_pool_close(&pool);
	munmap(buf, MIB);
}

static void need_fences(void)
{
	need_server();
	if (test_provider_is("shm")) {
		print_message("over shm what a server has under way to an endpoint that was fenced never ends, and "
			      "fills its links (docs/internals/providers.md)\n");
		skip();
	}
}

static void fences_keep_the_control_connections(void **state)
{
	(void)state;
	need_fences();
	fences_keep_them(two, &test_second, NULL);
}

/* With TLS, whose exporter has one value for all sessions of a connection. */
static void fences_keep_the_control_connections_with_tls(void **state)
{
	static const char key[] = "test:00112233445566778899aabbccddeeff\n";
	static struct test_server with_key[2];
	static const struct test_server *const pair[] = {&with_key[0], &with_key[1]};
	char path[] = "/tmp/kvrail-psk-XXXXXX";
	const char *const more[] = {"--psk-file", path, NULL};
	int fd;
	(void)state;
	need_fences();
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, key, sizeof(key) - 1), sizeof(key) - 1);
	close(fd);
	test_server_start_with(&with_key[0], "tls-one", more);
	test_server_start_with(&with_key[1], "tls-two", more);
	fences_keep_them(pair, &with_key[1], path);
	test_server_kill(&with_key[0]);
	test_server_kill(&with_key[1]);
	unlink(path);
}

/* ---- shm: what it cannot do is said ---- */

struct heard {
	_Atomic unsigned warned, lost;
};

static void hear(void *arg, int level, const char *line)
{
	struct heard *h = arg;
	(void)level;
	h->warned += strstr(line, "leaves a lock taken") != NULL;
	h->lost += strstr(line, "use provider tcp where servers may die") != NULL;
}

/* It is killed at rest, when it holds no lock: what can be promised then is that calls end. */
static void on_shm_a_killed_server_ends_calls_and_the_way_out_is_said(void **state)
{
	static struct test_server server;
	static const struct test_server *const list[] = {&server};
	struct kvc_call call = brief();
	struct heard heard = {0};
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	const char *before = getenv("KVRAIL_TEST_PROVIDER");
	char value[8] = "1234567", *keep = before ? strdup(before) : NULL;
	uint64_t until;
	int rc;
	(void)state;
	need_server();
	if (access("/dev/shm", W_OK) != 0) {
		print_message("/dev/shm is not there\n");
		skip();
	}
	setenv("KVRAIL_TEST_PROVIDER", "shm", 1);
	test_server_start(&server, "shm");
	o = test_options(list, 1, 1);
	o.log = hear;
	o.log_arg = &heard;
	rc = kvc_pool_open(&o, &pool, &err);
	if (keep)
		setenv("KVRAIL_TEST_PROVIDER", keep, 1);
	else
		unsetenv("KVRAIL_TEST_PROVIDER");
	free(keep);
	if (rc < 0)
		fail_msg("%s", err.text);
	assert_int_equal(heard.warned, 1);
	assert_int_equal(kvc_put(pool, KEY("shm"), value, sizeof(value), NULL), 0);
	test_server_kill(&server);
	until = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	while ((rc = kvc_put(pool, KEY("shm"), value, sizeof(value), &call)) != -KV_EPEERDOWN &&
	       kv_clock_now(&kv_clock_monotonic) < until)
		assert_int_equal(rc, -KV_ETIMEOUT);
	assert_int_equal(rc, -KV_EPEERDOWN);
	assert_int_equal(heard.lost, 1);
	kvc_pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_piece_of_a_call_given_up_is_quarantined_until_the_server_answers, let_go),
		cmocka_unit_test_teardown(a_full_quarantine_is_ended_by_a_fence, let_go),
		cmocka_unit_test_teardown(registered_memory_is_not_touched_after_a_put_was_given_up, let_go),
		cmocka_unit_test_teardown(every_item_of_a_batch_ends, let_go),
		cmocka_unit_test_teardown(a_batch_that_never_begins_tells_every_item, let_go),
		cmocka_unit_test_teardown(closing_ends_calls_in_progress, let_go),
		cmocka_unit_test_teardown(calls_to_other_servers_survive_a_fence, let_go),
		cmocka_unit_test_teardown(a_stalled_server_costs_the_others_nothing, let_go),
		cmocka_unit_test_teardown(fences_keep_the_control_connections, let_go),
		cmocka_unit_test(fences_keep_the_control_connections_with_tls),
		cmocka_unit_test_teardown(opening_ends_when_the_server_is_stopped, let_go),
		cmocka_unit_test_teardown(opening_shows_how_far_it_is, let_go),
		cmocka_unit_test_teardown(opening_can_be_given_up, let_go),
		cmocka_unit_test_teardown(the_first_client_that_fails_ends_opening, let_go),
		cmocka_unit_test_teardown(a_server_that_stands_still_for_long_is_down_and_comes_back, let_go),
		cmocka_unit_test_teardown(on_shm_a_killed_server_ends_calls_and_the_way_out_is_said, let_go),
	};
	return cmocka_run_group_tests(tests, test_two_up, test_two_down);
}
