/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c -- facts about this machine, from /proc and /sys.
 *
 * A cgroup limits its children, so the tightest limit counts, from the process's group up to the mount. In a container
 * the path of /proc/self/cgroup may not exist below the mount: the group itself. A limit that cannot be read is no
 * limit. Only for set-up: stdio allocates. */
#include "host/machine.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/base.h"
#include "host/proc_files.h"
#include "host/memory.h"

enum { LINE_CAP = 512, WORD_CAP = 64 };

static bool number_at(const char *p, uint64_t *out)
{
	char word[WORD_CAP];
	size_t n = strspn(p, "0123456789");
	if (n == 0 || n >= sizeof(word))
		return false;
	memcpy(word, p, n);
	word[n] = '\0';
	return kv_u64_parse(word, out) == 0;
}

static bool path_number(const char *dir, const char *file, uint64_t *out)
{
	char line[WORD_CAP];
	return kv_file_line(line, sizeof(line), "%s/%s", dir, file) && number_at(line, out);
}

static bool path_field(const char *dir, const char *file, const char *name, uint64_t *out)
{
	char text[WORD_CAP];
	return kv_file_field(text, sizeof(text), name, "%s/%s", dir, file) && number_at(text, out);
}

uint64_t kv_hugepages_free(const char *root, uint64_t page_bytes)
{
	char dir[PATH_MAX];
	uint64_t free_pages = 0, reserved = 0, over = 0, surplus = 0;
	snprintf(dir, sizeof(dir), "%s/sys/kernel/mm/hugepages/hugepages-%llukB", root,
		 (unsigned long long)(page_bytes >> 10));
	if (!path_number(dir, "free_hugepages", &free_pages) || !path_number(dir, "resv_hugepages", &reserved))
		return 0;
	/* Pages by which the pool may grow. A reservation shows whether there is memory for them. */
	if (path_number(dir, "nr_overcommit_hugepages", &over) && path_number(dir, "surplus_hugepages", &surplus))
		free_pages += over - KV_MIN(over, surplus);
	return free_pages > reserved ? free_pages - reserved : 0;
}

uint64_t kv_hugepages_free_on(const char *root, int node, uint64_t page_bytes)
{
	char dir[PATH_MAX];
	uint64_t free_pages = 0;
	snprintf(dir, sizeof(dir), "%s/sys/devices/system/node/node%d/hugepages/hugepages-%llukB", root, node,
		 (unsigned long long)(page_bytes >> 10));
	return path_number(dir, "free_hugepages", &free_pages) ? free_pages : 0;
}

static bool chosen_never(const char *root, const char *file, const char *never)
{
	char line[LINE_CAP];
	return !kv_file_line(line, sizeof(line), "%s/sys/kernel/mm/transparent_hugepage/%s", root, file) ||
	       strstr(line, never);
}

bool kv_hugepages_transparent(const char *root)
{
	return !chosen_never(root, "enabled", "[never]");
}

bool kv_hugepages_shared(const char *root)
{
	return !chosen_never(root, "shmem_enabled", "[never]") && !chosen_never(root, "shmem_enabled", "[deny]");
}

uint64_t kv_hugepages_total(const char *root, uint64_t page_bytes)
{
	char dir[PATH_MAX];
	uint64_t pages = 0;
	snprintf(dir, sizeof(dir), "%s/sys/kernel/mm/hugepages/hugepages-%llukB", root,
		 (unsigned long long)(page_bytes >> 10));
	return path_number(dir, "nr_hugepages", &pages) ? pages : 0;
}

uint64_t kv_meminfo_available(const char *root)
{
	uint64_t kib = 0;
	if (!path_field(root, "proc/meminfo", "MemAvailable:", &kib) &&
	    !path_field(root, "proc/meminfo", "MemFree:", &kib))
		return 0;
	return kib << 10;
}

/* line_controller -- whether a line "ID:CONTROLLERS:PATH" of /proc/self/cgroup names the controller ("": v2). Cuts the
 * line; *out_path points into it. */
static bool line_controller(char *line, const char *controller, char **out_path)
{
	char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
	if (!path)
		return false;
	*list++ = *path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	*out_path = path;
	if (*controller == '\0')
		return *list == '\0';
	for (char *save = NULL, *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		if (strcmp(word, controller) == 0)
			return true;
	}
	return false;
}

/* cgroup_path -- this process's path in a controller's hierarchy, without a final slash; "": none. */
static void cgroup_path(const char *root, const char *controller, char *out, size_t cap)
{
	char file[PATH_MAX], line[PATH_MAX], *path = NULL;
	out[0] = '\0';
	snprintf(file, sizeof(file), "%s/proc/self/cgroup", root);
	FILE *f = fopen(file, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		/* A path with ".." lies outside of our namespace. */
		if (line_controller(line, controller, &path) && !strstr(path, "..")) {
			snprintf(out, cap, "%s", strcmp(path, "/") == 0 ? "" : path);
			break;
		}
	}
	fclose(f);
}

