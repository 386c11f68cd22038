/* SPDX-License-Identifier: Apache-2.0 */
/* replay_order.c -- the order of a trace replay.
 *
 * Strict order makes the number of hits a property of the trace: a lookup sees all blocks of earlier requests and none
 * of later ones. A request claims its blocks when a worker gets it, in file order. Claims on one block form a queue,
 * and a request starts when all its claims are first. It releases a claim when the block is known to be there. Waiting
 * is always for an earlier line, so there is no circle.
 *
 * One loop owns all of this, without a lock: workers post "looked up" and "next, please", the sequencer posts "go". The
 * table holds the last claim of each block. A released claim is the first of its queue, so a queue needs no other links
 * than `behind`. */
#include "kvbench/load/replay_order.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { BUCKETS = 1 << 16 };
#define TICK_NS   100000000ull
#define LATEST_NS 1e18 /* from the start: 30 years */

struct sequencer {
	struct seq_options opt;
	struct loop *loop;
	pthread_t thread;
	struct trace_reader *reader;
	struct trace_request next; /* read, but not started yet */
	bool have_next, have_first, ended;
	double first_ms, latest_ms;
	uint64_t start_ns, when_ns;
	struct kv_list idle;
	struct loop_timer timer;
	struct seq_stats stats;
	int rc;
	struct kv_error err;
	struct seq_claim *bucket[BUCKETS];
};

/* ---- claims ---- */

static struct seq_claim **bucket_of(struct sequencer *s, uint64_t id)
{
	return &s->bucket[(id * 0x9e3779b97f4a7c15ull) >> 48];
}

/* Where the last claim of a block hangs in the table, or where the chain ends. */
static struct seq_claim **find_last(struct sequencer *s, uint64_t id)
{
	struct seq_claim **at = bucket_of(s, id);
	while (*at && (*at)->id != id)
		at = &(*at)->hash_next;
	return at;
}

static void claim_block(struct sequencer *s, struct seq_worker *w, struct seq_claim *c, uint64_t id)
{
	struct seq_claim **at = find_last(s, id), *last = *at;
	*c = (struct seq_claim){.id = id, .owner = w};
	if (last && last->owner == w)
		return;
	c->held = true;
	if (last) {
		last->behind = c;
		c->hash_next = last->hash_next; /* takes its place in the table */
		w->waits++;
	}
	*at = c;
}

static void worker_go(struct seq_worker *w, bool ended);

static void give_up(struct sequencer *s, struct seq_claim *c)
{
	if (!c->held)
		return;
	c->held = false;
	if (!c->behind) {
		*find_last(s, c->id) = c->hash_next;
		return;
	}
	if (--c->behind->owner->waits == 0)
		worker_go(c->behind->owner, false);
}

/* ---- handing out ---- */

static void on_go(void *arg)
{
	struct seq_worker *w = arg;
	w->given = true;
	w->ended = w->verdict;
	co_wake(w->co);
}

/* The worker's loop never waits for this one, so its queue empties: yielding until then is safe. */
static void worker_go(struct seq_worker *w, bool ended)
{
	struct sequencer *s = w->seq;
	uint64_t now = loop_now(s->loop);
	if (!ended && s->opt.speed > 0 && now > w->due_ns)
		s->stats.late_max_ns = KV_MAX(s->stats.late_max_ns, now - w->due_ns);
	w->verdict = ended;
	while (loop_post(w->loop, on_go, w) == -KV_EBUSY)
		sched_yield();
}

static int worker_grow(struct seq_worker *w, unsigned num_ids)
{
	uint64_t *ids;
	struct seq_claim *claim;
	if (num_ids <= w->cap)
		return 0;
	ids = realloc(w->ids_copy, num_ids * sizeof(*ids));
	if (ids)
		w->ids_copy = ids;
	/* None is held: nothing points into it. */
	claim = realloc(w->claim, num_ids * sizeof(*claim));
	if (claim)
		w->claim = claim;
	if (!ids || !claim)
		return -KV_ENOMEM;
	w->cap = num_ids;
	return 0;
}

