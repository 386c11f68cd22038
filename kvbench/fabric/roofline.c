/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.c -- GET and PUT compared with the writes of kv-bench fabric.
 *
 * A machine's speed varies by a factor of two within seconds. So each round runs GETs, PUTs and bare writes, in an
 * order that flips, and the efficiency is the median of the rounds' ratios. Bare writes have the size of the values, as
 * many in flight as the run has workers, and move through as much memory as the keys take, up to SPAN_MOST.
 *
 * A round of PUTs stores keys of its own, and deletes them. */
#include "kvbench/fabric/roofline.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "kvbench/fabric/measure.h"
#include "kvbench/fabric/pairs.h"
#include "kvbench/load/phase.h"
#include "kvbench/setup/server_child.h"

enum { ROUNDS = 5 };

#define PUT_BYTES (256ull << 20) /* of a round */
#define SPAN_MOST (64ull << 20)
#define BARE_NS   100000000ull /* a round of bare writes, and the latency */

enum way { WAY_GET, WAY_PUT, WAYS };

struct roofline {
	struct bench *bench;
	struct fabric_options opt;
	struct fabric_pairs pairs;
	struct fabric_row limit; /* of one round, or of --roofline-file */
	uint64_t p50_ns;
	uint64_t ops[WAYS]; /* of a round */
	struct bench_errors errors;
	double bare[ROUNDS], got[WAYS][ROUNDS], ratio[WAYS][ROUNDS];
};

uint64_t roofline_put_keys(const struct bench_options *o, uint64_t reads)
{
	return KV_MAX(KV_MIN(reads / 3, PUT_BYTES / o->load.value_size), (uint64_t)o->load.num_workers);
}

static const json_t *row_find(const json_t *doc, uint64_t size)
{
	const json_t *rows = json_object_get(doc, "rows");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		const char *op = json_string_value(json_object_get(row, "op"));
		if (op && strcmp(op, fabric_op_name(FABRIC_WRITE)) == 0 &&
		    (uint64_t)json_integer_value(json_object_get(row, "size")) == size &&
		    json_number_value(json_object_get(row, "bytes_per_s")) > 0)
			return row;
	}
	return NULL;
}

static int limit_read(struct roofline *r, const char *path, struct kv_error *err)
{
	uint64_t size = r->bench->opt->load.value_size;
	json_error_t why;
	json_t *doc = json_load_file(path, 0, &why);
	const json_t *row = row_find(doc, size);
	int rc = 0;
	if (!doc)
		rc = kv_fail(err, -KV_EINVAL, "--roofline-file %s: %s", path, why.text);
	else if (!row)
		rc = kv_fail(err, -KV_EINVAL,
			     "--roofline-file %s has no writes of %llu bytes: run kv-bench fabric --sizes %llu", path,
			     (unsigned long long)size, (unsigned long long)size);
	r->limit.bytes_per_s = json_number_value(json_object_get(row, "bytes_per_s"));
	r->p50_ns = (uint64_t)json_integer_value(json_object_get(json_object_get(row, "latency_ns"), "p50"));
	r->opt.depth = (uint32_t)json_integer_value(json_object_get(doc, "depth"));
	r->opt.pairs = (uint32_t)json_integer_value(json_object_get(doc, "pairs"));
	json_decref(doc);
	return rc;
}

/* ---- the limit of this machine ---- */

/* A pair per thread of the server, if it has a client and two processors. */
static uint32_t pairs_wanted(const struct bench *b)
{
	unsigned clients = KV_MIN(b->opt->load.num_clients, b->opt->load.num_workers);
	unsigned loops = b->opt->load.num_threads ? KV_MIN(b->opt->load.num_threads, clients) : clients;
	unsigned pairs = KV_MIN(KV_MIN(loops, b->results.memory.server_threads), kv_cpus_available() / 2);
	return KV_MIN(KV_MAX(pairs, 1u), (unsigned)FABRIC_PAIRS_MAX);
}

static void plan(struct roofline *r)
{
	const struct bench_options *o = r->bench->opt;
	uint64_t flight = o->load.num_workers * (uint64_t)o->roofline.depth, span = SPAN_MOST;
	r->opt.pairs = pairs_wanted(r->bench);
	r->opt.provider = o->target.provider;
	r->opt.nic = o->target.nic;
	r->opt.log_level = KV_LOG_ERROR;
	r->opt.size_max = o->load.value_size;
	r->opt.depth = (uint32_t)KV_MIN(KV_MAX(flight / r->opt.pairs, (uint64_t)1), (uint64_t)FABRIC_DEPTH_MAX);
	if (o->load.num_keys < SPAN_MOST / o->load.value_size)
		span = o->load.num_keys * o->load.value_size;
	r->opt.span = KV_MAX(span / r->opt.pairs, o->load.value_size);
}

int roofline_open(struct bench *b, struct roofline **out, struct kv_error *err)
{
	struct roofline *r;
	int rc;
	*out = NULL;
	if (!b->opt->roofline.run && !b->opt->roofline.file)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return kv_fail(err, -KV_ENOMEM, "no memory for the roofline");
	r->bench = b;
	if (b->opt->roofline.file) {
		rc = limit_read(r, b->opt->roofline.file, err);
	} else {
		plan(r);
		rc = fabric_pairs_start(&r->pairs, &r->opt, err);
	}
	*out = r;
	return rc;
}

void roofline_close(struct roofline **r)
{
	if (!*r)
		return;
	fabric_pairs_close(&(*r)->pairs);
	free(*r);
	*r = NULL;
}

/* ---- rounds ---- */

