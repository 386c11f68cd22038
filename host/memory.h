/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h -- large areas of memory (arenas, receive buffers, stacks), and facts about this machine's memory. */
#ifndef KVRAIL_HOST_MEMORY_H
#define KVRAIL_HOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "host/numa.h"

/* The pages that memory consists of. */
struct kv_pages {
	uint64_t bytes_1g, bytes_2m; /* in hugetlb pages of these sizes */
	uint64_t transparent, plain; /* in ordinary pages: may become huge ones, or may not */
};
void kv_pages_add(struct kv_pages *sum, const struct kv_pages *more);
/* kv_pages_format -- write "3 GiB in 1 GiB pages, 512 MiB in 2 MiB pages, 64 MiB in transparent huge pages", or "4 KiB
 * pages". 160 bytes are enough. Returns buf. */
char *kv_pages_format(const struct kv_pages *pages, char *buf, size_t cap);

struct kv_area {
	void *base;            /* 2 MiB aligned */
	uint64_t len_bytes;    /* rounded up to 2 MiB */
	uint64_t page_bytes;   /* of its smallest pages: 1 GiB, 2 MiB (hugetlb), or 4096 (with MADV_HUGEPAGE) */
	struct kv_pages pages; /* of the whole area */
	int node;              /* the NUMA node it was asked from, or KV_NODE_ANY */
	int node_error;        /* -errno: the kernel forbids the wish, so a page is where it is first touched; else 0 */
};

/* kv_area_map -- map anonymous private zeroed memory. Free hugetlb pages are used first, of 1 GiB and then of 2 MiB;
 * they are touched here, so that none can give SIGBUS later. The rest is transparent huge pages, which are touched when
 * used. Returns 0, -KV_ENOMEM, or -KV_EINVAL for 0 bytes, with *err. Thread: any. Threads of ours touch large areas;
 * they have ended when this returns. */
int kv_area_map(uint64_t len_bytes, struct kv_area *out, struct kv_error *err);
/* kv_area_map_on -- the same, from a NUMA node while it has room (KV_NODE_ANY: from any). */
int kv_area_map_on(uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err);
/* kv_area_map_lazy -- the same with transparent huge pages only, so no page is touched before it is used. For tables
 * that grow while requests are served. */
int kv_area_map_lazy(uint64_t len_bytes, struct kv_area *out, struct kv_error *err);
void kv_area_unmap(struct kv_area *area); /* harmless on a zeroed struct */

/* kv_memory_populate -- have the kernel make every page of [base, base + len) now, writable, with several threads where
 * that pays off. They zero pages, which is most of the cost of registering memory. They run near `node` and have ended
 * when this returns. Contents do not change. *out_threads (may be NULL) is the number of threads. Returns 0;
 * -KV_ENOTSUP (Linux before 5.14 has no call for it: nothing was done); -KV_ENOMEM (no pages); -KV_EINVAL (not mapped,
 * or not writable). */
int kv_memory_populate(void *base, uint64_t len_bytes, int node, unsigned *out_threads);

/* kv_memory_mapped -- check in /proc/self/maps that all of [base, base + len) is mapped, readable and writable, and,
 * from Linux 5.14 on, that no file ends before its mapping. Returns 0 (also where /proc is missing), or -KV_EINVAL with
 * a sentence that says where it is not. */
int kv_memory_mapped(const void *base, uint64_t len_bytes, struct kv_error *err);

/* kv_memory_available -- MemAvailable, lowered to the bytes that the cgroup (v1 or v2) still allows. */
uint64_t kv_memory_available(void);
uint64_t kv_memory_rss_peak(void); /* VmHWM of this process, bytes */
uint64_t kv_memory_rss(void);      /* VmRSS of this process, bytes */
unsigned kv_cpus_available(void);  /* CPUs this process may run on (sched_getaffinity, cgroup quota rounded up) */

/* kv_cpu_name -- what the kernel calls the processors in /proc/cpuinfo, with family and model, or on ARM the numbers of
 * implementer and part. Returns buf; "" where it does not say. */
const char *kv_cpu_name(const char *root, char *buf, size_t cap);

/* kv_host_id -- 16 bytes that are equal for two processes of one running kernel and network namespace (boot id and
 * netns inode), and different otherwise. */
void kv_host_id(uint8_t out[16]);

#endif
