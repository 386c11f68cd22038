/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h -- the facts that machine.c reads from /proc and /sys. They are read below a root directory, so that tests
 * can bring their own. Internal to host/: not part of host.h. The public calls are in memory.h; they pass "" as root.
 */
#ifndef KVRAIL_HOST_MACHINE_H
#define KVRAIL_HOST_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* kv_hugepages_free -- hugetlb pages of page_bytes that a new reservation may get: free and unreserved pages, and those
 * that the pool may still grow by (nr_overcommit_hugepages). 0 when there is no such pool. kv_hugepages_free_on -- the
 * free pages of a NUMA node. */
uint64_t kv_hugepages_free(const char *root, uint64_t page_bytes);
uint64_t kv_hugepages_free_on(const char *root, int node, uint64_t page_bytes);

/* kv_hugepages_transparent -- whether this kernel makes transparent huge pages on madvise. */
bool kv_hugepages_transparent(const char *root);

/* kv_cgroup_hugetlb_room -- bytes in hugetlb pages of page_bytes that the cgroups of this process still allow;
 * UINT64_MAX when none limits them. */
uint64_t kv_cgroup_hugetlb_room(const char *root, uint64_t page_bytes);

/* kv_maps_check -- kv_memory_mapped, for the maps below root. */
struct kv_error;
int kv_maps_check(const char *root, const void *base, uint64_t len_bytes, struct kv_error *err);

/* kv_hugepages_total -- all hugetlb pages of page_bytes, in use or not. */
uint64_t kv_hugepages_total(const char *root, uint64_t page_bytes);

/* kv_cgroup_memory_room -- bytes that the cgroups of this process still allow; UINT64_MAX when none limits them. */
uint64_t kv_cgroup_memory_room(const char *root);

/* kv_cgroup_cpus -- the CPUs that the cgroups' quota amounts to, rounded up; UINT64_MAX when none limits them. */
uint64_t kv_cgroup_cpus(const char *root);

/* kv_cgroup_pids_room -- threads that the cgroups of this process still allow; UINT64_MAX when none limits them. */
uint64_t kv_cgroup_pids_room(const char *root);

/* kv_meminfo_available -- MemAvailable in bytes (MemFree on kernels before 3.14); 0 when unreadable. */
uint64_t kv_meminfo_available(const char *root);

#endif
