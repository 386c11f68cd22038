/* SPDX-License-Identifier: Apache-2.0 */
/* test_keys.c -- which key a read is of, and how large its value is: against the distributions that are promised. */
#include <math.h>
#include <stdlib.h>

#include "kvbench/load/keys.h"
#include "tests/kvbench/check.h"

enum { KEYS = 1000, DRAWS = 1000000 };

/* How far counts of DRAWS draws are from what was expected, per degree of freedom, in standard deviations: (chi^2 - df)
 * / sqrt(2 df). Cells with less than 5 expected draws are put together with their neighbours. */
static double chi_square(const uint64_t *count, const double *expected, unsigned n)
{
	double sum = 0, want = 0, got = 0;
	unsigned cells = 0;
	for (unsigned i = 0; i < n; i++) {
		want += expected[i];
		got += (double)count[i];
		if (want < 5 && i + 1 < n)
			continue;
		sum += (got - want) * (got - want) / want;
		want = got = 0;
		cells++;
	}
	return (sum - (cells - 1)) / sqrt(2.0 * (cells - 1));
}

/* Draw, and compare with weight(k): seeds are fixed, so the bound is not a matter of luck. */
static void check_draws(const char *pattern, uint64_t num_keys, double (*weight)(uint64_t k, double arg), double arg)
{
	static uint64_t count[KEYS];
	static double expected[KEYS];
	struct bench_pattern spec;
	struct bench_draw d;
	struct kv_error err;
	double sum = 0, off;
	assert_int_equal(bench_pattern_parse(pattern, &spec, &err), 0);
	for (uint64_t k = 0; k < num_keys; k++)
		sum += weight(k, arg);
	for (uint64_t k = 0; k < num_keys; k++)
		expected[k] = weight(k, arg) / sum * DRAWS;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		memset(count, 0, sizeof(count));
		bench_draw_init(&d, &spec, num_keys, seed);
		for (uint64_t i = 0; i < DRAWS; i++) {
			uint64_t key = bench_draw_key(&d, i);
			assert_true(key < num_keys);
			count[key]++;
		}
		if (num_keys == 1)
			continue;
		off = chi_square(count, expected, (unsigned)num_keys);
		print_message("# %s, seed %u: chi square is %.2f deviations from its mean\n", pattern, (unsigned)seed,
			      off);
		assert_true(off < 4 && off > -4); /* also not better than chance */
	}
}

static double zipf_weight(uint64_t k, double theta)
{
	return pow((double)(k + 1), -theta);
}

static double same_weight(uint64_t k, double arg)
{
	(void)k;
	(void)arg;
	return 1;
}

/* Of 1,000 keys 100 get nine tenths. */
static double hot_weight(uint64_t k, double arg)
{
	(void)arg;
	return k < 100 ? 0.9 / 100 : 0.1 / 900;
}

static void zipf_is_zipf(void **state)
{
	(void)state;
	check_draws("zipf:0.5", KEYS, zipf_weight, 0.5);
	check_draws("zipf:0.99", KEYS, zipf_weight, 0.99);
	check_draws("zipf:1", KEYS, zipf_weight, 1);
	check_draws("zipf:1.2", KEYS, zipf_weight, 1.2);
	check_draws("zipf:3", 50, zipf_weight, 3);
	check_draws("zipf:0.99", 2, zipf_weight, 0.99);
	check_draws("zipf:0.99", 1, zipf_weight, 0.99);
}

static void uniform_and_hot_are_what_they_say(void **state)
{
	(void)state;
	check_draws("uniform", KEYS, same_weight, 0);
	check_draws("uniform", 1, same_weight, 0);
	check_draws("hot:0.1:0.9", KEYS, hot_weight, 0);
	check_draws("hot:1:0.5", KEYS, same_weight, 0);
}

/* Of many keys the first ones have what the sum says, and none is out of range. */
static void zipf_of_many_keys(void **state)
{
	struct bench_pattern spec;
	struct bench_draw d;
	struct kv_error err;
	uint64_t first = 0;
	double sum = 0, expected;
	(void)state;
	assert_int_equal(bench_pattern_parse("zipf:0.99", &spec, &err), 0);
	bench_draw_init(&d, &spec, 10000000, 5);
	for (uint64_t k = 0; k < 10000000; k++)
		sum += zipf_weight(k, 0.99);
	expected = DRAWS / sum;
	for (uint64_t i = 0; i < DRAWS; i++) {
		uint64_t key = bench_draw_key(&d, i);
		assert_true(key < 10000000);
		first += key == 0;
	}
	assert_true(fabs((double)first - expected) < 4 * sqrt(expected));
	bench_draw_init(&d, &spec, (uint64_t)1 << 40, 5);
	for (uint64_t i = 0; i < 10000; i++)
		assert_true(bench_draw_key(&d, i) < (uint64_t)1 << 40);
}

