/* SPDX-License-Identifier: Apache-2.0 */
/* test_fence.c -- calls that are given up, and what becomes of their memory: a server process that is stopped (SIGSTOP)
 * hears nothing and finishes later what it had begun. No test lasts so long that its silence counts. */
#include "calls.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define VALUE (16 * MIB)

static void a_piece_of_a_call_given_up_is_quarantined_until_the_server_answers(void **state)
{
	static uint8_t buf[100000];
	struct kvc_call call = brief();
	struct kvc_pool *pool;
	(void)state;
	need_server();
	pool = pool_open(one, 1, 1, 64 * MIB);
	test_fill(buf, sizeof(buf), 1);
	assert_int_equal(kvc_put(pool, NAMED("quarantine"), buf, sizeof(buf), NULL), 0);
	test_server_stop(&test_first);
	assert_int_equal(kvc_get(pool, NAMED("quarantine"), buf, sizeof(buf), &call), -KV_ETIMEOUT);
	assert_int_equal(counters(pool).quarantined_bytes, 131072);
	assert_int_equal(counters(pool).timeouts, 1);
	assert_int_equal(counters(pool).cancels, 1);
	test_server_cont(&test_first);
	quarantine_wait(pool);
	assert_int_equal(counters(pool).fences, 0);
	assert_int_equal(kvc_get(pool, NAMED("quarantine"), buf, sizeof(buf), NULL), sizeof(buf));
	assert_true(test_same(buf, sizeof(buf), 1));
	assert_int_equal(kvc_delete(pool, NAMED("quarantine"), NULL), 0);
	kvc_pool_close(&pool);
}

static void a_full_quarantine_is_ended_by_a_fence(void **state)
{
	static uint8_t buf[100000];
	struct kvc_call call = brief();
	struct kvc_pool *pool;
	(void)state;
	need_server();
	pool = pool_open(one, 1, 1, MIB); /* a quarter of it: two pieces */
	call.timeout_ns = 50000000;
	assert_int_equal(kvc_put(pool, NAMED("fence"), buf, sizeof(buf), NULL), 0);
	test_server_stop(&test_first);
	for (int i = 0; i < 2; i++)
		assert_int_equal(kvc_get(pool, NAMED("fence"), buf, sizeof(buf), &call), -KV_ETIMEOUT);
	assert_int_equal(counters(pool).quarantined_bytes, 262144);
	assert_int_equal(counters(pool).fences, 0);
	assert_int_equal(kvc_get(pool, NAMED("fence"), buf, sizeof(buf), &call), -KV_ETIMEOUT);
	assert_int_equal(counters(pool).fences, 1);
	quarantine_wait(pool); /* on EFA until the endpoint is closed */
	test_server_cont(&test_first);
	assert_int_equal(kvc_get(pool, NAMED("fence"), buf, sizeof(buf), NULL), sizeof(buf));
	assert_int_equal(kvc_delete(pool, NAMED("fence"), NULL), 0);
	kvc_pool_close(&pool);
}

static void a_server_that_stands_still_is_a_timeout_by_the_deadline(void **state)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 300000000ull};
	uint8_t *buf = memory(MIB);
	struct kvc_counters n = {.size = sizeof(n)};
	struct kvc_mem *mem;
	struct kv_error err;
	struct kvc_pool *p;
	uint64_t until;
	int64_t rc;
	(void)state;
	need_server();
	p = test_pool(&two[1], 1, 1);
	assert_int_equal(kvc_register(p, buf, MIB, &mem, &err), 0);
	test_fill(buf, MIB, 9);
	assert_int_equal(kvc_put(p, KEY(0), buf, MIB, NULL), 0);
	test_server_stop(&test_second);
	/* Into the caller's registered memory: it is fenced before the call returns. */
	rc = kvc_get(p, KEY(0), buf, MIB, &call);
	assert_true(rc == -KV_ETIMEOUT || rc == -KV_EPEERDOWN);
	memset(buf, 0xAB, MIB);
	test_server_cont(&test_second);
	until = now_ns() + 20000000000ull;
	while ((rc = kvc_get(p, (struct kvc_key){"still/none", 10}, buf, MIB, NULL)) != -KV_ENOTFOUND &&
	       now_ns() < until)
		usleep(20000);
	assert_int_equal(rc, -KV_ENOTFOUND);
	for (size_t i = 0; i < MIB; i++)
		assert_int_equal(buf[i], 0xAB);
	assert_int_equal(kvc_get(p, KEY(0), buf, MIB, NULL), MIB);
	assert_true(test_same(buf, MIB, 9));
	assert_int_equal(kvc_counters(p, &n), 0);
	assert_true(n.fences >= 1);
	assert_int_equal(kvc_unregister(p, &mem), 0);
	kvc_pool_close(&p);
	munmap(buf, MIB);
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

