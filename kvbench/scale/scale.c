/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c -- the plan of kv-bench scale. */
#include "kvbench/scale/scale.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvbench/load/bench.h"
#include "kvbench/report/lab.h"
#include "kvbench/setup/step.h"

enum { SPARE_CLIENTS = 16 };

/* As in kvbench/capacity/capacity.c. */
#define RXM_BUFFER "4096"

static json_t *plan_of(const struct scale_options *o, int argc, char **argv)
{
	char program[PATH_MAX], host[512];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	json_t *clients = json_array(), *options = json_array(), *machine = step_host_json();
	program[KV_MAX(n, (ssize_t)0)] = 0;
	for (unsigned i = 0; i < o->list.count; i++)
		json_array_append_new(clients, json_integer((json_int_t)o->list.value[i]));
	for (int i = 1; i < argc; i++)
		json_array_append_new(options, json_string(argv[i]));
	for (const char **name = (const char *[]){"memory_bytes", "open_files", "locked_memory_bytes", NULL}; *name;
	     name++)
		json_object_del(machine, *name);
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:I, s:f, s:f, s:b, s:s?, s:b, s:o, s:s}",
			 "version", KVRAIL_VERSION, "program", program, "options", options, "clients", clients,
			 "server_args", step_server_args(o->provider, o->nic, 0, o->server_threads, o->log_level),
			 "server_spare", (int)o->engines + SPARE_CLIENTS, "engines", (int)o->engines, "num_threads",
			 (int)o->num_threads, "messages", (int)o->messages, "message_bytes",
			 (json_int_t)o->message_bytes, "think_s", (double)o->think_ns / 1e9, "timeout_s",
			 (double)o->timeout_ns / 1e9, "no_tls", (int)o->no_tls, "json", o->json, "quiet", (int)o->quiet,
			 "host", machine, "host_text", step_host_text(false, host, sizeof(host)));
}

int scale_main(int argc, char **argv)
{
	static struct scale_options o;
	struct kv_error err = {0};
	json_t *plan;
	int rc = scale_options_parse(argc, argv, &o, &err);
	if (rc > 0)
		return BENCH_OK;
	if (rc < 0) {
		fprintf(stderr, "kv-bench scale: %s (try --help)\n", err.text);
		return BENCH_USAGE;
	}
	if (o.config) {
		kv_opt_dump(scale_options_table, &o, stdout);
		return BENCH_OK;
	}
	plan = plan_of(&o, argc, argv);
	if (!plan) {
		fprintf(stderr, "kv-bench scale: no memory for the plan, or an option is not text in UTF-8\n");
		return BENCH_USAGE;
	}
	(void)setenv("FI_OFI_RXM_BUFFER_SIZE", RXM_BUFFER, 0);
	rc = lab_exec("kv-bench scale", "scale", plan, NULL);
	json_decref(plan);
	return rc;
}
