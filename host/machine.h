/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h -- facts that machine.c reads below a root directory, for tests. Internal to host/. The public calls of
 * memory.h pass "". */
#ifndef KVRAIL_HOST_MACHINE_H
#define KVRAIL_HOST_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* kv_hugepages_free -- hugetlb pages of page_bytes for a new reservation: free, unreserved, or by growth
 * (nr_overcommit_hugepages). 0: no pool. kv_hugepages_free_on -- the free pages of a NUMA node. */
uint64_t kv_hugepages_free(const char *root, uint64_t page_bytes);
uint64_t kv_hugepages_free_on(const char *root, int node, uint64_t page_bytes);

/* kv_hugepages_transparent -- whether madvise gives transparent huge pages. kv_hugepages_shared -- of memfds. */
bool kv_hugepages_transparent(const char *root);
bool kv_hugepages_shared(const char *root);

/* kv_cgroup_hugetlb_room -- bytes in such pages left in this process's cgroups; UINT64_MAX: no limit. */
uint64_t kv_cgroup_hugetlb_room(const char *root, uint64_t page_bytes);

/* kv_maps_check -- kv_memory_mapped, below root. */
struct kv_error;
int kv_maps_check(const char *root, const void *base, uint64_t len_bytes, struct kv_error *err);

/* kv_hugepages_total -- all hugetlb pages of page_bytes. */
uint64_t kv_hugepages_total(const char *root, uint64_t page_bytes);

/* kv_cgroup_memory_room -- bytes left in this process's cgroups; UINT64_MAX: no limit. */
uint64_t kv_cgroup_memory_room(const char *root);

/* kv_cgroup_cpus -- the cgroups' quota in CPUs, rounded up; UINT64_MAX: none. */
uint64_t kv_cgroup_cpus(const char *root);

/* kv_cgroup_pids_room -- threads left in this process's cgroups; UINT64_MAX: no limit. */
uint64_t kv_cgroup_pids_room(const char *root);

/* kv_meminfo_available -- MemAvailable in bytes (MemFree before Linux 3.14); 0: unreadable. */
uint64_t kv_meminfo_available(const char *root);

#endif
