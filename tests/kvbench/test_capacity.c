/* SPDX-License-Identifier: Apache-2.0 */
/* test_capacity.c -- kv-bench capacity: its steps and options, and the resource that ended one. */
#include <errno.h>

#include "host/host.h"
#include "kvbench/capacity/capacity.h"
#include "tests/kvbench/check.h"

static void steps_are(const char *text, uint32_t max, const uint32_t *want, unsigned n)
{
	struct bench_list s;
	struct kv_error err = {0};
	if (bench_list_parse_to("steps", text, max, &s, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	assert_int_equal(s.count, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(s.value[i], want[i]);
}

#define STEPS(text, max, ...)                                                                                          \
	steps_are(text, max, (const uint32_t[]){__VA_ARGS__},                                                          \
		  sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void steps_are_a_list_that_may_go_on(void **state)
{
	(void)state;
	STEPS("10", 1000, 10);
	STEPS("10,100,450,500,...", 650, 10, 100, 450, 500, 550, 600, 650);
	STEPS("10,100,450,500,...", 649, 10, 100, 450, 500, 550, 600);
	STEPS("10,100,450,500,...", 470, 10, 100, 450);
	STEPS("1,2,...", 5, 1, 2, 3, 4, 5);
	STEPS("10,20,...,45", 1000, 10, 20, 30, 40, 45);
	STEPS("7,4000000000", 7, 7);
}

static void bad_steps_are_refused(void **state)
{
	static const struct {
		const char *text, *words;
	} bad[] = {{"", "''"},
		   {"0", "out of range"},
		   {"10,10", "must rise"},
		   {"100,10", "must rise"},
		   {"many", "many"},
		   {"10,...", "how it continues"},
		   {"...", "how it continues"},
		   {"10,,20", "''"},
		   {"10,...,...", "last number"},
		   {"-5", "-5"},
		   {"1.5", "1.5"},
		   {"1,2,...", "more than 256"}};
	struct bench_list s;
	struct kv_error err;

	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		err = (struct kv_error){0};
		if (bench_list_parse_to("steps", bad[i].text, 4096, &s, &err) != -KV_EINVAL ||
		    !strstr(err.text, bad[i].words))
			fail_msg("\"%s\": \"%s\" does not say \"%s\"", bad[i].text, err.text, bad[i].words);
	}
}

static void pooled_steps_go_on_to_the_most(void **state)
{
	struct bench_list s;
	static const uint32_t want[] = {10, 450, 500, 1000, 2000, 5000, 10000, 20000};
	(void)state;
	assert_int_equal(bench_list_parse_to("steps", "10,450", 450, &s, NULL), 0);
	capacity_steps_extend(&s, 20000);
	assert_int_equal(s.count, KV_COUNT(want));
	for (unsigned i = 0; i < s.count; i++)
		assert_int_equal(s.value[i], want[i]);
	assert_int_equal(bench_list_parse_to("steps", "10", 10, &s, NULL), 0);
	capacity_steps_extend(&s, 17);
	assert_int_equal(s.count, 2);
	assert_int_equal(s.value[1], 17);
	capacity_steps_extend(&s, 5);
	assert_int_equal(s.count, 2);
	/* However long the list was. */
	assert_int_equal(bench_list_parse_to("steps", "1,2,...", BENCH_LIST_MAX, &s, NULL), 0);
	assert_int_equal(s.count, BENCH_LIST_MAX);
	capacity_steps_extend(&s, CAPACITY_SESSIONS_MAX);
	assert_int_equal(s.value[BENCH_LIST_MAX], 500);
	assert_int_equal(s.value[s.count - 1], CAPACITY_SESSIONS_MAX);
	assert_in_range(s.count, BENCH_LIST_MAX + 1, BENCH_LIST_ROOM);
	/* Nothing of the list is left. */
	assert_int_equal(bench_list_parse_to("steps", "300", 50, &s, NULL), 0);
	capacity_steps_extend(&s, 50);
	assert_int_equal(s.value[0], 1);
	assert_int_equal(s.value[s.count - 1], 50);
}

static int parse(struct capacity_options *o, struct kv_error *err, const char *const *args)
{
	const char *argv[16] = {"kv-bench"};
	int argc = 1;
	memset(err, 0, sizeof(*err));
	for (; args[argc - 1]; argc++)
		argv[argc] = args[argc - 1];
	return capacity_options_parse(argc, (char **)(uintptr_t)argv, o, err);
}

#define PARSE(o, err, ...) parse(o, err, (const char *const[]){__VA_ARGS__, NULL})

static void options_that_do_not_agree_are_refused(void **state)
{
	struct capacity_options o;
	struct kv_error err;
	(void)state;
	assert_int_equal(PARSE(&o, &err, "--steps", "3"), 0);
	assert_int_equal(o.model, CAPACITY_MODELS);
	assert_int_equal(PARSE(&o, &err, "--steps", "300", "--max-clients", "200"), -KV_EINVAL);
	assert_non_null(strstr(err.text, "leaves no step"));
	assert_int_equal(PARSE(&o, &err, "--max-clients", "5000"), -KV_EINVAL);
	assert_int_equal(PARSE(&o, &err, "--model", "some"), -KV_EINVAL);
	assert_non_null(strstr(err.text, "endpoints"));
	assert_int_equal(PARSE(&o, &err, "--model", "pooled", "--device", "rxe0"), -KV_EINVAL);
	assert_non_null(strstr(err.text, "--nic"));
	assert_int_equal(PARSE(&o, &err, "--model", "verbs", "--server", "localhost:1"), -KV_EINVAL);
	assert_int_equal(PARSE(&o, &err, "--psk-file", "x"), -KV_EINVAL);
	assert_non_null(strstr(err.text, "--server"));
	assert_int_equal(PARSE(&o, &err, "--server", "localhost:1", "--server-threads", "2"), -KV_EINVAL);
	assert_int_equal(PARSE(&o, &err, "--server", "local:host"), -KV_EINVAL);
	assert_int_equal(PARSE(&o, &err, "extra"), -KV_EINVAL);
}

static void locked_memory_is_blamed_where_it_is_short(void **state)
{
	struct kv_host host = {.memlock_soft = 8 << 20, .locked_bytes = (8 << 20) - 4096};
	(void)state;
	assert_int_equal(step_verbs_end(STEP_QPS, ENOMEM, &host), STEP_LOCKED);
	assert_int_equal(step_verbs_end(STEP_MRS, EAGAIN, &host), STEP_LOCKED);
	assert_int_equal(step_verbs_end(STEP_QPS, EINVAL, &host), STEP_QPS);
	assert_int_equal(step_verbs_end(STEP_CQS, EMFILE, &host), STEP_FILES);
	host.locks_freely = true; /* root: the limit is not heeded, so it is the device */
	assert_int_equal(step_verbs_end(STEP_MRS, ENOMEM, &host), STEP_MRS);
	host = (struct kv_host){.memlock_soft = 8 << 20, .locked_bytes = 1 << 20};
	assert_int_equal(step_verbs_end(STEP_QPS, ENOMEM, &host), STEP_QPS);
	host.memlock_soft = KV_NO_LIMIT;
	host.locked_bytes = 1ull << 40;
	assert_int_equal(step_verbs_end(STEP_CQS, ENOMEM, &host), STEP_CQS);
	host = (struct kv_host){.memlock_soft = KV_UNKNOWN, .locked_bytes = KV_UNKNOWN};
	assert_int_equal(step_verbs_end(STEP_MRS, ENOMEM, &host), STEP_MRS);
}

static void the_engines_sentences_are_understood(void **state)
{
	static const struct {
		const char *text;
		enum step_end end;
	} said[] = {
		{"client 20: tcp;ofi_rxm on lo: open files: needs 38, 200 allowed, 190 open already; `ulimit -n 65536`",
		 STEP_FILES},
		{"client 3: verbs on rxe0: locked memory: needs 5 MiB, 64 KiB allowed; memory: of this", STEP_LOCKED},
		{"client 256: tcp on lo: endpoints: needs 1, 256 allowed, 256 open in this process; use fewer clients",
		 STEP_EPS},
		{"tcp: memory: needs 9 GiB, 1 GiB available", STEP_MEMORY},
		{"rxe0: CQ entries: needs 263,168, 32,767 allowed; set smaller FI_UNIVERSE_SIZE", STEP_CQS},
		{"fi_enable on rdmap0 (efa): Cannot allocate memory, with 255 endpoints of this process open; queue "
		 "pairs is short: needs 1",
		 STEP_QPS},
		{"fi_enable on rdmap0 (efa): Cannot allocate memory; no limit that can be seen is short (queue pairs: "
		 "needs 1, 256 allowed)",
		 STEP_PROVIDER},
		{"client 4: eventfd: Too many open files", STEP_FILES},
		{"io_uring_setup: this process has all of its 40 files open; raise the limit (ulimit -n, LimitNOFILE)",
		 STEP_FILES},
		{"thread 2 of 2 cannot be started: Resource temporarily unavailable; look at ulimit -u", STEP_THREADS},
		{"client 4: the peer is not reachable", STEP_COMPLETE},
	};

	(void)state;
	for (unsigned i = 0; i < KV_COUNT(said); i++)
		if (step_end_said(said[i].text) != said[i].end)
			fail_msg("\"%s\" is understood as %s", said[i].text,
				 step_end_name((int)step_end_said(said[i].text)));
}

static void every_end_has_a_name(void **state)
{
	(void)state;
	for (int i = 1; i < STEP_ENDS; i++) {
		assert_non_null(step_end_name(i));
		assert_in_range(strlen(step_end_name(i)), 2, 32);
	}
	assert_string_equal(step_end_name(STEP_UNUSABLE), "not usable");
	assert_string_equal(step_end_name(STEP_LOCKED), "locked memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_are_a_list_that_may_go_on),
		cmocka_unit_test(bad_steps_are_refused),
		cmocka_unit_test(pooled_steps_go_on_to_the_most),
		cmocka_unit_test(options_that_do_not_agree_are_refused),
		cmocka_unit_test(locked_memory_is_blamed_where_it_is_short),
		cmocka_unit_test(the_engines_sentences_are_understood),
		cmocka_unit_test(every_end_has_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
