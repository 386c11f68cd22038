/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h -- a request trace against the cache: look up the prefix, GET the found blocks, PUT the rest. */
#ifndef KVRAIL_KVBENCH_LOAD_REPLAY_H
#define KVRAIL_KVBENCH_LOAD_REPLAY_H

#include "kvbench/load/bench.h"

/* replay_run -- replay bench->opt->trace; fills results.replay and the phases read (blocks found) and write (blocks
 * stored), which cover the same time. Returns 0 also when operations failed (they are counted), or a code with *err:
 * the trace cannot be read, no memory. */
int replay_run(struct bench *bench, struct kv_error *err);

#endif
