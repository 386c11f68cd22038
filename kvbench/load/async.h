/* SPDX-License-Identifier: Apache-2.0 */
/* async.h -- runs with --async: operations go through a queue of the library (kvclient.h), not through workers. */
#ifndef KVRAIL_KVBENCH_LOAD_ASYNC_H
#define KVRAIL_KVBENCH_LOAD_ASYNC_H

#include "kvbench/load/phase.h"

/* async_phase -- turn a phase of workers, GETs or PUTs, into one of a queue. bench.batches must be there. Nothing to do
 * without --async. */
void async_phase(struct phase *phase, bool put);

#endif
