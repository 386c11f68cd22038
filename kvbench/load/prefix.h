/* SPDX-License-Identifier: Apache-2.0 */
/* prefix.h -- with --model: load a prefix as an engine does, layer by layer, and take the time until the first layer
 * and until all layers are there. */
#ifndef KVRAIL_KVBENCH_LOAD_PREFIX_H
#define KVRAIL_KVBENCH_LOAD_PREFIX_H

#include "kvbench/load/bench.h"

/* prefix_run -- fill results.prefix, from stored blocks. Blocks the calling thread (main). Returns 0 also when a load
 * failed or could not be tried (results.prefix says so), or a code with *err when registered memory cannot be released.
 */
int prefix_run(struct bench *bench, struct kv_error *err);

#endif
