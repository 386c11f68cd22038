/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.c -- GET and PUT against bare writes, in alternating rounds.
 *
 * The speed of a machine wanders by a factor of two within seconds, so two figures taken one after the other say
 * nothing about each other. Each round therefore runs both, in an order that flips every round, and the efficiency is
 * the median of the rounds' ratios.
 *
 * For GET, a bare operation is one announced write of one value, from the server's resident blocks into a slice of the
 * client's buffer: a GET without the request, the index, the pin, the reply and the checksum. For PUT it is one write
 * of one value from where values lie to the client's landing area: a PUT without the request, the copy to the block,
 * both checksums, the index and the reply. Where there is no such area, PUT's bytes go in another way, and there is no
 * figure for it.
 *
 * As many writes are in flight as a client has workers, which is the depth of the GETs and PUTs, unless
 * --roofline-depth asks for more; towards the landing area as many as it has room for. One call asks for all writes of
 * a client at once, and for many rounds of them, so the requests of the bare run weigh nothing. The server announces
 * writes that it starts together as one, as it answers GETs that came together. Latency is taken from calls that ask
 * for one write, of every worker; that of a client's write ends with the answer to the message behind it.
 *
 * Rounds of PUT store keys that nobody reads, and delete them between the rounds. So the memory that they need is that
 * of one round (roofline_put_keys), and no PUT meets a value that is there. */
#include "kvbench/load/roofline.h"

#include <stdlib.h>

#include "kvbench/load/phase.h"
#include "kvbench/load/values.h"
#include "kvbench/setup/server_child.h"
#include "kvclient/raw.h"

/* DEPTH_MAX: a kv-server keeps no more in flight for one call. BORROWED_SHARE: a call borrows this part of a client's
 * buffer, a quarter. */
enum { ROUNDS = 5, OPS_PER_LANE = 64, SINGLE_OPS_PER_WORKER = 50, DEPTH_MAX = 256, BORROWED_SHARE = 4 };

#define PUT_BYTES (256ull << 20) /* of a round */

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
	uint64_t room = ((uint64_t)o->buffer_mb << 20) / BORROWED_SHARE / o->value_size;
	return KV_MAX(KV_MIN(depth / o->roofline_depth, room), (uint64_t)1);
}

/* A call of phase.arg bare operations has ended. */
static int raw_done(const struct phase_op *op, uint64_t start_ns, int rc)
{
	uint64_t end_ns = phase_now();
	if (rc < 0)
		return rc == -KV_ENOTFOUND ? -KV_ENOTSUP : rc; /* no block to write is no miss */
	bench_bump(&op->tally->ops, op->phase->arg);
	bench_bump(&op->tally->bytes, op->phase->arg * op->phase->bench->opt->value_size);
	kv_hist_add(&op->tally->latency, end_ns - start_ns);
	return 0;
}

/* Calls go to the servers in turn, and to the shards of each. */
static unsigned shard_turn(const struct phase_op *op, struct kvc_call *out)
{
	unsigned servers = KV_MAX(op->phase->bench->results.info.num_servers, 1u);
	unsigned turn = (unsigned)(op->worker + op->number);
	*out = (struct kvc_call){.size = sizeof(*out), .server = turn % servers};
	return turn / servers;
}

static int op_raw(const struct phase_op *op, uint64_t depth, uint64_t slices)
{
	const struct bench_options *o = op->phase->bench->opt;
	struct kvc_call call;
	unsigned shard = shard_turn(op, &call);
	struct kvc_borrowed borrowed = {0};
	uint64_t start_ns;
	int rc = kvc_borrow_await(op->client, slices * o->value_size, 0, &borrowed);
	if (rc < 0)
		return rc;
	start_ns = phase_now();
	rc = kvc_raw_await(op->client, shard, &borrowed, o->value_size, op->phase->arg, (unsigned)depth,
			   o->seed + op->number, &call);
	rc = raw_done(op, start_ns, rc);
	kvc_borrowed_release(op->client, &borrowed);
	return rc;
}

static int op_get_many(const struct phase_op *op)
{
	uint64_t depth = depth_of(op);
	return op_raw(op, depth, slices_of(op->phase->bench->opt, depth));
}

static int op_get_single(const struct phase_op *op)
{
	return op_raw(op, 1, 1);
}

static int op_raw_put(const struct phase_op *op, uint64_t depth)
{
	const struct bench *b = op->phase->bench;
	struct kvc_call call;
	unsigned shard = shard_turn(op, &call);
	uint64_t start_ns = phase_now(), len;
	const void *stock = values_all(b, &len);
	return raw_done(op, start_ns,
			kvc_raw_put_await(op->client, shard, stock, len, b->opt->value_size, op->phase->arg,
					  (unsigned)depth, b->opt->seed + op->number, &call));
}

static int op_put_many(const struct phase_op *op)
{
	return op_raw_put(op, depth_of(op));
}

static int op_put_single(const struct phase_op *op)
{
	return op_raw_put(op, 1);
}

