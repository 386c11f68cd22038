/* SPDX-License-Identifier: Apache-2.0 */
/* phase.h -- one phase of a run: all workers take operations from one counter until it or the time is up. */
#ifndef KVRAIL_KVBENCH_LOAD_PHASE_H
#define KVRAIL_KVBENCH_LOAD_PHASE_H

#include <pthread.h>
#include <stdatomic.h>

#include "kvbench/load/arrivals.h"
#include "kvbench/load/bench.h"

struct phase;

enum {
	PHASE_ERRORS_MAX = 1000, /* more errors teach nothing new */
	PHASE_KINDS_MAX = 3
};

struct phase_op {
	const struct phase *phase;
	struct kvc_client *client;
	unsigned worker;
	uint64_t number;
	unsigned kind;             /* of the phase's kinds */
	uint64_t start_ns;         /* now, or with a rate the intended start */
	uint64_t begin_ns;         /* now */
	struct bench_tally *tally; /* where it counts */
	struct bench_breakdown *breakdown;
	struct bench_outages *outages;
	struct bench_raw *raw;
	unsigned ring;        /* of its loop */
	struct kvc_call call; /* of a GET, without phases */
};

/* phase_run's. */
struct phase_state {
	_Alignas(KV_CACHELINE) _Atomic uint64_t next;
	_Alignas(KV_CACHELINE) _Atomic uint64_t num_errors;
	_Atomic uint64_t num_missed; /* both are counted after a call that moved nothing */
	uint64_t start_ns, end_ns;
	_Atomic uint64_t over_ns; /* with a rate: when a worker first found the phase over; KV_NEVER: none did */
	pthread_mutex_t schedule; /* of arrivals, if poisson */
	struct bench_arrivals arrivals;
	uint64_t kind_next[PHASE_KINDS_MAX];
	struct bench_tally *tally;
};

struct phase {
	/* set by the owner */
	struct bench *bench;
	const char *name;
	/* run -- park as needed; count in op->tally. Returns 0, -KV_ENOTFOUND (a miss) or a code; the code is counted
	 * by the phase. */
	int (*run)(const struct phase_op *op);
	/* drive -- make all operations in another way than by workers that call `run`. Blocks until they are over.
	 * Returns 0, or a code with *err. NULL: workers do. */
	int (*drive)(struct phase *p, struct kv_error *err);
	uint64_t first_op, total; /* total UINT64_MAX: until duration_ns */
	uint64_t duration_ns;     /* 0: until total */
	unsigned keys_per_op;     /* 0: one */
	double rate;
	bool poisson; /* with a rate: arrivals know nothing of each other; else they are evenly apart */
	const struct bench_recorded *recorded; /* with a rate: arrivals are apart as these; NULL: they are not */
	uint64_t ramp_ns;
	uint64_t key_base; /* number of the first key to write or delete */
	uint64_t num_keys;
	unsigned kinds; /* of operations, tallied apart, up to PHASE_KINDS_MAX; 0: one */
	/* kind_of -- which kind operation *number is, which becomes its number among those. NULL: there is one kind.
	 * Thread: any; with poisson arrivals one at a time, in the order of numbers. */
	unsigned (*kind_of)(struct phase *p, uint64_t *number);
	unsigned workers;
	unsigned tallies; /* where operations count; 0: one per client */
	bool verify;
	bool series;              /* sample it into the result's series, which its owner frees */
	uint64_t errors_max;      /* they end the phase; 0: PHASE_ERRORS_MAX */
	uint64_t arg;             /* the run function's */
	enum bench_raw_phase raw; /* how --raw calls it; BENCH_RAW_NONE: its operations are in no figure */
	unsigned raw_run;
	struct bench_breakdown *breakdown; /* one per client, or NULL */
	struct bench_outages *outages;     /* one per client: go on through errors and watch; NULL: do not */
	bool store_missed;                 /* a value that a GET missed is stored again; with outages always */
	struct phase_state own;
};

/* phase_run -- run it and add everything up in out[0], of `kinds` kinds in one result each. Blocks the calling thread
 * (main). Returns 0 also when operations failed (they are counted), -KV_ENOMEM or -KV_EBUSY when nothing could be
 * started. */
int phase_run(struct phase *phase, struct phase_result *out, struct kv_error *err);

/* phase_used_now -- the processors' time and the page faults so far, of this process and of our own servers.
 * phase_used_since -- those of a phase that began then, in its result. */
