/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c -- key patterns and sizes, computed from numbers.
 *
 * Zipf: key k, from 1 on, is read with a probability of k^-theta / sum. Drawn by rejection inversion (Hoermann and
 * Derflinger, 1996, in the form of Apache Commons RNG): exact for every theta > 0, without a table.
 *
 * All randomness is a hash of seed, number and attempt: read `number` is of the same key, whichever worker takes it.
 *
 * Sizes: of each `total` keys in a row, as many have a size as its weight says, in an order that the seed decides. */
#include "kvbench/load/keys.h"

#include <math.h>

#define SIZES_SEED 0x73697a6573ull

/* ---- patterns ---- */

static double expm1_part(double x)
{
	return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

static double log1p_part(double x)
{
	return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

/* The integral of x^-theta from 1 to x, its inverse, and x^-theta. */
static double zipf_area(double theta, double x)
{
	double l = log(x);
	return expm1_part((1 - theta) * l) * l;
}

static double zipf_unarea(double theta, double area)
{
	double t = fmax(area * (1 - theta), -1);
	return exp(log1p_part(t) * area);
}

static double zipf_height(double theta, double x)
{
	return exp(-theta * log(x));
}

void bench_draw_init(struct bench_draw *d, const struct bench_pattern *pattern, uint64_t num_keys, uint64_t seed)
{
	double theta = pattern->theta;
	*d = (struct bench_draw){.pattern = *pattern, .num_keys = num_keys, .seed = seed, .theta = theta};
	if (pattern->kind == BENCH_KEYS_HOT)
		d->hot_keys = KV_MAX(KV_MIN((uint64_t)ceil(pattern->fraction * (double)num_keys), num_keys), 1ul);
	if (pattern->kind != BENCH_KEYS_ZIPF)
		return;
	d->h_first = zipf_area(theta, 1.5) - 1;
	d->h_last = zipf_area(theta, (double)num_keys + 0.5);
	d->s = 2 - zipf_unarea(theta, zipf_area(theta, 2.5) - zipf_height(theta, 2));
}

static double unit(uint64_t random)
{
	return (double)(random >> 11) * 0x1p-53;
}

static uint64_t below(uint64_t random, uint64_t n)
{
	return (uint64_t)((unsigned __int128)random * n >> 64);
}

/* The loop ends: each attempt is taken with a probability of more than one half. */
static uint64_t zipf_key(const struct bench_draw *d, uint64_t number)
{
	for (uint64_t attempt = 0;; attempt++) {
		double area = d->h_last + unit(bench_random(d->seed, number, attempt)) * (d->h_first - d->h_last);
		double x = zipf_unarea(d->theta, area), k = floor(x + 0.5);
		k = fmin(fmax(k, 1), (double)d->num_keys);
		if (k - x <= d->s || area >= zipf_area(d->theta, k + 0.5) - zipf_height(d->theta, k))
			return (uint64_t)k - 1;
	}
}

static uint64_t hot_key(const struct bench_draw *d, uint64_t number)
{
	uint64_t which = bench_random(d->seed, number, 1), cold = d->num_keys - d->hot_keys;
	if (cold == 0 || unit(bench_random(d->seed, number, 0)) < d->pattern.share)
		return below(which, d->hot_keys);
	return d->hot_keys + below(which, cold);
}

uint64_t bench_draw_other(const struct bench_draw *d, uint64_t number)
{
	switch (d->pattern.kind) {
	case BENCH_KEYS_SHUFFLED:
		break;
	case BENCH_KEYS_SEQUENTIAL:
		return number % d->num_keys;
	case BENCH_KEYS_UNIFORM:
		return below(bench_random(d->seed, number, 0), d->num_keys);
	case BENCH_KEYS_ZIPF:
		return zipf_key(d, number);
	case BENCH_KEYS_HOT:
		return hot_key(d, number);
	}
	return bench_order_key(number, d->num_keys, d->seed);
}

/* ---- sizes ---- */

uint64_t bench_size_of(const struct bench_options *o, uint64_t index)
{
	const struct bench_sizes *s = &o->load.sizes;
	uint64_t at;
	unsigned i = 0;
	if (s->count == 0)
		return o->load.value_size;
	at = bench_order_key(index, s->total, o->load.seed ^ SIZES_SEED);
	while (i + 1 < s->count && at >= s->row[i].weight)
		at -= s->row[i++].weight;
	return s->row[i].size;
}

void bench_names_init(struct bench_names *names, const struct bench_options *options)
{
	names->opt = options;
	bench_key_begin(&names->head, options->load.seed, options->load.value_size);
}

uint64_t bench_key_sized(const struct bench_names *names, uint64_t index, struct bench_key *key)
{
	uint64_t size = bench_size_of(names->opt, index);
	bench_key_make(key, names->opt->load.seed, size, index);
	return size;
}

uint64_t bench_size_mean(const struct bench_options *o)
{
	return o->load.sizes.count ? bench_sizes_mean(&o->load.sizes) : o->load.value_size;
}

uint64_t bench_keys_memory(const struct bench_options *o, uint64_t num_values, unsigned shards)
{
	const struct bench_sizes *s = &o->load.sizes;
	uint64_t need = 0;
	if ((double)num_values * (double)o->load.value_size > 1e18)
		return UINT64_MAX;
	if (s->count == 0)
		return bench_memory_need(num_values, o->load.value_size, shards);
	for (unsigned i = 0; i < s->count; i++) {
		uint64_t weight = s->row[i].weight;
		uint64_t n = num_values / s->total * weight + KV_MIN(num_values % s->total, weight);
		if (n > 0)
			need += bench_memory_need(n, s->row[i].size, shards);
	}
	return need;
}

int bench_keys_plan(const struct bench_options *o, uint64_t num_values, unsigned shards, uint64_t available_bytes,
		    uint64_t *out_mb, struct kv_error *err)
{
	char mean[32], need_text[32], half[32];
	uint64_t need;
	if (o->load.sizes.count == 0)
		return bench_memory_plan(num_values, o->load.value_size, shards, available_bytes, out_mb, err);
	need = bench_keys_memory(o, num_values, shards);
	if (need > available_bytes / 2)
		return kv_fail(
			err, -KV_ENOMEM,
			"for %llu value%s of %s on average the server needs %s, more than half of this machine's "
			"free memory (%s): use a smaller --num-keys, or --memory-mb N (further values are evicted)",
			(unsigned long long)num_values, kv_plural(num_values),
			kv_size_format(bench_size_mean(o), mean, sizeof(mean)),
			need == UINT64_MAX ? "more than any memory"
					   : kv_size_format(need, need_text, sizeof(need_text)),
			kv_size_format(available_bytes / 2, half, sizeof(half)));
	*out_mb = need >> 20;
	return 0;
}
