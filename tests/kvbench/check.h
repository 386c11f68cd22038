/* SPDX-License-Identifier: Apache-2.0 */
/* check.h -- files for one test. */
#ifndef KVRAIL_TESTS_KVBENCH_CHECK_H
#define KVRAIL_TESTS_KVBENCH_CHECK_H

#include "tests/check.h"

/* A file of a test: its name (in TMPDIR or /tmp), with this text in it. Remove it with check_file_remove. */
struct check_file {
	char path[256];
};

struct check_file check_file_make(const char *text);
FILE *check_file_open(struct check_file *file); /* an empty one, for the caller to write and close */
void check_file_remove(const struct check_file *file);

#endif
