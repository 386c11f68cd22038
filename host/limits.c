/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c -- the limits of this process and machine, from /proc, /sys and /etc.
 *
 * Limits come from /proc/self/limits and not from getrlimit, so that a copied or invented tree answers as a machine
 * does. Without /proc (a bare chroot) only getrlimit can answer. A number that cannot be read is unknown. A check must
 * tell "enough", "short" and "unknown" apart, and must never fail on "unknown". */
#include "host/limits.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/base.h"
#include "host/machine.h"
#include "host/memory.h"

enum { PATH_CAP = 512, LINE_CAP = 512, CAP_IPC_LOCK_BIT = 14, CAP_SYS_ADMIN_BIT = 21, CAP_SYS_RESOURCE_BIT = 24 };

#define PAGE_2M ((uint64_t)2 << 20)
#define PAGE_1G ((uint64_t)1 << 30)

static FILE *open_below(const char *root, const char *name)
{
	char path[PATH_CAP];
	return snprintf(path, sizeof(path), "%s%s", root, name) < (int)sizeof(path) ? fopen(path, "re") : NULL;
}

static bool exists_below(const char *root, const char *name)
{
	char path[PATH_CAP];
	return snprintf(path, sizeof(path), "%s%s", root, name) < (int)sizeof(path) && access(path, F_OK) == 0;
}

static bool line_of(const char *root, const char *name, char *line, size_t cap)
{
	FILE *f = open_below(root, name);
	bool ok = f && fgets(line, (int)cap, f);
	if (f)
		fclose(f);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

static int int_of(const char *root, const char *name, int otherwise)
{
	char line[32], *end;
	if (!line_of(root, name, line, sizeof(line)))
		return otherwise;
	long value = strtol(line, &end, 10);
	return end != line && value >= 0 && value <= INT_MAX ? (int)value : otherwise;
}

static uint64_t number_of(const char *root, const char *name)
{
	char line[32];
	uint64_t value;
	return line_of(root, name, line, sizeof(line)) && kv_u64_parse(line, &value) == 0 ? value : KV_UNKNOWN;
}

/* ---- /proc/self/limits: "Max open files            1024                 4096                 files" ---- */

static uint64_t limit_word(const char *word)
{
	uint64_t value;
	if (strcmp(word, "unlimited") == 0)
		return KV_NO_LIMIT;
	return kv_u64_parse(word, &value) == 0 ? value : KV_UNKNOWN;
}

static bool limit_line(FILE *f, const char *name, uint64_t *out_soft, uint64_t *out_hard)
{
	char line[LINE_CAP], soft[32], hard[32];
	size_t len = strlen(name);
	rewind(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, name, len) == 0 && sscanf(line + len, "%31s %31s", soft, hard) == 2) {
			*out_soft = limit_word(soft);
			*out_hard = limit_word(hard);
			return true;
		}
	return false;
}

static void limit_of(FILE *f, const char *name, int resource, bool here, uint64_t *out_soft, uint64_t *out_hard)
{
	struct rlimit rl;
	*out_soft = *out_hard = KV_UNKNOWN;
	if ((f && limit_line(f, name, out_soft, out_hard)) || !here || getrlimit((__rlimit_resource_t)resource, &rl))
		return;
	*out_soft = rl.rlim_cur == RLIM_INFINITY ? KV_NO_LIMIT : rl.rlim_cur;
	*out_hard = rl.rlim_max == RLIM_INFINITY ? KV_NO_LIMIT : rl.rlim_max;
}

static void read_limits(const char *root, struct kv_host *h)
{
	FILE *f = open_below(root, "/proc/self/limits");
	uint64_t hard;
	limit_of(f, "Max open files", RLIMIT_NOFILE, !*root, &h->files_soft, &h->files_hard);
	limit_of(f, "Max locked memory", RLIMIT_MEMLOCK, !*root, &h->memlock_soft, &h->memlock_hard);
	limit_of(f, "Max address space", RLIMIT_AS, !*root, &h->address_soft, &hard);
	limit_of(f, "Max processes", RLIMIT_NPROC, !*root, &h->threads_soft, &hard);
	if (f)
		fclose(f);
}

/* ---- /proc/self/status, /proc/meminfo ---- */

/* Copy the text behind `name`, which begins a line of the file. */
static bool field_of(const char *root, const char *file, const char *name, char *out, size_t cap)
{
	char line[LINE_CAP];
	size_t len = strlen(name);
	FILE *f = open_below(root, file);
	bool found = false;
	while (f && !found && fgets(line, sizeof(line), f))
		if (strncmp(line, name, len) == 0) {
			line[strcspn(line, "\n")] = '\0';
			snprintf(out, cap, "%s", line + len + strspn(line + len, " \t"));
			found = true;
		}
	if (f)
		fclose(f);
	return found;
}

