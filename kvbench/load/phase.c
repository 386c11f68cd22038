/* SPDX-License-Identifier: Apache-2.0 */
/* phase.c -- the measured loop.
 *
 * Every worker takes the next operation's number from one relaxed counter. That balances clients of different speed,
 * gives the open loop its schedule (operation i is due at start + i / rate, whichever worker takes it), and is the
 * progress shown. What an operation touches follows from its number (workload.c), so a run is the same whichever worker
 * does what. The rejected alternative, a fixed share per worker, ends with idle workers waiting for the slowest, which
 * then counts as the system's throughput.
 *
 * After an error a worker pauses, each time twice as long: a call that fails at once would otherwise keep its loop from
 * turning. */
#include "kvbench/load/phase.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "kvbench/measure/progress.h"
#include "kvbench/setup/signals.h"
#include "kvbench/load/values.h"
#include "loop/loop.h"

#define TIMEOUT_BYTE_NS  10ull /* 1 s for every 100 MB */
#define BACKOFF_FIRST_NS 1000000ull
#define BACKOFF_LAST_NS  500000000ull
#define BACKOFF_KEEP_NS  10000000ull  /* the last one with --keep-going: a server that is back is soon seen */
#define PACE_STEP_NS     100000000ull /* a wait for an intended start looks for a signal this often */

uint64_t phase_now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

