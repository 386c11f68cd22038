/* SPDX-License-Identifier: Apache-2.0 */
/* test_outage.c -- kv-server processes that are killed, or stopped until their silence counts: their calls end, and
 * those to the other server go on. */
#include "calls.h"

#include <pthread.h>
#include <unistd.h>

/* Set-up of each test: both servers, whatever the one before did to them. */
static int both_up(void **state)
{
	(void)state;
	if (test_server_binary() && !test_first.pid)
		test_server_start(&test_first, "first");
	if (test_server_binary() && !test_second.pid)
		test_server_start(&test_second, "second");
	return 0;
}

static void keys_are_spread_over_two_servers(void **state)
{
	enum { N = 200 };
	static char text[N][32];
	static struct kvc_key keys[N];
	struct kvc_stat_item items[64];
	struct kvc_pool *p;
	unsigned prefix;
	char b[8];
	(void)state;
	need_server();
	p = test_pool(two, 2, 2);
	for (unsigned i = 0; i < N; i++) {
		keys[i] = key_of(text[i], sizeof(text[i]), "spread", i);
		assert_int_equal(kvc_put(p, keys[i], "12345678", 8, NULL), 0);
	}
	assert_int_equal(kvc_exists(p, keys, N, NULL, &prefix, NULL), 0);
	assert_int_equal(prefix, N);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_get(p, keys[i], b, 8, NULL), 8);
	/* The second server has its share. */
	for (int i = 0, n = kvc_stat(p, items, KV_COUNT(items),
				     &(struct kvc_call){.size = sizeof(struct kvc_call), .server = 1});
	     i < n; i++)
		if (strcmp(items[i].name, "blocks") == 0)
			assert_true(items[i].value > N / 4 && items[i].value < 3 * N / 4);
	kvc_pool_close(&p);
}

static void a_killed_server_is_stood_in_for_by_the_other(void **state)
{
	enum { N = 60 };
	struct kvc_options o;
	struct kvc_server_info info = {.size = sizeof(info)};
	struct kvc_pool *p = NULL;
	struct kv_error err;
	unsigned up = 0, down = 0, back = 0;
	uint64_t begun, until;
	char b[8];
	(void)state;
	need_server();
	o = test_options(two, 2, 2);
	o.timeout_ns = 5000000000ull;
	assert_int_equal(kvc_pool_open(&o, &p, &err), 0);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_put(p, KEY(i), "12345678", 8, NULL), 0);
	test_server_kill(&test_second);
	begun = now_ns();
	for (unsigned i = 0; i < N; i++) {
		int64_t rc = kvc_get(p, KEY(i), b, 8, NULL);
		assert_true(rc == 8 || rc == -KV_ENOTFOUND);
		up += rc == 8;
		down += rc != 8;
	}
	assert_true(up > 0 && down > 0);
	assert_true(counters(p).stand_ins >= down);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_put(p, KEY(i), "12345678", 8, NULL), 0);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_get(p, KEY(i), b, 8, NULL), 8);
	assert_int_equal(kvc_server_info(p, 0, 1, &info), 0);
	assert_int_equal(info.state, KVC_SERVER_DOWN);
	assert_true(info.avoided_ns > 0);
	assert_int_equal(counters(p).errors, 0);
	/* Not one of them waited for its deadline after the first ones. */
	assert_true(now_ns() - begun < 4 * 5000000000ull);
	test_server_start(&test_second, "second");
	until = now_ns() + 20000000000ull;
	while (back < down && now_ns() < until) {
		back = 0;
		for (unsigned i = 0; i < N; i++)
			back += kvc_get(p, KEY(i), b, 8, NULL) == -KV_ENOTFOUND; /* it came back empty */
		usleep(20000);
	}
	assert_int_equal(back, down);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_put(p, KEY(i), "12345678", 8, NULL), 0);
	assert_int_equal(kvc_server_info(p, 0, 0, &info), 0);
	assert_int_equal(info.avoided_ns, 0);
	kvc_pool_close(&p);
}

static void *kill_later(void *arg)
{
	usleep(200000);
	test_server_kill(arg);
	return NULL;
}

