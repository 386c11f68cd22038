/* SPDX-License-Identifier: Apache-2.0 */
/* rate.c -- a window that begins with its first event.
 *
 * Rejected: a token bucket. It lets lines through one by one while trouble lasts, evenly, where one wants a few whole
 * ones from its beginning; and its state is harder to say in a test. */
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
