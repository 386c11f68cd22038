/* SPDX-License-Identifier: Apache-2.0 */
/* mixed.c -- GETs and PUTs at the same time, one to one: a cache that fills while it serves.
 *
 * Operation 2 i is read i of the run, operation 2 i + 1 the write of key num_keys + i. Each kind is tallied apart. The
 * figure is the rate of both together, compared with the mean of the rates of each alone, in the same run.
 *
 * The new keys are deleted behind it; on a server with keys of an earlier run also before it. */
#include "kvbench/load/mixed.h"

#include "kvbench/load/batch.h"
#include "kvbench/load/phase.h"

static int op_mixed(const struct phase_op *op)
{
	bool batch = op->phase->bench->opt->load.batch > 0;
	if (op->kind)
		return batch ? phase_op_write_batch(op) : phase_op_write(op);
	return batch ? phase_op_batch(op) : phase_op_read(op);
}

/* In turns. */
static unsigned kind_of(struct phase *p, uint64_t *number)
{
	unsigned kind = *number % 2;
	(void)p;
	*number /= 2;
	return kind;
}

static int keys_delete(struct bench *b, struct kv_error *err)
{
	struct phase p = {.bench = b,
			  .name = "deletes",
			  .run = phase_op_delete,
			  .key_base = b->opt->load.num_keys,
			  .total = b->opt->load.num_keys};
	struct phase_result result = {0};
	return phase_run(&p, &result, err);
}

int mixed_run(struct bench *b, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	struct mixed_result *m = &b->results.mixed;
	uint64_t each = o->load.batch ? (o->load.num_keys + o->load.batch - 1) / o->load.batch : o->load.num_keys;
	struct phase p = {.bench = b,
			  .name = "mixed",
			  .run = op_mixed,
			  .kinds = 2,
			  .kind_of = kind_of,
			  .series = true,
			  .key_base = o->load.num_keys,
			  .num_keys = o->load.num_keys,
			  .total = 2 * each,
			  .keys_per_op = o->load.batch,
			  .raw = BENCH_RAW_MIXED,
			  .raw_run = 1,
			  .verify = o->load.verify};
	struct phase_result both[2] = {{0}};
	double alone;
	int rc = b->server ? 0 : keys_delete(b, err);
	if (rc == 0)
		rc = phase_run(&p, both, err);
	if (rc == 0)
		rc = keys_delete(b, err);
	if (rc < 0) {
		bench_series_free(&both[0].series);
		bench_series_free(&both[1].series);
		return rc;
	}
	m->read = both[0];
	m->write = both[1];
	m->write.too_many_errors = m->write.server_died = false; /* the reads say it */
	alone = (bench_per_second((double)b->results.read.tally.ops, &b->results.read) +
		 bench_per_second((double)b->results.write.tally.ops, &b->results.write)) /
		2;
	m->of_alone =
		alone > 0 ? bench_per_second((double)(m->read.tally.ops + m->write.tally.ops), &m->read) / alone : 0;
	return 0;
}
