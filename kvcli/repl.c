/* SPDX-License-Identifier: Apache-2.0 */
/* repl.c -- the prompt.
 *
 * At a terminal libedit edits lines and keeps their history, and history.c keeps them for the next time, except lines
 * with a value, which may be a secret. Lines from a pipe are read plainly, so that a script's input never meets an
 * editor. */
#include "kvcli/repl.h"

#include <editline/readline.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvcli/history.h"

/* Takes one word out of *at and unquotes it in place. NULL when a quote stays open. */
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
		rc = kv_fail(err, -KV_EINVAL, "-f and -o need a file name");
	return rc;
}

/* Runs one line. Returns the exit status, or -1 to leave. number: of a piped line, for messages; 0 at a terminal. */
static int run_line(struct cli *cli, char *text, unsigned number)
{
	struct kv_error err = {0};
	struct cli_line line;
	int status = CLI_USAGE;

	if (repl_split(text, &line, &err) == 0) {
		if (line.words.count == 0)
			return CLI_OK;
		if (strcmp(line.words.item[0], "exit") == 0 || strcmp(line.words.item[0], "quit") == 0)
			return -1;
		line.prompt = true;
		line.given = command_given(&line, NULL);
		status = command_check(&line, &err);
		if (status == CLI_OK)
			status = command_run(cli, &line, &err);
	}
	fflush(stdout);
	if (err.text[0] && status != CLI_OK && number)
		fprintf(stderr, "kv-client: line %u: %s\n", number, err.text);
	else if (err.text[0] && status != CLI_OK)
		fprintf(stderr, "%s\n", err.text);
	return status;
}

/* Reads the next line, or NULL at the end. *out_cut: the line has a byte 0, which would hide the rest of it. */
static char *next_line(bool terminal, const char *history, char **buf, size_t *cap, bool *out_cut)
{
	ssize_t n;

	*out_cut = false;
	if (terminal) {
		free(*buf);
		*buf = readline("kv> ");
		if (*buf && **buf) {
			add_history(*buf);
			if (history)
				history_keep(history, *buf);
		}
		return *buf;
	}
	n = getline(buf, cap, stdin);
	*out_cut = n > 0 && memchr(*buf, 0, (size_t)n);
	return n < 0 ? NULL : *buf;
}

/* Tab completes commands as the first word and after help, and files after -f and -o. Keys cannot be listed. */
static char *command_next(const char *text, int again)
{
	static unsigned at;
	const char *name;

	at = again ? at : 0;
	while ((name = command_name(at))) {
		at++;
		if (strncmp(name, text, strlen(text)) == 0)
			return strdup(name);
	}
	return NULL;
}

static bool follows(const char *line, int start, const char *word)
{
	size_t len = strlen(word);

	while (start > 0 && line[start - 1] == ' ')
		start--;
	return (size_t)start >= len && strncmp(line + start - len, word, len) == 0 &&
	       ((size_t)start == len || line[(size_t)start - len - 1] == ' ');
}

static char **complete(const char *text, int start, int end)
{
	bool first = strspn(rl_line_buffer, " ") >= (size_t)start;

	(void)end;
	rl_attempted_completion_over = !follows(rl_line_buffer, start, "-f") && !follows(rl_line_buffer, start, "-o");
	return first || follows(rl_line_buffer, start, "help") ? rl_completion_matches(text, command_next) : NULL;
}

static void remember(const char *line)
{
	add_history(line);
}

int repl_run(struct cli *cli)
{
	char path[4096];
	bool terminal = isatty(STDIN_FILENO), kept = terminal && history_path(path, sizeof(path));
	char *buf = NULL, *text;
	size_t cap = 0;
	int status = CLI_OK, one = 0;
	unsigned number = 0;
	bool cut;

	rl_attempted_completion_function = complete;
	if (kept)
		history_load(path, remember);
	while (one >= 0 && (text = next_line(terminal, kept ? path : NULL, &buf, &cap, &cut))) {
		number += !terminal;
		if (cut)
			fprintf(stderr,
				"kv-client: line %u: a command cannot hold a byte 0; put such a value from a file "
				"(-f)\n",
				number);
		one = cut ? CLI_USAGE : run_line(cli, text, number);
		if (one > 0)
			status = one;
	}
	if (terminal && one >= 0)
		putchar('\n');
	free(buf);
	return terminal ? CLI_OK : status;
}
