/* SPDX-License-Identifier: Apache-2.0 */
/* opt_file.c -- see opt_file.h. The file is read whole and cut in place. A failure may have set some options: the
 * caller uses a separate struct. */
#include "base/opt_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/nearest.h"
#include "base/opt_table.h"
#include "base/printable.h"

enum { FILE_MAX = 1 << 20, NAME_CAP = 64, ROWS_MAX = 256 };

static char *trimmed(char *text)
{
	char *end;
	text += strspn(text, " \t\r");
	end = text + strlen(text);
	while (end > text && strchr(" \t\r", end[-1]))
		*--end = '\0';
	return text;
}

static int name_check(const struct kv_opt *table, const struct kv_opt_refused *refused, const char *name,
		      struct kv_error *err)
{
	struct kv_nearest n = kv_nearest_begin(name, strlen(name));
	char shown[NAME_CAP + 36], hint[KV_NEAREST_TEXT];
	for (; refused && refused->name; refused++)
		if (strcmp(refused->name, name) == 0)
			return kv_fail(err, -KV_EINVAL, "%s: %s", name, refused->why);
	if (kv_opt_row_find(table, name))
		return 0;
	for (const struct kv_opt *row = table; row->name; row++)
		kv_nearest_try(&n, row->name);
	kv_printable(name, false, shown, sizeof(shown));
	return kv_fail(err, -KV_EINVAL, "there is no option '%s'%s", shown, kv_nearest_hint(&n, "", hint));
}

static int line_take(const struct kv_opt *table, const struct kv_opt_refused *refused, char *line, bool seen[ROWS_MAX],
		     void *into, struct kv_error *err)
{
	char *value = strchr(line, '='), *name;
	const struct kv_opt *row;
	int rc;
	if (value)
		*value++ = '\0';
	name = trimmed(line);
	rc = name_check(table, refused, name, err);
	if (rc)
		return rc;
	row = kv_opt_row_find(table, name);
	if (!value && row->type != KV_OPT_FLAG)
		return kv_fail(err, -KV_EINVAL, "%s needs a value: %s = %s", name, name,
			       row->metavar ? row->metavar : "VALUE");
	if (row - table < ROWS_MAX && row->type != KV_OPT_STRINGS && seen[row - table])
		return kv_fail(err, -KV_EINVAL, "%s is repeated here", name);
	if (row - table < ROWS_MAX)
		seen[row - table] = true;
	return kv_opt_row_set(row, value ? trimmed(value) : NULL, into, err);
}

static int text_read(const char *path, char **out, struct kv_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc = 0; /* does not wait for a FIFO */
	size_t len = 0;
	ssize_t n = 1;
	struct stat st;
	char *text;
	if (fd < 0)
		return kv_fail(err, -errno, "%.200s cannot be read: %s", path, kv_strerror(-errno));
	text = malloc(FILE_MAX + 1);
	if (!text)
		rc = kv_fail(err, -KV_ENOMEM, "no memory to read %.200s", path);
	else if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) /* a terminal or pipe may never end */
		rc = kv_fail(err, -KV_EINVAL, "%.200s is no file", path);
	while (rc == 0 && n > 0 && len < FILE_MAX) {
		n = read(fd, text + len, FILE_MAX - len);
		if (n < 0 && errno != EINTR)
			rc = kv_fail(err, -errno, "%.200s cannot be read: %s", path, kv_strerror(-errno));
		len += (size_t)KV_MAX(n, (ssize_t)0);
		n = n < 0 ? 1 : n;
	}
	close(fd);
	if (rc == 0 && len == FILE_MAX)
		rc = kv_fail(err, -KV_EINVAL, "%.200s is longer than 1 MiB, too long for options", path);
	if (rc == 0 && memchr(text, '\0', len))
		rc = kv_fail(err, -KV_EINVAL, "%.200s is no text", path);
	if (rc) {
		free(text);
		return rc;
	}
	text[len] = '\0';
	*out = text; /* untouched pages take no memory */
	return 0;
}

int kv_opt_file_read(const struct kv_opt *table, const struct kv_opt_refused *refused, const char *path, void *into,
		     char **out_text, struct kv_error *err)
{
	bool seen[ROWS_MAX] = {false};
	char *text = NULL, *next;
	unsigned number = 0;
	int rc = text_read(path, &text, err);
	if (rc)
		return rc;
	for (char *line = text; rc == 0 && line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		line = trimmed(line);
		if (!*line || *line == '#')
			continue;
		rc = line_take(table, refused, line, seen, into, err);
		if (rc)
			kv_fail_more(err, "%.200s, line %u", path, number);
	}
	if (rc)
		free(text);
	else
		*out_text = text;
	return rc;
}
