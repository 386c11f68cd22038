/* SPDX-License-Identifier: Apache-2.0 */
/* reporter.c -- the reports of a step, its sums, and its early end. */
#include <stdarg.h>
#include <stdlib.h>

#include "host/host.h"
#include "kvbench/scale/scale.h"
#include "kvbench/setup/signals.h"
#include "kvbench/setup/step.h"

void scale_report(struct scale_reporter *t)
{
	const struct scale_step *s = &t->step;
	json_t *o =
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
			  "s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:s, s:s}",
			  "connected", (json_int_t)s->connected, "succeeded", (json_int_t)s->succeeded, "messages",
			  (json_int_t)s->messages, "wrong", (json_int_t)s->wrong, "failed", (json_int_t)s->failed,
			  "connect_ns", (json_int_t)s->connect_ns, "talk_ns", (json_int_t)s->talk_ns, "connect_p50_ns",
			  (json_int_t)s->connect_p50_ns, "connect_p99_ns", (json_int_t)s->connect_p99_ns, "p50_ns",
			  (json_int_t)s->p50_ns, "p99_ns", (json_int_t)s->p99_ns, "rss_start", (json_int_t)s->rss_start,
			  "rss_base", (json_int_t)s->rss_base, "rss", (json_int_t)s->rss, "threads",
			  (json_int_t)s->threads, "files", (json_int_t)s->files, "peer_memory", (json_int_t)s->peer_rss,
			  "final", (int)s->final, "provider", s->info.provider, "libfabric", s->info.libfabric, "wait",
			  s->info.wait, "loopback_congestion_control", s->info.congestion);
	if (o && s->ended)
		json_object_set_new(o, "stopped", json_string(s->text));
	step_report(o);
}

void scale_measure(struct scale_reporter *t)
{
	struct kv_process p;
	kv_process_read(0, &p);
	t->step.rss = KV_MAX(t->step.rss, p.rss);
	t->step.files = (uint32_t)KV_MAX(t->step.files, p.files);
	t->step.threads = (uint32_t)KV_MAX(t->step.threads, p.threads);
}

void scale_end(struct scale_reporter *t, const char *fmt, ...)
{
	va_list args;
	if (t->step.ended)
		return;
	t->step.ended = true;
	va_start(args, fmt);
	vsnprintf(t->step.text, sizeof(t->step.text), fmt, args);
	va_end(args);
}

bool scale_over(const struct scale_reporter *t)
{
	return bench_interrupted() || kv_clock_now(&kv_clock_monotonic) >= t->deadline_ns;
}

struct scale_tally *scale_tallies_make(unsigned n)
{
	struct scale_tally *t = aligned_alloc(KV_CACHELINE, n * sizeof(*t));
	for (unsigned i = 0; t && i < n; i++) {
		memset(&t[i], 0, sizeof(t[i]));
		kv_hist_init(&t[i].connect);
		kv_hist_init(&t[i].latency);
	}
	return t;
}

void scale_tallies_take(struct scale_tally *all, unsigned n, struct scale_step *s)
{
	for (unsigned i = 1; i < n; i++) {
		kv_hist_merge(&all->connect, &all[i].connect);
		kv_hist_merge(&all->latency, &all[i].latency);
		all->messages += all[i].messages;
		all->wrong += all[i].wrong;
		all->failed += all[i].failed;
		all->code = all->code ? all->code : all[i].code;
	}
	s->messages = all->messages;
	s->wrong = all->wrong;
	s->failed = all->failed;
	s->connect_p50_ns = kv_hist_quantile(&all->connect, 0.5);
	s->connect_p99_ns = kv_hist_reached(&all->connect, 0.99);
	s->p50_ns = kv_hist_quantile(&all->latency, 0.5);
	s->p99_ns = kv_hist_reached(&all->latency, 0.99);
}
