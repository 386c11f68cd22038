/* SPDX-License-Identifier: Apache-2.0 */
/* maps.c -- check that memory to be registered is mapped, readable and writable: tcp and shm would notice a mistake in
 * the middle of a transfer.
 *
 * A touch behind the end of a mapped file is SIGBUS. So the last page of each file is tried with MADV_POPULATE_READ,
 * which returns an error; kernels before 5.14 and device memory lack it, and pass. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "host/machine.h"
#include "host/memory.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { LINE_CAP = PATH_MAX + 128, NAME_CAP = 96 };

struct map {
	uint64_t from, to;
	char rights[8];
	char name[NAME_CAP]; /* of the file; "": anonymous */
};

/* "7f00-7f10 rw-p 00000000 08:01 42   /path\n" */
static bool line_parse(const char *line, struct map *out)
{
	unsigned long long from, to;
	int name = 0;
	if (sscanf(line, "%llx-%llx %7s %*s %*s %*s %n", &from, &to, out->rights, &name) < 3)
		return false;
	out->from = from;
	out->to = to;
	snprintf(out->name, sizeof(out->name), "%.*s", NAME_CAP - 1, name ? line + name : "");
	out->name[strcspn(out->name, "\n")] = '\0';
	return true;
}

static int hole_fail(uint64_t base, uint64_t len, uint64_t at, struct kv_error *err)
{
	return kv_fail(err, -KV_EINVAL,
		       "[0x%llx, +%llu) is not fully mapped: nothing is mapped at 0x%llx, %llu "
		       "bytes after its start; map all of it first, or register less",
		       (unsigned long long)base, (unsigned long long)len, (unsigned long long)at,
		       (unsigned long long)(at - base));
}

static int rights_fail(uint64_t base, uint64_t len, uint64_t at, const struct map *m, struct kv_error *err)
{
	return kv_fail(
		err, -KV_EINVAL,
		"[0x%llx, +%llu) is not writable at 0x%llx (mapped %s%s%s): memory is registered for GET and PUT, "
		"so it must be readable and writable",
		(unsigned long long)base, (unsigned long long)len, (unsigned long long)at, m->rights,
		m->name[0] ? ", " : "", m->name);
}

static bool beyond_file(const struct map *m, uint64_t end)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t at = (end - 1) / page * page;
	return m->name[0] == '/' && madvise((void *)(uintptr_t)at, page, MADV_POPULATE_READ) != 0 && errno == EFAULT;
}

static int beyond_fail(uint64_t base, uint64_t len, const struct map *m, struct kv_error *err)
{
	return kv_fail(err, -KV_EINVAL,
		       "[0x%llx, +%llu) reaches beyond the end of its file, or the file has no page there (%s at "
		       "0x%llx): make the file as long as its mapping (ftruncate) before it is registered",
		       (unsigned long long)base, (unsigned long long)len, m->name, (unsigned long long)m->from);
}

int kv_maps_check(const char *root, const void *base, uint64_t len_bytes, struct kv_error *err)
{
	char path[PATH_MAX], line[LINE_CAP];
	uint64_t from = (uint64_t)(uintptr_t)base, at = from, to = from + len_bytes;
	struct map m;
	int rc = 0;
	snprintf(path, sizeof(path), "%s/proc/self/maps", root);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	while (rc == 0 && at < to && fgets(line, sizeof(line), f)) {
		if (!line_parse(line, &m) || m.to <= at)
			continue;
		if (m.from > at)
			break;
		if (m.rights[0] != 'r' || m.rights[1] != 'w')
			rc = rights_fail(from, len_bytes, at, &m, err);
		else if (beyond_file(&m, KV_MIN(to, m.to)))
			rc = beyond_fail(from, len_bytes, &m, err);
		at = m.to;
	}
	fclose(f);
	return rc == 0 && at < to ? hole_fail(from, len_bytes, at, err) : rc;
}

int kv_memory_mapped(const void *base, uint64_t len_bytes, struct kv_error *err)
{
	return kv_maps_check("", base, len_bytes, err);
}
