/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c -- kv-bench compare: whether a later result is worse than an earlier one, and not only by chance.
 *
 * A difference counts if it is above the threshold and above both noises (measured.h) together, so that the two ranges
 * do not meet; of results of one process each it must be above ALONE as well. Where noise is not known there is no
 * verdict. What repeated processes tell apart is --ab's (ab.c). Of sweeps each combination is compared, and shown where
 * it differs: most do not.
 *
 * A difference that the distance of two cores explains, worse where they were farther apart or better where they were
 * nearer, or either where nobody knows which they were for longer, is shown and not judged: it is the machine's. Any
 * other is judged: a figure that did not change, or that is worse though they were nearer, needs no second run. */
#include <math.h>
#include <stdlib.h>

#include "kvbench/load/bench.h"
#include "kvbench/measure/pairs.h"
#include "kvbench/report/ab.h"
#include "kvbench/report/measured.h"
#include "kvbench/report/state.h"
#include "kvbench/report/verbs.h"

struct compare_options {
	double threshold;
	bool force, ab;
	uint32_t pairs;
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
	{.name = "ab",
	 .type = KV_OPT_FLAG,
	 .offset = offsetof(struct compare_options, ab),
	 .help = "A and B are programs: each a kv-bench, or a folder with one. Their processes take turns, with the "
		 "options behind --, as in --ab old/build new/build -- --value-size 1MB."},
	{.name = "pairs",
	 .type = KV_OPT_U32,
	 .offset = offsetof(struct compare_options, pairs),
	 .metavar = "N",
	 .def = "15",
	 .min = BENCH_PAIRS_MIN,
	 .max = BENCH_PAIRS_MAX,
	 .help = "Processes of each with --ab."},
	{.name = NULL},
};

static const struct kv_opt_program compare_program = {
	.name = "kv-bench compare",
	.usage_args = "A.json B.json...\n--ab A B [-- OPTIONS OF KV-BENCH]",
	.about = "Compares results of kv-bench --json, or of sweeps, the first with the last; of more than two it "
		 "shows the "
		 "trend.",
	.epilogue = "Exit status: 0 no regression, 1 a figure is worse by more than the threshold and the noise, or "
		    "a combination of a sweep failed that did not before, 2 no verdict: usage, a result that cannot be "
		    "read, results under different conditions, or none worse and one of too few windows, or that "
		    "differs as the distance of two cores does; with --ab: noise would hide twice the threshold.",
	.args_max = KV_OPT_STRINGS_MAX,
};

/* ---- the verdict ---- */

enum { WORSE, SAME, BETTER, UNSURE, SHOWN, SHORT, MOVED, FEW };

/* Two processes of one program differ by so much, on a machine at rest as well: memory lies elsewhere, threads are on
 * other cores, for as long as they live. Their windows do not show it. */
#define ALONE 0.1

/* From nothing, anything is more. */
static double change_of(struct measured from, struct measured to)
{
	if (from.value > 0)
		return to.value / from.value - 1;
	return to.value > 0 ? INFINITY : 0;
}

/* alone: each is of one process. A ratio of a replay is its trace's, and has no noise. */
static int judge(const struct measured_metric *m, struct measured a, struct measured b, double threshold, bool alone)
{
	double change = change_of(a, b), worse = m->more_is_better ? -change : change;
	double noise = a.noise + b.noise;
	if (!(fabs(change) > threshold))
		return SAME;
	if (m->is_ratio || change <= -1 || isinf(change))
		return worse > 0 ? WORSE : BETTER;
	if (!isfinite(noise))
		return FEW;
	if (!(fabs(change) > fmax(noise, alone ? ALONE : 0)))
		return UNSURE;
	return worse > 0 ? WORSE : BETTER;
}

static const char *figure_text(const struct measured_metric *m, double v, char buf[32])
{
	uint64_t whole = (uint64_t)(KV_MIN(v, 1e18) + 0.5); /* v is not below 0 */
	if (m->is_ratio) {
		snprintf(buf, 32, "%.4f", v);
		return buf;
	}
	return m->more_is_better ? kv_count_format(whole, buf, 32) : kv_duration_format(whole, buf, 32);
}

static const char *noise_text(double noise, char buf[32])
{
	if (isfinite(noise))
		snprintf(buf, 32, "%.1f %%", 100 * noise);
	else
		snprintf(buf, 32, "unknown");
	return buf;
}

