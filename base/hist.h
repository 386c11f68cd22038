/* SPDX-License-Identifier: Apache-2.0 */
/* hist.h -- log-linear histogram of durations in ns: 128 linear steps per power of two.
 * Stated error: a reported quantile is at most 1/128 (0.79 %) above the true sample, never below it;
 * min, max and count are exact, and so is the sum until it passes 2^53. Values of 2^43 ns (146 min) and more share
 * the last bucket, whose quantile is max. min and max of an empty histogram are 0. */
#ifndef KVRAIL_BASE_HIST_H
#define KVRAIL_BASE_HIST_H

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
void kv_hist_merge(struct kv_hist *into, const struct kv_hist *from);

/* kv_hist_quantile -- the sample of rank ceil(q * count), as the upper edge of its bucket, capped at max. q <= 0 gives
 * min, q >= 1 gives max; 0 when empty. */
uint64_t kv_hist_quantile(const struct kv_hist *h, double q);
double kv_hist_mean(const struct kv_hist *h);

#endif
