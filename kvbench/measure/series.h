/* SPDX-License-Identifier: Apache-2.0 */
/* series.h -- operations, bytes and latency of each window of a phase. A thread reads the tallies; workers do nothing
 * for it. */
#ifndef KVRAIL_KVBENCH_MEASURE_SERIES_H
#define KVRAIL_KVBENCH_MEASURE_SERIES_H

#include <pthread.h>
#include <stdbool.h>

#include "kvbench/measure/tally.h"

enum { BENCH_SERIES_MAX = 100000 }; /* windows of a phase; later ones are counted as left out */

struct bench_window {
	uint64_t end_ns, length_ns; /* since the phase began */
	uint64_t ops, bytes;
	uint64_t samples;        /* of latency; 0: there are no percentiles */
	uint64_t p50_ns, p99_ns; /* at most 1/128 too large, as histograms are; p99_ns 0: of too few samples */
	uint64_t max_ns;         /* likewise too large */
};

struct bench_series {
	uint64_t window_ns; /* 0: none was made */
	int64_t start_unix_ns;
	unsigned count, cap;
	uint64_t left_out; /* windows without room */
	struct bench_window *row;
};

/* bench_series_free -- empty it. */
void bench_series_free(struct bench_series *s);

/* bench_series_append -- put the windows of a repeated phase behind those of into, whose time continues; from is empty
 * then. Windows without room are counted as left out. */
void bench_series_append(struct bench_series *into, struct bench_series *from);

struct series_source {
	const struct bench_tally *first; /* they live until series_stop */
	size_t stride_bytes;
	unsigned count;
};

struct series_sampler;

/* series_start -- sample a source into *out every window_ns until series_stop. Thread: main. Returns NULL if there is
 * no memory or thread for it: the phase then has no series, and does not suffer. */
struct series_sampler *series_start(const struct series_source *source, uint64_t window_ns, struct bench_series *out);

/* series_live -- the last full window. False: there is none yet. Thread: any. sampler may be NULL. */
bool series_live(struct series_sampler *sampler, struct bench_window *out);

/* series_stop -- end the thread, add the last, shorter window, and free the sampler. NULL is accepted. */
void series_stop(struct series_sampler *sampler);

#endif
