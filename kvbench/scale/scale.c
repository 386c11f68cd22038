/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c -- the plan of kv-bench scale. */
#include "kvbench/scale/scale.h"

#include "kvbench/report/lab.h"
#include "kvbench/setup/command.h"
#include "kvbench/steps/server.h"

enum { SPARE_CLIENTS = 16 };

static json_t *plan_of(const struct scale_options *o)
{
	char host[512];
	json_t *clients = json_array(), *machine = step_host_json();
	for (unsigned i = 0; i < o->list.count; i++)
		json_array_append_new(clients, json_integer((json_int_t)o->list.value[i]));
	for (const char **name = (const char *[]){"memory_bytes", "open_files", "locked_memory_bytes", NULL}; *name;
	     name++)
		json_object_del(machine, *name);
	return json_pack("{s:o, s:o, s:i, s:i, s:i, s:i, s:I, s:f, s:f, s:b, s:s?, s:b, s:o, s:s}", "clients", clients,
			 "server_args",
			 step_server_args(o->step.provider, o->step.nic, 0, o->server_threads, o->step.log_level),
			 "server_spare", (int)o->step.engines + SPARE_CLIENTS, "engines", (int)o->step.engines,
			 "num_threads", (int)o->step.num_threads, "messages", (int)o->step.messages, "message_bytes",
			 (json_int_t)o->step.value_size, "think_s", (double)o->step.think_ns / 1e9, "timeout_s",
			 (double)o->step.timeout_ns / 1e9, "no_tls", (int)o->no_tls, "json", o->json, "quiet",
			 (int)o->quiet, "host", machine, "host_text", step_host_text(false, host, sizeof(host)));
}

int scale_main(int argc, char **argv)
{
	static struct scale_options o;
	struct kv_error err = {0};
	int rc = scale_options_parse(argc, argv, &o, &err);
	int over = command_over("kv-bench scale", rc, &err, scale_options_table, &o, o.config);
	if (over >= 0)
		return over;
	step_small_buffers();
	return lab_run("scale", plan_of(&o), argc, argv);
}

int scale_step_main(int argc, char **argv)
{
	static struct scale_options o;
	struct kv_error err = {0};
	int rc = argc <= STEP_ARGS ? -KV_EINVAL : scale_options_parse(argc - STEP_ARGS, argv + STEP_ARGS, &o, &err);
	return step_main(rc, argv, &o.step, &err);
}
