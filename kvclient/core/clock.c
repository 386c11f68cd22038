/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c -- a lower bound of a server's clock: a reading is old by its message's travel time, and two clocks drift
 * apart by DRIFT at most. The highest bound is the best. A reading lower by BEHIND_NS (a server's machine stood still,
 * or a slow network) replaces the bound, and so does any after OLD_NS. The time of day would not do: it jumps. */
#include "kvclient/core/clock.h"

#include "base/base.h"

enum { DRIFT = 1000 }; /* one part in DRIFT */

#define BEHIND_NS 1000000000ull
#define OLD_NS    30000000000ull

uint64_t kc_clock_at(const struct kc_clock *k, uint64_t at_ns)
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

void kc_clock_take(struct kc_clock *k, uint64_t server_ns, uint64_t now_ns)
{
	uint64_t known = kc_clock_at(k, now_ns);
	if (server_ns == 0)
		return;
	if (server_ns < known && known - server_ns < BEHIND_NS && now_ns - k->client_ns < OLD_NS)
		return;
	*k = (struct kc_clock){server_ns, now_ns};
}
