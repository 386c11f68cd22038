/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- kv-bench: the KVRail benchmark. See docs/guide/benchmarking.md. */
#include <stdio.h>

#include <string.h>

#include "base/early.h"
#include "kvbench/load/bench.h"
#include "kvbench/run.h"
#include "kvbench/capacity/capacity.h"
#include "kvbench/report/verbs.h"

int main(int argc, char **argv)
{
	struct bench_options options;
	struct kv_error err = {0};
	int rc;
	kv_early_end(false);
	/* The sub-command gets argv without its own name. */
	if (argc > 1 && strcmp(argv[1], "capacity") == 0) {
		argv[1] = argv[0];
		return capacity_main(argc - 1, argv + 1);
	}
	if (argc > 1 && strcmp(argv[1], "plot") == 0) {
		argv[1] = argv[0];
		return plot_main(argc - 1, argv + 1);
	}
	if (argc > 1 && strcmp(argv[1], "compare") == 0) {
		argv[1] = argv[0];
		return compare_main(argc - 1, argv + 1);
	}
	rc = bench_options_parse(argc, argv, &options, &err);

	if (rc < 0) {
		fprintf(stderr, "kv-bench: %s (try --help)\n", err.text);
		return BENCH_USAGE;
	}
	if (rc > 0)
		return BENCH_OK;
	if (options.config) {
		kv_opt_dump(bench_options_table, &options, stdout);
		return BENCH_OK;
	}
	kvc_program_setup();
	return bench_run(&options);
}
