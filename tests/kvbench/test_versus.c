/* SPDX-License-Identifier: Apache-2.0 */
/* test_versus.c -- names of targets, what rounds amount to, and the text of events. */
#include <math.h>
#include <stdlib.h>

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

/* A run may have misses that are no failure of its own; beside others they are. */
static void a_round_with_misses_is_refused(void **state)
{
	const char *text = "{\"verdict\": {\"problems\": []}, \"phases\": {\"write\": {\"ops_per_s\": 9}, "
			   "\"read\": {\"ops_per_s\": 9, \"misses\": %d}}}";
	struct versus_server server = {0};
	struct versus_run run;
	struct kv_error err = {0};
	char doc[256];
	(void)state;
	for (int misses = 0; misses < 2; misses++) {
		json_t *d;
		snprintf(doc, sizeof(doc), text, misses);
		d = json_loads(doc, 0, NULL);
		assert_int_equal(versus_run_read(d, false, &run, &server, &err), misses ? -KV_EINVAL : 0);
		assert_int_equal(run.ran, !misses);
		json_decref(d);
	}
	check_contains(err.text, "GETs missed keys");
}

static void a_percentile_that_a_round_lacks_is_not_given(void **state)
{
	static struct versus v;
	(void)state;
	v = (struct versus){.rounds = 2};
	for (unsigned i = 0; i < 2; i++) {
		v.round[i].counts = true;
		v.round[i].run[0] = (struct versus_run){.ran = true};
		v.round[i].run[0].figure[VERSUS_GET] =
			(struct versus_measure){.ops_per_s = 9, .p50_ns = i ? 9000 : 100, .p99_ns = i ? 0 : 200};
	}
	assert_true(versus_median(&v, 0, VERSUS_GET).p50_ns == 4550);
	assert_true(versus_median(&v, 0, VERSUS_GET).p99_ns == 0); /* and not 200 */
	v.round[1].counts = false;
	assert_true(versus_median(&v, 0, VERSUS_GET).p99_ns == 200);
}

static void ratios_are_of_rounds_that_count(void **state)
{
	static struct versus v;
	struct versus_spread s;
	(void)state;
	v = (struct versus){.rounds = 4};
	for (unsigned i = 0; i < 4; i++) {
		struct versus_round *r = &v.round[i];
		r->counts = i != 3;
		r->run[0] = r->run[1] = (struct versus_run){.ran = true};
		r->run[0].figure[VERSUS_GET].ops_per_s = 100.0 * (i + 1);
		r->run[1].figure[VERSUS_GET].ops_per_s = 100;
	}
	s = versus_ratio(&v, 1, VERSUS_GET);
	assert_int_equal(s.count, 3);
	assert_true(s.median == 2 && s.low == 1 && s.high == 3);
	v.round[1].run[1].ran = false;
	s = versus_ratio(&v, 1, VERSUS_GET);
	assert_int_equal(s.count, 2);
	assert_true(s.median == 2);
	assert_int_equal(versus_ratio(&v, 1, VERSUS_PUT).count, 0);
	assert_true(versus_median(&v, 0, VERSUS_GET).ops_per_s == 200);
}

/* redis of 2 cores: rounds of 57,000 GETs at 34 us, and such of 16,400 at 61 us, in which it and its client were on
 * one. */
