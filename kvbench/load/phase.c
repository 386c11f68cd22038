/* SPDX-License-Identifier: Apache-2.0 */
/* phase.c -- the measured loop.
 *
 * Every worker takes the next operation's number from one relaxed counter. This gives the open loop its schedule
 * (operation i is due at start + i / rate), and is the progress shown. The key of an operation follows from its number
 * (workload.c), so a run is the same for any order of workers. After an error a worker pauses, each time twice as long,
 * to let its loop turn. */
#include "kvbench/load/phase.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "host/host.h"
#include "kvbench/measure/progress.h"
#include "kvbench/setup/signals.h"
#include "kvbench/load/values.h"
#include "loop/loop.h"

#define TIMEOUT_BYTE_NS  10ull /* 1 s for every 100 MB */
#define BACKOFF_FIRST_NS 1000000ull
#define BACKOFF_LAST_NS  500000000ull
#define BACKOFF_KEEP_NS  10000000ull /* the last one with --keep-going: a server that returns is soon seen */
#define PACE_STEP_NS     100000000ull

uint64_t phase_now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

/* ---- the worker ---- */

bool phase_over(const struct phase *p, uint64_t now)
{
	return now >= p->own.end_ns || bench_interrupted() || server_child_dead(p->bench->server) ||
	       atomic_load_explicit(&p->own.num_errors, memory_order_relaxed) >= p->errors_max;
}

/* Wait for the intended start of an operation in the open loop, no longer than the phase lasts. Returns when it really
 * begins. */
static uint64_t pace_await(const struct phase *p, uint64_t due)
{
	uint64_t now = phase_now();
	while (now < due && !phase_over(p, now)) {
		co_sleep_await(KV_MIN(KV_MIN(due, p->own.end_ns), now + PACE_STEP_NS));
		now = phase_now();
	}
	return now;
}

bool phase_take(struct phase *p, uint64_t *out_number)
{
	uint64_t taken = atomic_fetch_add_explicit(&p->own.next, 1, memory_order_relaxed);
	if (taken >= p->total)
		return false;
	*out_number = p->first_op + taken;
	return true;
}

static unsigned kind_of(struct phase *p, uint64_t *number)
{
	return p->kind_of ? p->kind_of(p, number) : 0;
}

static bool take_due(struct phase *p, struct phase_op *op)
{
	bool got;
	if (p->poisson)
		pthread_mutex_lock(&p->own.schedule);
	got = phase_take(p, &op->number);
	if (got) {
		op->start_ns = p->own.start_ns + bench_arrivals_due(&p->own.arrivals, op->number - p->first_op);
		op->kind = kind_of(p, &op->number);
	}
	if (p->poisson)
		pthread_mutex_unlock(&p->own.schedule);
	return got;
}

static bool take_now(struct phase *p, struct phase_op *op)
{
	if (!phase_take(p, &op->number))
		return false;
	op->kind = kind_of(p, &op->number);
	return true;
}

/* ---- due operations that never started ---- */

/* In the open loop a stall at the end of a phase must count like any other: a due operation counts with its age. */
static void left_count(struct bench_tally *t, uint64_t due_ns, uint64_t over_ns, uint64_t count)
{
	t->due += count;
	t->never_started += count;
	kv_hist_add_many(&t->latency, over_ns - due_ns, count);
}

/* The record of one. Phases with a rate make GETs, or the kinds of a mix (mix.h). */
static struct bench_raw_op left_raw(const struct phase *p, unsigned kind, uint64_t number, uint64_t due_ns,
				    uint64_t over_ns)
{
	static const enum bench_raw_kind kinds[PHASE_KINDS_MAX] = {BENCH_RAW_GET, BENCH_RAW_PUT, BENCH_RAW_EXISTS};
	return (struct bench_raw_op){.number = number,
				     .key = kinds[kind] == BENCH_RAW_PUT ? p->key_base + number
									 : bench_draw_key(&p->bench->draw, number),
				     .due_ns = due_ns,
				     .start_ns = over_ns,
				     .end_ns = over_ns,
				     .phase = (uint8_t)p->raw,
				     .kind = (uint8_t)kinds[kind],
				     .flags = BENCH_RAW_NEVER_STARTED,
				     .run = p->raw_run};
}

