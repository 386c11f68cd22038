/* SPDX-License-Identifier: Apache-2.0 */
/* responder.c -- the child: it answers as the present phase says, and polls without a pause, as its parent does.
 *
 * It ends when the parent closes the socket, also when the parent dies; then it closes in order, so that shared memory
 * does not stay behind. */
#include <sched.h>
#include <string.h>

#include "kvbench/fabric/end.h"
#include "kvbench/load/bench.h"
#include "kvbench/setup/signals.h"

enum { LOOK_EVERY = 256 }; /* idle turns between looks at the socket */

struct responder {
	struct end end;
	struct end_phase phase;
	struct end_op op;
	uint64_t messages, imms; /* that were answered */
};

/* 0, or a code: the run is over. */
static int next_phase(struct responder *r)
{
	int rc = end_receive(r->end.fd, &r->phase, sizeof(r->phase), bench_interrupted);
	r->messages = r->end.messages;
	r->imms = r->end.imms;
	return rc == 0 ? end_tell(r->end.fd, "r", 1) : rc;
}

static int answer(struct responder *r)
{
	struct end *e = &r->end;
	uint64_t wanted;
	switch ((enum end_mode)r->phase.mode) {
	case END_ECHO:
		if (r->messages < e->messages && end_send(e, e->last, (uint32_t)e->last_len) == 0)
			r->messages = e->messages;
		break;
	case END_ECHO_WRITES:
		if (e->imms - r->imms < r->phase.chunks || r->op.ended < r->op.begun)
			break;
		r->imms += r->phase.chunks;
		return end_xfer(e, &r->op, TE_WRITE, r->phase.size, r->op.begun);
	case END_SINK:
		memcpy(&wanted, e->last, sizeof(wanted));
		if (r->messages < e->messages && e->imms - r->imms >= wanted && end_send(e, "", 1) == 0)
			r->messages = e->messages;
		break;
	case END_QUIET:
		break;
	}
	return 0;
}

static void serve(struct responder *r)
{
	for (unsigned idle = 0; r->end.broken == 0 && !bench_interrupted();) {
		int events = te_poll(r->end.te);
		if (answer(r) < 0)
			return;
		if (events > 0) {
			idle = 0;
			continue;
		}
		if (++idle % LOOK_EVERY == 0 && end_gone(&r->end) && next_phase(r) < 0)
			return;
		sched_yield();
	}
}

int fabric_responder_main(const struct fabric_options *o)
{
	static struct responder r;
	struct kv_error err = {0};
	int rc = end_open(&r.end, o, (int)o->responder_fd, bench_interrupted, &err);
	if (rc == 0)
		serve(&r);
	else if (rc != -KV_ECANCELED && rc != -KV_EPEERDOWN)
		fprintf(stderr, "kv-bench fabric: the responder: %s\n", err.text);
	end_close(&r.end);
	return rc < 0 ? BENCH_NO_START : BENCH_OK;
}