double phase_cpu_seconds(void)
{
	struct rusage u;
	if (getrusage(RUSAGE_SELF, &u) < 0)
		return 0;
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ---- the worker ---- */

bool phase_over(const struct phase *p, uint64_t now)
{
	return now >= p->end_ns || bench_interrupted() || server_child_dead(p->bench->server) ||
	       atomic_load_explicit(&p->num_errors, memory_order_relaxed) >= p->errors_max;
}

/* Wait for the intended start of an operation in the open loop. Returns it, also when it is in the past. */
static uint64_t pace_await(const struct phase *p, uint64_t number)
{
	uint64_t due = p->start_ns + (uint64_t)((double)number * 1e9 / p->rate), now = phase_now();
	while (now < due && !phase_over(p, now)) {
		co_sleep_await(KV_MIN(due, now + PACE_STEP_NS));
		now = phase_now();
	}
	return due;
}

bool phase_take(struct phase *p, uint64_t *out_number)
{
	uint64_t taken = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
	if (taken >= p->total)
		return false;
	*out_number = p->first_op + taken;
	return true;
}

uint64_t phase_count(struct phase *p, struct bench_tally *t, int rc, uint64_t *backoff_ns)
{
	uint64_t pause_ns = KV_MAX(*backoff_ns, BACKOFF_FIRST_NS);
	*backoff_ns = 0;
	if (rc == -KV_ENOTFOUND)
		atomic_fetch_add_explicit(&p->num_missed, 1, memory_order_relaxed);
	if (rc >= 0 || rc == -KV_ENOTFOUND)
		return 0;
	bench_errors_add(&t->errors, rc, 1);
	atomic_fetch_add_explicit(&p->num_errors, 1, memory_order_relaxed);
	*backoff_ns = KV_MIN(pause_ns * 2, p->outages ? BACKOFF_KEEP_NS : BACKOFF_LAST_NS);
	return kv_deadline(phase_now(), pause_ns);
}

static void phase_worker(struct kvc_client *client, unsigned w, void *arg)
{
	struct phase *p = arg;
	unsigned c = w % p->bench->num_clients;
	struct phase_op op = {.phase = p,
			      .client = client,
			      .worker = w,
			      .breakdown = p->breakdown ? &p->breakdown[c] : NULL,
			      .outages = p->outages ? &p->outages[c] : NULL};
	uint64_t backoff_ns = 0, pause_until_ns;
	while (phase_take(p, &op.number)) {
		op.tally = &p->tally[c + (p->mixed && op.number % 2 ? p->tallies : 0)];
		op.start_ns = p->rate > 0 ? pace_await(p, op.number - p->first_op) : phase_now();
		if (phase_over(p, p->rate > 0 ? phase_now() : op.start_ns))
			break;
		pause_until_ns = phase_count(p, op.tally, p->run(&op), &backoff_ns);
		if (pause_until_ns)
			co_sleep_await(pause_until_ns);
	}
}

/* ---- the phase ---- */

static uint64_t progress_done(void *arg)
{
	struct phase *p = arg;
	return atomic_load_explicit(&p->next, memory_order_relaxed);
}

static uint64_t progress_bare(void *arg)
{
	struct phase *p = arg;
	return atomic_load_explicit(&p->num_errors, memory_order_relaxed) +
	       atomic_load_explicit(&p->num_missed, memory_order_relaxed);
}

static int tallies_create(struct phase *p, struct kv_error *err)
{
	unsigned count;
	if (p->tallies == 0)
		p->tallies = p->bench->num_clients;
	count = p->tallies * (p->mixed ? 2 : 1);
	p->tally = aligned_alloc(KV_CACHELINE, count * sizeof(*p->tally));
	if (!p->tally)
		return kv_fail(err, -KV_ENOMEM, "no memory for the counters of %u client%s", p->bench->num_clients,
			       kv_plural(p->bench->num_clients));
	for (unsigned i = 0; i < count; i++)
		bench_tally_init(&p->tally[i]);
	return 0;
}

/* tally: the first of p->tallies. */
static void collect(const struct phase *p, const struct bench_tally *tally, struct phase_result *out)
{
	bench_tally_init(&out->tally);
	for (unsigned i = 0; i < p->tallies; i++)
		bench_tally_merge(&out->tally, &tally[i]);
	out->too_many_errors = p->num_errors >= p->errors_max;
	out->server_died = server_child_dead(p->bench->server);
	out->ran = true;
}

/* The windows of the reads go to out[0], those of the PUTs of a mixed phase to out[1]. */
static void sampling_start(const struct phase *p, struct phase_result *out, struct series_sampler *sampler[2])
{
	for (unsigned i = 0; p->series && i < (p->mixed ? 2 : 1); i++) {
		const struct series_source source = {
			.first = p->tally + i * p->tallies, .stride_bytes = sizeof(*p->tally), .count = p->tallies};
		sampler[i] = series_start(&source, p->bench->opt->interval_ns, &out[i].series);
	}
}

static int workers_run(struct phase *p, struct kv_error *err)
{
	int rc = kvc_run(p->bench->pool, p->workers, phase_worker, p);
	if (rc < 0)
		kv_fail(err, rc, "the %u worker%s of phase %s cannot be started: %s", p->workers, kv_plural(p->workers),
			p->name, kv_strerror(rc));
	return rc;
}

int phase_run(struct phase *p, struct phase_result *out, struct kv_error *err)
{
	struct progress bar = {.out = p->bench->out,
			       .name = p->name,
			       .total = p->total,
			       .duration_ns = p->duration_ns,
			       .unit_bytes = p->bench->opt->value_size * KV_MAX(p->keys_per_op, 1u),
			       .done = progress_done,
			       .bare = progress_bare,
			       .always = p->bench->opt->progress,
			       .arg = p};
	struct series_sampler *sampler[2] = {NULL};
	double cpu, cpu_of_server;
	int rc = tallies_create(p, err);
	if (rc < 0)
		return rc;
	atomic_store(&p->next, 0);
	atomic_store(&p->num_errors, 0);
	atomic_store(&p->num_missed, 0);
	if (p->errors_max == 0)
		p->errors_max = p->outages ? UINT64_MAX : PHASE_ERRORS_MAX;
	cpu = phase_cpu_seconds();
	cpu_of_server = server_child_cpu_seconds(p->bench->server);
	sampling_start(p, out, sampler);
	bar.series = sampler[0];
	progress_start(&bar);
	p->start_ns = phase_now();
	p->end_ns = p->duration_ns ? kv_deadline(p->start_ns, p->duration_ns) : KV_NEVER;
	if (p->workers == 0)
		p->workers = p->bench->opt->num_workers;
	rc = p->drive ? p->drive(p, err) : workers_run(p, err);
	out->elapsed_ns = phase_now() - p->start_ns;
	progress_stop(&bar);
	series_stop(sampler[0]);
	series_stop(sampler[1]);
	out->cpu_seconds = phase_cpu_seconds() - cpu;
	out->server_cpu_seconds = server_child_cpu_seconds(p->bench->server) - cpu_of_server;
	if (rc == 0 && p->mixed) {
		const struct bench_series puts = out[1].series;
		out[1] = *out; /* the time and the processors are those of both */
		out[1].series = puts;
		collect(p, p->tally + p->tallies, &out[1]);
	}
	if (rc == 0)
		collect(p, p->tally, out);
	free(p->tally);
	p->tally = NULL;
	return rc;
}

/* ---- the operations ---- */

static void count_done(const struct phase_op *op, uint64_t bytes, uint64_t end_ns)
{
	bench_bump(&op->tally->ops, 1);
	bench_bump(&op->tally->bytes, bytes);
	kv_hist_add(&op->tally->latency, end_ns > op->start_ns ? end_ns - op->start_ns : 0);
}

/* PUT of one key, whose value lies ready in registered memory. */
int phase_op_write(const struct phase_op *op)
{
	const struct bench_options *o = op->phase->bench->opt;
	struct kvc_call call = phase_put_call(op->phase);
	struct bench_key key;
	int rc;
	bench_key_make(&key, o->seed, o->value_size, op->phase->key_base + op->number);
	rc = kvc_put_await(op->client, (struct kvc_key){key.text, key.len}, values_of(op->phase->bench, &key),
			   o->value_size, &call);
	if (rc == 0)
		count_done(op, o->value_size, phase_now());
	if (rc != -KV_EEXIST)
		return rc;
	/* Another client stored other bytes under this key before: the key is stored. */
	bench_bump(&op->tally->ops, 1);
	op->tally->put_conflicts++;
	return 0;
}

/* That it was not there is no miss. */
int phase_op_delete(const struct phase_op *op)
{
	const struct bench_options *o = op->phase->bench->opt;
	struct kvc_call call = {.size = sizeof(call)};
	struct bench_key key;
	int rc;
	bench_key_make(&key, o->seed, o->value_size, op->phase->key_base + op->number);
	rc = kvc_delete_await(op->client, (struct kvc_key){key.text, key.len}, &call);
	if (rc == 0 || rc == -KV_ENOTFOUND)
		bench_bump(&op->tally->ops, 1);
	return rc == -KV_ENOTFOUND ? 0 : rc;
}

bool bench_verify(const struct bench_key *key, const void *data, uint64_t len, uint64_t expected_len,
		  struct bench_tally *tally)
{
	bool right = len == expected_len && bench_value_check(key, data, len) == len;
	tally->checked++;
	tally->wrong += !right;
	return right;
}

/* The deadline of a call for one value. Without --timeout it is the library's default (kvclient.h). */
static uint64_t deadline_of(const struct bench_options *o)
{
	return o->timeout_ns ? o->timeout_ns : KV_TIMEOUT_DEFAULT_NS + o->value_size * TIMEOUT_BYTE_NS;
}

/* A call has ended. start_ns: when it began; with --rate that may be later than its intended start. */
static void watch(const struct phase_op *op, uint64_t key, uint64_t start_ns, int64_t rc)
{
	if (op->outages)
		bench_outages_call(op->outages, key, start_ns, phase_now(), deadline_of(op->phase->bench->opt),
				   rc < 0 && rc != -KV_ENOTFOUND && rc != -KV_ELEFT && rc != -KV_EEXIST);
}

/* With --keep-going, a server that was restarted has lost its values: store this one again. */
static int store_again(const struct phase_op *op, uint64_t index, const struct bench_key *key)
{
	const struct bench_options *o = op->phase->bench->opt;
	struct kvc_call call = phase_call(o);
	uint64_t start_ns = phase_now();
	int rc = kvc_put_await(op->client, (struct kvc_key){key->text, key->len}, values_of(op->phase->bench, key),
			       o->value_size, &call);
	watch(op, index, start_ns, rc);
	op->tally->stored_again += rc == 0;
	return rc;
}

static int read_missed(const struct phase_op *op, uint64_t index, const struct bench_key *key)
{
	int rc = op->outages ? store_again(op, index, key) : 0;
	if (rc == -KV_ELEFT) /* its server ends: it misses the key until it is back */
		rc = 0;
	if (rc == -KV_EEXIST) { /* another client has stored it meanwhile */
		op->tally->put_conflicts++;
		rc = 0;
	}
	bench_bump(&op->tally->ops, 1);
	op->tally->misses++;
	return rc < 0 ? rc : -KV_ENOTFOUND;
}

/* GET of one key as a borrowed piece of the client's registered buffer: the path without a copy. */
int phase_op_read(const struct phase_op *op)
{
	const struct bench_options *o = op->phase->bench->opt;
	uint64_t index = bench_order_key(op->number, o->num_keys, o->seed), start_ns;
	struct kvc_call call = phase_call(o);
	struct kvc_phases phases = {.size = sizeof(phases)};
	struct bench_key key;
	struct kvc_borrowed borrowed = {0};
	int64_t got;
	bench_key_make(&key, o->seed, o->value_size, index);
	start_ns = op->outages ? phase_now() : 0;
	call.phases = op->breakdown ? &phases : NULL;
	got = kvc_get_borrowed_await(op->client, (struct kvc_key){key.text, key.len}, o->value_size, &call, &borrowed);
	watch(op, index, start_ns, got);
	if (got == -KV_ENOTFOUND)
		return read_missed(op, index, &key);
	if (got < 0)
		return (int)got;
	count_done(op, (uint64_t)got, phase_now());
	if (op->breakdown)
		bench_breakdown_add(op->breakdown, &phases);
	op->tally->hits++;
	if (op->phase->verify)
		bench_verify(&key, borrowed.data, (uint64_t)got, o->value_size, op->tally);
	else if ((uint64_t)got != o->value_size)
		op->tally->wrong++;
	kvc_borrowed_release(op->client, &borrowed);
	return 0;
}
