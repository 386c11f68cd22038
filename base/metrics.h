/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h -- write metrics in Prometheus' text format 0.0.4, for kv-server and hosts of libkvrail.
 *
 * A family is a name with HELP and TYPE, then its samples. Times in seconds, sizes in bytes. Beyond the caller's buffer
 * text is counted only, as by snprintf. Thread: any. */
#ifndef KVRAIL_BASE_METRICS_H
#define KVRAIL_BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

enum kv_metric_type { KV_METRIC_COUNTER, KV_METRIC_GAUGE, KV_METRIC_HISTOGRAM };

/* Buckets: upper bounds 2^KV_METRIC_FIRST ns (2.048 us), then powers of two up to 2^30 ns (1.07 s); the last has none.
 */
enum { KV_METRIC_FIRST = 11, KV_METRIC_BUCKETS = 21, KV_METRIC_NAME_MAX = 128 };

struct kv_metrics {
	char *buf;
	size_t cap, len; /* len: of the whole page */
	char name[KV_METRIC_NAME_MAX];
};

/* kv_metrics_begin -- an empty page in buf (cap 0: count only), always with a final 0. */
void kv_metrics_begin(struct kv_metrics *m, char *buf, size_t cap);

/* kv_metrics_family -- the next family. help: one line. */
void kv_metrics_family(struct kv_metrics *m, const char *name, enum kv_metric_type type, const char *help);

/* kv_metrics_value, kv_metrics_ns -- a sample; a time as seconds. labels: "", or pairs of kv_metrics_label. */
void kv_metrics_value(struct kv_metrics *m, const char *labels, uint64_t value);
void kv_metrics_ns(struct kv_metrics *m, const char *labels, uint64_t ns);

/* kv_metrics_histogram -- counts per bucket, and the sum. */
void kv_metrics_histogram(struct kv_metrics *m, const uint64_t count[KV_METRIC_BUCKETS], uint64_t sum_ns);

/* kv_metrics_label -- append name="value", escaped, after a comma if needed; invalid UTF-8 becomes '?'. Returns labels.
 */
char *kv_metrics_label(char *labels, size_t cap, const char *name, const char *value);

/* kv_metrics_bucket -- of a time. */
static inline unsigned kv_metrics_bucket(uint64_t ns)
{
	unsigned bits = ns > 1 ? 64 - (unsigned)__builtin_clzll(ns - 1) : 0; /* of the least power of two >= ns */
	if (bits <= KV_METRIC_FIRST)
		return 0;
	return bits - KV_METRIC_FIRST < KV_METRIC_BUCKETS ? bits - KV_METRIC_FIRST : KV_METRIC_BUCKETS - 1;
}

#endif
