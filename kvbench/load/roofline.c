/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.c -- GET against bare writes, in alternating rounds.
 *
 * The speed of a machine wanders by a factor of two within seconds, so two figures taken one after the other say
 * nothing about each other. Each round therefore runs both, in an order that flips every round, and the efficiency is
 * the median of the rounds' ratios.
 *
 * A bare operation is one write of one value, announced, from the server's resident blocks, into a view slice of the
 * client: what GET does less the request, the index, the pin, the reply and the checksum. Depth is equal, unless
 * --roofline-depth asks for more bare writes: as many are in flight towards a client as it has workers. One call asks
 * for all of a client's at once, and for many in turn, so that the requests of the bare run weigh nothing, and so that
 * the server can announce those that it starts together as one, as it answers GETs that came together. Latency is taken
 * from calls that ask for one write, of every worker. */
#include "kvbench/load/roofline.h"

#include <stdlib.h>

#include "kvbench/load/phase.h"
#include "kvclient/raw.h"

/* DEPTH_MAX: a kv-server keeps no more in flight for one call. VIEW_SHARE: of a client's buffer, what a call takes. */
enum { ROUNDS = 5, OPS_PER_LANE = 64, SINGLE_OPS_PER_WORKER = 50, DEPTH_MAX = 256, VIEW_SHARE = 4 };

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double roofline_median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Callers per client: more than one where a server would not keep so much in flight for a call. */
static unsigned callers_per_client(const struct bench_options *o, unsigned clients)
{
	uint64_t most = (o->num_workers + clients - 1) / clients * (uint64_t)o->roofline_depth;

	return (unsigned)((most + DEPTH_MAX - 1) / DEPTH_MAX);
}

/* Writes that caller `w` keeps in flight: its part of what its client's workers would have. */
static uint64_t depth_of(const struct phase_op *op)
{
	const struct bench_options *o = op->phase->bench->opt;
	unsigned clients = op->phase->bench->num_clients, c = op->worker % clients, part = op->worker / clients;
	unsigned parts = callers_per_client(o, clients);
	uint64_t all = (o->num_workers / clients + (c < o->num_workers % clients)) * (uint64_t)o->roofline_depth;

	return KV_MAX(all / parts + (part < all % parts), (uint64_t)1);
}

static uint64_t slices_of(const struct bench_options *o, uint64_t depth)
{
	uint64_t room = ((uint64_t)o->buffer_mb << 20) / VIEW_SHARE / o->value_size;

	return KV_MAX(KV_MIN(depth / o->roofline_depth, room), (uint64_t)1);
}

/* One call of phase.arg bare operations. Calls go to the servers in turn, and to the shards of each. */
static int op_raw(const struct phase_op *op, uint64_t depth, uint64_t slices)
{
	const struct bench_options *o = op->phase->bench->opt;
	unsigned servers = KV_MAX(op->phase->bench->results.info.num_servers, 1u);
	unsigned turn = (unsigned)(op->worker + op->number);
	struct kvc_call call = {.size = sizeof(call), .server = turn % servers};
	struct kvc_view view = {0};
	uint64_t start_ns, end_ns;
	int rc = kvc_view_acquire_await(op->client, slices * o->value_size, 0, &view);

	if (rc < 0)
		return rc;
	start_ns = phase_now();
	rc = kvc_raw_await(op->client, turn / servers, &view, o->value_size, op->phase->arg, (unsigned)depth,
			   o->seed + op->number, &call);
	end_ns = phase_now();
	kvc_view_release(op->client, &view);
	if (rc < 0)
		return rc == -KV_ENOTFOUND ? -KV_ENOTSUP : rc; /* no block to write is no miss */
	op->tally->ops += op->phase->arg;
	op->tally->bytes += op->phase->arg * o->value_size;
	kv_hist_add(&op->tally->latency, end_ns - start_ns);
	return 0;
}

static int op_many(const struct phase_op *op)
{
	uint64_t depth = depth_of(op);

	return op_raw(op, depth, slices_of(op->phase->bench->opt, depth));
}

static int op_single(const struct phase_op *op)
{
	return op_raw(op, 1, 1);
}

/* What the rounds share. */
struct roofline {
	struct bench *bench;
	uint64_t ops_per_round, ops_per_call;
	unsigned callers;
	struct bench_errors *errors;
	struct kv_error *err;
	double get[ROUNDS], bare[ROUNDS], ratio[ROUNDS];
};

