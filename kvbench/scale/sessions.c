/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c -- logical clients: a session for each, over the endpoints of a few engines.
 *
 * A worker is a coroutine that opens the sessions of many clients, then makes their messages in turn. All clients of a
 * worker think for the same time, so the client whose message was over first is due next. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/load/bench.h"
#include "kvbench/load/values.h"
#include "kvbench/scale/scale.h"
#include "kvbench/setup/stuck.h"
#include "loop/loop.h"

enum { AT_ONCE = 64 /* workers of an engine */ };

#define PAUSE_NS 100000000ull

struct session_load {
	struct scale_reporter *t;
	struct bench_key key;
	unsigned workers;
	struct kvc_session **session; /* of each client */
	uint64_t *due_ns;
	uint32_t *came; /* correct messages */
	struct scale_tally *tally;
	uint64_t timeout_ns;
	_Atomic bool refused;
	struct kv_error refusal; /* of the first; read when all workers have returned */
};

static int pool_open(struct scale_reporter *t, const char *psk, struct kvc_pool **out)
{
	const struct scale_options *o = t->opt;
	struct kv_error err = {0};
	struct kvc_options ko = {.size = sizeof(ko),
				 .num_clients = o->engines,
				 .num_threads = o->num_threads,
				 .buffer_bytes = o->buffer_mb << 20,
				 .servers = (const char *const[]){o->step_server},
				 .num_servers = 1,
				 .provider = o->provider,
				 .nic = o->nic,
				 .num_rails = 1,
				 .timeout_ns = o->timeout_ns,
				 .connect_timeout_ns = o->timeout_ns,
				 .peer_timeout_ns = 60000000000ull, /* a busy machine is not a dead one */
				 .flags = KVC_OPEN_WAIT,
				 .psk = psk,
				 .log_level = o->log_level};
	int rc = bench_pool_open(&ko, out, &err);
	if (rc < 0) {
		scale_end(t, "%s", err.text);
		return rc;
	}
	t->step.info.size = sizeof(t->step.info);
	(void)kvc_info(*out, &t->step.info);
	return 0;
}

static void open_each(struct kvc_client *client, unsigned w, void *arg)
{
	struct session_load *l = arg;
	struct scale_tally *y = &l->tally[w % l->t->opt->engines];
	struct kvc_session_options o = {.size = sizeof(o), .timeout_ns = l->timeout_ns};
	struct kv_error err = {0};
	for (unsigned i = w; i < l->t->step.clients && !l->refused && !scale_over(l->t); i += l->workers) {
		uint64_t now = kv_clock_now(&kv_clock_monotonic);
		o.client_id = i + 1;
		if (kvc_session_open_await(client, &o, &l->session[i], &err) < 0) {
			if (!atomic_exchange(&l->refused, true))
				l->refusal = err;
			return;
		}
		kv_hist_add(&y->connect, kv_clock_now(&kv_clock_monotonic) - now);
	}
}

static void message(struct kvc_client *client, struct session_load *l, struct scale_tally *y, unsigned i)
{
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = l->timeout_ns, .session = l->session[i]};
	uint64_t len = l->t->opt->message_bytes, now;
	uint64_t begun = l->t->opt->think_ns ? l->due_ns[i] : kv_clock_now(&kv_clock_monotonic);
	struct kvc_borrowed borrowed = {0};
	int64_t got;
	got = kvc_get_borrowed_await(client, (struct kvc_key){l->key.text, l->key.len}, len, &call, &borrowed);
	now = kv_clock_now(&kv_clock_monotonic);
	if (got < 0) {
		y->failed++;
		y->code = (int)got;
	} else if ((uint64_t)got != len || bench_value_check(&l->key, borrowed.data, len) != len) {
		y->wrong++;
	} else {
		y->messages++;
		l->came[i]++;
		kv_hist_add(&y->latency, now - begun);
	}
	kvc_borrowed_release(client, &borrowed);
	l->due_ns[i] = now + l->t->opt->think_ns;
}

