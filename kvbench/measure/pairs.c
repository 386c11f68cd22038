/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c -- Wilcoxon's signed ranks of the logarithms of b / a.
 *
 * Windows of one process say how far it varies, and not how far two processes of one program do: where their memory
 * lies and on which cores they run stays the same for all of a process. So the noise is that between pairs of
 * processes, which alternate, so that what drifts meets both alike. Ranks need no normal distribution, and a run that
 * somebody disturbed has one rank and no more. The distribution of their sum is computed exactly, with ties.
 *
 * A change counts if it is unlikely by chance (ALPHA, divided by the figures that are judged together) and its estimate
 * (Hodges and Lehmann's, the median of the means of any two pairs) is above the threshold. What such a comparison would
 * have found is part of the answer: "no difference" of a noisy machine is none. */
#include "kvbench/measure/pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { SUMS = BENCH_PAIRS_MAX * (BENCH_PAIRS_MAX + 1) + 1, MEANS = BENCH_PAIRS_MAX * (BENCH_PAIRS_MAX + 1) / 2 };

#define EFFICIENCY 0.87 /* of signed ranks and a threshold beside the mean alone */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int by_distance(const void *a, const void *b)
{
	double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
	return (x > y) - (x < y);
}

/* Twice the rank of each of n values that are sorted by their distance from 0: of equal ones the mean of theirs. */
static void ranks_of(const double *d, unsigned n, unsigned *rank)
{
	for (unsigned i = 0, to; i < n; i = to) {
		for (to = i; to < n && fabs(d[to]) == fabs(d[i]); to++)
			;
		for (unsigned k = i; k < to; k++)
			rank[k] = i + to + 1;
	}
}

/* The chance that signs by a coin give a sum of ranks as large as those of the values above 0, or larger. */
static double chance_above(const double *sorted, unsigned n)
{
	static double part[SUMS];
	unsigned rank[BENCH_PAIRS_MAX], sum = 0, total = 0;
	double p = 0;
	ranks_of(sorted, n, rank);
	for (unsigned i = 0; i < n; i++)
		total += rank[i];
	memset(part, 0, (total + 1) * sizeof(*part));
	part[0] = 1;
	for (unsigned i = 0; i < n; i++) {
		sum += sorted[i] > 0 ? rank[i] : 0;
		for (unsigned s = total + 1; s-- > 0;)
			part[s] = (part[s] + (s >= rank[i] ? part[s - rank[i]] : 0)) / 2;
	}
	for (unsigned s = sum; s <= total; s++)
		p += part[s];
	return KV_MIN(p, 1.0);
}

/* The mean of each two values, and of each with itself, sorted. Returns how many. */
static unsigned means_of(const double *d, unsigned n, double *mean)
{
	unsigned count = 0;
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = i; k < n; k++)
			mean[count++] = (d[i] + d[k]) / 2;
	qsort(mean, count, sizeof(*mean), by_size);
	return count;
}

/* The x above which a part of the standard normal distribution lies. */
static double normal_above(double part)
{
	double low = -10, high = 10;
	for (unsigned i = 0; i < 60; i++) {
		double x = (low + high) / 2;
		if (erfc(x / M_SQRT2) / 2 > part)
			low = x;
		else
			high = x;
	}
	return (low + high) / 2;
}

static double deviation(const double *d, unsigned n)
{
	double mean = 0, squares = 0;
	for (unsigned i = 0; i < n; i++)
		mean += d[i] / n;
	for (unsigned i = 0; i < n; i++)
		squares += (d[i] - mean) * (d[i] - mean);
	return sqrt(squares / (n - 1));
}

/* The same of Student's distribution of so many degrees of freedom (its first correction of the normal one). */
static double student_above(double part, unsigned freedom)
{
	double z = normal_above(part);
	return z * (1 + (z * z + 1) / (4.0 * freedom));
}

/* Both conditions of a verdict must be met. The deviation itself is an estimate, of few pairs. */
static double finds(const double *d, unsigned n, double threshold, double alpha)
{
	double error = deviation(d, n) / sqrt(n * EFFICIENCY), spare = student_above(1 - BENCH_PAIRS_POWER, n - 1);
	double found = fmax((student_above(alpha, n - 1) + spare) * error, log1p(threshold) + spare * error);
	return expm1(found);
}

/* The interval of Wilcoxon's test: as many means from either end as its normal approximation has. */
static void interval(const double *mean, unsigned count, unsigned n, struct bench_pairs *out)
{
	double of = (double)n * (n + 1) / 4, error = sqrt((double)n * (n + 1) * (2.0 * n + 1) / 24);
	double at = floor(of - normal_above(0.025) * error);
	unsigned k = (unsigned)KV_MAX(at, 0.0);
	out->low = expm1(mean[KV_MIN(k, count - 1)]);
	out->high = expm1(mean[count - 1 - KV_MIN(k, count - 1)]);
}

void bench_pairs_judge(const double *a, const double *b, unsigned n, bool more_is_better, double threshold,
		       unsigned figures, struct bench_pairs *out)
{
	static double mean[MEANS];
	double d[BENCH_PAIRS_MAX], sorted[BENCH_PAIRS_MAX], alpha = BENCH_PAIRS_ALPHA / KV_MAX(figures, 1u), shift;
	unsigned count, moved = 0;
	bool up;
	for (unsigned i = 0; i < n; i++)
		d[i] = log(b[i] / a[i]);
	count = means_of(d, n, mean);
	shift = count % 2 ? mean[count / 2] : (mean[count / 2 - 1] + mean[count / 2]) / 2;
	up = shift > 0;
	*out = (struct bench_pairs){.count = n, .change = expm1(shift), .finds = finds(d, n, threshold, alpha)};
	if (ldexp(1, -(int)n) > alpha) /* so few pairs prove nothing, however far they are apart */
		out->finds = INFINITY;
	interval(mean, count, n, out);
	/* Pairs without a difference have no sign. */
	for (unsigned i = 0; i < n; i++)
		if (d[i] != 0)
			sorted[moved++] = up ? d[i] : -d[i];
	qsort(sorted, moved, sizeof(*sorted), by_distance);
	out->p = moved ? chance_above(sorted, moved) : 1;
	if (out->p <= alpha && fabs(shift) > log1p(threshold))
		out->verdict = up == more_is_better ? BENCH_PAIRS_BETTER : BENCH_PAIRS_WORSE;
	else
		out->verdict = out->finds > 2 * threshold ? BENCH_PAIRS_UNKNOWN : BENCH_PAIRS_SAME;
}
