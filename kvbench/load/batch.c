/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c -- a batch GET as an operation of a phase.
 *
 * The values land in memory that the caller registered, as an inference server's do, and not in views: a batch is the
 * call for which they exist. A worker has one batch in flight, so its keys, items and memory are made once and used
 * again. All workers' memory is one registration, which a server is told of once. */
#include "kvbench/load/batch.h"

#include <stdlib.h>

#include "host/host.h"
#include "kvbench/load/workload.h"

struct batches {
	struct kv_area area;
	struct kvc_mem *mem;
	struct bench_key *key; /* workers x batch */
	struct kvc_item *item; /* likewise */
};

/* Everything but registered memory, which stays mapped. */
static void batches_free(struct bench *bench)
{
	struct batches *b = bench->batches;

	if (!b->mem)
		kv_area_unmap(&b->area);
	free(b->item);
	free(b->key);
	free(b);
	bench->batches = NULL;
}

int batches_open(struct bench *bench, struct kv_error *err)
{
	const struct bench_options *o = bench->opt;
	size_t items = (size_t)o->num_workers * o->batch;
	struct batches *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return kv_fail(err, -KV_ENOMEM, "no memory for batches");
	bench->batches = b;
	b->key = calloc(items, sizeof(*b->key));
	b->item = calloc(items, sizeof(*b->item));
	if (b->key && b->item)
		rc = kv_area_map(items * o->value_size, &b->area, err);
	else
		rc = kv_fail(err, -KV_ENOMEM, "no memory for %zu keys", items);
	if (rc < 0)
		rc = kv_fail_more(err, "memory for batches of %u in %u workers", o->batch, o->num_workers);
	if (rc == 0)
		rc = kvc_register(bench->pool, b->area.base, b->area.len_bytes, &b->mem, err);
	if (rc < 0)
		batches_free(bench);
	return rc;
}

int batches_close(struct bench *bench, struct kv_error *err)
{
	struct batches *b = bench->batches;
	int rc = 0;

	if (!b)
		return 0;
	if (kvc_unregister(bench->pool, &b->mem) < 0)
		rc = kv_fail(err, -KV_EINTERNAL, "the batches' memory is still in use after the last operation");
	batches_free(bench);
	return rc;
}

static void batch_fill(const struct phase_op *op, struct bench_key *key, struct kvc_item *item)
{
	const struct bench *bench = op->phase->bench;
	const struct bench_options *o = bench->opt;
	uint8_t *memory = (uint8_t *)bench->batches->area.base + (uint64_t)op->worker * o->batch * o->value_size;

	for (unsigned i = 0; i < o->batch; i++) {
		uint64_t index = bench_order_key(op->number * o->batch + i, o->num_keys, o->seed);
		bench_key_make(&key[i], o->seed, o->value_size, index);
		item[i] = (struct kvc_item){
			.key = {key[i].text, key[i].len}, .data = memory + i * o->value_size, .len = o->value_size};
	}
}

/* What one item became. Returns 0, -KV_ENOTFOUND or its code. */
static int batch_item_done(const struct phase_op *op, const struct bench_key *key, const struct kvc_item *item)
{
	struct bench_tally *t = op->tally;

	if (item->result < 0 && item->result != -KV_ENOTFOUND)
		return (int)item->result;
	t->ops++;
	if (item->result < 0) {
		t->misses++;
		return -KV_ENOTFOUND;
	}
	t->hits++;
	t->bytes += (uint64_t)item->result;
	if (op->phase->verify)
		bench_verify(key, item->data, (uint64_t)item->result, item->len, t);
	else if ((uint64_t)item->result != item->len)
		t->wrong++;
	return 0;
}

int phase_op_batch(const struct phase_op *op)
{
	const struct bench_options *o = op->phase->bench->opt;
	struct batches *b = op->phase->bench->batches;
	struct bench_key *key = b->key + (size_t)op->worker * o->batch;
	struct kvc_item *item = b->item + (size_t)op->worker * o->batch;
	struct kvc_call call = {.size = sizeof(call), .flags = o->no_checksum ? KVC_NO_VERIFY : 0};
	uint64_t end_ns;
	int first = 0, rc;

	batch_fill(op, key, item);
	rc = kvc_get_batch_await(op->client, item, o->batch, &call);
	end_ns = phase_now();
	if (rc == 0)
		kv_hist_add(&op->tally->latency, end_ns > op->start_ns ? end_ns - op->start_ns : 0);
	/* The phase counts one code per operation: those of the other items are counted here. */
	for (unsigned i = 0; i < o->batch; i++) {
		rc = batch_item_done(op, &key[i], &item[i]);
		if (rc == 0 || rc == -KV_ENOTFOUND)
			continue;
		if (first)
			bench_errors_add(&op->tally->errors, rc, 1);
		else
			first = rc;
	}
	return first;
}
