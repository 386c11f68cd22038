/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c -- kv-bench compare: whether a later result is worse than an earlier one, and not only by chance.
 *
 * A figure's spread is that of repeated runs (member `runs`) where there are any, else that of its windows: half of
 * what lies between the tenth and the ninetieth percent of them, as a share of the median. A difference counts if it is
 * above the threshold and above both spreads together, so that the two ranges do not meet. */
#include <math.h>
#include <stdlib.h>

#include "kvbench/load/bench.h"
#include "kvbench/report/document.h"
#include "kvbench/report/state.h"
#include "kvbench/report/verbs.h"

enum { WINDOWS_MIN = 4, RUNS_MIN = 2, VALUES_MAX = 4096 };

struct compare_options {
	double threshold;
	bool force;
};

static const struct kv_opt compare_table[] = {
	{.name = "threshold",
	 .type = KV_OPT_DOUBLE,
	 .offset = offsetof(struct compare_options, threshold),
	 .metavar = "PERCENT",
	 .def = "5",
	 .help = "A difference below this is none."},
	{.name = "force",
	 .type = KV_OPT_FLAG,
	 .offset = offsetof(struct compare_options, force),
	 .help = "Compare results that were measured under different conditions all the same."},
	{.name = NULL},
};

static const struct kv_opt_program compare_program = {
	.name = "kv-bench compare",
	.usage_args = "A.json B.json...",
	.about = "Compares results of kv-bench --json, the first with the last; of more than two it shows the trend.",
	.epilogue = "Exit status: 0 no regression, 1 a figure is worse by more than the threshold and the spread, 2 "
		    "usage, a "
		    "result that cannot be read, or results under different conditions.",
	.args_max = KV_OPT_STRINGS_MAX,
};

/* ---- figures ---- */

struct metric {
	const char *name;
	const char *of, *member;       /* of this member of a phase, or of the phase itself */
	const char *in_runs, *in_rows; /* of runs; of a window; NULL: it has no spread */
	bool more_is_better, is_ratio;
};

static const struct metric metrics[] = {
	{"ops/s", NULL, "ops_per_s", "ops_per_s", "ops", true, false},
	{"p50", "latency_ns", "p50", "p50_ns", "p50_ns", false, false},
	{"p99", "latency_ns", "p99", "p99_ns", "p99_ns", false, false},
	{"p99 of misses", "missed_ns", "p99", NULL, NULL, false, false},
	{"p99 of failures", "failed_ns", "p99", NULL, NULL, false, false},
};

/* Of a part of a replay. */
static const struct metric part_metrics[] = {
	{"hit ratio", NULL, "hit_ratio", NULL, NULL, true, true},
	{"get p99", NULL, "get_p99_ns", NULL, NULL, false, false},
	{"longest call", NULL, "longest_ns", NULL, NULL, false, false},
};

