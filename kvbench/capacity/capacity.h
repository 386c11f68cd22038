/* SPDX-License-Identifier: Apache-2.0 */
/* capacity.h -- kv-bench capacity: how many clients with resources of their own a machine can have, and which limit
 * ends it. This side has the options and makes the plan; kvlab/capacity.py starts the steps (steps/) and judges them.
 */
#ifndef KVRAIL_KVBENCH_CAPACITY_CAPACITY_H
#define KVRAIL_KVBENCH_CAPACITY_CAPACITY_H

#include "kvbench/setup/list.h"
#include "kvbench/steps/steps.h"

enum { CAPACITY_CLIENTS_MAX = 4096, CAPACITY_SESSIONS_MAX = 100000 };

enum { CAPACITY_MODELS = STEP_POOLED + 1 }; /* models before it are this command's; as a choice: all */

struct capacity_options {
	struct step_options step; /* first: the rows of its security keep their offsets */
	const char *steps, *json;
	int model;
	uint32_t max_clients, max_sessions, server_threads;
	bool quiet, config;
};

extern const struct kv_opt capacity_options_table[];
extern const struct kv_opt_program capacity_options_program;

/* capacity_options_parse -- like bench_options_parse. argv[0] is the program's name, argv[1] an option. */
int capacity_options_parse(int argc, char **argv, struct capacity_options *out, struct kv_error *err);

/* capacity_steps_extend -- continue to max: 1, 2, 5, 10, ... and max itself. */
void capacity_steps_extend(struct bench_list *steps, uint32_t max);

/* capacity_main -- the sub-command. argv as for capacity_options_parse. Returns the exit status: 0 also where a limit
 * was met: the limit is the result. capacity_step_main -- step_main of this command. */
int capacity_main(int argc, char **argv);
int capacity_step_main(int argc, char **argv);

#endif