static void left_take(struct phase *p, unsigned client, const struct phase_op *op)
{
	struct bench_raw_op raw;
	uint64_t over_ns = KV_MIN(op->begin_ns, p->own.end_ns), seen = atomic_load(&p->own.over_ns);
	while (over_ns < seen && !atomic_compare_exchange_weak(&p->own.over_ns, &seen, over_ns))
		;
	if (op->start_ns >= over_ns)
		return;
	left_count(&p->own.tally[client + op->kind * p->tallies], op->start_ns, over_ns, 1);
	if (op->raw) {
		raw = left_raw(p, op->kind, op->number, op->start_ns, over_ns);
		raw.worker = op->worker;
		bench_raw_add(op->raw, op->ring, &raw);
	}
}

/* No worker took it. due_ns: since the phase began. */
static void left_add(void *arg, uint64_t number, uint64_t due_ns, uint64_t count)
{
	struct phase *p = arg;
	due_ns += p->own.start_ns;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t n = p->first_op + number + i;
		unsigned kind = kind_of(p, &n);
		if (p->bench->raw && p->raw) {
			struct bench_raw_op raw = left_raw(p, kind, n, due_ns, p->own.over_ns);
			bench_raw_add_slow(p->bench->raw, 0, &raw);
			left_count(&p->own.tally[kind * p->tallies], due_ns, p->own.over_ns, 1);
			continue;
		}
		left_count(&p->own.tally[kind * p->tallies], due_ns, p->own.over_ns, count - i);
		break;
	}
}

/* After the last worker. */
static void left_add_all(struct phase *p)
{
	uint64_t now = phase_now();
	if (p->rate <= 0)
		return;
	p->own.over_ns = KV_MIN(KV_MIN(p->own.over_ns, p->own.end_ns), now);
	bench_arrivals_left(&p->own.arrivals, KV_MIN(p->own.next, p->total), p->total, p->own.over_ns - p->own.start_ns,
			    left_add, p);
}

/* Wait until the next operation may begin. False: there is none left. */
static bool take_await(struct phase *p, unsigned client, struct phase_op *op)
{
	if (!(p->rate > 0 ? take_due : take_now)(p, op))
		return false;
	if (p->rate > 0)
		op->begin_ns = pace_await(p, op->start_ns);
	else
		op->start_ns = op->begin_ns = phase_now();
	if (!phase_over(p, op->begin_ns))
		return true;
	if (p->rate > 0)
		left_take(p, client, op);
	return false;
}

uint64_t phase_count(struct phase *p, struct bench_tally *t, int rc, uint64_t *backoff_ns)
{
	uint64_t pause_ns = KV_MAX(*backoff_ns, BACKOFF_FIRST_NS);
	*backoff_ns = 0;
	if (rc == -KV_ENOTFOUND)
		atomic_fetch_add_explicit(&p->own.num_missed, 1, memory_order_relaxed);
	if (rc >= 0 || rc == -KV_ENOTFOUND)
		return 0;
	bench_errors_add(&t->errors, rc, 1);
	atomic_fetch_add_explicit(&p->own.num_errors, 1, memory_order_relaxed);
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
			      .outages = p->outages ? &p->outages[c] : NULL,
			      .raw = p->raw ? p->bench->raw : NULL,
			      .ring = c,
			      .call = phase_call(p->bench->opt)};
	uint64_t backoff_ns = 0, pause_until_ns;
	while (take_await(p, c, &op)) {
		op.tally = &p->own.tally[c + op.kind * p->tallies];
		op.tally->due += p->rate > 0;
		pause_until_ns = phase_count(p, op.tally, p->run(&op), &backoff_ns);
		if (pause_until_ns)
			co_sleep_await(pause_until_ns);
	}
}

