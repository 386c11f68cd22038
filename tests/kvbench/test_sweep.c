/* SPDX-License-Identifier: Apache-2.0 */
/* test_sweep.c -- kv-bench sweep without a run: lists, cells, their order and command lines, the table, and what a file
 * gives back. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvbench/measure/runs.h"
#include "kvbench/report/document.h"
#include "kvbench/report/figures.h"
#include "kvbench/report/measured.h"
#include "kvbench/report/page.h"
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
		   {"1,2,4,...", "must stand behind"},
		   {"1,2,4,...,", "'' is not a number"},
		   {"1,2,...,...,9", "must stand behind"},
		   {"...,9", "do not tell"},
		   {"5,...,9", "do not tell"},
		   {"1,2,4,...,16,...,64", "do not tell"},
		   {"1,2,5,...,100", "do not tell"},
		   {"1,2,...,1000", "more than 64"},
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

/* ---- cells ---- */

static int plan(struct sweep *s, struct kv_error *err, int argc, char **argv)
{
	int rc;
	memset(s, 0, sizeof(*s));
	rc = sweep_options_parse(argc, argv, &s->opt, err);
	s->order_seed = 7;
	return rc == 0 ? sweep_plan(s, err) : rc;
}

/* The strings must outlive it: options point into them. */
#define PLAN(s, err, ...)                                                                                              \
	plan(s, err, sizeof((char *[]){"kv-bench sweep", __VA_ARGS__}) / sizeof(char *),                               \
	     (char *[]){"kv-bench sweep", __VA_ARGS__, NULL})

static struct sweep sweep; /* too large for a stack */

static void what_makes_no_sense_is_skipped_with_its_reason(void **state)
{
	struct kv_error err = {0};
	unsigned more = 0, large = 0, run = 0;
	(void)state;
	assert_int_equal(PLAN(&sweep, &err, "-w", "1,2,4", "-c", "1,2", "-v", "4KB,64MB"), 0);
	assert_int_equal(sweep.num_cells, 12);
	for (unsigned i = 0; i < sweep.num_cells; i++) {
		const struct sweep_cell *c = &sweep.cell[i];
		more += strstr(c->reason, "more clients than workers") != NULL;
		large += strstr(c->reason, "does not fit half of a client's buffer") != NULL;
		run += c->state == SWEEP_PENDING;
		assert_int_equal(c->state == SWEEP_SKIPPED, c->reason[0] != 0);
	}
	assert_int_equal(more, 2);
	assert_int_equal(large, 5);
	assert_int_equal(run, 5);
	sweep_free(&sweep);
	assert_int_equal(PLAN(&sweep, &err, "-w", "1", "-c", "2"), -KV_EINVAL);
	check_contains(err.text, "no combination is left to run: more clients than workers");
	sweep_free(&sweep);
	assert_int_equal(PLAN(&sweep, &err, "-w", "1,2,3,...,60", "-v", "1,2,3,...,60", "-c", "1,2"), -KV_EINVAL);
	check_contains(err.text, "7200 combinations");
	assert_int_equal(PLAN(&sweep, &err, "-w", "1,2,3,...,60", "-v", "1,2,3,...,60", "--repeat-runs", "900"),
			 -KV_EINVAL);
	check_contains(err.text, "more than 99999 runs");
}

static bool has(const struct again_args *args, const char *what)
{
	for (unsigned i = 0; i < args->count; i++)
		if (strcmp(args->arg[i], what) == 0)
			return true;
	return false;
}

