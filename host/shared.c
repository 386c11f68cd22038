/* SPDX-License-Identifier: Apache-2.0 */
/* shared.c -- memory that other processes map: memfds.
 *
 * The size is sealed, because a shorter file would raise SIGBUS in all who map it. An area for readers is also sealed
 * against writers (F_SEAL_FUTURE_WRITE): only mappings made before the seal are writable, and these are ours.
 *
 * Invariant, as in memory.c: an area never gives SIGBUS. Pages of a hugetlb pool are touched at once, and nobody else
 * can punch holes into them. With strict accounting (vm.overcommit_memory 2) the kernel accounts for a page of a memfd
 * at its first touch, and a refusal is SIGBUS: such a machine gets no shared area.
 *
 * A memfd has pages of one size: of a pool if all fit there, else ordinary ones. Distributions disable transparent huge
 * pages of shared memory, but MADV_COLLAPSE (Linux 6.1) makes them on request: kv_area_ready. */
#include "host/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/base.h"
#include "host/machine.h"
#include "host/pages.h"
#include "host/proc_files.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

enum {
	SIZE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW,
	OVERCOMMIT_NEVER = 2,
	GAP_TRIES = 4,
	WORD_BITS = 64 /* of area.ready: a bit per PAGE_2M */
};

/* ---- memfds ---- */

/* Whoever may shorten this file, root or this user, may end this process as well. */
static bool of_no_stranger(int fd)
{
	struct stat st;
	struct statfs fs;
	return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY && fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC) && fstat(fd, &st) == 0 &&
	       S_ISREG(st.st_mode) && !(st.st_mode & (S_IWGRP | S_IWOTH)) && (st.st_uid == 0 || st.st_uid == geteuid());
}

static int refuse(int rc, const char *name, struct kv_error *err)
{
	switch (rc) {
	case -EMFILE:
	case -ENFILE:
		return kv_fail(err, -KV_ELIMIT, "no descriptor for shared memory (%s): raise the limit of open files",
			       name);
	case -ENOMEM:
		return kv_fail(err, -KV_ENOMEM, "no memory to share (%s)", name);
	case -EPERM:
	case -EACCES:
	case -ENOSYS:
		return kv_fail(
			err, -KV_ENOTSUP,
			"no shared memory (%s): memfd_create is forbidden here (%s); allow it in the seccomp profile "
			"of the container or service",
			name, kv_strerror(rc));
	default:
		return kv_fail(err, -KV_ENOTSUP, "this machine has no shared memory for other processes (%s): %s", name,
			       kv_strerror(rc));
	}
}

/* Returns the descriptor or -errno. vm.memfd_noexec may demand MFD_NOEXEC_SEAL, which kernels before 6.3 lack. */
static int memfd(const char *name, uint64_t len_bytes, unsigned flags)
{
	int fd = memfd_create(name, flags | MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL), rc;
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags | MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)len_bytes) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int kv_memfd_make(const char *name, uint64_t len_bytes, int *out_fd, struct kv_error *err)
{
	int fd = memfd(name, len_bytes, 0);
	if (fd < 0)
		return refuse(fd, name, err);
	if (fcntl(fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) == 0) {
		*out_fd = fd;
		return 0;
	}
	close(fd);
	return refuse(-ENOTSUP, name, err);
}

int kv_memfd_check(int fd, uint64_t len_bytes, struct kv_error *err)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if ((seals < 0 || (seals & SIZE_SEALS) != SIZE_SEALS) && !of_no_stranger(fd))
		return kv_fail(err, -KV_EPROTO, "a received descriptor is not shared memory of a sealed size");
	if (len_bytes == 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size < len_bytes)
		return kv_fail(err, -KV_EPROTO, "received memory is shorter than its %llu announced bytes",
			       (unsigned long long)len_bytes);
	return 0;
}

/* The size of its pages: hugetlb files report it as their block size. */
static uint64_t memfd_align(int fd)
{
	struct stat st;
	uint64_t size = fstat(fd, &st) == 0 ? (uint64_t)st.st_blksize : 0;
	return size > PAGE_2M && size <= PAGE_1G && (size & (size - 1)) == 0 ? size : PAGE_2M;
}

/* Aligned, so that huge pages are mapped as such; or anywhere, where other threads take each gap first. 0 or -errno. */
static int memfd_map(int fd, uint64_t len_bytes, bool writable, int flags, void **out)
{
	int rc = -EEXIST, prot = PROT_READ | (writable ? PROT_WRITE : 0);
	uint64_t align = memfd_align(fd);
	for (unsigned i = 0; i < GAP_TRIES && rc == -EEXIST; i++) {
		void *gap = kv_gap_find(len_bytes, align);
		rc = gap ? kv_gap_map(gap, len_bytes, prot, MAP_SHARED | flags, fd) : -errno;
		if (rc == 0)
			*out = gap;
	}
	if (rc != -EEXIST)
		return rc;
	*out = mmap(NULL, len_bytes, prot, MAP_SHARED | flags, fd, 0);
	return *out == MAP_FAILED ? -errno : 0;
}

