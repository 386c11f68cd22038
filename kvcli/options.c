/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-client. */
#include "kvcli/options.h"

#include <stdlib.h>

#define AT(member) .offset = offsetof(struct cli_options, member)

const struct kv_opt cli_options_table[] = {
	KV_OPT_SERVER_ROW(.group = "Where to", .type = KV_OPT_STRINGS, AT(servers), .def = KV_SERVER_DEFAULT,
			  .help = "A kv-server to use, [NAME=]HOST:PORT; repeatable. Keys are spread over all servers "
				  "by their names."),
	KV_OPT_PROVIDER_ROW(AT(provider)),
	KV_OPT_NIC_ROW(AT(nic)),
	KV_OPT_RAILS_ROW(AT(rails)),
	KV_OPT_NUMA_ROW(AT(numa)),
	KV_OPT_DOOR_ROW(AT(door)),
	KV_OPT_MODE_ROW(AT(mode)),
	{.name = "timeout",
	 .type = KV_OPT_DURATION,
	 AT(timeout_ns),
	 .metavar = "TIME",
	 .def = "0",
	 .max = 3600000000000ull,
	 .help = "Deadline of connecting, and of one command's operation. 0: 5 s, and for an operation 1 s more for "
		 "every 100 MB."},
	KV_OPT_PEER_TIMEOUT_ROW(AT(peer_timeout_ns)),

	{.group = "Commands",
	 .name = "ttl",
	 .type = KV_OPT_U32,
	 AT(ttl),
	 .unit = KV_OPT_SECONDS,
	 .metavar = "TIME",
	 .def = "0",
	 .help = "put, touch: time to live; 0: the server's default."},
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
	{.name = "all",
	 .type = KV_OPT_FLAG,
	 AT(all),
	 .help = "stat: also what this client counts, and what it sees of servers and NICs."},
	{.name = "shards", .type = KV_OPT_FLAG, AT(shards), .help = "stat: also each shard of the servers."},
	{.name = "watch",
	 .type = KV_OPT_DURATION,
	 AT(watch_ns),
	 .metavar = "TIME",
	 .def = "0",
	 .max = 86400000000000ull,
	 .help = "stat: print every TIME what changed and by how much per second, until Ctrl-C; 0: print once."},
	{.name = "interval",
	 .type = KV_OPT_DURATION,
	 AT(interval_ns),
	 .metavar = "TIME",
	 .def = "1s",
	 .min = 100000000ull,
	 .max = 86400000000000ull,
	 .help = "top: the time between two tables, and that of their rates."},
	{.name = "once", .type = KV_OPT_FLAG, AT(once), .help = "top: print one table, after --interval, and exit."},
	{.name = "drain-sec",
	 .type = KV_OPT_U32,
	 AT(drain_sec),
	 .unit = KV_OPT_SECONDS,
	 .metavar = "TIME",
	 .def = "0",
	 .max = 86400,
	 .help = "drain: longest time until the server's end; 0: as its own --drain-sec says."},
	{.name = "drain-mb",
	 .type = KV_OPT_U64,
	 AT(drain_mb),
	 .unit = KV_OPT_MIB,
	 .metavar = "SIZE",
	 .def = "0",
	 .max = 1 << 20,
	 .help = "drain: MiB per second at which it may put values to the others; 0: as its own --drain-mb says."},
	{.name = "json", .type = KV_OPT_FLAG, AT(json), .help = "stat, cluster: print one JSON object."},

	KV_OPT_SECURITY_ROWS(struct cli_options),

	KV_OPT_LOG_LEVEL_ROW(AT(log_level), .def = "error", .help = "What the library logs to standard error",
			     .group = "Output"),
	KV_OPT_SLOW_ROW(AT(slow_ms),
			.help = "Say on standard error where the time of operations of this many milliseconds or more "
				"went (a warning, so --log-level is at least warn); 0: never."),
	{.name = NULL},
};

