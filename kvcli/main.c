/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- kv-client: one command, or a prompt. Usage errors are reported before it connects. */
#include <signal.h>

#include "base/early.h"
#include "kvcli/command.h"
#include "kvcli/look.h"
#include "kvcli/repl.h"

enum { BUFFER_BYTES = 32 << 20 }; /* small, but room for two of the largest range (16 MiB) */

static int open_pool(struct cli *cli, struct kv_error *err)
{
	const struct cli_options *o = cli->opt;
	struct kvc_options ko = {.size = sizeof(ko),
				 .flags = KVC_OPEN_WAIT | (o->seal.names ? KVC_SEAL_NAMES : 0),
				 .num_clients = 1,
				 .num_threads = 1,
				 .buffer_bytes = BUFFER_BYTES,
				 .servers = o->target.servers.item,
				 .num_servers = o->target.servers.count,
				 .servers_max = LOOK_MAX,
				 .base_client_id = KV_CLUSTER_CLIENT,
				 KV_OPT_TARGET_OF(o->target),
				 .timeout_ns = o->timeout_ns,
				 .peer_timeout_ns = o->peer_timeout_ns,
				 .connect_timeout_ns = o->timeout_ns,
				 KV_OPT_SECURITY_OF(o->security),
				 .seal_key_file = o->seal.key_file,
				 .slow_ns = o->slow_ms * 1000000ull,
				 .log_level = o->slow_ms ? KV_MAX(o->log_level, (int)KV_LOG_WARN) : o->log_level};
	return kvc_pool_open(&ko, &cli->pool, err);
}

static int run(struct cli *cli, const struct cli_line *line, struct kv_error *err)
{
	int status = CLI_FAILED;
	if (!cli->interactive && command_offline(line))
		status = command_run(cli, line, err);
	else if (open_pool(cli, err) == 0)
		status = cli->interactive ? repl_run(cli) : command_run(cli, line, err);
	kvc_pool_close(&cli->pool);
	if (!kv_written(stdout) && status == CLI_OK) {
		kv_fail(err, -KV_EINTERNAL, "standard output cannot be written");
		status = CLI_FAILED;
	}
	return status;
}

int main(int argc, char **argv)
{
	struct cli_options options;
	struct cli cli = {.opt = &options};
	struct cli_line line = {0};
	struct kv_error err = {0};
	int rc, status = CLI_USAGE;
	char help[] = "help";
	if (argc == 3 && argv[1][0] != '-' && strcmp(argv[2], "--help") == 0) {
		argv[2] = argv[1];
		argv[1] = help;
	}
	kv_early_end(false);
	signal(SIGPIPE, SIG_IGN); /* kv_written reports it */
	kv_stdio_keep();
	rc = cli_options_parse(argc, argv, &options, &line.words, &err);
	if (rc > 0)
		return CLI_OK;
	line.given = rc == 0 ? command_given(&options) : 0;
	cli.interactive = line.words.count == 0;
	if (rc == 0 && cli.interactive && (options.file || options.output))
		kv_fail(&err, -KV_EINVAL, "-f belongs to put, and -o to get; neither is a command");
	else if (rc == 0)
		status = cli.interactive ? CLI_OK : command_check(&line, &err);
	if (status == CLI_OK) {
		kvc_program_setup();
		status = run(&cli, &line, &err);
	}
	if (err.text[0] && status != CLI_OK)
		fprintf(stderr, "kv-client: %s%s\n", err.text, status == CLI_USAGE ? " (try --help)" : "");
	return status;
}
