/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c -- see metrics.h. https://prometheus.io/docs/instrumenting/exposition_formats/ (text format).
 *
 * Seconds are written from whole nanoseconds, since a double rounds large counters. A histogram's count is the sum of
 * its buckets, so that both agree while others count. */
#include "base/metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

static void put(struct kv_metrics *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct kv_metrics *m, const char *fmt, ...)
{
	size_t room = m->len < m->cap ? m->cap - m->len : 0;
	va_list ap;
	int n;
	va_start(ap, fmt);
	n = vsnprintf(room ? m->buf + m->len : NULL, room, fmt, ap);
	va_end(ap);
	m->len += (size_t)KV_MAX(n, 0);
}

void kv_metrics_begin(struct kv_metrics *m, char *buf, size_t cap)
{
	*m = (struct kv_metrics){.buf = buf, .cap = cap};
	if (cap)
		buf[0] = '\0';
}

void kv_metrics_family(struct kv_metrics *m, const char *name, enum kv_metric_type type, const char *help)
{
	static const char *const types[] = {"counter", "gauge", "histogram"};
	snprintf(m->name, sizeof(m->name), "%s", name);
	put(m, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

static void sample(struct kv_metrics *m, const char *suffix, const char *labels)
{
	put(m, "%s%s%s%s%s ", m->name, suffix, labels[0] ? "{" : "", labels, labels[0] ? "}" : "");
}

/* Nanoseconds as seconds, without final zeros. */
static char *seconds(uint64_t ns, char buf[32])
{
	size_t len = (size_t)snprintf(buf, 32, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
	while (buf[len - 1] == '0')
		len--;
	if (buf[len - 1] == '.')
		len--;
	buf[len] = '\0';
	return buf;
}

void kv_metrics_value(struct kv_metrics *m, const char *labels, uint64_t value)
{
	sample(m, "", labels);
	put(m, "%" PRIu64 "\n", value);
}

void kv_metrics_ns(struct kv_metrics *m, const char *labels, uint64_t ns)
{
	char text[32];
	sample(m, "", labels);
	put(m, "%s\n", seconds(ns, text));
}

void kv_metrics_histogram(struct kv_metrics *m, const uint64_t count[KV_METRIC_BUCKETS], uint64_t sum_ns)
{
	uint64_t all = 0;
	char text[32], label[48];
	for (unsigned i = 0; i < KV_METRIC_BUCKETS; i++) {
		all += count[i];
		snprintf(label, sizeof(label), "le=\"%s\"",
			 i < KV_METRIC_BUCKETS - 1 ? seconds(1ull << (KV_METRIC_FIRST + i), text) : "+Inf");
		sample(m, "_bucket", label);
		put(m, "%" PRIu64 "\n", all);
	}
	sample(m, "_sum", "");
	put(m, "%s\n", seconds(sum_ns, text));
	sample(m, "_count", "");
	put(m, "%" PRIu64 "\n", all);
}

char *kv_metrics_label(char *labels, size_t cap, const char *name, const char *value)
{
	size_t at = strlen(labels), start = at;
	int n = snprintf(labels + at, cap - at, "%s%s=\"", at ? "," : "", name);
	at += (size_t)KV_MAX(n, 0);
	for (; *value && at + 4 < cap; value++) {
		unsigned char c = (unsigned char)*value;
		if (c == '\\' || c == '"' || c == '\n')
			labels[at++] = '\\';
		if (c < 0x20 || c >= 0x7F)
			c = c == '\n' ? 'n' : '?';
		labels[at++] = (char)c;
	}
	if (at + 2 > cap) { /* does not fit */
		labels[start] = '\0';
		return labels;
	}
	labels[at++] = '"';
	labels[at] = '\0';
	return labels;
}