/* What the rounds of one direction share. */
struct roofline {
	struct bench *bench;
	const char *name;
	int (*op)(const struct phase_op *op); /* GET or PUT */
	int (*many)(const struct phase_op *op);
	int (*single)(const struct phase_op *op);
	bool stores;
	uint64_t ops_per_round, ops_per_call;
	unsigned callers;
	struct bench_errors *errors;
	struct kv_error *err;
	double got[ROUNDS], bare[ROUNDS], ratio[ROUNDS];
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

/* A round of PUTs stores the same keys each time, which are behind those of the run. */
static int round_op(struct roofline *r, unsigned round)
{
	struct phase p = {.bench = r->bench,
			  .name = r->name,
			  .run = r->op,
			  .first_op = r->stores ? 0 : (uint64_t)round * r->ops_per_round,
			  .key_base = r->bench->opt->num_keys,
			  .total = r->ops_per_round};
	struct phase_result result = {0};
	int rc = run_part(r, &p, &result);
	r->got[round] = bytes_per_s(&result);
	return rc;
}

static int stored_delete(struct roofline *r)
{
	struct phase p = {.bench = r->bench,
			  .name = "deletes",
			  .run = phase_op_delete,
			  .key_base = r->bench->opt->num_keys,
			  .total = r->ops_per_round};
	struct phase_result result = {0};
	return r->stores ? run_part(r, &p, &result) : 0;
}

static int round_bare(struct roofline *r, unsigned round)
{
	struct phase p = {.bench = r->bench,
			  .name = "bare",
			  .run = r->many,
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
	int rc = round % 2 ? round_bare(r, round) : round_op(r, round);
	if (rc == 0)
		rc = round % 2 ? round_op(r, round) : round_bare(r, round);
	if (rc == 0)
		rc = stored_delete(r);
	if (rc == 0)
		r->ratio[round] = r->bare[round] > 0 ? r->got[round] / r->bare[round] : 0;
	return rc;
}

static int run_single(struct roofline *r, uint64_t *out_p50_ns)
{
	uint64_t ops = KV_MIN(r->ops_per_round, (uint64_t)SINGLE_OPS_PER_WORKER * r->bench->opt->num_workers);
	struct phase p = {
		.bench = r->bench, .name = "single", .run = r->single, .total = ops, .errors_max = 1, .arg = 1};
	struct phase_result result = {0};
	int rc = run_part(r, &p, &result);
	*out_p50_ns = kv_hist_quantile(&result.tally.latency, 0.5);
	return rc;
}

/* Median and range of the finished rounds. If anything failed there is no figure: it would be that of a broken run. */
static void conclude(struct roofline *r, struct roofline_result *out)
{
	out->ran = true;
	out->rounds = ROUNDS;
	if (r->errors->num_codes > 0) {
		out->code = r->errors->row[0].code;
		out->server_died = server_child_dead(r->bench->server);
		return;
	}
	out->efficiency = roofline_median(r->ratio, ROUNDS);
	out->efficiency_min = r->ratio[0];
	out->efficiency_max = r->ratio[ROUNDS - 1];
	out->op_bytes_per_s = roofline_median(r->got, ROUNDS);
	out->bytes_per_s = roofline_median(r->bare, ROUNDS);
}

/* Rounds of ops_per_round operations. */
static int direction_run(struct roofline *r, struct roofline_result *out)
{
	const struct bench_options *o = r->bench->opt;
	unsigned clients = KV_MIN(r->bench->num_clients, o->num_workers);
	uint64_t lanes = (uint64_t)(o->num_workers / clients) * o->roofline_depth;
	int rc;
	r->callers = clients * callers_per_client(o, clients);
	/* Every caller gets at least two calls, so that the pipe stays full to the end. */
	r->ops_per_call =
		KV_MIN(KV_MAX(r->ops_per_round / (2 * (uint64_t)r->callers), (uint64_t)1), OPS_PER_LANE * lanes);
	/* Of few operations a call is short, and keeps no more in flight than it asks for. */
	out->depth =
		KV_MIN((uint64_t)o->roofline_depth, KV_MAX(r->ops_per_call * o->roofline_depth / lanes, (uint64_t)1));
	/* First the single calls: they tell at once when the server does not take part, and warm the path. */
	rc = run_single(r, &out->p50_ns);
	if (rc == 0 && r->errors->num_codes == 0)
		rc = stored_delete(r);
	for (unsigned i = 0; i < ROUNDS && rc == 0 && r->errors->num_codes == 0; i++)
		rc = run_round(r, i);
	if (rc == 0)
		conclude(r, out);
	return rc;
}

uint64_t roofline_put_keys(const struct bench_options *o, uint64_t reads)
{
	return KV_MAX(KV_MIN(reads / 3, PUT_BYTES / o->value_size), (uint64_t)o->num_workers);
}

int roofline_run(struct bench *bench, uint64_t reads, struct kv_error *err)
{
	const struct bench_options *o = bench->opt;
	struct bench_errors errors = {0}; /* results.roofline.code tells them */
	struct roofline get = {.bench = bench,
			       .name = "gets",
			       .op = phase_op_read,
			       .many = op_get_many,
			       .single = op_get_single,
			       .ops_per_round = KV_MAX(reads / 3, (uint64_t)o->num_workers),
			       .errors = &errors,
			       .err = err};
	struct roofline put = {.bench = bench,
			       .name = "puts",
			       .op = phase_op_write,
			       .many = op_put_many,
			       .single = op_put_single,
			       .stores = true,
			       .ops_per_round = roofline_put_keys(o, reads),
			       .errors = &errors,
			       .err = err};
	int rc = direction_run(&get, &bench->results.roofline);
	if (rc == 0 && errors.num_codes == 0 && !o->no_write && bench->results.put_way == KVC_PUT_LAND)
		rc = direction_run(&put, &bench->results.roofline_put);
	return rc;
}