static int assign(struct sequencer *s, struct seq_worker *w)
{
	if (worker_grow(w, s->next.num_ids) < 0)
		return kv_fail(&s->err, -KV_ENOMEM, "no memory for the %u block%s of line %llu", s->next.num_ids,
			       kv_plural(s->next.num_ids), (unsigned long long)s->next.line);
	if (s->next.num_ids)
		memcpy(w->ids_copy, s->next.ids, s->next.num_ids * sizeof(*w->ids_copy));
	w->ids = w->ids_copy;
	w->num_ids = s->next.num_ids;
	w->line = s->next.line;
	w->due_ns = s->when_ns;
	w->at_ns = (uint64_t)KV_MIN(KV_MAX(s->next.timestamp_ms - s->first_ms, 0.0) * 1e6, LATEST_NS);
	if (s->opt.before)
		s->opt.before(s->opt.arg, w->at_ns);
	w->waits = w->found = 0;
	if (s->opt.strict)
		for (unsigned i = 0; i < w->num_ids; i++)
			claim_block(s, w, &w->claim[i], w->ids[i]);
	return 0;
}

static int read_next(struct sequencer *s)
{
	int rc;
	if (s->have_next)
		return 1;
	rc = trace_next(s->reader, &s->next, &s->err);
	s->have_next = rc > 0;
	if (rc > 0 && !s->have_first) {
		s->have_first = true;
		s->first_ms = s->latest_ms = s->next.timestamp_ms;
	}
	if (rc > 0)
		s->latest_ms = s->next.timestamp_ms = KV_MAX(s->next.timestamp_ms, s->latest_ms);
	s->stats.end_of_file = rc == 0;
	return rc;
}

static uint64_t when_of(const struct sequencer *s)
{
	double ns = KV_MAX(s->next.timestamp_ms - s->first_ms, 0.0) * 1e6 / s->opt.speed;
	return s->start_ns + (uint64_t)KV_MIN(ns, LATEST_NS);
}

static bool due(struct sequencer *s)
{
	uint64_t now = loop_now(s->loop), when;
	if (s->opt.speed == 0)
		return true;
	when = when_of(s);
	if (now < when) {
		loop_timer_arm(s->loop, &s->timer, KV_MIN(when, now + TICK_NS));
		return false;
	}
	s->when_ns = when;
	return true;
}

/* The time is over: due requests that no worker has taken. The rest of the file is read for them. */
static void left_count(struct sequencer *s)
{
	uint64_t end_ns = s->start_ns + s->opt.duration_ns, when_ns;
	if (s->opt.speed == 0 || s->opt.duration_ns == 0 || s->opt.over(s->opt.arg))
		return;
	for (; read_next(s) > 0; s->have_next = false) {
		when_ns = when_of(s);
		if (when_ns >= end_ns)
			return;
		s->stats.never_started++;
		s->stats.late_max_ns = KV_MAX(s->stats.late_max_ns, end_ns - when_ns);
	}
	s->stats.end_of_file &= s->stats.never_started == 0;
}

static bool over(struct sequencer *s)
{
	return s->opt.over(s->opt.arg) || (s->opt.duration_ns && loop_now(s->loop) - s->start_ns >= s->opt.duration_ns);
}

static bool hand_out(struct sequencer *s)
{
	struct seq_worker *w = KV_LIST_ENTRY(s->idle.next, struct seq_worker, node);
	int rc;
	if (!s->ended && over(s)) {
		s->ended = true;
		left_count(s);
	}
	if (s->ended)
		return false;
	rc = read_next(s);
	if (rc > 0 && !due(s))
		return false;
	if (rc > 0)
		rc = assign(s, w);
	if (rc < 0 || !s->have_next) {
		s->ended = true;
		s->rc = rc;
		return false;
	}
	kv_list_del(&w->node);
	s->have_next = false;
	s->stats.started++;
	s->stats.waited += w->waits > 0;
	if (w->waits == 0)
		worker_go(w, false);
	return true;
}

