/* SPDX-License-Identifier: Apache-2.0 */
/* capacity.c -- the plan of kv-bench capacity: models, and the steps of each. */
#include "kvbench/capacity/capacity.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvbench/load/bench.h"
#include "kvbench/report/lab.h"
#include "kvbench/setup/step.h"

enum { SPARE_CLIENTS = 16 };

/* The largest message of KVRail: rxm's buffers are most of what an endpoint takes, and smaller ones would split a
 * message. Their size must be equal on both sides (engine/env.c): our own server inherits it. */
#define RXM_BUFFER "4096"

static json_t *steps_of(const struct capacity_options *o, int model)
{
	bool pooled = model == CAPACITY_POOLED;
	json_t *list = json_array();
	struct capacity_steps s;
	capacity_steps_parse(o->steps, pooled ? KV_MIN(o->max_clients, o->max_sessions) : o->max_clients, &s, NULL);
	if (pooled)
		capacity_steps_extend(&s, o->max_sessions);
	for (unsigned i = 0; i < s.count; i++)
		json_array_append_new(list, json_integer(s.clients[i]));
	return list;
}

static json_t *plan_of(const struct capacity_options *o, int argc, char **argv)
{
	char program[PATH_MAX], host[512];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	json_t *models = json_array(), *steps = json_object(), *options = json_array();
	program[KV_MAX(n, (ssize_t)0)] = 0;
	for (int m = 0; m < CAPACITY_MODELS; m++) {
		if (o->model != CAPACITY_MODELS && o->model != m)
			continue;
		json_array_append_new(models, json_string(capacity_model_name(m)));
		json_object_set_new(steps, capacity_model_name(m), steps_of(o, m));
	}
	for (int i = 1; i < argc; i++)
		json_array_append_new(options, json_string(argv[i]));
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:b, s:s?, s:o, s:i, s:i, s:i, s:I, s:i, s:f, s:s?, s:b, s:o, s:s}",
			 "version", KVRAIL_VERSION, "program", program, "options", options, "models", models, "steps",
			 steps, "by_name", (int)(o->model != CAPACITY_MODELS), "server", o->server, "server_args",
			 step_server_args(o->provider, o->nic, o->rails, o->server_threads, o->log_level),
			 "server_spare", (int)o->engines + SPARE_CLIENTS, "engines", (int)o->engines, "rails",
			 (int)o->rails, "buffer_mb", (json_int_t)o->buffer_mb, "server_threads", (int)o->server_threads,
			 "timeout_s", (double)o->timeout_ns / 1e9, "json", o->json, "quiet", (int)o->quiet, "host",
			 step_host_json(), "host_text", step_host_text(true, host, sizeof(host)));
}

int capacity_main(int argc, char **argv)
{
	static struct capacity_options o;
	struct kv_error err = {0};
	json_t *plan;
	int rc = capacity_options_parse(argc, argv, &o, &err);
	if (rc > 0)
		return BENCH_OK;
	if (rc < 0) {
		fprintf(stderr, "kv-bench capacity: %s (try --help)\n", err.text);
		return BENCH_USAGE;
	}
	if (o.config) {
		kv_opt_dump(capacity_options_table, &o, stdout);
		return BENCH_OK;
	}
	plan = plan_of(&o, argc, argv);
	if (!plan) {
		fprintf(stderr, "kv-bench capacity: no memory for the plan, or an option is not text in UTF-8\n");
		return BENCH_USAGE;
	}
	if (!o.server)
		(void)setenv("FI_OFI_RXM_BUFFER_SIZE", RXM_BUFFER, 0);
	rc = lab_exec("kv-bench capacity", "capacity", plan, NULL);
	json_decref(plan);
	return rc;
}
