/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c -- what a server said of its clock was true when it said it, so it is less than true when it comes: by the
 * time that the message took. Clocks of two hosts run apart by DRIFT at most, forwards and backwards from there. So
 * each answer is a bound, and the highest one is the best.
 *
 * A server whose machine stood still has a clock that fell behind all earlier bounds. An answer that is lower by more
 * than BEHIND_NS tells of that, or of a slow network; it replaces the bound in either case, and so does any answer
 * after OLD_NS. (Rejected: the time of day, which jumps.) */
#include "kvclient/core/clock.h"

#include "base/base.h"

enum { DRIFT = 1000 }; /* one in so many */

#define BEHIND_NS 1000000000ull
#define OLD_NS    30000000000ull

uint64_t kvc_clock_at(const struct kvc_clock *k, uint64_t at_ns)
{
	uint64_t apart, drift, at;

	if (k->server_ns == 0)
		return 1;
	if (at_ns >= k->client_ns) {
		apart = at_ns - k->client_ns;
		return k->server_ns + apart - apart / DRIFT;
	}
	apart = k->client_ns - at_ns;
	drift = apart + apart / DRIFT;
	at = k->server_ns - KV_MIN(drift, k->server_ns);
	return KV_MAX(at, (uint64_t)1);
}

void kvc_clock_take(struct kvc_clock *k, uint64_t server_ns, uint64_t now_ns)
{
	uint64_t known = kvc_clock_at(k, now_ns);

	if (server_ns == 0)
		return;
	if (server_ns < known && known - server_ns < BEHIND_NS && now_ns - k->client_ns < OLD_NS)
		return;
	*k = (struct kvc_clock){server_ns, now_ns};
}
