/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c -- limits of this process and machine, from /proc, /sys and /etc.
 *
 * /proc/self/limits rather than getrlimit, so that a copied tree works as a machine does; without /proc getrlimit
 * answers. An unreadable number is unknown, and a check never fails for it. */
#include "host/limits.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "host/proc_files.h"
#include "host/machine.h"
#include "host/memory.h"

enum { PATH_CAP = 512, LINE_CAP = 512, CAP_IPC_LOCK_BIT = 14, CAP_SYS_ADMIN_BIT = 21, CAP_SYS_RESOURCE_BIT = 24 };

#define PAGE_2M ((uint64_t)2 << 20)
#define PAGE_1G ((uint64_t)1 << 30)

static int int_of(const char *root, const char *name)
{
	long value = kv_file_number(-1, "%s%s", root, name);
	return value >= 0 && value <= INT_MAX ? (int)value : -1;
}

static uint64_t limit_word(const char *word)
{
	uint64_t value;
	if (strcmp(word, "unlimited") == 0)
		return KV_NO_LIMIT;
	return kv_u64_parse(word, &value) == 0 ? value : KV_UNKNOWN;
}

static bool limit_read(const char *root, const char *pid, const char *name, uint64_t *out_soft, uint64_t *out_hard)
{
	char text[128], soft[32], hard[32];
	*out_soft = *out_hard = KV_UNKNOWN;
	if (!kv_file_field(text, sizeof(text), name, "%s/proc/%s/limits", root, pid) ||
	    sscanf(text, "%31s %31s", soft, hard) != 2)
		return false;
	*out_soft = limit_word(soft);
	*out_hard = limit_word(hard);
	return true;
}

static void limit_of(const char *root, const char *name, int resource, uint64_t *out_soft, uint64_t *out_hard)
{
	struct rlimit rl;
	if (limit_read(root, "self", name, out_soft, out_hard) || *root ||
	    getrlimit((__rlimit_resource_t)resource, &rl))
		return;
	*out_soft = rl.rlim_cur == RLIM_INFINITY ? KV_NO_LIMIT : rl.rlim_cur;
	*out_hard = rl.rlim_max == RLIM_INFINITY ? KV_NO_LIMIT : rl.rlim_max;
}

static void read_limits(const char *root, struct kv_host *h)
{
	uint64_t hard;
	limit_of(root, "Max open files", RLIMIT_NOFILE, &h->files_soft, &h->files_hard);
	limit_of(root, "Max locked memory", RLIMIT_MEMLOCK, &h->memlock_soft, &h->memlock_hard);
	limit_of(root, "Max address space", RLIMIT_AS, &h->address_soft, &hard);
	limit_of(root, "Max processes", RLIMIT_NPROC, &h->threads_soft, &hard);
}

/* ---- /proc/self/status, /proc/meminfo ---- */

static uint64_t kib_of(const char *root, const char *file, const char *name)
{
	char text[64];
	uint64_t kib;
	if (!kv_file_field(text, sizeof(text), name, "%s%s", root, file))
		return KV_UNKNOWN;
	text[strcspn(text, " ")] = '\0';
	return kv_u64_parse(text, &kib) == 0 && kib < UINT64_MAX >> 12 ? kib << 10 : KV_UNKNOWN;
}

static unsigned cpus_of_mask(const char *text)
{
	unsigned n = 0;
	for (; *text; text++) {
		char digit[2] = {*text, '\0'};
		n += *text == ',' ? 0 : (unsigned)__builtin_popcountl(strtoul(digit, NULL, 16));
	}
	return n;
}

static bool users_mapped(const char *root)
{
	unsigned long long inside, outside, count;
	char text[LINE_CAP];
	return kv_file_line(text, sizeof(text), "%s/proc/self/uid_map", root) &&
	       (sscanf(text, "%llu %llu %llu", &inside, &outside, &count) != 3 || inside != 0 || outside != 0 ||
		count < UINT32_MAX);
}

/* Capabilities of a user namespace lift no limit; only those of the initial namespace count. */
static uint64_t capabilities(const char *root, bool mapped)
{
	char text[LINE_CAP];
	if (mapped || !kv_file_field(text, sizeof(text), "CapEff:", "%s/proc/self/status", root))
		return 0;
	return strtoull(text, NULL, 16);
}

