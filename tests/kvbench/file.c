/* SPDX-License-Identifier: Apache-2.0 */
/* file.c -- files of one test. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/kvbench/check.h"

FILE *check_file_open(struct check_file *file)
{
	const char *dir = getenv("TMPDIR");
	FILE *out;
	int fd;
	snprintf(file->path, sizeof(file->path), "%s/kvrail-test.XXXXXX", dir ? dir : "/tmp");
	fd = mkstemp(file->path);
	assert_true(fd >= 0);
	out = fdopen(fd, "w");
	assert_non_null(out);
	return out;
}

struct check_file check_file_make(const char *text)
{
	struct check_file file;
	FILE *out = check_file_open(&file);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
	return file;
}

void check_file_remove(const struct check_file *file)
{
	unlink(file->path);
}
