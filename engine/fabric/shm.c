/* SPDX-License-Identifier: Apache-2.0 */
/* shm.c -- the names of shm endpoints in /dev/shm. A killed process leaves its files, and a later process with the same
 * number would fail with EBUSY. So each name is unique: kvrail-<pid namespace>-<pid>-<64 random bits>. Before a rail
 * opens, files of our own pid namespace whose process has ended are removed. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/fabric/private.h"

/* The provider takes this name as it is: to "fi_shm://" it would add its own numbers. */
#define SCHEME "fi_ns://"

enum { NAME_ROOM = 96 };

/* smr_getinfo (1.17 to 2.6) shows no shm unless this much of /dev/shm is free: a region for each processor. Four
 * processors need 64 MiB, docker's default size. */
uint64_t fab_shm_look(void)
{
	enum { REGION = 16 << 20 };
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	return (uint64_t)KV_MAX(processors, 1l) * REGION;
}

static uint64_t pid_namespace(void)
{
	struct stat st;
	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

int fab_shm_name(struct fab *fab)
{
	char name[NAME_ROOM];
	uint64_t unique = 0;
	if (!fab->quirk->dev_shm)
		return 0;
	/* Without entropy the provider's own name is as good. */
	if (kv_entropy_fill(&kv_entropy_kernel, &unique, sizeof(unique)))
		return 0;
	snprintf(name, sizeof(name), SCHEME "kvrail-%" PRIu64 "-%ld-%016" PRIx64, pid_namespace(), (long)getpid(),
		 unique);
	return fi_setname(&fab->ends.ep->fid, name, strlen(name) + 1);
}

static bool is_gone(const char *name, uint64_t ns)
{
	uint64_t of_ns, unique;
	long pid;
	int end = 0;
	if (sscanf(name, "kvrail-%" SCNu64 "-%ld-%16" SCNx64 "%n", &of_ns, &pid, &unique, &end) != 3 || name[end])
		return false;
	return of_ns == ns && pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

void fab_shm_clean(const struct fab *fab)
{
	uint64_t ns = pid_namespace();
	struct dirent *entry;
	unsigned removed = 0;
	DIR *dir = fab->quirk->dev_shm && ns ? opendir("/dev/shm") : NULL;
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (is_gone(entry->d_name, ns) && shm_unlink(entry->d_name) == 0)
			removed++;
	closedir(dir);
	if (removed)
		kv_info(fab->options.log, "%s: removed %u files of killed processes from /dev/shm", fab->caps.domain,
			removed);
}
