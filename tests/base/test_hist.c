/* SPDX-License-Identifier: Apache-2.0 */
/* test_hist.c -- the stated error bound against sorted samples; exactness of the rest. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 20000 };

static struct kv_hist hist, other;
static uint64_t sample[SAMPLES];

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* check_quantile -- never below the true sample, and above it by no more than 1/128 of it. */
static void check_quantile(uint64_t got, uint64_t truth)
{
	if (got < truth || got - truth > truth / 128)
		fail_msg("quantile %llu of a sample %llu", (unsigned long long)got, (unsigned long long)truth);
}

/* fill -- random samples, each of a random magnitude up to 2^bits. */
static void fill(struct kv_prng *p, unsigned n, unsigned bits)
{
	kv_hist_init(&hist);
	for (unsigned i = 0; i < n; i++) {
		sample[i] = kv_prng_next(p) >> (64 - bits + kv_prng_below(p, bits));
		kv_hist_add(&hist, sample[i]);
	}
	qsort(sample, n, sizeof(sample[0]), by_value);
}

static void every_quantile_is_within_the_bound(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	for (int round = 0; round < 20; round++) {
		unsigned n = 1 + (unsigned)kv_prng_below(&p, SAMPLES);
		fill(&p, n, 1 + (unsigned)kv_prng_below(&p, 43));
		/* q = (k + 1/2) / n asks for rank k + 1, far from the edges between two ranks. */
		for (unsigned k = 0; k < n; k++)
			check_quantile(kv_hist_quantile(&hist, (k + 0.5) / n), sample[k]);
	}
}

static void whole_ranks_are_not_missed(void **state)
{
	(void)state;
	kv_hist_init(&hist);
	for (uint64_t v = 1; v <= 100; v++)
		kv_hist_add(&hist, v);
	for (unsigned k = 1; k < 100; k++)
		assert_int_equal(kv_hist_quantile(&hist, k / 100.0), k);
}

static void the_bound_holds_at_every_bucket_edge(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 43; bit++) {
		for (int step = -2; step <= 2; step++) {
			uint64_t v = ((uint64_t)1 << bit) + (uint64_t)(int64_t)step;
			if (v >> 43)
				continue;
			kv_hist_init(&hist);
			kv_hist_add(&hist, v);
			kv_hist_add(&hist, (uint64_t)1 << 50); /* so that max does not cap the answer */
			check_quantile(kv_hist_quantile(&hist, 0.25), v);
		}
	}
}

static void count_sum_min_max_are_exact(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	double sum = 0;
	fill(&p, SAMPLES, 30);
	for (unsigned i = 0; i < SAMPLES; i++)
		sum += (double)sample[i];
	assert_int_equal(hist.count, SAMPLES);
	assert_int_equal(hist.min, sample[0]);
	assert_int_equal(hist.max, sample[SAMPLES - 1]);
	assert_true(hist.sum == sum);
	assert_true(kv_hist_mean(&hist) == sum / SAMPLES);
	assert_int_equal(kv_hist_quantile(&hist, 0), sample[0]);
	assert_int_equal(kv_hist_quantile(&hist, 1), sample[SAMPLES - 1]);
}

static void an_empty_histogram_is_zero(void **state)
{
	(void)state;
	kv_hist_init(&hist);
	assert_int_equal(kv_hist_quantile(&hist, 0.5), 0);
	assert_true(kv_hist_mean(&hist) == 0);
	assert_int_equal(hist.min, 0);
	assert_int_equal(hist.max, 0);
}

/* At least one sample must lie beyond; the median is that of any number. */
static void a_quantile_takes_samples_beyond_it(void **state)
{
	static const struct {
		double q;
		uint64_t needed;
	} rows[] = {{0.5, 1}, {0.9, 10}, {0.95, 20}, {0.99, 100}, {0.999, 1000}, {0.9999, 10000}};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		kv_hist_init(&hist);
		assert_int_equal(kv_hist_reached(&hist, rows[i].q), 0);
		for (uint64_t n = 1; n < rows[i].needed; n++)
			kv_hist_add(&hist, 1000);
		assert_int_equal(kv_hist_reached(&hist, rows[i].q), 0);
		assert_false(kv_hist_reaches(&hist, rows[i].q));
		kv_hist_add(&hist, 1000);
		assert_true(kv_hist_reaches(&hist, rows[i].q));
		assert_int_equal(kv_hist_reached(&hist, rows[i].q), 1000);
	}
}

static void odd_quantiles_are_the_ends(void **state)
{
	(void)state;
	kv_hist_init(&hist);
	kv_hist_add(&hist, 1000);
	kv_hist_add(&hist, 2000);
	assert_int_equal(kv_hist_quantile(&hist, -1), 1000);
	assert_int_equal(kv_hist_quantile(&hist, NAN), 1000);
	assert_int_equal(kv_hist_quantile(&hist, 7), 2000);
}

static void huge_values_share_the_last_bucket(void **state)
{
	(void)state;
	kv_hist_init(&hist);
	kv_hist_add(&hist, UINT64_MAX);
	kv_hist_add(&hist, (uint64_t)1 << 43);
	assert_int_equal(hist.bucket[KV_HIST_BUCKETS - 1], 2);
	assert_true(kv_hist_quantile(&hist, 0.5) == UINT64_MAX);
	assert_true(hist.min == (uint64_t)1 << 43);
}

static void merging_equals_adding_to_one(void **state)
{
	(void)state;
	static struct kv_hist all;
	struct kv_prng p = check_seed();
	kv_hist_init(&hist);
	kv_hist_init(&other);
	kv_hist_init(&all);
	for (int i = 0; i < SAMPLES; i++) {
		uint64_t v = kv_prng_next(&p) >> 30;
		kv_hist_add(i % 3 ? &hist : &other, v);
		kv_hist_add(&all, v);
	}
	kv_hist_merge(&hist, &other);
	hist.sum = all.sum; /* the order of additions rounds differently */
	assert_memory_equal(&hist, &all, sizeof(all));
}

static void many_of_one_value_are_as_one_by_one(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	kv_hist_init(&hist);
	kv_hist_init(&other);
	for (int i = 0; i < 1000; i++) {
		uint64_t v = kv_prng_next(&p) >> 40, n = kv_prng_below(&p, 20);
		kv_hist_add_many(&hist, v, n);
		for (uint64_t k = 0; k < n; k++)
			kv_hist_add(&other, v);
	}
	assert_true(hist.sum == other.sum); /* of whole numbers below 2^53 */
	assert_memory_equal(&hist, &other, sizeof(other));
}

static void merging_with_empty_changes_nothing(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	static struct kv_hist before;
	fill(&p, 100, 20);
	before = hist;
	kv_hist_init(&other);
	kv_hist_merge(&hist, &other);
	assert_memory_equal(&hist, &before, sizeof(hist));
	kv_hist_merge(&other, &hist);
	assert_memory_equal(&other, &before, sizeof(other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_quantile_is_within_the_bound),
		cmocka_unit_test(whole_ranks_are_not_missed),
		cmocka_unit_test(the_bound_holds_at_every_bucket_edge),
		cmocka_unit_test(count_sum_min_max_are_exact),
		cmocka_unit_test(an_empty_histogram_is_zero),
		cmocka_unit_test(odd_quantiles_are_the_ends),
		cmocka_unit_test(a_quantile_takes_samples_beyond_it),
		cmocka_unit_test(huge_values_share_the_last_bucket),
		cmocka_unit_test(merging_equals_adding_to_one),
		cmocka_unit_test(many_of_one_value_are_as_one_by_one),
		cmocka_unit_test(merging_with_empty_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
