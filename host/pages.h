/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h -- touching and counting pages, and gaps to map them in, for areas. Internal to host/. */
#ifndef KVRAIL_HOST_PAGES_H
#define KVRAIL_HOST_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE_4K ((uint64_t)4096)
#define PAGE_2M ((uint64_t)2 << 20)
#define PAGE_1G ((uint64_t)1 << 30)

/* kv_pages_touch -- make all pages of [base, base + len) with several threads near `node`; with `collapse` as huge
 * pages, where the kernel can. *out_threads may be NULL. 0 or -errno (-EINVAL: Linux before 5.14). */
int kv_pages_touch(void *base, uint64_t len, int node, bool collapse, unsigned *out_threads);

/* kv_pages_collapse -- turn whole stretches of 2 MiB into huge pages, present or not. Contents stay. 0 or -errno
 * (-EINVAL: Linux before 6.1). */
int kv_pages_collapse(void *base, uint64_t len);

/* kv_pages_there -- the bytes of `len` that free hugetlb pages of page_bytes can hold. */
uint64_t kv_pages_there(uint64_t len, uint64_t page_bytes, int node);

/* kv_gap_find -- a gap of the address space at a multiple of `align`, not reserved; NULL with errno. kv_gap_map -- map
 * exactly there. 0; -EEXIST: another thread took the gap; or -errno. */
void *kv_gap_find(uint64_t len, uint64_t align);
int kv_gap_map(void *gap, uint64_t len, int prot, int flags, int fd);

#endif
