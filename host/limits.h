/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h -- limits, memory, huge pages and permissions of this process. Read at set-up, so that a shortage
 * (shortage.h) is named before it causes a failure. */
#ifndef KVRAIL_HOST_LIMITS_H
#define KVRAIL_HOST_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#define KV_NO_LIMIT UINT64_MAX       /* no limit */
#define KV_UNKNOWN  (UINT64_MAX - 1) /* unreadable */

enum kv_container {
	KV_CONTAINER_NONE,
	KV_CONTAINER_DOCKER,
	KV_CONTAINER_PODMAN,
	KV_CONTAINER_KUBERNETES,
	KV_CONTAINER_OTHER
};

/* One size of hugetlb pages. */
struct kv_hugepool {
	uint64_t page_bytes, total, free; /* free: without reserved pages */
	uint64_t allowed;                 /* of the free ones, within the hugetlb cgroups */
};

struct kv_host {
	uint64_t files_open, files_soft, files_hard; /* open files of this process, RLIMIT_NOFILE */
	uint64_t memlock_soft, memlock_hard;         /* RLIMIT_MEMLOCK, bytes */
	uint64_t locked_bytes;                       /* locked or pinned by this process (VmLck, VmPin) */
	bool locks_freely;                           /* CAP_IPC_LOCK: no RLIMIT_MEMLOCK */
	bool raises_limits;                          /* CAP_SYS_RESOURCE: may raise hard limits */
	bool administers;                            /* CAP_SYS_ADMIN */
	uint64_t address_soft, address_used;         /* RLIMIT_AS, and its used part (VmSize), bytes */
	uint64_t threads_soft, threads_group;        /* RLIMIT_NPROC; threads left in the pids cgroups */
	uint64_t threads_used;                       /* threads of this user, for RLIMIT_NPROC: kv_host_threads_count */
	uint64_t memory_total, memory_available;     /* of the machine, bytes */
	uint64_t memory_group;                       /* bytes left in the memory cgroups */
	uint64_t cpus_group;                         /* CPU quota in CPUs, rounded up */
	unsigned cpus;                               /* CPUs of this process */
	uint64_t shm_total, shm_free;                /* of /dev/shm, bytes; KV_UNKNOWN: none */
	struct kv_hugepool huge[2];                  /* 1 GiB, 2 MiB */
	uint64_t maps_max;                           /* vm.max_map_count */
	int ptrace_scope;                            /* Yama's; -1: no Yama, as 0 */
	int uring_disabled;                          /* kernel.io_uring_disabled; -1: no such switch */
	int seccomp;                                 /* 0 none, 1 strict, 2 filtered; -1 unknown */
	enum kv_container container;
	bool root;                   /* effective user 0 */
	bool mapped_users;           /* in a user namespace (rootless container): root is an ordinary user outside */
	char kernel[64], system[96]; /* "6.1.0-18-amd64", "Debian GNU/Linux 12 (bookworm)" */
};

/* kv_host_read -- fill all of the above from below a root: "" is this machine, any other a copy of a machine's /proc,
 * /sys and /etc, without /dev/shm and with cpus from /proc/self/status. Unreadable values are KV_UNKNOWN or -1. Thread:
 * any. Opens files. */
void kv_host_read(const char *root, struct kv_host *out);

/* kv_huge_bytes -- bytes in free hugetlb pages; allowed: only those within the hugetlb cgroups. */
uint64_t kv_huge_bytes(const struct kv_host *host, bool allowed);

/* kv_host_threads_count -- fill threads_used from all visible processes: once, at start-up. */
void kv_host_threads_count(struct kv_host *host);

struct kv_process {
	uint64_t rss, memory; /* resident bytes, without and with hugetlb pages */
	uint64_t peak;        /* highest resident bytes, with hugetlb pages as they are now */
	uint64_t threads;
	uint64_t files, files_soft; /* open files and their limit (KV_NO_LIMIT, KV_UNKNOWN) */
};
/* kv_process_read -- a process by id; 0: this one. Invisible values are 0. Thread: any. Opens files, and visits all
 * descriptors of the process. */
void kv_process_read(int pid, struct kv_process *out);

/* kv_process_cpu_seconds -- CPU time of a process; 0: invisible. Thread: any. */
double kv_process_cpu_seconds(int pid);

/* kv_process_faults -- page faults of a process, all threads; 0: this one. -1: invisible. */
int64_t kv_process_faults(int pid);

/* kv_container_name -- "docker", "podman", "kubernetes", "container", or "". */
const char *kv_container_name(enum kv_container container);

#endif
