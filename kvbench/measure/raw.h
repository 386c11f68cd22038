/* SPDX-License-Identifier: Apache-2.0 */
/* raw.h -- every operation of a run in a file, so that a reader can compute all figures again. The loops that make
 * operations hand records over and never wait; a thread writes them. */
#ifndef KVRAIL_KVBENCH_MEASURE_RAW_H
#define KVRAIL_KVBENCH_MEASURE_RAW_H

#include <stdbool.h>
#include <stdint.h>

struct kv_error;

enum bench_raw_phase { BENCH_RAW_NONE, BENCH_RAW_WRITE, BENCH_RAW_WARMUP, BENCH_RAW_READ, BENCH_RAW_MIXED };
enum bench_raw_kind { BENCH_RAW_GET = 1, BENCH_RAW_PUT, BENCH_RAW_EXISTS, BENCH_RAW_DELETE };
enum {
	BENCH_RAW_NEVER_STARTED =
		1,           /* due, and not started when the phase ended: end_ns is that moment, start_ns too */
	BENCH_RAW_BESIDE = 2 /* in no figure: a DELETE of --mix, a value stored again */
};

/* A record, little-endian. Times are ns since the file's time 0. docs/guide/benchmarking.md shows how to read it. */
struct bench_raw_op {
	uint64_t number; /* of the operation among those of its phase, run and kind; keys of one batch have the same */
	uint64_t key;    /* its number; of a trace, its block's id */
	uint64_t due_ns; /* latency counts from here */
	uint64_t start_ns, end_ns;
	uint64_t bytes; /* of the value */
	int32_t code;
	uint8_t phase, kind, flags, unused;
	uint32_t worker;
	uint32_t run; /* of --repeat-runs, windows of a warm-up, trials of --slo; from 1 on */
};

struct bench_raw_head {
	char magic[8]; /* "kvbraw1\n" */
	uint32_t head_bytes, record_bytes;
	int64_t start_unix_ns; /* time 0 */
	uint64_t seed, value_size;
	uint64_t zero[3];
};

struct bench_raw;

/* bench_raw_open -- write the head to fd, which stays the caller's, and start the thread. rings: loops that add
 * records. Memory is bounded: 64 MiB, or 64 KiB for each ring if this is more. Returns 0, or a code with one sentence.
 */
int bench_raw_open(int fd, unsigned rings, uint64_t seed, uint64_t value_size, struct bench_raw **out,
		   struct kv_error *err);

/* bench_raw_add -- one record, its times as phase_now has them. Thread: the ring's. Never waits: a record without room
 * is counted as lost. */
void bench_raw_add(struct bench_raw *raw, unsigned ring, const struct bench_raw_op *op);

/* bench_raw_add_slow -- the same, and waits for room. For main, between phases. */
void bench_raw_add_slow(struct bench_raw *raw, unsigned ring, const struct bench_raw_op *op);

struct bench_raw_result {
	bool ran;
	int code;               /* 0, or why the file could not be written */
	uint64_t written, lost; /* records */
	uint64_t bytes;         /* of the file */
};

/* bench_raw_close -- write the remaining records and end the thread. NULL is accepted; *raw becomes NULL. */
void bench_raw_close(struct bench_raw **raw, struct bench_raw_result *out);

#endif