static void read_status(const char *root, struct kv_host *h)
{
	static const char file[] = "/proc/self/status";
	char text[LINE_CAP];
	uint64_t lck = kib_of(root, file, "VmLck:"), pin = kib_of(root, file, "VmPin:"), caps;
	h->mapped_users = users_mapped(root);
	caps = capabilities(root, h->mapped_users);
	h->locked_bytes = lck == KV_UNKNOWN || pin == KV_UNKNOWN ? KV_UNKNOWN : lck + pin;
	h->address_used = kib_of(root, file, "VmSize:");
	h->locks_freely = caps >> CAP_IPC_LOCK_BIT & 1;
	h->raises_limits = caps >> CAP_SYS_RESOURCE_BIT & 1;
	h->administers = caps >> CAP_SYS_ADMIN_BIT & 1;
	h->seccomp =
		kv_file_field(text, sizeof(text), "Seccomp:", "%s%s", root, file) ? (int)strtol(text, NULL, 10) : -1;
	h->root = kv_file_field(text, sizeof(text), "Uid:", "%s%s", root, file) &&
		  strtoul(strchr(text, '\t') ? strchr(text, '\t') : text, NULL, 10) == 0;
	if (!*root)
		h->cpus = kv_cpus_available();
	else if (kv_file_field(text, sizeof(text), "Cpus_allowed:", "%s%s", root, file))
		h->cpus = cpus_of_mask(text);
	h->memory_total = kib_of(root, "/proc/meminfo", "MemTotal:");
	uint64_t available = kv_meminfo_available(root);
	h->memory_available = available ? available : KV_UNKNOWN;
}

/* ---- the rest ---- */

/* Descriptors in a directory like /proc/self/fd; KV_UNKNOWN if unreadable. ours: one is this walk's. */
static uint64_t files_of(const char *root, const char *name, bool ours)
{
	char path[PATH_CAP];
	uint64_t n = 0;
	DIR *d = snprintf(path, sizeof(path), "%s%s", root, name) < (int)sizeof(path) ? opendir(path) : NULL;
	if (!d)
		return KV_UNKNOWN;
	while (readdir(d))
		n++;
	closedir(d);
	return n - KV_MIN(n, ours ? 3u : 2u); /* without "." and ".." */
}

static void read_shm(const char *root, struct kv_host *h)
{
	struct statvfs fs;
	h->shm_total = h->shm_free = KV_UNKNOWN;
	if (*root || statvfs("/dev/shm", &fs))
		return;
	h->shm_total = (uint64_t)fs.f_blocks * fs.f_frsize;
	h->shm_free = (uint64_t)fs.f_bavail * fs.f_frsize;
}

static void read_huge(const char *root, struct kv_host *h)
{
	static const uint64_t sizes[] = {PAGE_1G, PAGE_2M};
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		uint64_t free = kv_hugepages_free(root, sizes[i]);
		uint64_t room = free ? kv_cgroup_hugetlb_room(root, sizes[i]) / sizes[i] : 0;
		h->huge[i] = (struct kv_hugepool){.page_bytes = sizes[i],
						  .total = kv_hugepages_total(root, sizes[i]),
						  .free = free,
						  .allowed = KV_MIN(free, room)};
	}
}

uint64_t kv_huge_bytes(const struct kv_host *host, bool allowed)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < KV_COUNT(host->huge); i++)
		sum += (allowed ? host->huge[i].allowed : host->huge[i].free) * host->huge[i].page_bytes;
	return sum;
}

static enum kv_container container_of_process(const char *root)
{
	char text[LINE_CAP];
	if (kv_file_here("%s/var/run/secrets/kubernetes.io", root) || (!*root && getenv("KUBERNETES_SERVICE_HOST")))
		return KV_CONTAINER_KUBERNETES;
	if (kv_file_here("%s/.dockerenv", root))
		return KV_CONTAINER_DOCKER;
	if (kv_file_here("%s/run/.containerenv", root))
		return KV_CONTAINER_PODMAN;
	if (!kv_file_line(text, sizeof(text), "%s/proc/self/cgroup", root))
		return KV_CONTAINER_NONE;
	if (strstr(text, "kubepods"))
		return KV_CONTAINER_KUBERNETES;
	if (strstr(text, "docker"))
		return KV_CONTAINER_DOCKER;
	return strstr(text, "containerd") || strstr(text, "lxc") ? KV_CONTAINER_OTHER : KV_CONTAINER_NONE;
}

