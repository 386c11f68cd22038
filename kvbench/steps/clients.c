/* SPDX-License-Identifier: Apache-2.0 */
/* clients.c -- logical clients of the library, each with its messages: GETs of one value, compared.
 *
 * endpoints: a pool with a client for each, on a few loops. While they are opened the library calls back after each,
 * and ten times a second (kvc_options.opening): then the step checks the remaining memory and reports its figures.
 * pooled: a pool of --engines clients, and a session for each logical client. They are opened a part at a time, with
 * the same look after each.
 *
 * A worker is a coroutine that opens the sessions of many clients, then makes their messages in turn. All clients of a
 * worker think for the same time, so the client whose message was over first is due next. */
#include <stdlib.h>
#include <unistd.h>

#include "kvbench/load/values.h"
#include "kvbench/setup/stuck.h"
#include "kvbench/steps/steps.h"
#include "loop/loop.h"

enum {
	AT_ONCE = 64,   /* workers of an engine */
	LOOK_EVERY = 16 /* sessions that each of them opens between two looks */
};

#define PAUSE_NS     100000000ull
#define SHARE_MIN_NS 1000000000ull

struct client_load {
	struct step *s;
	struct bench_key key;
	unsigned workers;  /* worker w has the clients w, w + workers, ... */
	unsigned from, to; /* the clients whose sessions are being opened */
	uint64_t timeout_ns;
	struct kvc_session **session; /* of each client; NULL: each has an endpoint */
	struct step_times *times;     /* of each engine; likewise */
	uint64_t *due_ns;
	uint32_t *came; /* correct messages */
	_Atomic bool refused;
	struct kv_error refusal; /* of the first; read when all workers have returned */
};

static uint64_t now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

/* ---- the pool ---- */

static void made_set(struct step *s, uint32_t endpoints)
{
	s->made.endpoints = s->made.cqs = endpoints;
	s->made.mrs = endpoints * (1 + (uint32_t)((s->opt->buffer_mb + 1023) / 1024));
}

static bool opening(void *arg, unsigned clients_open, unsigned clients_up)
{
	struct step *s = arg;
	/* In the pooled model these clients are the engines; the clients that share them are counted later. */
	if (s->opt->model == STEP_ENDPOINTS) {
		s->opened = clients_open;
		s->connected = clients_up;
	}
	made_set(s, clients_open * s->opt->rails);
	return step_look(s);
}

static int pool_open(struct step *s, const char *psk, struct kvc_pool **out)
{
	const struct step_options *o = s->opt;
	const struct kvc_options ko = {.size = sizeof(ko),
				       .num_clients = o->model == STEP_POOLED ? o->engines : o->clients,
				       .num_threads = o->num_threads,
				       .buffer_bytes = o->buffer_mb << 20,
				       .servers = (const char *const[]){o->server},
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
				       .opening_arg = s};
	struct kv_error err = {0};
	int rc = bench_pool_open(&ko, out, &err);
	s->open_ns = now() - s->begun_ns;
	if (rc < 0 && rc != -KV_ECANCELED)
		step_fail(s, step_end_of(s, &err), rc, "%s", err.text);
	if (rc < 0)
		return rc;
	s->info.size = sizeof(s->info);
	if (kvc_info(*out, &s->info) == 0)
		made_set(s, s->info.endpoints);
	return 0;
}

/* ---- workers ---- */

static void open_each(struct kvc_client *client, unsigned w, void *arg)
{
	struct client_load *l = arg;
	struct kvc_session_options o = {.size = sizeof(o), .timeout_ns = l->timeout_ns};
	struct kv_error err = {0};
	for (unsigned i = l->from + w; i < l->to && !l->refused && !step_over(l->s); i += l->workers) {
		uint64_t begun = now();
		o.client_id = i + 1;
		if (kvc_session_open_await(client, &o, &l->session[i], &err) < 0) {
			if (!atomic_exchange(&l->refused, true))
				l->refusal = err;
			return;
		}
		kv_hist_add(&l->times[w % l->s->opt->engines].connect, now() - begun);
	}
}

static void message(struct kvc_client *client, struct client_load *l, unsigned w, unsigned i)
{
	const struct kvc_call call = {
		.size = sizeof(call), .timeout_ns = l->timeout_ns, .session = l->session ? l->session[i] : NULL};
	struct step *s = l->s;
	uint64_t len = s->opt->value_size, begun = s->opt->think_ns ? l->due_ns[i] : now(), end;
	struct kvc_borrowed borrowed = {0};
	int64_t got = kvc_get_borrowed_await(client, (struct kvc_key){l->key.text, l->key.len}, len, &call, &borrowed);
	end = now();
	if (got < 0) {
		s->failed++;
		s->failure = (int)got;
	} else if ((uint64_t)got != len || bench_value_check(&l->key, borrowed.data, len) != len) {
		s->wrong++;
	} else {
		s->messages++;
		l->came[i]++;
		if (l->times)
			kv_hist_add(&l->times[w % s->opt->engines].latency, end - begun);
	}
	kvc_borrowed_release(client, &borrowed);
	l->due_ns[i] = end + s->opt->think_ns;
}

