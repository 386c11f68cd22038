/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.h -- how close GET comes to the bare fabric, measured in the same run against the same server process. */
#ifndef KVRAIL_KVBENCH_LOAD_ROOFLINE_H
#define KVRAIL_KVBENCH_LOAD_ROOFLINE_H

#include "kvbench/load/bench.h"

/* roofline_run -- alternate rounds of GETs and of bare writes with immediates (kvc_raw_await) over the same endpoints,
 * regions, depth and wait mode. reads: GETs of the read phase, which the rounds share out. Errors of operations are
 * counted in *errors. out->code says why there is no figure. Returns 0, or a code with *err when workers could not be
 * started. */
int roofline_run(struct bench *bench, uint64_t reads, struct roofline_result *out, struct bench_errors *errors,
		 struct kv_error *err);

/* roofline_median -- of n values, which it sorts; n > 0. */
double roofline_median(double *values, unsigned n);

#endif