static void dispatch(struct sequencer *s)
{
	while (!kv_list_empty(&s->idle) && hand_out(s))
		;
	while (s->ended && !kv_list_empty(&s->idle))
		worker_go(KV_LIST_ENTRY(kv_list_pop(&s->idle), struct seq_worker, node), true);
}

static void on_timer(struct loop_timer *t)
{
	dispatch(KV_CONTAINER(t, struct sequencer, timer));
}

/* ---- messages of workers ---- */

static void on_next(void *arg)
{
	struct seq_worker *w = arg;
	struct sequencer *s = w->seq;
	if (s->opt.strict)
		for (unsigned i = 0; i < w->num_ids; i++)
			give_up(s, &w->claim[i]);
	w->num_ids = 0;
	kv_list_add_tail(&s->idle, &w->node);
	dispatch(s);
}

static void on_looked_up(void *arg)
{
	struct seq_worker *w = arg;
	for (unsigned i = 0; i < w->found; i++)
		give_up(w->seq, &w->claim[i]);
}

static void post_await(struct seq_worker *w, void (*fn)(void *))
{
	while (loop_post(w->seq->loop, fn, w) == -KV_EBUSY)
		co_sleep_await(loop_now(w->loop) + 100000);
}

void seq_worker_init(struct seq_worker *worker, struct sequencer *seq)
{
	worker->seq = seq;
	worker->loop = loop_current();
	worker->co = co_self();
	kv_list_init(&worker->node);
}

void seq_worker_fini(struct seq_worker *worker)
{
	free(worker->ids_copy);
	free(worker->claim);
	worker->ids_copy = NULL;
	worker->claim = NULL;
}

bool seq_next_await(struct seq_worker *worker)
{
	worker->given = false;
	post_await(worker, on_next);
	while (!worker->given)
		co_park_await(KV_NEVER);
	return !worker->ended;
}

void seq_looked_up_await(struct seq_worker *worker, unsigned found)
{
	if (!worker->seq->opt.strict)
		return;
	worker->found = found;
	post_await(worker, on_looked_up);
}

/* ---- life ---- */

static void *thread_main(void *arg)
{
	struct sequencer *s = arg;
	loop_run(s->loop);
	return NULL;
}

int sequencer_start(const struct seq_options *options, struct sequencer **out, struct kv_error *err)
{
	struct loop_options lo = {.name = "trace", .log = options->log};
	struct sequencer *s = calloc(1, sizeof(*s));
	int rc;
	if (!s)
		return kv_fail(err, -KV_ENOMEM, "no memory for the trace replay");
	s->opt = *options;
	s->timer.fire = on_timer;
	kv_list_init(&s->idle);
	rc = trace_open(options->path, &s->reader, err);
	if (rc < 0)
		goto fail;
	rc = loop_create(&lo, &s->loop, err);
	if (rc < 0)
		goto fail_reader;
	s->start_ns = loop_now(s->loop);
	rc = -pthread_create(&s->thread, NULL, thread_main, s);
	if (rc < 0) {
		kv_fail(err, rc, "no thread for the trace replay: %s", kv_strerror(rc));
		goto fail_loop;
	}
	*out = s;
	return 0;

fail_loop:
	loop_destroy(&s->loop);
fail_reader:
	trace_close(&s->reader);
fail:
	free(s);
	return rc;
}

int sequencer_stop(struct sequencer **seq, struct seq_stats *out, struct kv_error *err)
{
	struct sequencer *s = *seq;
	int rc;
	if (!s)
		return 0;
	loop_stop(s->loop);
	pthread_join(s->thread, NULL);
	loop_destroy(&s->loop);
	trace_close(&s->reader);
	*out = s->stats;
	rc = s->rc;
	if (rc < 0 && err)
		*err = s->err;
	free(s);
	*seq = NULL;
	return rc;
}