/* ---- the phase ---- */

static uint64_t progress_done(void *arg)
{
	struct phase *p = arg;
	return atomic_load_explicit(&p->own.next, memory_order_relaxed);
}

static uint64_t progress_bare(void *arg)
{
	struct phase *p = arg;
	return atomic_load_explicit(&p->own.num_errors, memory_order_relaxed) +
	       atomic_load_explicit(&p->own.num_missed, memory_order_relaxed);
}

static int tallies_create(struct phase *p, struct kv_error *err)
{
	unsigned count;
	if (p->tallies == 0)
		p->tallies = p->bench->num_clients;
	p->kinds = KV_MAX(p->kinds, 1u);
	count = p->tallies * p->kinds;
	p->own.tally = aligned_alloc(KV_CACHELINE, count * sizeof(*p->own.tally));
	if (!p->own.tally)
		return kv_fail(err, -KV_ENOMEM, "no memory for the counters of %u client%s", p->bench->num_clients,
			       kv_plural(p->bench->num_clients));
	for (unsigned i = 0; i < count; i++)
		bench_tally_init(&p->own.tally[i]);
	return 0;
}

/* tally: the first of p->tallies. */
static void collect(const struct phase *p, const struct bench_tally *tally, struct phase_result *out)
{
	bench_tally_init(&out->tally);
	for (unsigned i = 0; i < p->tallies; i++)
		bench_tally_merge(&out->tally, &tally[i]);
	out->too_many_errors = p->own.num_errors >= p->errors_max;
	out->server_died = server_child_dead(p->bench->server);
	out->ran = true;
}

void phase_result_merge(struct phase_result *into, struct phase_result *from)
{
	bench_tally_merge(&into->tally, &from->tally);
	bench_series_append(&into->series, &from->series);
	into->elapsed_ns += from->elapsed_ns;
	into->planned_ns += from->planned_ns;
	into->cpu_seconds += from->cpu_seconds;
	into->server_cpu_seconds += from->server_cpu_seconds;
	into->faults += from->faults;
	into->server_faults += from->server_faults;
	into->too_many_errors |= from->too_many_errors;
	into->server_died |= from->server_died;
	into->ran |= from->ran;
}

