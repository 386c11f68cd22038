/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h -- what machine.c reads from /proc and /sys, below a root directory, so that tests can bring their own.
 * Internal to base: not part of base.h. The public calls are in mem.h; they pass "" as root. */
#ifndef KVRAIL_BASE_MACHINE_H
#define KVRAIL_BASE_MACHINE_H

#include <stdint.h>

/* kv_hugepages_free -- free and unreserved hugetlb pages of page_bytes; 0 when there is no such pool. */
uint64_t kv_hugepages_free(const char *root, uint64_t page_bytes);

/* kv_cgroup_memory_room -- bytes that the cgroups of this process still allow; UINT64_MAX when none limits it. */
uint64_t kv_cgroup_memory_room(const char *root);

/* kv_cgroup_cpus -- CPUs that the cgroups' quota amounts to, rounded up; UINT64_MAX when none limits it. */
uint64_t kv_cgroup_cpus(const char *root);

/* kv_meminfo_available -- MemAvailable in bytes (MemFree on kernels before 3.14); 0 when unreadable. */
uint64_t kv_meminfo_available(const char *root);

#endif
