/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.h -- how close the GETs and PUTs of a run come to the writes of the bare fabric: of this machine, measured
 * beside them, or of a report of kv-bench fabric. Thread: main. */
#ifndef KVRAIL_KVBENCH_FABRIC_ROOFLINE_H
#define KVRAIL_KVBENCH_FABRIC_ROOFLINE_H

#include "kvbench/load/bench.h"

struct roofline;

/* roofline_open -- with --roofline-file read it, else start responders; before the first libfabric call of this
 * process. *out is NULL without --roofline. Errors: -KV_EINVAL, the file has no row for the values of the run; or those
 * of fabric_pairs_start. */
int roofline_open(struct bench *bench, struct roofline **out, struct kv_error *err);
void roofline_close(struct roofline **roofline); /* accepts NULL */

/* roofline_run -- after the reads. Fills results.roofline and, unless the run writes nothing, roofline_put; their codes
 * say why there is no figure. With --roofline-file it compares the phases of the run. Else it alternates rounds of
 * GETs, of PUTs and of bare writes; reads: GETs of the read phase, of which a round makes a third. NULL: does nothing.
 * Returns 0, or a code with *err when nothing could be started. */
int roofline_run(struct roofline *roofline, uint64_t reads, struct kv_error *err);

/* roofline_put_keys -- how many keys a round of PUTs stores, beside those of the run, with so many GETs or more in the
 * read phase; they are deleted after it. */
uint64_t roofline_put_keys(const struct bench_options *o, uint64_t reads);

/* roofline_median -- of n values, which it sorts; n > 0. */
double roofline_median(double *values, unsigned n);

#endif
