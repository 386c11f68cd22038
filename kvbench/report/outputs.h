/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.h -- the files that a run was asked for. All are made before the run and written after it, from one document.
 */
#ifndef KVRAIL_KVBENCH_REPORT_OUTPUTS_H
#define KVRAIL_KVBENCH_REPORT_OUTPUTS_H

#include "kvbench/load/bench.h"

struct outputs;

/* outputs_open -- make sure that every file can be written later. Returns 0 with *out, or -errno with one sentence. */
int outputs_open(const struct bench_options *options, struct outputs **out, struct kv_error *err);

/* outputs_write -- write all of them. Failures are printed to standard error, and the other files are written. Returns
 * 0, or the first failure's code. */
int outputs_write(struct outputs *o, const struct bench *bench);

/* outputs_raw -- the descriptor for the records of --raw during the run; outputs_write then names the file. */
int outputs_raw(const struct outputs *o);

/* outputs_discard -- remove temporary files. NULL is accepted; *o becomes NULL. */
void outputs_discard(struct outputs **o);

#endif