static void talk(struct kvc_client *client, unsigned w, void *arg)
{
	struct client_load *l = arg;
	for (uint32_t m = 0; m < l->s->opt->messages; m++)
		for (unsigned i = w; i < l->s->opt->clients; i += l->workers) {
			uint64_t at = now();
			for (; l->due_ns[i] > at && !step_over(l->s); at = now())
				co_sleep_await(KV_MIN(l->due_ns[i], at + PAUSE_NS));
			if (step_over(l->s))
				return;
			if (!l->session || l->session[i])
				message(client, l, w, i);
		}
}

/* ---- the step ---- */

static bool load_make(struct client_load *l)
{
	const struct step_options *o = l->s->opt;
	bool pooled = o->model == STEP_POOLED;
	l->workers = pooled ? KV_MIN(o->engines * AT_ONCE, o->clients) : o->clients;
	l->due_ns = calloc(o->clients, sizeof(*l->due_ns));
	l->came = calloc(o->clients, sizeof(*l->came));
	l->session = pooled ? calloc(o->clients, sizeof(struct kvc_session *)) : NULL;
	l->times = pooled ? step_times_make(o->engines) : NULL;
	return l->due_ns && l->came && (!pooled || (l->session && l->times));
}

/* Workers that cannot be started make no message. *ns grows by the time they took. */
static bool workers_run(struct client_load *l, struct kvc_pool *pool,
			void (*work)(struct kvc_client *client, unsigned w, void *arg), uint64_t *ns)
{
	struct kv_error err = {0};
	uint64_t begun = now();
	err.code = kvc_run(pool, l->workers, work, l);
	*ns += now() - begun;
	if (err.code < 0)
		step_fail(l->s, step_end_of(l->s, &err), err.code, "%u worker%s could not be started: %s", l->workers,
			  kv_plural(l->workers), kv_strerror(err.code));
	return err.code == 0;
}

/* Those that are open talk, also if the server has refused one. */
static bool sessions_open(struct client_load *l, struct kvc_pool *pool)
{
	struct step *s = l->s;
	bool go_on = true;
	s->rss.base = kv_memory_rss();
	step_report(s);
	while (go_on && !l->refused && l->from < s->opt->clients) {
		l->to = KV_MIN(l->from + l->workers * LOOK_EVERY, s->opt->clients);
		go_on = workers_run(l, pool, open_each, &s->connect_ns);
		for (; l->from < l->to; l->from++)
			s->opened += l->session[l->from] != NULL;
		s->connected = s->opened;
		s->open_ns = now() - s->begun_ns;
		if (go_on && l->refused)
			step_fail(s, step_end_of(s, &l->refusal), l->refusal.code, "%s", l->refusal.text);
		go_on = go_on && step_look(s);
	}
	step_measure(s);
	return go_on;
}

static void judge(const struct client_load *l)
{
	struct step *s = l->s;
	for (uint32_t i = 0; i < s->opt->clients; i++)
		s->verified += l->came[i] == s->opt->messages;
	if (s->wrong)
		step_fail(s, STEP_DATA, -KV_ECORRUPT, "%llu message%s had wrong bytes", (unsigned long long)s->wrong,
			  kv_plural(s->wrong));
	else if (s->failed)
		step_fail(s, STEP_DATA, s->failure, "%llu message%s failed: %s", (unsigned long long)s->failed,
			  kv_plural(s->failed), kv_strerror(s->failure));
	else if (s->verified < s->opt->clients)
		step_look(s); /* a signal or the time: it says which */
	if (l->times)
		step_times_take(l->times, s->opt->engines, s);
}

static void load_run(struct client_load *l, struct kvc_pool *pool)
{
	struct step *s = l->s;
	uint64_t begun = now();
	int rc;
	bench_key_make(&l->key, begun, s->opt->value_size, (uint64_t)getpid());
	l->timeout_ns = s->deadline_ns > begun + SHARE_MIN_NS ? s->deadline_ns - begun : SHARE_MIN_NS;
	rc = value_store(pool, &l->key, s->opt->value_size, l->timeout_ns);
	if (rc < 0) {
		step_fail(s, STEP_DATA, rc, "the value of all messages could not be stored: %s", kv_strerror(rc));
		return;
	}
	if (l->session && !sessions_open(l, pool))
		return;
	/* The first messages come evenly over one think time, not all at once. */
	begun = now();
	for (uint32_t i = 0; i < s->opt->clients; i++)
		l->due_ns[i] = begun + (uint64_t)((double)s->opt->think_ns * i / s->opt->clients);
	if (workers_run(l, pool, talk, &s->talk_ns))
		judge(l);
}

void step_clients_run(struct step *s, const char *psk)
{
	struct client_load l = {.s = s};
	struct kvc_pool *pool = NULL;
	if (!load_make(&l))
		step_fail(s, STEP_MEMORY, -KV_ENOMEM, "no memory for %u client%s", s->opt->clients,
			  kv_plural(s->opt->clients));
	else if (pool_open(s, psk, &pool) == 0)
		load_run(&l, pool);
	step_measure(s);
	s->final = true;
	step_report(s);
	bench_pool_close(&pool); /* and its sessions */
	free(l.session);
	free(l.times);
	free(l.due_ns);
	free(l.came);
}