static void sequential_and_shuffled(void **state)
{
	struct bench_pattern spec;
	struct bench_draw d;
	struct kv_error err;
	(void)state;
	assert_int_equal(bench_pattern_parse("sequential", &spec, &err), 0);
	bench_draw_init(&d, &spec, 7, 1);
	for (uint64_t i = 0; i < 30; i++)
		assert_int_equal(bench_draw_key(&d, i), i % 7);
	assert_int_equal(bench_pattern_parse(NULL, &spec, &err), 0);
	bench_draw_init(&d, &spec, 7, 1);
	for (uint64_t i = 0; i < 30; i++)
		assert_int_equal(bench_draw_key(&d, i), bench_order_key(i, 7, 1));
}

static void draws_are_repeatable_and_depend_on_the_seed(void **state)
{
	static const char *const patterns[] = {"uniform", "zipf:0.99", "hot:0.1:0.9"};
	struct bench_pattern spec;
	struct bench_draw a, b;
	struct kv_error err;
	(void)state;
	for (unsigned p = 0; p < KV_COUNT(patterns); p++) {
		unsigned same = 0;
		assert_int_equal(bench_pattern_parse(patterns[p], &spec, &err), 0);
		bench_draw_init(&a, &spec, KEYS, 1);
		bench_draw_init(&b, &spec, KEYS, 2);
		for (uint64_t i = 0; i < 1000; i++) {
			assert_int_equal(bench_draw_key(&a, i), bench_draw_key(&a, i));
			same += bench_draw_key(&a, i) == bench_draw_key(&b, i);
		}
		assert_true(same < 200);
	}
}

static void patterns_that_are_none_are_refused(void **state)
{
	static const char *const wrong[] = {
		"",         "zipf",     "zipf:",       "zipf:0",      "zipf:11",   "zipf:x",
		"zipf:nan", "zipf:1:2", "zipf:-1",     "hot",         "hot:0.1",   "hot:0:1",
		"hot:2:1",  "hot:.1:2", "hot:.1:.9:1", "sequential:", "uniform:1", "random"};
	struct bench_pattern spec;
	struct kv_error err;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(wrong); i++) {
		assert_int_equal(bench_pattern_parse(wrong[i], &spec, &err), -KV_EINVAL);
		check_contains(err.text, "zipf:THETA");
	}
}

/* ---- sizes ---- */

static void of_every_hundred_keys_sizes_are_exact(void **state)
{
	struct bench_options o = {.load.seed = 3};
	struct kv_error err;
	(void)state;
	assert_int_equal(bench_sizes_parse("4KB:50,64KB:40,1MB:10", &o.load.sizes, &err), 0);
	o.load.value_size = bench_sizes_max(&o.load.sizes);
	assert_int_equal(o.load.value_size, 1 << 20);
	assert_int_equal(bench_size_mean(&o), (4096 * 50 + 65536 * 40 + 1048576 * 10) / 100);
	for (uint64_t from = 0; from < 1000; from += 100) {
		unsigned small = 0, middle = 0, large = 0;
		for (uint64_t i = from; i < from + 100; i++) {
			uint64_t size = bench_size_of(&o, i);
			small += size == 4096;
			middle += size == 65536;
			large += size == 1048576;
		}
		assert_int_equal(small, 50);
		assert_int_equal(middle, 40);
		assert_int_equal(large, 10);
	}
}

/* A reader that knows options and number knows size and name. */
static void a_keys_name_has_its_own_size(void **state)
{
	struct bench_options o = {.load.seed = 3};
	struct bench_names names;
	struct bench_key key, same;
	struct kv_error err;
	(void)state;
	assert_int_equal(bench_sizes_parse("100,200:3", &o.load.sizes, &err), 0);
	o.load.value_size = 200;
	bench_names_init(&names, &o);
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t size = bench_key_of(&names, i, &key);
		assert_true(size == 100 || size == 200);
		bench_key_make(&same, 3, size, i);
		assert_string_equal(key.text, same.text);
		assert_true(key.len == same.len && key.mark == same.mark);
	}
	o = (struct bench_options){.load.seed = 3, .load.value_size = 100};
	bench_names_init(&names, &o);
	assert_int_equal(bench_key_of(&names, 7, &key), 100);
	assert_string_equal(key.text, "kvbench3/3/64/7");
}

static void lognormal_has_its_median_and_spread(void **state)
{
	struct bench_sizes s;
	struct kv_error err;
	double log_sum = 0, log_squares = 0;
	(void)state;
	assert_int_equal(bench_sizes_parse("lognormal:64KB:0.5", &s, &err), 0);
	assert_int_equal(s.count, BENCH_SIZE_STEPS);
	for (unsigned i = 0; i < s.count; i++) {
		double l = log((double)s.row[i].size / 65536), part = (double)s.row[i].weight / (double)s.total;
		log_sum += part * l;
		log_squares += part * l * l;
		assert_true(i == 0 || s.row[i].size > s.row[i - 1].size);
	}
	assert_true(fabs(log_sum) < 0.002);
	assert_true(fabs(sqrt(log_squares) - 0.5) < 0.01);
}

