/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h -- the clock of a server, as its client knows it: times of ours become times of the server's that are not
 * later. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_CLOCK_H
#define KVRAIL_KVCLIENT_CORE_CLOCK_H

#include <stdint.h>

/* A clock of a server, zeroed until the server has told its time. */
struct kvc_clock {
	uint64_t server_ns; /* what the server said; 0: nothing yet */
	uint64_t client_ns; /* our time when that had come */
};

/* kvc_clock_take -- the server has said that its clock shows server_ns; it is now_ns here. */
void kvc_clock_take(struct kvc_clock *k, uint64_t server_ns, uint64_t now_ns);

/* kvc_clock_at -- what the server's clock showed at our time `at_ns`, or a little less; 1 if it is not known. */
uint64_t kvc_clock_at(const struct kvc_clock *k, uint64_t at_ns);

#endif
