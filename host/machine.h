/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h -- what machine.c reads from /proc and /sys, below a root directory, so that tests can bring their own.
 * Internal to base: not part of base.h. The public calls are in memory.h; they pass "" as root. */
#ifndef KVRAIL_HOST_MACHINE_H
#define KVRAIL_HOST_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* kv_hugepages_free -- hugetlb pages of page_bytes that a new reservation may have: free and unreserved ones, and those
 * that the pool may still grow by (nr_overcommit_hugepages); 0 when there is no such pool. kv_hugepages_free_on -- free
 * ones of a NUMA node. */
uint64_t kv_hugepages_free(const char *root, uint64_t page_bytes);
uint64_t kv_hugepages_free_on(const char *root, int node, uint64_t page_bytes);

/* kv_hugepages_transparent -- whether this kernel makes transparent huge pages where it is advised to. */
bool kv_hugepages_transparent(const char *root);

/* kv_cgroup_hugetlb_room -- bytes in hugetlb pages of page_bytes that the cgroups of this process still allow;
 * UINT64_MAX when none limits it. */
uint64_t kv_cgroup_hugetlb_room(const char *root, uint64_t page_bytes);

/* kv_maps_check -- kv_memory_mapped, of the maps below root. */
struct kv_error;
int kv_maps_check(const char *root, const void *base, uint64_t len_bytes, struct kv_error *err);

/* kv_memory_fits_in -- kv_memory_fits, of the machine below root. */
int kv_memory_fits_in(const char *root, uint64_t bytes, const char *what, const char *option, struct kv_error *err);

/* kv_hugepages_total -- the same, in use or not. */
uint64_t kv_hugepages_total(const char *root, uint64_t page_bytes);

/* kv_cgroup_memory_room -- bytes that the cgroups of this process still allow; UINT64_MAX when none limits it. */
uint64_t kv_cgroup_memory_room(const char *root);

/* kv_cgroup_cpus -- CPUs that the cgroups' quota amounts to, rounded up; UINT64_MAX when none limits it. */
uint64_t kv_cgroup_cpus(const char *root);

/* kv_cgroup_pids_room -- threads that the cgroups of this process still allow; UINT64_MAX when none limits them. */
uint64_t kv_cgroup_pids_room(const char *root);

/* kv_meminfo_available -- MemAvailable in bytes (MemFree on kernels before 3.14); 0 when unreadable. */
uint64_t kv_meminfo_available(const char *root);

#endif
