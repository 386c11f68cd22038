/* SPDX-License-Identifier: Apache-2.0 */
/* ab.c -- processes of two programs take turns, and what counts is the difference within a pair (pairs.h). The order
 * turns from pair to pair, so that neither is always the one behind. Each process has a server of its own, or both
 * measure the one that an option names. */
#include "kvbench/report/ab.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvbench/load/bench.h"
#include "kvbench/measure/pairs.h"
#include "kvbench/measure/runs.h"
#include "kvbench/report/measured.h"
#include "kvbench/setup/again.h"
#include "kvbench/setup/signals.h"

enum { SIDES = 2, FIGURES_MAX = 18, METRICS = 3, ARGS_MAX = 96 };

#define TIME_MAX_NS 3600000000000ull /* of one run */

struct side {
	char program[PATH_MAX];
	json_t *doc[BENCH_PAIRS_MAX];
};

struct figure {
	char name[48];
	const struct measured_metric *metric;
	double value[SIDES][BENCH_PAIRS_MAX];
};

struct ab {
	struct side side[SIDES];
	const char *const *option;
	unsigned num_options, pairs, num_figures;
	double threshold;
	struct figure figure[FIGURES_MAX];
};

/* ---- one process ---- */

/* A folder stands for the kv-bench in it. */
static int program_find(const char *given, char out[PATH_MAX])
{
	struct stat st;
	int n = stat(given, &st) == 0 && S_ISDIR(st.st_mode) ? snprintf(out, PATH_MAX, "%s/kv-bench", given)
							     : snprintf(out, PATH_MAX, "%s", given);
	return n > 0 && n < PATH_MAX && access(out, X_OK) == 0 ? 0 : -1;
}

/* NULL: it failed, and the reason was printed. */
static json_t *measure(const struct ab *ab, unsigned side)
{
	static const char *const own[] = {"kv-bench",     "--quiet",         "--json=-",
					  "--duration=2", "--num-keys=2000", "--log-level=warn"};
	const struct again_run run = {.program = ab->side[side].program, .timeout_ns = TIME_MAX_NS};
	struct again_args args = {0};
	struct kv_error err = {0};
	json_t *doc;
	for (unsigned i = 0; i < KV_COUNT(own); i++)
		again_put(&args, own[i]);
	for (unsigned i = 0; i < ab->num_options; i++) /* the last of two counts */
		again_put(&args, ab->option[i]);
	if (again_report(&run, &args, &doc, &err) < 0 && !bench_interrupted())
		fprintf(stderr, "kv-bench compare: a run of %s failed, so nothing is compared: %s\n", run.program,
			err.text);
	return doc;
}

/* ---- the pairs ---- */

static double reads_of(const json_t *doc)
{
	return document_number(document_measured(doc), "ops_per_s");
}

static void pair_print(const struct ab *ab, unsigned i)
{
	double a = reads_of(ab->side[0].doc[i]), b = reads_of(ab->side[1].doc[i]);
	char text[SIDES][32];
	if (!(a > 0 && b > 0))
		return;
	printf("pair %u of %u   A %s   B %s ops/s   %+.1f %%\n", i + 1, ab->pairs,
	       kv_count_format((uint64_t)a, text[0], 32), kv_count_format((uint64_t)b, text[1], 32), 100 * (b / a - 1));
	fflush(stdout);
}

static bool pairs_run(struct ab *ab)
{
	for (unsigned i = 0; i < ab->pairs; i++) {
		for (unsigned k = 0; k < SIDES; k++) {
			unsigned side = i % 2 ? SIDES - 1 - k : k;
			ab->side[side].doc[i] = measure(ab, side);
			if (!ab->side[side].doc[i])
				return false;
		}
		pair_print(ab, i);
	}
	return true;
}

/* ---- the figures ---- */

static const json_t *phase_named(const json_t *doc, const char *name)
{
	struct document_phase phase[DOCUMENT_PHASES_MAX];
	unsigned n = document_phases(doc, phase);
	for (unsigned i = 0; i < n; i++)
		if (strcmp(phase[i].name, name) == 0)
			return phase[i].phase;
	return NULL;
}

/* One that a run lacks, or that took a moment there, is not judged. */
static bool figure_take(const struct ab *ab, const char *name, const struct measured_metric *m, struct figure *f)
{
	snprintf(f->name, sizeof(f->name), "%s %s", name, m->name);
	f->metric = m;
	for (unsigned s = 0; s < SIDES; s++)
		for (unsigned i = 0; i < ab->pairs; i++) {
			const json_t *phase = phase_named(ab->side[s].doc[i], name);
			const json_t *at = m->of ? json_object_get(phase, m->of) : phase;
			double v = document_number(at, m->member);
			if (!(v > 0) || !isfinite(v) || !(document_number(phase, "seconds") >= MEASURED_SHORT_S))
				return false;
			f->value[s][i] = v;
		}
	return true;
}

