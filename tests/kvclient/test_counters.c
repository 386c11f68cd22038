/* SPDX-License-Identifier: Apache-2.0 */
/* test_counters.c -- what is to be seen of a pool: exact counts after known calls, the state of servers and rails, and
 * the server's statistics per shard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "server.h"

#define KIB ((size_t)1 << 10)

static struct test_server server;
static const struct test_server *const one[] = {&server};
static struct kvc_pool *pool;

static int setup(void **state)
{
	(void)state;
	test_server_up(&server, "one");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_server_kill(&server);
	return 0;
}

static int open_one(void **state)
{
	(void)state;
	if (server.pid)
		pool = test_pool(one, 1, 1);
	return 0;
}

static int close_one(void **state)
{
	(void)state;
	kvc_pool_close(&pool);
	return 0;
}

static void need_server(void)
{
	test_server_need(&server);
}

static struct kvc_key key_of(const char *text)
{
	return (struct kvc_key){text, strlen(text)};
}

static struct kvc_counters counters(void)
{
	struct kvc_counters c = {.size = sizeof(c)};
	assert_int_equal(kvc_counters(pool, &c), 0);
	return c;
}

static uint64_t results_of(const struct kvc_counters *c, enum kvc_op op)
{
	uint64_t all = 0;
	for (unsigned i = 0; i < KVC_RESULTS; i++)
		all += c->results[op][i];
	return all;
}

static void every_operation_is_counted_by_its_code(void **state)
{
	uint8_t data[64 * KIB], other[64 * KIB];
	static uint8_t places[3][64 * KIB];
	struct kvc_item items[3] = {0};
	struct kvc_counters c;
	(void)state;
	need_server();
	test_fill(data, sizeof(data), 1);
	test_fill(other, sizeof(other), 2);
	assert_int_equal(kvc_put(pool, key_of("a"), data, sizeof(data), NULL), 0);
	assert_int_equal(kvc_put(pool, key_of("a"), other, sizeof(other), NULL), -KV_EEXIST);
	assert_int_equal(kvc_get(pool, key_of("a"), other, sizeof(other), NULL), sizeof(data));
	assert_int_equal(kvc_get(pool, key_of("none"), other, sizeof(other), NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_get(pool, key_of("a"), other, 100, NULL), -KV_ETOOBIG);
	assert_int_equal(kvc_get(pool, (struct kvc_key){"", 0}, other, 100, NULL), -KV_EINVAL);
	assert_int_equal(kvc_touch(pool, key_of("none"), NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_ping(pool, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		items[i] = (struct kvc_item){.key = key_of(i == 1 ? "none" : "a"),
					     .data = places[i],
					     .len = i == 2 ? 10 : sizeof(places[i])};
	assert_int_equal(kvc_get_batch(pool, items, 3, NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_delete(pool, key_of("a"), NULL), 0);

	c = counters();
	assert_int_equal(c.results[KVC_OP_PUT][0], 1);
	assert_int_equal(c.results[KVC_OP_PUT][KV_EEXIST - 1000], 1);
	assert_int_equal(c.put_conflicts, 1);
	assert_int_equal(c.results[KVC_OP_GET][0], 2);
	assert_int_equal(c.results[KVC_OP_GET][KV_ENOTFOUND - 1000], 2);
	assert_int_equal(c.results[KVC_OP_GET][KV_ETOOBIG - 1000], 2);
	assert_int_equal(c.results[KVC_OP_GET][KV_EINVAL - 1000], 1);
	assert_int_equal(results_of(&c, KVC_OP_GET), 7);
	assert_int_equal(results_of(&c, KVC_OP_PUT), 2);
	assert_int_equal(c.results[KVC_OP_TOUCH][KV_ENOTFOUND - 1000], 1);
	assert_int_equal(c.results[KVC_OP_PING][0], 1);
	assert_int_equal(c.results[KVC_OP_DELETE][0], 1);
	assert_int_equal(c.errors, 3);
	assert_int_equal(c.timeouts, 0);
	assert_int_equal(c.requests, c.replies);
	assert_int_equal(c.orphans, 0);
	assert_int_equal(c.slow, 0);
	assert_int_equal(c.lost_connections, 0);
	assert_true(c.queue_max_ns > 0 && c.queue_max_ns <= c.queue_ns);
}

static void columns_have_codes_and_rows_have_names(void **state)
{
	(void)state;
	assert_int_equal(kvc_result_code(0), 0);
	assert_int_equal(kvc_result_code(1), -KV_ETIMEOUT);
	assert_string_equal(kvc_errname(kvc_result_code(KV_ECORRUPT - 1000)), "KV_ECORRUPT");
	assert_int_equal(kvc_result_code(KVC_RESULT_OTHER), 0);
	assert_true(KV_ELEFT - 1000 < KVC_RESULT_OTHER);
	for (unsigned op = 0; op < KVC_OPS; op++)
		assert_string_not_equal(kvc_opname((enum kvc_op)op), "?");
	assert_string_equal(kvc_opname(KVC_OPS), "?");
	assert_string_equal(kvc_opname(KVC_OP_BORROW), "BORROW");
}

/* A program that was made with an older header gets the fields that it knows. */
static void a_shorter_struct_is_filled_as_far_as_it_goes(void **state)
{
	struct kvc_counters c;
	struct kvc_server_info s;
	(void)state;
	need_server();
	memset(&c, 0xee, sizeof(c));
	c.size = offsetof(struct kvc_counters, requests);
	assert_int_equal(kvc_counters(pool, &c), 0);
	assert_int_equal(c.errors, 0);
	assert_int_equal(c.requests, 0xeeeeeeeeeeeeeeee);
	memset(&s, 0xee, sizeof(s));
	s.size = offsetof(struct kvc_server_info, state);
	assert_int_equal(kvc_server_info(pool, 0, 0, &s), 0);
	assert_string_equal(s.name, server.entry);
	assert_int_equal((unsigned)s.state, 0xeeeeeeee);
}