static int part_run(struct roofline *r, struct phase *p, double *out_rate, struct kv_error *err)
{
	struct phase_result result = {0};
	int rc = phase_run(p, &result, err);
	for (unsigned i = 0; rc == 0 && i < result.tally.errors.num_codes; i++)
		bench_errors_add(&r->errors, result.tally.errors.row[i].code, result.tally.errors.row[i].count);
	if (rc == 0)
		bench_errors_add(&r->errors, -KV_ENOTFOUND, result.tally.misses);
	*out_rate = bench_per_second((double)result.tally.bytes, &result);
	return rc;
}

/* PUTs store the same keys in each round, after those of the run. */
static int way_run(struct roofline *r, enum way way, unsigned round, struct kv_error *err)
{
	struct phase p = {.bench = r->bench,
			  .name = way == WAY_GET ? "gets" : "puts",
			  .run = way == WAY_GET ? phase_op_read : phase_op_write,
			  .first_op = way == WAY_GET ? round * r->ops[way] : 0,
			  .key_base = r->bench->opt->load.num_keys,
			  .total = r->ops[way]};
	struct phase drop = {.bench = r->bench,
			     .name = "deletes",
			     .run = phase_op_delete,
			     .key_base = r->bench->opt->load.num_keys,
			     .total = r->ops[way]};
	double unused;
	int rc = r->ops[way] > 0 ? part_run(r, &p, &r->got[way][round], err) : 0;
	return rc == 0 && way == WAY_PUT && r->ops[way] > 0 ? part_run(r, &drop, &unused, err) : rc;
}

static int bare_run(struct roofline *r, unsigned round, struct kv_error *err)
{
	int rc = fabric_bandwidth(r->pairs.end, r->pairs.num_open, &r->limit, r->opt.depth, BARE_NS);
	for (unsigned i = 0; i < r->pairs.num_open && rc == 0; i++)
		rc = fabric_rest(r->pairs.end[i]);
	r->bare[round] = r->limit.bytes_per_s;
	return rc < 0 && rc != -KV_ECANCELED ? kv_fail(err, rc, "bare writes: %s", kv_strerror(rc)) : rc;
}

static int round_run(struct roofline *r, unsigned round, struct kv_error *err)
{
	int rc = round % 2 ? bare_run(r, round, err) : 0;
	for (unsigned way = 0; way < WAYS && rc == 0; way++)
		rc = way_run(r, (enum way)way, round, err);
	if (rc == 0 && round % 2 == 0)
		rc = bare_run(r, round, err);
	for (unsigned way = 0; way < WAYS && rc == 0; way++)
		r->ratio[way][round] = r->bare[round] > 0 ? r->got[way][round] / r->bare[round] : 0;
	return rc;
}

static void conclude(struct roofline *r, enum way way, unsigned rounds, struct roofline_result *out)
{
	struct bench_spread s;
	*out = (struct roofline_result){.ran = true, .rounds = rounds, .p50_ns = r->p50_ns};
	out->depth = (uint64_t)r->opt.depth * r->opt.pairs;
	if (r->errors.num_codes > 0) {
		out->code = r->errors.row[0].code;
		out->server_died = server_child_dead(r->bench->server);
		return;
	}
	bench_spread_of(r->ratio[way], rounds, &s);
	out->efficiency = s.median;
	out->efficiency_min = s.min;
	out->efficiency_max = s.max;
	bench_spread_of(r->got[way], rounds, &s);
	out->op_bytes_per_s = s.median;
	bench_spread_of(r->bare, rounds, &s);
	out->bytes_per_s = s.median;
}

static int rounds_run(struct roofline *r, uint64_t reads, struct kv_error *err)
{
	const struct bench_options *o = r->bench->opt;
	struct fabric_row single = {.op = FABRIC_WRITE, .size = o->load.value_size};
	int rc = fabric_pairs_open(&r->pairs, &r->opt, err);
	if (rc < 0)
		return rc;
	r->limit = single;
	kv_hist_init(&single.latency);
	rc = fabric_latency(r->pairs.end[0], &single, BARE_NS);
	if (rc == 0)
		rc = fabric_rest(r->pairs.end[0]);
	if (rc < 0)
		return kv_fail(err, rc, "bare writes: %s", kv_strerror(rc));
	r->p50_ns = kv_hist_quantile(&single.latency, 0.5);
	r->ops[WAY_GET] = KV_MAX(reads / 3, (uint64_t)o->load.num_workers);
	r->ops[WAY_PUT] = o->load.no_write ? 0 : roofline_put_keys(o, reads);
	for (unsigned i = 0; i < ROUNDS && rc == 0 && r->errors.num_codes == 0; i++)
		rc = round_run(r, i, err);
	return rc;
}

static void phases_take(struct roofline *r)
{
	r->bare[0] = r->limit.bytes_per_s;
	r->got[WAY_GET][0] = bench_per_second((double)r->bench->results.read.tally.bytes, &r->bench->results.read);
	r->got[WAY_PUT][0] = bench_per_second((double)r->bench->results.write.tally.bytes, &r->bench->results.write);
	for (unsigned way = 0; way < WAYS; way++)
		r->ratio[way][0] = r->got[way][0] / r->bare[0];
}

int roofline_run(struct roofline *r, uint64_t reads, struct kv_error *err)
{
	unsigned rounds = r && r->bench->opt->roofline.file ? 1 : ROUNDS;
	int rc = 0;
	if (!r)
		return 0;
	if (r->bench->opt->roofline.file)
		phases_take(r);
	else
		rc = rounds_run(r, reads, err);
	if (rc < 0)
		return rc == -KV_ECANCELED ? 0 : rc;
	conclude(r, WAY_GET, rounds, &r->bench->results.roofline);
	if (!r->bench->opt->load.no_write)
		conclude(r, WAY_PUT, rounds, &r->bench->results.roofline_put);
	return 0;
}