static int map(int fd, uint64_t len_bytes, bool writable, int flags, void **out, struct kv_error *err)
{
	char size[32];
	void *base;
	int rc = memfd_map(fd, len_bytes, writable, flags, &base);
	if (rc)
		return kv_fail(err, rc == -EPERM || rc == -EACCES ? -KV_EPROTO : -KV_ENOMEM,
			       "cannot map %s of shared memory: %s", kv_size_format(len_bytes, size, sizeof(size)),
			       kv_strerror(rc));
	(void)madvise(base, len_bytes, MADV_HUGEPAGE);
	*out = base;
	return 0;
}

int kv_memfd_map(int fd, uint64_t len_bytes, bool writable, void **out, struct kv_error *err)
{
	return map(fd, len_bytes, writable, 0, out, err);
}

/* ---- areas ---- */

static void ready_begin(struct kv_area *area)
{
	uint64_t stretches = area->len_bytes / PAGE_2M;
	int rc = kv_pages_collapse(area->base, PAGE_2M);
	if (rc != -EINVAL && rc != -EPERM && rc != -ENOSYS) /* an old kernel; a seccomp profile */
		area->ready = calloc((stretches + WORD_BITS - 1) / WORD_BITS, sizeof(uint64_t));
	*(area->ready || kv_hugepages_shared("") ? &area->pages.transparent : &area->pages.plain) = area->len_bytes;
}

/* Map a memfd with these pages. 0, or -errno with nothing left. */
static int area_try(struct kv_area *area, uint64_t len, uint64_t page_bytes, int seals)
{
	bool huge = page_bytes != PAGE_4K;
	unsigned flags = huge ? MFD_HUGETLB | (63u - (unsigned)__builtin_clzll(page_bytes)) << MAP_HUGE_SHIFT : 0;
	int fd = memfd("kvrail-area", len, flags), rc;
	if (fd < 0)
		return fd;
	rc = memfd_map(fd, len, true, 0, &area->base);
	if (rc == 0 && area->node != KV_NODE_ANY)
		area->node_error = kv_numa_prefer_memory(area->base, len, area->node);
	if (rc == 0 && huge)
		rc = kv_pages_touch(area->base, len, area->node, false, NULL);
	if (rc == 0 && fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL) < 0)
		rc = errno == EINVAL ? -EOPNOTSUPP : -errno;
	if (rc == 0) {
		area->fd = fd;
		area->len_bytes = len;
		area->page_bytes = page_bytes;
		return 0;
	}
	if (area->base)
		munmap(area->base, len);
	*area = (struct kv_area){.node = area->node, .shared = true};
	close(fd);
	return rc;
}

static int area_of_pool(struct kv_area *area, uint64_t len, int seals)
{
	static const uint64_t sizes[] = {PAGE_1G, PAGE_2M};
	int rc = -ENOMEM;
	for (unsigned i = 0; i < KV_COUNT(sizes) && rc != 0; i++) {
		if (kv_pages_there(len, sizes[i], area->node) != len)
			continue;
		rc = area_try(area, len, sizes[i], seals);
		if (rc == 0)
			*(i == 0 ? &area->pages.bytes_1g : &area->pages.bytes_2m) = len;
	}
	return rc;
}

/* Checks and sentences. */
static int area_map(uint64_t len_bytes, int node, bool pool, int seals, struct kv_area *out, struct kv_error *err)
{
	char size[32];
	struct kv_area area = {.node = node, .shared = true};
	uint64_t len = kv_align_up(KV_MIN(len_bytes, UINT64_MAX / 4), PAGE_2M);
	int rc;
	kv_size_format(len_bytes, size, sizeof(size));
	if (len_bytes == 0)
		return kv_fail(err, -KV_EINVAL, "cannot map an area of 0 bytes");
	if (len_bytes > INT64_MAX / 2)
		return kv_fail(err, -KV_ENOMEM, "cannot map %s of memory: no address space is that large", size);
	if (kv_file_number(0, "/proc/sys/vm/overcommit_memory") == OVERCOMMIT_NEVER)
		return kv_fail(
			err, -KV_ENOTSUP,
			"cannot share memory: vm.overcommit_memory is 2, with which the kernel may refuse a page "
			"when it is first used");
	rc = pool ? area_of_pool(&area, len, seals) : -ENOMEM;
	if (rc)
		rc = area_try(&area, len, PAGE_4K, seals);
	if (rc == -EOPNOTSUPP)
		return kv_fail(err, -KV_ENOTSUP,
			       "cannot share memory: this kernel cannot seal it against writers (Linux 5.1 can)");
	if (rc == -ENOMEM)
		return kv_fail(err, -KV_ENOMEM,
			       "cannot map %s of memory: %s; ask for less, free memory, or look at ulimit -v", size,
			       kv_strerror(rc));
	if (rc)
		return refuse(rc, "area", err);
	if (area.page_bytes == PAGE_4K) {
		(void)madvise(area.base, len, MADV_HUGEPAGE);
		ready_begin(&area);
	}
	*out = area;
	return 0;
}

