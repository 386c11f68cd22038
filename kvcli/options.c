/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-client. */
#include "kvcli/options.h"

#include <stdlib.h>

#include "kvclient/kvclient.h"

#define AT(member) .offset = offsetof(struct cli_options, member)

const struct kv_opt cli_options_table[] = {
	KV_OPT_SERVER_ROW(.group = "Where to", .type = KV_OPT_STRINGS, AT(target.servers), .def = KV_SERVER_DEFAULT,
			  .help = "A kv-server to use, [NAME=]HOST:PORT; repeatable. Keys are spread over all servers "
				  "by their names."),
	KV_OPT_TARGET_ROWS(struct cli_options),
	KV_ROW_DURATION("timeout", AT(timeout_ns), "0", 0, 3600000000000ull,
			"Deadline of connecting, and of each command. 0: 5 s, and for a command 1 s more per 100 MB."),
	KV_OPT_PEER_TIMEOUT_ROW(AT(peer_timeout_ns)),

	KV_OPT_SECURITY_ROWS(struct cli_options),
	KV_OPT_SEAL_ROWS(struct cli_options),

	KV_OPT_LOG_LEVEL_ROW(AT(log_level), .def = "error", .help = "Log level of the library, on standard error",
			     .group = "Output"),
	KV_OPT_SLOW_ROW(AT(slow_ms),
			.help = "Report on standard error where the time of operations of this many milliseconds or "
				"more was spent (a warning, so --log-level is at least warn); 0: never."),

	/* The rest are options of commands; lines of the prompt take these alone: cli_options_line. */
	KV_ROW_U32("ttl", AT(ttl), "TIME", "0", 0, 0, "put, touch: time to live; 0: the server's default.",
		   .unit = KV_OPT_SECONDS, .group = "Commands"),
	KV_ROW_TEXT("file", AT(file), "FILE", NULL, "put: read the value from FILE; - is standard input.",
		    .letter = 'f'),
	KV_ROW_TEXT("output", AT(output), "FILE", NULL,
		    "get: write the value to FILE, which appears only when it is complete.", .letter = 'o'),
	KV_ROW_FLAG("all", AT(all), "stat: also the counters of this client, and its view of servers and NICs."),
	KV_ROW_FLAG("shards", AT(shards), "stat: also each shard of the servers."),
	KV_ROW_DURATION(
		"watch", AT(watch_ns), "0", 0, 86400000000000ull,
		"stat: print all changes every TIME, with their rates per second, until Ctrl-C; 0: print once."),
	KV_ROW_DURATION("interval", AT(interval_ns), "1s", 100000000ull, 86400000000000ull,
			"top, tenants: the period of rates; top: time between two tables."),
	KV_ROW_FLAG("once", AT(once),
		    "top: print one table after --interval, and exit. events: print what is stored now, and exit."),
	KV_ROW_TEXTS(
		"since", AT(since), "POSITION", NULL,
		"events: go on behind this event, NODE=EPOCH:SEQUENCE as an event shows them; repeatable, once for "
		"each server. If a server's log does not reach back so far, all that it stores comes first."),
	KV_ROW_FLAG("new", AT(fresh), "events: only what happens from now on; gaps are shown, and not filled."),
	KV_ROW_U32("drain-sec", AT(drain_sec), "TIME", "0", 0, 86400,
		   "drain: longest time until the server ends; 0: the server's --drain-sec.", .unit = KV_OPT_SECONDS),
	KV_ROW_U64("drain-mb", AT(drain_mb), "SIZE", "0", 0, 1 << 20,
		   "drain: MiB per second of values pushed to other servers; 0: the server's --drain-mb.",
		   .unit = KV_OPT_MIB),
	KV_ROW_FLAG("json", AT(json),
		    "stat, cluster, namespaces, tenants, leases, drain: print one JSON object. events: one for each."),
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
		 "  namespaces [--json]              the namespaces: values, memory, hits\n"
		 "  tenants [--json]                 what tenants have of their limits\n"
		 "  leases [--json]                  who holds how much of a server's memory\n"
		 "  clear                            forget all values of --namespace\n"
		 "  drain NODE [--json]              have a server push its values, and end\n"
		 "  events [--json] [--since ...]    what servers store and remove, live\n"
		 "  ping                             see whether every shard answers\n"
		 "  make-seal-key FILE               make a file of keys for --seal-key-file\n"
		 "  help [COMMAND]                   read more about a command\n"
		 "Without a command, kv-client reads commands from standard input; "
		 "on a terminal it has history and completion by Tab.",
	.epilogue = "Environment, where the option is not given: KVRAIL_SERVER (addresses, separated "
		    "by commas) and KVRAIL_PSK_FILE.\n\nCommands may be piped in, one a line, with their options. "
		    "A command that fails is named with its line, and those after it still run. "
		    "A word after -- is no option.\n\nExit status: 0 done or found, 1 not found, "
		    "2 usage, 3 failure, 4 a drain that did not push all values; of piped commands the highest. "
		    "Output that nobody reads any more, as with | head, is no failure.",
	.args_max = KV_OPT_STRINGS_MAX,
};

