/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c -- the real monotonic clock. It is CLOCK_MONOTONIC and not _RAW, because the former needs no system call on
 * any machine. */
#include "base/clock.h"

#include <time.h>

#include "base/limits.h"

static uint64_t monotonic_now(const struct kv_clock *clock)
{
	(void)clock;
	struct timespec now;
	/* Cannot fail: the clock id is fixed and the address is ours. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const struct kv_clock kv_clock_monotonic = {.now_ns = monotonic_now};

uint64_t kv_deadline(uint64_t now_ns, uint64_t timeout_ns)
{
	/* The sum saturates at KV_NEVER; a timeout of KV_NEVER gives the same. */
	return timeout_ns > KV_NEVER - now_ns ? KV_NEVER : now_ns + timeout_ns;
}
