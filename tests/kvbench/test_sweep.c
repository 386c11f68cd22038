/* SPDX-License-Identifier: Apache-2.0 */
/* test_sweep.c -- the options of kv-bench sweep: lists, and the plan that is made of them. The rest is in tests/kvlab.
 */
#include "kvbench/sweep/sweep.h"
#include "tests/kvbench/check.h"

/* ---- lists ---- */

static void list_is(const char *text, bool size, const uint64_t *want, unsigned n)
{
	struct bench_list a;
	struct kv_error err = {0};
	if (bench_list_parse("list", text, size, 1, 1 << 30, &a, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	if (a.count != n)
		fail_msg("%s has %u numbers, not %u", text, a.count, n);
	for (unsigned i = 0; i < n; i++)
		if (a.value[i] != want[i])
			fail_msg("%s: number %u is %llu", text, i, (unsigned long long)a.value[i]);
}

#define LIST(text, size, ...)                                                                                          \
	list_is(text, size, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void lists_go_on_by_difference_or_factor(void **state)
{
	(void)state;
	LIST("7", false, 7);
	LIST("1,5,6", false, 1, 5, 6);
	LIST("1,2,4,...,64", false, 1, 2, 4, 8, 16, 32, 64);
	LIST("10,20,...,50", false, 10, 20, 30, 40, 50);
	LIST("1,2,3,...,6", false, 1, 2, 3, 4, 5, 6);
	LIST("3,9,27,...,243", false, 3, 9, 27, 81, 243);
	LIST("1,2,...,5", false, 1, 2, 3, 4, 5);
	LIST("1,2,4,...,9", false, 1, 2, 4, 8, 9);
	LIST("1,2,4,...,5", false, 1, 2, 4, 5);
	LIST("10,20,...,55", false, 10, 20, 30, 40, 50, 55);
	LIST("1,2,4,...,16,20,...,32", false, 1, 2, 4, 8, 16, 20, 24, 28, 32);
	LIST("1,2,4,...,16,32,64,...,256", false, 1, 2, 4, 8, 16, 32, 64, 128, 256);
	LIST("4KB,64KB,1MB", true, 4096, 65536, 1 << 20);
	LIST("4KB,8KB,16KB,...,64KB", true, 4096, 8192, 16384, 32768, 65536);
}

static void bad_lists_are_refused_with_their_reason(void **state)
{
	static const struct {
		const char *text, *words;
	} bad[] = {{"", "'' is not a number"},
		   {"0", "out of range"},
		   {"0,1,...,4", "out of range"},
		   {"1,", "'' is not"},
		   {",1", "'' is not"},
		   {"1,1", "must rise"},
		   {"4,2", "must rise"},
		   {"1,2,4,...,2", "must rise"},
		   {"1,2,4,...,4", "must rise"},
		   {"1,2,4,...", "the last number after"},
		   {"1,2,4,...,", "'' is not a number"},
		   {"1,2,...,...,9", "the last number after"},
		   {"...,9", "do not show"},
		   {"5,...,9", "do not show"},
		   {"1,2,4,...,16,...,64", "do not show"},
		   {"1,2,5,...,100", "do not show"},
		   {"1,2,...,1000", "more than 256"},
		   {"1,2,4,...,99999999999", "out of range"},
		   {"99999999999999999999999999", "is not a number"},
		   {"-1", "'-1' is not"},
		   {"1.5", "'1.5' is not"},
		   {"many", "'many' is not"},
		   {"1 2", "'1 2' is not"}};
	struct bench_list a;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct kv_error err = {0};
		if (bench_list_parse("list", bad[i].text, false, 1, 1 << 30, &a, &err) != -KV_EINVAL)
			fail_msg("%s was taken", bad[i].text);
		check_contains(err.text, bad[i].words);
		check_contains(err.text, "--list");
	}
}

/* Whatever is written, a list that is taken rises, stays in its range and ends as it says. */
static void random_lists_rise_or_are_refused(void **state)
{
	struct kv_prng prng = check_seed();
	(void)state;
	for (unsigned n = 0; n < 20000; n++) {
		static const char letters[] = "0123456789,,,,..1248K-";
		struct bench_list a;
		struct kv_error err = {0};
		char text[64] = "1,2,4,...,";
		unsigned len = (unsigned)kv_prng_below(&prng, 40), at = kv_prng_below(&prng, 2) ? 0 : 10;
		for (unsigned i = 0; i < len; i++)
			text[at + i] = letters[kv_prng_below(&prng, sizeof(letters) - 1)];
		text[at + len] = 0;
		if (bench_list_parse("list", text, n % 2, 1, 1 << 20, &a, &err) < 0) {
			assert_true(err.text[0]);
			continue;
		}
		assert_in_range(a.count, 1, BENCH_LIST_MAX);
		for (unsigned i = 0; i < a.count; i++) {
			assert_in_range(a.value[i], 1, 1 << 20);
			if (i > 0 && a.value[i] <= a.value[i - 1])
				fail_msg("%s does not rise", text);
		}
	}
}

/* ---- the plan ---- */

static json_t *plan(struct sweep_options *o, struct kv_error *err, int argc, char **argv)
{
	memset(o, 0, sizeof(*o));
	memset(err, 0, sizeof(*err));
	return sweep_options_parse(argc, argv, o, err) == 0 ? sweep_plan(o, err) : NULL;
}

/* The strings must outlive it: options point into them. */
#define PLAN(o, err, ...)                                                                                              \
	plan(o, err, sizeof((char *[]){"kv-bench sweep", __VA_ARGS__}) / sizeof(char *),                               \
	     (char *[]){"kv-bench sweep", __VA_ARGS__, NULL})

static struct sweep_options options; /* too large for a stack */

static void what_makes_no_sense_is_skipped_with_its_reason(void **state)
{
	struct kv_error err;
	unsigned more = 0, large = 0, run = 0;
	json_t *made = PLAN(&options, &err, "-w", "1,2,4", "-c", "1,2", "-v", "4KB,64MB"), *cell;
	size_t i;
	(void)state;
	assert_int_equal(json_array_size(json_object_get(made, "cells")), 12);
	json_array_foreach(json_object_get(made, "cells"), i, cell)
	{
		const char *skipped = json_string_value(json_object_get(cell, "skipped"));
		more += skipped && strstr(skipped, "more clients than workers") != NULL;
		large += skipped && strstr(skipped, "does not fit half of a client's buffer") != NULL;
		run += !skipped;
	}
	assert_int_equal(more, 2);
	assert_int_equal(large, 5);
	assert_int_equal(run, 5);
	json_decref(made);
	assert_null(PLAN(&options, &err, "-w", "1", "-c", "2"));
	check_contains(err.text, "no combination remains to run: more clients than workers");
	assert_null(PLAN(&options, &err, "-w", "1,2,3,...,60", "-v", "1,2,3,...,60", "-c", "1,2"));
	check_contains(err.text, "7200 combinations");
	assert_null(PLAN(&options, &err, "-w", "1,2,3,...,60", "-v", "1,2,3,...,60", "--repeat-runs", "900"));
	check_contains(err.text, "more than 99999 runs");
}

/* A run gets what was asked for, and nothing that is the sweep's own; and kv-bench takes it. */
static void a_run_gets_the_options_of_kv_bench(void **state)
{
	static struct bench_options parsed;
	const char *argv[64] = {"kv-bench"};
	struct kv_error err;
	json_t *made = PLAN(&options, &err, "-w", "8", "-v", "4KB", "-c", "2", "--duration", "250ms", "--verify",
			    "--mix=80:15:5", "--warmup-steady", "2.5", "--json", "x.json", "--repeat-runs", "3",
			    "--server", "a=127.0.0.1:1", "--server", "b=127.0.0.1:2", "--seed", "5", "--copies", "hot");
	json_t *args = json_object_get(made, "args"), *arg;
	bool json = false;
	size_t i;
	(void)state;
	json_array_foreach(args, i, arg)
	{
		argv[i + 1] = json_string_value(arg);
		json |= strncmp(argv[i + 1], "--json", 6) == 0;
	}
	assert_false(json);
	assert_int_equal(bench_options_parse((int)json_array_size(args) + 1, (char **)(uintptr_t)argv, &parsed, &err),
			 0);
	assert_int_equal(parsed.pace.duration_ns, 250000000);
	assert_true(parsed.load.verify && parsed.pace.warmup_steady == 2.5 && parsed.client.copies == BENCH_COPIES_HOT);
	assert_string_equal(parsed.load.mix_text, "80:15:5");
	assert_int_equal(parsed.pace.repeat_runs, 1);
	assert_int_equal(parsed.target.servers.count, 2);
	assert_int_equal(json_integer_value(json_object_get(made, "repeat_runs")), 3);
	assert_int_equal(json_integer_value(json_object_get(made, "seed")), 5);
	assert_int_equal(json_array_size(json_object_get(made, "servers")), 2);
	assert_string_equal(json_string_value(json_object_get(made, "json")), "x.json");
	assert_null(json_string_value(json_object_get(made, "report")));
	json_decref(made);
}

static void what_a_sweep_cannot_show_is_no_option_of_it(void **state)
{
	static const char *const none[] = {"trace", "slo", "roofline", "keep-going", "no-write", "hdr", "progress"};
	static const char *const some[] = {"duration", "batch", "slices",   "async",     "rate",
					   "mix",      "model", "psk-file", "memory-mb", "provider"};
	unsigned rows = 0;
	(void)state;
	for (const struct kv_opt *row = sweep_options_table(); row->name; row++, rows++) {
		for (unsigned i = 0; i < KV_COUNT(none); i++)
			assert_string_not_equal(row->name, none[i]);
		for (const struct kv_opt *other = row + 1; other->name; other++)
			assert_string_not_equal(row->name, other->name);
	}
	for (unsigned i = 0; i < KV_COUNT(some); i++) {
		const struct kv_opt *row = sweep_options_table();
		while (row->name && strcmp(row->name, some[i]) != 0)
			row++;
		assert_non_null(row->name);
	}
	assert_true(rows > 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_go_on_by_difference_or_factor),
		cmocka_unit_test(bad_lists_are_refused_with_their_reason),
		cmocka_unit_test(random_lists_rise_or_are_refused),
		cmocka_unit_test(what_makes_no_sense_is_skipped_with_its_reason),
		cmocka_unit_test(a_run_gets_the_options_of_kv_bench),
		cmocka_unit_test(what_a_sweep_cannot_show_is_no_option_of_it),
	};
	return cmocka_run_group_tests_name("kvbench/sweep", tests, NULL, NULL);
}