static void need_fences(void)
{
	need_server();
	if (test_provider_is("shm")) {
		print_message("over shm what a server has under way to an endpoint that was fenced never ends, and "
			      "fills its links (docs/internals/providers.md)\n");
		skip();
	}
}

static void calls_to_other_servers_survive_a_fence(void **state)
{
	struct kvc_call call = brief();
	struct kvc_options o = test_options(two, 2, 1);
	struct innocent in = {0};
	uint8_t *buf = memory(MIB);
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
	/* An endpoint over EFA is closed for seconds while the server stands still. If the client took it for dead
	 * then, the other server would be asked for its key. */
	if (test_provider_is("efa"))
		o.peer_timeout_ns = 60 * 1000000000ull;
	o.buffer_bytes = 64 * MIB;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
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

/* Looks at memory that a transfer under way writes. A program that embeds the client must not; here the test waits for
 * the change, so ThreadSanitizer is told not to look. */
__attribute__((noinline, no_sanitize("thread"))) static uint8_t peek(const volatile uint8_t *p)
{
	return *p;
}

/* Of the guilty server, which is stopped when the first bytes are there. Whether it was soon enough for the call to
 * time out. */
static bool stall(struct kvc_pool *pool, const char *key, uint8_t *to)
{
	struct stalled_get g = {.pool = pool, .key = key, .to = to};
	uint64_t until = now_ns() + SHORT_NS / 2;
	pthread_t thread;
	memset(to, CANARY, VALUE);
	assert_int_equal(pthread_create(&thread, NULL, stalled_main, &g), 0);
	while (peek(to) == CANARY && now_ns() < until)
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
	uint8_t *buf = memory(VALUE);
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
	pool = pool_open(three, 3, CLIENTS, 64 * MIB);
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
		/* The server finishes what it had begun, and is used again. */
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

/* ---- control connections outlive their attachments ---- */

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

/* Lines that say that this server was cut off. */
static const char *cut_entry;
static _Atomic unsigned cuts;

static void cuts_count(void *arg, int level, const char *line)
{
	(void)arg;
	(void)level;
	cuts += strstr(line, " was cut off, and is connected again") && strstr(line, cut_entry);
}

/* Calls into memory of the caller to a server that is stopped, the second, make fences. Neither server accepts one more
 * connection, whatever sessions that costs. */
static void fences_keep_them(const struct test_server *const *servers, struct test_server *stopped,
			     const char *psk_file)
{
	enum { FENCES = 4 };
	struct kvc_call call = brief();
	struct kvc_options o = test_options(servers, 2, 1);
	uint8_t *buf = memory(MIB);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	struct kvc_mem *mem;
	char guilty[64], other[64];
	uint64_t accepted[2];
	struct kvc_info info = {.size = sizeof(info)};
	o.psk_file = psk_file;
	o.log_level = 3;
	o.log = cuts_count;
	cut_entry = servers[1]->entry;
	cuts = 0;
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
		assert_int_equal(info_of(pool, 0, i).connects, 1);
		assert_int_equal(stat_at(pool, i, "handshakes"), accepted[i]);
	}
	assert_int_equal(stat_at(pool, 0, "sessions"), 1);
	assert_int_equal(counters(pool).reconnects, 0);
	/* The guilty one's session was made again, the other's where a fence is one of all. */
	assert_int_equal(counters(pool).reattaches, info_of(pool, 0, 0).attaches + info_of(pool, 0, 1).attaches - 2);
	assert_true(info_of(pool, 0, 1).attaches >= 1 + FENCES);
	assert_int_equal(kvc_info(pool, &info), 0);
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	kvc_pool_close(&pool);
	munmap(buf, MIB);
	if (info.no_door[0] == '\0') /* the server alone was fenced, and the log says which */
		assert_int_equal(cuts, FENCES);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_piece_of_a_call_given_up_is_quarantined_until_the_server_answers, let_go),
		cmocka_unit_test_teardown(a_full_quarantine_is_ended_by_a_fence, let_go),
		cmocka_unit_test_teardown(a_server_that_stands_still_is_a_timeout_by_the_deadline, let_go),
		cmocka_unit_test_teardown(calls_to_other_servers_survive_a_fence, let_go),
		cmocka_unit_test_teardown(a_stalled_server_costs_the_others_nothing, let_go),
		cmocka_unit_test_teardown(fences_keep_the_control_connections, let_go),
		cmocka_unit_test(fences_keep_the_control_connections_with_tls),
	};
	test_local = KVC_LOCAL_OFF;
	return cmocka_run_group_tests(tests, test_two_up, test_two_down);
}
