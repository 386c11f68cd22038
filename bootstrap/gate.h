/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h -- one computation in GATE_TURNS turns of a loop, shared fairly. Private to bootstrap/ and tests. Thread: the
 * loop's. */
#ifndef KVRAIL_BOOTSTRAP_GATE_H
#define KVRAIL_BOOTSTRAP_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"

enum {
	GATE_TURNS = 8,    /* turns between computations */
	GATE_SOURCES = 256 /* remembered last tags */
};

/* Waiting coroutines, lowest tag first. */
struct gate_queue {
	struct kv_list waiting;
	uint64_t tag;
	struct {
		uint64_t source, tag;
	} last[GATE_SOURCES];
};

struct gate {
	bool held;
	bool begun_last;                /* the last one was in a later step */
	uint64_t next;                  /* turn of the loop from which the next one may compute */
	uint64_t passed;                /* comers let through */
	struct gate_queue fresh, begun; /* for first steps, and for later steps */
};

struct gate_comer {
	bool begun;
	uint64_t source;
	uint64_t deadline_ns;
};

void gate_init(struct gate *gate);

/* gate_pass_await -- wait for the caller's turn, GATE_TURNS turns after the last computation. The caller then computes
 * once before it parks. There is no call to leave. Returns 0, -KV_ETIMEOUT, or -KV_ECANCELED (co_wake while it waited).
 */
int gate_pass_await(struct gate *gate, struct loop *loop, const struct gate_comer *comer);

#endif
