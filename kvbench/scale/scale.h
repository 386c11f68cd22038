/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h -- kv-bench scale: many logical clients in one process, each with a session of its own, and the cost of each;
 * for comparison, a TCP connection with TLS for each. This side has the options and makes the plan; kvlab/scale.py
 * starts the steps (steps/). */
#ifndef KVRAIL_KVBENCH_SCALE_SCALE_H
#define KVRAIL_KVBENCH_SCALE_SCALE_H

#include "kvbench/setup/list.h"
#include "kvbench/steps/steps.h"

enum { SCALE_CLIENTS_MAX = 200000 };

struct scale_options {
	struct step_options step;
	const char *clients, *json;
	uint32_t server_threads;
	bool no_tls, quiet, config;
	struct bench_list list;
};

extern const struct kv_opt scale_options_table[];

/* scale_options_parse -- like bench_options_parse. */
int scale_options_parse(int argc, char **argv, struct scale_options *out, struct kv_error *err);

/* scale_main -- the sub-command. The exit status. scale_step_main -- step_main of this command. */
int scale_main(int argc, char **argv);
int scale_step_main(int argc, char **argv);

#endif
