/* SPDX-License-Identifier: Apache-2.0 */
/* rate.h -- limit the log lines of one kind to a few per second, and count the suppressed ones. */
#ifndef KVRAIL_BASE_RATE_H
#define KVRAIL_BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* A zeroed struct is ready for use. One owner; no locks. */
struct kv_rate {
	uint64_t from_ns;    /* when the present second began */
	uint32_t taken;      /* lines let through in this second */
	uint64_t suppressed; /* lines suppressed since the last one that was let through */
};

/* kv_rate_take -- whether one more line may pass at now_ns. At most `per_second` lines pass in one second, which begins
 * with the first line after the previous such second. On true, *out_suppressed is the number of lines suppressed since
 * the last one that passed; on false the line is counted as suppressed. */
bool kv_rate_take(struct kv_rate *r, uint64_t now_ns, uint32_t per_second, uint64_t *out_suppressed);

#endif
