/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h -- one row: an operation of one size. Thread: main, which owns the ends.
 *
 * Errors: -KV_ECANCELED (a signal came), -KV_EPEERDOWN (a responder has ended), -KV_ETIMEOUT (10 s without a
 * completion), or the code of the operation that failed. */
#ifndef KVRAIL_KVBENCH_FABRIC_MEASURE_H
#define KVRAIL_KVBENCH_FABRIC_MEASURE_H

#include "kvbench/fabric/end.h"

/* fabric_measure -- fill row->latency over the first of n pairs, and bytes_per_s over all, for time_ns each. The other
 * pairs rest before and after. */
int fabric_measure(struct end *const end[], unsigned n, struct fabric_row *row, uint64_t depth, uint64_t time_ns);

/* fabric_bandwidth -- bytes_per_s alone. All pairs poll afterwards. */
int fabric_bandwidth(struct end *const end[], unsigned n, struct fabric_row *row, uint64_t depth, uint64_t time_ns);

/* fabric_latency -- latency alone, over one pair. */
int fabric_latency(struct end *end, struct fabric_row *row, uint64_t time_ns);

/* fabric_rest -- the responder sleeps until the next measurement. */
int fabric_rest(struct end *end);

#endif
