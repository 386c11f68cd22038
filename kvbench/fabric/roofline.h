/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.h -- compare GETs and PUTs of a run with writes of the bare fabric, of this machine or of a report of
 * kv-bench fabric. Thread: main. */
#ifndef KVRAIL_KVBENCH_FABRIC_ROOFLINE_H
#define KVRAIL_KVBENCH_FABRIC_ROOFLINE_H

#include "kvbench/load/bench.h"

struct roofline;

/* roofline_open -- read --roofline-file, or start responders: before the first libfabric call of this process. *out is
 * NULL without --roofline. Errors: -KV_EINVAL (the file has no row of the run's value size), or those of
 * fabric_pairs_start. */
int roofline_open(struct bench *bench, struct roofline **out, struct kv_error *err);
void roofline_close(struct roofline **roofline); /* accepts NULL */

/* roofline_run -- after the reads: fill results.roofline and, if the run writes, roofline_put; a code says why there is
 * no figure. With --roofline-file it compares the phases of the run, else alternating rounds of GETs, PUTs and bare
 * writes; reads: GETs of the read phase, three rounds' worth. NULL: does nothing. 0, or a code with *err. */
int roofline_run(struct roofline *roofline, uint64_t reads, struct kv_error *err);

/* roofline_put_keys -- the extra keys that a round of PUTs stores, and deletes, with at least `reads` GETs in the read
 * phase. */
uint64_t roofline_put_keys(const struct bench_options *o, uint64_t reads);

#endif
