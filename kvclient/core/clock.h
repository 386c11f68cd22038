/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h -- converts our times to a server's clock, never too late. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_CLOCK_H
#define KVRAIL_KVCLIENT_CORE_CLOCK_H

#include <stdint.h>

/* Zeroed until the first reading. */
struct kc_clock {
	uint64_t server_ns; /* reading; 0: none yet */
	uint64_t client_ns; /* our time on arrival */
};

/* kc_clock_take -- take a reading that arrived at now_ns. */
void kc_clock_take(struct kc_clock *k, uint64_t server_ns, uint64_t now_ns);

/* kc_clock_at -- the server's clock at our time at_ns, or a little less; 1: unknown. */
uint64_t kc_clock_at(const struct kc_clock *k, uint64_t at_ns);

#endif
