/* SPDX-License-Identifier: Apache-2.0 */
/* hist.c -- log-linear histogram.
 *
 * Row 0 counts each value below 2^7. Row r > 0 has 2^7 equal steps between 2^(r+6) and 2^(r+7), each 2^(r-1) wide: so a
 * bucket's upper edge exceeds a value by less than 1/128. The last bucket has all larger values; its upper edge is
 * `max`. */
#include "base/hist.h"

#include <float.h>
#include <string.h>

#include "base/bytes.h"

enum { STEPS = 1 << KV_HIST_SUB_BITS };

static unsigned bucket_of(uint64_t ns)
{
	if (ns < STEPS)
		return (unsigned)ns;
	unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - KV_HIST_SUB_BITS;
	unsigned i = ((shift + 1) << KV_HIST_SUB_BITS) + (unsigned)((ns >> shift) - STEPS);
	return KV_MIN(i, KV_HIST_BUCKETS - 1u);
}

uint64_t kv_hist_edge(unsigned i)
{
	if (i < STEPS)
		return i;
	if (i == KV_HIST_BUCKETS - 1)
		return UINT64_MAX;
	unsigned shift = (i >> KV_HIST_SUB_BITS) - 1;
	return (((uint64_t)(i & (STEPS - 1)) + STEPS + 1) << shift) - 1;
}

void kv_hist_init(struct kv_hist *h)
{
	memset(h, 0, sizeof(*h));
}

void kv_hist_add(struct kv_hist *h, uint64_t ns)
{
	kv_hist_add_many(h, ns, 1);
}

void kv_hist_add_many(struct kv_hist *h, uint64_t ns, uint64_t n)
{
	uint64_t *bucket = &h->bucket[bucket_of(ns)];
	if (n == 0)
		return;
	h->min = h->count == 0 ? ns : KV_MIN(h->min, ns);
	h->max = KV_MAX(h->max, ns);
	h->sum += (double)ns * (double)n;
	h->count += n;
	/* One thread adds, others may peek: an atomic store at the cost of +=. */
	__atomic_store_n(bucket, *bucket + n, __ATOMIC_RELAXED);
}

void kv_hist_peek(const struct kv_hist *h, struct kv_hist *out)
{
	out->count = out->min = out->max = 0;
	out->sum = 0;
	for (unsigned i = 0; i < KV_HIST_BUCKETS; i++) {
		out->bucket[i] = __atomic_load_n(&h->bucket[i], __ATOMIC_RELAXED);
		out->count += out->bucket[i];
	}
}

void kv_hist_since(const struct kv_hist *before, const struct kv_hist *now, struct kv_hist *out)
{
	kv_hist_init(out);
	for (unsigned i = 0; i < KV_HIST_BUCKETS; i++) {
		uint64_t n = now->bucket[i] - before->bucket[i];
		out->bucket[i] = n;
		if (n == 0)
			continue;
		if (out->count == 0)
			out->min = kv_hist_edge(i);
		out->max = kv_hist_edge(i);
		out->count += n;
	}
}

void kv_hist_merge(struct kv_hist *into, const struct kv_hist *from)
{
	if (from->count == 0)
		return;
	into->min = into->count == 0 ? from->min : KV_MIN(into->min, from->min);
	into->max = KV_MAX(into->max, from->max);
	into->sum += from->sum;
	into->count += from->count;
	for (unsigned i = 0; i < KV_HIST_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

/* ceil(q * count), for 0 < q < 1, less a few ulps: the product may lie above a whole number (0.07 * 100). */
static uint64_t rank_of(double q, uint64_t count)
{
	double exact = q * (double)count * (1.0 - 4 * DBL_EPSILON);
	uint64_t rank = (uint64_t)exact;
	if ((double)rank < exact)
		rank++;
	return KV_MIN(KV_MAX(rank, 1u), count);
}

uint64_t kv_hist_quantile(const struct kv_hist *h, double q)
{
	if (h->count == 0)
		return 0;
	if (!(q > 0)) /* or NaN */
		return h->min;
	if (q >= 1)
		return h->max;
	uint64_t rank = rank_of(q, h->count), seen = 0;
	for (unsigned i = 0; i < KV_HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank) {
			uint64_t edge = kv_hist_edge(i);
			return KV_MIN(edge, h->max);
		}
	}
	return h->max;
}

bool kv_hist_reaches(const struct kv_hist *h, double q)
{
	if (q <= 0.5)
		return h->count > 0;
	return (double)h->count * (1 - q) >= 1 - 1e-9; /* 1 - 0.999 is below 0.001 */
}

uint64_t kv_hist_reached(const struct kv_hist *h, double q)
{
	return kv_hist_reaches(h, q) ? kv_hist_quantile(h, q) : 0;
}

double kv_hist_mean(const struct kv_hist *h)
{
	return h->count == 0 ? 0 : h->sum / (double)h->count;
}
