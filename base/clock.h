/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h -- monotonic time in nanoseconds; a simulation provides its own. */
#ifndef KVRAIL_BASE_CLOCK_H
#define KVRAIL_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>

struct kv_clock {
	uint64_t (*now_ns)(const struct kv_clock *clock);
};

extern const struct kv_clock kv_clock_monotonic; /* CLOCK_MONOTONIC */

static inline uint64_t kv_clock_now(const struct kv_clock *clock)
{
	return clock->now_ns(clock);
}

/* kv_now -- of kv_clock_monotonic. */
static inline uint64_t kv_now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

/* kv_wall_now -- nanoseconds since 1970: a clock that is set at times. */
uint64_t kv_wall_now(void);

/* kv_cond_init -- a condition variable whose waits end by CLOCK_MONOTONIC: a clock set back would prolong them. */
void kv_cond_init(pthread_cond_t *cond);

/* kv_deadline -- now + timeout, saturating at KV_NEVER. */
uint64_t kv_deadline(uint64_t now_ns, uint64_t timeout_ns);

#endif
