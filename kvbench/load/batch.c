/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c -- a batch PUT and a batch GET as operations of a phase.
 *
 * A worker has one batch in flight, so its keys, items and memory are made once. All workers' memory is one
 * registration.
 *
 * With --slices a value lies in as many pieces in the worker's memory, each with a gap as long behind it, as a block of
 * many layers does. The slices of a PUT are copied there from the stock before its latency begins.
 *
 * With --async (async.c) an id in flight takes the place of a worker, and every operation is a batch, without --batch
 * of one key. */
#include "kvbench/load/batch.h"

#include <stdlib.h>

#include "host/host.h"
#include "kvbench/load/keys.h"
#include "kvbench/load/values.h"

static unsigned batch_keys(const struct bench_options *o)
{
	return KV_MAX(o->load.batch, 1u);
}

static uint64_t place_bytes(const struct bench_options *o)
{
	return o->load.slices ? 2 * o->load.value_size : o->load.value_size;
}

struct batches {
	struct bench_area memory;
	struct bench_key *key; /* workers x batch */
	struct kvc_item *item; /* likewise */
	struct kvc_key *name;
	uint8_t *found;
};

static uint8_t *worker_memory(const struct phase_op *op)
{
	const struct bench *b = op->phase->bench;
	return (uint8_t *)b->batches->memory.area.base +
	       (uint64_t)op->worker * batch_keys(b->opt) * place_bytes(b->opt);
}

static void batches_free(struct bench *bench)
{
	struct batches *b = bench->batches;
	free(b->found);
	free(b->name);
	free(b->item);
	free(b->key);
	free(b);
	bench->batches = NULL;
}

int batches_open(struct bench *bench, struct kv_error *err)
{
	const struct bench_options *o = bench->opt;
	size_t items = (size_t)o->load.num_workers * batch_keys(o);
	struct batches *b = calloc(1, sizeof(*b));
	int rc;
	if (!b)
		return kv_fail(err, -KV_ENOMEM, "no memory for batches");
	bench->batches = b;
	b->key = calloc(items, sizeof(*b->key));
	b->item = calloc(items, sizeof(*b->item));
	if (o->load.mix.exists) {
		b->name = calloc(items, sizeof(*b->name));
		b->found = calloc(items, sizeof(*b->found));
	}
	if (b->key && b->item && (!o->load.mix.exists || (b->name && b->found)))
		rc = bench_area_open(bench->pool, items * place_bytes(o), &b->memory, err);
	else
		rc = kv_fail(err, -KV_ENOMEM, "no memory for %zu key%s", items, kv_plural(items));
	if (rc < 0)
		rc = kv_fail_more(err, "memory for batches of %u in %u worker%s", batch_keys(o), o->load.num_workers,
				  kv_plural(o->load.num_workers));
	if (rc < 0)
		batches_free(bench);
	return rc;
}

int batches_close(struct bench *bench, struct kv_error *err)
{
	int rc;
	if (!bench->batches)
		return 0;
	rc = bench_area_close(bench->pool, &bench->batches->memory, "batches", err);
	batches_free(bench);
	return rc;
}

static void slices_set(const struct bench_options *o, struct kvc_item *item)
{
	item->slice = o->load.slices ? item->len / o->load.slices : 0;
	item->stride = 2 * item->slice;
}

static void slices_copy(const struct kvc_item *item, const uint8_t *value)
{
	for (uint64_t i = 0; i * item->slice < item->len; i++)
		memcpy((uint8_t *)item->data + i * item->stride, value + i * item->slice, item->slice);
}

static void get_fill(const struct phase_op *op, struct bench_key *key, struct kvc_item *item)
{
	const struct bench *bench = op->phase->bench;
	const struct bench_options *o = bench->opt;
	unsigned n = batch_keys(o);
	uint8_t *memory = worker_memory(op);
	for (unsigned i = 0; i < n; i++) {
		uint64_t len = bench_key_of(&bench->names, bench_draw_key(&bench->draw, op->number * n + i), &key[i]);
		item[i] = (struct kvc_item){
			.key = {key[i].text, key[i].len}, .data = memory + i * place_bytes(o), .len = len};
		slices_set(o, &item[i]);
	}
}

