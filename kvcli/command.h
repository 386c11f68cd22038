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
	const char *file, *output;   /* of -f and -o, or NULL */
	unsigned given;              /* options that belong to a command: command_given */
	bool prompt;                 /* it came from the prompt or a pipe */
};

/* command_given -- which options that belong to certain commands this line has; o: those of kv-client's own command
 * line, or NULL for a line of the prompt, where they are for whichever command they suit. */
unsigned command_given(const struct cli_line *line, const struct cli_options *o);

/* command_check -- is this a command with the right arguments? CLI_OK or CLI_USAGE with *err; before anything is
 * connected. */
int command_check(const struct cli_line *line, struct kv_error *err);

/* command_run -- run it; it was checked. Prints results to stdout. Returns the exit status, with *err set on
 * CLI_FAILED. */
int command_run(struct cli *cli, const struct cli_line *line, struct kv_error *err);

/* command_offline -- whether it needs no server: help. */
bool command_offline(const struct cli_line *line);

/* command_help -- one line of help per command. */
void command_help(FILE *out);

/* command_name -- the name of command i, for completion; NULL behind the last. */
const char *command_name(unsigned i);

/* command_interrupted -- whether SIGINT came since command_interrupt_catch(), and on the command line SIGTERM: for
 * commands that go on until then. Afterwards command_interrupt_release(): the next signal has its effect of before.
 * (SIGTERM at the prompt is not caught: it ends the program.) */
void command_interrupt_catch(const struct cli *cli);
bool command_interrupted(void);
void command_interrupt_release(void);

#endif
