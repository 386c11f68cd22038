/* SPDX-License-Identifier: Apache-2.0 */
/* rate.h -- how many lines of one kind a log is given: a few per second, and the number of those left out. */
#ifndef KVRAIL_BASE_RATE_H
#define KVRAIL_BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed is new. One owner; no locks. */
struct kv_rate {
	uint64_t from_ns;    /* when the present second began */
	uint32_t taken;      /* in it */
	uint64_t suppressed; /* since the last one that was let through */
};

/* kv_rate_take -- whether one more is let through at now_ns: at most `per_second` in a second that begins with the
 * first one after the last such second. If so *out_suppressed is how many were not, since the last that was; if not, it
 * is counted. */
bool kv_rate_take(struct kv_rate *r, uint64_t now_ns, uint32_t per_second, uint64_t *out_suppressed);

#endif