static void row(const char *name, const struct measured_metric *m, struct measured v, struct measured first,
		bool is_first)
{
	char value[32], noise[32], change[32] = "";
	if (!is_first && isfinite(change_of(first, v)))
		snprintf(change, sizeof(change), "%+.1f %%", 100 * change_of(first, v));
	else if (!is_first)
		snprintf(change, sizeof(change), "from 0");
	printf("  %-34.34s %12s %10s %10s\n", name, figure_text(m, v.value, value), noise_text(v.noise, noise), change);
}

struct results {
	unsigned count;
	const char *const *path;
	json_t *doc[KV_OPT_STRINGS_MAX];
	double threshold; /* a share */
	bool sweeps, force;
	unsigned judged, worse, same, moved, few, unsure;
	enum state_distance distance; /* of what is judged now: the last result's, beside the first's */
	char distances[160];
	unsigned known;          /* figures whose noise is known, or that have none */
	unsigned unlike;         /* unlike: combinations that were measured under different conditions */
	unsigned absent, failed; /* combinations that a later one did not measure; that failed in the last */
};

static const char *const part_names[][2] = {
	{"before", "before the event"}, {"five_minutes", "five minutes after it"}, {"later", "later"}};

/* A phase, or a part of a replay, by its name, where the document has it. */
static json_t *phase_named(const json_t *doc, const char *name)
{
	struct document_phase phase[DOCUMENT_PHASES_MAX];
	unsigned n = document_phases_all(doc, phase);
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

/* Of so short a time nothing tells how far it is by chance, unless it was measured again. */
static bool beginning(const struct measured *v)
{
	return v->is_short && !isfinite(v->noise);
}

/* Whether the distance of two cores is reason enough for a verdict. */
static bool explained(const struct results *r, int verdict)
{
	return !r->force && ((verdict == WORSE && (r->distance == STATE_FARTHER || r->distance == STATE_OTHER)) ||
			     (verdict == BETTER && (r->distance == STATE_NEARER || r->distance == STATE_OTHER)));
}

/* One figure of all results, which each has measured. */
static void judge_all(struct results *r, const char *name, const struct measured_metric *m, const struct measured *v)
{
	static const char *const verdicts[] = {[WORSE] = "WORSE",
					       [SAME] = "no difference",
					       [BETTER] = "better",
					       [UNSURE] = "within the noise: no difference that is sure",
					       [SHOWN] = "differs, but its noise is not known: not judged",
					       [SHORT] = "differs, but of less than 0.1 s: not judged",
					       [FEW] = "differs, of too few windows or runs: no verdict",
					       [MOVED] = "differs as the distance of two cores does"};
	const struct measured *last = &v[r->count - 1];
	int verdict = judge(m, v[0], *last, r->threshold, !r->sweeps);
	if (m->shown_only && verdict != SAME)
		verdict = SHOWN;
	else if (verdict != SAME && (beginning(&v[0]) || beginning(last)))
		verdict = SHORT;
	else if (explained(r, verdict))
		verdict = MOVED;
	r->judged++;
	r->worse += verdict == WORSE;
	r->moved += verdict == MOVED;
	r->few += verdict == FEW;
	r->unsure += verdict == UNSURE;
	r->known += !m->shown_only && (m->is_ratio || verdict == WORSE || isfinite(v[0].noise + last->noise));
	r->same += verdict == SAME;
	if (r->sweeps && verdict == SAME)
		return;
	kv_wrap(stdout, "", 2, "%s %s: %s%s%s%s", name, m->name, verdicts[verdict], verdict == MOVED ? ", " : "",
		verdict == MOVED ? r->distances : "", verdict == MOVED ? ": not judged" : "");
	for (unsigned i = 0; i < r->count; i++)
		row(short_name(r->path[i]), m, v[i], v[0], i == 0);
}

/* What one of the results did not measure is not compared. A rate or a ratio may be 0: what worked before does not. A
 * latency of 0 is that of no call. */
static bool measured_in_all(const struct measured_metric *m, const struct measured *v, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!isfinite(v[i].value) || !(m->more_is_better ? v[i].value >= 0 : v[i].value > 0))
			return false;
	return true;
}

static void compare_phase(struct results *r, const char *name, const struct measured_metric *metric, unsigned count)
{
	struct measured v[KV_OPT_STRINGS_MAX];
	for (unsigned k = 0; k < count; k++) {
		for (unsigned i = 0; i < r->count; i++)
			v[i] = measured_of_phase(r->doc[i], phase_named(r->doc[i], name), &metric[k]);
		if (measured_in_all(&metric[k], v, r->count))
			judge_all(r, name, &metric[k], v);
	}
}

