/* SPDX-License-Identifier: Apache-2.0 */
/* rate.c -- a window that begins with its first event: unlike a token bucket it lets consecutive lines through. */
#include "base/rate.h"

#define SECOND_NS 1000000000ull

bool kv_rate_take(struct kv_rate *r, uint64_t now_ns, uint32_t per_second, uint64_t *out_suppressed)
{
	if (r->taken == 0 || now_ns - r->from_ns >= SECOND_NS) {
		r->from_ns = now_ns;
		r->taken = 0;
	}
	if (r->taken >= per_second) {
		r->suppressed++;
		return false;
	}
	r->taken++;
	*out_suppressed = r->suppressed;
	r->suppressed = 0;
	return true;
}
