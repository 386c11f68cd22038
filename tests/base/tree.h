/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h -- files of another machine's /proc and /sys, in a directory of their own, for one test. */
#ifndef KVRAIL_TESTS_BASE_TREE_H
#define KVRAIL_TESTS_BASE_TREE_H

#include "check.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/machine.h"

static char tree_root[PATH_MAX];

static int tree_make(void **state)
{
	(void)state;
	const char *tmp = getenv("TMPDIR");
	snprintf(tree_root, sizeof(tree_root), "%.200s/kvrail-machine-XXXXXX", tmp ? tmp : P_tmpdir);
	return mkdtemp(tree_root) ? 0 : -1;
}

static int tree_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static int tree_remove(void **state)
{
	(void)state;
	return nftw(tree_root, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* tree_put -- write a file below the root, with the directories it needs. */
static void tree_put(const char *name, const char *text)
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s%s", tree_root, name);
	assert_in_range(len, 1, PATH_MAX - 1);
	for (char *p = path + strlen(tree_root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
		*p = '/';
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

#endif
