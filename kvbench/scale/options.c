/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-bench scale. */
#include "kvbench/scale/scale.h"

#define AT(member) .offset = offsetof(struct scale_options, member)

const struct kv_opt scale_options_table[] = {
	KV_ROW_TEXT("clients", AT(clients), "LIST", "10,100,1000,10000,20000,100000",
		    "Ascending numbers of logical clients; \"...\" continues as in kv-bench sweep.", .group = "Load"),
	KV_ROW_SIZE("message-size", AT(step.value_size), "1KB", 1, 1 << 18,
		    "Bytes of a message: of the value that a client reads and compares."),
	KV_ROW_U32("messages", AT(step.messages), "N", "3", 1, 1000000, "Messages of each client."),
	KV_ROW_DURATION("think-time", AT(step.think_ns), "0", 0, 3600000000000ull,
			"Pause of a client between messages. Latency counts from the scheduled time."),
	KV_ROW_DURATION("timeout", AT(step.timeout_ns), "300", 1000000000, 86400000000000ull,
			"A step ends after this time."),
	KV_OPT_PROVIDER_ROW(AT(step.provider), .group = "Resources"),
	KV_OPT_NIC_ROW(AT(step.nic)),
	KV_ROW_U32("engines", AT(step.engines), "N", "4", 1, STEP_ENGINES_MAX,
		   "Clients with endpoints that all logical clients share."),
	KV_ROW_U32("num-threads", AT(step.num_threads), "N", "4", 1, KV_OPT_THREADS_MAX,
		   "Threads of the engines' event loops.", .letter = 't'),
	KV_OPT_SERVER_THREADS_ROW(AT(server_threads), .def = "1", .min = 1,
				  .help = "Data threads of the server that kv-bench starts on loopback."),
	KV_OPT_BUFFER_ROW(AT(step.buffer_mb), .def = "4"),
	KV_ROW_FLAG("no-tls", AT(no_tls), "Leave out the connections with TLS."),

	KV_OPT_JSON_ROW(AT(json), .group = "Output"),
	KV_ROW_FLAG("quiet", AT(quiet), "Print only the verdict.", .letter = 'q'),
	KV_OPT_LOG_LEVEL_ROW(AT(step.log_level), .def = "error", .help = "Log level of the library, on standard error"),
	KV_OPT_CONFIG_ROW(AT(config)),
	{.name = NULL},
};

static const struct kv_opt_program program = {
	.name = "kv-bench scale",
	.about = "Opens more and more logical clients in one process, each with a session of its own over a few shared "
		 "endpoints, and shows the cost of each; for comparison, a TCP connection with TLS for each, as far as "
		 "descriptors, ports and memory go.",
	.epilogue =
		"Exit status: 0 every logical client of every step succeeded (where connections with TLS stop is a "
		"result), 1 one did not, or the report was not written; 2 usage, 3 it could not start, 128 + signal "
		"when it was interrupted: the report has the complete steps.",
};

int scale_options_parse(int argc, char **argv, struct scale_options *out, struct kv_error *err)
{
	int rc = kv_opt_parse(&program, scale_options_table, argc, argv, out, NULL, err);
	out->step.rails = 1;
	if (rc == 0)
		rc = bench_list_parse("clients", out->clients, false, 1, SCALE_CLIENTS_MAX, &out->list, err);
	if (rc == 0 && 2 * out->step.value_size > out->step.buffer_mb << 20)
		rc = kv_fail(err, -KV_EINVAL, "a message does not fit half of the buffer: use a larger --buffer-mb");
	return rc == 0 ? kv_opt_json_check(out->json, err) : rc;
}