static void sampling_start(const struct phase *p, struct phase_result *out, struct series_sampler **sampler)
{
	for (unsigned i = 0; p->series && i < p->kinds; i++) {
		const struct series_source source = {.first = p->own.tally + (size_t)i * p->tallies,
						     .stride_bytes = sizeof(*p->own.tally),
						     .count = p->tallies};
		sampler[i] = series_start(&source, p->bench->opt->out.interval_ns, &out[i].series);
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

static uint64_t planned_ns(const struct phase *p)
{
	uint64_t taken = KV_MIN(atomic_load(&p->own.next), p->total);
	if (p->own.over_ns == KV_NEVER || p->own.over_ns < p->own.end_ns || !p->duration_ns)
		return taken ? KV_MIN(bench_arrivals_last(&p->own.arrivals, taken), p->own.over_ns - p->own.start_ns)
			     : 0;
	return p->duration_ns;
}

void phase_used_now(const struct bench *b, struct phase_used *out)
{
	*out = (struct phase_used){.cpu_seconds = bench_cpu_seconds(RUSAGE_SELF),
				   .server_cpu_seconds = server_child_cpu_seconds(b->server),
				   .faults = kv_process_faults(0),
				   .server_faults = server_child_faults(b->server)};
}

void phase_used_since(const struct bench *b, const struct phase_used *from, struct phase_result *out)
{
	struct phase_used now;
	phase_used_now(b, &now);
	out->cpu_seconds = now.cpu_seconds - from->cpu_seconds;
	out->server_cpu_seconds = now.server_cpu_seconds - from->server_cpu_seconds;
	out->faults = now.faults - from->faults;
	out->server_faults = from->server_faults < 0 ? -1 : now.server_faults - from->server_faults;
}

static void phase_reset(struct phase *p)
{
	const struct bench_options *o = p->bench->opt;
	atomic_store(&p->own.next, 0);
	atomic_store(&p->own.num_errors, 0);
	atomic_store(&p->own.num_missed, 0);
	atomic_store(&p->own.over_ns, KV_NEVER);
	if (p->errors_max == 0)
		p->errors_max = p->outages ? UINT64_MAX : PHASE_ERRORS_MAX;
	if (p->workers == 0)
		p->workers = o->load.num_workers;
	for (unsigned i = 0; i < PHASE_KINDS_MAX; i++)
		p->own.kind_next[i] = p->first_op;
	if (p->rate > 0)
		bench_arrivals_init(&p->own.arrivals, p->rate, p->poisson, p->ramp_ns, o->load.seed + p->first_op);
	p->own.arrivals.recorded = p->recorded;
}

/* out[0] has the time and the processors of all kinds. */
static void kinds_collect(struct phase *p, struct phase_result *out)
{
	for (unsigned i = 0; i < p->kinds; i++) {
		const struct bench_series windows = out[i].series;
		if (i > 0)
			out[i] = out[0];
		out[i].series = windows;
		collect(p, p->own.tally + (size_t)i * p->tallies, &out[i]);
	}
}

/* With progress and time series. */
static int phase_measure(struct phase *p, struct phase_result *out, struct kv_error *err)
{
	struct series_sampler *sampler[PHASE_KINDS_MAX] = {NULL};
	struct progress bar = {.out = p->bench->out,
			       .name = p->name,
			       .total = p->total,
			       .duration_ns = p->duration_ns,
			       .unit_bytes = bench_size_mean(p->bench->opt) * KV_MAX(p->keys_per_op, 1u),
			       .done = progress_done,
			       .bare = progress_bare,
			       .always = p->bench->opt->out.progress,
			       .arg = p};
	struct phase_used before;
	int rc;
	phase_used_now(p->bench, &before);
	sampling_start(p, out, sampler);
	bar.series = sampler[0];
	progress_start(&bar);
	p->own.start_ns = phase_now();
	p->own.end_ns = p->duration_ns ? kv_deadline(p->own.start_ns, p->duration_ns) : KV_NEVER;
	rc = p->drive ? p->drive(p, err) : workers_run(p, err);
	out->elapsed_ns = phase_now() - p->own.start_ns;
	out->planned_ns = p->rate > 0 ? planned_ns(p) : 0;
	left_add_all(p);
	progress_stop(&bar);
	for (unsigned i = 0; i < PHASE_KINDS_MAX; i++)
		series_stop(sampler[i]);
	phase_used_since(p->bench, &before, out);
	return rc;
}

int phase_run(struct phase *p, struct phase_result *out, struct kv_error *err)
{
	int rc = tallies_create(p, err);
	if (rc < 0)
		return rc;
	phase_reset(p);
	pthread_mutex_init(&p->own.schedule, NULL);
	rc = phase_measure(p, out, err);
	if (rc == 0)
		kinds_collect(p, out);
	pthread_mutex_destroy(&p->own.schedule);
	free(p->own.tally);
	p->own.tally = NULL;
	return rc;
}

/* ---- the operations ---- */

void phase_count_done(const struct phase_op *op, uint64_t bytes, uint64_t end_ns)
{
	bench_bump(&op->tally->ops, 1);
	bench_bump(&op->tally->bytes, bytes);
	kv_hist_add(&op->tally->latency, end_ns > op->start_ns ? end_ns - op->start_ns : 0);
	if (op->phase->rate > 0)
		kv_hist_add(&op->tally->service, end_ns > op->begin_ns ? end_ns - op->begin_ns : 0);
}

void phase_raw_add(const struct phase_op *op, enum bench_raw_kind kind, uint64_t key, uint64_t bytes, int code,
		   unsigned flags, uint64_t end_ns)
{
	const struct bench_raw_op raw = {.number = op->number,
					 .key = key,
					 .due_ns = op->start_ns,
					 .start_ns = op->phase->rate > 0 ? op->begin_ns : op->start_ns,
					 .end_ns = end_ns,
					 .bytes = bytes,
					 .code = code,
					 .phase = (uint8_t)op->phase->raw,
					 .kind = (uint8_t)kind,
					 .flags = (uint8_t)flags,
					 .worker = op->worker,
					 .run = op->phase->raw_run};
	bench_raw_add(op->raw, op->ring, &raw);
}

int phase_count_undone(const struct phase_op *op, int rc, uint64_t end_ns)
{
	bench_tally_undone(op->tally, rc, end_ns > op->start_ns ? end_ns - op->start_ns : 0);
	return rc;
}

/* The deadline of a call for one value. Without --timeout it is the library's default (kvclient.h). */
static uint64_t deadline_of(const struct bench_options *o)
{
	return o->client.timeout_ns ? o->client.timeout_ns
				    : KV_TIMEOUT_DEFAULT_NS + o->load.value_size * TIMEOUT_BYTE_NS;
}

void phase_watch(const struct phase_op *op, uint64_t key, uint64_t start_ns, int64_t rc)
{
	if (op->outages)
		bench_outages_call(op->outages, key, start_ns, phase_now(), deadline_of(op->phase->bench->opt),
				   rc < 0 && rc != -KV_ENOTFOUND && rc != -KV_ELEFT && rc != -KV_EEXIST);
}

int phase_store_again(const struct phase_op *op, uint64_t index, const struct bench_key *key, uint64_t len)
{
	const struct bench_options *o = op->phase->bench->opt;
	struct kvc_call call = phase_call(o);
	uint64_t start_ns = phase_now();
	int rc = kvc_put_await(op->client, (struct kvc_key){key->text, key->len}, values_of(op->phase->bench, key, len),
			       len, &call);
	phase_watch(op, index, start_ns, rc);
	op->tally->stored_again += rc == 0;
	if (op->raw) {
		struct phase_op begun = *op;
		begun.start_ns = begun.begin_ns = start_ns;
		phase_raw_add(&begun, BENCH_RAW_PUT, index, rc == 0 ? len : 0, rc, BENCH_RAW_BESIDE, phase_now());
	}
	if (rc == -KV_EEXIST) /* another client has stored it */
		op->tally->put_conflicts++;
	return rc == -KV_EEXIST || rc == -KV_ELEFT ? 0 : rc; /* its server ends: it misses the key until it is back */
}

int phase_op_write(const struct phase_op *op)
{
	struct kvc_call call = phase_put_call(op->phase);
	struct bench_key key;
	uint64_t len, start_ns = op->outages ? phase_now() : 0, end_ns;
	int rc;
	len = bench_key_of(&op->phase->bench->names, op->phase->key_base + op->number, &key);
	rc = kvc_put_await(op->client, (struct kvc_key){key.text, key.len}, values_of(op->phase->bench, &key, len), len,
			   &call);
	end_ns = phase_now();
	phase_raw(op, BENCH_RAW_PUT, op->phase->key_base + op->number, rc == 0 ? len : 0, rc, end_ns);
	if (op->outages)
		bench_outages_count(op->outages, start_ns, end_ns, deadline_of(op->phase->bench->opt));
	if (rc == 0)
		phase_count_done(op, len, end_ns);
	if (rc == 0)
		return 0;
	if (rc != -KV_EEXIST)
		return phase_count_undone(op, rc, end_ns);
	bench_bump(&op->tally->ops, 1);
	op->tally->put_conflicts++;
	return 0;
}

int phase_delete(const struct phase_op *op)
{
	struct kvc_call call = {.size = sizeof(call)};
	struct phase_op begun = *op;
	struct bench_key key;
	int rc;
	bench_key_of(&op->phase->bench->names, op->phase->key_base + op->number, &key);
	begun.start_ns = begun.begin_ns = op->raw ? phase_now() : 0;
	rc = kvc_delete_await(op->client, (struct kvc_key){key.text, key.len}, &call);
	if (op->raw)
		phase_raw_add(&begun, BENCH_RAW_DELETE, op->phase->key_base + op->number, 0, rc, BENCH_RAW_BESIDE,
			      phase_now());
	return rc == -KV_ENOTFOUND ? 0 : rc;
}

int phase_op_delete(const struct phase_op *op)
{
	int rc = phase_delete(op);
	if (rc == 0)
		bench_bump(&op->tally->ops, 1);
	return rc;
}

void bench_glance(const struct bench_key *key, const void *data, uint64_t len, uint64_t expected_len,
		  struct bench_tally *tally)
{
	const uint8_t *last = (const uint8_t *)data + bench_value_last(len);
	tally->wrong += len != expected_len || !bench_value_edges(key, len, data, last);
}

bool bench_verify(const struct bench_key *key, const void *data, uint64_t len, uint64_t expected_len,
		  struct bench_tally *tally)
{
	bool right = len == expected_len && bench_value_check(key, data, len) == len;
	tally->checked++;
	tally->wrong += !right;
	return right;
}

static int read_missed(const struct phase_op *op, uint64_t index, const struct bench_key *key, uint64_t len)
{
	int rc = op->outages || op->phase->store_missed ? phase_store_again(op, index, key, len) : 0;
	bench_bump(&op->tally->ops, 1);
	op->tally->misses++;
	return rc < 0 ? rc : -KV_ENOTFOUND;
}

/* GET of one key as a borrowed piece of the client's registered buffer: the path without a copy. Beside a GET of 4 KiB
 * each instruction here counts (tests/bench/README.md). */
int phase_op_read(const struct phase_op *op)
{
	const struct bench *b = op->phase->bench;
	uint64_t index = bench_draw_key(&b->draw, op->number), len, start_ns, end_ns;
	const struct kvc_call *call = &op->call;
	struct kvc_phases phases;
	struct kvc_call measured;
	struct bench_key key;
	struct kvc_borrowed borrowed;
	int64_t got;
	len = bench_key_of(&b->names, index, &key);
	start_ns = op->outages ? phase_now() : 0;
	if (op->breakdown) {
		phases = (struct kvc_phases){.size = sizeof(phases)};
		measured = op->call;
		measured.phases = &phases;
		call = &measured;
	}
	got = kvc_get_borrowed_await(op->client, (struct kvc_key){key.text, key.len}, len, call, &borrowed);
	end_ns = phase_now();
	phase_watch(op, index, start_ns, got);
	phase_raw(op, BENCH_RAW_GET, index, got < 0 ? 0 : (uint64_t)got, got < 0 ? (int)got : 0, end_ns);
	if (got < 0)
		phase_count_undone(op, (int)got, end_ns);
	if (got == -KV_ENOTFOUND)
		return read_missed(op, index, &key, len);
	if (got < 0)
		return (int)got;
	phase_count_done(op, (uint64_t)got, end_ns);
	if (op->breakdown)
		bench_breakdown_add(op->breakdown, &phases);
	op->tally->hits++;
	if (op->phase->verify)
		bench_verify(&key, borrowed.data, (uint64_t)got, len, op->tally);
	else
		bench_glance(&key, borrowed.data, (uint64_t)got, len, op->tally);
	kvc_borrowed_release(op->client, &borrowed);
	return 0;
}
