/* SPDX-License-Identifier: Apache-2.0 */
/* kallsyms.c -- preloaded into the programs that tests start: /proc/kallsyms cannot be opened.
 *
 * The verbs provider of libfabric reads that whole file twice in each process, to see whether kernel modules for GPU
 * memory are loaded. That takes 0.1 s of processor time, and `make check` starts many hundred processes. Without the
 * file libfabric takes the modules for absent, as they are where these tests run. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static FILE *real(const char *name, const char *path, const char *mode)
{
	FILE *(*open)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, name);
	if (strcmp(path, "/proc/kallsyms") != 0)
		return open(path, mode);
	errno = ENOENT;
	return NULL;
}

__attribute__((visibility("default"))) FILE *fopen(const char *path, const char *mode)
{
	return real("fopen", path, mode);
}

__attribute__((visibility("default"))) FILE *fopen64(const char *path, const char *mode)
{
	return real("fopen64", path, mode);
}
