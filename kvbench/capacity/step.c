/* SPDX-License-Identifier: Apache-2.0 */
/* step.c -- one step, in its own process.
 *
 * While clients are opened the library calls back after each, and ten times a second (kvc_options.opening): then the
 * step checks the remaining memory and reports its figures (reporter.c).
 *
 * endpoints: a pool with a client for each, 1 MiB of receive buffer, and rxm's smallest queues, on a few loops. pooled:
 * a pool of --engines clients, and a session of its own for each logical client (kvc_session_open_await). */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/load/bench.h"
#include "kvbench/capacity/reporter.h"
#include "kvbench/capacity/verbs.h"
#include "kvbench/setup/signals.h"
#include "kvbench/setup/step.h"
#include "kvbench/load/values.h"
#include "kvbench/setup/stuck.h"

#define SHARE_MIN_NS 1000000000ull

enum { SESSIONS_AT_ONCE = 64 /* of an engine: opened, and reading, at a time */ };

/* ---- the pool ---- */

static uint32_t mrs_of(const struct capacity_reporter *t, uint32_t endpoints)
{
	return endpoints * (1 + (uint32_t)((t->opt->buffer_mb + 1023) / 1024));
}

static bool opening(void *arg, unsigned clients_open, unsigned clients_up)
{
	struct capacity_reporter *t = arg;
	/* In the pooled model these clients are the engines; the clients that share them are counted later. */
	if (t->step.model == CAPACITY_ENDPOINTS) {
		t->step.opened = clients_open;
		t->step.connected = clients_up;
	}
	t->step.endpoints = clients_open * t->opt->rails;
	t->step.cqs = t->step.endpoints;
	t->step.mrs = mrs_of(t, t->step.endpoints);
	return capacity_look(t);
}

static int pool_open(struct capacity_reporter *t, const char *psk, struct kvc_pool **out)
{
	const struct capacity_options *o = t->opt;
	const char *const servers[] = {o->server};
	struct kvc_options ko = {.size = sizeof(ko),
				 .num_clients = t->step.model == CAPACITY_POOLED ? o->engines : t->step.attempted,
				 .num_threads = o->num_threads,
				 .buffer_bytes = o->buffer_mb << 20,
				 .servers = servers,
				 .num_servers = 1,
				 .provider = o->provider,
				 .nic = o->nic,
				 .num_rails = o->rails,
				 .timeout_ns = o->timeout_ns,
				 .connect_timeout_ns = o->timeout_ns,
				 .peer_timeout_ns = 60000000000ull, /* a busy machine is not a dead one */
				 .flags = KVC_OPEN_WAIT |
					  KVC_NO_PREFLIGHT, /* each endpoint is checked by itself all the same */
				 KV_OPT_SECURITY_OF(o->security),
				 .psk = psk,
				 .log_level = o->log_level,
				 .opening = opening,
				 .opening_arg = t};
	struct kv_error err = {0};
	int rc = bench_pool_open(&ko, out, &err);
	if (rc < 0 && rc != -KV_ECANCELED)
		capacity_fail(t, capacity_end_of(t, &err), rc, "%s", err.text);
	return rc;
}

static void pool_report(struct capacity_reporter *t, struct kvc_pool *pool)
{
	struct capacity_step *s = &t->step;
	s->info.size = sizeof(s->info);
	if (kvc_info(pool, &s->info) < 0)
		return;
	s->endpoints = s->cqs = s->info.endpoints;
	s->mrs = mrs_of(t, s->endpoints);
}

/* ---- one GET each ---- */

/* The outcome of each client; a byte each, since they are on several threads. */
enum outcome { NOT_ASKED, RIGHT, WRONG, FAILED };

struct step_reading {
	struct capacity_reporter *reporter;
	struct bench_key key;
	uint64_t timeout_ns;
	unsigned workers;             /* worker w has the logical clients w, w + workers, ... */
	uint8_t *outcome;             /* per logical client */
	struct kvc_session **session; /* likewise, of the pooled model; else NULL */
	_Atomic int code;             /* of a GET that failed */
	_Atomic bool refused;         /* a session could not be opened: the workers open no more */
	struct kv_error refusal;
};

