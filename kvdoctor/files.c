/* SPDX-License-Identifier: Apache-2.0 */
/* files.c -- the small files of /proc and /sys, below a root. A missing file reads as an empty one. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvdoctor/doctor.h"

enum { PATH_CAP = 1024 };

bool file_line(const char *root, const char *name, char *out, size_t cap)
{
	char path[PATH_CAP];
	FILE *f = snprintf(path, sizeof(path), "%s%s", root, name) < (int)sizeof(path) ? fopen(path, "re") : NULL;
	out[0] = '\0';
	if (f && fgets(out, (int)cap, f))
		out[strcspn(out, "\n")] = '\0';
	if (f)
		fclose(f);
	return out[0] != '\0';
}

long file_number(const char *root, const char *name, long otherwise)
{
	char line[64], *end;
	if (!file_line(root, name, line, sizeof(line)))
		return otherwise;
	long value = strtol(line, &end, 0);
	return end != line ? value : otherwise;
}

void link_last(const char *root, const char *name, char *out, size_t cap)
{
	char path[PATH_CAP], target[PATH_CAP];
	ssize_t n = -1;
	out[0] = '\0';
	if (snprintf(path, sizeof(path), "%s%s", root, name) < (int)sizeof(path))
		n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	const char *last = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
	size_t len = strnlen(last, cap - 1);
	memcpy(out, last, len);
	out[len] = '\0';
}

void dir_each(const char *root, const char *name, void (*fn)(const char *entry, void *arg), void *arg)
{
	char path[PATH_CAP];
	struct dirent **list;
	int n = snprintf(path, sizeof(path), "%s%s", root, name) < (int)sizeof(path)
			? scandir(path, &list, NULL, versionsort)
			: -1;
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0)
			fn(list[i]->d_name, arg);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}
