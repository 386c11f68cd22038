/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c -- large areas of memory, made of pages.
 *
 * Invariant: an area never gives SIGBUS. A hugetlb mapping reserves its pages, but a cgroup limit, cpuset or poisoned
 * page shows only at the touch. So all are touched at once with MADV_POPULATE_WRITE, which returns an error; before
 * Linux 5.14 MAP_POPULATE, then mincore. On failure smaller pages are mapped. Free pages are counted first, since some
 * kernels (gVisor) ignore MAP_HUGETLB.
 *
 * An area may have pages of all sizes, the largest first. The pieces are mapped side by side into a gap with
 * MAP_FIXED_NOREPLACE; if another thread takes the gap, another is tried. (MAP_FIXED over a reservation could take the
 * place of a thread of the host.) */
#include "host/memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "host/machine.h"
#include "host/pages.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

enum {
	AREA_PROT = PROT_READ | PROT_WRITE,
	AREA_FLAGS = MAP_PRIVATE | MAP_ANONYMOUS,
	GAP_TRIES = 4,
	RESIDENT_PAGES = 65536 /* pages per call of mincore */
};

int kv_memory_populate(void *base, uint64_t len_bytes, int node, unsigned *out_threads)
{
	uint64_t from = (uint64_t)(uintptr_t)base & ~(PAGE_4K - 1);
	uint64_t to = kv_align_up((uint64_t)(uintptr_t)base + len_bytes, PAGE_4K);
	if (len_bytes == 0)
		return 0;
	/* The range is whole pages, so -EINVAL means an unknown call. */
	int rc = kv_pages_touch((void *)(uintptr_t)from, to - from, node, false, out_threads);
	if (rc == -EINVAL)
		return -KV_ENOTSUP;
	if (rc == -EFAULT)
		return -KV_EINVAL;
	return rc < 0 ? -KV_ENOMEM : 0;
}

/* ---- pieces of an area ---- */

static bool resident(uint8_t *base, uint64_t len)
{
	uint64_t step = RESIDENT_PAGES * PAGE_4K;
	unsigned char *there = malloc(RESIDENT_PAGES);
	bool all = there != NULL;
	for (uint64_t at = 0; all && at < len; at += step) {
		uint64_t n = KV_MIN(step, len - at);
		all = mincore(base + at, n, there) == 0;
		for (uint64_t i = 0; all && i < n / PAGE_4K; i++)
			all = there[i] & 1;
	}
	free(there);
	return all;
}

static int map_at(uint8_t *at, uint64_t len, int flags)
{
	return kv_gap_map(at, len, AREA_PROT, AREA_FLAGS | flags, -1);
}

static void wish(struct kv_area *area, uint8_t *at, uint64_t len)
{
	int rc = area->node == KV_NODE_ANY ? 0 : kv_numa_prefer_memory(at, len, area->node);
	if (rc < 0)
		area->node_error = rc;
}

/* Without MADV_POPULATE_WRITE: populate while mapping, by the thread's policy, then check. */
static int huge_at_old(struct kv_area *area, uint8_t *at, uint64_t len, int flags)
{
	struct kv_numa_saved saved;
	(void)kv_numa_prefer(area->node, &saved);
	int rc = map_at(at, len, flags | MAP_POPULATE);
	kv_numa_restore(&saved);
	if (rc < 0)
		return rc;
	if (resident(at, len)) {
		wish(area, at, len);
		return 0;
	}
	munmap(at, len);
	return -ENOMEM;
}

/* Map hugetlb pages here and touch all. 0, or -errno with nothing mapped. */
static int huge_at(struct kv_area *area, uint8_t *at, uint64_t len, uint64_t page_bytes)
{
	int flags = MAP_HUGETLB | (63 - __builtin_clzll(page_bytes)) << MAP_HUGE_SHIFT;
	int rc = map_at(at, len, flags);
	if (rc < 0)
		return rc;
	wish(area, at, len);
	rc = kv_pages_touch(at, len, area->node, false, NULL);
	if (rc == 0)
		return 0;
	munmap(at, len);
	return rc == -EINVAL ? huge_at_old(area, at, len, flags) : rc;
}

static void plain_advise(struct kv_area *area, uint8_t *at, uint64_t len)
{
	bool transparent = madvise(at, len, MADV_HUGEPAGE) == 0 && kv_hugepages_transparent("");
	wish(area, at, len);
	*(transparent ? &area->pages.transparent : &area->pages.plain) += len;
}

/* Fill the gap with 1 GiB pages, 2 MiB pages and ordinary ones. 0, -EEXIST (another thread took it) or -errno. The
 * mapped part begins at the gap and has area->len_bytes. */
