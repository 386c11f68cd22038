/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h -- the counters of a phase. One tally per client: its workers share a loop thread, so nothing is locked. */
#ifndef KVRAIL_KVBENCH_MEASURE_TALLY_H
#define KVRAIL_KVBENCH_MEASURE_TALLY_H

#include "base/base.h"

enum { BENCH_ERROR_CODES = 32 };

/* Errors by code. Codes beyond the table's end count in its last row, whose code stays. */
struct bench_errors {
	unsigned num_codes;
	struct {
		int code; /* negative */
		uint64_t count;
	} row[BENCH_ERROR_CODES];
};

void bench_errors_add(struct bench_errors *errors, int code, uint64_t count);
uint64_t bench_errors_total(const struct bench_errors *errors);

struct bench_tally {
	_Alignas(KV_CACHELINE) uint64_t
		ops;    /* that succeeded, missed, or met a conflict; an operation that failed counts in errors only */
	uint64_t bytes; /* of values */
	uint64_t hits, misses;
	uint64_t
		put_conflicts; /* PUTs of other bytes than are there under the key, which stay: routine, and no error */
	uint64_t checked, wrong;
	uint64_t stored_again; /* with --keep-going: missing keys */
	struct bench_errors errors;
	uint64_t due;
	uint64_t never_started; /* ... of these, those without a start when the phase ended */
	struct kv_hist
		latency; /* of operations that succeeded; of one that never started: its age at the phase's end */
	struct kv_hist service; /* with a rate: from when they really began */
	struct kv_hist missed;  /* of operations that missed, a batch if any of its keys did */
	struct kv_hist failed;  /* of operations that ended with an error, a batch if any of its keys did */
};

/* bench_bump -- count in ops or bytes, which the sampler of the time series reads while the phase runs. Thread: the
 * tally's. */
static inline void bench_bump(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* bench_tally_undone -- an operation took this long and did not succeed: a miss (-KV_ENOTFOUND), or an error. */
static inline void bench_tally_undone(struct bench_tally *tally, int rc, uint64_t took_ns)
{
	kv_hist_add(rc == -KV_ENOTFOUND ? &tally->missed : &tally->failed, took_ns);
}

void bench_tally_init(struct bench_tally *tally);
void bench_tally_merge(struct bench_tally *into, const struct bench_tally *from);

#endif