/* exp(mu + sigma^2 / 2), however wide: the few sizes of a list keep the bytes of the tail. */
static void lognormal_has_its_mean_however_wide(void **state)
{
	static const double sigmas[] = {0.01, 0.5, 1, 1.5, 2, 2.5};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sigmas); i++) {
		char text[64];
		struct bench_sizes s;
		struct kv_error err;
		double want = 65536 * exp(sigmas[i] * sigmas[i] / 2);
		snprintf(text, sizeof(text), "lognormal:64KB:%g", sigmas[i]);
		assert_int_equal(bench_sizes_parse(text, &s, &err), 0);
		assert_true(fabs((double)bench_sizes_mean(&s) / want - 1) < 1e-4);
		/* The largest is a 256th of all, at least as large as where that part begins. */
		assert_int_equal(s.row[s.count - 1].weight * 256, s.total);
		assert_true((double)bench_sizes_max(&s) > 65536 * exp(2.66 * sigmas[i]));
	}
}

static void sizes_that_are_none_are_refused(void **state)
{
	static const char *const wrong[] = {"",
					    "4KB:",
					    "4KB:0",
					    "4KB:-1",
					    "0:1",
					    "2GB:1",
					    "4KB,",
					    ",4KB",
					    "4KB:1:2",
					    "4KB:1000001",
					    "4KB:600000,8KB:600000",
					    "lognormal:",
					    "lognormal:64KB",
					    "lognormal:64KB:0",
					    "lognormal:64KB:9",
					    "lognormal:1GB:5",
					    "lognormal:64KB:1:1",
					    "potato"};
	char many[1024] = "1";
	struct bench_sizes s;
	struct kv_error err;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(wrong); i++) {
		assert_int_equal(bench_sizes_parse(wrong[i], &s, &err), -KV_EINVAL);
		check_contains(err.text, "lognormal:MEDIAN:SIGMA");
		assert_int_equal(s.count, 0);
	}
	for (unsigned i = 1; i < BENCH_SIZES_MAX + 1; i++)
		strcat(many, ",1");
	assert_int_equal(bench_sizes_parse(many, &s, &err), -KV_EINVAL);
	many[strlen(many) - 2] = '\0';
	assert_int_equal(bench_sizes_parse(many, &s, &err), 0);
	assert_int_equal(s.count, BENCH_SIZES_MAX);
}

/* What the plan gives holds every value of its size. */
static void memory_is_for_every_size(void **state)
{
	struct bench_options o = {.load.seed = 1};
	struct kv_error err;
	uint64_t mb = 0, sum = 0, need;
	(void)state;
	assert_int_equal(bench_sizes_parse("4KB:50,64KB:40,1MB:10", &o.load.sizes, &err), 0);
	o.load.value_size = bench_sizes_max(&o.load.sizes);
	for (uint64_t i = 0; i < 12340; i++)
		sum += bench_size_of(&o, i);
	need = bench_keys_memory(&o, 12340, 2);
	assert_true(need > sum && need < 2 * sum);
	assert_int_equal(bench_keys_plan(&o, 12340, 2, (uint64_t)8 << 30, &mb, &err), 0);
	assert_int_equal(mb, need >> 20);
	assert_int_equal(bench_keys_plan(&o, 1000000, 2, (uint64_t)8 << 30, &mb, &err), -KV_ENOMEM);
	check_contains(err.text, "smaller --num-keys");
	assert_int_equal(bench_keys_plan(&o, (uint64_t)1 << 42, 2, (uint64_t)8 << 30, &mb, &err), -KV_ENOMEM);
	check_contains(err.text, "more than any memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zipf_is_zipf),
		cmocka_unit_test(uniform_and_hot_are_what_they_say),
		cmocka_unit_test(zipf_of_many_keys),
		cmocka_unit_test(sequential_and_shuffled),
		cmocka_unit_test(draws_are_repeatable_and_depend_on_the_seed),
		cmocka_unit_test(patterns_that_are_none_are_refused),
		cmocka_unit_test(of_every_hundred_keys_sizes_are_exact),
		cmocka_unit_test(a_keys_name_has_its_own_size),
		cmocka_unit_test(lognormal_has_its_median_and_spread),
		cmocka_unit_test(lognormal_has_its_mean_however_wide),
		cmocka_unit_test(sizes_that_are_none_are_refused),
		cmocka_unit_test(memory_is_for_every_size),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
