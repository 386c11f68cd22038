/* SPDX-License-Identifier: Apache-2.0 */
/* proc_files.c -- small files of /proc and /sys. */
#include "host/proc_files.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Format the path; "" if it would be too long. */
#define PATH_OF(name, path)                                                                                            \
	char name[PATH_MAX];                                                                                           \
	do {                                                                                                           \
		va_list args;                                                                                          \
		va_start(args, path);                                                                                  \
		if (vsnprintf(name, sizeof(name), path, args) >= (int)sizeof(name))                                    \
			name[0] = '\0';                                                                                \
		va_end(args);                                                                                          \
	} while (0)

static bool line_read(const char *path, char *out, size_t cap)
{
	FILE *f = fopen(path, "re");
	out[0] = '\0';
	if (f && fgets(out, (int)cap, f))
		out[strcspn(out, "\n")] = '\0';
	if (f)
		fclose(f);
	return out[0] != '\0';
}

bool kv_file_line(char *out, size_t cap, const char *path, ...)
{
	PATH_OF(name, path);
	return line_read(name, out, cap);
}

long kv_file_number(long otherwise, const char *path, ...)
{
	char line[64], *end;
	PATH_OF(name, path);
	if (!line_read(name, line, sizeof(line)))
		return otherwise;
	long value = strtol(line, &end, 0);
	return end != line ? value : otherwise;
}

bool kv_file_field(char *out, size_t cap, const char *name, const char *path, ...)
{
	char line[512];
	size_t len = strlen(name);
	bool found = false;
	PATH_OF(file, path);
	FILE *f = fopen(file, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		if (strncmp(line, name, len) == 0) {
			line[strcspn(line, "\n")] = '\0';
			snprintf(out, cap, "%s", line + len + strspn(line + len, " \t"));
			found = true;
		}
	if (f)
		fclose(f);
	return found;
}

bool kv_file_here(const char *path, ...)
{
	PATH_OF(name, path);
	return access(name, F_OK) == 0;
}

void kv_link_last(char *out, size_t cap, const char *path, ...)
{
	char target[1024];
	PATH_OF(name, path);
	ssize_t n = readlink(name, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	const char *last = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
	snprintf(out, cap, "%.*s", (int)(cap - 1), last);
}

void kv_dir_each(void (*fn)(const char *entry, void *arg), void *arg, const char *path, ...)
{
	struct dirent **list;
	PATH_OF(name, path);
	int n = scandir(name, &list, NULL, versionsort);
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0)
			fn(list[i]->d_name, arg);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}
