/* SPDX-License-Identifier: Apache-2.0 */
/* recorded.h -- the times of a trace's requests, for --arrivals trace:FILE. */
#ifndef KVRAIL_KVBENCH_LOAD_RECORDED_H
#define KVRAIL_KVBENCH_LOAD_RECORDED_H

#include "kvbench/load/arrivals.h"

enum { RECORDED_MAX = 1 << 27 }; /* 1 GiB */

/* bench_recorded_load -- the times of any trace that trace.h reads, sorted. bench_recorded_free frees them. Returns 0,
 * or a code with a sentence: as trace_next's; -KV_EINVAL for a trace without two different times; -KV_ETOOBIG. */
int bench_recorded_load(const char *path, struct bench_recorded *out, struct kv_error *err);
void bench_recorded_free(struct bench_recorded *recorded);

/* bench_recorded_rate -- arrivals per second, as they came. */
double bench_recorded_rate(const struct bench_recorded *recorded);

#endif
