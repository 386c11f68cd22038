/* SPDX-License-Identifier: Apache-2.0 */
/* rate.h -- limit log lines of one kind per second, and count the others. */
#ifndef KVRAIL_BASE_RATE_H
#define KVRAIL_BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: ready. One owner; no locks. */
struct kv_rate {
	uint64_t from_ns;    /* begin of this second */
	uint32_t taken;      /* in this second */
	uint64_t suppressed; /* lines since the last one that passed */
};

/* kv_rate_take -- whether a line may pass at now_ns: `per_second` in a second that begins with a line. True:
 * *out_suppressed lines were suppressed before; false: this one is. */
bool kv_rate_take(struct kv_rate *r, uint64_t now_ns, uint32_t per_second, uint64_t *out_suppressed);

#endif
