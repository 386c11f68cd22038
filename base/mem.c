/* SPDX-License-Identifier: Apache-2.0 */
/* mem.c -- page-backed areas.
 *
 * Invariant: an area that was handed out never gives SIGBUS. A hugetlb mapping without MAP_NORESERVE reserves its pages
 * when it is made; what a reservation does not cover (the limit of a hugetlb cgroup, a cpuset, a poisoned page) shows
 * up when the pages are touched, so they are touched right away with MADV_POPULATE_WRITE, which returns an error where
 * a plain store would be killed. Kernels before 5.14 know no such call, and there the reservation has to do.
 * Free pages are counted first, because some kernels (gVisor) accept MAP_HUGETLB and ignore it.
 * Rejected: MAP_POPULATE, whose failures are silent. */
#include "base/mem.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/machine.h"
#include "base/units.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE_4K ((uint64_t)4096)
#define PAGE_2M ((uint64_t)2 << 20)
#define PAGE_1G ((uint64_t)1 << 30)

enum { AREA_PROT = PROT_READ | PROT_WRITE, AREA_FLAGS = MAP_PRIVATE | MAP_ANONYMOUS };

/* hugetlb_map -- len bytes of reserved pages of page_bytes, or NULL when they are not to be had. */
static void *hugetlb_map(uint64_t len, uint64_t page_bytes)
{
	if (len % page_bytes != 0 || kv_hugepages_free("", page_bytes) < len / page_bytes)
		return NULL;
	int log2 = 63 - __builtin_clzll(page_bytes);
	void *p = mmap(NULL, len, AREA_PROT, AREA_FLAGS | MAP_HUGETLB | (log2 << MAP_HUGE_SHIFT), -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (madvise(p, len, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
		return p;
	munmap(p, len);
	return NULL;
}

/* plain_map -- len bytes of ordinary pages, aligned so that the kernel can make them transparent huge ones. */
static void *plain_map(uint64_t len)
{
	uint64_t room = len + PAGE_2M;
	uint8_t *p = mmap(NULL, room, AREA_PROT, AREA_FLAGS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	uint64_t head = kv_align_up((uint64_t)(uintptr_t)p, PAGE_2M) - (uint64_t)(uintptr_t)p;
	if (head > 0)
		munmap(p, head);
	if (head < PAGE_2M)
		munmap(p + head + len, PAGE_2M - head);
	/* Advice: a kernel without transparent huge pages refuses it, and the area is good all the same. */
	(void)madvise(p + head, len, MADV_HUGEPAGE);
	return p + head;
}

/* What both kinds of area check and say. */
static int area_map(uint64_t len_bytes, bool hugetlb, struct kv_area *out, struct kv_error *err)
{
	char size[32];
	kv_size_format(len_bytes, size, sizeof(size));
	if (len_bytes == 0)
		return kv_fail(err, -KV_EINVAL, "cannot map an area of 0 bytes");
	if (len_bytes > UINT64_MAX / 4) /* room for the rounding below */
		return kv_fail(err, -KV_ENOMEM, "cannot map %s of memory: no address space is that large", size);
	uint64_t len = kv_align_up(len_bytes, PAGE_2M), page = PAGE_1G;
	void *base = hugetlb ? hugetlb_map(len, page) : NULL;
	if (!base && hugetlb)
		base = hugetlb_map(len, page = PAGE_2M);
	if (!base)
		base = plain_map(len), page = PAGE_4K;
	if (!base)
		return kv_fail(err, -KV_ENOMEM, "cannot map %s of memory: %s; ask for less, or free memory", size,
			       kv_strerror(errno));
	*out = (struct kv_area){.base = base, .len_bytes = len, .page_bytes = page};
	return 0;
}

int kv_area_map(uint64_t len_bytes, struct kv_area *out, struct kv_error *err)
{
	return area_map(len_bytes, true, out, err);
}

int kv_area_map_lazy(uint64_t len_bytes, struct kv_area *out, struct kv_error *err)
{
	return area_map(len_bytes, false, out, err);
}

void kv_area_unmap(struct kv_area *area)
{
	if (area->base)
		munmap(area->base, area->len_bytes);
	*area = (struct kv_area){0};
}
