/* SPDX-License-Identifier: Apache-2.0 */
/* values.h -- the bytes that PUT sends, made before the clock starts. */
#ifndef KVRAIL_KVBENCH_LOAD_VALUES_H
#define KVRAIL_KVBENCH_LOAD_VALUES_H

#include "kvbench/load/bench.h"
#include "kvbench/load/workload.h"

/* bench_area_open -- map, fill with 0 and register len bytes. bench_area_close -- the reverse; memory that is still in
 * use stays mapped, which is -KV_EINTERNAL. what: in the sentence. Accepts one that was not opened. */
int bench_area_open(struct kvc_pool *pool, uint64_t len, struct bench_area *out, struct kv_error *err);
int bench_area_close(struct kvc_pool *pool, struct bench_area *area, const char *what, struct kv_error *err);

/* values_open -- the stock of the run's value size, in registered memory; bench.values holds it. Thread: main.
 * Errors of kvc_register and -KV_ENOMEM, with *err and nothing left behind. */
int values_open(struct bench *bench, struct kv_error *err);

/* values_close -- give it back, after the last phase. Returns 0, or -KV_EINTERNAL with *err: an operation still uses
 * the memory, which then stays mapped. Nothing to do when there is none. */
int values_close(struct bench *bench, struct kv_error *err);

/* values_of -- the value of a key, of len bytes, to be sent and not to be written to. */
void *values_of(const struct bench *bench, const struct bench_key *key, uint64_t len);

/* value_store -- store the value that every client of a step reads. Blocks. Returns 0, or the code of the PUT. */
int value_store(struct kvc_pool *pool, const struct bench_key *key, uint64_t len, uint64_t timeout_ns);

/* buffers_touch -- write to the pages of the clients' buffers that the workers' GETs will use, so that no GET waits for
 * the kernel to make them. Thread: main. 0, or errors of kvc_run with *err. */
int buffers_touch(struct bench *bench, struct kv_error *err);

#endif