static void talk(struct kvc_client *client, unsigned w, void *arg)
{
	struct session_load *l = arg;
	struct scale_tally *y = &l->tally[w % l->t->opt->engines];
	for (uint32_t m = 0; m < l->t->opt->messages; m++)
		for (unsigned i = w; i < l->t->step.clients; i += l->workers) {
			uint64_t now = kv_clock_now(&kv_clock_monotonic);
			for (; l->due_ns[i] > now && !scale_over(l->t); now = kv_clock_now(&kv_clock_monotonic))
				co_sleep_await(KV_MIN(l->due_ns[i], now + PAUSE_NS));
			if (scale_over(l->t))
				return;
			if (l->session[i])
				message(client, l, y, i);
		}
}

/* The first messages come evenly over one think time, not all at once. */
static void dues_set(struct session_load *l)
{
	uint64_t now = kv_clock_now(&kv_clock_monotonic);
	for (uint32_t i = 0; i < l->t->step.clients; i++)
		l->due_ns[i] = now + (uint64_t)((double)l->t->opt->think_ns * i / l->t->step.clients);
}

static void tallies_take(struct session_load *l)
{
	struct scale_step *s = &l->t->step;
	scale_tallies_take(l->tally, l->t->opt->engines, s);
	for (uint32_t i = 0; i < s->clients; i++)
		s->succeeded += l->came[i] == l->t->opt->messages;
	if (s->wrong)
		scale_end(l->t, "%llu messages had wrong bytes", (unsigned long long)s->wrong);
	if (s->failed)
		scale_end(l->t, "%llu messages failed: %s", (unsigned long long)s->failed, kv_strerror(l->tally->code));
}

static bool load_make(struct session_load *l)
{
	uint32_t n = l->t->step.clients;
	l->session = calloc(n, sizeof(*l->session));
	l->due_ns = calloc(n, sizeof(*l->due_ns));
	l->came = calloc(n, sizeof(*l->came));
	l->tally = scale_tallies_make(l->t->opt->engines);
	return l->session && l->due_ns && l->came && l->tally;
}

static int step(struct kvc_pool *pool, struct session_load *l)
{
	struct scale_step *s = &l->t->step;
	uint64_t now;
	int rc = value_store(pool, &l->key, l->t->opt->message_bytes, l->timeout_ns);
	if (rc < 0) {
		scale_end(l->t, "the value that all messages are of could not be stored: %s", kv_strerror(rc));
		return rc;
	}
	s->rss_base = kv_memory_rss();
	scale_report(l->t);
	now = kv_clock_now(&kv_clock_monotonic);
	rc = kvc_run(pool, l->workers, open_each, l);
	s->connect_ns = kv_clock_now(&kv_clock_monotonic) - now;
	for (uint32_t i = 0; i < s->clients; i++)
		s->connected += l->session[i] != NULL;
	if (rc == 0 && l->refused)
		scale_end(l->t, "%s", l->refusal.text);
	scale_measure(l->t);
	scale_report(l->t);
	if (rc == 0) {
		dues_set(l);
		now = kv_clock_now(&kv_clock_monotonic);
		rc = kvc_run(pool, l->workers, talk, l);
		s->talk_ns = kv_clock_now(&kv_clock_monotonic) - now;
	}
	if (rc < 0)
		scale_end(l->t, "%u workers could not be started: %s", l->workers, kv_strerror(rc));
	tallies_take(l);
	scale_measure(l->t);
	return rc;
}

void scale_sessions_run(struct scale_reporter *t, const char *psk)
{
	struct session_load l = {.t = t};
	struct kvc_pool *pool = NULL;
	uint64_t now = kv_clock_now(&kv_clock_monotonic);
	l.workers = KV_MIN(t->opt->engines * AT_ONCE, t->step.clients);
	l.timeout_ns = t->opt->timeout_ns;
	bench_key_make(&l.key, now, t->opt->message_bytes, (uint64_t)getpid());
	if (!load_make(&l))
		scale_end(t, "no memory for %u clients", t->step.clients);
	else if (pool_open(t, psk, &pool) == 0)
		(void)step(pool, &l);
	t->step.final = true;
	scale_report(t);
	bench_pool_close(&pool); /* and its sessions */
	free(l.session);
	free(l.due_ns);
	free(l.came);
	free(l.tally);
}
