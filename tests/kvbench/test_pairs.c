/* SPDX-License-Identifier: Apache-2.0 */
/* test_pairs.c -- kv-bench compare --ab over made samples: how often it calls a program worse that is the same, and how
 * often it finds one that is slower by a tenth. No clock is read. */
#include "kvbench/measure/pairs.h"

#include <math.h>
#include <stdlib.h>

#include "tests/kvbench/check.h"

enum { TRIALS = 2000, PAIRS = 15, FIGURES = 6 };

static double unit(struct kv_prng *p)
{
	return ((double)(kv_prng_next(p) >> 11) + 0.5) * 0x1p-53;
}

static double normal(struct kv_prng *p)
{
	return sqrt(-2 * log(unit(p))) * cos(2 * M_PI * unit(p));
}

/* What one process measures: a level that drifts, its own luck, and one run in `wild` that somebody disturbed. */
static double measured(struct kv_prng *p, double level, double luck, unsigned wild)
{
	double x = level * exp(luck * normal(p));
	return wild && kv_prng_below(p, wild) == 0 ? x * (0.4 + 0.4 * unit(p)) : x;
}

struct outcome {
	unsigned worse, better, same, unknown;
};

/* Comparisons of FIGURES figures each, of which B is `change` beside A. What counts is the worst of the figures. */
static struct outcome compared(struct kv_prng *p, double luck, double change, unsigned wild)
{
	struct outcome o = {0};
	for (unsigned t = 0; t < TRIALS; t++) {
		bool worse = false, better = false, unknown = false;
		for (unsigned f = 0; f < FIGURES; f++) {
			double a[PAIRS], b[PAIRS];
			struct bench_pairs r;
			for (unsigned i = 0; i < PAIRS; i++) {
				double level = 50000 * (1 + 0.2 * sin(i * 0.7 + f));
				a[i] = measured(p, level, luck, wild);
				b[i] = measured(p, level * (1 + change), luck, wild);
			}
			bench_pairs_judge(a, b, PAIRS, true, 0.05, FIGURES, &r);
			worse |= r.verdict == BENCH_PAIRS_WORSE;
			better |= r.verdict == BENCH_PAIRS_BETTER;
			unknown |= r.verdict == BENCH_PAIRS_UNKNOWN;
		}
		o.worse += worse;
		o.better += better;
		o.unknown += unknown && !worse;
		o.same += !worse && !better && !unknown;
	}
	print_message(
		"# luck %.3f, change %+.2f, disturbed 1 in %u: worse %.4f, better %.4f, unknown %.4f, same %.4f\n",
		luck, change, wild, (double)o.worse / TRIALS, (double)o.better / TRIALS, (double)o.unknown / TRIALS,
		(double)o.same / TRIALS);
	return o;
}

/* However noisy the machine. */
static void the_same_program_is_rarely_called_worse(void **state)
{
	static const double lucks[] = {0.005, 0.02, 0.04, 0.08, 0.15, 0.4};
	struct kv_prng p = check_seed();
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(lucks); i++) {
		assert_true(compared(&p, lucks[i], 0, 0).worse < TRIALS / 20);
		assert_true(compared(&p, lucks[i], 0, 8).worse < TRIALS / 20);
	}
}

/* Of a machine at rest, whose processes differ by 4 % (one deviation), and of one that is not quite. */
static void a_tenth_is_found_in_nine_of_ten(void **state)
{
	struct kv_prng p = check_seed();
	(void)state;
	assert_true(compared(&p, 0.02, -0.1, 0).worse > TRIALS * 9 / 10);
	assert_true(compared(&p, 0.04, -0.1, 0).worse > TRIALS * 9 / 10);
	assert_true(compared(&p, 0.02, -0.1, 20).worse > TRIALS * 9 / 10);
}

