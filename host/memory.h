/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h -- large areas of memory (arenas, receive buffers, stacks), and facts about memory. */
#ifndef KVRAIL_HOST_MEMORY_H
#define KVRAIL_HOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "host/numa.h"

struct kv_pages {
	uint64_t bytes_1g, bytes_2m;
	uint64_t transparent, plain;
};
void kv_pages_add(struct kv_pages *sum, const struct kv_pages *more);
/* kv_pages_format -- "3 GiB in 1 GiB pages, 512 MiB in 2 MiB pages, 64 MiB in transparent huge pages", or "4 KiB
 * pages". 160 bytes suffice. Returns buf. */
char *kv_pages_format(const struct kv_pages *pages, char *buf, size_t cap);

struct kv_area {
	void *base;            /* 2 MiB aligned */
	uint64_t len_bytes;    /* rounded up to 2 MiB */
	uint64_t page_bytes;   /* of its smallest pages: 1 GiB, 2 MiB (hugetlb), or 4096 */
	struct kv_pages pages; /* of the whole area */
	int node;              /* the wanted NUMA node, or KV_NODE_ANY */
	int node_error;        /* -errno: placement is forbidden, the first touch decides; else 0 */
	bool shared;           /* it is a memfd: kv_area_map_shared */
	bool kept;             /* shared, and may outlive this process: kept.c */
	int fd;                /* the memfd or file, if shared; else meaningless */
	uint64_t *ready;       /* of kv_area_ready; NULL: nothing to do */
};

/* kv_area_map -- map private zeroed memory. Free hugetlb pages first, 1 GiB then 2 MiB, touched here, so that none
 * gives SIGBUS later; the rest are transparent huge pages, touched on use. 0, -KV_ENOMEM, or -KV_EINVAL for 0 bytes.
 * Thread: any. */
int kv_area_map(uint64_t len_bytes, struct kv_area *out, struct kv_error *err);
/* kv_area_map_on -- the same, from a NUMA node while it has room (or KV_NODE_ANY). */
int kv_area_map_on(uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err);
/* kv_area_map_lazy -- the same with transparent huge pages only, touched on use: for tables that grow while serving. */
int kv_area_map_lazy(uint64_t len_bytes, struct kv_area *out, struct kv_error *err);
/* kv_area_map_shared -- the same as kv_area_map_on, in a memfd that other processes may map and read, and never write:
 * its size is sealed, and so are later writable mappings and mprotect (F_SEAL_FUTURE_WRITE). Pages have one size: of a
 * hugetlb pool if all fit there. Errors: also -KV_ENOTSUP, the kernel has no such seal (Linux before 5.1), or strict
 * memory accounting; -KV_ELIMIT, no descriptor. kv_area_map_landing -- the same for one other process that may write.
 */
int kv_area_map_shared(uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err);
int kv_area_map_landing(uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err);
/* kv_area_map_kept -- as kv_area_map_shared, but a later process can write to it, which gets the descriptor from a
 * service manager or from this process. The size is sealed. Other processes get kept_reader's descriptors, which cannot
 * write. kv_area_adopt -- map such memory again, or a file of kv_kept_open. The descriptor is the area's on success.
 * Errors: also -KV_EINVAL, it is smaller than len_bytes, or no memory. kv_area_adopt_bare -- the same for a file of
 * kv_kept_make: only pages of kv_kept_give may be touched. */
int kv_area_map_kept(uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err);
int kv_area_adopt(int fd, uint64_t len_bytes, int node, struct kv_area *out, struct kv_error *err);
int kv_area_adopt_bare(int fd, uint64_t len_bytes, struct kv_area *out, struct kv_error *err);
/* kv_area_ready -- before [offset, offset + len) of an area is first written: where the kernel makes huge pages of
 * shared memory only on request (MADV_COLLAPSE), make those here, once per 2 MiB. Contents stay. Cheap when done, and
 * for areas of other kinds. Thread: any. kv_area_populate -- make all pages of an area now, in this way, with several
 * threads: kv_memory_populate would make small ones. 0, -KV_ENOTSUP, -KV_ENOMEM. */
void kv_area_ready(const struct kv_area *area, uint64_t offset, uint64_t len_bytes);
int kv_area_populate(const struct kv_area *area, unsigned *out_threads);
void kv_area_unmap(struct kv_area *area); /* harmless on a zeroed struct */

/* ---- memory between processes ---- */

