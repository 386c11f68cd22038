/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c -- a request of a trace, by a worker.
 *
 * As an inference server would: one lookup of the longest prefix, the found blocks into registered memory in batches,
 * then PUTs of the others, from prepared memory. A block evicted between lookup and GET is a miss and is written again.
 * Latency samples: of a request with found blocks, from its first GET to its last; of one with others, from its first
 * PUT to its last. Comparing values is outside the samples, inside the phases' time. */
#include "kvbench/load/replay.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "host/host.h"
#include "kvbench/load/batch.h"
#include "kvbench/measure/attached.h"
#include "kvbench/measure/progress.h"
#include "kvbench/load/replay_order.h"
#include "kvbench/setup/signals.h"
#include "kvbench/load/values.h"

enum { BATCH_MAX = 16, BATCH_BYTES = 4 << 20, MEMORY_BYTES = 256 << 20 };
#define BACKOFF_NS 10000000ull
#define STARTED_NS 20000000000ull

struct replay_tally {
	struct bench_tally read, write;
	uint64_t requests, blocks, lost;
};

struct replay {
	struct bench *bench;
	struct sequencer *seq;
	struct replay_tally *tally; /* one per client */
	struct bench_area memory;
	unsigned batch; /* blocks */
	_Alignas(KV_CACHELINE) _Atomic uint64_t num_done;
	_Atomic uint64_t num_errors;
	pthread_mutex_t parts; /* of the result's parts and intervals */
};

struct replay_worker {
	struct seq_worker order;
	unsigned number;
	struct replay *r;
	struct kvc_client *client;
	struct replay_tally *tally;
	uint8_t *memory; /* batch x value_size */
	struct bench_key *key;
	struct kvc_key *lookup;
	unsigned cap;
	struct kvc_item item[BATCH_MAX];
	unsigned block[BATCH_MAX];
	uint64_t read_ns, write_ns, hits, lost; /* of the present request */
	uint64_t longest_ns;                    /* ... of its calls */
};

static bool replay_over(void *arg)
{
	struct replay *r = arg;
	return bench_interrupted() || server_child_dead(r->bench->server) ||
	       atomic_load_explicit(&r->num_errors, memory_order_relaxed) >= PHASE_ERRORS_MAX;
}

static void count_error(struct replay *r, struct bench_tally *t, int code)
{
	bench_errors_add(&t->errors, code, 1);
	atomic_fetch_add_explicit(&r->num_errors, 1, memory_order_relaxed);
}

static uint64_t call_took(struct replay_worker *w, uint64_t start_ns)
{
	uint64_t took_ns = phase_now() - start_ns;
	w->longest_ns = KV_MAX(w->longest_ns, took_ns);
	return took_ns;
}

static void raw_add(const struct replay_worker *w, enum bench_raw_phase phase, enum bench_raw_kind kind, unsigned block,
		    int64_t result, uint64_t start_ns, uint64_t end_ns)
{
	const struct bench *b = w->r->bench;
	struct bench_raw_op op = {.number = w->order.line,
				  .key = w->order.ids[block],
				  .due_ns = b->opt->replay.speed > 0 ? w->order.due_ns : start_ns,
				  .start_ns = start_ns,
				  .end_ns = end_ns,
				  .bytes = result > 0 ? (uint64_t)result : 0,
				  .code = result < 0 ? (int)result : 0,
				  .phase = (uint8_t)phase,
				  .kind = (uint8_t)kind,
				  .worker = w->number,
				  .run = 1};
	if (b->raw)
		bench_raw_add(b->raw, w->number % b->num_clients, &op);
}

/* ---- batches ---- */

static void item_set(struct replay_worker *w, unsigned i, unsigned block)
{
	uint64_t size = w->r->bench->opt->load.value_size;
	w->block[i] = block;
	w->item[i] = (struct kvc_item){
		.key = {w->key[block].text, w->key[block].len}, .data = w->memory + i * size, .len = size};
}

