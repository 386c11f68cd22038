/* SPDX-License-Identifier: Apache-2.0 */
/* command.h -- the commands of kv-client, one table for the command line and the prompt. */
#ifndef KVRAIL_KVCLI_COMMAND_H
#define KVRAIL_KVCLI_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

#include "kvcli/options.h"
#include "kvclient/kvclient.h"

struct cli {
	const struct cli_options *opt;
	struct kvc_pool *pool;
	bool interactive; /* commands come from a prompt or a pipe: values end with a newline */
};

/* One command line. */
struct cli_line {
	struct kv_opt_strings words; /* command, then arguments */
	unsigned given;
	bool prompt;
};

/* command_given -- the options in this line that only certain commands take. o: the line's own options, without those
 * of kv-client's command line, which apply to every command of the prompt that takes them. */
unsigned command_given(const struct cli_options *o);

/* command_check -- whether this is a command with the right arguments. Needs no connection. CLI_OK, or CLI_USAGE with
 * *err. */
int command_check(const struct cli_line *line, struct kv_error *err);

/* command_run -- run a line that command_check has passed. Prints results to stdout. Returns the exit status, on
 * CLI_FAILED with *err. */
int command_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

/* command_offline -- whether the command needs no server. */
bool command_offline(const struct cli_line *line);

/* command_help -- one line of help per command. */
void command_help(FILE *out);

/* command_name -- the name of command i, for completion; NULL behind the last. */
const char *command_name(unsigned i);

#endif