static uint64_t kib_of(const char *root, const char *file, const char *name)
{
	char text[64];
	uint64_t kib;
	if (!field_of(root, file, name, text, sizeof(text)))
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
	return line_of(root, "/proc/self/uid_map", text, sizeof(text)) &&
	       (sscanf(text, "%llu %llu %llu", &inside, &outside, &count) != 3 || inside != 0 || outside != 0 ||
		count < UINT32_MAX);
}

/* Capabilities inside a user namespace lift no limit: the kernel looks at those of the initial namespace. */
static uint64_t capabilities(const char *root, bool mapped)
{
	char text[LINE_CAP];
	if (mapped || !field_of(root, "/proc/self/status", "CapEff:", text, sizeof(text)))
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
	h->seccomp = field_of(root, file, "Seccomp:", text, sizeof(text)) ? (int)strtol(text, NULL, 10) : -1;
	h->root = field_of(root, file, "Uid:", text, sizeof(text)) &&
		  strtoul(strchr(text, '\t') ? strchr(text, '\t') : text, NULL, 10) == 0;
	h->cpus = !*root                                                      ? kv_cpus_available()
		  : field_of(root, file, "Cpus_allowed:", text, sizeof(text)) ? cpus_of_mask(text)
									      : 0;
	h->memory_total = kib_of(root, "/proc/meminfo", "MemTotal:");
	h->memory_available = kib_of(root, "/proc/meminfo", "MemAvailable:");
}

/* ---- the rest ---- */

static void read_files_open(const char *root, struct kv_host *h)
{
	char path[PATH_CAP];
	uint64_t n = 0;
	h->files_open = KV_UNKNOWN;
	DIR *d = snprintf(path, sizeof(path), "%s/proc/self/fd", root) < (int)sizeof(path) ? opendir(path) : NULL;
	if (!d)
		return;
	while (readdir(d))
		n++;
	closedir(d);
	h->files_open = n - KV_MIN(n, *root ? 2u : 3u); /* less ".", "..", and the descriptor of this walk */
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
	for (unsigned i = 0; i < KV_COUNT(sizes); i++)
		h->huge[i] = (struct kv_hugepool){.page_bytes = sizes[i],
						  .total = kv_hugepages_total(root, sizes[i]),
						  .free = kv_hugepages_free(root, sizes[i])};
}

static enum kv_container container_of_process(const char *root)
{
	char text[LINE_CAP];
	if (exists_below(root, "/var/run/secrets/kubernetes.io") || (!*root && getenv("KUBERNETES_SERVICE_HOST")))
		return KV_CONTAINER_KUBERNETES;
	if (exists_below(root, "/.dockerenv"))
		return KV_CONTAINER_DOCKER;
	if (exists_below(root, "/run/.containerenv"))
		return KV_CONTAINER_PODMAN;
	if (!line_of(root, "/proc/self/cgroup", text, sizeof(text)))
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
	if (!line_of(root, "/proc/sys/kernel/osrelease", text, sizeof(text)))
		snprintf(text, sizeof(text), "%s", !*root && uname(&uts) == 0 ? uts.release : "");
	snprintf(h->kernel, sizeof(h->kernel), "%.63s", text);
	if (!field_of(root, "/etc/os-release", "PRETTY_NAME=", text, sizeof(text)))
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
	read_files_open(root, out);
	read_shm(root, out);
	read_huge(root, out);
	read_names(root, out);
	out->memory_group = kv_cgroup_memory_room(root);
	out->cpus_group = kv_cgroup_cpus(root);
	out->threads_group = kv_cgroup_pids_room(root);
	out->threads_used = KV_UNKNOWN;
	out->maps_max = number_of(root, "/proc/sys/vm/max_map_count");
	out->ptrace_scope = int_of(root, "/proc/sys/kernel/yama/ptrace_scope", -1);
	out->uring_disabled = int_of(root, "/proc/sys/kernel/io_uring_disabled", -1);
	out->container = container_of_process(root);
}

/* Threads of a process, or 0 if its real user is another one. */
static uint64_t threads_of(const char *pid, uid_t user)
{
	char path[PATH_CAP], line[LINE_CAP];
	unsigned long uid = ULONG_MAX, threads = 0;
	FILE *f =
		snprintf(path, sizeof(path), "/proc/%.20s/status", pid) < (int)sizeof(path) ? fopen(path, "re") : NULL;
	while (f && fgets(line, sizeof(line), f)) {
		(void)sscanf(line, "Uid: %lu", &uid);
		(void)sscanf(line, "Threads: %lu", &threads);
	}
	if (f)
		fclose(f);
	return uid == user ? threads : 0;
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
	/* Not even this process was seen, so there is no /proc. */
	if (host->threads_used == 0)
		host->threads_used = KV_UNKNOWN;
}

const char *kv_container_name(enum kv_container container)
{
	static const char *const names[] = {"", "docker", "podman", "kubernetes", "container"};
	return (unsigned)container < KV_COUNT(names) ? names[container] : "";
}