static void storm_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	uint8_t *buf = malloc(MIB);
	char text[64];
	uint64_t until = now_ns() + 1500000000ull;
	job->ran++;
	for (unsigned i = 0; now_ns() < until; i++) {
		struct kvc_key key = key_of(text, sizeof(text), "storm", w * 100000 + i % 20);
		int64_t rc = kvc_put_await(c, key, buf, 300000, NULL);
		EXPECT(rc == 0 || rc == -KV_ENOMEM);
		rc = kvc_get_await(c, key, buf, MIB, NULL);
		EXPECT(rc == 300000 || rc == -KV_ENOTFOUND);
	}
	free(buf);
}

static void a_server_killed_under_load_fails_no_call(void **state)
{
	struct workers job = {0};
	pthread_t killer;
	struct kvc_pool *p;
	(void)state;
	need_server();
	if (test_provider_is("shm")) {
		print_message("over shm a process that is killed under load may leave a lock taken, for which all "
			      "others spin "
			      "(docs/internals/providers.md)\n");
		skip();
	}
	p = test_pool(two, 2, 2);
	assert_int_equal(pthread_create(&killer, NULL, kill_later, &test_second), 0);
	assert_int_equal(kvc_run(p, 32, storm_worker, &job), 0);
	pthread_join(killer, NULL);
	assert_int_equal(job.ran, 32);
	assert_int_equal(job.failed, 0);
	kvc_pool_close(&p);
}

static void a_server_that_stands_still_for_long_is_down_and_comes_back(void **state)
{
	uint64_t until = now_ns() + WAIT_NS;
	struct kvc_call call = brief();
	struct kvc_pool *pool;
	char b[8];
	int64_t rc;
	(void)state;
	need_server();
	pool = pool_open(one, 1, 1, MIB);
	assert_int_equal(kvc_put(pool, NAMED("still"), "1234567", 8, NULL), 0);
	test_server_stop(&test_first);
	while ((rc = kvc_get(pool, NAMED("still"), b, 8, &call)) != -KV_EPEERDOWN && now_ns() < until)
		assert_int_equal(rc, -KV_ETIMEOUT);
	assert_int_equal(rc, -KV_EPEERDOWN);
	test_server_cont(&test_first);
	until = now_ns() + WAIT_NS;
	while ((rc = kvc_get(pool, NAMED("still"), b, 8, &call)) != 8 && now_ns() < until)
		usleep(10000);
	assert_int_equal(rc, 8);
	assert_true(counters(pool).reconnects >= 1);
	assert_int_equal(kvc_delete(pool, NAMED("still"), NULL), 0);
	kvc_pool_close(&pool);
}

/* ---- shm: what it cannot do is said ---- */

struct heard {
	_Atomic unsigned warned, lost;
};

static void hear(void *arg, int level, const char *line)
{
	struct heard *h = arg;
	(void)level;
	h->warned += strstr(line, "keeps a lock") != NULL;
	h->lost += strstr(line, "use provider tcp where servers may die") != NULL;
}

/* The server is killed at rest, when it holds no lock: then calls end, and no more can be promised. */
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
	assert_int_equal(kvc_put(pool, NAMED("shm"), value, sizeof(value), NULL), 0);
	test_server_kill(&server);
	until = now_ns() + WAIT_NS;
	while ((rc = kvc_put(pool, NAMED("shm"), value, sizeof(value), &call)) != -KV_EPEERDOWN && now_ns() < until)
		assert_int_equal(rc, -KV_ETIMEOUT);
	assert_int_equal(rc, -KV_EPEERDOWN);
	assert_int_equal(heard.lost, 1);
	kvc_pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(keys_are_spread_over_two_servers, both_up),
		cmocka_unit_test_setup(a_killed_server_is_stood_in_for_by_the_other, both_up),
		cmocka_unit_test_setup(a_server_killed_under_load_fails_no_call, both_up),
		cmocka_unit_test_setup_teardown(a_server_that_stands_still_for_long_is_down_and_comes_back, both_up,
						let_go),
		cmocka_unit_test_setup(on_shm_a_killed_server_ends_calls_and_the_way_out_is_said, both_up),
	};
	return cmocka_run_group_tests(tests, test_two_up, test_two_down);
}