static bool over(const struct step_reading *r)
{
	return bench_interrupted() || kv_clock_now(&kv_clock_monotonic) >= r->reporter->deadline_ns;
}

static void open_sessions(struct kvc_client *client, unsigned w, void *arg)
{
	struct step_reading *r = arg;
	struct kvc_session_options o = {.size = sizeof(o), .timeout_ns = r->timeout_ns};
	struct kv_error err = {0};
	for (unsigned i = w; i < r->reporter->step.attempted && !r->refused && !over(r); i += r->workers) {
		o.client_id = i + 1;
		if (kvc_session_open_await(client, &o, &r->session[i], &err) < 0) {
			if (!atomic_exchange(&r->refused, true))
				r->refusal = err;
			return;
		}
	}
}

static void get_once(struct kvc_client *client, struct step_reading *r, unsigned w)
{
	const struct kvc_call call = {
		.size = sizeof(call), .timeout_ns = r->timeout_ns, .session = r->session ? r->session[w] : NULL};
	uint64_t len = r->reporter->opt->value_size;
	struct kvc_borrowed borrowed = {0};
	int64_t got;
	got = kvc_get_borrowed_await(client, (struct kvc_key){r->key.text, r->key.len}, len, &call, &borrowed);
	if (got < 0) {
		r->code = (int)got;
		r->outcome[w] = FAILED;
	} else {
		bool right = (uint64_t)got == len && bench_value_check(&r->key, borrowed.data, len) == len;
		r->outcome[w] = right ? RIGHT : WRONG;
	}
	kvc_borrowed_release(client, &borrowed);
}

static void get_each(struct kvc_client *client, unsigned w, void *arg)
{
	struct step_reading *r = arg;
	for (unsigned i = w; i < r->reporter->step.attempted && !over(r); i += r->workers)
		if (!r->session || r->session[i])
			get_once(client, r, i);
}

static void outcomes_count(struct capacity_reporter *t, const struct step_reading *r)
{
	uint32_t failed = 0;
	for (uint32_t i = 0; i < t->step.attempted; i++) {
		t->step.verified += r->outcome[i] == RIGHT;
		t->step.wrong += r->outcome[i] == WRONG;
		failed += r->outcome[i] == FAILED;
	}
	if (t->step.wrong > 0)
		capacity_fail(t, CAPACITY_DATA, -KV_ECORRUPT, "%u client%s read wrong bytes", t->step.wrong,
			      kv_plural(t->step.wrong));
	else if (failed > 0)
		capacity_fail(t, CAPACITY_DATA, r->code, "the GET of %u client%s failed: %s", failed, kv_plural(failed),
			      kv_strerror(r->code));
	else if (bench_interrupted() || t->step.verified < t->step.attempted)
		capacity_look(t); /* a signal or the time: it says which */
}

static int sessions_open(struct capacity_reporter *t, struct kvc_pool *pool, struct step_reading *r)
{
	int rc;
	r->session = calloc(t->step.attempted, sizeof(*r->session));
	if (!r->session) {
		capacity_fail(t, CAPACITY_MEMORY, -KV_ENOMEM, "no memory for %u session%s", t->step.attempted,
			      kv_plural(t->step.attempted));
		return -KV_ENOMEM;
	}
	rc = kvc_run(pool, r->workers, open_sessions, r);
	for (unsigned i = 0; i < t->step.attempted; i++)
		t->step.opened += r->session[i] != NULL;
	t->step.connected = t->step.opened;
	t->step.open_ns = kv_clock_now(&kv_clock_monotonic) - t->begun_ns;
	if (rc == 0 && r->refused) {
		rc = r->refusal.code;
		capacity_fail(t, capacity_end_of(t, &r->refusal), rc, "%s", r->refusal.text);
	}
	return capacity_look(t) ? rc : -KV_ECANCELED;
}

