/* SPDX-License-Identifier: Apache-2.0 */
/* capacity.c -- the plan of kv-bench capacity: models, and the steps of each. */
#include "kvbench/capacity/capacity.h"

#include "kvbench/report/lab.h"
#include "kvbench/setup/command.h"
#include "kvbench/steps/server.h"

enum { SPARE_CLIENTS = 16 };

static json_t *steps_of(const struct capacity_options *o, int model)
{
	bool pooled = model == STEP_POOLED;
	json_t *list = json_array();
	struct bench_list s;
	bench_list_parse_to("steps", o->steps, pooled ? KV_MIN(o->max_clients, o->max_sessions) : o->max_clients, &s,
			    NULL);
	if (pooled)
		capacity_steps_extend(&s, o->max_sessions);
	for (unsigned i = 0; i < s.count; i++)
		json_array_append_new(list, json_integer((json_int_t)s.value[i]));
	return list;
}

static json_t *plan_of(const struct capacity_options *o)
{
	char host[512];
	json_t *models = json_array(), *steps = json_object();
	for (int m = 0; m < CAPACITY_MODELS; m++) {
		if (o->model != CAPACITY_MODELS && o->model != m)
			continue;
		json_array_append_new(models, json_string(step_model_name((enum step_model)m)));
		json_object_set_new(steps, step_model_name((enum step_model)m), steps_of(o, m));
	}
	return json_pack(
		"{s:o, s:o, s:b, s:s?, s:o, s:i, s:i, s:i, s:I, s:i, s:f, s:s?, s:b, s:o, s:s}", "models", models,
		"steps", steps, "by_name", (int)(o->model != CAPACITY_MODELS), "server", o->step.server, "server_args",
		step_server_args(o->step.provider, o->step.nic, o->step.rails, o->server_threads, o->step.log_level),
		"server_spare", (int)o->step.engines + SPARE_CLIENTS, "engines", (int)o->step.engines, "rails",
		(int)o->step.rails, "buffer_mb", (json_int_t)o->step.buffer_mb, "server_threads",
		(int)o->server_threads, "timeout_s", (double)o->step.timeout_ns / 1e9, "json", o->json, "quiet",
		(int)o->quiet, "host", step_host_json(), "host_text", step_host_text(true, host, sizeof(host)));
}

int capacity_main(int argc, char **argv)
{
	static struct capacity_options o;
	struct kv_error err = {0};
	int rc = capacity_options_parse(argc, argv, &o, &err);
	int over = command_over("kv-bench capacity", rc, &err, capacity_options_table, &o, o.config);
	if (over >= 0)
		return over;
	if (!o.step.server)
		step_small_buffers();
	return lab_run("capacity", plan_of(&o), argc, argv);
}

int capacity_step_main(int argc, char **argv)
{
	static struct capacity_options o;
	struct kv_error err = {0};
	int rc = argc <= STEP_ARGS ? -KV_EINVAL : capacity_options_parse(argc - STEP_ARGS, argv + STEP_ARGS, &o, &err);
	return step_main(rc, argv, &o.step, &err);
}
