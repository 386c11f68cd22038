/* SPDX-License-Identifier: Apache-2.0 */
/* stepped_clock.c -- preloaded: the time of day jumps by an hour, to and fro, at each look at it, as no NTP does. With
 * STEPPED_SLEEP=SECONDS the machine has also been suspended for so long, once: some time after the first look at
 * CLOCK_BOOTTIME, whose neighbours may already see it. CLOCK_MONOTONIC is the kernel's. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { STEP_S = 3600, AWAKE_MS = 200 };

#define API __attribute__((visibility("default")))

static atomic_uint looks;
static atomic_llong first_ms;

/* Whether the sleep is over, which begins AWAKE_MS after the first call. */
static int slept(const struct timespec *booted)
{
	long long none = 0, ms = booted->tv_sec * 1000LL + booted->tv_nsec / 1000000;
	return !atomic_compare_exchange_strong(&first_ms, &none, ms) && ms - none >= AWAKE_MS;
}

API int clock_gettime(clockid_t id, struct timespec *ts)
{
	const char *sleep = getenv("STEPPED_SLEEP");
	int rc = (int)syscall(SYS_clock_gettime, id, ts);
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
		ts->tv_sec += atomic_fetch_add(&looks, 1) % 2 ? STEP_S : -STEP_S;
	if (id == CLOCK_BOOTTIME && sleep && slept(ts))
		ts->tv_sec += atoi(sleep);
	return rc;
}

API time_t time(time_t *out)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

API int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	*out = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
	return 0;
}
