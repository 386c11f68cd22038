/* SPDX-License-Identifier: Apache-2.0 */
/* test_versus.c -- names of targets, and the text of events. What rounds amount to is in tests/kvlab. */
#include "kvbench/versus/versus.h"

#include "kvbench/setup/events.h"
#include "tests/kvbench/check.h"

static int parse(const char *list, struct versus_options *o, struct kv_error *err)
{
	*o = (struct versus_options){.target_list = list};
	return versus_targets_parse(o, err);
}

static void targets_have_kinds_and_addresses(void **state)
{
	struct versus_options o;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(parse("kvrail,kvrail://[::1]:7,redis://h:1,redis+unix:///a b,memcached+unix:///m", &o, &err),
			 0);
	assert_int_equal(o.num_targets, 5);
	assert_int_equal(o.target[0].kind, VERSUS_KVRAIL);
	assert_string_equal(o.target[0].address, "");
	assert_string_equal(o.target[1].address, "[::1]:7");
	assert_int_equal(o.target[2].kind, VERSUS_REDIS);
	assert_string_equal(o.target[3].address, "/a b");
	assert_int_equal(o.target[4].kind, VERSUS_MEMCACHED);
}

static void other_names_are_refused(void **state)
{
	static const char *const bad[] = {"",           ",",          "kvrail,",          "redis",
					  "redis://",   "redis://:x", "redis+unix://x",   "kvrail,kvrail",
					  "http://h:1", "kvrail ",    "1,2,3,4,5,6,7,8,9"};
	struct versus_options o;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct kv_error err = {0};
		assert_int_equal(parse(bad[i], &o, &err), -KV_EINVAL);
		assert_non_null(strstr(err.text, "--targets"));
	}
}

/* It connects: to listen on every address is no way out. */
static void a_target_without_a_host_is_told_what_to_write(void **state)
{
	static const char *const bad[][2] = {{"redis://", "as in redis://127.0.0.1:6379"},
					     {"kvrail,redis://:6379", "as in redis://127.0.0.1:6379"},
					     {"memcached://", "as in memcached://127.0.0.1:11211"},
					     {"kvrail://", "as in kvrail://127.0.0.1:7411"}};
	struct versus_options o;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct kv_error err = {0};
		assert_int_equal(parse(bad[i][0], &o, &err), -KV_EINVAL);
		check_contains(err.text, bad[i][1]);
		assert_null(strstr(err.text, "0.0.0.0"));
	}
}

static void labels_are_short_and_differ(void **state)
{
	const char *list = "kvrail,redis://10.0.0.1:6379,redis+unix:///run/x.sock,program:/bin/true,kvrail://h:1";
	static const char *const expected[] = {"kvrail", "redis", "redis 2", "true", "kvrail 2"};
	struct versus_options o;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(parse(list, &o, &err), 0);
	assert_int_equal(o.num_targets, KV_COUNT(expected));
	for (unsigned i = 0; i < KV_COUNT(expected); i++)
		assert_string_equal(o.target[i].label, expected[i]);
}

static void others_with_clients_of_their_own_are_named(void **state)
{
	struct versus_options o;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(parse("kvrail,mooncake://h:1", &o, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "Mooncake Store can be driven by its own client only: name a program"));
	assert_int_equal(parse("lmcache://h:1", &o, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "LMCache"));
}

static void behind_two_hyphens_is_no_load(void **state)
{
	static char *const good[][8] = {{"kv-bench", "--targets", "kvrail", "--", "--nic=lo", "--num-threads", "2"},
					{"kv-bench", "--targets", "kvrail", "--", "--memory-mb", "64", "-p", "tcp"},
					{"kv-bench", "--targets", "kvrail", "--", "--servers", "2", "--copies", "hot"}};
	static char *const bad[][7] = {{"kv-bench", "--targets", "kvrail", "--", "--value-size", "4KB", NULL},
				       {"kv-bench", "--targets", "kvrail", "--", "--mix", "1:1:1", NULL},
				       {"kv-bench", "--targets", "kvrail", "--", "--no-checksum", NULL, NULL},
				       {"kv-bench", "--targets", "kvrail", "--", "--json", "x", NULL},
				       {"kv-bench", "--targets", "kvrail", "--", "-w", "9", NULL},
				       {"kv-bench", "--targets", "kvrail", "--", "9", NULL, NULL}};
	struct versus_options o;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(versus_options_parse(7, (char **)good[0], &o, &err), 0);
	assert_int_equal(versus_options_parse(8, (char **)good[1], &o, &err), 0);
	assert_int_equal(versus_options_parse(8, (char **)good[2], &o, &err), 0);
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		int n = 0;
		while (n < 7 && bad[i][n])
			n++;
		assert_int_equal(versus_options_parse(n, (char **)bad[i], &o, &err), -KV_EINVAL);
		check_contains(err.text, "behind -- are options for KVRail alone, and none of the load: ");
	}
}