static int run_part(struct roofline *r, struct phase *p, struct phase_result *result)
{
	int rc = phase_run(p, result, r->err);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < result->tally.errors.num_codes; i++)
		bench_errors_add(r->errors, result->tally.errors.row[i].code, result->tally.errors.row[i].count);
	bench_errors_add(r->errors, -KV_ENOTFOUND, result->tally.misses);
	return 0;
}

static double bytes_per_s(const struct phase_result *r)
{
	return r->elapsed_ns ? (double)r->tally.bytes * 1e9 / (double)r->elapsed_ns : 0;
}

static int round_get(struct roofline *r, unsigned round)
{
	struct phase p = {.bench = r->bench,
			  .name = "gets",
			  .run = phase_op_read,
			  .first_op = (uint64_t)round * r->ops_per_round,
			  .total = r->ops_per_round};
	struct phase_result result = {0};
	int rc = run_part(r, &p, &result);

	r->get[round] = bytes_per_s(&result);
	return rc;
}

static int round_bare(struct roofline *r, unsigned round)
{
	struct phase p = {.bench = r->bench,
			  .name = "bare",
			  .run = op_many,
			  .workers = r->callers,
			  .first_op = (uint64_t)round * r->ops_per_round,
			  .total = (r->ops_per_round + r->ops_per_call - 1) / r->ops_per_call,
			  .errors_max = 1,
			  .arg = r->ops_per_call};
	struct phase_result result = {0};
	int rc = run_part(r, &p, &result);

	r->bare[round] = bytes_per_s(&result);
	return rc;
}

static int run_round(struct roofline *r, unsigned round)
{
	int rc = round % 2 ? round_bare(r, round) : round_get(r, round);

	if (rc == 0)
		rc = round % 2 ? round_get(r, round) : round_bare(r, round);
	if (rc == 0)
		r->ratio[round] = r->bare[round] > 0 ? r->get[round] / r->bare[round] : 0;
	return rc;
}

static int run_single(struct roofline *r, uint64_t *out_p50_ns)
{
	uint64_t ops = KV_MIN(r->ops_per_round, (uint64_t)SINGLE_OPS_PER_WORKER * r->bench->opt->num_workers);
	struct phase p = {
		.bench = r->bench, .name = "single", .run = op_single, .total = ops, .errors_max = 1, .arg = 1};
	struct phase_result result = {0};
	int rc = run_part(r, &p, &result);

	*out_p50_ns = kv_hist_quantile(&result.tally.latency, 0.5);
	return rc;
}

/* Median and range of the finished rounds; no figure when anything failed on the way, since the rest would then be of a
 * broken run. */
static void conclude(struct roofline *r, struct roofline_result *out)
{
	out->ran = true;
	out->rounds = ROUNDS;
	if (r->errors->num_codes > 0) {
		out->code = r->errors->row[0].code;
		return;
	}
	out->efficiency = roofline_median(r->ratio, ROUNDS);
	out->efficiency_min = r->ratio[0];
	out->efficiency_max = r->ratio[ROUNDS - 1];
	out->get_bytes_per_s = roofline_median(r->get, ROUNDS);
	out->bytes_per_s = roofline_median(r->bare, ROUNDS);
}

int roofline_run(struct bench *bench, uint64_t reads, struct roofline_result *out, struct bench_errors *errors,
		 struct kv_error *err)
{
	const struct bench_options *o = bench->opt;
	unsigned clients = KV_MIN(bench->num_clients, o->num_workers);
	uint64_t ops = KV_MAX(reads / 3, (uint64_t)o->num_workers);
	uint64_t lanes = (uint64_t)(o->num_workers / clients) * o->roofline_depth;
	struct roofline r = {.bench = bench, .ops_per_round = ops, .errors = errors, .err = err};
	int rc = 0;

	r.callers = clients * callers_per_client(o, clients);
	/* Every caller gets at least two calls, so that the pipe stays full to the end. */
	r.ops_per_call = KV_MIN(KV_MAX(ops / (2 * (uint64_t)r.callers), (uint64_t)1), OPS_PER_LANE * lanes);
	/* Of few reads a call is short, and keeps no more in flight than it asks for. */
	out->depth =
		KV_MIN((uint64_t)o->roofline_depth, KV_MAX(r.ops_per_call * o->roofline_depth / lanes, (uint64_t)1));
	/* First the single calls: they tell at once when the server does not take part, and warm the path. */
	rc = run_single(&r, &out->p50_ns);
	for (unsigned i = 0; i < ROUNDS && rc == 0 && errors->num_codes == 0; i++)
		rc = run_round(&r, i);
	if (rc == 0)
		conclude(&r, out);
	return rc;
}
