/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-client. */
#include "kvcli/options.h"

#define AT(member) .offset = offsetof(struct cli_options, member)

/* In the order of enum kvc_mode. */
static const char *const mode_names[] = {"auto", "push", "pull", NULL};
/* In the order of enum kv_log_level. */
static const char *const level_names[] = {"off", "error", "warn", "info", "debug", NULL};

const struct kv_opt cli_options_table[] = {
	{.group = "Where to",
	 .name = "server",
	 .alias = "server-addr",
	 .letter = 's',
	 .type = KV_OPT_STRINGS,
	 AT(servers),
	 .metavar = "HOST:PORT",
	 .def = "127.0.0.1:50051",
	 .help = "The kv-server to talk to; repeatable, keys are spread over all."},
	{.name = "provider",
	 .letter = 'p',
	 .type = KV_OPT_STRING,
	 AT(provider),
	 .metavar = "NAME",
	 .def = "auto",
	 .help = "The libfabric provider that must be used (efa, efa-direct, verbs, tcp, shm), or auto."},
	{.name = "nic",
	 .type = KV_OPT_STRING,
	 AT(nic),
	 .metavar = "NAME[,NAME]",
	 .help = "The NICs to use, in this order: device names or IP addresses of this machine."},
	{.name = "rails",
	 .type = KV_OPT_U32,
	 AT(rails),
	 .metavar = "N",
	 .def = "0",
	 .max = KV_RAILS_MAX,
	 .help = "How many NICs to use; 0: all of --nic, else up to 8 on EFA, else 1."},
	{.name = "mode",
	 .type = KV_OPT_CHOICE,
	 AT(mode),
	 .metavar = "MODE",
	 .def = "auto",
	 .choices = mode_names,
	 .help = "get: who moves the bytes: push, the server; pull, this client, from a server with --allow-pull; auto, pull "
		 "where the server allows it and the provider emulates writes but not reads"},
	{.name = "timeout",
	 .type = KV_OPT_DURATION,
	 AT(timeout_ns),
	 .metavar = "SEC",
	 .def = "0",
	 .max = 3600000000000ull,
	 .help = "Deadline of connecting, and of one command's operation. 0: 5 s, and for an operation 1 s more for "
		 "every 100 MB."},
	{.name = "peer-timeout",
	 .type = KV_OPT_DURATION,
	 AT(peer_timeout_ns),
	 .metavar = "SEC",
	 .def = "2",
	 .min = 20000000,
	 .max = 3600000000000ull,
	 .help = "A server that says nothing for so long is taken for dead."},

	{.group = "Commands",
	 .name = "ttl",
	 .type = KV_OPT_U32,
	 AT(ttl),
	 .metavar = "SEC",
	 .def = "0",
	 .help = "put: time to live; 0 means the server's default."},
	{.name = "file",
	 .letter = 'f',
	 .type = KV_OPT_STRING,
	 AT(file),
	 .metavar = "FILE",
	 .help = "put: read the value from FILE; - is standard input."},
	{.name = "output",
	 .letter = 'o',
	 .type = KV_OPT_STRING,
	 AT(output),
	 .metavar = "FILE",
	 .help = "get: write the value to FILE, which appears only when complete."},
	{.name = "all", .type = KV_OPT_FLAG, AT(all), .help = "stat: also what this client counts and sees of servers and NICs."},
	{.name = "shards", .type = KV_OPT_FLAG, AT(shards), .help = "stat: also each shard of the servers."},
	{.name = "json", .type = KV_OPT_FLAG, AT(json), .help = "stat: as one JSON object."},

	{.group = "Security",
	 .name = "psk-file",
	 .type = KV_OPT_STRING,
	 AT(psk_file),
	 .metavar = "FILE",
	 .help = "Pre-shared key of the servers: identity:hex."},
	{.name = "cert",
	 .type = KV_OPT_STRING,
	 AT(cert),
	 .metavar = "FILE",
	 .help = "Certificate of this client (PEM)."},
	{.name = "key",
	 .type = KV_OPT_STRING,
	 AT(key),
	 .metavar = "FILE",
	 .help = "Private key of the certificate (PEM)."},
	{.name = "ca",
	 .type = KV_OPT_STRING,
	 AT(ca),
	 .metavar = "FILE",
	 .help = "CA that signed the servers' certificates (PEM)."},

	{.group = "Output",
	 .name = "log-level",
	 .type = KV_OPT_CHOICE,
	 AT(log_level),
	 .metavar = "LEVEL",
	 .def = "error",
	 .choices = level_names,
	 .help = "What the library logs to standard error"},
	{.name = "slow-ms",
	 .type = KV_OPT_U32,
	 AT(slow_ms),
	 .metavar = "N",
	 .def = "0",
	 .max = 3600000,
	 .help = "Say on standard error where the time of operations of so many milliseconds or more went (a warning, so "
		 "--log-level is at least warn); 0: never."},
	{.name = NULL},
};

const struct kv_opt_program cli_options_program = {
	.name = "kv-client",
	.usage_args = "[COMMAND [ARGS...]]",
	.about = "Talks to a kv-server. Commands:\n"
		 "  get KEY [-o FILE]                the value, to standard output or FILE\n"
		 "  put KEY VALUE | KEY -f FILE | KEY -   store a value (- is standard input)\n"
		 "  delete KEY                       remove a key\n"
		 "  exists KEY...                    which of these exist, and how many from the start\n"
		 "  stat [--shards] [--all] [--json] what the server counts; what this client sees\n"
		 "  ping                             whether every shard answers\n"
		 "Without a command: read commands from standard input, with history on a terminal.",
	.epilogue = "Exit status: 0 done or found, 1 not found, 2 usage, 3 failure.",
	.args_max = KV_OPT_STRINGS_MAX,
};
