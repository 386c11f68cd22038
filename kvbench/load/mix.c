/* SPDX-License-Identifier: Apache-2.0 */
/* mix.c -- --mix get:put:exists.
 *
 * GETs and EXISTS use stored keys, by --keys-pattern. Each PUT stores a key of its own behind those, so its bytes
 * always travel, and deletes it after its latency was taken; the DELETE is in no figure. A value that a GET missed is
 * stored again.
 *
 * Parts are exact: two runs make the same operations in the same order. With poisson arrivals each kind is drawn from
 * the seed: a PUT after every ninth GET would find the queue shorter than one at any moment. */
#include "kvbench/load/mix.h"

#include "kvbench/load/batch.h"

#define MIX_SEED 0x6d6978ull

/* The kind of a place in a round of m->total operations, GETs first; *place becomes that among its kind. */
static unsigned kind_at(const struct bench_mix *m, uint64_t *place)
{
	const uint64_t each[MIX_KINDS] = {[MIX_GET] = m->get, [MIX_PUT] = m->put, [MIX_EXISTS] = m->exists};
	unsigned kind = 0;
	for (; kind < MIX_KINDS - 1 && *place >= each[kind]; kind++)
		*place -= each[kind];
	return kind;
}

unsigned mix_kind_of(const struct bench_options *o, uint64_t *number)
{
	const struct bench_mix *m = &o->load.mix;
	const uint64_t each[MIX_KINDS] = {[MIX_GET] = m->get, [MIX_PUT] = m->put, [MIX_EXISTS] = m->exists};
	uint64_t place = bench_order_key(*number, m->total, o->load.seed ^ MIX_SEED), round = *number / m->total;
	unsigned kind = kind_at(m, &place);
	*number = round * each[kind] + place;
	return kind;
}

unsigned mix_kind_drawn(const struct bench_options *o, uint64_t number)
{
	const struct bench_mix *m = &o->load.mix;
	uint64_t place = bench_random(o->load.seed ^ MIX_SEED, number, 0) % m->total;
	return kind_at(m, &place);
}

/* Numbers of a kind begin at the phase's first: those of an earlier run are below it. */
static unsigned kind_of(struct phase *p, uint64_t *number)
{
	unsigned kind;
	if (!p->poisson || p->rate <= 0)
		return mix_kind_of(p->bench->opt, number);
	kind = mix_kind_drawn(p->bench->opt, *number);
	*number = p->own.kind_next[kind]++;
	return kind;
}

static int keys_delete(const struct phase_op *op)
{
	unsigned keys = KV_MAX(op->phase->keys_per_op, 1u);
	struct phase_op one = *op;
	int rc, first = 0;
	for (unsigned i = 0; i < keys; i++) {
		one.number = op->number * keys + i;
		rc = phase_delete(&one);
		first = first ? first : rc;
	}
	return first;
}

static int op_put(const struct phase_op *op)
{
	int rc = op->phase->keys_per_op ? phase_op_write_batch(op) : phase_op_write(op);
	return rc < 0 ? rc : keys_delete(op);
}

static int op_exists_one(const struct phase_op *op)
{
	const struct bench *b = op->phase->bench;
	struct kvc_call call = phase_call(b->opt);
	struct bench_key key;
	struct kvc_key name;
	uint64_t index = bench_draw_key(&b->draw, op->number), start_ns = op->outages ? phase_now() : 0, end_ns;
	uint8_t found = 0;
	int rc;
	bench_key_of(&b->names, index, &key);
	name = (struct kvc_key){key.text, key.len};
	rc = kvc_exists_await(op->client, &name, 1, &found, NULL, &call);
	end_ns = phase_now();
	phase_watch(op, index, start_ns, rc);
	phase_raw(op, BENCH_RAW_EXISTS, index, 0, rc == 0 && !found ? -KV_ENOTFOUND : rc, end_ns);
	if (rc < 0)
		return phase_count_undone(op, rc, end_ns);
	phase_count_done(op, 0, end_ns);
	op->tally->hits += found;
	op->tally->misses += !found;
	return found ? 0 : -KV_ENOTFOUND;
}

static int op_get(const struct phase_op *op)
{
	return op->phase->keys_per_op ? phase_op_batch(op) : phase_op_read(op);
}

static int op_exists(const struct phase_op *op)
{
	return op->phase->keys_per_op ? phase_op_exists_batch(op) : op_exists_one(op);
}

static int op_mix(const struct phase_op *op)
{
	static int (*const run[MIX_KINDS])(const struct phase_op *op) = {
		[MIX_GET] = op_get, [MIX_PUT] = op_put, [MIX_EXISTS] = op_exists};
	return run[op->kind](op);
}

void mix_phase(struct phase *phase)
{
	if (phase->bench->opt->load.mix.total == 0)
		return;
	phase->run = op_mix;
	phase->store_missed = true;
	phase->kind_of = kind_of;
	_Static_assert((int)MIX_KINDS <= (int)PHASE_KINDS_MAX, "a phase has room for the kinds");
	phase->kinds = MIX_KINDS;
	phase->key_base = phase->bench->opt->load.num_keys;
	phase->num_keys = UINT64_MAX;
}
