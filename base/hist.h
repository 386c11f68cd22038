/* SPDX-License-Identifier: Apache-2.0 */
/* hist.h -- log-linear histogram of durations in ns: 128 linear steps per power of two. Stated error: a reported
 * quantile is never below the true sample and at most 1/128 (0.79 %) above it. min, max and count are exact, and so is
 * the sum up to 2^53. Values of 2^43 ns (146 min) and more share the last bucket, whose quantile is max. min and max of
 * an empty histogram are 0. */
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
/* kv_hist_add_many -- n samples of the same value. */
void kv_hist_add_many(struct kv_hist *h, uint64_t ns, uint64_t n);
void kv_hist_merge(struct kv_hist *into, const struct kv_hist *from);

/* kv_hist_quantile -- the sample of rank ceil(q * count), given as the upper edge of its bucket, but max at most. q <=
 * 0 gives min and q >= 1 gives max. An empty histogram gives 0. */
uint64_t kv_hist_quantile(const struct kv_hist *h, double q);

/* kv_hist_reaches -- whether the samples reach a quantile: no sample lies beyond p99 of fewer than 100 samples, and the
 * quantile would only be the largest of them. One sample reaches the median, and everything below. kv_hist_reached --
 * the quantile, or 0 where they do not: of what takes more than 0 ns. */
bool kv_hist_reaches(const struct kv_hist *h, double q);
uint64_t kv_hist_reached(const struct kv_hist *h, double q);
double kv_hist_mean(const struct kv_hist *h);

/* kv_hist_edge -- the largest value that counts in bucket i; of the last one UINT64_MAX. */
uint64_t kv_hist_edge(unsigned i);

/* kv_hist_peek -- copy the buckets of a histogram that another thread adds to, and add up count; min, max and sum of
 * the copy are not meant. Samples that come meanwhile may be in it or not. Thread: any. */
void kv_hist_peek(const struct kv_hist *h, struct kv_hist *out);

/* kv_hist_since -- what came between two peeks at one histogram: min and max are edges of buckets. */
void kv_hist_since(const struct kv_hist *before, const struct kv_hist *now, struct kv_hist *out);

#endif