static void a_server_and_a_rail_that_are_up(void **state)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	struct kvc_rail_info r = {.size = sizeof(r)};
	struct kvc_info info = {.size = sizeof(info)};
	static uint8_t data[1024 * KIB + 1]; /* two chunks: its writes have immediates on every provider */
	(void)state;
	need_server();
	test_fill(data, sizeof(data), 1);
	assert_int_equal(kvc_put(pool, key_of("b"), data, sizeof(data), NULL), 0);
	/* The second GET knows the length and asks for both chunks at once. */
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(kvc_get(pool, key_of("b"), data, sizeof(data), NULL), sizeof(data));
	assert_int_equal(kvc_info(pool, &info), 0);
	assert_int_equal(kvc_server_info(pool, 0, 0, &s), 0);
	assert_int_equal(s.state, KVC_SERVER_UP);
	assert_string_equal(s.node_id, "one");
	assert_int_equal(s.links, info.links);
	assert_int_equal(s.credits_granted, info.links * info.credits);
	assert_int_equal(s.credits_in_use + s.queued + s.inflight, 0);
	assert_true(s.incarnation != 0 && s.session != 0);
	assert_true(s.ping_ns > 0 && s.heard_ns < 10000000000ull);
	assert_int_equal(s.connects, 1);
	assert_string_equal(s.why, "");
	/* docs/internals/providers.md: a reader over TCP may crash with libfabric before 1.22. */
	if (strcmp(info.provider, "tcp;ofi_rxm") == 0)
		assert_int_equal(s.put_way, KVC_PUT_LAND);
	else if (strcmp(info.provider, "net") != 0)
		assert_int_equal(s.put_way, KVC_PUT_READ);
	else if (strverscmp(info.libfabric, "1.22") < 0)
		assert_int_not_equal(s.put_way, KVC_PUT_READ);
	assert_int_equal(kvc_rail_info(pool, 0, 0, &r), 0);
	assert_memory_equal(r.device, info.domain, strlen(info.domain));
	assert_int_equal(r.depth, info.tx_depth);
	/* Where a reply may follow its bytes, the GET of one write has none. */
	assert_int_equal(r.immediates, strcmp(info.provider, "tcp;ofi_rxm") == 0 ? 2 : 3);
	assert_true(r.sends >= 2);
	assert_int_equal(r.failed, 0);
	assert_int_equal(kvc_server_info(pool, 0, 1, &s), -KV_EINVAL);
	assert_int_equal(kvc_server_info(pool, 1, 0, &s), -KV_EINVAL);
	assert_int_equal(kvc_rail_info(pool, 0, 1, &r), -KV_EINVAL);
}

static void on_the_loop(struct kvc_client *client, unsigned w, void *arg)
{
	struct kvc_server_info *s = arg;
	(void)w;
	s->shards = kvc_server_info(kvc_client_pool(client), 0, 0, s) == 0 ? s->shards : UINT32_MAX;
}

static void a_worker_may_ask_too(void **state)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	(void)state;
	need_server();
	assert_int_equal(kvc_run(pool, 1, on_the_loop, &s), 0);
	assert_int_equal(s.state, KVC_SERVER_UP);
	assert_int_not_equal(s.shards, UINT32_MAX);
}

