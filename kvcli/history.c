/* SPDX-License-Identifier: Apache-2.0 */
/* history.c -- the file of the prompt's lines. A line is appended when it is entered, so two prompts at a time both
 * keep theirs; libedit would write the whole file at the end.
 *
 * Values may be secrets. The file keeps only lines certain to have none: those that begin with the plain name of a
 * command, and hold no value of a put. */
#include "kvcli/history.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvcli/command.h"

bool history_path(char *buf, size_t cap)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n = -1;
	if (state && state[0] == '/')
		n = snprintf(buf, cap, "%s/kvrail/kv-client.history", state);
	else if (home && home[0] == '/')
		n = snprintf(buf, cap, "%s/.local/state/kvrail/kv-client.history", home);
	return n > 0 && (size_t)n < cap;
}

static bool command_is(const char *word, size_t len)
{
	const char *name;
	for (unsigned i = 0; (name = command_name(i)); i++)
		if (strlen(name) == len && memcmp(name, word, len) == 0)
			return true;
	return false;
}

static size_t word_take(const char **at, const char **out_word)
{
	*out_word = *at + strspn(*at, " \t");
	*at = *out_word + strcspn(*out_word, " \t");
	return (size_t)(*at - *out_word);
}

/* Whether `put` is followed by a key, then - or -f FILE, and nothing else. Quotes hide the end of a word, so lines with
 * quotes are not kept. */
static bool value_is_elsewhere(const char *rest)
{
	const char *key, *how, *file, *more;
	size_t key_len = word_take(&rest, &key), how_len = word_take(&rest, &how), file_len = word_take(&rest, &file);
	if (key_len == 0 || word_take(&rest, &more) > 0 || strpbrk(key, "'\"\\"))
		return false;
	return file_len == 0 ? how_len == 1 && how[0] == '-' : how_len == 2 && memcmp(how, "-f", 2) == 0;
}

bool history_wanted(const char *line)
{
	const char *word;
	size_t len = word_take(&line, &word);
	return command_is(word, len) && (len != 3 || memcmp(word, "put", 3) != 0 || value_is_elsewhere(line));
}

static void folders_make(const char *path)
{
	char folder[PATH_MAX];
	snprintf(folder, sizeof(folder), "%s", path);
	for (char *at = strchr(folder + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(folder, 0700);
		*at = '/';
	}
}

/* Replace the file by one of the last HISTORY_LINES lines, whole or not at all. line: a ring whose oldest is `next`. */
static void cut(const char *path, char *const *line, unsigned next)
{
	struct kv_error err;
	struct out_file f;
	uint64_t len = 0;
	int n = 0;
	if (out_file_open(&f, path, "the history", &err) < 0)
		return;
	for (unsigned i = 0; i < HISTORY_LINES && n >= 0; i++) {
		n = dprintf(f.fd, "%s\n", line[(next + i) % HISTORY_LINES]);
		len += (uint64_t)KV_MAX(n, 0);
	}
	if (n >= 0)
		(void)out_file_written(&f, len, &err);
	else
		out_file_discard(&f);
}

void history_load(const char *path, void (*add)(const char *line))
{
	FILE *f = fopen(path, "re");
	char **line = f ? calloc(HISTORY_LINES, sizeof(*line)) : NULL, *text = NULL;
	unsigned n = 0, kept;
	size_t cap = 0;
	while (line && getline(&text, &cap, f) > 0) {
		char *copy;
		text[strcspn(text, "\n")] = 0;
		copy = strdup(text);
		if (!copy)
			break;
		free(line[n % HISTORY_LINES]);
		line[n++ % HISTORY_LINES] = copy;
	}
	kept = n < HISTORY_LINES ? n : HISTORY_LINES;
	for (unsigned i = n - kept; i < n; i++)
		add(line[i % HISTORY_LINES]);
	if (n >= 2 * HISTORY_LINES)
		cut(path, line, n);
	for (unsigned i = 0; i < kept; i++)
		free(line[i]);
	free(line);
	free(text);
	if (f)
		fclose(f);
}

void history_keep(const char *path, const char *line)
{
	FILE *f;
	int fd;
	if (!history_wanted(line))
		return;
	folders_make(path);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	f = fd >= 0 ? fdopen(fd, "a") : NULL;
	if (f) {
		fprintf(f, "%s\n", line);
		fclose(f);
	} else if (fd >= 0) {
		close(fd);
	}
}