/* A run gets what was asked for, and nothing that is the sweep's own; and kv-bench takes it. */
static void a_run_gets_the_options_of_kv_bench(void **state)
{
	static struct again_args args;
	static struct bench_options parsed;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(PLAN(&sweep, &err, "-w", "8", "-v", "4KB", "-c", "2", "--duration", "250ms", "--verify",
			      "--mix=80:15:5", "--warmup-steady", "2.5", "--json", "x.json", "--repeat-runs", "3",
			      "--server", "a=127.0.0.1:1", "--server", "b=127.0.0.1:2", "--seed", "5", "--copies",
			      "hot"),
			 0);
	memset(&args, 0, sizeof(args));
	again_put(&args, "kv-bench");
	sweep_settings(&sweep.opt, false, &args);
	sweep_cell_args(&sweep.cell[0], 99, &args);
	assert_int_equal(again_check(&args, &err), 0);
	assert_true(has(&args, "--verify"));
	assert_true(has(&args, "--mix=80:15:5"));
	assert_true(has(&args, "--server=a=127.0.0.1:1") && has(&args, "--server=b=127.0.0.1:2"));
	assert_true(has(&args, "--copies=hot"));
	assert_false(has(&args, "--json=x.json"));
	assert_int_equal(bench_options_parse((int)args.count, (char **)(uintptr_t)args.arg, &parsed, &err), 0);
	assert_int_equal(parsed.num_workers, 8);
	assert_int_equal(parsed.num_clients, 2);
	assert_int_equal(parsed.value_size, 4096);
	assert_int_equal(parsed.duration_ns, 250000000);
	assert_true(parsed.warmup_steady == 2.5);
	assert_int_equal(parsed.seed, 99);
	assert_int_equal(parsed.repeat_runs, 1);
	assert_string_equal(parsed.json, "-");
	assert_int_equal(parsed.servers.count, 2);
	sweep_free(&sweep);
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

static void a_round_has_every_cell_once_in_an_order_of_its_own(void **state)
{
	unsigned a[64], b[64], n;
	uint64_t seen = 0;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(PLAN(&sweep, &err, "-w", "1,2,3,...,32", "--repeat-runs", "2"), 0);
	n = sweep_order(&sweep, 0, a);
	assert_int_equal(n, 32);
	for (unsigned i = 0; i < n; i++)
		seen |= (uint64_t)1 << a[i];
	assert_true(seen == 0xffffffff);
	assert_int_equal(sweep_order(&sweep, 0, b), n);
	assert_memory_equal(a, b, n * sizeof(*a));
	assert_int_equal(sweep_order(&sweep, 1, b), n);
	assert_memory_not_equal(a, b, n * sizeof(*a));
	sweep.order_seed = 8;
	assert_int_equal(sweep_order(&sweep, 0, b), n);
	assert_memory_not_equal(a, b, n * sizeof(*a));
	sweep.cell[3].state = SWEEP_FAILED;
	assert_int_equal(sweep_order(&sweep, 0, b), n - 1);
	sweep_free(&sweep);
}

/* ---- reports of runs ---- */

static json_t *report_of(const char *wait, double ops, const char *host)
{
	return json_pack("{s:s, s:{s:b, s:[]}, s:{s:s, s:s, s:s, s:i, s:f, s:f}, s:{s:s, s:i}, s:{s:s, s:s},"
			 " s:{s:s}, s:{s:{s:i, s:f}, s:{s:i, s:f, s:f, s:f, s:{s:i, s:i}}}}",
			 "schema", "kvbench/1", "verdict", "ok", 1, "problems", "conditions", "provider", "tcp", "wait",
			 wait, "libfabric", "9.9", "cores", 2, "histogram_error", 0.0078125, "others_cores", 0.5,
			 "host", "name", host, "cores", 2, "provider", "name", "tcp", "wait", wait, "run", "time",
			 "now", "phases", "write", "duplicates", 0, "ops_per_s", ops / 2, "read", "ops", 100,
			 "ops_per_s", ops, "bytes_per_s", ops * 4096, "seconds", 1.0, "latency_ns", "p50", 1000, "p99",
			 9000);
}

static int take(unsigned cell, const char *wait, double ops, struct kv_error *err)
{
	char host[256] = "";
	json_t *doc;
	int rc;
	gethostname(host, sizeof(host) - 1);
	doc = report_of(wait, ops, host);
	assert_non_null(doc);
	rc = sweep_take(&sweep, &sweep.cell[cell], doc, 1, err);
	sweep_cell_state(&sweep, &sweep.cell[cell]);
	json_decref(doc);
	return rc;
}

static void a_run_under_other_conditions_is_not_taken(void **state)
{
	struct kv_error err = {0};
	json_t *doc;
	(void)state;
	assert_int_equal(PLAN(&sweep, &err, "-w", "1,2", "--repeat-runs", "2"), 0);
	assert_int_equal(take(0, "epoll", 10, &err), 0);
	assert_int_equal(sweep.cell[0].state, SWEEP_PARTIAL);
	assert_true(take(1, "spin", 10, &err) < 0);
	check_contains(err.text, "wait is \"spin\", and was \"epoll\"");
	assert_int_equal(json_array_size(sweep.cell[1].runs), 0);
	assert_true(take(1, "epoll", 0, &err) < 0);
	check_contains(err.text, "read nothing");
	doc = json_loads("{\"verdict\": {\"ok\": false, \"problems\": [\"3 reads were wrong\"]}}", 0, NULL);
	assert_true(sweep_take(&sweep, &sweep.cell[1], doc, 1, &err) < 0);
	check_contains(err.text, "3 reads were wrong");
	json_decref(doc);
	doc = json_loads("[1]", 0, NULL);
	assert_true(sweep_take(&sweep, &sweep.cell[1], doc, 1, &err) < 0);
	json_decref(doc);
	assert_int_equal(take(0, "epoll", 30, &err), 0);
	assert_int_equal(sweep.cell[0].state, SWEEP_DONE);
	sweep_free(&sweep);
}

/* ---- text ---- */

static void lines_fit(const char *text)
{
	for (const char *at = text; *at; at += strcspn(at, "\n") + 1) {
		size_t len = strcspn(at, "\n");
		if (len > KV_COLUMNS)
			fail_msg("%zu columns: %.*s", len, (int)len, at);
		if (!at[len])
			break;
	}
}

static void the_table_is_no_wider_than_a_terminal(void **state)
{
	struct kv_error err = {0};
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	(void)state;
	assert_int_equal(PLAN(&sweep, &err, "-w", "1,1024,65535,65536", "-c", "1,1024", "-v", "1,1023KB,1GB",
			      "--buffer-mb", "4096", "--repeat-runs", "2"),
			 0);
	for (unsigned i = 0; i < sweep.num_cells; i++)
		for (unsigned k = 0; k < 2 && sweep.cell[i].state != SWEEP_SKIPPED; k++)
			assert_int_equal(take(i, "epoll", (k ? 1.0 : 0.001) * (i % 3 ? 123456789 : 0.5), &err), 0);
	sweep.cell[2].state = SWEEP_FAILED;
	snprintf(sweep.cell[2].reason, sizeof(sweep.cell[2].reason), "%0300d", 7);
	memset(sweep.cell[2].reason + 20, ' ', 1);
	memset(sweep.cell[2].reason + 80, '\0', 1);
	sweep.kept = 4000000000u;
	sweep_print_head(&sweep, 99999, out);
	for (unsigned i = 0; i < sweep.num_cells; i++)
		if (sweep.cell[i].state != SWEEP_SKIPPED)
			sweep_print_run(&sweep.cell[i], 99999, 99999, UINT64_MAX, out);
	sweep_print_table(&sweep, out);
	fclose(out);
	lines_fit(text);
	check_contains(text, "more clients than workers");
	check_contains(text, "FAILED");
	check_contains(text, "65536");
	free(text);
	sweep_free(&sweep);
}

/* ---- the file ---- */

static struct check_file saved(void)
{
	json_t *doc = sweep_document(&sweep);
	char *text = json_dumps(doc, 0);
	struct check_file file = check_file_make(text);
	free(text);
	json_decref(doc);
	return file;
}

static void a_file_gives_back_what_was_measured(void **state)
{
	struct kv_error err = {0};
	struct check_file file;
	struct bench_spread f;
	(void)state;
	assert_int_equal(PLAN(&sweep, &err, "-w", "1,2,4", "-c", "1,2", "--repeat-runs", "2", "--duration", "1"), 0);
	assert_int_equal(take(0, "epoll", 10, &err), 0);
	assert_int_equal(take(0, "epoll", 30, &err), 0);
	assert_int_equal(take(1, "epoll", 50, &err), 0);
	sweep.cell[2].state = SWEEP_FAILED;
	file = saved();
	sweep_free(&sweep);
	/* Longer lists and more runs are no other sweep. */
	assert_int_equal(PLAN(&sweep, &err, "-w", "1,2,4,8", "-c", "1,2", "--repeat-runs", "3", "--duration", "1s"), 0);
	if (sweep_resume(&sweep, file.path, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(sweep.kept, 3);
	assert_int_equal(sweep.cell[0].state, SWEEP_PARTIAL);
	assert_int_equal(json_array_size(sweep.cell[0].runs), 2);
	assert_true(sweep_figure(&sweep.cell[0], "ops_per_s", &f) && f.median == 20 && f.min == 10 && f.max == 30);
	assert_int_equal(sweep.cell[2].state, SWEEP_PENDING);
	assert_true(take(2, "spin", 10, &err) < 0);
	sweep_free(&sweep);
	/* What is not there yet begins. */
	assert_int_equal(PLAN(&sweep, &err, "-w", "1"), 0);
	assert_int_equal(sweep_resume(&sweep, "/nonexistent/sweep.json", &err), 0);
	assert_int_equal(sweep.kept, 0);
	sweep_free(&sweep);
	check_file_remove(&file);
}

static void a_quantile_that_a_run_lacks_is_that_of_none(void **state)
{
	static const struct measured_metric *const p99 = &measured_of_phases[2];
	struct sweep_cell c = {.runs = json_pack("[{s:i, s:i, s:i}, {s:i, s:i}, {s:i, s:i, s:i}]", "ops_per_s", 300,
						 "p50_ns", 5, "p99_ns", 9, "ops_per_s", 100, "p50_ns", 7, "ops_per_s",
						 200, "p50_ns", 6, "p99_ns", 8)};
	json_t *point = json_pack("{s:O}", "runs", c.runs);
	struct bench_spread f;
	(void)state;
	assert_true(sweep_figure(&c, "p50_ns", &f) && f.median == 6);
	assert_false(sweep_figure(&c, "p99_ns", &f));
	assert_false(sweep_figure(&c, "write_p99_ns", &f));
	assert_string_equal(p99->in_runs, "p99_ns");
	assert_true(isnan(measured_of_point(point, p99).value));
	/* A run that wrote nothing anew lacks no sample of writing. */
	json_object_set_new(json_array_get(c.runs, 0), "write_p99_ns", json_integer(4));
	json_object_set_new(json_array_get(c.runs, 0), "write_ops_per_s", json_integer(50));
	assert_true(sweep_figure(&c, "write_p99_ns", &f) && f.median == 4);
	json_object_set_new(json_array_get(c.runs, 1), "p99_ns", json_integer(10));
	assert_true(sweep_figure(&c, "p99_ns", &f) && f.median == 9);
	assert_true(measured_of_point(point, p99).value == 9);
	json_decref(point);
	json_decref(c.runs);
}

static void refused(const char *text, const char *words)
{
	struct check_file file = check_file_make(text);
	struct kv_error err = {0};
	assert_true(sweep_resume(&sweep, file.path, &err) < 0);
	check_contains(err.text, words);
	assert_int_equal(sweep.kept, 0);
	for (unsigned i = 0; i < sweep.num_cells; i++)
		assert_int_equal(json_array_size(sweep.cell[i].runs), 0);
	check_file_remove(&file);
}

/* The document of this sweep, with one thing changed. */
static void spoilt(const char *what, json_t *value, const char *words)
{
	json_t *doc = sweep_document(&sweep), *at = doc;
	char name[64], *text;
	for (const char *rest = what; *rest; rest += *rest == '.') {
		size_t len = strcspn(rest, ".");
		snprintf(name, sizeof(name), "%.*s", (int)len, rest);
		rest += len;
		if (*rest)
			at = json_is_array(at) ? json_array_get(at, (size_t)atoi(name)) : json_object_get(at, name);
	}
	assert_int_equal(json_object_set_new(at, name, value), 0);
	text = json_dumps(doc, 0);
	refused(text, words);
	free(text);
	json_decref(doc);
}

static void a_file_of_another_sweep_is_refused_with_its_reason(void **state)
{
	struct kv_error err = {0};
	struct check_file file;
	(void)state;
	assert_int_equal(PLAN(&sweep, &err, "-w", "1,2", "--duration", "1", "--provider", "tcp"), 0);
	refused("", "it is empty");
	refused("{\"schema\": \"kvbench-sweep/1\", \"sweep\":", "it is cut off");
	refused("\n\n???", "line 3 is no JSON");
	refused("{\"schema\": \"kvbench/1\", \"phases\": {}}", "reads kvbench-sweep/1");
	refused("{\"schema\": \"kvbench-sweep/1\"}", "of an unknown version");
	spoilt("run.version", json_string("0.0.1"), "kv-bench 0.0.1 wrote it");
	spoilt("host.name", json_string("elsewhere"), "was measured on elsewhere");
	spoilt("sweep.points", json_string("x"), "no combinations");
	spoilt("sweep.points.0.runs", json_null(), "no list of runs");
	spoilt("sweep.points.0.runs", json_pack("[{s:i}]", "ops_per_s", 5), "lacks a figure");
	spoilt("sweep.points.0.runs",
	       json_pack("[{s:i, s:f, s:i, s:i}]", "ops_per_s", -5, "bytes_per_s", 1.0, "p50_ns", 1, "p99_ns", 1),
	       "lacks a figure");
	spoilt("sweep.settings", json_pack("[s]", "--duration=1s"), "--provider=tcp is an option of this sweep only");
	spoilt("sweep.settings", json_pack("[s, s, s]", "--duration=1s", "--provider=tcp", "--batch=4"),
	       "--batch=4 is an option of its sweep only");
	spoilt("sweep.settings", json_integer(7), "is an option of this sweep only");
	assert_int_equal(take(1, "epoll", 10, &err), 0);
	file = saved();
	sweep_free(&sweep);
	assert_int_equal(PLAN(&sweep, &err, "-w", "1", "--duration", "1", "--provider", "tcp"), 0);
	assert_true(sweep_resume(&sweep, file.path, &err) < 0);
	check_contains(err.text, "would lose them");
	sweep_free(&sweep);
	check_file_remove(&file);
}

/* ---- pictures ---- */

static void a_sweep_is_drawn(void **state)
{
	struct kv_error err = {0};
	char *text = NULL, *page;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	json_t *doc;
	(void)state;
	assert_int_equal(PLAN(&sweep, &err, "-w", "1,2,3,...,20", "-v", "4KB,64KB"), 0);
	doc = sweep_document(&sweep);
	assert_true(figure_write(out, doc, FIGURE_SCALING, true, &err) < 0);
	check_contains(err.text, "less than two combinations");
	json_decref(doc);
	for (unsigned i = 0; i < sweep.num_cells; i++)
		assert_int_equal(take(i, "epoll", 100 + i, &err), 0);
	doc = sweep_document(&sweep);
	assert_int_equal(figure_write(out, doc, FIGURE_SCALING, true, &err), 0);
	fclose(out);
	check_contains(text, "some columns");
	check_contains(text, ">20<");
	page = page_html(doc, &len, &err);
	assert_non_null(page);
	check_contains(page, "<svg");
	check_contains(page, "64 KiB");
	assert_null(strstr(page, "No chart over time"));
	free(page);
	free(text);
	json_decref(doc);
	sweep_free(&sweep);
}

/* A file of a stranger: whatever is in it, the page ends and holds no script. */
static void a_hostile_sweep_is_drawn_without_harm(void **state)
{
	static const char *const texts[] = {
		"{\"schema\": \"kvbench-sweep/1\", \"sweep\": {\"points\": ["
		"{\"state\": \"<script>\", \"num_workers\": 1e308, \"value_size\": -5, \"ops_per_s\": -1, \"p50_ns\": "
		"-3},"
		"{\"num_workers\": -1e308, \"value_size\": 1e300, \"ops_per_s\": 1e308, \"num_clients\": 0,"
		" \"spread\": {\"ops_per_s\": {\"spread\": 1e308}}, \"bytes_per_s\": -1e308}, 7, null, [], \"x\"],"
		" \"server\": \"<script>\"}, \"run\": {\"options\": [\"<script>\", 7]}}",
		"{\"schema\": \"kvbench-sweep/1\", \"sweep\": {\"points\": {\"a\": 1}}}",
		"{\"schema\": \"kvbench-sweep/1\", \"sweep\": 7, \"phases\": 7}",
	};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(texts); i++) {
		struct kv_error err = {0};
		json_t *doc = json_loads(texts[i], 0, NULL);
		size_t len = 0;
		char *page;
		assert_non_null(doc);
		page = page_html(doc, &len, &err);
		assert_non_null(page);
		assert_null(strstr(page, "<script"));
		free(page);
		json_decref(doc);
	}
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
		cmocka_unit_test(a_round_has_every_cell_once_in_an_order_of_its_own),
		cmocka_unit_test(a_run_under_other_conditions_is_not_taken),
		cmocka_unit_test(the_table_is_no_wider_than_a_terminal),
		cmocka_unit_test(a_file_gives_back_what_was_measured),
		cmocka_unit_test(a_quantile_that_a_run_lacks_is_that_of_none),
		cmocka_unit_test(a_file_of_another_sweep_is_refused_with_its_reason),
		cmocka_unit_test(a_sweep_is_drawn),
		cmocka_unit_test(a_hostile_sweep_is_drawn_without_harm),
	};
	return cmocka_run_group_tests_name("kvbench/sweep", tests, NULL, NULL);
}
