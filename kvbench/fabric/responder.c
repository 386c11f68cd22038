/* SPDX-License-Identifier: Apache-2.0 */
/* responder.c -- the other end: it answers according to the phase, and polls without a pause unless it rests.
 *
 * It ends when the other process closes the socket or dies, and closes its engine in order, so that no shared memory is
 * left. The other process has the key but maybe another version: each number is checked. */
#include "kvbench/fabric/responder.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "kvbench/fabric/end.h"
#include "kvbench/load/bench.h"
#include "kvbench/setup/signals.h"
#include "probe/probe.h"

enum { LOOK_EVERY = 256 }; /* idle turns between looks at the socket */

struct responder {
	struct end end;
	struct end_phase phase;
	struct end_op *op;
	uint64_t messages, imms; /* answered */
};

static bool valid(const struct responder *r)
{
	const struct end_phase *p = &r->phase;
	return p->mode <= END_REST && p->size <= end_half(&r->end) && (p->mode != END_ECHO_WRITES || p->chunks > 0);
}

static int next_phase(struct responder *r)
{
	int rc;
	do {
		rc = end_receive(r->end.fd, &r->phase, sizeof(r->phase), KV_NEVER, bench_interrupted);
		if (rc == 0)
			rc = valid(r) ? end_tell(r->end.fd, "r", 1) : -KV_EPROTO;
	} while (rc == 0 && r->phase.mode == END_REST);
	r->messages = r->end.messages;
	r->imms = r->end.imms;
	return rc;
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
		if (e->imms - r->imms < r->phase.chunks || r->op->ended < r->op->begun)
			break;
		r->imms += r->phase.chunks;
		return end_xfer(e, r->op, TE_WRITE, r->phase.size, r->op->begun);
	case END_SINK:
		memcpy(&wanted, e->last, sizeof(wanted));
		if (r->messages < e->messages && e->imms - r->imms >= wanted && end_send(e, "", 1) == 0)
			r->messages = e->messages;
		break;
	case END_QUIET:
	case END_REST:
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

static int ask_take(struct fabric_options *o, int fd)
{
	struct fabric_ask ask;
	int rc = end_receive(fd, &ask, sizeof(ask), KV_NEVER, bench_interrupted);
	if (rc < 0)
		return rc;
	o->size_max = ask.size_max;
	o->span = ask.span;
	return memcmp(ask.magic, FABRIC_MAGIC, sizeof(ask.magic)) == 0 && ask.size_max <= FABRIC_SIZE_MAX &&
			       ask.span <= FABRIC_SPAN_MAX
		       ? 0
		       : -KV_EPROTO;
}

int fabric_responder_main(struct fabric_options *o, int fd)
{
	static struct responder r;
	struct kv_error err = {0};
	int rc = ask_take(o, fd);
	if (rc == -KV_EPROTO)
		kv_fail(&err, rc, "the other process is no kv-bench fabric of this version");
	if (rc == 0)
		rc = end_open(&r.end, o, fd, bench_interrupted, &err);
	r.op = r.end.op;
	if (rc == 0)
		serve(&r);
	else if (rc != -KV_ECANCELED && rc != -KV_EPEERDOWN)
		fprintf(stderr, "kv-bench fabric: the responder: %s\n", err.text);
	end_close(&r.end);
	return rc < 0 ? BENCH_NO_START : BENCH_OK;
}

int fabric_responder_spawn(const struct fabric_options *o, int fd, pid_t *out_pid, struct kv_error *err)
{
	char number[16];
	const char *args[] = {"kv-bench",
			      "fabric",
			      FABRIC_RESPONDER,
			      number,
			      "--provider",
			      o->provider,
			      "--log-level",
			      kv_opt_level_names[o->log_level],
			      o->nic ? "--nic" : NULL,
			      o->nic,
			      NULL};
	int rc;
	snprintf(number, sizeof(number), "%d", fd);
	rc = probe_spawn("/proc/self/exe", args, -1, -1, (const int[]){fd, -1}, true, out_pid);
	if (rc < 0)
		return kv_fail(err, rc, "the responder cannot be started: %s%s", kv_strerror(rc),
			       rc == -ENOENT ? " (/proc/self/exe: is /proc mounted?)" : "");
	return 0;
}
