/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c -- latency: one operation after the other; bandwidth: some at a time until the time is over, and then until
 * the responder says that all have arrived. */
#include "kvbench/fabric/measure.h"

#include <errno.h>
#include <sched.h>

#include "kvbench/setup/signals.h"

#define STALL_NS 10000000000ull

enum { LOOK_EVERY = 256, LARGE = 1 << 20, WARM_LARGE = 2, WARM_SMALL = 50, SAMPLES_MIN = 10 };

static uint64_t now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

/* Poll until *what is `wanted` or more. */
static int await(struct end *e, const uint64_t *what, uint64_t wanted)
{
	uint64_t give_up = 0;
	for (unsigned idle = 0; *what < wanted && e->broken == 0;) {
		if (te_poll(e->te) > 0) {
			give_up = 0;
			continue;
		}
		sched_yield();
		if (++idle % LOOK_EVERY)
			continue;
		if (bench_interrupted())
			return -KV_ECANCELED;
		if (end_gone(e))
			return -KV_EPEERDOWN;
		give_up = give_up ? give_up : now() + STALL_NS;
		if (now() > give_up)
			return -KV_ETIMEOUT;
	}
	return *what < wanted ? e->broken : 0;
}

static int phase(struct end *e, enum end_mode mode, uint64_t size)
{
	const struct end_phase p = {
		.mode = mode, .chunks = (uint32_t)end_chunks(size, e->info.chunk_bytes), .size = size};
	char ready;
	int rc = end_tell(e->fd, &p, sizeof(p));
	return rc == 0 ? end_receive(e->fd, &ready, 1, bench_interrupted) : rc;
}

static int send_await(struct end *e, const void *data, uint32_t len)
{
	int rc;
	while ((rc = end_send(e, data, len)) == -EAGAIN && e->broken == 0 && !bench_interrupted())
		te_poll(e->te);
	return rc == -EAGAIN ? e->broken ? e->broken : -KV_ECANCELED : rc;
}

/* One operation; *out_ns: what it took. */
static int one(struct end *e, const struct fabric_row *row, uint64_t number, uint64_t *out_ns)
{
	static const uint8_t bytes[KV_MSG_MAX];
	static struct end_op op;
	uint64_t start = now(), imms = e->imms;
	int rc;
	if (row->op == FABRIC_MESSAGE) {
		rc = send_await(e, bytes, (uint32_t)row->size);
		if (rc == 0)
			rc = await(e, &e->messages, e->messages + 1);
		*out_ns = (now() - start) / 2;
		return rc;
	}
	rc = end_xfer(e, &op, row->op == FABRIC_READ ? TE_READ : TE_WRITE, row->size, number);
	if (rc == 0 && row->op == FABRIC_WRITE)
		rc = await(e, &e->imms, imms + end_chunks(row->size, e->theirs.chunk));
	*out_ns = (now() - start) / 2;
	if (rc == 0)
		rc = await(e, &op.ended, op.begun);
	if (row->op == FABRIC_READ)
		*out_ns = now() - start;
	return rc;
}

static int latency(struct end *e, struct fabric_row *row, uint64_t time_ns)
{
	static const enum end_mode mode[FABRIC_OPS] = {END_ECHO, END_ECHO_WRITES, END_QUIET};
	uint64_t warm = row->size >= LARGE ? WARM_LARGE : WARM_SMALL, end_ns = 0, ns = 0;
	int rc = phase(e, mode[row->op], row->size);
	for (uint64_t i = 0; rc == 0; i++) {
		rc = one(e, row, i, &ns);
		if (i < warm) {
			end_ns = now() + time_ns;
			continue;
		}
		if (rc == 0)
			kv_hist_add(&row->latency, ns);
		if (now() >= end_ns && row->latency.count >= SAMPLES_MIN)
			break;
	}
	return rc;
}

/* The slots go round, each as soon as its transfer has ended. *out_count: how many were made. */
static int stream(struct end *e, const struct fabric_row *row, uint64_t depth, uint64_t time_ns, uint64_t *out_count)
{
	static struct end_op op[FABRIC_DEPTH];
	enum te_dir dir = row->op == FABRIC_READ ? TE_READ : TE_WRITE;
	uint64_t end_ns = now() + time_ns, i = 0;
	int rc = 0;
	for (; rc == 0 && (i < depth || now() < end_ns); i++) {
		struct end_op *o = &op[i % depth];
		rc = await(e, &o->ended, o->begun);
		if (rc == 0)
			rc = end_xfer(e, o, dir, row->size, i);
	}
	for (uint64_t k = 0; rc == 0 && k < depth; k++)
		rc = await(e, &op[k].ended, op[k].begun);
	*out_count = i;
	return rc;
}

static int bandwidth(struct end *e, struct fabric_row *row, uint64_t time_ns)
{
	uint64_t start, chunks = end_chunks(row->size, e->info.chunk_bytes), wanted, count = 0;
	uint64_t depth = KV_MAX(KV_MIN((uint64_t)FABRIC_DEPTH, e->info.imm_room / chunks), (uint64_t)1);
	int rc = phase(e, row->op == FABRIC_WRITE ? END_SINK : END_QUIET, row->size);
	start = now();
	if (rc == 0)
		rc = stream(e, row, depth, time_ns, &count);
	wanted = count * chunks;
	if (rc == 0 && row->op == FABRIC_WRITE)
		rc = send_await(e, &wanted, sizeof(wanted));
	if (rc == 0 && row->op == FABRIC_WRITE)
		rc = await(e, &e->messages, e->messages + 1);
	if (rc == 0)
		row->bytes_per_s = (double)count * (double)row->size * 1e9 / (double)(now() - start);
	return rc;
}

int fabric_measure(struct end *e, struct fabric_row *row, uint64_t time_ns)
{
	int rc = latency(e, row, time_ns);
	if (rc == 0 && row->op != FABRIC_MESSAGE)
		rc = bandwidth(e, row, time_ns);
	return rc;
}
