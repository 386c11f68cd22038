/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c -- touching and counting pages, and gaps to map them in.
 *
 * Several threads touch pages, near the area's node: where mbind is forbidden, the first touch decides the place.
 *
 * A collapse (MADV_COLLAPSE, Linux 6.1) copies pages into a huge one, on the node that most of them are on. Where none
 * are, the kernel refuses it, so one page of each stretch is touched first. */
#include "host/pages.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/base.h"
#include "host/machine.h"
#include "host/memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define SLICE ((uint64_t)128 << 20)

enum { THREADS_MAX = 16, THREAD_STACK = 256 << 10 };

struct crew {
	uint8_t *base;
	uint64_t len;
	int node;
	bool collapse;
	_Atomic uint64_t next; /* the next slice */
	_Atomic int status;    /* 0, or the first failure */
};

/* An atomic OR loses no store of another thread to the same byte, but ThreadSanitizer reports the two. */
__attribute__((no_sanitize_thread)) int kv_pages_collapse(void *base, uint64_t len)
{
	for (uint64_t at = 0; at < len; at += PAGE_2M)
		__atomic_fetch_or((uint8_t *)base + at, 0, __ATOMIC_RELAXED);
	return madvise(base, len, MADV_COLLAPSE) == 0 ? 0 : -errno;
}

/* ---- several threads ---- */

static void slices_touch(struct crew *c)
{
	while (atomic_load(&c->status) == 0) {
		uint64_t at = atomic_fetch_add(&c->next, SLICE);
		if (at >= c->len)
			return;
		if (c->collapse)
			(void)kv_pages_collapse(c->base + at, KV_MIN(SLICE, c->len - at));
		if (madvise(c->base + at, KV_MIN(SLICE, c->len - at), MADV_POPULATE_WRITE) != 0) {
			int none = 0;
			atomic_compare_exchange_strong(&c->status, &none, -errno);
		}
	}
}

static void *crew_thread(void *arg)
{
	struct crew *c = arg;
	if (c->node != KV_NODE_ANY)
		(void)kv_numa_bind_thread("", c->node, NULL);
	slices_touch(c);
	return NULL;
}

/* Threads worth starting. */
static unsigned crew_size(uint64_t len)
{
	uint64_t slices = (len + SLICE - 1) / SLICE, cpus = kv_cpus_available();
	return (unsigned)KV_MIN(KV_MIN(slices / 2 + 1, cpus), (uint64_t)THREADS_MAX);
}

/* Start up to n threads without the host's signals; the others do the work of those that fail. */
static unsigned crew_start(struct crew *c, pthread_t *thread, unsigned n)
{
	unsigned started = 0;
	pthread_attr_t attr;
	sigset_t before;
	if (n == 0 || pthread_attr_init(&attr) != 0)
		return 0;
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	kv_signals_block(&before);
	while (started < n && pthread_create(&thread[started], &attr, crew_thread, c) == 0)
		started++;
	kv_signals_restore(&before);
	pthread_attr_destroy(&attr);
	return started;
}

/* This thread helps, unless the pages must be near a node. */
int kv_pages_touch(void *base, uint64_t len, int node, bool collapse, unsigned *out_threads)
{
	struct crew c = {.base = base, .len = len, .node = node, .collapse = collapse};
	pthread_t thread[THREADS_MAX];
	unsigned size = crew_size(len), away = node != KV_NODE_ANY && kv_numa_nodes("") > 1;
	unsigned started = size + away > 1 ? crew_start(&c, thread, size - 1 + away) : 0;
	if (!away || started == 0)
		slices_touch(&c);
	for (unsigned i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	if (out_threads)
		*out_threads = started + (!away || started == 0);
	return atomic_load(&c.status);
}

/* ---- hugetlb pages ---- */

/* Bytes of `len` that free pages of this size can hold. Far 1 GiB pages are not used: near small pages are better. Far
 * 2 MiB pages are, since they were set aside for use. */
uint64_t kv_pages_there(uint64_t len, uint64_t page_bytes, int node)
{
	uint64_t room = kv_cgroup_hugetlb_room("", page_bytes), pages = kv_hugepages_free("", page_bytes);
	if (pages == 0)
		return 0;
	if (page_bytes == PAGE_1G && node != KV_NODE_ANY && kv_numa_nodes("") > 1)
		pages = KV_MIN(pages, kv_hugepages_free_on("", node, page_bytes));
	pages = KV_MIN(pages, room / page_bytes);
	return KV_MIN(pages, len / page_bytes) * page_bytes;
}

/* ---- address space ---- */

void *kv_gap_find(uint64_t len, uint64_t align)
{
	void *p = mmap(NULL, len + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	munmap(p, len + align);
	return (void *)(uintptr_t)kv_align_up((uint64_t)(uintptr_t)p, align);
}

int kv_gap_map(void *gap, uint64_t len, int prot, int flags, int fd)
{
	void *p = mmap(gap, len, prot, flags | MAP_FIXED_NOREPLACE, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	if (p == gap)
		return 0;
	munmap(p, len); /* kernels before 4.17 take it as a hint */
	return -EEXIST;
}
