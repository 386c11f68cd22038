/* SPDX-License-Identifier: Apache-2.0 */
/* mem.h -- large page-backed areas (arenas, receive buffers, stacks), and facts about this machine's memory. */
#ifndef KVRAIL_BASE_MEM_H
#define KVRAIL_BASE_MEM_H

#include <stdint.h>

#include "base/error.h"

struct kv_area {
	void *base;          /* 2 MiB aligned */
	uint64_t len_bytes;  /* rounded up to 2 MiB */
	uint64_t page_bytes; /* 1 GiB, 2 MiB (hugetlb), or 4096 (with MADV_HUGEPAGE asked) */
};

/* kv_area_map -- anonymous private zeroed memory, hugetlb pages if free ones suffice (they are touched here, so that
 * none can give SIGBUS later), else transparent ones (touched when used).
 * Returns 0, -KV_ENOMEM, or -KV_EINVAL for 0 bytes, with *err. Thread: any. */
int kv_area_map(uint64_t len_bytes, struct kv_area *out, struct kv_error *err);
/* kv_area_map_lazy -- the same with transparent huge pages alone: no page is touched before it is used. For tables that
 * grow while requests are served. */
int kv_area_map_lazy(uint64_t len_bytes, struct kv_area *out, struct kv_error *err);
void kv_area_unmap(struct kv_area *area); /* harmless on a zeroed struct */

/* kv_memory_available -- MemAvailable, lowered to what the cgroup (v1 or v2) still allows. Bytes. */
uint64_t kv_memory_available(void);
uint64_t kv_memory_rss_peak(void); /* VmHWM of this process, bytes */
uint64_t kv_memory_rss(void);      /* VmRSS of this process, bytes */
unsigned kv_cpus_available(void);  /* CPUs this process may run on (sched_getaffinity, cgroup quota rounded up) */

/* kv_host_id -- 16 bytes equal for two processes of one running kernel and network namespace (boot id and netns inode), else different. */
void kv_host_id(uint8_t out[16]);

#endif