static void put_items_await(struct replay_worker *w, unsigned n)
{
	const struct bench_options *o = w->r->bench->opt;
	struct bench_tally *t = &w->tally->write;
	struct kvc_call call = phase_call(o);
	uint64_t start_ns, took_ns;
	bool failed = false;
	for (unsigned i = 0; i < n; i++)
		w->item[i].data = values_of(w->r->bench, &w->key[w->block[i]], o->load.value_size);
	start_ns = phase_now();
	kvc_put_batch_await(w->client, w->item, n, &call);
	took_ns = call_took(w, start_ns);
	w->write_ns += took_ns;
	for (unsigned i = 0; i < n; i++) {
		int rc = batch_item_stored(&w->item[i], t);
		raw_add(w, BENCH_RAW_WRITE, BENCH_RAW_PUT, w->block[i],
			w->item[i].result < 0 ? w->item[i].result : (int64_t)o->load.value_size, start_ns,
			start_ns + took_ns);
		if (rc < 0)
			count_error(w->r, t, rc);
		failed |= rc < 0;
	}
	if (failed)
		kv_hist_add(&t->failed, took_ns);
}

/* Read the n blocks set as items; missing ones become the first items, to be stored again. Returns their number. */
static unsigned get_items_await(struct replay_worker *w, unsigned n)
{
	struct kvc_call call = phase_call(w->r->bench->opt);
	uint64_t start_ns = phase_now(), took_ns;
	unsigned lost[BATCH_MAX], num_lost = 0;
	bool failed = false, verify = w->r->bench->opt->load.verify;
	int rc;
	kvc_get_batch_await(w->client, w->item, n, &call);
	took_ns = call_took(w, start_ns);
	w->read_ns += took_ns;
	for (unsigned i = 0; i < n; i++) {
		raw_add(w, BENCH_RAW_READ, BENCH_RAW_GET, w->block[i], w->item[i].result, start_ns, start_ns + took_ns);
		rc = batch_item_got(&w->key[w->block[i]], &w->item[i], verify, &w->tally->read);
		if (rc == -KV_ENOTFOUND)
			lost[num_lost++] = w->block[i];
		else if (rc < 0)
			count_error(w->r, &w->tally->read, rc);
		w->hits += rc == 0;
		failed |= rc < 0 && rc != -KV_ENOTFOUND;
	}
	if (failed || num_lost)
		bench_tally_undone(&w->tally->read, failed ? -KV_EINTERNAL : -KV_ENOTFOUND, took_ns);
	w->tally->lost += num_lost;
	w->lost += num_lost;
	for (unsigned i = 0; i < num_lost; i++)
		item_set(w, i, lost[i]);
	return num_lost;
}

static void get_blocks_await(struct replay_worker *w, unsigned found)
{
	for (unsigned at = 0; at < found;) {
		unsigned n = KV_MIN(found - at, w->r->batch), lost;
		for (unsigned i = 0; i < n; i++)
			item_set(w, i, at + i);
		lost = get_items_await(w, n);
		if (lost)
			put_items_await(w, lost);
		at += n;
	}
}

static void put_blocks_await(struct replay_worker *w, unsigned from)
{
	for (unsigned at = from; at < w->order.num_ids;) {
		unsigned n = KV_MIN(w->order.num_ids - at, w->r->batch);
		for (unsigned i = 0; i < n; i++)
			item_set(w, i, at + i);
		put_items_await(w, n);
		at += n;
	}
}

/* ---- parts, by the trace's time ---- */

struct started {
	const struct bench *bench;
	unsigned server;
};

static void *started_main(void *arg)
{
	const struct started *s = arg;
	const struct bench *b = s->bench;
	bool late = bench_events_late(&b->opt->server.events) >> (s->server - 1) & 1;
	char name[32];
	snprintf(name, sizeof(name), "server-%u", s->server);
	bench_attached_wait(b->pool, b->num_clients, name, late, STARTED_NS);
	return NULL;
}

/* The trace's time stands still until all clients have the server. A loop's thread, as the sequencer's is, cannot ask
 * them: another one does. Without one nothing is waited for, and the server is found a little later. */
