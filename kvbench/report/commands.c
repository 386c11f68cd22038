/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c -- the options of kv-bench plot and kv-bench compare; kvlab does the work. */
#include "kvbench/report/commands.h"

#include <stdlib.h>

#include "kvbench/report/json.h"
#include "kvbench/report/lab.h"
#include "kvbench/setup/command.h"

/* ---- plot ---- */

static const char *const figure_names[] = {"percentiles", "histogram", "throughput", "latency",
					   "breakdown",   "scaling",   NULL};

struct plot_options {
	const char *output;
	int figure; /* of figure_names; -1: none was chosen */
};

static const struct kv_opt plot_table[] = {
	KV_ROW_TEXT("output", .offset = offsetof(struct plot_options, output), "FILE", NULL,
		    "The file to write; its end chooses the kind: "
		    ".svg or .png (one chart), .html (the page), .hgrm or .csv.",
		    .letter = 'o'),
	KV_ROW_CHOICE("figure", .offset = offsetof(struct plot_options, figure), "NAME", "percentiles", figure_names,
		      "The chart of an .svg or .png. Without --figure it is scaling for a sweep; for others"),
	{.name = NULL},
};

static const struct kv_opt_program plot_program = {
	.name = "kv-bench plot",
	.usage_args = "RESULT.json",
	.about = "Draws the result of an earlier kv-bench --json, or of a sweep.",
	.epilogue = "Exit status: 0 written, 1 not written, 2 usage, or a result that cannot be read.",
	.args_max = 1,
};

static const char *kind_of(const char *path)
{
	static const char *const kinds[] = {"svg", "png", "html", "hgrm", "csv"};
	const char *dot = strrchr(path, '.');
	for (unsigned i = 0; dot && dot > path && i < KV_COUNT(kinds); i++)
		if (strcmp(dot + 1, kinds[i]) == 0)
			return kinds[i];
	return NULL;
}

static int plot_check(const struct plot_options *o, const struct kv_opt_strings *args, struct kv_error *err)
{
	const char *kind = o->output ? kind_of(o->output) : NULL;
	if (args->count == 0)
		return kv_fail(err, -KV_EINVAL, "which result? name a file of kv-bench --json");
	if (!o->output)
		return kv_fail(err, -KV_EINVAL, "--output FILE names the file to write, such as result.svg");
	if (!kind)
		return kv_fail(err, -KV_EINVAL, "--output %.300s ends with none of .svg, .png, .html, .hgrm and .csv",
			       o->output);
	if (o->figure >= 0 && strcmp(kind, "svg") != 0 && strcmp(kind, "png") != 0)
		return kv_fail(err, -KV_EINVAL,
			       "--figure chooses the chart of an .svg or .png; %.300s has no chart to choose",
			       o->output);
	return out_file_apart(o->output, "the drawing", args->item[0], "kv-bench plot", err);
}

int plot_main(int argc, char **argv)
{
	struct plot_options o;
	struct kv_opt_strings args = {0};
	struct kv_error err = {0};
	int rc, over;
	kv_opt_defaults(plot_table, &o);
	o.figure = -1;
	rc = kv_opt_parse_over(&plot_program, plot_table, argc, argv, &o, &args, &err);
	if (rc == 0)
		rc = plot_check(&o, &args, &err);
	over = command_over("kv-bench plot", rc, &err, NULL, NULL, false);
	if (over >= 0)
		return over;
	return lab_exec("kv-bench plot", "plot", NULL,
			(const char *const[]){args.item[0], o.output, kind_of(o.output),
					      o.figure < 0 ? "" : figure_names[o.figure], NULL});
}

/* ---- compare ---- */

struct compare_options {
	double threshold;
	bool force, ab;
	uint32_t pairs;
};

static const struct kv_opt compare_table[] = {
	KV_ROW_DOUBLE("threshold", .offset = offsetof(struct compare_options, threshold), "PERCENT", "5", 0, 0,
		      "A difference below this is none."),
	KV_ROW_FLAG("force", .offset = offsetof(struct compare_options, force),
		    "Compare results all the same of under different conditions."),
	KV_ROW_FLAG("ab", .offset = offsetof(struct compare_options, ab),
		    "A and B are programs: each a kv-bench, or a folder with one. Their processes take turns, with the "
		    "options behind --, as in --ab old/build new/build -- --value-size 1MB."),
	{.name = "pairs",
	 .type = KV_OPT_U32,
	 .offset = offsetof(struct compare_options, pairs),
	 .metavar = "N",
	 .def = "15",
	 .min = 6, /* fewer prove nothing */
	 .max = 200,
	 .help = "Processes of each with --ab."},
	{.name = NULL},
};

static const struct kv_opt_program compare_program = {
	.name = "kv-bench compare",
	.usage_args = "A.json B.json...\n--ab A B [-- OPTIONS OF KV-BENCH]",
	.about = "Compares results of kv-bench --json, or of sweeps, the first with the last; of more than two it "
		 "shows the trend.",
	.epilogue = "Exit status: 0 no regression, 1 a figure is worse by more than the threshold and the noise, or "
		    "a combination of a sweep failed that did not before, 2 no verdict: usage, a result that cannot be "
		    "read, results under different conditions, or none worse and one of too few windows, or that "
		    "differs as the distance of two cores does; with --ab: noise would hide twice the threshold.",
	.args_max = KV_OPT_STRINGS_MAX,
};

static int compare_check(const struct compare_options *o, const struct kv_opt_strings *args, struct kv_error *err)
{
	if (o->ab && args->count < 2)
		return kv_fail(err, -KV_EINVAL, "--ab needs two programs, as in --ab old/kv-bench new/kv-bench");
	if (args->count < 2)
		return kv_fail(err, -KV_EINVAL,
			       "name two results or more, files of kv-bench --json or of kv-bench sweep");
	if (!(o->threshold >= 0 && o->threshold <= 1000))
		return kv_fail(err, -KV_EINVAL, "--threshold %g is not a percentage between 0 and 1000", o->threshold);
	return 0;
}

int compare_main(int argc, char **argv)
{
	struct compare_options o;
	struct kv_opt_strings args = {0};
	struct kv_error err = {0};
	const char *arg[LAB_ARGS_MAX + 1];
	char threshold[32], pairs[16];
	json_t *defaults;
	unsigned n = 0;
	int over, rc = kv_opt_parse(&compare_program, compare_table, argc, argv, &o, &args, &err);
	if (rc == 0)
		rc = compare_check(&o, &args, &err);
	over = command_over("kv-bench compare", rc, &err, NULL, NULL, false);
	if (over >= 0)
		return over;
	snprintf(threshold, sizeof(threshold), "%.17g", o.threshold);
	snprintf(pairs, sizeof(pairs), "%u", o.ab ? o.pairs : 0);
	arg[n++] = threshold;
	arg[n++] = o.force ? "1" : "0";
	arg[n++] = pairs;
	for (unsigned i = 0; i < args.count; i++)
		arg[n++] = args.item[i];
	arg[n] = NULL;
	defaults = json_config_default();
	rc = lab_exec("kv-bench compare", "compare", defaults, arg);
	json_decref(defaults);
	return rc;
}
