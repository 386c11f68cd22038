/* SPDX-License-Identifier: Apache-2.0 */
/* reads.h -- the measured phase: once, --repeat-runs times, or at the rates that --slo tries; and the warm-up that
 * lasts until rates are steady. */
#ifndef KVRAIL_KVBENCH_LOAD_READS_H
#define KVRAIL_KVBENCH_LOAD_READS_H

#include "kvbench/load/phase.h"

/* reads_ops -- operations that write or read this number of keys. */
uint64_t reads_ops(const struct bench_options *o, uint64_t keys);

/* reads_steady -- with --warmup-steady: windows of the measured load in a closed loop until their rates agree. Fills
 * results.warmup and results.steady. Returns 0 also when they never did, or a code with *err. */
int reads_steady(struct bench *bench, struct kv_error *err);

/* reads_run -- fill results.read and results.mixture, of all runs together, and results.runs or results.slo.search.
 * breakdown, outages: one per client, or NULL. Returns 0 also when operations failed (they are counted), or a code with
 * *err. */
int reads_run(struct bench *bench, struct kv_error *err);

#endif