static void started_wait(struct replay *r, unsigned server)
{
	struct started s = {r->bench, server};
	pthread_t thread;
	if (pthread_create(&thread, NULL, started_main, &s) == 0)
		pthread_join(thread, NULL);
}

static void on_time(void *arg, uint64_t at_ns)
{
	struct replay *r = arg;
	struct bench_happening *h = &r->bench->results.events;
	unsigned at = h->done;
	bench_events_due(h, at_ns);
	for (; at < h->done; at++)
		if (h->events->row[at].kind == BENCH_EVENT_START && r->bench->opt->replay.speed == 0)
			started_wait(r, h->events->row[at].server);
}

static void part_add(struct replay_part *p, const struct replay_worker *w, bool served)
{
	p->longest_ns = KV_MAX(p->longest_ns, w->longest_ns);
	if (!served)
		return;
	p->requests++;
	p->blocks += w->order.num_ids;
	p->hits += w->hits;
	if (w->read_ns)
		kv_hist_add(&p->read, w->read_ns);
}

static void parts_add(struct replay_worker *w, bool served)
{
	const struct bench_events *e = &w->r->bench->opt->server.events;
	struct replay_result *out = &w->r->bench->results.replay;
	uint64_t at = w->order.at_ns, first = e->row[0].at_ns;
	unsigned part = at < first + REPLAY_SOON_NS ? REPLAY_SOON : REPLAY_LATER;
	if (at < first)
		part = REPLAY_BEFORE;
	if (!out->part)
		return;
	pthread_mutex_lock(&w->r->parts);
	part_add(&out->part[part], w, served);
	if (at / REPLAY_INTERVAL_NS < out->intervals)
		part_add(&out->interval[at / REPLAY_INTERVAL_NS], w, served);
	pthread_mutex_unlock(&w->r->parts);
}

static int parts_make(struct replay *r, struct kv_error *err)
{
	struct bench_results *res = &r->bench->results;
	struct replay_result *out = &res->replay;
	double minutes = (res->trace.last_ms - res->trace.first_ms) * 1e6 / (double)REPLAY_INTERVAL_NS;
	if (r->bench->opt->server.events.count == 0)
		return 0;
	out->intervals = (unsigned)KV_MIN(KV_MAX(minutes, 0.0) + 1, (double)REPLAY_INTERVALS_MAX);
	out->part = calloc(REPLAY_PARTS + out->intervals, sizeof(*out->part));
	if (!out->part)
		return kv_fail(err, -KV_ENOMEM, "no memory for the figures of each minute of the trace");
	out->interval = out->part + REPLAY_PARTS;
	for (unsigned i = 0; i < REPLAY_PARTS + out->intervals; i++)
		kv_hist_init(&out->part[i].read);
	return 0;
}

/* ---- a request ---- */

static int make_keys(struct replay_worker *w)
{
	const struct bench_options *o = w->r->bench->opt;
	unsigned n = w->order.num_ids;
	if (n > w->cap) {
		free(w->key);
		free(w->lookup);
		w->key = malloc(n * sizeof(*w->key));
		w->lookup = malloc(n * sizeof(*w->lookup));
		w->cap = w->key && w->lookup ? n : 0;
		if (!w->cap)
			return -KV_ENOMEM;
	}
	for (unsigned i = 0; i < n; i++) {
		bench_key_trace(&w->key[i], o->load.seed, o->load.value_size, w->order.ids[i]);
		w->lookup[i] = (struct kvc_key){w->key[i].text, w->key[i].len};
	}
	return 0;
}

