/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h -- writes a page of metrics in Prometheus' text format 0.0.4, for kv-server and for libkvrail's hosts.
 *
 * A family is a name with its HELP and TYPE; its samples follow at once. Times are seconds, sizes bytes. The caller's
 * buffer bounds the page; what has no room is counted and not written, as by snprintf. Thread: any; nothing is shared.
 */
#ifndef KVRAIL_BASE_METRICS_H
#define KVRAIL_BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

enum kv_metric_type { KV_METRIC_COUNTER, KV_METRIC_GAUGE, KV_METRIC_HISTOGRAM };

/* Buckets of a histogram: the upper bounds are 2^KV_METRIC_FIRST ns (2.048 us) and powers of two behind it, up to
 * 2^30 ns (1.07 s); the last one has no bound. */
enum { KV_METRIC_FIRST = 11, KV_METRIC_BUCKETS = 21, KV_METRIC_NAME_MAX = 128 };

struct kv_metrics {
	char *buf;
	size_t cap, len; /* len: of the whole page, also where it does not fit */
	char name[KV_METRIC_NAME_MAX];
};

/* kv_metrics_begin -- an empty page in buf, of cap bytes (0: only count). It always ends with a 0. */
void kv_metrics_begin(struct kv_metrics *m, char *buf, size_t cap);

/* kv_metrics_family -- the next family. help: one line. */
void kv_metrics_family(struct kv_metrics *m, const char *name, enum kv_metric_type type, const char *help);

/* kv_metrics_value, kv_metrics_ns -- a sample of the family; of a time, which becomes seconds. labels: "" or pairs as
 * kv_metrics_label writes them, with commas between them. */
void kv_metrics_value(struct kv_metrics *m, const char *labels, uint64_t value);
void kv_metrics_ns(struct kv_metrics *m, const char *labels, uint64_t ns);

/* kv_metrics_histogram -- the samples of a histogram: how many fell into each bucket, and the sum of all. */
void kv_metrics_histogram(struct kv_metrics *m, const uint64_t count[KV_METRIC_BUCKETS], uint64_t sum_ns);

/* kv_metrics_label -- append name="value" to labels, of cap bytes, escaped, with a comma before it where something
 * stands there. What is no UTF-8 becomes '?'. Returns labels. */
char *kv_metrics_label(char *labels, size_t cap, const char *name, const char *value);

/* kv_metrics_bucket -- the bucket of a time. */
static inline unsigned kv_metrics_bucket(uint64_t ns)
{
	unsigned bits = ns > 1 ? 64 - (unsigned)__builtin_clzll(ns - 1) : 0; /* of the least power of two >= ns */

	if (bits <= KV_METRIC_FIRST)
		return 0;
	return bits - KV_METRIC_FIRST < KV_METRIC_BUCKETS ? bits - KV_METRIC_FIRST : KV_METRIC_BUCKETS - 1;
}

#endif