int kv_area_map_shared(uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err)
{
	return area_map(len_bytes, node, true, SIZE_SEALS | F_SEAL_FUTURE_WRITE, out, err);
}

/* Not of a pool: a writer may punch holes, and without a free page the pool would answer our next read with SIGBUS. */
int kv_area_map_landing(uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err)
{
	return area_map(len_bytes, node, false, SIZE_SEALS, out, err);
}

/* ---- kept areas (kept.c has their files) ---- */

int kv_area_map_kept(uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err)
{
	int rc = area_map(len_bytes, node, true, SIZE_SEALS, out, err);
	if (rc)
		return rc;
	out->kept = true;
	/* No seal can tell this program's next process from others: let the mode keep them from writing. */
	if (fchmod(out->fd, S_IRUSR | S_IWUSR) == 0)
		return 0;
	rc = -errno;
	kv_area_unmap(out);
	return kv_fail(err, rc, "cannot protect memory against other users: %s", kv_strerror(rc));
}

/* bare: without the pages of a pool. */
static int adopted_touch(struct kv_area *area, const struct statfs *fs, bool bare, struct kv_error *err)
{
	int rc;
	if (fs->f_type != HUGETLBFS_MAGIC) {
		area->page_bytes = PAGE_4K;
		ready_begin(area);
		return 0;
	}
	area->page_bytes = (uint64_t)fs->f_bsize;
	*(area->page_bytes == PAGE_1G ? &area->pages.bytes_1g : &area->pages.bytes_2m) = area->len_bytes;
	rc = bare ? 0 : kv_pages_touch(area->base, area->len_bytes, area->node, false, NULL);
	return rc && rc != -EINVAL ? kv_fail(err, -KV_ENOMEM, "no huge pages for kept memory: %s", kv_strerror(rc)) : 0;
}

static int adopt(int fd, uint64_t len_bytes, int node, bool bare, struct kv_area *out, struct kv_error *err)
{
	struct kv_area area = {.node = node, .shared = true, .kept = true, .fd = fd};
	struct statfs fs;
	struct stat st;
	int rc;
	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < len_bytes ||
	    st.st_size % (off_t)PAGE_2M)
		return kv_fail(err, -KV_EINVAL, "the kept memory has another size");
	area.len_bytes = (uint64_t)st.st_size;
	rc = map(fd, area.len_bytes, true, bare ? MAP_NORESERVE : 0, &area.base, err);
	if (rc)
		return rc;
	if (node != KV_NODE_ANY)
		area.node_error = kv_numa_prefer_memory(area.base, area.len_bytes, node);
	rc = adopted_touch(&area, &fs, bare, err);
	if (rc) {
		munmap(area.base, area.len_bytes);
		return rc;
	}
	*out = area;
	return 0;
}

int kv_area_adopt(int fd, uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err)
{
	return adopt(fd, len_bytes, node, false, out, err);
}

int kv_area_adopt_bare(int fd, uint64_t len_bytes, struct kv_area *out, struct kv_error *err)
{
	return adopt(fd, len_bytes, KV_NODE_ANY, true, out, err);
}

/* ---- huge pages on request ---- */

void kv_area_ready(const struct kv_area *area, uint64_t offset, uint64_t len_bytes)
{
	if (!area->ready || len_bytes == 0)
		return;
	KV_ASSERT_HOT(offset < area->len_bytes && len_bytes <= area->len_bytes - offset);
	for (uint64_t i = offset / PAGE_2M; i <= (offset + len_bytes - 1) / PAGE_2M; i++) {
		uint64_t *word = &area->ready[i / WORD_BITS], bit = 1ull << i % WORD_BITS;
		if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit)
			continue;
		/* Once: pinned pages, or a lack of huge ones, would fail again. */
		__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
		(void)kv_pages_collapse((uint8_t *)area->base + i * PAGE_2M, PAGE_2M);
	}
}

int kv_area_populate(const struct kv_area *area, unsigned *out_threads)
{
	int rc = kv_pages_touch(area->base, area->len_bytes, area->node, area->ready != NULL, out_threads);
	if (rc == -EINVAL)
		return -KV_ENOTSUP;
	return rc < 0 ? -KV_ENOMEM : 0;
}
