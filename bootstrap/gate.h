/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h -- one computation in GATE_TURNS turns of a loop, shared out fairly. Private to bootstrap/ (tests excepted).
 * Thread: the loop's. */
#ifndef KVRAIL_BOOTSTRAP_GATE_H
#define KVRAIL_BOOTSTRAP_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"

enum {
	GATE_TURNS = 8,    /* from one computation to the next */
	GATE_SOURCES = 256 /* whose last place is remembered */
};

/* Who waits, those with the lowest tag first; see gate.c. */
struct gate_queue {
	struct kv_list waiting;
	uint64_t tag; /* of whoever was let through last */
	struct {
		uint64_t source, tag;
	} last[GATE_SOURCES];
};

struct gate {
	bool held;                      /* somebody is on its way through; others queue */
	bool begun_last;                /* who was let through last */
	uint64_t next;                  /* turn of the loop from which on somebody may compute */
	uint64_t passed;                /* in all */
	struct gate_queue fresh, begun; /* to begin, and to go on */
};

struct gate_comer {
	bool begun;
	uint64_t source; /* those of one source share its share; kv_sockaddr_source makes one of an address */
	uint64_t deadline_ns;
};

void gate_init(struct gate *gate);

/* gate_pass_await -- wait until nobody else has computed in the last GATE_TURNS turns of the loop and it is the
 * caller's turn: sources take turns, and so do those that begin and those that go on. The caller computes before it
 * parks again, once. The gate needs no leaving. Returns 0, -KV_ETIMEOUT, or -KV_ECANCELED: somebody woke the caller
 * (co_wake) while it waited. */
int gate_pass_await(struct gate *gate, struct loop *loop, const struct gate_comer *comer);

#endif
