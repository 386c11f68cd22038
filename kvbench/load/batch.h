/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h -- runs with --batch or --async: each operation of a worker is one batch PUT, or one batch GET into
 * registered memory of its own. */
#ifndef KVRAIL_KVBENCH_LOAD_BATCH_H
#define KVRAIL_KVBENCH_LOAD_BATCH_H

#include "kvbench/load/phase.h"

struct batches;

/* batches_open -- registered memory and items for all workers; bench.batches holds them. Thread: main. Errors of
 * kvc_register and -KV_ENOMEM, with *err and nothing left behind. */
int batches_open(struct bench *bench, struct kv_error *err);

/* batches_close -- give them back, after the last phase. Returns 0, or -KV_EINTERNAL with *err: an operation still uses
 * the memory, which then stays mapped. Nothing to do without batches. */
int batches_close(struct bench *bench, struct kv_error *err);

/* batch_item_got -- compare (verify: every byte) and count the item of a GET, in t. batch_item_stored -- count that of
 * a PUT: other bytes under the key are a conflict, and no error. Return 0, -KV_ENOTFOUND or a code, which is not
 * counted. */
int batch_item_got(const struct bench_key *key, const struct kvc_item *item, bool verify, struct bench_tally *t);
int batch_item_stored(const struct kvc_item *item, struct bench_tally *t);

/* batch_begin -- make the items of operation op->number: of --batch keys, or one. They, their keys and memory are
 * those of op->worker until batch_end. Returns how many there are. */
unsigned batch_begin(const struct phase_op *op, bool put, struct kvc_item **out_items);

/* batch_end -- compare and count n items whose batch ended with rc at end_ns. Returns the code that the phase counts:
 * those of other items are counted here, in op->tally. */
int batch_end(const struct phase_op *op, bool put, unsigned n, int rc, uint64_t end_ns);

/* phase_op_write_batch -- operation `number`: PUT of the --batch keys from number * batch on, of phase.num_keys from
 * phase.key_base on; counted as those of phase_op_batch. */
int phase_op_write_batch(const struct phase_op *op);

/* phase_op_exists_batch -- operation `number`: EXISTS of the keys that phase_op_batch would read, in one call; counted
 * likewise. */
int phase_op_exists_batch(const struct phase_op *op);

/* phase_op_batch -- operation `number`: GET of the --batch keys from number * batch on in the reads' order. Each key
 * counts as one operation and hit, the whole as one sample of latency. */
int phase_op_batch(const struct phase_op *op);

#endif
