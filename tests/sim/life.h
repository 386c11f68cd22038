/* SPDX-License-Identifier: Apache-2.0 */
/* life.h -- the whole life of a world that a seed chooses: it is opened, used, troubled, checked and closed. For
 * seeds.c. */
#ifndef KVRAIL_TESTS_SIM_LIFE_H
#define KVRAIL_TESTS_SIM_LIFE_H

#include <stdint.h>

#include "tests/sim/gremlin.h"

enum { LIFE_CALLS = 1000 }; /* of every world, at least */

/* What kind of world. The seed says everything else. */
enum life_kind { LIFE_CALM, LIFE_SMALL, LIFE_TROUBLED, LIFE_ANY };

/* What happened: sums. */
struct life_report {
	uint64_t worlds[3]; /* without trouble; with little memory; with trouble */
	uint64_t virtual_ns;
	uint64_t calls, bytes, misses, failed, timeouts, downs, closed, sessions_opened, sessions_refused;
	uint64_t retries, cancels, fences, reconnects, reattaches, stale_immediates;
	uint64_t local_gets, local_puts, local_refusals, local_connects, local_refused, local_broken;
	uint64_t messages, writes, reads, landings, late_landings, late_pieces;
	uint64_t eagain, failures, dropped, rebuilds, slow_closes, mr_failures, duplicates, duplicate_requests,
		replayed_frames;
	uint64_t evictions, server_cancels, expired_requests, server_fences;
	uint64_t trouble[TROUBLES];
};

/* life_run -- inside a cmocka test: what is wrong fails it. Returns the hash of all that happened. */
uint64_t life_run(struct world *w, uint64_t seed, enum life_kind kind, struct life_report *out);

#endif
