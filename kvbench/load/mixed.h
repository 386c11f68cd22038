/* SPDX-License-Identifier: Apache-2.0 */
/* mixed.h -- GETs and PUTs at the same time, one to one. */
#ifndef KVRAIL_KVBENCH_LOAD_MIXED_H
#define KVRAIL_KVBENCH_LOAD_MIXED_H

#include "kvbench/load/bench.h"

/* mixed_run -- as many PUTs of new keys as the run has keys, and as many GETs of the run's keys, by the same workers.
 * results.mixed: the GETs, the PUTs, and both compared with the read and write phases. The new keys are deleted.
 * Returns 0, or a code with *err when workers could not be started. */
int mixed_run(struct bench *bench, struct kv_error *err);

#endif
