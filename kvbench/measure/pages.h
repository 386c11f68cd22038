/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h -- waiting until servers have the pages of their memory. Thread: main. */
#ifndef KVRAIL_KVBENCH_MEASURE_PAGES_H
#define KVRAIL_KVBENCH_MEASURE_PAGES_H

#include <stdint.h>

struct kvc_pool;

/* bench_pages_wait -- wait until no server makes pages in the background any more, or for at most limit_ns. Returns the
 * bytes without pages; 0 also where a server does not report them. */
uint64_t bench_pages_wait(struct kvc_pool *pool, unsigned servers, uint64_t limit_ns);

#endif
