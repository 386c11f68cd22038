/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.h -- how close GET and PUT come to the bare fabric, measured in the same run against the same server
 * process. */
#ifndef KVRAIL_KVBENCH_LOAD_ROOFLINE_H
#define KVRAIL_KVBENCH_LOAD_ROOFLINE_H

#include "kvbench/load/bench.h"

/* roofline_run -- alternate rounds of GETs and of the server's bare writes (kvc_raw_await) over the same endpoints,
 * regions, depth and wait mode, then of PUTs and the clients' (kvc_raw_put_await), if clients have landing areas and
 * the run writes at all. reads: GETs of the read phase, which the rounds share out. results.roofline and .roofline_put:
 * their codes say why there is no figure. Returns 0, or a code with *err when workers could not be started. */
int roofline_run(struct bench *bench, uint64_t reads, struct kv_error *err);

/* roofline_put_keys -- how many keys a round of PUTs stores, beside those of the run, with so many GETs or more in the
 * read phase; they are deleted after it. */
uint64_t roofline_put_keys(const struct bench_options *o, uint64_t reads);

/* roofline_median -- of n values, which it sorts; n > 0. */
double roofline_median(double *values, unsigned n);

#endif
