/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-bench capacity. As with kv-bench itself no option is
 * accepted and then ignored. */

#include "kvbench/capacity/capacity.h"

#define AT(member) .offset = offsetof(struct capacity_options, member)

static const char *const model_names[] = {"endpoints", "verbs", "pooled", "all", NULL};

const struct kv_opt capacity_options_table[] = {
	KV_OPT_SERVER_ROW(.group = "Where to", .type = KV_OPT_STRING, AT(step.server),
			  .help = "A kv-server to use, [NAME=]HOST:PORT, started with a --max-clients larger than the "
				  "steps. Without it kv-bench starts a server of its own for each model, on loopback."),
	KV_OPT_PROVIDER_ROW(AT(step.provider)),
	KV_OPT_NIC_ROW(AT(step.nic)),
	KV_ROW_U32("rails", AT(step.rails), "N", "1", 1, KV_RAILS_MAX, "NICs per client: endpoints per client."),
	KV_ROW_TEXT("device", AT(step.device), "NAME", NULL,
		    "The RDMA device of --model verbs. Default: the first one."),

	KV_ROW_CHOICE("model", AT(model), "MODEL", "all", model_names,
		      "endpoints: an engine with an endpoint for each client. verbs: a bare queue pair, two completion "
		      "queues and two memory regions for each. pooled: all clients on --engines. One of these",
		      .letter = 'm', .group = "Steps"),
	KV_ROW_TEXT("steps", AT(steps), "LIST", "10,100,200,300,400,450,500,...",
		    "Ascending numbers of clients; \"...\" at the end continues by the difference of the last two, to "
		    "--max-clients. The first failure ends them."),
	KV_ROW_U32("max-clients", AT(max_clients), "N", "1000", 1, CAPACITY_CLIENTS_MAX, "Largest step."),
	KV_ROW_U32("max-sessions", AT(max_sessions), "N", "20000", 1, CAPACITY_SESSIONS_MAX,
		   "Largest step of --model pooled."),
	KV_ROW_DURATION("timeout", AT(step.timeout_ns), "120", 1000000000, 86400000000000ull,
			"A step that exceeds this time fails."),

	KV_ROW_U32("engines", AT(step.engines), "N", "4", 1, STEP_ENGINES_MAX,
		   "Clients with endpoints that --model pooled shares.", .group = "Resources"),
	KV_OPT_THREADS_ROW(AT(step.num_threads)),
	KV_OPT_SERVER_THREADS_ROW(
		AT(server_threads), .def = "1", .min = 1,
		.help = "Data threads of the server that kv-bench starts; each client connects to all of them."),
	KV_OPT_BUFFER_ROW(AT(step.buffer_mb), .def = "1"),
	KV_ROW_SIZE("value-size", AT(step.value_size), "4KB", 1, 1 << 18,
		    "Size of the value that each client reads and compares.", .letter = 'v'),

	KV_OPT_SECURITY_ROWS(struct step_options),

	KV_OPT_JSON_ROW(AT(json), .group = "Output"),
	KV_ROW_FLAG("quiet", AT(quiet), "Print only how each model ended.", .letter = 'q'),
	KV_OPT_LOG_LEVEL_ROW(
		AT(step.log_level), .def = "error",
		.help = "Log level of the library, on standard error; debug also shows the log of the server "
			"that kv-bench starts"),
	KV_OPT_CONFIG_ROW(AT(config)),
	{.name = NULL},
};

const struct kv_opt_program capacity_options_program = {
	.name = "kv-bench capacity",
	.about = "Finds how many clients with endpoints of their own this machine can have, and the limit that ends "
		 "it; and how many share a few. Each client is connected to a server and reads one value.",
	.epilogue = "Exit status: 0 every model ran (meeting a limit is a result), 1 a GET failed, "
		    "a byte was wrong or a step had to be killed, 2 usage, 3 a requested model could "
		    "not start, 128 + signal when it was interrupted: the report has the complete steps.",
};

void capacity_steps_extend(struct bench_list *steps, uint32_t max)
{
	static const uint32_t factor[] = {1, 2, 5};
	uint64_t last = steps->count ? steps->value[steps->count - 1] : 0, ten = 1;
	_Static_assert(CAPACITY_SESSIONS_MAX <= 100000 && BENCH_LIST_ROOM - BENCH_LIST_MAX >= 3 * 5 + 1,
		       "all have room");
	for (; ten < max; ten *= 10)
		for (unsigned i = 0; i < KV_COUNT(factor); i++)
			if (factor[i] * ten > last && factor[i] * ten < max)
				steps->value[steps->count++] = factor[i] * ten;
	if (max > last)
		steps->value[steps->count++] = max;
}

/* ---- all of them ---- */

static int check_own_server(const struct capacity_options *o, struct kv_error *err)
{
	if (!o->step.server && kv_opt_security_given(&o->step.security))
		return kv_fail(err, -KV_EINVAL,
			       "--psk-file, --cert, --key, --ca, --crl and --server-name need --server: "
			       "the server that kv-bench starts gets a one-time key by itself");
	if (o->step.server && o->server_threads != 1)
		return kv_fail(
			err, -KV_EINVAL,
			"--server-threads concerns the server that kv-bench starts itself: drop it, or drop --server");
	if (o->step.server && o->model == STEP_VERBS)
		return kv_fail(err, -KV_EINVAL, "--model verbs needs no server: drop --server");
	return 0;
}

static int check_steps(const struct capacity_options *o, struct kv_error *err)
{
	struct bench_list steps;
	int rc = bench_list_parse_to("steps", o->steps, o->max_clients, &steps, err);
	if (rc == 0 && steps.count == 0)
		rc = kv_fail(err, -KV_EINVAL, "--max-clients %u leaves no step of %s", o->max_clients, o->steps);
	if (rc == 0 && o->step.device && o->model != STEP_VERBS && o->model != CAPACITY_MODELS)
		rc = kv_fail(err, -KV_EINVAL, "--device is of --model verbs; for the others it is --nic");
	return rc;
}

int capacity_options_parse(int argc, char **argv, struct capacity_options *out, struct kv_error *err)
{
	int rc = kv_opt_parse(&capacity_options_program, capacity_options_table, argc, argv, out, NULL, err);
	out->step.messages = 1;
	if (rc == 0)
		rc = check_own_server(out, err);
	if (rc == 0)
		rc = kv_opt_security_check(&out->step.security, err);
	if (rc == 0)
		rc = check_steps(out, err);
	if (rc == 0)
		rc = kv_opt_json_check(out->json, err);
	if (rc == 0)
		rc = kv_opt_servers_check(&out->step.server, out->step.server ? 1 : 0, err);
	return rc;
}
