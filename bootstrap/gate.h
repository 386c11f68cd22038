/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h -- one computation in GATE_TURNS turns of a loop, shared fairly. Private to bootstrap/ (tests excepted).
 * Thread: the loop's. */
#ifndef KVRAIL_BOOTSTRAP_GATE_H
#define KVRAIL_BOOTSTRAP_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"

enum {
	GATE_TURNS = 8,    /* turns from one computation to the next */
	GATE_SOURCES = 256 /* sources whose last tag is remembered */
};

/* The coroutines that wait, the lowest tag first; see gate.c. */
struct gate_queue {
	struct kv_list waiting;
	uint64_t tag; /* of the last one that was let through */
	struct {
		uint64_t source, tag;
	} last[GATE_SOURCES];
};

struct gate {
	bool held;                      /* one coroutine is going through; others queue */
	bool begun_last;                /* the last one let through was in a later step */
	uint64_t next;                  /* first turn of the loop in which the next one may compute */
	uint64_t passed;                /* number let through in all */
	struct gate_queue fresh, begun; /* for first steps, and for later steps */
};

struct gate_comer {
	bool begun;
	uint64_t source; /* comers of one source share its share; kv_sockaddr_source derives it from an address */
	uint64_t deadline_ns;
};

void gate_init(struct gate *gate);

/* gate_pass_await -- wait until it is the caller's turn and nobody has computed in the last GATE_TURNS turns of the
 * loop. Sources take turns, and so do first and later steps. The caller then computes once, before it parks again.
 * There is no call to leave the gate. Returns 0, -KV_ETIMEOUT, or -KV_ECANCELED when the caller was woken (co_wake)
 * while it waited. */
int gate_pass_await(struct gate *gate, struct loop *loop, const struct gate_comer *comer);

#endif
