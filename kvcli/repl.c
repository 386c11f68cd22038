/* SPDX-License-Identifier: Apache-2.0 */
/* repl.c -- the prompt. libedit edits lines and keeps the history of a terminal; from a pipe lines are read plainly, so
 * that a script's input never meets an editor. The history stays in memory: values may be secrets. */
#include "kvcli/repl.h"

#include <editline/readline.h>
#include <stdlib.h>
#include <unistd.h>

/* Take one word out of *at, unquoted in place. NULL when a quote stays open. */
static char *take_word(char **at)
{
	char *from = *at, *to = from, *in = from, quote = 0;

	for (; *in && (quote || (*in != ' ' && *in != '\t')); in++) {
		if (*in == '\\' && in[1] && quote != '\'')
			*to++ = *++in;
		else if (quote && *in == quote)
			quote = 0;
		else if (!quote && (*in == '\'' || *in == '"'))
			quote = *in;
		else
			*to++ = *in;
	}
	*at = *in ? in + 1 : in;
	*to = 0;
	return quote ? NULL : from;
}

static int place_word(struct cli_line *out, const char *word, const char ***pending, struct kv_error *err)
{
	if (*pending) {
		**pending = word;
		*pending = NULL;
	} else if (strcmp(word, "-f") == 0) {
		*pending = &out->file;
	} else if (strcmp(word, "-o") == 0) {
		*pending = &out->output;
	} else if (out->words.count == KV_OPT_STRINGS_MAX) {
		return kv_fail(err, -KV_EINVAL, "a command has at most %d words", KV_OPT_STRINGS_MAX);
	} else {
		out->words.item[out->words.count++] = word;
	}
	return 0;
}

int repl_split(char *text, struct cli_line *out, struct kv_error *err)
{
	const char **pending = NULL;
	int rc = 0;

	*out = (struct cli_line){0};
	text[strcspn(text, "\r\n")] = 0;
	for (;;) {
		char *word;
		text += strspn(text, " \t");
		if (!*text || rc < 0)
			break;
		word = take_word(&text);
		rc = word ? place_word(out, word, &pending, err) : kv_fail(err, -KV_EINVAL, "a quote is not closed");
	}
	if (rc == 0 && pending)
		rc = kv_fail(err, -KV_EINVAL, "-f and -o need a file name after them");
	return rc;
}

/* One line: the exit status, or -1 to leave. */
static int run_line(struct cli *cli, char *text)
{
	struct kv_error err = {0};
	struct cli_line line;
	int status = CLI_USAGE;

	if (repl_split(text, &line, &err) == 0) {
		if (line.words.count == 0)
			return CLI_OK;
		if (strcmp(line.words.item[0], "exit") == 0 || strcmp(line.words.item[0], "quit") == 0)
			return -1;
		status = command_check(&line, &err);
		if (status == CLI_OK)
			status = command_run(cli, &line, &err);
	}
	fflush(stdout);
	if (status == CLI_NOT_FOUND && strcmp(line.words.item[0], "exists"))
		fprintf(stderr, "not found\n");
	else if (status == CLI_USAGE || status == CLI_FAILED)
		fprintf(stderr, "%s\n", err.text);
	return status;
}

static char *next_line(bool terminal, char **buf, size_t *cap)
{
	if (terminal) {
		free(*buf);
		*buf = readline("kv> ");
		if (*buf && **buf)
			add_history(*buf);
		return *buf;
	}
	return getline(buf, cap, stdin) < 0 ? NULL : *buf;
}

int repl_run(struct cli *cli)
{
	bool terminal = isatty(STDIN_FILENO);
	char *buf = NULL, *text;
	size_t cap = 0;
	int status = CLI_OK, one = 0;

	while (one >= 0 && (text = next_line(terminal, &buf, &cap))) {
		one = run_line(cli, text);
		if (one > 0)
			status = one;
	}
	if (terminal && one >= 0)
		putchar('\n');
	free(buf);
	return terminal ? CLI_OK : status;
}