static void figures_take(struct ab *ab)
{
	struct document_phase phase[DOCUMENT_PHASES_MAX];
	unsigned n = document_phases(ab->side[0].doc[0], phase);
	for (unsigned i = 0; i < n; i++)
		for (unsigned m = 0; m < METRICS; m++)
			if (ab->num_figures < FIGURES_MAX &&
			    figure_take(ab, phase[i].name, &measured_of_phases[m], &ab->figure[ab->num_figures]))
				ab->num_figures++;
}

static const char *value_text(const struct figure *f, double v, char buf[32])
{
	return f->metric->more_is_better ? kv_count_format((uint64_t)(v + 0.5), buf, 32)
					 : kv_duration_format((uint64_t)(v + 0.5), buf, 32);
}

static void figure_print(const struct ab *ab, const struct figure *f, const struct bench_pairs *r)
{
	static const char *const verdicts[] = {[BENCH_PAIRS_SAME] = "no difference",
					       [BENCH_PAIRS_WORSE] = "WORSE",
					       [BENCH_PAIRS_BETTER] = "better",
					       [BENCH_PAIRS_UNKNOWN] = "no verdict"};
	struct bench_spread s[SIDES];
	char text[SIDES][32], range[40];
	for (unsigned k = 0; k < SIDES; k++)
		bench_spread_of(f->value[k], ab->pairs, &s[k]);
	snprintf(range, sizeof(range), "[%+.1f, %+.1f]", 100 * r->low, 100 * r->high);
	printf("%-14.14s %11s %11s %+6.1f %% %-15s %s\n", f->name, value_text(f, s[0].median, text[0]),
	       value_text(f, s[1].median, text[1]), 100 * r->change, range, verdicts[r->verdict]);
}

static int judge(const struct ab *ab)
{
	unsigned count[BENCH_PAIRS_UNKNOWN + 1] = {0};
	struct bench_pairs r, weakest = {.finds = 0};
	const struct figure *of = NULL;
	printf("\n%-14s %11s %11s %8s %-15s\n", "", "A", "B", "change", "95 %");
	for (unsigned i = 0; i < ab->num_figures; i++) {
		const struct figure *f = &ab->figure[i];
		bench_pairs_judge(f->value[0], f->value[1], ab->pairs, f->metric->more_is_better, ab->threshold,
				  ab->num_figures, &r);
		figure_print(ab, f, &r);
		count[r.verdict]++;
		if (r.finds > weakest.finds) {
			weakest = r;
			of = f;
		}
	}
	if (ab->num_figures == 0) {
		fprintf(stderr,
			"kv-bench compare: no figure was measured for %g s in each run: give both a longer "
			"--duration\n",
			MEASURED_SHORT_S);
		return BENCH_USAGE;
	}
	kv_wrap(stdout, "power   ", 0,
		"with %u pairs and this noise 9 of 10 such comparisons find a change of %.1f %% in each figure (%s is "
		"the noisiest); fewer than 1 in 20 call a program worse that is the same",
		ab->pairs, 100 * weakest.finds, of ? of->name : "");
	if (count[BENCH_PAIRS_UNKNOWN] && !count[BENCH_PAIRS_WORSE])
		kv_wrap(stdout, "verdict ", 0,
			"none for %u of %u figures: noise would hide a change of %g %%. Use more --pairs, longer runs "
			"(-- --duration 10), or a machine at rest",
			count[BENCH_PAIRS_UNKNOWN], ab->num_figures, 200 * ab->threshold);
	else
		kv_wrap(stdout, "verdict ", 0, "%u of %u figures are worse by more than %g %%",
			count[BENCH_PAIRS_WORSE], ab->num_figures, 100 * ab->threshold);
	return count[BENCH_PAIRS_WORSE] ? BENCH_FAILED : count[BENCH_PAIRS_UNKNOWN] ? BENCH_USAGE : BENCH_OK;
}

int ab_compare(const char *const program[2], const char *const *option, unsigned num_options, unsigned pairs,
	       double threshold)
{
	struct ab *ab = calloc(1, sizeof(*ab));
	int status = BENCH_USAGE;
	bool good = ab && num_options <= ARGS_MAX;
	if (!good)
		fprintf(stderr, "kv-bench compare: %s\n", ab ? "too many options" : "no memory for the pairs");
	for (unsigned k = 0; good && k < SIDES; k++) {
		good = program_find(program[k], ab->side[k].program) == 0;
		if (!good)
			fprintf(stderr, "kv-bench compare: %s is no kv-bench, nor a folder with one\n", program[k]);
	}
	if (good) {
		ab->option = option;
		ab->num_options = num_options;
		ab->pairs = pairs;
		ab->threshold = threshold;
		bench_signals_install();
		for (unsigned k = 0; k < SIDES; k++)
			printf("%c       %s\n", 'A' + (int)k, ab->side[k].program);
		good = pairs_run(ab);
	}
	if (good) {
		figures_take(ab);
		status = judge(ab);
	} else if (bench_interrupted()) {
		status = 128 + bench_interrupted();
	}
	for (unsigned k = 0; ab && k < SIDES; k++)
		for (unsigned i = 0; i < BENCH_PAIRS_MAX; i++)
			json_decref(ab->side[k].doc[i]);
	free(ab);
	return status;
}
