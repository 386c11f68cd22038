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
#include "kvbench/report/commands.h"
#include "kvbench/scale/scale.h"
#include "kvbench/setup/command.h"
#include "kvbench/steps/server.h"
#include "kvbench/setup/stuck.h"
#include "kvbench/sweep/sweep.h"
#include "kvbench/versus/versus.h"

static const struct help_command commands[] = {
	{"capacity", "how many clients a machine can have", capacity_main},
	{"compare", "two results or more, with a verdict", compare_main},
	{"fabric", "latency and bandwidth of bare libfabric", fabric_main},
	{"hits", "hit ratio of a trace by policy and memory", hits_main},
	{"models", "bytes of a block of models' KV caches", model_main},
	{"plot", "charts and a page of a result", plot_main},
	{"scale", "many logical clients in one process", scale_main},
	{"sweep", "every combination of workers, clients, sizes", sweep_main},
	{"versus", "KVRail against redis and memcached", versus_main},
	{NULL, NULL, NULL},
};

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
	for (const struct help_command *c = commands; c->name; c++)
		kv_nearest_try(&n, c->name);
	kv_nearest_try(&n, "help");
	fprintf(stderr, "kv-bench: there is no command '%.100s'%s (try --help)\n", word, kv_nearest_hint(&n, "", hint));
	return BENCH_USAGE;
}

static const struct help_command *command_find(const char *name)
{
	for (const struct help_command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static int command(int argc, char **argv)
{
	struct bench_options options;
	struct kv_error err = {0};
	char help_option[] = "--help";
	const struct help_command *named = argc > 1 ? command_find(argv[1]) : NULL;
	int rc, over;
	for (size_t i = 0; i < KV_COUNT(parts); i++)
		if (strcmp(argv[0], parts[i].name) == 0)
			return parts[i].main(argc, argv);
	if (argc == 3 && strcmp(argv[1], "help") == 0 && (named = command_find(argv[2])))
		argv[2] = help_option;
	if (named) {
		argv[1] = argv[0];
		return named->main(argc - 1, argv + 1);
	}
	if (help_wanted(argc, argv))
		return help_main(argc, argv, commands);
	if (argc > 1 && argv[1][0] != '-')
		return unknown_command(argv[1]);
	rc = bench_options_parse(argc, argv, &options, &err);
	over = command_over("kv-bench", rc, &err, bench_options_table, &options, options.out.config);
	if (over >= 0)
		return over;
	kvc_program_setup();
	return bench_run(&options);
}

/* Lost text is a failure of every command. Commands that write a report have already said so. */
int main(int argc, char **argv)
{
	int status;
	kv_early_end(false);
	signal(SIGPIPE, SIG_IGN); /* kv_written reports it */
	kv_stdio_keep();
	status = command(argc, argv);
	stuck_end();
	if (kv_written(stdout) || status != BENCH_OK)
		return status;
	fprintf(stderr, "kv-bench: the text could not be written to standard output\n");
	return BENCH_FAILED;
}
