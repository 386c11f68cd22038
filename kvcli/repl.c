/* SPDX-License-Identifier: Apache-2.0 */
/* repl.c -- the prompt. At a terminal editor.c edits lines, and history.c keeps them, except lines with a value, which
 * may be a secret. Lines from a pipe are read without an editor. */
#include "kvcli/repl.h"

#include <stdlib.h>
#include <unistd.h>

#include "kvcli/editor.h"
#include "kvcli/history.h"

/* Take one word out of *at and unquote it in place. NULL when a quote stays open. */
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

int repl_split(char *text, char **word, struct kv_error *err)
{
	int n = 0;
	text[strcspn(text, "\r\n")] = 0;
	for (text += strspn(text, " \t"); *text; text += strspn(text, " \t")) {
		if (n == REPL_WORDS_MAX)
			return kv_fail(err, -KV_EINVAL, "a command has at most %d words", REPL_WORDS_MAX);
		word[n] = take_word(&text);
		if (!word[n++])
			return kv_fail(err, -KV_EINVAL, "a quote is not closed");
	}
	return n;
}

int repl_parse(char *text, const struct cli_options *base, struct repl_line *out, struct kv_error *err)
{
	char *argv[REPL_WORDS_MAX + 2] = {"kv-client"};
	int n = repl_split(text, argv + 1, err), rc;
	*out = (struct repl_line){.line.prompt = true};
	if (n <= 0)
		return n;
	rc = cli_options_line(n + 1, argv, base, &out->options, &out->line.words, err);
	out->line.given = rc == 0 ? command_given(&out->options.own) : 0;
	return rc;
}

static void error_print(const struct kv_error *err, unsigned number)
{
	if (number)
		fprintf(stderr, "kv-client: line %u: %s\n", number, err->text);
	else
		fprintf(stderr, "%s\n", err->text);
}

/* Returns the exit status, or -1 to leave. number: of a piped line, for messages; 0 at a terminal. */
static int run_line(const struct cli *cli, char *text, unsigned number)
{
	struct repl_line l;
	struct kv_error err = {0};
	struct cli with = *cli; /* with the options of this line */
	int rc = repl_parse(text, cli->opt, &l, &err), status = rc < 0 ? CLI_USAGE : CLI_OK;
	with.opt = &l.options.all;
	if (rc == 0 && l.line.words.count > 0) {
		if (strcmp(l.line.words.item[0], "exit") == 0 || strcmp(l.line.words.item[0], "quit") == 0)
			return -1;
		status = command_check(&l.line, &err);
		if (status == CLI_OK)
			status = command_run(&with, &l.line, &err);
	}
	fflush(stdout);
	if (err.text[0] && status != CLI_OK)
		error_print(&err, number);
	return status;
}

/* The origin of lines. */
struct repl_source {
	bool terminal, editor;
	const char *history; /* a path; NULL: no history */
	char *buf;
	size_t cap;
	bool cut; /* the line has a byte 0, which would hide the rest of it */
};

static char *next_line(struct repl_source *in)
{
	ssize_t n;
	if (in->editor) {
		free(in->buf);
		in->buf = editor_line("kv> ");
	} else {
		if (in->terminal)
			fputs("kv> ", stdout);
		fflush(stdout);
		n = getline(&in->buf, &in->cap, stdin);
		in->cut = n > 0 && memchr(in->buf, 0, (size_t)n);
		if (n < 0)
			return NULL;
	}
	if (in->editor && in->history && in->buf && *in->buf)
		history_keep(in->history, in->buf);
	return in->buf;
}

static int refuse_cut(unsigned number)
{
	struct kv_error err = {0};
	kv_fail(&err, -KV_EINVAL, "a command cannot hold a byte 0; put such a value from a file (-f)");
	error_print(&err, number);
	return CLI_USAGE;
}

int repl_run(const struct cli *cli)
{
	char path[4096], *text;
	struct repl_source in = {.terminal = isatty(STDIN_FILENO)};
	int status = CLI_OK, one = 0;
	unsigned number = 0;
	in.editor = in.terminal && editor_begin();
	if (in.editor && history_path(path, sizeof(path))) {
		in.history = path;
		history_load(path, editor_remember);
	}
	while (one >= 0 && (text = next_line(&in))) {
		number += !in.terminal;
		one = in.cut ? refuse_cut(number) : run_line(cli, text, number);
		status = KV_MAX(status, one);
	}
	if (in.terminal && one >= 0)
		putchar('\n');
	free(in.buf);
	return in.terminal ? CLI_OK : status;
}
