/* SPDX-License-Identifier: Apache-2.0 */
/* test_result.c -- what is sampled beside a run, the conditions of the machine, and files. What is made of a result is
 * in tests/kvlab. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvbench/measure/conditions.h"
#include "kvbench/measure/progress.h"
#include "kvbench/measure/series.h"
#include "tests/kvbench/check.h"

/* ---- sampling ---- */

struct adder {
	struct bench_tally *tally;
	atomic_bool over;
};

static void *add(void *arg)
{
	struct adder *a = arg;
	while (!atomic_load_explicit(&a->over, memory_order_relaxed)) {
		kv_hist_add(&a->tally->latency, 1000);
		bench_bump(&a->tally->ops, 1);
		bench_bump(&a->tally->bytes, 7);
	}
	return NULL;
}

static void windows_add_up_to_what_was_counted(void **state)
{
	static struct bench_tally tally[2];
	struct series_source source = {tally, sizeof(tally[0]), 2};
	struct bench_series series = {0};
	struct adder adder[2] = {{.tally = &tally[0]}, {.tally = &tally[1]}};
	struct series_sampler *sampler;
	struct bench_window live;
	pthread_t thread[2];
	uint64_t ops = 0, bytes = 0, samples = 0, length = 0;
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		bench_tally_init(&tally[i]);
	sampler = series_start(&source, 1000000, &series);
	assert_non_null(sampler);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, add, &adder[i]), 0);
	do {
		sched_yield();
	} while (!series_live(sampler, &live) || live.ops == 0);
	for (unsigned i = 0; i < 2; i++)
		atomic_store(&adder[i].over, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	series_stop(sampler);
	assert_true(series.count >= 2);
	for (unsigned i = 0; i < series.count; i++) {
		const struct bench_window *w = &series.row[i];
		ops += w->ops;
		bytes += w->bytes;
		samples += w->samples;
		length += w->length_ns;
		assert_true(w->samples == 0 || (w->p50_ns >= 1000 && w->p50_ns <= 1008));
	}
	assert_int_equal(ops, tally[0].ops + tally[1].ops);
	assert_int_equal(bytes, tally[0].bytes + tally[1].bytes);
	assert_int_equal(samples, tally[0].latency.count + tally[1].latency.count);
	assert_int_equal(length, series.row[series.count - 1].end_ns);
	bench_series_free(&series);
	assert_int_equal(series.count, 0);
}

static void a_phase_without_operations_has_windows_without_percentiles(void **state)
{
	static struct bench_tally tally;
	struct series_source source = {&tally, sizeof(tally), 1};
	struct bench_series series = {0};
	(void)state;
	bench_tally_init(&tally);
	series_stop(series_start(&source, 1000000000, &series));
	assert_int_equal(series.count, 1);
	assert_int_equal(series.row[0].samples, 0);
	bench_series_free(&series);
	series_stop(NULL);
	assert_false(series_live(NULL, NULL));
}

static void repeated_runs_make_one_series(void **state)
{
	static struct bench_tally tally;
	struct series_source source = {&tally, sizeof(tally), 1};
	struct bench_series all = {0}, more = {0};
	(void)state;
	bench_tally_init(&tally);
	for (unsigned i = 1; i <= 3; i++) {
		uint64_t end_ns = all.count ? all.row[all.count - 1].end_ns : 0;
		series_stop(series_start(&source, 1000000000, &more));
		bench_series_append(&all, &more);
		assert_int_equal(all.count, i);
		assert_int_equal(more.count, 0);
		assert_null(more.row);
		assert_int_equal(all.row[i - 1].end_ns, end_ns + all.row[i - 1].length_ns);
	}
	bench_series_free(&all);
}

static void the_live_line_fits(void **state)
{
	struct progress p = {.name = "warm-up",
			     .total = 1000000000,
			     .tty = true,
			     .has_window = true,
			     .window = {.length_ns = 1000000000,
					.ops = 99999999,
					.bytes = 999999999999,
					.samples = 1,
					.p50_ns = 99999999,
					.p99_ns = 999999999}};
	char text[128];
	(void)state;
	progress_text(&p, 400000000, 3600000000000ull, text, sizeof(text));
	assert_true(strlen(text) <= 79);
	check_contains(text, "p50 100 ms");
	p.window.p99_ns = 0; /* of too few */
	progress_text(&p, 400000000, 3600000000000ull, text, sizeof(text));
	check_contains(text, "p99 -");
	p.window.samples = 0;
	progress_text(&p, 400000000, 3600000000000ull, text, sizeof(text));
	assert_null(strstr(text, "p50"));
}

static void the_processors_times_are_read(void **state)
{
	uint64_t all, idle, steal;
	(void)state;
	assert_true(bench_stat_parse("cpu  10 1 5 100 4 2 3 7 50 60", &all, &idle, &steal));
	assert_int_equal(all, 132);
	assert_int_equal(idle, 104);
	assert_int_equal(steal, 7);
	assert_false(bench_stat_parse("cpu  10 1 5", &all, &idle, &steal));
	assert_false(bench_stat_parse("intr 1 2 3 4 5 6 7 8 9", &all, &idle, &steal));
	assert_true(bench_distance_ns() >= -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_add_up_to_what_was_counted),
		cmocka_unit_test(a_phase_without_operations_has_windows_without_percentiles),
		cmocka_unit_test(repeated_runs_make_one_series),
		cmocka_unit_test(the_live_line_fits),
		cmocka_unit_test(the_processors_times_are_read),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