static void rounds_of_another_machine_do_not_count(void **state)
{
	static const struct {
		double ops, cpu_ns, distance;
		enum versus_why why;
	} rows[] = {{57000, 34000, 60, VERSUS_COUNTS}, {16400, 61000, 60, VERSUS_COSTLY},
		    {56000, 34500, 60, VERSUS_COUNTS}, {29000, 34100, 60, VERSUS_FEW_CORES},
		    {57000, 33000, 200, VERSUS_MOVED}, {52000, 38000, 60, VERSUS_COUNTS},
		    {16000, 60000, 60, VERSUS_COSTLY}};
	static struct versus v;
	(void)state;
	v = (struct versus){.rounds = KV_COUNT(rows), .opt = {.num_targets = 2, .rounds = 7}};
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		struct versus_round *r = &v.round[i];
		*r = (struct versus_round){.complete = true, .distances = 2, .distance_ns = {60, rows[i].distance}};
		for (unsigned t = 0; t < 2; t++)
			r->run[t] = (struct versus_run){.ran = true};
		/* The other target is the same in all. */
		r->run[0].figure[VERSUS_GET] =
			(struct versus_measure){.ops_per_s = 50000, .cpu_ns = 35000, .seconds = 1};
		r->run[1].figure[VERSUS_GET] =
			(struct versus_measure){.ops_per_s = rows[i].ops, .cpu_ns = rows[i].cpu_ns, .seconds = 1};
	}
	assert_int_equal(versus_rounds_judge(&v), 3);
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		assert_int_equal(v.round[i].why, rows[i].why);
		assert_int_equal(v.round[i].counts, rows[i].why == VERSUS_COUNTS);
		if (rows[i].why > VERSUS_MOVED)
			assert_int_equal(v.round[i].by, 1);
	}
	assert_true(fabs(versus_cores(&v.round[0].run[1].figure[VERSUS_GET]) - 1.938) < 1e-9);
	/* A round that comes later may be better than all before it. */
	v.round[7] = v.round[0];
	v.round[7].run[1].figure[VERSUS_GET] =
		(struct versus_measure){.ops_per_s = 80000, .cpu_ns = 24000, .seconds = 1};
	v.rounds = 8;
	assert_int_equal(versus_rounds_judge(&v), 1);
	/* So short a measurement says nothing of either. */
	for (unsigned i = 0; i < 8; i++)
		v.round[i].run[1].figure[VERSUS_GET].seconds = 0.1;
	assert_int_equal(versus_rounds_judge(&v), 7);
	v.round[2].complete = false;
	assert_int_equal(versus_rounds_judge(&v), 6);
	assert_int_equal(v.round[2].why, VERSUS_FAILED);
}

static struct versus_spread spread_of(unsigned rounds)
{
	static struct versus v;
	v = (struct versus){.rounds = rounds};
	for (unsigned i = 0; i < rounds; i++) {
		struct versus_round *r = &v.round[i];
		r->counts = true;
		r->run[0] = r->run[1] = (struct versus_run){.ran = true};
		r->run[0].figure[VERSUS_GET].ops_per_s = 1 + i;
		r->run[1].figure[VERSUS_GET].ops_per_s = 1;
	}
	return versus_ratio(&v, 1, VERSUS_GET);
}

/* Tables of the sign test have the same: 6 of 6, 9 from the second on, 15 from the fourth on. */
static void a_median_has_an_interval_where_rounds_are_enough(void **state)
{
	static const unsigned outside[][2] = {{6, 1},  {7, 1},  {8, 1},  {9, 2}, {11, 2},
					      {12, 3}, {15, 4}, {20, 6}, {25, 8}};
	char text[64];
	(void)state;
	for (unsigned n = 1; n < 6; n++)
		assert_true(spread_of(n).ci_high == 0);
	assert_string_equal(versus_spread_text(spread_of(5), text, sizeof(text)), "3.00 (1.00-5.00)");
	for (unsigned i = 0; i < KV_COUNT(outside); i++) {
		struct versus_spread s = spread_of(outside[i][0]);
		assert_true(s.ci_low == outside[i][1]);
		assert_true(s.ci_high == outside[i][0] + 1 - outside[i][1]);
	}
	assert_string_equal(versus_spread_text(spread_of(9), text, sizeof(text)), "5.00 [2.00, 8.00]");
}

