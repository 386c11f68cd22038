/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c -- latency: one operation after another, over the first pair. Bandwidth: `depth` operations at a time over
 * each pair, until the time is over and the responders have confirmed all arrivals.
 *
 * With ordered writes, a stream sends one immediate behind each burst; otherwise each write carries its immediate. */
#include "kvbench/fabric/measure.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "kvbench/setup/signals.h"

#define STALL_NS 10000000000ull

enum { LOOK_EVERY = 256, LARGE = 1 << 20, WARM_LARGE = 2, WARM_SMALL = 50, SAMPLES_MIN = 10 };

static uint64_t now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

/* Poll until *count reaches `wanted`. */
static int await(struct end *e, const uint64_t *count, uint64_t wanted)
{
	uint64_t give_up = 0;
	for (unsigned idle = 0; *count < wanted && e->broken == 0;) {
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
	return *count < wanted ? e->broken : 0;
}

static int phase(struct end *e, enum end_mode mode, uint64_t size)
{
	const struct end_phase p = {
		.mode = mode, .chunks = (uint32_t)end_chunks(size, e->info.chunk_bytes), .size = size};
	char ready;
	int rc = end_tell(e->fd, &p, sizeof(p));
	return rc == 0 ? end_receive(e->fd, &ready, 1, END_WAIT_NS, bench_interrupted) : rc;
}

static int send_await(struct end *e, const void *data, uint32_t len)
{
	int rc;
	while ((rc = end_send(e, data, len)) == -EAGAIN && e->broken == 0 && !bench_interrupted())
		te_poll(e->te);
	return rc == -EAGAIN ? e->broken ? e->broken : -KV_ECANCELED : rc;
}

/* One operation; *out_ns: its time. */
static int one(struct end *e, const struct fabric_row *row, uint64_t number, uint64_t *out_ns)
{
	static const uint8_t bytes[KV_MSG_MAX];
	struct end_op *op = &e->op[0];
	uint64_t start = now(), imms = e->imms;
	int rc;
	if (row->op == FABRIC_MESSAGE) {
		rc = send_await(e, bytes, (uint32_t)row->size);
		if (rc == 0)
			rc = await(e, &e->messages, e->messages + 1);
		*out_ns = (now() - start) / 2;
		return rc;
	}
	rc = end_xfer(e, op, row->op == FABRIC_READ ? TE_READ : TE_WRITE, row->size, number);
	if (rc == 0 && row->op == FABRIC_WRITE)
		rc = await(e, &e->imms, imms + end_chunks(row->size, e->theirs.chunk));
	*out_ns = (now() - start) / 2;
	if (rc == 0)
		rc = await(e, &op->ended, op->begun);
	if (row->op == FABRIC_READ)
		*out_ns = now() - start;
	return rc;
}

int fabric_latency(struct end *e, struct fabric_row *row, uint64_t time_ns)
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

/* The stream of one pair. */
struct flow {
	struct end *end;
	const struct fabric_row *row;
	uint64_t depth, end_ns;
	uint64_t count, imms; /* operations begun; their immediates */
	double bytes_per_s;
	int rc;
	pthread_t thread;
};

static enum te_dir dir_of(const struct flow *f)
{
	return f->row->op == FABRIC_READ ? TE_READ : TE_WRITE;
}

static bool flow_over(const struct flow *f)
{
	return f->count >= f->depth && now() >= f->end_ns;
}

static bool idle(const struct end_op *op)
{
	return op->begun == op->ended;
}

static struct end_op *notice_idle(struct end *e)
{
	for (unsigned i = 0; i < END_BURSTS; i++)
		if (idle(&e->op[FABRIC_DEPTH_MAX + i]))
			return &e->op[FABRIC_DEPTH_MAX + i];
	return NULL;
}

/* Fill all free slots with writes, then send an immediate. */
static int burst(struct flow *f)
{
	struct end *e = f->end;
	struct end_op *notice = notice_idle(e);
	uint64_t before = f->count;
	int rc = 0;
	if (!notice)
		return 0;
	te_order_begin(e->te);
	for (uint64_t i = 0; i < f->depth && rc == 0 && !flow_over(f); i++)
		if (idle(&e->op[i])) {
			rc = end_write_quiet(e, &e->op[i], f->row->size, f->count);
			f->count += rc == 0;
		}
	if (f->count > before)
		f->imms += end_notice(e, notice) == 0;
	te_order_end(e->te);
	return rc == -KV_EBUSY ? 0 : rc;
}

static int refill(struct flow *f)
{
	struct end *e = f->end;
	int rc = 0;
	for (uint64_t i = 0; i < f->depth && rc == 0 && !flow_over(f); i++)
		if (idle(&e->op[i])) {
			rc = end_xfer(e, &e->op[i], dir_of(f), f->row->size, f->count);
			f->count += rc == 0;
			f->imms += rc == 0 ? end_chunks(f->row->size, e->info.chunk_bytes) : 0;
		}
	return rc;
}

static int one_more(struct end *e, uint64_t *ended)
{
	int rc = await(e, &e->completed, *ended + 1);
	*ended = e->completed;
	return rc;
}

static int stream(struct flow *f)
{
	struct end *e = f->end;
	bool ordered = dir_of(f) == TE_WRITE && e->info.ordered && f->row->size <= e->info.chunk_bytes;
	uint64_t ended = e->completed;
	int rc = 0;
	while (rc == 0 && !flow_over(f)) {
		uint64_t before = f->count;
		rc = ordered ? burst(f) : refill(f);
		if (rc == 0 && ordered && f->count == before && e->begun == e->completed)
			rc = refill(f); /* no ordered write is possible, and none in flight could change it */
		if (rc == 0 && e->begun > e->completed)
			rc = one_more(e, &ended);
	}
	return rc == 0 ? await(e, &e->completed, e->begun) : rc;
}

static void *flow_run(void *arg)
{
	struct flow *f = arg;
	struct end *e = f->end;
	uint64_t start = now(), messages = e->messages;
	f->rc = stream(f);
	if (f->rc == 0 && f->row->op == FABRIC_WRITE)
		f->rc = send_await(e, &f->imms, sizeof(f->imms));
	if (f->rc == 0 && f->row->op == FABRIC_WRITE)
		f->rc = await(e, &e->messages, messages + 1);
	f->bytes_per_s = (double)f->count * (double)f->row->size * 1e9 / (double)(now() - start);
	return NULL;
}

static int flow_ready(struct flow *f, struct end *e, const struct fabric_row *row, uint64_t depth)
{
	uint64_t chunks = end_chunks(row->size, e->info.chunk_bytes);
	*f = (struct flow){
		.end = e, .row = row, .depth = KV_MAX(KV_MIN(depth, e->info.imm_room / chunks), (uint64_t)1)};
	return phase(e, row->op == FABRIC_WRITE ? END_SINK : END_QUIET, row->size);
}

int fabric_bandwidth(struct end *const end[], unsigned n, struct fabric_row *row, uint64_t depth, uint64_t time_ns)
{
	static struct flow flow[FABRIC_PAIRS_MAX];
	unsigned started = 1;
	int rc = 0;
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = flow_ready(&flow[i], end[i], row, depth);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < n; i++)
		flow[i].end_ns = now() + time_ns;
	while (started < n && rc == 0) {
		rc = -pthread_create(&flow[started].thread, NULL, flow_run, &flow[started]);
		started += rc == 0;
	}
	flow_run(&flow[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(flow[i].thread, NULL);
	row->bytes_per_s = 0;
	for (unsigned i = 0; i < started; i++) {
		row->bytes_per_s += flow[i].bytes_per_s;
		rc = rc == 0 ? flow[i].rc : rc;
	}
	return rc;
}

int fabric_rest(struct end *e)
{
	return phase(e, END_REST, 0);
}

int fabric_measure(struct end *const end[], unsigned n, struct fabric_row *row, uint64_t depth, uint64_t time_ns)
{
	int rc = fabric_latency(end[0], row, time_ns);
	if (rc == 0 && row->op != FABRIC_MESSAGE)
		rc = fabric_bandwidth(end, n, row, depth, time_ns);
	for (unsigned i = 1; i < n && rc == 0; i++)
		rc = fabric_rest(end[i]);
	return rc;
}
