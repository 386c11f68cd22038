/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c -- waiting until servers have the pages of their memory (kv-server --prefault background): a PUT into a new
 * page measures how fast the kernel makes pages. */
#include "kvbench/measure/pages.h"

#include <string.h>
#include <time.h>

#include "base/base.h"
#include "kvclient/kvclient.h"

enum { ITEMS_MAX = 256, LOOK_MS = 50 };

static uint64_t left_at(struct kvc_pool *pool, unsigned server)
{
	struct kvc_stat_item item[ITEMS_MAX];
	struct kvc_call call = {.size = sizeof(call), .server = server};
	int n = kvc_stat(pool, item, ITEMS_MAX, &call);
	for (int i = 0; i < n; i++)
		if (strcmp(item[i].name, "prefault_left_bytes") == 0)
			return item[i].value;
	return 0;
}

static uint64_t left_in_all(struct kvc_pool *pool, unsigned servers)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < servers; i++)
		sum += left_at(pool, i);
	return sum;
}

uint64_t bench_pages_wait(struct kvc_pool *pool, unsigned servers, uint64_t limit_ns)
{
	uint64_t end_ns = kv_deadline(kv_clock_now(&kv_clock_monotonic), limit_ns), left;
	while ((left = left_in_all(pool, servers)) > 0 && kv_clock_now(&kv_clock_monotonic) < end_ns)
		nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
	return left;
}
