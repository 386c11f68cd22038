/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-bench sweep: the rows of kv-bench itself, except those that `left_out` names,
 * with lists in place of three of them; and the command line of a cell's run, made of the same rows. */
#include "kvbench/sweep/sweep.h"

#define AT(member) .offset = offsetof(struct sweep_options, member)

enum { ROWS_MAX = 128 };

static const struct kv_opt own[] = {
	KV_ROW_TEXT(
		"num-workers", AT(list[SWEEP_WORKERS]), "LIST", "1,2,4,...,64",
		"Workers. \"...\" continues to the number behind it: two numbers by their difference, three by their "
		"difference or factor.",
		.letter = 'w', .group = "Axes"),
	KV_ROW_TEXT("value-size", AT(list[SWEEP_SIZE]), "SIZES", NULL,
		    "Sizes of a value, such as 4KB,64KB,1MB. Default: 64KB, or from --model and --value-sizes.",
		    .letter = 'v'),
	KV_ROW_TEXT("num-clients", AT(list[SWEEP_CLIENTS]), "LIST", "1",
		    "Clients. Combinations with more clients than workers are skipped.", .letter = 'c'),
	KV_ROW_U32("repeat-runs", AT(bench.pace.repeat_runs), "N", "1", 1, BENCH_RUNS_MAX,
		   "Runs of every combination: all of them once before any a second time; report median and spread."),
	KV_ROW_TEXT("resume", AT(resume), "FILE", NULL,
		    "Keep the finished runs of FILE (--json) and continue the sweep, in the same file unless --json "
		    "names another. Settings and machine must be the same. A missing FILE is created."),
	KV_ROW_U64("order-seed", AT(order_seed), "N", "0", 0, INT64_MAX,
		   "Order of the combinations, new for each round. 0: another one each time; it is printed."),
	KV_ROW_DURATION("cell-timeout", AT(cell_timeout_ns), "3600", 1000000000, 604800000000000ull,
			"A run that exceeds this time is ended, and its combination fails."),
	{.name = NULL},
};

/* Of kv-bench: options with a form of their own here, those that write other files, and those that measure other things
 * than writes and reads. */
static const char left_out[] =
	" num-workers value-size num-clients repeat-runs trace trace-speed trace-order keep-going no-write slo "
	"breakdown mixed roofline roofline-depth roofline-file hdr csv raw interval progress prefix-tokens "
	"prefill-rate ";

/* Options about output alone: runs do not get them, and two sweeps may differ in them. */
static const char shown_only[] = " json report quiet config log-level ";

static void row_change(struct kv_opt *row)
{
	if (strcmp(row->name, "quiet") == 0)
		row->help = "Print only the table at the end.";
	if (strcmp(row->name, "json") == 0)
		row->help = "Write the report as JSON, anew after every run. -: to standard output, at the end.";
	if (strcmp(row->name, "report") == 0)
		row->help = "Write a page with the heat map, all in one HTML file that loads nothing.";
	if (strcmp(row->name, "seed") == 0)
		row->help = "Seed of keys, values and read order. With --server each run has keys of its own.";
	if (strcmp(row->name, "log-level") == 0) {
		row->def = "error";
		row->help = "Log level of the library, on standard error; above error as it comes";
	}
}

const struct kv_opt *sweep_options_table(void)
{
	static struct kv_opt table[ROWS_MAX];
	unsigned n = KV_COUNT(own) - 1;
	if (table[0].name)
		return table;
	memcpy(table, own, sizeof(own) - sizeof(own[0]));
	bench_options_pick(left_out, false, table + n, ROWS_MAX - n);
	for (struct kv_opt *row = table + n; row->name; row++)
		row_change(row);
	return table;
}

static const struct kv_opt_program program = {
	.name = "kv-bench sweep",
	.about =
		"Runs the same load with every combination of workers, value size and clients, and shows how it "
		"scales. Each run is a kv-bench of its own, and without --server each has a kv-server of its own: none "
		"finds the values, the memory or the connections of another.",
	.epilogue =
		"Exit status: 0 every combination was measured or skipped; 1 one failed, or a file was not written; 2 "
		"usage, or --resume FILE is of another sweep; 3 it could not start; 128 + signal when it was "
		"interrupted: the report has the runs until then.",
};