static void put_fill(const struct phase_op *op, uint64_t from, unsigned n, struct bench_key *key, struct kvc_item *item)
{
	const struct bench *bench = op->phase->bench;
	const struct bench_options *o = bench->opt;
	for (unsigned i = 0; i < n; i++) {
		uint64_t len = bench_key_of(&bench->names, op->phase->key_base + from + i, &key[i]);
		item[i] = (struct kvc_item){
			.key = {key[i].text, key[i].len}, .data = values_of(bench, &key[i], len), .len = len};
		if (o->load.slices) {
			const uint8_t *value = item[i].data;
			item[i].data = worker_memory(op) + i * place_bytes(o);
			slices_set(o, &item[i]);
			slices_copy(&item[i], value);
		}
	}
}

unsigned batch_begin(const struct phase_op *op, bool put, struct kvc_item **out_items)
{
	struct batches *b = op->phase->bench->batches;
	unsigned keys = batch_keys(op->phase->bench->opt), n = keys;
	size_t at = (size_t)op->worker * keys;
	uint64_t from = op->number * keys;
	if (put) {
		n = (unsigned)KV_MIN((uint64_t)keys, op->phase->num_keys - from);
		put_fill(op, from, n, b->key + at, b->item + at);
	} else {
		get_fill(op, b->key + at, b->item + at);
	}
	*out_items = b->item + at;
	return n;
}

static void item_verify(const struct bench_key *key, const struct kvc_item *item, struct bench_tally *t)
{
	bool right = (uint64_t)item->result == item->len;
	if (!item->slice) {
		bench_verify(key, item->data, (uint64_t)item->result, item->len, t);
		return;
	}
	for (uint64_t from = 0, i = 0; right && from < item->len; from += item->slice, i++)
		right = bench_value_check_part(key, item->len, from, (uint8_t *)item->data + i * item->stride,
					       item->slice) == item->slice;
	t->checked++;
	t->wrong += !right;
}

static void item_glance(const struct bench_key *key, const struct kvc_item *item, struct bench_tally *t)
{
	uint64_t last = bench_value_last(item->len), stride = item->slice ? item->stride - item->slice : 0;
	const uint8_t *data = item->data;
	if (item->slice) /* the gaps before it */
		last += last / item->slice * stride;
	t->wrong += (uint64_t)item->result != item->len || !bench_value_edges(key, item->len, data, data + last);
}

int batch_item_got(const struct bench_key *key, const struct kvc_item *item, bool verify, struct bench_tally *t)
{
	if (item->result < 0 && item->result != -KV_ENOTFOUND)
		return (int)item->result;
	bench_bump(&t->ops, 1);
	if (item->result < 0) {
		t->misses++;
		return -KV_ENOTFOUND;
	}
	t->hits++;
	bench_bump(&t->bytes, (uint64_t)item->result);
	(verify ? item_verify : item_glance)(key, item, t);
	return 0;
}

int batch_item_stored(const struct kvc_item *item, struct bench_tally *t)
{
	if (item->result < 0 && item->result != -KV_EEXIST)
		return (int)item->result;
	bench_bump(&t->ops, 1);
	if (item->result < 0)
		t->put_conflicts++; /* another client stored other bytes before: the key is stored */
	else
		bench_bump(&t->bytes, item->len);
	return 0;
}

/* A record for each key; the times are the batch's. */
static void batch_raw(const struct phase_op *op, bool put, unsigned n, uint64_t end_ns)
{
	const struct bench *b = op->phase->bench;
	unsigned keys = batch_keys(b->opt);
	const struct kvc_item *item = b->batches->item + (size_t)op->worker * keys;
	for (unsigned i = 0; i < n; i++) {
		uint64_t key = op->number * keys + i;
		int code = item[i].result < 0 ? (int)item[i].result : 0;
		uint64_t bytes = put ? item[i].len : (uint64_t)item[i].result;
		key = put ? op->phase->key_base + key : bench_draw_key(&b->draw, key);
		phase_raw_add(op, put ? BENCH_RAW_PUT : BENCH_RAW_GET, key, code ? 0 : bytes, code, 0, end_ns);
	}
}