/* A lookup that did not find all is the cost of a miss: GETs are of found blocks only. */
static int lookup_await(struct replay_worker *w, unsigned *out_found)
{
	struct kvc_call call = phase_call(w->r->bench->opt);
	uint64_t start_ns = phase_now(), took_ns;
	int rc = kvc_exists_await(w->client, w->lookup, w->order.num_ids, NULL, out_found, &call);
	int code = rc == 0 && *out_found < w->order.num_ids ? -KV_ENOTFOUND : rc;
	took_ns = call_took(w, start_ns);
	raw_add(w, BENCH_RAW_READ, BENCH_RAW_EXISTS, 0, code, start_ns, start_ns + took_ns);
	if (code < 0)
		bench_tally_undone(&w->tally->read, code, took_ns);
	return rc;
}

static void request_await(struct replay_worker *w)
{
	struct replay_tally *t = w->tally;
	unsigned found = 0;
	int rc = make_keys(w);
	w->longest_ns = 0;
	if (rc == 0)
		rc = lookup_await(w, &found);
	if (rc < 0) {
		count_error(w->r, &t->read, rc);
		parts_add(w, false);
		co_sleep_await(kv_deadline(
			phase_now(), BACKOFF_NS)); /* a call that fails at once must not keep its loop from turning */
		return;
	}
	seq_looked_up_await(&w->order, found);
	w->read_ns = w->write_ns = w->hits = w->lost = 0;
	get_blocks_await(w, found);
	put_blocks_await(w, found);
	if (w->read_ns)
		kv_hist_add(&t->read.latency, w->read_ns);
	if (w->write_ns)
		kv_hist_add(&t->write.latency, w->write_ns);
	t->requests++;
	t->blocks += w->order.num_ids;
	t->read.misses += w->order.num_ids - w->hits - w->lost; /* those lost are counted */
	parts_add(w, true);
}

static void replay_main(struct kvc_client *client, unsigned number, void *arg)
{
	struct replay *r = arg;
	struct replay_worker *w = calloc(1, sizeof(*w));
	if (!w) {
		count_error(r, &r->tally[number % r->bench->num_clients].read, -KV_ENOMEM);
		return;
	}
	w->r = r;
	w->number = number;
	w->client = client;
	w->tally = &r->tally[number % r->bench->num_clients];
	w->memory = (uint8_t *)r->memory.area.base + (uint64_t)number * r->batch * r->bench->opt->load.value_size;
	seq_worker_init(&w->order, r->seq);
	while (seq_next_await(&w->order)) {
		if (w->order.num_ids > 0 && !replay_over(r))
			request_await(w);
		else if (w->order.num_ids == 0)
			w->tally->requests++;
		atomic_fetch_add_explicit(&r->num_done, 1, memory_order_relaxed);
	}
	seq_worker_fini(&w->order);
	free(w->lookup);
	free(w->key);
	free(w);
}

/* ---- the whole ---- */

static uint64_t progress_done(void *arg)
{
	return atomic_load_explicit(&((struct replay *)arg)->num_done, memory_order_relaxed);
}

static int memory_open(struct replay *r, struct kv_error *err)
{
	const struct bench_options *o = r->bench->opt;
	uint64_t batch =
		KV_MIN((uint64_t)BATCH_BYTES, (uint64_t)MEMORY_BYTES / o->load.num_workers) / o->load.value_size;
	r->batch = (unsigned)KV_MIN(KV_MAX(batch, (uint64_t)1), (uint64_t)BATCH_MAX);
	return bench_area_open(r->bench->pool, (uint64_t)o->load.num_workers * r->batch * o->load.value_size,
			       &r->memory, err);
}

static int tallies_create(struct replay *r, struct kv_error *err)
{
	unsigned n = r->bench->num_clients;
	r->tally = aligned_alloc(KV_CACHELINE, n * sizeof(*r->tally));
	if (!r->tally)
		return kv_fail(err, -KV_ENOMEM, "no memory for the counters of %u client%s", n, kv_plural(n));
	memset(r->tally, 0, n * sizeof(*r->tally));
	for (unsigned i = 0; i < n; i++) {
		bench_tally_init(&r->tally[i].read);
		bench_tally_init(&r->tally[i].write);
	}
	return 0;
}