const struct kv_opt_program cli_options_program = {
	.name = "kv-client",
	.usage_args = "[COMMAND [ARGS...]]",
	.about = "Talks to a kv-server. Commands:\n"
		 "  get KEY [-o FILE]                read a value (without -o, print it)\n"
		 "  put KEY VALUE | -f FILE | -      store a value (- is standard input)\n"
		 "  delete KEY                       remove a key\n"
		 "  exists KEY...                    see which exist, how many from the start\n"
		 "  touch KEY...                     give values a new time to live (--ttl)\n"
		 "  ttl KEY [TIME]                   see, or set, the time a value has to live\n"
		 "  pin KEY...                       keep values from eviction until Ctrl-C\n"
		 "  stat [--shards] [--all] [--json] see counters of servers and of this client\n"
		 "  stat --watch TIME                see what changes, until Ctrl-C\n"
		 "  top [--interval TIME] [--once]   a live table of the servers\n"
		 "  cluster [--json]                 the members of the view, and how they are\n"
		 "  drain NODE                       have a server hand over, and end\n"
		 "  ping                             see whether every shard answers\n"
		 "  help [COMMAND]                   read more about a command\n"
		 "Without a command, kv-client reads commands from standard input; on a terminal it has history and "
		 "completion by Tab.",
	.epilogue =
		"Environment, where the option is not given: KVRAIL_SERVER (addresses, separated by commas) and "
		"KVRAIL_PSK_FILE.\n\nCommands may be piped in, one a line. A command that fails is named with its "
		"line, and those after it still run.\n\nExit status: 0 done or found, 1 not found, 2 usage, 3 failure. "
		"For piped commands it is that of the last one that did not end with 0.",
	.args_max = KV_OPT_STRINGS_MAX,
};

/* Takes the servers of KVRAIL_SERVER; cuts the list in place. */
static int servers_from(char *list, struct cli_options *o, struct kv_error *err)
{
	o->servers.count = 0;
	for (char *save = NULL, *item = strtok_r(list, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		if (o->servers.count == KV_OPT_STRINGS_MAX)
			return kv_fail(err, -KV_EINVAL, "KVRAIL_SERVER has more than %d servers", KV_OPT_STRINGS_MAX);
		o->servers.item[o->servers.count++] = item;
	}
	return o->servers.count
		       ? 0
		       : kv_fail(err, -KV_EINVAL,
				 "KVRAIL_SERVER has no server in it; give HOST:PORT, several separated by commas");
}

/* Fills in from the environment what the command line left open. Without --server the item is the table's own default.
 * The copy of the list lives as long as the process, as argv does. */
static int environment_take(struct cli_options *o, struct kv_error *err)
{
	static char list[4096];
	const char *server = getenv("KVRAIL_SERVER"), *psk = getenv("KVRAIL_PSK_FILE");

	if (psk && *psk && !o->security.psk_file && !o->security.cert)
		o->security.psk_file = psk;
	if (!server || !*server || o->servers.item[0] != cli_options_table[0].def)
		return 0;
	if (snprintf(list, sizeof(list), "%s", server) >= (int)sizeof(list))
		return kv_fail(err, -KV_EINVAL, "KVRAIL_SERVER is longer than %zu bytes", sizeof(list) - 1);
	return servers_from(list, o, err);
}

int cli_options_parse(int argc, char **argv, struct cli_options *out, struct kv_opt_strings *out_words,
		      struct kv_error *err)
{
	int rc = kv_opt_parse(&cli_options_program, cli_options_table, argc, argv, out, out_words, err);

	if (rc == 0)
		rc = environment_take(out, err);
	if (rc == 0 && out->watch_ns && out->json)
		rc = kv_fail(err, -KV_EINVAL, "--watch prints text for people: drop it, or drop --json");
	if (rc == 0 && out->watch_ns && (out->all || out->shards))
		rc = kv_fail(err, -KV_EINVAL,
			     "--watch shows what whole servers count: drop it, or drop --all and --shards");
	if (rc == 0)
		rc = kv_opt_security_check(&out->security, err);
	if (rc == 0)
		rc = kv_opt_servers_check(out->servers.item, out->servers.count, err);
	return rc;
}
