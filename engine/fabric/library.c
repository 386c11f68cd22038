/* SPDX-License-Identifier: Apache-2.0 */
/* library.c -- the libfabric files of this process, and the known providers.
 *
 * In a process with two libfabrics NCCL silently falls back to TCP. So the files are listed by path, with links
 * followed: the version is in the final name. Any thread may ask. fi_tostr has one buffer for the whole process and is
 * not used. */
#include "engine/fabric/private.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/budget.h"

void fab_version(char *out)
{
	char text[64] = "";
	uint32_t v = fi_version();
	if (fi_tostr_r(text, sizeof(text), NULL, FI_TYPE_VERSION) && text[0])
		snprintf(out, KV_NAME_MAX, "%.*s", KV_NAME_MAX - 1, text);
	else
		snprintf(out, KV_NAME_MAX, "%u.%u", FI_MAJOR(v), FI_MINOR(v));
}

static void path_of(const char *name, char *out)
{
	char real[PATH_MAX];
	if (!name)
		name = "";
	snprintf(out, TE_PATH_MAX, "%.255s", realpath(name, real) ? real : name);
}

static void path_of_function(void *function, char *out)
{
	Dl_info info, mine;
	out[0] = '\0';
	if (!dladdr(function, &info) || !dladdr((void *)(uintptr_t)te_library, &mine) ||
	    info.dli_fbase == mine.dli_fbase)
		return;
	path_of(info.dli_fname, out);
}

static int note_copy(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct te_library *lib = arg;
	const char *base = strrchr(info->dlpi_name, '/');
	char path[TE_PATH_MAX];
	(void)size;
	/* Python packages bring theirs as libfabric-HASH.so. */
	if (!base || (strncmp(base, "/libfabric.so", 13) != 0 &&
		      (strncmp(base, "/libfabric-", 11) != 0 || !strstr(base, ".so"))))
		return 0;
	path_of(info->dlpi_name, path);
	bool known = strcmp(path, lib->path) == 0;
	for (unsigned i = 0; i < lib->num_copies; i++)
		known |= strcmp(path, lib->copies[i]) == 0;
	if (!known && lib->num_copies < TE_LIBRARY_COPIES)
		memcpy(lib->copies[lib->num_copies++], path, sizeof(path));
	return 0;
}

void te_library(struct te_library *out)
{
	uint32_t v = fi_version();
	memset(out, 0, sizeof(*out));
	fab_version(out->version);
	out->major = FI_MAJOR(v);
	out->minor = FI_MINOR(v);
	out->built_major = FI_MAJOR_VERSION;
	out->built_minor = FI_MINOR_VERSION;
	path_of_function((void *)(uintptr_t)fi_version, out->path);
	path_of_function(fab_verbs_function(), out->verbs_path);
	dl_iterate_phdr(note_copy, out);
}

bool fab_provider_at(unsigned i, struct te_provider *out)
{
	const struct fab_quirk *q = fab_quirk_at(i);
	if (!q)
		return false;
	*out = (struct te_provider){.automatic = q->automatic};
	snprintf(out->name, sizeof(out->name), "%s", q->short_name);
	snprintf(out->libfabric, sizeof(out->libfabric), "%s", q->prov_name);
	return true;
}