/* kv_memfd_make -- a memfd of len_bytes, zeroed, of sealed size, close-on-exec. name: for /proc. kv_memfd_check --
 * whether a received descriptor is such memory of at least len_bytes: a shorter file would raise SIGBUS. A file of
 * tmpfs or hugetlbfs, open for reading alone, is accepted if only root or this user may shorten it. kv_memfd_map -- map
 * it, aligned for huge pages; munmap undoes it. Thread: any. Errors: -KV_ELIMIT (no descriptor), -KV_ENOMEM,
 * -KV_ENOTSUP (not on this machine), -KV_EPROTO (received memory is something else). */
int kv_memfd_make(const char *name, uint64_t len_bytes, int *out_fd, struct kv_error *err);
int kv_memfd_check(int fd, uint64_t len_bytes, struct kv_error *err);
int kv_memfd_map(int fd, uint64_t len_bytes, bool writable, void **out, struct kv_error *err);

/* ---- memory that outlives a process ---- */

/* kv_kept_open -- a file for an area, on tmpfs or hugetlbfs, readable by this user alone, with all of its memory. An
 * existing one keeps its bytes if it has the right size and `anew` is not set; otherwise another file takes its place:
 * processes that have mapped the former one keep it. *out_fresh: it has no bytes. Errors: -KV_EINVAL (another file
 * system, another user's file, no regular file), -KV_ENOMEM (the file system is full), -errno. */
int kv_kept_open(const char *path, uint64_t len_bytes, bool anew, int *out_fd, bool *out_fresh, struct kv_error *err);

/* kv_kept_find -- an existing file of kv_kept_open, of any size. -KV_ENOTFOUND: none; else as kv_kept_open.
 * kv_kept_resize -- give it another size, for an area of len_bytes; nobody uses bytes beyond. On errors it has its
 * size. */
int kv_kept_find(const char *path, int *out_fd, struct kv_error *err);
int kv_kept_resize(int fd, const char *path, uint64_t len_bytes, struct kv_error *err);

/* kv_kept_make -- a new file for an area, without memory; an existing one is removed. Errors as kv_kept_open.
 * kv_kept_give -- make its pages of [from, to). kv_kept_release -- give back whole pages of [from, to); their bytes are
 * lost. Nothing happens where the kernel cannot. kv_kept_page -- the size of the pages it can give back, at least 2
 * MiB. kv_kept_bytes -- the memory it has. */
int kv_kept_make(const char *path, uint64_t len_bytes, int *out_fd, struct kv_error *err);
int kv_kept_give(int fd, const char *path, uint64_t from, uint64_t to, struct kv_error *err);
void kv_kept_release(int fd, uint64_t from, uint64_t to);
uint64_t kv_kept_page(int fd);
uint64_t kv_kept_bytes(int fd);

/* kv_kept_lock -- be the only owner of path, until the descriptor is closed in all processes that have it: a lock on
 * PATH.lock. -KV_EEXIST: another process is; -errno. */
int kv_kept_lock(const char *path, int *out_fd, struct kv_error *err);

/* kv_kept_reader -- a descriptor of a kept area for another process, which can only read. The kernel knows until all
 * copies and mappings of it are gone that a reader of this generation is left. Returns it, to be closed, or -errno.
 * kv_kept_read -- whether a reader of an earlier generation than this is left; fd: the area's. */
int kv_kept_reader(const struct kv_area *area, uint64_t generation);
bool kv_kept_read(int fd, uint64_t generation);

/* kv_memory_populate -- make every page of [base, base + len) now, with several threads near `node`. Contents stay.
 * *out_threads may be NULL. 0; -KV_ENOTSUP (Linux before 5.14); -KV_ENOMEM; -KV_EINVAL (not mapped or writable). */
int kv_memory_populate(void *base, uint64_t len_bytes, int node, unsigned *out_threads);

/* kv_memory_mapped -- 0 if all of [base, base + len) is mapped, readable and writable (or without /proc), else
 * -KV_EINVAL. */
int kv_memory_mapped(const void *base, uint64_t len_bytes, struct kv_error *err);

/* kv_memory_available -- MemAvailable, or less if the cgroup allows less. */
uint64_t kv_memory_available(void);
uint64_t kv_memory_rss_peak(void); /* VmHWM, bytes */
uint64_t kv_memory_rss(void);      /* VmRSS, bytes */
unsigned kv_cpus_available(void);  /* CPUs of this process (affinity, cgroup quota rounded up) */

/* kv_cpu_name -- the processors' name in /proc/cpuinfo, with family and model, or ARM's implementer and part. Returns
 * buf; "": unknown. */
const char *kv_cpu_name(const char *root, char *buf, size_t cap);

/* kv_host_id -- 16 bytes, equal for processes of one running kernel and network namespace (boot id, netns inode).
 * kv_boot_id -- equal for processes of one running kernel: containers share it. Neither is a secret. */
void kv_host_id(uint8_t out[16]);
void kv_boot_id(uint8_t out[16]);

#endif