static int read_all(struct capacity_reporter *t, struct kvc_pool *pool, struct step_reading *r)
{
	uint64_t now = kv_clock_now(&kv_clock_monotonic);
	int rc;
	bench_key_make(&r->key, now, t->opt->value_size, (uint64_t)getpid());
	r->timeout_ns = t->deadline_ns > now + SHARE_MIN_NS ? t->deadline_ns - now : SHARE_MIN_NS;
	rc = value_store(pool, &r->key, t->opt->value_size, r->timeout_ns);
	if (rc < 0) {
		capacity_fail(t, CAPACITY_DATA, rc, "the value that every client is to read could not be stored: %s",
			      kv_strerror(rc));
		return rc;
	}
	r->workers = t->step.attempted;
	if (t->step.model == CAPACITY_POOLED) {
		r->workers = KV_MIN(t->opt->engines * SESSIONS_AT_ONCE, r->workers);
		rc = sessions_open(t, pool, r);
		if (rc < 0)
			return rc;
	}
	now = kv_clock_now(&kv_clock_monotonic);
	rc = kvc_run(pool, r->workers, get_each, r);
	t->step.get_ns = kv_clock_now(&kv_clock_monotonic) - now;
	if (rc < 0) {
		struct kv_error err = {.code = rc};
		capacity_fail(t, capacity_end_of(t, &err), rc, "%u worker%s could not be started: %s", r->workers,
			      kv_plural(r->workers), kv_strerror(rc));
		return rc;
	}
	return 0;
}

static void pool_run(struct capacity_reporter *t, const char *psk)
{
	struct step_reading r = {.reporter = t};
	struct kvc_pool *pool = NULL;
	r.outcome = calloc(t->step.attempted, 1);
	if (!r.outcome) {
		capacity_fail(t, CAPACITY_MEMORY, -KV_ENOMEM, "no memory for the results of %u client%s",
			      t->step.attempted, kv_plural(t->step.attempted));
		return;
	}
	if (pool_open(t, psk, &pool) == 0) {
		t->step.open_ns = kv_clock_now(&kv_clock_monotonic) - t->begun_ns;
		pool_report(t, pool);
		if (read_all(t, pool, &r) == 0)
			outcomes_count(t, &r);
		capacity_measure(t);
		t->step.final = true;
		capacity_report(t);
	}
	/* Sessions go with their pool. */
	bench_pool_close(&pool);
	free(r.session);
	free(r.outcome);
}

/* ---- the process ---- */

static int model_of(const char *name)
{
	int m = 0;
	while (m < CAPACITY_MODELS && strcmp(capacity_model_name(m), name) != 0)
		m++;
	return m;
}

static int options_take(int argc, char **argv, struct capacity_options *o, struct kv_error *err)
{
	int rc = argc < 5 ? kv_fail(err, -KV_EINVAL, "a step has four arguments")
			  : capacity_options_parse(argc - 4, argv + 4, o, err);
	if (rc != 0)
		return rc < 0 ? rc : -KV_EINVAL;
	o->model = model_of(argv[1]);
	o->step_clients = (uint32_t)strtoul(argv[2], NULL, 10);
	o->server = argv[3][0] ? argv[3] : o->server;
	o->timeout_ns = strtoull(argv[4], NULL, 10);
	return o->model < CAPACITY_MODELS && o->step_clients > 0 ? 0
								 : kv_fail(err, -KV_EINVAL, "there is no such step");
}

int capacity_step_main(int argc, char **argv)
{
	static struct capacity_options options;
	static struct capacity_reporter t;
	struct kv_error err = {0};
	char psk[256];
	if (options_take(argc, argv, &options, &err) < 0) {
		fprintf(stderr, "kv-bench: %s\n", err.text);
		return BENCH_USAGE;
	}
	bench_signals_install();
	t.opt = &options;
	t.begun_ns = kv_clock_now(&kv_clock_monotonic);
	t.deadline_ns = kv_deadline(t.begun_ns, options.timeout_ns);
	t.step = (struct capacity_step){.model = options.model,
					.attempted = options.step_clients,
					.rss_start = kv_memory_rss(),
					.kernel_qps = -1,
					.kernel_cqs = -1,
					.kernel_mrs = -1};
	t.rss_looked = t.step.rss_start;
	(void)step_key_take(psk, sizeof(psk));
	if (options.model == CAPACITY_VERBS) {
		capacity_verbs_run(&t);
	} else {
		kvc_program_setup_many();
		pool_run(&t, psk[0] ? psk : NULL);
	}
	explicit_bzero(psk, sizeof(psk));
	t.step.final = true;
	capacity_report(&t);
	return BENCH_OK;
}
