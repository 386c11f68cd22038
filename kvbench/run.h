/* SPDX-License-Identifier: Apache-2.0 */
/* run.h -- a run from start to end. */
#ifndef KVRAIL_KVBENCH_RUN_H
#define KVRAIL_KVBENCH_RUN_H

struct bench_options;

/* bench_run -- the whole run. Blocks; from main alone. Errors are on stderr. Returns the exit status. */
int bench_run(const struct bench_options *options);

#endif
