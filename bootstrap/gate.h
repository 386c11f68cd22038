/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h -- one computation per turn of a loop. Private to bootstrap/ (tests excepted). Thread: the loop's. */
#ifndef KVRAIL_BOOTSTRAP_GATE_H
#define KVRAIL_BOOTSTRAP_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"

struct gate {
	bool held;                    /* somebody is on its way through; others queue */
	bool begun_last;              /* who was let through last */
	uint64_t turn;                /* of the loop, in which that was */
	uint64_t passed;              /* in all */
	struct co_queue fresh, begun; /* who waits: to begin, and to go on */
};

void gate_init(struct gate *gate);

/* gate_pass_await -- wait until nobody else has computed in this turn of the loop and it is the caller's turn: first come,
 * first served, those that begin and those that go on alternating. The caller computes before it parks again, once. The
 * gate needs no leaving. Returns 0 or -KV_ETIMEOUT. */
int gate_pass_await(struct gate *gate, struct loop *loop, bool begun, uint64_t deadline_ns);

#endif