static int gap_fill(struct kv_area *area, uint8_t *gap, uint64_t len)
{
	static const uint64_t sizes[] = {PAGE_1G, PAGE_2M};
	int rc;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		uint64_t huge = kv_pages_there(len - area->len_bytes, sizes[i], area->node);
		rc = huge ? huge_at(area, gap + area->len_bytes, huge, sizes[i]) : -ENOMEM;
		if (rc == -EEXIST)
			return rc;
		if (rc < 0)
			continue;
		*(i == 0 ? &area->pages.bytes_1g : &area->pages.bytes_2m) += huge;
		area->len_bytes += huge;
		area->page_bytes = sizes[i];
	}
	if (area->len_bytes == len)
		return 0;
	rc = map_at(gap + area->len_bytes, len - area->len_bytes, 0);
	if (rc < 0)
		return rc;
	plain_advise(area, gap + area->len_bytes, len - area->len_bytes);
	area->len_bytes = len;
	area->page_bytes = PAGE_4K;
	return 0;
}

static bool huge_map(uint64_t len, struct kv_area *area)
{
	const struct kv_area empty = *area;
	uint64_t align = kv_pages_there(len, PAGE_1G, area->node) ? PAGE_1G : PAGE_2M;
	for (unsigned i = 0; i < GAP_TRIES; i++) {
		uint8_t *gap = kv_gap_find(len, align);
		*area = empty;
		if (gap && gap_fill(area, gap, len) == 0) {
			area->base = gap;
			return true;
		}
		if (gap && area->len_bytes)
			munmap(gap, area->len_bytes);
		align = i == GAP_TRIES / 2 ? PAGE_2M : align;
	}
	*area = empty;
	return false;
}

static bool plain_map(uint64_t len, struct kv_area *area)
{
	uint64_t room = len + PAGE_2M;
	uint8_t *p = mmap(NULL, room, AREA_PROT, AREA_FLAGS, -1, 0);
	if (p == MAP_FAILED)
		return false;
	uint64_t head = kv_align_up((uint64_t)(uintptr_t)p, PAGE_2M) - (uint64_t)(uintptr_t)p;
	if (head > 0)
		munmap(p, head);
	if (head < PAGE_2M)
		munmap(p + head + len, PAGE_2M - head);
	plain_advise(area, p + head, len);
	area->base = p + head;
	area->len_bytes = len;
	area->page_bytes = PAGE_4K;
	return true;
}

/* ---- areas ---- */

static int area_map(uint64_t len_bytes, int node, bool hugetlb, struct kv_area *out, struct kv_error *err)
{
	char size[32];
	struct kv_area area = {.node = node};
	kv_size_format(len_bytes, size, sizeof(size));
	if (len_bytes == 0)
		return kv_fail(err, -KV_EINVAL, "cannot map an area of 0 bytes");
	if (len_bytes > UINT64_MAX / 4) /* for the rounding below */
		return kv_fail(err, -KV_ENOMEM, "cannot map %s of memory: no address space is that large", size);
	uint64_t len = kv_align_up(len_bytes, PAGE_2M);
	bool pool = hugetlb && (kv_pages_there(len, PAGE_1G, node) || kv_pages_there(len, PAGE_2M, node));
	if (!(pool && huge_map(len, &area)) && !plain_map(len, &area))
		return kv_fail(err, -KV_ENOMEM,
			       "cannot map %s of memory: %s; ask for less, free memory, or look at ulimit -v", size,
			       kv_strerror(errno));
	*out = area;
	return 0;
}

int kv_area_map(uint64_t len_bytes, struct kv_area *out, struct kv_error *err)
{
	return area_map(len_bytes, KV_NODE_ANY, true, out, err);
}

int kv_area_map_on(uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err)
{
	return area_map(len_bytes, node, true, out, err);
}

int kv_area_map_lazy(uint64_t len_bytes, struct kv_area *out, struct kv_error *err)
{
	return area_map(len_bytes, KV_NODE_ANY, false, out, err);
}

void kv_area_unmap(struct kv_area *area)
{
	if (area->base)
		munmap(area->base, area->len_bytes);
	if (area->shared) {
		close(area->fd);
		free(area->ready);
	}
	*area = (struct kv_area){0};
}

void kv_pages_add(struct kv_pages *sum, const struct kv_pages *more)
{
	sum->bytes_1g += more->bytes_1g;
	sum->bytes_2m += more->bytes_2m;
	sum->transparent += more->transparent;
	sum->plain += more->plain;
}

char *kv_pages_format(const struct kv_pages *pages, char *buf, size_t cap)
{
	const struct {
		uint64_t bytes;
		const char *name;
	} kinds[] = {{pages->bytes_1g, "1 GiB pages"},
		     {pages->bytes_2m, "2 MiB pages"},
		     {pages->transparent, "transparent huge pages"},
		     {pages->plain, "4 KiB pages"}};
	char size[32];
	size_t at = 0;
	buf[0] = '\0';
	for (unsigned i = 0; i < KV_COUNT(kinds) && at < cap; i++)
		if (kinds[i].bytes)
			at += (size_t)snprintf(buf + at, cap - at, "%s%s in %s", at ? ", " : "",
					       kv_size_format(kinds[i].bytes, size, sizeof(size)), kinds[i].name);
	return buf;
}