/* ---- sweeps ---- */

static json_t *point_like(const json_t *doc, const json_t *point)
{
	static const char *const axes[] = {"value_size", "num_clients", "num_workers"};
	json_t *points = document_at(doc, "sweep", "points", NULL), *p;
	size_t i;
	json_array_foreach(points, i, p)
	{
		bool same = true;
		for (unsigned k = 0; k < KV_COUNT(axes); k++) {
			const json_t *a = json_object_get(point, axes[k]), *b = json_object_get(p, axes[k]);
			same &= a && b ? json_equal(a, b) : a == b;
		}
		if (same)
			return p;
	}
	return NULL;
}

static void point_name(const json_t *point, char *out, size_t cap)
{
	double size = document_number(point, "value_size");
	char text[32] = "";
	if (size >= 1 && size < 1e18)
		kv_size_format((uint64_t)size, text, sizeof(text));
	snprintf(out, cap, "%s%s%.0f clients, %.0f workers,", text, text[0] ? ", " : "",
		 document_number(point, "num_clients"), document_number(point, "num_workers"));
}

static void say_point(const char *sentence, void *arg)
{
	fprintf(stderr, "kv-bench compare: %s %s\n", (const char *)arg, sentence);
}

/* Whether a later result has a figure of what the first has measured. One that failed has lost all of it, even where
 * runs before the failure are there. */
static bool point_measured(struct results *r, const json_t *point, unsigned i, const char *name)
{
	const char *state = point ? document_text(point, "state") : NULL;
	const char *reason = point ? document_text(point, "reason") : NULL;
	char text[200];
	bool failed = state && strcmp(state, "failed") == 0;
	if (!failed && json_array_size(json_object_get(point, "runs")) > 0)
		return true;
	r->absent++;
	r->failed += failed && i == r->count - 1;
	printf("%s %s in %s%s%s\n", name, failed ? "FAILED" : "not measured", short_name(r->path[i]),
	       reason ? ": " : "", reason ? kv_printable(reason, false, text, sizeof(text)) : "");
	return false;
}

static void compare_point(struct results *r, const json_t *first)
{
	const json_t *point[KV_OPT_STRINGS_MAX];
	struct measured v[KV_OPT_STRINGS_MAX];
	unsigned differ = 0;
	char name[96];
	point_name(first, name, sizeof(name));
	for (unsigned i = 0; i < r->count; i++)
		point[i] = point_like(r->doc[i], first);
	if (json_array_size(json_object_get(first, "runs")) == 0)
		return; /* there is nothing to be worse than */
	for (unsigned i = 1; i < r->count; i++)
		if (!point_measured(r, point[i], i, name))
			return;
	for (unsigned i = 1; i < r->count; i++)
		differ += state_of_points_differs(first, point[i], say_point, name);
	r->unlike += differ > 0;
	if (differ > 0 && !r->force)
		return;
	r->distance = state_distance(first, point[r->count - 1], r->distances, sizeof(r->distances));
	for (unsigned k = 0; k < MEASURED_OF_POINT; k++) {
		for (unsigned i = 0; i < r->count; i++)
			v[i] = measured_of_point(point[i], &measured_of_phases[k]);
		if (measured_in_all(&measured_of_phases[k], v, r->count))
			judge_all(r, name, &measured_of_phases[k], v);
	}
}

static void compare_sweeps(struct results *r)
{
	const json_t *points = document_at(r->doc[0], "sweep", "points", NULL), *point;
	size_t i;
	json_array_foreach(points, i, point) compare_point(r, point);
	if (r->same > 0)
		printf("%u figures without a difference are not shown\n", r->same);
	if (r->absent > 0)
		printf("%u of the first's combinations %s not measured again, %u of them failed in the last\n",
		       r->absent, r->absent == 1 ? "was" : "were", r->failed);
	if (r->unlike > 0 && !r->force)
		printf("%u combinations were measured under different conditions, and are not compared\n", r->unlike);
}