static uint64_t stat_of(const char *name, uint32_t shard, int *out_rc)
{
	struct kvc_call call = {.size = sizeof(call), .shard = shard};
	struct kvc_stat_item item[256];
	int n = *out_rc = kvc_stat(pool, item, 256, &call);
	for (int i = 0; i < n; i++)
		if (strcmp(item[i].name, name) == 0)
			return item[i].value;
	return UINT64_MAX;
}

static void statistics_of_shards_add_up(void **state)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	uint64_t sum = 0, most = 0;
	char key[16];
	int rc;
	(void)state;
	need_server();
	for (int i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "s%d", i);
		assert_int_equal(kvc_put(pool, key_of(key), key, sizeof(key), NULL), 0);
	}
	assert_int_equal(kvc_server_info(pool, 0, 0, &s), 0);
	for (uint32_t shard = 1; shard <= s.shards; shard++) {
		sum += stat_of("puts", shard, &rc);
		assert_true(rc > 0);
		most = KV_MAX(most, stat_of("serve_max_ns", shard, &rc));
	}
	assert_int_equal(stat_of("puts", 0, &rc), sum);
	assert_true(sum >= 40);
	assert_true(stat_of("serve_max_ns", 0, &rc) >= most); /* asking is served, too */
	stat_of("puts", s.shards + 1, &rc);
	assert_int_equal(rc, -KV_EINVAL);
	assert_int_equal(stat_of("held", 0, &rc), 0);
}

static void a_server_that_is_killed_is_down_and_says_why(void **state)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	struct timespec pause = {.tv_nsec = 10000000};
	(void)state;
	need_server();
	test_server_kill(&server);
	for (int i = 0; i < 1000 && kvc_server_info(pool, 0, 0, &s) == 0 && s.state != KVC_SERVER_DOWN; i++)
		nanosleep(&pause, NULL);
	assert_int_equal(s.state, KVC_SERVER_DOWN);
	assert_int_equal(s.links, 0);
	assert_int_equal(s.connects, 1);
	assert_true(s.why[0] != 0);
	assert_int_equal(counters().lost_connections, 1);
}

#define WITH_POOL(test) cmocka_unit_test_setup_teardown(test, open_one, close_one)

static void counters_are_a_page_of_metrics(void **state)
{
	static char text[32 << 10];
	char value[16] = "v";
	int64_t len;
	(void)state;
	need_server();
	assert_int_equal(kvc_metrics_text(NULL, text, sizeof(text)), -KV_EINVAL);
	assert_int_equal(kvc_metrics_text(pool, NULL, 1), -KV_EINVAL);
	len = kvc_metrics_text(pool, NULL, 0);
	assert_in_range(len, 1000, 16 << 10); /* before the first call, too */
	assert_int_equal(kvc_put(pool, key_of("m"), value, 1, NULL), 0);
	assert_int_equal(kvc_get(pool, key_of("m"), value, sizeof(value), NULL), 1);
	assert_int_equal(kvc_get(pool, key_of("none"), value, sizeof(value), NULL), -KV_ENOTFOUND);
	len = kvc_metrics_text(pool, text, sizeof(text));
	assert_int_equal(len, strlen(text));
	assert_non_null(strstr(text, "\nkvrail_client_get_blocks_total{result=\"hit\"} 1\n"));
	assert_non_null(strstr(text, "\nkvrail_client_calls_total{op=\"get\",code=\"not_found\"} 1\n"));
	assert_non_null(strstr(text, "\n# TYPE kvrail_client_room_wait_seconds_total counter\n"));
	assert_non_null(strstr(text, "\n# TYPE kvrail_client_quarantined_bytes gauge\n"));
	len = kvc_metrics_text(pool, text, 100);
	assert_true(len > 1000 && strlen(text) < 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(counters_are_a_page_of_metrics, open_one, close_one),
		WITH_POOL(every_operation_is_counted_by_its_code),
		cmocka_unit_test(columns_have_codes_and_rows_have_names),
		WITH_POOL(a_shorter_struct_is_filled_as_far_as_it_goes),
		WITH_POOL(a_server_and_a_rail_that_are_up),
		WITH_POOL(a_worker_may_ask_too),
		WITH_POOL(statistics_of_shards_add_up),
		WITH_POOL(a_server_that_is_killed_is_down_and_says_why), /* last: nobody starts it again */
	};
	test_local = KVC_LOCAL_OFF;
	return cmocka_run_group_tests(tests, setup, teardown);
}