/* 95 % at least of such intervals contain the median of what the rounds are drawn from, and not nearly all. */
static void intervals_of_confidence_keep_what_they_say(void **state)
{
	enum { TRIALS = 4000, ROUNDS = 9 };
	static struct versus v;
	struct kv_prng prng = check_seed();
	unsigned inside = 0;
	(void)state;
	for (unsigned k = 0; k < TRIALS; k++) {
		struct versus_spread s;
		v.rounds = ROUNDS;
		for (unsigned i = 0; i < ROUNDS; i++) {
			struct versus_round *r = &v.round[i];
			double u = (double)(kv_prng_next(&prng) >> 11) * 0x1p-53;
			r->counts = true;
			r->run[0].ran = r->run[1].ran = true;
			r->run[0].figure[VERSUS_GET].ops_per_s = -log(1 - u) + 0.01; /* skewed; its median is known */
			r->run[1].figure[VERSUS_GET].ops_per_s = 1;
		}
		s = versus_ratio(&v, 1, VERSUS_GET);
		inside += s.ci_low <= log(2) + 0.01 && log(2) + 0.01 <= s.ci_high;
	}
	print_message("# %u of %d intervals contain the median\n", inside, TRIALS);
	assert_true(inside > TRIALS * 0.945 && inside < TRIALS * 0.985);
}

static void targets_that_send_otherwise_are_seen(void **state)
{
	static struct versus v;
	(void)state;
	v = (struct versus){.opt = {.num_targets = 3}};
	snprintf(v.server[0].congestion, sizeof(v.server[0].congestion), "reno");
	assert_false(versus_congestion_differs(&v)); /* of the others it is not known */
	snprintf(v.server[2].congestion, sizeof(v.server[2].congestion), "reno");
	assert_false(versus_congestion_differs(&v));
	snprintf(v.server[2].congestion, sizeof(v.server[2].congestion), "bbr");
	assert_true(versus_congestion_differs(&v));
}

static void a_round_in_which_the_distance_changed_is_seen(void **state)
{
	struct versus_round r = {.distance_ns = {58, 84, 65}, .distances = 3}; /* the scatter of a measurement */
	(void)state;
	assert_string_equal(versus_round_state(&r), "near");
	r.distance_ns[1] = 120;
	assert_string_equal(versus_round_state(&r), "changed");
	r.distance_ns[1] = 0; /* others used the processors */
	assert_string_equal(versus_round_state(&r), "changed");
	r = (struct versus_round){.distance_ns = {-1, -1}, .distances = 2};
	assert_string_equal(versus_round_state(&r), "one CPU");
	r = (struct versus_round){.distance_ns = {0, 0}, .distances = 2};
	assert_string_equal(versus_round_state(&r), "changed");
}

static void a_report_without_figures_is_refused(void **state)
{
	static const char *const bad[] = {
		"{}",
		"[]",
		"{\"phases\": 3}",
		"{\"phases\": {\"write\": {\"ops_per_s\": 1}, \"read\": {}}}",
		"{\"phases\": {\"write\": {\"ops_per_s\": 1, \"duplicates\": 2}, \"read\": {\"ops_per_s\": 1}}}",
		("{\"verdict\": {\"problems\": [\"x\"]}, \"phases\": {\"write\": {\"ops_per_s\": 1}, \"read\": "
		 "{\"ops_per_s\": 1}}}")};
	struct versus_run run;
	struct versus_server server;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct kv_error err = {0};
		json_t *doc = json_loads(bad[i], 0, NULL);
		assert_non_null(doc);
		assert_int_equal(versus_run_read(doc, false, &run, &server, &err), -KV_EINVAL);
		assert_true(err.text[0] && !run.ran);
		json_decref(doc);
	}
}

/* The text that a result prints. */
static char *summary_of(struct versus *v)
{
	char *text = NULL;
	size_t len;
	v->out = open_memstream(&text, &len);
	assert_non_null(v->out);
	versus_print_summary(v);
	assert_int_equal(fclose(v->out), 0);
	return text;
}