/* One figure of six alone, as the latency of a kind: the others are the same. */
static void one_figure_that_is_worse_by_a_tenth_is_found(void **state)
{
	struct kv_prng p = check_seed();
	unsigned found = 0;
	(void)state;
	for (unsigned t = 0; t < TRIALS; t++) {
		double a[PAIRS], b[PAIRS];
		struct bench_pairs r;
		for (unsigned i = 0; i < PAIRS; i++) {
			a[i] = measured(&p, 400, 0.04, 0);
			b[i] = measured(&p, 440, 0.04, 0); /* a latency: more is worse */
		}
		bench_pairs_judge(a, b, PAIRS, false, 0.05, FIGURES, &r);
		found += r.verdict == BENCH_PAIRS_WORSE;
		assert_true(r.verdict != BENCH_PAIRS_BETTER);
	}
	print_message("# found %.4f\n", (double)found / TRIALS);
	assert_true(found > TRIALS * 9 / 10);
}

/* What is said to be found in nine of ten is. */
static void the_power_is_what_it_says(void **state)
{
	static const double lucks[] = {0.02, 0.06, 0.12};
	struct kv_prng p = check_seed();
	(void)state;
	for (unsigned k = 0; k < KV_COUNT(lucks); k++) {
		double said = 0;
		unsigned found = 0;
		for (unsigned round = 0; round < 2; round++)
			for (unsigned t = 0; t < TRIALS; t++) {
				double a[PAIRS], b[PAIRS];
				struct bench_pairs r;
				for (unsigned i = 0; i < PAIRS; i++) {
					a[i] = measured(&p, 1, lucks[k], 0);
					b[i] = measured(&p, round ? 1 + said : 1, lucks[k], 0);
				}
				bench_pairs_judge(a, b, PAIRS, false, 0.05, FIGURES, &r);
				if (round == 0)
					said += r.finds / TRIALS;
				else
					found += r.verdict == BENCH_PAIRS_WORSE;
			}
		print_message("# luck %.2f: finds %.1f %%, found %.4f\n", lucks[k], 100 * said, (double)found / TRIALS);
		assert_true(found > TRIALS * 0.86 && found < TRIALS * 0.97);
	}
}

/* A noisy machine finds no difference, and says that this means nothing. */
static void noise_that_would_hide_a_difference_is_no_verdict(void **state)
{
	struct kv_prng p = check_seed();
	struct outcome o = compared(&p, 0.3, 0, 0);
	(void)state;
	assert_true(o.unknown > TRIALS * 9 / 10);
	o = compared(&p, 0.01, 0, 0);
	assert_true(o.same > TRIALS * 99 / 100);
}

/* Computed by hand, over all signs: 2^-n for the largest sum. */
static void chances_are_exact(void **state)
{
	double a[8], b[8];
	struct bench_pairs r;
	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		a[i] = 100;
		b[i] = 120 + i;
	}
	bench_pairs_judge(a, b, 8, true, 0.05, 1, &r);
	assert_true(fabs(r.p - 1.0 / 256) < 1e-12);
	assert_int_equal(r.verdict, BENCH_PAIRS_BETTER);
	assert_true(r.change > 0.2 && r.change < 0.27 && r.low > 0.19 && r.high < 0.28);
	/* The smallest goes the other way: sums of 35 and 36 of 36. */
	b[0] = 99.9;
	bench_pairs_judge(a, b, 8, true, 0.05, 1, &r);
	assert_true(fabs(r.p - 2.0 / 256) < 1e-12);
	for (unsigned i = 0; i < 8; i++)
		b[i] = a[i];
	bench_pairs_judge(a, b, 8, true, 0.05, 1, &r);
	assert_true(r.p == 1 && r.change == 0 && r.verdict == BENCH_PAIRS_SAME);
	/* All alike: half a rank each way. */
	for (unsigned i = 0; i < 8; i++)
		b[i] = i % 2 ? 200 : 50;
	bench_pairs_judge(a, b, 8, true, 0.05, 1, &r);
	assert_true(r.p > 0.5 && r.verdict == BENCH_PAIRS_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_program_is_rarely_called_worse),
		cmocka_unit_test(a_tenth_is_found_in_nine_of_ten),
		cmocka_unit_test(one_figure_that_is_worse_by_a_tenth_is_found),
		cmocka_unit_test(the_power_is_what_it_says),
		cmocka_unit_test(noise_that_would_hide_a_difference_is_no_verdict),
		cmocka_unit_test(chances_are_exact),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