struct figure_value {
	double value, spread; /* spread: a share of value; NAN: not known */
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

static double spread_of(double *value, unsigned n, double low, double high)
{
	double median;
	qsort(value, n, sizeof(*value), by_size);
	median = rank(value, n, 0.5);
	return median > 0 ? (rank(value, n, high) - rank(value, n, low)) / 2 / median : NAN;
}

/* Repeated runs: an object with a list `each` for a figure, or a list of operations per second. */
static unsigned runs_of(const json_t *doc, const struct metric *m, double value[VALUES_MAX])
{
	const json_t *runs = json_object_get(doc, "runs"), *run;
	const json_t *each =
		json_is_array(runs) && m->more_is_better ? runs : document_at(runs, m->in_runs, "each", NULL);
	unsigned n = 0;
	size_t i;
	json_array_foreach(each, i, run)
	{
		if (json_is_number(run) && n < VALUES_MAX)
			value[n++] = json_number_value(run);
	}
	return n;
}

static unsigned windows_of(const json_t *phase, const struct metric *m, double value[VALUES_MAX])
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

static struct figure_value value_of(const json_t *doc, const json_t *phase, const struct metric *m)
{
	double all[VALUES_MAX];
	bool measured = phase == document_measured(doc);
	const json_t *at = m->of ? json_object_get(phase, m->of) : phase;
	struct figure_value v = {document_number(at, m->member), NAN};
	unsigned n = measured && m->in_runs ? runs_of(doc, m, all) : 0;
	if (n >= RUNS_MIN) {
		v.spread = spread_of(all, n, 0, 1);
		v.value = rank(all, n, 0.5);
		return v;
	}
	n = m->in_rows ? windows_of(phase, m, all) : 0;
	if (n >= WINDOWS_MIN)
		v.spread = spread_of(all, n, 0.1, 0.9);
	return v;
}

/* ---- the verdict ---- */

enum { WORSE, SAME, BETTER, UNSURE };

static int judge(const struct metric *m, struct figure_value a, struct figure_value b, double threshold)
{
	double change = b.value / a.value - 1, worse = m->more_is_better ? -change : change;
	double noise = (isfinite(a.spread) ? a.spread : 0) + (isfinite(b.spread) ? b.spread : 0);
	if (!(fabs(change) > threshold))
		return SAME;
	if (!(fabs(change) > noise))
		return UNSURE;
	return worse > 0 ? WORSE : BETTER;
}

static const char *figure_text(const struct metric *m, double v, char buf[32])
{
	uint64_t whole = (uint64_t)(KV_MIN(v, 1e18) + 0.5); /* v is above 0 */
	if (m->is_ratio) {
		snprintf(buf, 32, "%.4f", v);
		return buf;
	}
	return m->more_is_better ? kv_count_format(whole, buf, 32) : kv_duration_format(whole, buf, 32);
}

static const char *spread_text(double spread, char buf[32])
{
	if (isfinite(spread))
		snprintf(buf, 32, "%.1f %%", 100 * spread);
	else
		snprintf(buf, 32, "unknown");
	return buf;
}

static void row(const char *name, const struct metric *m, struct figure_value v, struct figure_value first,
		bool is_first)
{
	char value[32], spread[32], change[32] = "";
	if (!is_first)
		snprintf(change, sizeof(change), "%+.1f %%", 100 * (v.value / first.value - 1));
	printf("  %-34.34s %12s %10s %10s\n", name, figure_text(m, v.value, value), spread_text(v.spread, spread),
	       change);
}

struct results {
	unsigned count;
	const char *const *path;
	json_t *doc[KV_OPT_STRINGS_MAX];
};

static const char *const part_names[][2] = {
	{"before", "before the event"}, {"five_minutes", "five minutes after it"}, {"later", "later"}};

/* A phase, or a part of a replay, by its name, where the document has it. */
static json_t *phase_named(const json_t *doc, const char *name)
{
	struct document_phase phase[DOCUMENT_PHASES_MAX];
	unsigned n = document_phases(doc, phase);
	for (unsigned i = 0; i < n; i++)
		if (strcmp(phase[i].name, name) == 0)
			return phase[i].phase;
	for (unsigned i = 0; i < KV_COUNT(part_names); i++)
		if (strcmp(part_names[i][1], name) == 0)
			return document_at(doc, "trace", part_names[i][0], NULL);
	return NULL;
}

/* The end of a path tells files apart. */
static const char *short_name(const char *path)
{
	size_t len = strlen(path);
	return len > 34 ? path + len - 34 : path;
}

/* One figure of all results. Returns whether the last one is worse than the first. */
static bool compare_metric(const struct results *r, const char *phase, const struct metric *m, double threshold,
			   unsigned *judged)
{
	static const char *const verdicts[] = {[WORSE] = "WORSE",
					       [SAME] = "no difference",
					       [BETTER] = "better",
					       [UNSURE] = "within the spread: no difference that is sure"};
	struct figure_value v[KV_OPT_STRINGS_MAX];
	int verdict;
	for (unsigned i = 0; i < r->count; i++) {
		v[i] = value_of(r->doc[i], phase_named(r->doc[i], phase), m);
		if (!(v[i].value > 0))
			return false; /* one of them did not measure it */
	}
	verdict = judge(m, v[0], v[r->count - 1], threshold);
	printf("%s %s: %s\n", phase, m->name, verdicts[verdict]);
	for (unsigned i = 0; i < r->count; i++)
		row(short_name(r->path[i]), m, v[i], v[0], i == 0);
	(*judged)++;
	return verdict == WORSE;
}

static int compare_all(const struct results *r, double threshold)
{
	struct document_phase phase[DOCUMENT_PHASES_MAX];
	unsigned n = document_phases(r->doc[0], phase), worse = 0, judged = 0;
	printf("  %-34s %12s %10s %10s\n", "", "figure", "spread", "change");
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < KV_COUNT(metrics); k++)
			worse += compare_metric(r, phase[i].name, &metrics[k], threshold, &judged);
	for (unsigned i = 0; i < KV_COUNT(part_names); i++)
		for (unsigned k = 0; k < KV_COUNT(part_metrics); k++)
			worse += compare_metric(r, part_names[i][1], &part_metrics[k], threshold, &judged);
	if (judged == 0) {
		fprintf(stderr, "kv-bench compare: these results have no figure in common\n");
		return BENCH_USAGE;
	}
	printf("%u of %u figures worse by more than %g %% and their spread\n", worse, judged, 100 * threshold);
	return worse ? BENCH_FAILED : BENCH_OK;
}

/* ---- the whole ---- */

static void say(const char *sentence, void *arg)
{
	fprintf(stderr, "kv-bench compare: %s: %s\n", (const char *)arg, sentence);
}

static bool same_state(const struct results *r, bool force)
{
	unsigned count = 0;
	for (unsigned i = 1; i < r->count; i++)
		count += state_differs(r->doc[0], r->doc[i], say, (void *)r->path[i]);
	if (count > 0 && !force)
		fprintf(stderr,
			"kv-bench compare: %u condition%s from %s's: these results do not compare (--force does "
			"it all the same)\n",
			count, count == 1 ? " differs" : "s differ", r->path[0]);
	return count == 0 || force;
}

int compare_main(int argc, char **argv)
{
	struct compare_options o;
	struct kv_opt_strings args = {0};
	struct kv_error err = {0};
	struct results r = {0};
	int status = BENCH_USAGE, rc = kv_opt_parse(&compare_program, compare_table, argc, argv, &o, &args, &err);
	if (rc > 0)
		return BENCH_OK;
	if (rc == 0 && args.count < 2)
		rc = kv_fail(&err, -KV_EINVAL, "name two results or more, files of kv-bench --json");
	if (rc == 0 && !(o.threshold >= 0 && o.threshold <= 1000))
		rc = kv_fail(&err, -KV_EINVAL, "--threshold %g is not a percentage between 0 and 1000", o.threshold);
	if (rc < 0) {
		fprintf(stderr, "kv-bench compare: %s (try --help)\n", err.text);
		return BENCH_USAGE;
	}
	r.path = args.item;
	for (; rc == 0 && r.count < args.count; r.count += rc == 0)
		rc = document_load(args.item[r.count], &r.doc[r.count], &err);
	if (rc < 0)
		fprintf(stderr, "kv-bench compare: %s\n", err.text);
	else if (same_state(&r, o.force))
		status = compare_all(&r, o.threshold / 100);
	for (unsigned i = 0; i < r.count; i++)
		json_decref(r.doc[i]);
	return status;
}
