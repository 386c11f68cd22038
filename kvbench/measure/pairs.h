/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.h -- whether B differs from A, from pairs of measurements that were made one after the other. Pure. */
#ifndef KVRAIL_KVBENCH_MEASURE_PAIRS_H
#define KVRAIL_KVBENCH_MEASURE_PAIRS_H

#include <stdbool.h>

enum { BENCH_PAIRS_MIN = 6, BENCH_PAIRS_MAX = 200 };

#define BENCH_PAIRS_ALPHA 0.03 /* false alarms of all figures of a comparison together: fewer than 1 in 20 */
#define BENCH_PAIRS_POWER 0.9  /* of the change that is said to be found */

enum bench_pairs_verdict {
	BENCH_PAIRS_SAME, /* no difference, and one of twice the threshold would have been found */
	BENCH_PAIRS_WORSE,
	BENCH_PAIRS_BETTER,
	BENCH_PAIRS_UNKNOWN /* no difference, and noise would have hidden one of twice the threshold, too */
};

struct bench_pairs {
	unsigned count;
	double change;    /* of B beside A: -0.1 is a tenth less */
	double low, high; /* its interval of confidence, 95 % */
	double p;         /* chance of such a difference, or a greater one, in this direction where there is none */
	double finds;     /* the smallest change that would be found in 9 of 10 such comparisons */
	enum bench_pairs_verdict verdict;
};

/* bench_pairs_judge -- of n pairs, n from BENCH_PAIRS_MIN to BENCH_PAIRS_MAX, all values above 0. threshold: a change
 * below it is none, as 0.05. figures: how many are judged at the same time; the chance of a false alarm in any of them
 * stays below BENCH_PAIRS_ALPHA. */
void bench_pairs_judge(const double *a, const double *b, unsigned n, bool more_is_better, double threshold,
		       unsigned figures, struct bench_pairs *out);

#endif
