/* SPDX-License-Identifier: Apache-2.0 */
/* repl.h -- commands from a prompt with history, or line by line from a pipe. */
#ifndef KVRAIL_KVCLI_REPL_H
#define KVRAIL_KVCLI_REPL_H

#include "kvcli/command.h"

/* repl_split -- cut a line into words, in place; the words point into text. Blanks separate words, and '...' and "..."
 * keep blanks; a backslash takes the next character as it is (not inside '...'). The words after -f and -o go to
 * out->file and out->output. Returns 0 (count 0: an empty line), or -KV_EINVAL with *err: an open quote, too many
 * words, -f or -o without a name. */
int repl_split(char *text, struct cli_line *out, struct kv_error *err);

/* repl_run -- run lines until "exit", "quit" or the end of input. Returns CLI_OK at a terminal; of piped commands the
 * status of the last one that did not succeed, else CLI_OK. */
int repl_run(struct cli *cli);

#endif
