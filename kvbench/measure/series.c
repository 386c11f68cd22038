/* SPDX-License-Identifier: Apache-2.0 */
/* series.c -- a thread that wakes at the end of each window and reads the counters of the clients' loops.
 *
 * The loops store their counters whole (bench_bump, kv_hist_add), so that reading them needs no lock. A window ends
 * when it is read, not when it was due: a thread that wakes late makes a window longer, and not a rate wrong. */
#include "kvbench/measure/series.h"

#include <stdlib.h>
#include <time.h>

#include "kvbench/setup/ticker.h"

struct series_sampler {
	struct series_source source;
	struct bench_series *out;
	uint64_t start_ns, last_ns, ops, bytes; /* until the last window's end */
	struct kv_hist *before, *now, *part, *sum;
	struct ticker ticker;
	pthread_mutex_t lock; /* of *out */
};

void bench_series_free(struct bench_series *s)
{
	free(s->row);
	memset(s, 0, sizeof(*s));
}

static bool has_place(struct bench_series *s)
{
	unsigned cap = s->cap ? 2 * s->cap : 64;
	struct bench_window *row;
	if (s->count < s->cap)
		return true;
	row = s->count < BENCH_SERIES_MAX ? realloc(s->row, cap * sizeof(*row)) : NULL;
	if (!row)
		return false;
	s->row = row;
	s->cap = cap;
	return true;
}

void bench_series_append(struct bench_series *into, struct bench_series *from)
{
	uint64_t offset_ns = into->count ? into->row[into->count - 1].end_ns : 0;
	if (into->window_ns == 0) {
		*into = *from;
		memset(from, 0, sizeof(*from));
		return;
	}
	for (unsigned i = 0; i < from->count; i++) {
		if (!has_place(into)) {
			into->left_out++;
			continue;
		}
		into->row[into->count] = from->row[i];
		into->row[into->count++].end_ns += offset_ns;
	}
	into->left_out += from->left_out;
	bench_series_free(from);
}

static void peek_all(struct series_sampler *s, uint64_t *ops, uint64_t *bytes)
{
	*ops = *bytes = 0;
	kv_hist_init(s->now);
	for (unsigned i = 0; i < s->source.count; i++) {
		const struct bench_tally *t =
			(const void *)((const char *)s->source.first + i * s->source.stride_bytes);
		*ops += __atomic_load_n(&t->ops, __ATOMIC_RELAXED);
		*bytes += __atomic_load_n(&t->bytes, __ATOMIC_RELAXED);
		kv_hist_peek(&t->latency, s->part);
		kv_hist_merge(s->now, s->part);
	}
}

/* A window ends now. The lock is not held: only this thread, or main after it, writes. */
static void sample(struct series_sampler *s)
{
	uint64_t ops, bytes, now_ns = kv_clock_now(&kv_clock_monotonic);
	struct bench_window w;
	struct kv_hist *swap = s->before;
	peek_all(s, &ops, &bytes);
	kv_hist_since(s->before, s->now, s->sum);
	w = (struct bench_window){.end_ns = now_ns - s->start_ns,
				  .length_ns = now_ns - s->last_ns,
				  .ops = ops - s->ops,
				  .bytes = bytes - s->bytes,
				  .samples = s->sum->count,
				  .p50_ns = kv_hist_quantile(s->sum, 0.5),
				  .p99_ns = kv_hist_reached(s->sum, 0.99),
				  .max_ns = s->sum->max};
	s->before = s->now;
	s->now = swap;
	s->last_ns = now_ns;
	s->ops = ops;
	s->bytes = bytes;
	pthread_mutex_lock(&s->lock);
	if (has_place(s->out))
		s->out->row[s->out->count++] = w;
	else
		s->out->left_out++;
	pthread_mutex_unlock(&s->lock);
}

static void *sampler_main(void *arg)
{
	struct series_sampler *s = arg;
	uint64_t due_ns = s->start_ns;
	do {
		for (due_ns += s->out->window_ns; due_ns <= s->last_ns;)
			due_ns += s->out->window_ns;
		if (!ticker_wait(&s->ticker, due_ns))
			return NULL;
		sample(s);
	} while (true);
}

static void sampler_free(struct series_sampler *s)
{
	if (!s)
		return;
	free(s->before);
	free(s->now);
	free(s->part);
	free(s->sum);
	free(s);
}

struct series_sampler *series_start(const struct series_source *source, uint64_t window_ns, struct bench_series *out)
{
	struct series_sampler *s = calloc(1, sizeof(*s));
	struct timespec now;
	bench_series_free(out);
	if (s) {
		s->before = calloc(1, sizeof(*s->before));
		s->now = calloc(1, sizeof(*s->now));
		s->part = calloc(1, sizeof(*s->part));
		s->sum = calloc(1, sizeof(*s->sum));
	}
	if (!s || !s->before || !s->now || !s->part || !s->sum || window_ns == 0) {
		sampler_free(s);
		return NULL;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	s->source = *source;
	s->out = out;
	s->start_ns = s->last_ns = kv_clock_now(&kv_clock_monotonic);
	out->window_ns = window_ns;
	out->start_unix_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	pthread_mutex_init(&s->lock, NULL);
	if (ticker_start(&s->ticker, sampler_main, s) == 0)
		return s;
	pthread_mutex_destroy(&s->lock);
	sampler_free(s);
	bench_series_free(out);
	return NULL;
}

bool series_live(struct series_sampler *s, struct bench_window *out)
{
	bool any;
	if (!s)
		return false;
	pthread_mutex_lock(&s->lock);
	any = s->out->count > 0;
	if (any)
		*out = s->out->row[s->out->count - 1];
	pthread_mutex_unlock(&s->lock);
	return any;
}

void series_stop(struct series_sampler *s)
{
	if (!s)
		return;
	ticker_stop(&s->ticker);
	sample(s);
	pthread_mutex_destroy(&s->lock);
	sampler_free(s);
}