struct phase_used {
	double cpu_seconds, server_cpu_seconds;
	int64_t faults, server_faults; /* below 0: not known */
};
void phase_used_now(const struct bench *bench, struct phase_used *out);
void phase_used_since(const struct bench *bench, const struct phase_used *from, struct phase_result *out);

/* phase_take -- the number of the next operation. Thread: any. False: there is none left. */
bool phase_take(struct phase *phase, uint64_t *out_number);

/* phase_over -- whether no operation may begin any more: time, errors, a signal, or our own server. Thread: any. */
bool phase_over(const struct phase *phase, uint64_t now);

/* phase_count -- count how an operation ended: rc as `run` returns it. *backoff_ns: of whoever makes one operation
 * after the other, 0 at first. Thread: the tally's. Returns when that may go on after an error, or 0: at once. */
uint64_t phase_count(struct phase *phase, struct bench_tally *tally, int rc, uint64_t *backoff_ns);

int phase_op_write(const struct phase_op *op);
int phase_op_read(const struct phase_op *op);
int phase_op_delete(const struct phase_op *op); /* of the key that a write of this number stores */

/* phase_delete -- the same, not counted as an operation. Returns 0, also for a missing key, or the code of the call. */
int phase_delete(const struct phase_op *op);

/* phase_watch -- with --keep-going: a call on this key of the run began at start_ns and has ended with rc. start_ns:
 * with
 * --rate that may be later than its intended start. */
void phase_watch(const struct phase_op *op, uint64_t key, uint64_t start_ns, int64_t rc);

/* phase_store_again -- PUT of a value that a GET has missed, as a user of a cache does. In no figure but stored_again.
 * Returns 0, also where others have stored it, or its server leaves; else the code of the call. */
int phase_store_again(const struct phase_op *op, uint64_t index, const struct bench_key *key, uint64_t len);

/* phase_call -- the call that the options ask for. */
static inline struct kvc_call phase_call(const struct bench_options *options)
{
	return (struct kvc_call){.size = sizeof(struct kvc_call),
				 .ttl_s = options->load.ttl,
				 .flags = options->load.no_checksum ? KVC_NO_VERIFY : 0};
}

/* phase_put_call -- the same for a PUT. */
static inline struct kvc_call phase_put_call(const struct phase *phase)
{
	struct kvc_call call = phase_call(phase->bench->opt);
	call.flags |= phase->kinds > 1 && phase->bench->opt->load.background_puts ? KVC_BACKGROUND : 0;
	return call;
}

/* phase_now -- the clock that latencies are taken from. */
uint64_t phase_now(void);

/* phase_count_done -- one operation of op->tally has succeeded with these bytes of a value. */
void phase_count_done(const struct phase_op *op, uint64_t bytes, uint64_t end_ns);

/* phase_count_undone -- how long an operation of op->tally took that did not succeed, rc below 0: apart from those that
 * did, since a miss or a refusal may be quicker, and a dead server slower, than any value. Returns rc. */
int phase_count_undone(const struct phase_op *op, int rc, uint64_t end_ns);

/* phase_raw -- with --raw: operation op of this kind, on the key with this number, ended with code at end_ns. flags: of
 * the record. Thread: the loop's that makes the operation. */
void phase_raw_add(const struct phase_op *op, enum bench_raw_kind kind, uint64_t key, uint64_t bytes, int code,
		   unsigned flags, uint64_t end_ns);
static inline void phase_raw(const struct phase_op *op, enum bench_raw_kind kind, uint64_t key, uint64_t bytes,
			     int code, uint64_t end_ns)
{
	if (KV_UNLIKELY(op->raw != NULL))
		phase_raw_add(op, kind, key, bytes, code, 0, end_ns);
}

/* phase_result_merge -- add the result of a phase to that of others like it, whose series takes its windows. */
void phase_result_merge(struct phase_result *into, struct phase_result *from);

/* bench_glance -- without --verify: compare length and edges (workload.h), count wrong values. */
void bench_glance(const struct bench_key *key, const void *data, uint64_t len, uint64_t expected_len,
		  struct bench_tally *tally);

/* bench_verify -- compare a value with the one of its key, count it. Returns whether it is right. */
struct bench_key;
bool bench_verify(const struct bench_key *key, const void *data, uint64_t len, uint64_t expected_len,
		  struct bench_tally *tally);

#endif
