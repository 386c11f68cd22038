/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h -- median, range and spread of several runs. Pure. */
#ifndef KVRAIL_KVBENCH_MEASURE_RUNS_H
#define KVRAIL_KVBENCH_MEASURE_RUNS_H

#include "kvbench/setup/options.h"

struct bench_spread {
	double median, min, max;
	double spread; /* (max - min) / median; 0 if the median is 0 */
};

struct bench_runs {
	unsigned count;
	struct {
		double ops_per_s, bytes_per_s;
		uint64_t p50_ns, p99_ns; /* 0: not measured */
	} row[BENCH_RUNS_MAX];
};

enum bench_run_figure { BENCH_RUN_OPS, BENCH_RUN_BYTES, BENCH_RUN_P50, BENCH_RUN_P99, BENCH_RUN_FIGURES };

/* bench_spread_of -- of n values, n from 1 to BENCH_RUNS_MAX. */
void bench_spread_of(const double *value, unsigned n, struct bench_spread *out);

/* bench_runs_spread -- of one figure of all runs; count > 0. False: one of them has not measured it. bench_runs_name --
 * its name in the JSON report. */
bool bench_runs_spread(const struct bench_runs *runs, enum bench_run_figure figure, struct bench_spread *out);
const char *bench_runs_name(enum bench_run_figure figure);
double bench_runs_figure(const struct bench_runs *runs, unsigned run, enum bench_run_figure figure);

#endif