static void read_names(const char *root, struct kv_host *h)
{
	struct utsname uts;
	char text[LINE_CAP];
	if (!kv_file_line(text, sizeof(text), "%s/proc/sys/kernel/osrelease", root))
		snprintf(text, sizeof(text), "%s", !*root && uname(&uts) == 0 ? uts.release : "");
	snprintf(h->kernel, sizeof(h->kernel), "%.63s", text);
	if (!kv_file_field(text, sizeof(text), "PRETTY_NAME=", "%s/etc/os-release", root))
		text[0] = '\0';
	char *name = text + (text[0] == '"');
	name[strcspn(name, "\"")] = '\0';
	snprintf(h->system, sizeof(h->system), "%.95s", name);
}

void kv_host_read(const char *root, struct kv_host *out)
{
	memset(out, 0, sizeof(*out));
	read_limits(root, out);
	read_status(root, out);
	out->files_open = files_of(root, "/proc/self/fd", !*root);
	read_shm(root, out);
	read_huge(root, out);
	read_names(root, out);
	out->memory_group = kv_cgroup_memory_room(root);
	out->cpus_group = kv_cgroup_cpus(root);
	out->threads_group = kv_cgroup_pids_room(root);
	out->threads_used = KV_UNKNOWN;
	long maps_max = kv_file_number(-1, "%s/proc/sys/vm/max_map_count", root);
	out->maps_max = maps_max < 0 ? KV_UNKNOWN : (uint64_t)maps_max;
	out->ptrace_scope = int_of(root, "/proc/sys/kernel/yama/ptrace_scope");
	out->uring_disabled = int_of(root, "/proc/sys/kernel/io_uring_disabled");
	out->container = container_of_process(root);
}

/* ---- one process ---- */

void kv_process_read(int pid, struct kv_process *out)
{
	char status[32], files[32], self[16] = "self", text[64] = "";
	uint64_t rss, peak, huge, hard;
	if (pid)
		snprintf(self, sizeof(self), "%d", pid);
	snprintf(status, sizeof(status), "/proc/%s/status", self);
	snprintf(files, sizeof(files), "/proc/%s/fd", self);
	*out = (struct kv_process){.files = files_of("", files, pid == 0)};
	rss = kib_of("", status, "VmRSS:");
	peak = kib_of("", status, "VmHWM:");
	huge = kib_of("", status, "HugetlbPages:");
	out->rss = rss == KV_UNKNOWN ? 0 : rss;
	out->memory = out->rss + (huge == KV_UNKNOWN ? 0 : huge);
	out->peak = peak == KV_UNKNOWN ? out->memory : peak + (huge == KV_UNKNOWN ? 0 : huge);
	(void)kv_file_field(text, sizeof(text), "Threads:", "%s", status);
	out->threads = strtoull(text, NULL, 10);
	(void)limit_read("", self, "Max open files", &out->files_soft, &hard);
	if (out->files == KV_UNKNOWN)
		out->files = 0;
}

double kv_process_cpu_seconds(int pid)
{
	clockid_t clock;
	struct timespec used;
	if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
		return 0;
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* The name may have blanks and brackets: count fields from its last bracket. */
int64_t kv_process_faults(int pid)
{
	char line[1024], *at;
	unsigned long long minor, major;
	const bool read = pid ? kv_file_line(line, sizeof(line), "/proc/%d/stat", pid)
			      : kv_file_line(line, sizeof(line), "/proc/self/stat");
	at = read ? strrchr(line, ')') : NULL;
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu", &minor, &major) != 2)
		return -1;
	return (int64_t)(minor + major);
}

/* Threads of a process; 0 if its real user is another one. */
static uint64_t threads_of(const char *pid, uid_t user)
{
	char uid[64], threads[32] = "";
	if (!kv_file_field(uid, sizeof(uid), "Uid:", "/proc/%.20s/status", pid) || strtoul(uid, NULL, 10) != user)
		return 0;
	(void)kv_file_field(threads, sizeof(threads), "Threads:", "/proc/%.20s/status", pid);
	return strtoull(threads, NULL, 10);
}

void kv_host_threads_count(struct kv_host *host)
{
	DIR *d = opendir("/proc");
	const struct dirent *e;
	host->threads_used = d ? 0 : KV_UNKNOWN;
	while (d && (e = readdir(d)))
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
			host->threads_used += threads_of(e->d_name, getuid());
	if (d)
		closedir(d);
	if (host->threads_used == 0)
		host->threads_used = KV_UNKNOWN;
}

const char *kv_container_name(enum kv_container container)
{
	static const char *const names[] = {"", "docker", "podman", "kubernetes", "container"};
	return (unsigned)container < KV_COUNT(names) ? names[container] : "";
}
