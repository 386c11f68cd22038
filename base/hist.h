/* SPDX-License-Identifier: Apache-2.0 */
/* hist.h -- log-linear histogram of durations in ns, 128 steps per power of two. A quantile is at most 1/128 (0.79 %)
 * above the true sample, never below. min, max, count, and sum up to 2^53 are exact. Values from 2^43 ns (146 min)
 * share the last bucket, whose quantile is max. Empty: min and max are 0. */
#ifndef KVRAIL_BASE_HIST_H
#define KVRAIL_BASE_HIST_H

#include <stdbool.h>
#include <stdint.h>

enum {
	KV_HIST_SUB_BITS = 7,
	KV_HIST_MAX_BITS = 42,
	KV_HIST_BUCKETS = (KV_HIST_MAX_BITS - KV_HIST_SUB_BITS + 2) << KV_HIST_SUB_BITS
};

struct kv_hist {
	uint64_t count, min, max;
	double sum;
	uint64_t bucket[KV_HIST_BUCKETS];
};

void kv_hist_init(struct kv_hist *h);
void kv_hist_add(struct kv_hist *h, uint64_t ns);
/* kv_hist_add_many -- n equal samples. */
void kv_hist_add_many(struct kv_hist *h, uint64_t ns, uint64_t n);
void kv_hist_merge(struct kv_hist *into, const struct kv_hist *from);

/* kv_hist_quantile -- the sample of rank ceil(q * count) as its bucket's upper edge, at most max. q <= 0: min; q >= 1:
 * max; empty: 0. */
uint64_t kv_hist_quantile(const struct kv_hist *h, double q);

/* kv_hist_reaches -- whether a sample lies beyond the quantile: p99 needs 100 samples. One sample reaches the median.
 * kv_hist_reached -- the quantile, or 0 if it is not reached. */
bool kv_hist_reaches(const struct kv_hist *h, double q);
uint64_t kv_hist_reached(const struct kv_hist *h, double q);
double kv_hist_mean(const struct kv_hist *h);

/* kv_hist_edge -- the largest value of bucket i; the last: UINT64_MAX. */
uint64_t kv_hist_edge(unsigned i);

/* kv_hist_peek -- copy the buckets of a histogram in use by another thread, and their count; not min, max, sum. Thread:
 * any. */
void kv_hist_peek(const struct kv_hist *h, struct kv_hist *out);

/* kv_hist_since -- the samples between two peeks; min and max are bucket edges. */
void kv_hist_since(const struct kv_hist *before, const struct kv_hist *now, struct kv_hist *out);

#endif
