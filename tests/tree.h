/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h -- a made-up root directory with /proc and /sys in it, for tests of what reads them. Inline: tests of several
 * folders use it. */
#ifndef KVRAIL_TESTS_TREE_H
#define KVRAIL_TESTS_TREE_H

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char tree_root[PATH_MAX];

static inline int tree_make(void **state)
{
	(void)state;
	const char *tmp = getenv("TMPDIR");
	snprintf(tree_root, sizeof(tree_root), "%.200s/kvrail-tree-XXXXXX", tmp ? tmp : P_tmpdir);
	return mkdtemp(tree_root) ? 0 : -1;
}

static inline int tree_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static inline int tree_remove(void **state)
{
	(void)state;
	return nftw(tree_root, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The name below the root, with the directories above it made. */
static inline const char *tree_path(const char *name)
{
	static char path[PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s%s", tree_root, name);
	assert_in_range(len, 1, PATH_MAX - 1);
	for (char *p = path + strlen(tree_root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
		*p = '/';
	}
	return path;
}

static inline void tree_put(const char *name, const char *text)
{
	FILE *f = fopen(tree_path(name), "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static inline void tree_link(const char *name, const char *target)
{
	assert_int_equal(symlink(target, tree_path(name)), 0);
}

#endif