static void puts_of_a_moment_are_told(void **state)
{
	static struct versus v = {.rounds = 1, .opt = {.num_targets = 2, .num_keys = 1000}};
	struct versus_run *run = v.round[0].run;
	char *text;
	(void)state;
	snprintf(v.opt.target[1].label, sizeof(v.opt.target[1].label), "redis");
	v.round[0].counts = true;
	for (unsigned t = 0; t < 2; t++) {
		run[t].ran = true;
		for (unsigned f = VERSUS_PUT; f <= VERSUS_GET; f++)
			run[t].figure[f] = (struct versus_measure){.ops_per_s = 100, .p50_ns = 5000, .seconds = 1};
	}
	text = summary_of(&v);
	assert_null(strstr(text, "too short for"));
	assert_non_null(strstr(text, " 5.00 us        -")); /* p99 of too few */
	free(text);
	run[1].figure[VERSUS_PUT].seconds = 0.1;
	text = summary_of(&v);
	check_contains(text, "the PUTs of a round take only 100 ms at redis");
	check_contains(text, "--num-keys 10000");
	free(text);
}

/* What one side does not say makes the sum unknown; mixed operations share one time. */
static void processor_time_is_of_both_sides(void **state)
{
	static const char text[] =
		"{\"phases\": {\"write\": {\"ops\": 10, \"ops_per_s\": 1, \"cpu_seconds\": 1, \"server_cpu_seconds\": "
		"2},"
		"\"read\": {\"ops\": 4, \"ops_per_s\": 1, \"cpu_seconds\": 1},"
		"\"mixed\": {\"write\": {\"ops\": 3, \"ops_per_s\": 1},"
		"\"read\": {\"ops\": 1, \"ops_per_s\": 1, \"cpu_seconds\": 1, \"server_cpu_seconds\": 1}}}}";
	json_t *doc = json_loads(text, 0, NULL);
	static struct versus v = {.rounds = 1};
	struct versus_server server;
	struct kv_error err = {0};
	(void)state;
	assert_non_null(doc);
	assert_int_equal(versus_run_read(doc, true, &v.round[0].run[0], &server, &err), 0);
	json_decref(doc);
	assert_true(fabs(v.round[0].run[0].figure[VERSUS_PUT].cpu_ns - 3e8) < 1);
	assert_true(v.round[0].run[0].figure[VERSUS_GET].cpu_ns == 0);
	assert_true(fabs(v.round[0].run[0].figure[VERSUS_MIXED].cpu_ns - 5e8) < 1);
	v.round[0].run[1] = v.round[0].run[0];
	v.round[0].run[1].figure[VERSUS_PUT].cpu_ns = 6e8;
	v.round[0].counts = true;
	assert_true(fabs(versus_cpu_ratio(&v, 1, VERSUS_PUT).median - 2) < 1e-9); /* twice the time: half as good */
	assert_int_equal(versus_cpu_ratio(&v, 1, VERSUS_GET).count, 0);
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
		cmocka_unit_test(a_round_with_misses_is_refused),
		cmocka_unit_test(a_percentile_that_a_round_lacks_is_not_given),
		cmocka_unit_test(ratios_are_of_rounds_that_count),
		cmocka_unit_test(rounds_of_another_machine_do_not_count),
		cmocka_unit_test(a_median_has_an_interval_where_rounds_are_enough),
		cmocka_unit_test(intervals_of_confidence_keep_what_they_say),
		cmocka_unit_test(targets_that_send_otherwise_are_seen),
		cmocka_unit_test(a_round_in_which_the_distance_changed_is_seen),
		cmocka_unit_test(a_report_without_figures_is_refused),
		cmocka_unit_test(puts_of_a_moment_are_told),
		cmocka_unit_test(processor_time_is_of_both_sides),
		cmocka_unit_test(events_are_sorted_by_time),
		cmocka_unit_test(a_server_whose_first_event_is_its_start_is_late),
		cmocka_unit_test(events_in_an_impossible_order_are_refused),
		cmocka_unit_test(other_events_are_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