static int compare_all(struct results *r)
{
	struct document_phase phase[DOCUMENT_PHASES_MAX];
	unsigned n = r->sweeps ? 0 : document_phases(r->doc[0], phase);
	r->distance = state_distance(r->doc[0], r->doc[r->count - 1], r->distances, sizeof(r->distances));
	printf("  %-34s %12s %10s %10s\n", "", "figure", "noise", "change");
	for (unsigned i = 0; i < n; i++)
		compare_phase(r, phase[i].name, measured_of_phases, MEASURED_OF_PHASE);
	for (unsigned i = 0; i < KV_COUNT(part_names) && !r->sweeps; i++)
		compare_phase(r, part_names[i][1], measured_of_parts, MEASURED_OF_PART);
	if (r->sweeps)
		compare_sweeps(r);
	if (r->judged == 0 && r->failed == 0) {
		fprintf(stderr, "kv-bench compare: these results have no figure in common%s\n",
			r->unlike ? " that was measured under the same conditions (--force compares all the same)"
				  : "");
		return BENCH_USAGE;
	}
	if (r->few > 0 || r->known == 0)
		kv_wrap(stdout, "note    ", 0,
			"no verdict on %u figures: how far they vary is not known. It takes eight windows of a phase "
			"(--duration, --interval), or three runs (--repeat-runs, also of a sweep)",
			r->known == 0 ? r->judged : r->few);
	printf("%u of %u figures worse by more than %g %% and their noise\n", r->worse, r->judged, 100 * r->threshold);
	if (!r->sweeps && r->unsure > 0)
		kv_wrap(stdout, "note    ", 0,
			"each is of one process, and two of one program differ by up to %g %%: a smaller change than "
			"that "
			"is found by kv-bench compare --ab, which repeats processes",
			100 * ALONE);
	if (r->moved > 0)
		kv_wrap(stdout, "note    ", 0,
			"%u differ as the distance of two cores does, which is the machine's: measure again (virtual "
			"CPUs move: another run may find them where they were), or --force",
			r->moved);
	return r->worse || r->failed ? BENCH_FAILED : r->moved || r->few || r->known == 0 ? BENCH_USAGE : BENCH_OK;
}

/* ---- the whole ---- */

static void say(const char *sentence, void *arg)
{
	fprintf(stderr, "kv-bench compare: %s: %s\n", (const char *)arg, sentence);
}

static void note(const char *sentence, void *arg)
{
	kv_wrap(stdout, "note    ", 0, "%s: %s", (const char *)arg, sentence);
}

static bool same_state(const struct results *r)
{
	unsigned count = 0;
	for (unsigned i = 1; i < r->count; i++)
		count += state_differs(r->doc[0], r->doc[i], say, (void *)r->path[i]);
	for (unsigned i = 1; i < r->count && (count == 0 || r->force); i++)
		state_notes(r->doc[0], r->doc[i], note, (void *)r->path[i]);
	if (count > 0 && !r->force)
		fprintf(stderr,
			"kv-bench compare: %u condition%s from %s's: these results do not compare. Measure again as it "
			"was then, or --force\n",
			count, count == 1 ? " differs" : "s differ", r->path[0]);
	return count == 0 || r->force;
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
	if (rc == 0 && o.ab && args.count < 2)
		rc = kv_fail(&err, -KV_EINVAL, "--ab needs two programs, as in --ab old/kv-bench new/kv-bench");
	if (rc == 0 && args.count < 2)
		rc = kv_fail(&err, -KV_EINVAL,
			     "name two results or more, files of kv-bench --json or of kv-bench sweep");
	if (rc == 0 && !(o.threshold >= 0 && o.threshold <= 1000))
		rc = kv_fail(&err, -KV_EINVAL, "--threshold %g is not a percentage between 0 and 1000", o.threshold);
	if (rc < 0) {
		fprintf(stderr, "kv-bench compare: %s (try --help)\n", err.text);
		return BENCH_USAGE;
	}
	if (o.ab)
		return ab_compare(args.item, args.item + 2, args.count - 2, o.pairs, o.threshold / 100);
	r.path = args.item;
	r.threshold = o.threshold / 100;
	r.force = o.force;
	for (; rc == 0 && r.count < args.count; r.count += rc == 0)
		rc = document_load_drawn(args.item[r.count], &r.doc[r.count], &err);
	r.sweeps = rc == 0 && document_is_sweep(r.doc[0]);
	for (unsigned i = 1; rc == 0 && i < r.count; i++)
		if (document_is_sweep(r.doc[i]) != r.sweeps)
			rc = kv_fail(&err, -KV_EINVAL,
				     "a sweep compares with sweeps only, a run with runs: %.300s is a %s", r.path[i],
				     r.sweeps ? "run" : "sweep");
	if (rc < 0)
		fprintf(stderr, "kv-bench compare: %s\n", err.text);
	else if (same_state(&r))
		status = compare_all(&r);
	for (unsigned i = 0; i < r.count; i++)
		json_decref(r.doc[i]);
	return status;
}