static void collect(struct replay *r, const struct seq_stats *stats)
{
	struct bench_results *res = &r->bench->results;
	struct replay_result *out = &res->replay;
	bench_tally_init(&res->read.tally);
	bench_tally_init(&res->write.tally);
	for (unsigned i = 0; i < r->bench->num_clients; i++) {
		bench_tally_merge(&res->read.tally, &r->tally[i].read);
		bench_tally_merge(&res->write.tally, &r->tally[i].write);
		out->requests += r->tally[i].requests;
		out->blocks += r->tally[i].blocks;
		out->lost += r->tally[i].lost;
	}
	out->block_hits = res->read.tally.hits;
	out->expected_hits = res->trace.prefix_hits;
	out->late_max_ns = stats->late_max_ns;
	out->never_started = stats->never_started;
	out->complete = stats->end_of_file && out->requests == res->trace.requests;
	out->ran = res->read.ran = res->write.ran = true;
	res->read.too_many_errors = r->num_errors >= PHASE_ERRORS_MAX;
	res->read.server_died = server_child_dead(r->bench->server);
}

static int run_workers(struct replay *r, struct kv_error *err)
{
	struct bench *b = r->bench;
	struct progress bar = {.out = b->out,
			       .name = "replay",
			       .total = b->results.trace.requests,
			       .done = progress_done,
			       .always = b->opt->out.progress,
			       .arg = r};
	const struct series_source source[2] = {{&r->tally->read, sizeof(*r->tally), b->num_clients},
						{&r->tally->write, sizeof(*r->tally), b->num_clients}};
	struct series_sampler *sampler[2];
	struct phase_used before;
	uint64_t start_ns = phase_now();
	int rc;
	phase_used_now(b, &before);
	for (unsigned i = 0; i < 2; i++)
		sampler[i] = series_start(&source[i], b->opt->out.interval_ns,
					  i ? &b->results.write.series : &b->results.read.series);
	bar.series = sampler[0];
	progress_start(&bar);
	rc = kvc_run(b->pool, b->opt->load.num_workers, replay_main, r);
	progress_stop(&bar);
	series_stop(sampler[0]);
	series_stop(sampler[1]);
	if (rc < 0)
		return kv_fail(err, rc, "the %u worker%s of the replay cannot be started: %s", b->opt->load.num_workers,
			       kv_plural(b->opt->load.num_workers), kv_strerror(rc));
	b->results.read.elapsed_ns = b->results.write.elapsed_ns = phase_now() - start_ns;
	phase_used_since(b, &before, &b->results.read);
	phase_used_since(b, &before, &b->results.write);
	return 0;
}

static int replay_ordered(struct replay *r, struct kv_error *err)
{
	const struct bench_options *o = r->bench->opt;
	struct seq_options so = {.path = o->replay.trace,
				 .strict = o->replay.order == BENCH_ORDER_STRICT,
				 .speed = o->replay.speed,
				 .duration_ns = o->pace.duration_ns,
				 .before = o->server.events.count ? on_time : NULL,
				 .over = replay_over,
				 .arg = r};
	struct seq_stats stats = {0};
	int rc = parts_make(r, err), stop_rc;
	r->bench->results.events.start_ns = phase_now();
	if (rc == 0)
		rc = sequencer_start(&so, &r->seq, err);
	if (rc < 0)
		return rc;
	rc = run_workers(r, err);
	stop_rc = sequencer_stop(&r->seq, &stats, rc < 0 ? NULL : err);
	if (rc == 0)
		collect(r, &stats);
	return rc < 0 ? rc : stop_rc;
}

int replay_run(struct bench *bench, struct kv_error *err)
{
	struct replay r = {.bench = bench, .parts = PTHREAD_MUTEX_INITIALIZER};
	int rc = tallies_create(&r, err), close_rc;
	if (rc == 0)
		rc = memory_open(&r, err);
	if (rc == 0)
		rc = replay_ordered(&r, err);
	close_rc = bench_area_close(bench->pool, &r.memory, "replay", rc < 0 ? NULL : err);
	free(r.tally);
	return rc < 0 ? rc : close_rc;
}