/* The least `limit` of the process's group and all above it. */
static uint64_t cgroup_tightest(const char *root, const char *controller, const char *mount,
				uint64_t (*limit)(const char *dir, uint64_t page_bytes), uint64_t page_bytes)
{
	char path[PATH_MAX / 2], dir[PATH_MAX];
	uint64_t least = UINT64_MAX;
	cgroup_path(root, controller, path, sizeof(path));
	for (;;) {
		if (snprintf(dir, sizeof(dir), "%s/sys/fs/cgroup%s%s", root, mount, path) < (int)sizeof(dir)) {
			uint64_t here = limit(dir, page_bytes);
			least = KV_MIN(least, here);
		}
		char *slash = strrchr(path, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/* The tightest limit of a controller's hierarchies of cgroups v2 and v1. page_bytes: for hugetlb. */
static uint64_t cgroup_limit(const char *root, const char *controller,
			     uint64_t (*v2)(const char *dir, uint64_t page_bytes),
			     uint64_t (*v1)(const char *dir, uint64_t page_bytes), uint64_t page_bytes)
{
	char mount[WORD_CAP];
	uint64_t new, old;
	snprintf(mount, sizeof(mount), "/%s", controller);
	new = cgroup_tightest(root, "", "", v2, page_bytes);
	old = cgroup_tightest(root, controller, mount, v1, page_bytes);
	return KV_MIN(new, old);
}

/* Page cache counts as free. */
static uint64_t room(uint64_t max, uint64_t used, uint64_t reclaimable)
{
	used -= KV_MIN(used, reclaimable);
	return max - KV_MIN(max, used);
}

static uint64_t memory_room_v2(const char *dir, uint64_t page_bytes)
{
	uint64_t max, used, cache = 0;
	(void)page_bytes;
	if (!path_number(dir, "memory.max", &max) || !path_number(dir, "memory.current", &used))
		return UINT64_MAX;
	path_field(dir, "memory.stat", "inactive_file ", &cache);
	return room(max, used, cache);
}

static uint64_t memory_room_v1(const char *dir, uint64_t page_bytes)
{
	uint64_t max, used, cache = 0;
	(void)page_bytes;
	/* In v1 "no limit" is the largest multiple of a page. */
	if (!path_number(dir, "memory.limit_in_bytes", &max) || !path_number(dir, "memory.usage_in_bytes", &used) ||
	    max >= (uint64_t)INT64_MAX - 65536)
		return UINT64_MAX;
	path_field(dir, "memory.stat", "total_inactive_file ", &cache);
	return room(max, used, cache);
}

uint64_t kv_cgroup_memory_room(const char *root)
{
	return cgroup_limit(root, "memory", memory_room_v2, memory_room_v1, 0);
}

/* Bytes left by one counter of a hugetlb cgroup; `max` and `used` name its files. "No limit" is "max" or a huge number.
 */
static uint64_t hugetlb_counter(const char *dir, uint64_t page_bytes, const char *max, const char *used)
{
	char file[WORD_CAP];
	uint64_t limit, in_use = 0;
	bool giga = page_bytes >= (uint64_t)1 << 30;
	unsigned long long n = page_bytes >> (giga ? 30 : 20);
	snprintf(file, sizeof(file), "hugetlb.%llu%s.%s", n, giga ? "GB" : "MB", max);
	if (!path_number(dir, file, &limit) || limit >= (uint64_t)INT64_MAX - page_bytes)
		return UINT64_MAX;
	snprintf(file, sizeof(file), "hugetlb.%llu%s.%s", n, giga ? "GB" : "MB", used);
	path_number(dir, file, &in_use);
	return limit - KV_MIN(limit, in_use);
}

/* A page counts when it is touched, and (rsvd) when it is reserved. */
static uint64_t hugetlb_v2(const char *dir, uint64_t page_bytes)
{
	uint64_t touched = hugetlb_counter(dir, page_bytes, "max", "current");
	uint64_t reserved = hugetlb_counter(dir, page_bytes, "rsvd.max", "rsvd.current");
	return KV_MIN(touched, reserved);
}

static uint64_t hugetlb_v1(const char *dir, uint64_t page_bytes)
{
	uint64_t touched = hugetlb_counter(dir, page_bytes, "limit_in_bytes", "usage_in_bytes");
	uint64_t reserved = hugetlb_counter(dir, page_bytes, "rsvd.limit_in_bytes", "rsvd.usage_in_bytes");
	return KV_MIN(touched, reserved);
}

uint64_t kv_cgroup_hugetlb_room(const char *root, uint64_t page_bytes)
{
	return cgroup_limit(root, "hugetlb", hugetlb_v2, hugetlb_v1, page_bytes);
}

static uint64_t cpus_of(uint64_t quota, uint64_t period)
{
	return period == 0 ? UINT64_MAX : KV_MAX(quota / period + (quota % period != 0), (uint64_t)1);
}

static uint64_t cpus_v2(const char *dir, uint64_t page_bytes)
{
	char line[WORD_CAP];
	uint64_t quota, period;
	(void)page_bytes;
	if (!kv_file_line(line, sizeof(line), "%s/cpu.max", dir) || !number_at(line, &quota))
		return UINT64_MAX;
	const char *space = strchr(line, ' ');
	return space && number_at(space + 1, &period) ? cpus_of(quota, period) : UINT64_MAX;
}

static uint64_t cpus_v1(const char *dir, uint64_t page_bytes)
{
	uint64_t quota, period;
	(void)page_bytes;
	if (!path_number(dir, "cpu.cfs_quota_us", &quota) || !path_number(dir, "cpu.cfs_period_us", &period))
		return UINT64_MAX;
	return cpus_of(quota, period);
}

uint64_t kv_cgroup_cpus(const char *root)
{
	return cgroup_limit(root, "cpu", cpus_v2, cpus_v1, 0);
}

static uint64_t pids_room(const char *dir, uint64_t page_bytes)
{
	uint64_t max, used;
	(void)page_bytes;
	if (!path_number(dir, "pids.max", &max) || !path_number(dir, "pids.current", &used))
		return UINT64_MAX;
	return room(max, used, 0);
}

uint64_t kv_cgroup_pids_room(const char *root)
{
	return cgroup_limit(root, "pids", pids_room, pids_room, 0);
}

uint64_t kv_memory_available(void)
{
	uint64_t machine = kv_meminfo_available(""), group = kv_cgroup_memory_room("");
	return KV_MIN(machine, group);
}

static uint64_t self_status(const char *name)
{
	uint64_t kib = 0;
	path_field("/proc/self", "status", name, &kib);
	return kib << 10;
}

uint64_t kv_memory_rss_peak(void)
{
	return self_status("VmHWM:");
}

uint64_t kv_memory_rss(void)
{
	return self_status("VmRSS:");
}

unsigned kv_cpus_available(void)
{
	uint64_t quota = kv_cgroup_cpus("");
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	struct kv_cpus mask;
	uint64_t cpus = kv_thread_cpus(&mask) == 0 ? kv_cpus_count(&mask) : (uint64_t)KV_MAX(online, 1L);
	return (unsigned)KV_MIN(cpus, quota);
}

/* A line of /proc/cpuinfo is "name\t: value". */
static bool cpuinfo(const char *root, const char *name, char *out, size_t cap)
{
	char value[LINE_CAP];
	if (!kv_file_field(value, sizeof(value), name, "%s/proc/cpuinfo", root))
		return false;
	snprintf(out, cap, "%s", value + strspn(value, ": \t"));
	return true;
}

const char *kv_cpu_name(const char *root, char *buf, size_t cap)
{
	char name[WORD_CAP] = "", family[WORD_CAP] = "", model[WORD_CAP] = "";
	buf[0] = 0;
	if (cpuinfo(root, "model name\t", name, sizeof(name)) &&
	    cpuinfo(root, "cpu family\t", family, sizeof(family)) && cpuinfo(root, "model\t", model, sizeof(model)))
		snprintf(buf, cap, "%s (family %s, model %s)", name, family, model);
	else if (cpuinfo(root, "CPU implementer\t", family, sizeof(family)) &&
		 cpuinfo(root, "CPU part\t", model, sizeof(model)))
		snprintf(buf, cap, "implementer %s, part %s", family, model);
	return buf;
}

struct host_text {
	char boot[WORD_CAP];
	uint64_t dev, ino;
};

static bool boot_read(struct host_text *id)
{
	if (!kv_file_line(id->boot, sizeof(id->boot), "/proc/sys/kernel/random/boot_id"))
		return false;
	/* fgets leaves old bytes behind the text, which must not enter the hash. */
	memset(id->boot + strlen(id->boot), 0, sizeof(id->boot) - strlen(id->boot));
	return true;
}

/* known false: an unknown host counts as a different one, the smaller mistake. */
static void id_make(const struct host_text *id, bool known, uint8_t out[16])
{
	struct kv_prng prng;
	if (known) {
		XXH128_canonicalFromHash((XXH128_canonical_t *)(void *)out, XXH3_128bits(id, sizeof(*id)));
		return;
	}
	if (kv_entropy_fill(&kv_entropy_kernel, out, 16) == 0)
		return;
	kv_prng_seed(&prng, kv_seed_from_env("") ^ (uint64_t)(uintptr_t)out);
	kv_prng_fill(&prng, out, 16);
}

void kv_host_id(uint8_t out[16])
{
	struct host_text id = {.dev = 0};
	struct stat ns;
	bool known = boot_read(&id) && stat("/proc/self/ns/net", &ns) == 0;
	if (known) {
		id.dev = (uint64_t)ns.st_dev;
		id.ino = (uint64_t)ns.st_ino;
	}
	id_make(&id, known, out);
}

void kv_boot_id(uint8_t out[16])
{
	struct host_text id = {.dev = 0};
	id_make(&id, boot_read(&id), out);
}
