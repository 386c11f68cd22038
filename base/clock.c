/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c -- the real monotonic clock. CLOCK_MONOTONIC, since _RAW needs a system call on some machines. */
#include "base/clock.h"

#include <time.h>

#include "base/limits.h"

static uint64_t monotonic_now(const struct kv_clock *clock)
{
	(void)clock;
	struct timespec now;
	/* Cannot fail. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const struct kv_clock kv_clock_monotonic = {.now_ns = monotonic_now};

uint64_t kv_deadline(uint64_t now_ns, uint64_t timeout_ns)
{
	/* Saturates at KV_NEVER. */
	return timeout_ns > KV_NEVER - now_ns ? KV_NEVER : now_ns + timeout_ns;
}

void kv_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

uint64_t kv_wall_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}
