/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h -- one row: an operation of one size. */
#ifndef KVRAIL_KVBENCH_FABRIC_MEASURE_H
#define KVRAIL_KVBENCH_FABRIC_MEASURE_H

#include "kvbench/fabric/end.h"

/* fabric_measure -- fill row->latency and bytes_per_s, for time_ns each. Thread: the end's.
 * Errors: -KV_ECANCELED (a signal came), -KV_EPEERDOWN (the responder is gone), -KV_ETIMEOUT (10 s without a
 * completion), or the code of the operation that failed. */
int fabric_measure(struct end *end, struct fabric_row *row, uint64_t time_ns);

#endif
