/* SPDX-License-Identifier: Apache-2.0 */
/* model.c -- with --model: the reads in tokens, prefixes and time that prefill takes.
 *
 * The time of a prefix follows from two measurements: the first GET's median, then the rest at the rate of blocks of
 * all workers. It is of one rank: the others load theirs at the same time. A trace's latencies are of requests, and the
 * throughput of --rate and --slo is the offered one, so no prefix follows from these. */
#include "kvbench/report/model.h"

#define COUNT(n)    kv_count_format((n), (char[32]){0}, 32)
#define OF(n, noun) kv_count_of((n), noun, (char[64]){0}, 64)
#define SIZE(n)     kv_size_format((n), (char[32]){0}, 32)
#define TIME(s)     kv_duration_format((uint64_t)((s) * 1e9), (char[32]){0}, 32)

static struct model_load load_of(const struct bench *b)
{
	const struct bench_options *o = b->opt;
	const struct phase_result *p = &b->results.read;
	double tokens = (double)p->tally.bytes / (double)o->load.value_size * o->model.layout.block_tokens;
	return model_load_of((uint64_t)o->model.layout.block_tokens * KV_MAX(o->load.batch, 1u),
			     o->model.layout.block_tokens, p->elapsed_ns ? tokens * 1e9 / (double)p->elapsed_ns : 0,
			     (double)kv_hist_quantile(&p->tally.latency, 0.5) / 1e9, o->model.prefix_tokens,
			     o->model.prefill_rate);
}

static bool prefix_known(const struct bench *b)
{
	return !b->opt->replay.trace && b->opt->pace.rate <= 0 && b->opt->pace.aim.quantile <= 0;
}

void report_model_start(const struct bench *b)
{
	const struct bench_options *o = b->opt;
	const struct model_bytes *m = &o->model.bytes;
	if (!o->model.name)
		return;
	kv_wrap(b->out, "model      ", 0,
		"%s (%s), %s, tp %u: %s bytes per token and rank; a block of %s is %s: %s of %s, %u per layer",
		o->model.dimensions.name, o->model.dimensions.source, model_dtype_names[o->model.layout.dtype],
		o->model.layout.tp, COUNT(m->token), OF(o->model.layout.block_tokens, "token"), SIZE(m->block),
		OF(m->slices, "slice"), SIZE(m->slice), m->slices_per_layer);
	if (o->model.dimensions.sliding_layers)
		kv_wrap(b->out, "           ", 0,
			"%u of its %u layers look back %u tokens only; blocks have the bytes of all layers",
			o->model.dimensions.sliding_layers, o->model.dimensions.layers, o->model.dimensions.window);
}

static void prefill_lines(const struct bench *b, const struct model_load *l)
{
	const struct bench_options *o = b->opt;
	double saved = l->prefill_s - l->prefix_s;
	kv_wrap(b->out, "        ", 0, "prefill at %s tokens/s takes %s: loading %s %s",
		COUNT((uint64_t)o->model.prefill_rate), TIME(l->prefill_s), saved >= 0 ? "saves" : "costs",
		TIME(saved >= 0 ? saved : -saved));
	if (l->break_even)
		kv_wrap(b->out, "        ", 0, "break-even: loading is faster from %s on", OF(l->break_even, "token"));
	else
		kv_wrap(b->out, "        ", 0, "break-even: none, prefill is faster at every length");
}

static void prefix_lines(const struct bench *b)
{
	const struct prefix_result *r = &b->results.prefix;
	if (r->loads)
		kv_wrap(b->out, "        ", 0,
			"%s loaded by one GET, layer by layer: "
			"the first layer is there after %s, all after %s (median of %s)",
			OF(r->tokens, "token"), TIME((double)r->first_ns / 1e9), TIME((double)r->all_ns / 1e9),
			OF(r->loads, "load"));
	else if (r->why[0])
		kv_wrap(b->out, "        ", 0, "the time of the first layer was not measured: %s", r->why);
}

void report_model(const struct bench *b)
{
	const struct bench_options *o = b->opt;
	struct model_load l;
	if (!o->model.name || !b->results.read.ran || b->results.read.tally.bytes == 0)
		return;
	l = load_of(b);
	fputc('\n', b->out);
	kv_wrap(b->out, "tokens  ", 0, "%s tokens per second of KV loaded, on one rank of %u",
		COUNT((uint64_t)(l.tokens_per_s + 0.5)), o->model.layout.tp);
	prefix_lines(b);
	if (!prefix_known(b)) {
		kv_wrap(b->out, "        ", 0, "no time of a prefix is computed, and nothing against prefill: %s",
			o->replay.trace ? "latencies are of a trace's requests" : "the rate is the offered one");
		return;
	}
	kv_wrap(b->out, "        ", 0, "a prefix of %s: %s, computed (a %s's median, then the rest at that rate)",
		OF(o->model.prefix_tokens, "token"), TIME(l.prefix_s), o->load.batch > 1 ? "batch" : "GET");
	if (o->model.prefill_rate > 0)
		prefill_lines(b, &l);
}

json_t *json_model(const struct bench *b)
{
	const struct bench_options *o = b->opt;
	const struct model_bytes *m = &o->model.bytes;
	json_t *object;
	struct model_load l = load_of(b);
	object =
		json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:i, s:i}", "name", o->model.dimensions.name,
			  "source", o->model.dimensions.source, "dtype", model_dtype_names[o->model.layout.dtype], "tp",
			  (int)o->model.layout.tp, "block_tokens", (int)o->model.layout.block_tokens, "token_bytes",
			  (json_int_t)m->token, "block_bytes", (json_int_t)m->block, "slice_bytes",
			  (json_int_t)m->slice, "slices", (int)m->slices, "slices_per_layer", (int)m->slices_per_layer);
	if (l.tokens_per_s > 0)
		json_object_set_new(object, "tokens_per_s", json_real(l.tokens_per_s));
	if (l.tokens_per_s > 0 && prefix_known(b)) {
		json_object_set_new(object, "prefix_tokens", json_integer((json_int_t)o->model.prefix_tokens));
		json_object_set_new(object, "prefix_load_s", json_real(l.prefix_s));
	}
	if (b->results.prefix.loads)
		json_object_set_new(object, "by_layer",
				    json_pack("{s:I, s:I, s:f, s:f}", "tokens", (json_int_t)b->results.prefix.tokens,
					      "loads", (json_int_t)b->results.prefix.loads, "first_layer_s",
					      (double)b->results.prefix.first_ns / 1e9, "all_layers_s",
					      (double)b->results.prefix.all_ns / 1e9));
	if (l.prefill_s > 0 && prefix_known(b)) {
		json_object_set_new(object, "prefill_s", json_real(l.prefill_s));
		json_object_set_new(object, "break_even_tokens",
				    l.break_even ? json_integer((json_int_t)l.break_even) : json_null());
	}
	return object;
}
