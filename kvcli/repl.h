/* SPDX-License-Identifier: Apache-2.0 */
/* repl.h -- commands from a prompt with history, or line by line from a pipe. */
#ifndef KVRAIL_KVCLI_REPL_H
#define KVRAIL_KVCLI_REPL_H

#include "kvcli/command.h"

enum { REPL_WORDS_MAX = 2 * KV_OPT_STRINGS_MAX };

/* repl_split -- split a line into words, in place; the words point into text. Blanks separate words; '...' and "..."
 * keep blanks; a backslash quotes the next character (not inside '...'). word has REPL_WORDS_MAX entries. Returns their
 * number (0: an empty line), or -KV_EINVAL with *err: an open quote as well many words. */
int repl_split(char *text, char **word, struct kv_error *err);

/* A parsed line. */
struct repl_line {
	struct cli_line line;
	struct cli_line_options options;
};

/* repl_parse -- a line with its command and options, as on the command line of kv-client, whose options are in `base`.
 * It is split in place, and *out points into it. Returns 0, with line.words.count 0 for an empty line; 1: --help was
 * printed; -KV_EINVAL with *err. */
int repl_parse(char *text, const struct cli_options *base, struct repl_line *out, struct kv_error *err);

/* repl_run -- run lines until "exit", "quit" or the end of input. Returns CLI_OK at a terminal; of piped commands the
 * highest status. */
int repl_run(const struct cli *cli);

#endif
