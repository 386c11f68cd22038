/* SPDX-License-Identifier: Apache-2.0 */
/* repl.h -- commands from a prompt with history, or line by line from a pipe. */
#ifndef KVRAIL_KVCLI_REPL_H
#define KVRAIL_KVCLI_REPL_H

#include "kvcli/command.h"

/* repl_split -- cut a line into words, in place. Blanks separate; '...' and "..." keep them; a backslash takes the next
 * character as it is (not inside '...'). -f and -o with the word after them go to out->file and out->output. Words
 * point into text. Returns 0 (count 0: nothing there), or -KV_EINVAL with *err: an open quote, too many words, -f or -o
 * without a name. */
int repl_split(char *text, struct cli_line *out, struct kv_error *err);

/* repl_run -- until "exit", "quit" or the end of input. Returns the exit status: of the last command that did not
 * succeed, else CLI_OK. */
int repl_run(struct cli *cli);

#endif
