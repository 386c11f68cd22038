/* SPDX-License-Identifier: Apache-2.0 */
/* runs.c -- the median, since one run in five on a shared machine is an outlier; and the whole range, since a handful
 * of runs has no standard deviation to speak of. */
#include "kvbench/measure/runs.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void bench_spread_of(const double *value, unsigned n, struct bench_spread *out)
{
	double sorted[BENCH_RUNS_MAX];
	memcpy(sorted, value, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare);
	out->min = sorted[0];
	out->max = sorted[n - 1];
	out->median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
	out->spread = out->median > 0 ? (out->max - out->min) / out->median : 0;
}

double bench_runs_figure(const struct bench_runs *runs, unsigned run, enum bench_run_figure figure)
{
	switch (figure) {
	case BENCH_RUN_OPS:
		return runs->row[run].ops_per_s;
	case BENCH_RUN_BYTES:
		return runs->row[run].bytes_per_s;
	case BENCH_RUN_P50:
		return (double)runs->row[run].p50_ns;
	case BENCH_RUN_P99:
	case BENCH_RUN_FIGURES:
		break;
	}
	return (double)runs->row[run].p99_ns;
}

bool bench_runs_spread(const struct bench_runs *runs, enum bench_run_figure figure, struct bench_spread *out)
{
	bool is_latency = figure == BENCH_RUN_P50 || figure == BENCH_RUN_P99;
	double value[BENCH_RUNS_MAX];
	for (unsigned i = 0; i < runs->count; i++) {
		value[i] = bench_runs_figure(runs, i, figure);
		if (is_latency && value[i] == 0)
			return false;
	}
	bench_spread_of(value, runs->count, out);
	return true;
}

const char *bench_runs_name(enum bench_run_figure figure)
{
	static const char *const names[BENCH_RUN_FIGURES] = {"ops_per_s", "bytes_per_s", "p50_ns", "p99_ns"};
	return names[figure];
}