int batch_end(const struct phase_op *op, bool put, unsigned n, int rc, uint64_t end_ns)
{
	size_t at = (size_t)op->worker * batch_keys(op->phase->bench->opt);
	const struct batches *b = op->phase->bench->batches;
	int first = 0;
	bool missed = false;
	if (op->raw)
		batch_raw(op, put, n, end_ns);
	if (rc == 0)
		kv_hist_add(&op->tally->latency, end_ns > op->start_ns ? end_ns - op->start_ns : 0);
	for (unsigned i = 0; i < n; i++) {
		rc = put ? batch_item_stored(&b->item[at + i], op->tally)
			 : batch_item_got(&b->key[at + i], &b->item[at + i], op->phase->verify, op->tally);
		missed = missed || rc == -KV_ENOTFOUND;
		if (rc == 0 || rc == -KV_ENOTFOUND)
			continue;
		if (first)
			bench_errors_add(&op->tally->errors, rc, 1);
		else
			first = rc;
	}
	if (first || missed)
		phase_count_undone(op, first ? first : -KV_ENOTFOUND, end_ns);
	return first;
}

/* Returns 0, or the first code. */
static int batch_store_missed(const struct phase_op *op, const struct kvc_item *items, unsigned n)
{
	const struct batches *b = op->phase->bench->batches;
	const struct bench_key *key = b->key + (items - b->item);
	int first = 0;
	for (unsigned i = 0; i < n; i++) {
		int rc = 0;
		if (items[i].result == -KV_ENOTFOUND)
			rc = phase_store_again(op, bench_draw_key(&op->phase->bench->draw, op->number * n + i), &key[i],
					       items[i].len);
		first = first ? first : rc;
	}
	return first;
}

int phase_op_batch(const struct phase_op *op)
{
	struct kvc_call call = phase_call(op->phase->bench->opt);
	struct kvc_item *items;
	unsigned n = batch_begin(op, false, &items);
	int rc = kvc_get_batch_await(op->client, items, n, &call);
	rc = batch_end(op, false, n, rc, phase_now());
	return rc == 0 && op->phase->store_missed ? batch_store_missed(op, items, n) : rc;
}

int phase_op_write_batch(const struct phase_op *op)
{
	struct kvc_call call = phase_put_call(op->phase);
	struct phase_op begun = *op;
	struct kvc_item *items;
	unsigned n = batch_begin(op, true, &items);
	int rc;
	if (op->phase->bench->opt->load.slices)
		begun.start_ns = phase_now();
	rc = kvc_put_batch_await(op->client, items, n, &call);
	return batch_end(&begun, true, n, rc, phase_now());
}

int phase_op_exists_batch(const struct phase_op *op)
{
	const struct bench *bench = op->phase->bench;
	struct kvc_call call = phase_call(bench->opt);
	unsigned n = batch_keys(bench->opt);
	size_t at = (size_t)op->worker * n;
	struct bench_key *key = bench->batches->key + at;
	struct kvc_key *name = bench->batches->name + at;
	uint8_t *found = bench->batches->found + at;
	uint64_t hits = 0, end_ns;
	int rc;
	for (unsigned i = 0; i < n; i++) {
		bench_key_of(&bench->names, bench_draw_key(&bench->draw, op->number * n + i), &key[i]);
		name[i] = (struct kvc_key){key[i].text, key[i].len};
	}
	rc = kvc_exists_await(op->client, name, n, found, NULL, &call);
	end_ns = phase_now();
	for (unsigned i = 0; i < n; i++)
		phase_raw(op, BENCH_RAW_EXISTS, bench_draw_key(&bench->draw, op->number * n + i), 0,
			  rc == 0 && !found[i] ? -KV_ENOTFOUND : rc, end_ns);
	if (rc < 0)
		return phase_count_undone(op, rc, end_ns);
	phase_count_done(op, 0, end_ns);
	bench_bump(&op->tally->ops, n - 1); /* one of them is counted */
	for (unsigned i = 0; i < n; i++)
		hits += found[i];
	op->tally->hits += hits;
	op->tally->misses += n - hits;
	return hits == n ? 0 : -KV_ENOTFOUND;
}
