/* SPDX-License-Identifier: Apache-2.0 */
/* measured.c -- figures of a result, and how far they vary.
 *
 * A figure's noise is that of repeated runs where there are three or more, else that of its windows where there are
 * eight or more: half of what lies between the tenth and the ninetieth percent of them, as a share of the median. Fewer
 * say nothing of how far they vary. */
#include "kvbench/report/measured.h"

#include <math.h>
#include <stdlib.h>

#include "kvbench/measure/runs.h"

enum { WINDOWS_MIN = 8, RUNS_MIN = 2, RUNS_NOISE_MIN = 3, VALUES_MAX = 4096 };

const struct measured_metric measured_of_phases[MEASURED_OF_PHASE] = {
	{"ops/s", NULL, "ops_per_s", "ops_per_s", "ops", true, false, false},
	{"p50", "latency_ns", "p50", "p50_ns", "p50_ns", false, false, false},
	{"p99", "latency_ns", "p99", "p99_ns", "p99_ns", false, false, false},
	{"p99 of misses", "missed_ns", "p99", NULL, NULL, false, false, true},
	{"p99 of failures", "failed_ns", "p99", NULL, NULL, false, false, true},
};

const struct measured_metric measured_of_parts[MEASURED_OF_PART] = {
	{"hit ratio", NULL, "hit_ratio", NULL, NULL, true, true, false},
	{"get p99", NULL, "get_p99_ns", NULL, NULL, false, false, false},
	{"longest call", NULL, "longest_ns", NULL, NULL, false, false, true},
};

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double rank(const double *sorted, unsigned n, double q)
{
	return sorted[(unsigned)(q * (n - 1) + 0.5)];
}

/* Of windows: between the tenth and the ninetieth percent. */
static double noise_of(double *value, unsigned n)
{
	double median;
	qsort(value, n, sizeof(*value), by_size);
	median = rank(value, n, 0.5);
	return median > 0 ? (rank(value, n, 0.9) - rank(value, n, 0.1)) / 2 / median : NAN;
}

static unsigned numbers_of(const json_t *list, double value[VALUES_MAX])
{
	const json_t *n;
	unsigned count = 0;
	size_t i;
	json_array_foreach(list, i, n)
	{
		if (json_is_number(n) && count < VALUES_MAX)
			value[count++] = json_number_value(n);
	}
	return count;
}

static unsigned windows_of(const json_t *phase, const struct measured_metric *m, double value[VALUES_MAX])
{
	const json_t *rows = document_at(phase, "series", "windows", NULL), *row;
	double window = document_number(json_object_get(phase, "series"), "window_s");
	unsigned n = 0;
	size_t i;
	json_array_foreach(rows, i, row)
	{
		double seconds = document_number(row, "seconds"), v;
		if (!(seconds > 0.9 * window) || n == VALUES_MAX)
			continue;
		v = document_number(row, m->in_rows);
		if (m->more_is_better)
			v /= seconds;
		if (isfinite(v))
			value[n++] = v;
	}
	return n;
}

/* As the report has them. */
static struct measured of_runs(const double *value, unsigned n)
{
	struct bench_spread s;
	bench_spread_of(value, KV_MIN(n, (unsigned)BENCH_RUNS_MAX), &s);
	return (struct measured){.value = s.median, .noise = n >= RUNS_NOISE_MIN && s.median > 0 ? s.spread / 2 : NAN};
}

struct measured measured_of_phase(const json_t *doc, const json_t *phase, const struct measured_metric *m)
{
	double all[VALUES_MAX];
	bool measured = phase == document_measured(doc);
	const json_t *at = m->of ? json_object_get(phase, m->of) : phase;
	struct measured v = {.is_short = document_number(phase, "seconds") < MEASURED_SHORT_S,
			     .value = document_number(at, m->member),
			     .noise = NAN};
	unsigned n = measured && m->in_runs ? numbers_of(document_at(doc, "runs", m->in_runs, "each", NULL), all) : 0;
	if (n >= RUNS_MIN)
		return of_runs(all, n);
	n = m->in_rows ? windows_of(phase, m, all) : 0;
	if (n >= WINDOWS_MIN)
		v.noise = noise_of(all, n);
	return v;
}

struct measured measured_of_point(const json_t *point, const struct measured_metric *m)
{
	double all[VALUES_MAX], v;
	const json_t *runs = json_object_get(point, "runs"), *run;
	bool lacking = false; /* a run has too few samples for a quantile, and those that have it are the faster ones */
	unsigned n = 0;
	size_t i;
	json_array_foreach(runs, i, run)
	{
		v = document_number(run, m->in_runs);
		if ((m->more_is_better ? v >= 0 : v > 0) && n < VALUES_MAX)
			all[n++] = v;
		else
			lacking |= !m->more_is_better;
	}
	if (lacking)
		n = 0;
	if (n >= RUNS_MIN)
		return of_runs(all, n);
	return (struct measured){.is_short = document_number(json_array_get(runs, 0), "seconds") < MEASURED_SHORT_S,
				 .value = n ? all[0] : NAN,
				 .noise = NAN};
}