static void passwords_have_no_place_in_a_target(void **state)
{
	struct versus_options o;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(parse("kvrail,redis://:secret@10.0.0.1:6379", &o, &err), -KV_EINVAL);
	check_contains(err.text, "redis:// can have no user and no password");
	assert_null(strstr(err.text, "secret"));
}

static int event(const char *text, struct bench_events *out, struct kv_error *err)
{
	struct kv_opt_strings s = {.count = 1, .item = {text}};
	return bench_events_parse(&s, 3, out, err);
}

static void events_are_sorted_by_time(void **state)
{
	struct kv_opt_strings s = {.count = 3, .item = {"kill 2 at 30m", "stop 1 at 90s", "cont 1 at 1800"}};
	struct bench_events e;
	struct kv_error err = {0};
	char text[32];
	(void)state;
	assert_int_equal(bench_events_parse(&s, 3, &e, &err), 0);
	assert_int_equal(e.count, 3);
	assert_string_equal(bench_event_text(&e.row[0], text, sizeof(text)), "stop 1");
	assert_string_equal(bench_event_text(&e.row[1], text, sizeof(text)), "kill 2"); /* as given, at one time */
	assert_string_equal(bench_event_text(&e.row[2], text, sizeof(text)), "cont 1");
	assert_int_equal(e.row[1].at_ns, 1800000000000ull);
}

static void a_server_whose_first_event_is_its_start_is_late(void **state)
{
	struct kv_opt_strings s = {.count = 4,
				   .item = {"start 2 at 9s", "kill 1 at 1s", "start 3 at 2s", "start 1 at 3s"}};
	struct bench_events e;
	struct kv_error err = {0};
	unsigned starts[BENCH_EVENTS_MAX];
	(void)state;
	/* 1 is there first, 2 and 3 are not. */
	assert_int_equal(bench_events_parse(&s, 3, &e, &err), 0);
	assert_int_equal(bench_events_late(&e), 6);
	assert_int_equal(bench_events_starts(&e, starts), 3);
	assert_int_equal(starts[0], 3);
	assert_int_equal(starts[1], 1);
	assert_int_equal(starts[2], 2);
}

/* What is done to a server must be possible then. */
static void events_in_an_impossible_order_are_refused(void **state)
{
	static const struct {
		const char *first, *second, *why;
	} bad[] = {{"kill 1 at 1s", "stop 1 at 2s", "does not run"},
		   {"start 2 at 2s", "stop 2 at 1s", "it runs then"},
		   {"start 2 at 2s", "start 2 at 3s", "it runs then"},
		   {"kill 1 at 1s", "kill 1 at 3s", "does not run"},
		   {"start 1 at 1s", "start 2 at 1s", "no server"}};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct kv_opt_strings s = {.count = 2, .item = {bad[i].first, bad[i].second}};
		struct bench_events e;
		struct kv_error err = {0};
		assert_int_equal(bench_events_parse(&s, 2, &e, &err), -KV_EINVAL);
		assert_non_null(strstr(err.text, bad[i].why));
	}
}

static void other_events_are_refused(void **state)
{
	static const char *const bad[] = {"",
					  "kill",
					  "kill 2",
					  "kill 2 at",
					  "kill 2 at never",
					  "kill 4 at 1s",
					  "kill 0 at 1s",
					  "kill 4294967298 at 1s", /* 2, in 32 bits */
					  "kill -1 at 1s",
					  "burn 1 at 1s",
					  "kill 1 at 1s now",
					  "kill 2 in 30m",
					  "kill two at 30m"};
	struct bench_events e;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct kv_error err = {0};
		assert_int_equal(event(bad[i], &e, &err), -KV_EINVAL);
		assert_non_null(strstr(err.text, "--event"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets_have_kinds_and_addresses),
		cmocka_unit_test(other_names_are_refused),
		cmocka_unit_test(a_target_without_a_host_is_told_what_to_write),
		cmocka_unit_test(labels_are_short_and_differ),
		cmocka_unit_test(others_with_clients_of_their_own_are_named),
		cmocka_unit_test(behind_two_hyphens_is_no_load),
		cmocka_unit_test(passwords_have_no_place_in_a_target),
		cmocka_unit_test(events_are_sorted_by_time),
		cmocka_unit_test(a_server_whose_first_event_is_its_start_is_late),
		cmocka_unit_test(events_in_an_impossible_order_are_refused),
		cmocka_unit_test(other_events_are_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
