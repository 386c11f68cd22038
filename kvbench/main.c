/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- kv-bench: the KVRail benchmark. See docs/guide/benchmarking.md. */
#include <stdio.h>

#include <string.h>

#include "base/early.h"
#include "kvbench/help.h"
#include "kvbench/load/bench.h"
#include "kvbench/run.h"
#include "kvbench/capacity/capacity.h"
#include "kvbench/fabric/fabric.h"
#include "kvbench/hits/hits.h"
#include "kvbench/model/model.h"
#include "kvbench/report/verbs.h"
#include "kvbench/scale/scale.h"
#include "kvbench/setup/step.h"
#include "kvbench/setup/stuck.h"
#include "kvbench/sweep/sweep.h"
#include "kvbench/versus/versus.h"

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} commands[] = {{"capacity", capacity_main}, {"compare", compare_main}, {"fabric", fabric_main},
		{"hits", hits_main},         {"models", model_main},    {"plot", plot_main},
		{"scale", scale_main},       {"sweep", sweep_main},     {"versus", versus_main}};

static int distance_main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("%.17g\n", bench_distance_ns());
	return BENCH_OK;
}

/* Parts of commands that kvlab starts, by the name of the process. */
static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} parts[] = {{"kv-bench-capacity-step", capacity_step_main},
	     {"kv-bench-distance", distance_main},
	     {"kv-bench-drive", versus_drive_main},
	     {"kv-bench-scale-step", scale_step_main},
	     {"kv-bench-server", step_server_main}};

/* An unknown first word. */
static int unknown_command(const char *word)
{
	struct kv_nearest n = kv_nearest_begin(word, strlen(word));
	char hint[KV_NEAREST_TEXT];
	for (size_t i = 0; i < KV_COUNT(commands); i++)
		kv_nearest_try(&n, commands[i].name);
	kv_nearest_try(&n, "help");
	fprintf(stderr, "kv-bench: there is no command '%.100s'%s (try --help)\n", word, kv_nearest_hint(&n, "", hint));
	return BENCH_USAGE;
}

static int command(int argc, char **argv)
{
	struct bench_options options;
	struct kv_error err = {0};
	char help_option[] = "--help";
	int rc;
	for (size_t i = 0; i < KV_COUNT(parts); i++)
		if (strcmp(argv[0], parts[i].name) == 0)
			return parts[i].main(argc, argv);
	/* The sub-command gets argv without its own name. */
	for (size_t i = 0; argc > 1 && i < KV_COUNT(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0) {
			argv[1] = argv[0];
			return commands[i].main(argc - 1, argv + 1);
		}
	for (size_t i = 0; argc == 3 && strcmp(argv[1], "help") == 0 && i < KV_COUNT(commands); i++)
		if (strcmp(argv[2], commands[i].name) == 0) {
			argv[1] = argv[0];
			argv[2] = help_option;
			return commands[i].main(argc - 1, argv + 1);
		}
	if (help_wanted(argc, argv))
		return help_main(argc, argv);
	if (argc > 1 && argv[1][0] != '-')
		return unknown_command(argv[1]);
	rc = bench_options_parse(argc, argv, &options, &err);

	if (rc < 0) {
		fprintf(stderr, "kv-bench: %s (try --help)\n", err.text);
		return BENCH_USAGE;
	}
	if (rc > 0)
		return BENCH_OK;
	if (options.out.config) {
		kv_opt_dump(bench_options_table, &options, stdout);
		return BENCH_OK;
	}
	kvc_program_setup();
	return bench_run(&options);
}

/* Lost text is a failure of every command. Commands that write a report have already said so. */
int main(int argc, char **argv)
{
	int status;
	kv_early_end(false);
	signal(SIGPIPE, SIG_IGN); /* kv_written tells */
	kv_stdio_keep();
	status = command(argc, argv);
	stuck_end();
	if (kv_written(stdout) || status != BENCH_OK)
		return status;
	fprintf(stderr, "kv-bench: the text could not be written to standard output\n");
	return BENCH_FAILED;
}