/* Cuts the list in place. */
static int servers_from(char *list, struct cli_options *o, struct kv_error *err)
{
	o->target.servers.count = 0;
	for (char *save = NULL, *item = strtok_r(list, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		if (o->target.servers.count == KV_OPT_STRINGS_MAX)
			return kv_fail(err, -KV_EINVAL, "KVRAIL_SERVER has more than %d servers", KV_OPT_STRINGS_MAX);
		o->target.servers.item[o->target.servers.count++] = item;
	}
	return o->target.servers.count
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
	if (!server || !*server || o->target.servers.item[0] != cli_options_table[0].def)
		return 0;
	if (snprintf(list, sizeof(list), "%s", server) >= (int)sizeof(list))
		return kv_fail(err, -KV_EINVAL, "KVRAIL_SERVER is longer than %zu bytes", sizeof(list) - 1);
	return servers_from(list, o, err);
}

/* Options that exclude each other. */
static int together_check(const struct cli_options *o, struct kv_error *err)
{
	if (o->watch_ns && o->json)
		return kv_fail(err, -KV_EINVAL, "--watch prints text for people: drop it, or drop --json");
	if (o->watch_ns && (o->all || o->shards))
		return kv_fail(err, -KV_EINVAL,
			       "--watch shows the counters of whole servers: drop it, or drop --all and --shards");
	if (o->once && (o->fresh || o->since.count))
		return kv_fail(
			err, -KV_EINVAL,
			"--once ends when all that is stored was printed, which --new and --since leave out: drop "
			"it, or drop these");
	if (o->target.local_socket && o->target.local == KVC_LOCAL_OFF)
		return kv_fail(err, -KV_EINVAL,
			       "--local-socket leads to memory that --local off does not map: drop one of them");
	return 0;
}

int cli_options_parse(int argc, char **argv, struct cli_options *out, struct kv_opt_strings *out_words,
		      struct kv_error *err)
{
	int rc = kv_opt_parse(&cli_options_program, cli_options_table, argc, argv, out, out_words, err);
	if (rc == 0)
		rc = environment_take(out, err);
	if (rc == 0)
		rc = together_check(out, err);
	if (rc == 0)
		rc = kv_opt_security_check(&out->security, err);
	if (rc == 0)
		rc = kv_opt_seal_check(&out->seal, err);
	if (rc == 0)
		rc = kv_opt_servers_check(out->target.servers.item, out->target.servers.count, err);
	return rc;
}

/* ---- a line of the prompt ---- */

static const struct kv_opt_program line_program = {
	.name = "kv-client",
	.usage_args = "COMMAND [ARGS...]",
	.about = "Options of commands, as on a line of the prompt. help lists the commands, and help COMMAND explains "
		 "one.",
	.args_max = KV_OPT_STRINGS_MAX,
};

static const struct kv_opt *command_rows(void)
{
	const struct kv_opt *row = cli_options_table;
	while (!row->group || strcmp(row->group, "Commands") != 0)
		row++;
	return row;
}

/* Refuses an option of the rows before those: it says where to, or how, and that was settled before the prompt. */
static int word_check(const char *word, struct kv_error *err)
{
	const char *name = word + 2;
	size_t len = strcspn(name, "=");
	for (const struct kv_opt *row = cli_options_table; row != command_rows(); row++)
		if ((strncmp(row->name, name, len) == 0 && !row->name[len]) ||
		    (row->alias && strncmp(row->alias, name, len) == 0 && !row->alias[len]))
			return kv_fail(err, -KV_EINVAL,
				       "--%s belongs to kv-client's own command line; a "
				       "command of the prompt cannot change it",
				       row->name);
	return 0;
}

int cli_options_line(int argc, char **argv, const struct cli_options *base, struct cli_line_options *out,
		     struct kv_opt_strings *out_words, struct kv_error *err)
{
	int rc = 0;
	for (int i = 1; i < argc && rc == 0 && strcmp(argv[i], "--") != 0; i++)
		if (strncmp(argv[i], "--", 2) == 0)
			rc = word_check(argv[i], err);
	if (rc == 0)
		rc = kv_opt_parse(&line_program, command_rows(), argc, argv, &out->own, out_words, err);
	if (rc != 0)
		return rc;
	out->all = *base;
	rc = kv_opt_parse_over(&line_program, command_rows(), argc, argv, &out->all, out_words, err);
	return rc < 0 ? rc : together_check(&out->all, err);
}