static int axes_parse(struct sweep_options *o, struct kv_error *err)
{
	bool sized = o->bench.model.name || o->bench.load.value_sizes;
	int rc = 0;
	if (sized && o->list[SWEEP_SIZE])
		return kv_fail(err, -KV_EINVAL, "--%s defines the sizes of values: drop it, or drop --value-size",
			       o->bench.model.name ? "model" : "value-sizes");
	o->axis[SWEEP_SIZE] = (struct bench_list){.count = 1};
	if (!sized)
		rc = bench_list_parse("value-size", o->list[SWEEP_SIZE] ? o->list[SWEEP_SIZE] : "64KB", true, 1,
				      KV_VALUE_MAX, &o->axis[SWEEP_SIZE], err);
	if (rc == 0)
		rc = bench_list_parse("num-workers", o->list[SWEEP_WORKERS], false, 1, KV_OPT_WORKERS_MAX,
				      &o->axis[SWEEP_WORKERS], err);
	if (rc == 0)
		rc = bench_list_parse("num-clients", o->list[SWEEP_CLIENTS], false, 1, KV_OPT_CLIENTS_MAX,
				      &o->axis[SWEEP_CLIENTS], err);
	return rc;
}

static int check_size(const struct sweep_options *o, struct kv_error *err)
{
	uint64_t cells = 1;
	for (unsigned i = 0; i < SWEEP_AXES; i++)
		cells *= o->axis[i].count;
	if (cells > SWEEP_CELLS_MAX)
		return kv_fail(err, -KV_EINVAL,
			       "the lists have %llu combinations, and a sweep has %u at most: choose fewer",
			       (unsigned long long)cells, (unsigned)SWEEP_CELLS_MAX);
	if (cells * o->bench.pace.repeat_runs > SWEEP_RUNS_MAX)
		return kv_fail(err, -KV_EINVAL, "%llu combinations %u times are more than %u runs: choose fewer",
			       (unsigned long long)cells, o->bench.pace.repeat_runs, (unsigned)SWEEP_RUNS_MAX);
	return 0;
}

static int check_files(const struct sweep_options *o, struct kv_error *err)
{
	const struct bench_options *b = &o->bench;
	if (o->resume && (!*o->resume || strcmp(o->resume, "-") == 0))
		return kv_fail(err, -KV_EINVAL, "--resume needs the name of a file");
	if (b->out.report && (!*b->out.report || strcmp(b->out.report, "-") == 0))
		return kv_fail(err, -KV_EINVAL,
			       "--report needs the name of a file: only --json goes to standard output");
	if (b->out.report && ((b->out.json && strcmp(b->out.report, b->out.json) == 0) ||
			      (o->resume && strcmp(b->out.report, o->resume) == 0)))
		return kv_fail(err, -KV_EINVAL, "--report and --%s name one file, %.200s: give each its own",
			       b->out.json && strcmp(b->out.report, b->out.json) == 0 ? "json" : "resume",
			       b->out.report);
	return kv_opt_json_check(b->out.json, err);
}

int sweep_options_parse(int argc, char **argv, struct sweep_options *out, struct kv_error *err)
{
	int rc;
	memset(out, 0, sizeof(*out));
	rc = kv_opt_parse(&program, sweep_options_table(), argc, argv, out, NULL, err);
	out->bench.out.argc = argc;
	out->bench.out.argv = argv;
	if (rc == 0)
		rc = axes_parse(out, err);
	if (rc == 0)
		rc = check_size(out, err);
	if (rc == 0)
		rc = check_files(out, err);
	if (rc == 0 && out->resume && !out->bench.out.json)
		out->bench.out.json = out->resume;
	return rc;
}

/* ---- the command line of a run ---- */

static void row_add(const struct kv_opt *row, const struct bench_options *o, struct args *args)
{
	const void *at = (const char *)o + row->offset;
	const struct kv_opt_strings *all = at;
	char value[512], def[512];
	static struct bench_options defaults;
	switch (row->type) {
	case KV_OPT_FLAG:
		if (*(const bool *)at)
			args_add(args, "--%s", row->name);
		return;
	case KV_OPT_STRINGS:
		for (unsigned i = 0; i < all->count; i++)
			args_add(args, "--%s=%s", row->name, all->item[i]);
		return;
	case KV_OPT_STRING:
		if (*(const char *const *)at && (!row->def || strcmp(row->def, *(const char *const *)at) != 0))
			args_add(args, "--%s=%s", row->name, *(const char *const *)at);
		return;
	default:
		kv_opt_defaults(bench_options_table, &defaults);
		kv_opt_format(row, o, value, sizeof(value));
		kv_opt_format(row, &defaults, def, sizeof(def));
		if (strcmp(value, def) != 0)
			args_add(args, "--%s=%s", row->name, value);
	}
}

void sweep_settings(const struct sweep_options *o, bool identity, struct args *args)
{
	for (const struct kv_opt *row = bench_options_table; row->name; row++)
		if (!bench_name_among(left_out, row->name) && !bench_name_among(shown_only, row->name) &&
		    (identity || strcmp(row->name, "seed") != 0))
			row_add(row, &o->bench, args);
	if (!identity)
		args_add(args, "--log-level=%s", kv_opt_level_names[o->bench.out.log_level]);
}
