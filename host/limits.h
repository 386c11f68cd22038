/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h -- what this machine allows this process: limits, memory, huge pages, permissions. It is read at set-up, so
 * that a shortage (shortage.h) is named before anything fails for it. */
#ifndef KVRAIL_HOST_LIMITS_H
#define KVRAIL_HOST_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#define KV_NO_LIMIT UINT64_MAX       /* a limit that does not exist */
#define KV_UNKNOWN  (UINT64_MAX - 1) /* a number that could not be read */

enum kv_container {
	KV_CONTAINER_NONE,
	KV_CONTAINER_DOCKER,
	KV_CONTAINER_PODMAN,
	KV_CONTAINER_KUBERNETES,
	KV_CONTAINER_OTHER
};

/* One size of hugetlb pages. */
struct kv_hugepool {
	uint64_t page_bytes, total, free; /* free: less those that are reserved */
	uint64_t allowed;                 /* of the free ones, those that the hugetlb cgroups let us have */
};

struct kv_host {
	uint64_t files_open, files_soft, files_hard; /* open files of this process, RLIMIT_NOFILE */
	uint64_t memlock_soft, memlock_hard;         /* RLIMIT_MEMLOCK, bytes */
	uint64_t locked_bytes;                       /* locked or pinned by this process now (VmLck, VmPin) */
	bool locks_freely;                           /* CAP_IPC_LOCK: RLIMIT_MEMLOCK does not apply */
	bool raises_limits;                          /* CAP_SYS_RESOURCE: hard limits may be raised */
	bool administers;                            /* CAP_SYS_ADMIN */
	uint64_t address_soft, address_used;  /* RLIMIT_AS, and how much of it this process uses (VmSize), bytes */
	uint64_t threads_soft, threads_group; /* RLIMIT_NPROC; how many more the pids cgroups allow */
	uint64_t threads_used; /* threads of this user, counted against RLIMIT_NPROC; see kv_host_threads_count */
	uint64_t memory_total, memory_available; /* of the machine, bytes */
	uint64_t memory_group;                   /* bytes that the memory cgroups still allow */
	uint64_t cpus_group;                     /* CPUs that a CPU quota amounts to, rounded up */
	unsigned cpus;                           /* CPUs that this process may run on */
	uint64_t shm_total, shm_free;            /* of /dev/shm, bytes; KV_UNKNOWN: there is none */
	struct kv_hugepool huge[2];              /* 1 GiB, 2 MiB */
	uint64_t maps_max;                       /* vm.max_map_count */
	int ptrace_scope;                        /* of Yama; -1: there is no Yama, which means 0 */
	int uring_disabled;                      /* kernel.io_uring_disabled; -1: the kernel has no such switch */
	int seccomp;                             /* 0 none, 1 strict, 2 filtered; -1 unknown */
	enum kv_container container;
	bool root;         /* effective user 0 */
	bool mapped_users; /* in a user namespace (rootless container), where root is an ordinary user outside */
	char kernel[64], system[96]; /* "6.1.0-18-amd64", "Debian GNU/Linux 12 (bookworm)" */
};

/* kv_host_read -- fill all of the above from below a root directory. "" is this machine. Any other root is a copy of
 * some machine's /proc, /sys and /etc, or a tree invented for a test; then /dev/shm is not looked at, and cpus comes
 * from the mask in /proc/self/status. A value that cannot be read is KV_UNKNOWN or -1, never an error. Thread: any.
 * Opens files. */
void kv_host_read(const char *root, struct kv_host *out);

/* kv_huge_bytes -- bytes in free hugetlb pages of both sizes; allowed: only those that the hugetlb cgroups let us have.
 */
uint64_t kv_huge_bytes(const struct kv_host *host, bool allowed);

/* kv_host_threads_count -- fill threads_used. This reads every process of the machine: call it once, at start-up.
 * Processes that cannot be seen (other pid namespaces) are not counted. */
void kv_host_threads_count(struct kv_host *host);

/* What one process uses. */
struct kv_process {
	uint64_t rss, memory; /* resident bytes; and with those in hugetlb pages */
	uint64_t peak;        /* the most resident bytes so far, with hugetlb pages as they are now */
	uint64_t threads;
	uint64_t files, files_soft; /* open files, and how many may be (KV_NO_LIMIT, KV_UNKNOWN) */
};
/* kv_process_read -- a process by its id; 0: this one. What cannot be seen is 0. Thread: any. Opens files, and walks
 * through all descriptors of the process. */
void kv_process_read(int pid, struct kv_process *out);

/* kv_process_cpu_seconds -- CPU time that a process has used so far; 0: it cannot be seen. Thread: any. */
double kv_process_cpu_seconds(int pid);

/* kv_process_faults -- page faults of a process so far, all of its threads; 0: this one. -1: it cannot be seen. */
int64_t kv_process_faults(int pid);

/* kv_container_name -- "docker", "podman", "kubernetes", "container", or "" for none. */
const char *kv_container_name(enum kv_container container);

#endif
