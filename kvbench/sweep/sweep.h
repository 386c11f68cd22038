/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h -- kv-bench sweep: the same load with every combination of workers, value size and clients. This side has the
 * options and makes the plan; kvlab/sweep.py carries it out. */
#ifndef KVRAIL_KVBENCH_SWEEP_SWEEP_H
#define KVRAIL_KVBENCH_SWEEP_SWEEP_H

#include <jansson.h>

#include "kvbench/setup/args.h"
#include "kvbench/setup/list.h"
#include "kvbench/setup/options.h"

enum {
	SWEEP_CELLS_MAX = 4096, /* combinations */
	SWEEP_RUNS_MAX = 99999  /* of all combinations together */
};

enum sweep_axis_name { SWEEP_SIZE, SWEEP_CLIENTS, SWEEP_WORKERS, SWEEP_AXES };

struct sweep_options {
	struct bench_options bench; /* first: the rows of its table keep their offsets */
	const char *list[SWEEP_AXES];
	struct bench_list axis[SWEEP_AXES]; /* of list; of SWEEP_SIZE one 0 with a model or --value-sizes */
	const char *resume;
	uint64_t order_seed; /* 0: from the clock */
	uint64_t cell_timeout_ns;
};

/* sweep_options_table -- the rows of kv-bench itself that fit a sweep, and those of the sweep. Thread: main. */
const struct kv_opt *sweep_options_table(void);

/* sweep_options_parse -- like bench_options_parse. */
int sweep_options_parse(int argc, char **argv, struct sweep_options *out, struct kv_error *err);

/* sweep_settings -- append the options that all runs have in common. identity: leave out those about output alone. */
void sweep_settings(const struct sweep_options *o, bool identity, struct args *args);

/* sweep_plan -- every combination, those that make no sense with the reason why they are skipped, and the options of
 * their runs; the caller's reference. NULL with *err: no memory, or no combination is left. */
json_t *sweep_plan(const struct sweep_options *o, struct kv_error *err);

/* sweep_main -- the sub-command. The exit status. */
int sweep_main(int argc, char **argv);

#endif
