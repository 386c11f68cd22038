/* SPDX-License-Identifier: Apache-2.0 */
/* async.c -- the operations of a phase through a queue: --num-workers ids in flight, without coroutines.
 *
 * Threads that submit share the ids. The calling thread reaps: it waits on the queue's descriptor, takes all completed
 * ids at once, and passes each to its submitter, which compares the value, counts, and submits the next operation. With
 * --submitters 0 one thread does all of it. An error rests its id alone, each time longer. After -KV_EBUSY the id is
 * submitted again; its time counts from the first attempt.
 *
 * A slot has the memory of an id. It belongs to its submitter, from the submission until the completion to the library,
 * then to the reaper until it passes it on. The phase ends when no slot has an operation; the last submitter then
 * submits an id of no items, which wakes the reaper. */
#include "kvbench/load/async.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "kvbench/load/batch.h"

enum {
	QUEUE_DEPTH_MAX = 65536, /* kvclient.h */
	TICK_MS = 100,           /* between two looks of the reaper, even if the descriptor stays silent */
};

#define BUSY_REST_NS 100000ull /* an id that the loops did not take */

struct async_slot {
	struct phase_op op;
	struct kvc_item *items;
	unsigned n;
	bool made; /* a prepared operation, not yet submitted */
	int result;
	uint64_t end_ns;
	uint64_t due_ns, backoff_ns; /* while it rests; after errors */
	struct kv_list node;
};

struct submitter {
	_Alignas(KV_CACHELINE) pthread_mutex_t lock;
	pthread_cond_t wake;
	struct kv_list over;    /* completed slots from the reaper; under the lock */
	bool waits;             /* under the lock */
	struct kv_list got;     /* the reaper's alone: completed ids for a submitter */
	struct kv_list resting; /* the submitter's alone, as all below */
	unsigned left;          /* slots that still go on */
	struct async *async;
	pthread_t thread;
};

struct async {
	struct phase *phase;
	struct kvc_queue *queue;
	bool put;
	unsigned depth, num_slots, num_submitters, num_threads;
	struct async_slot *slot;
	struct submitter *submitter;
	struct kvc_completion *completion;
	atomic_uint running; /* submitters with slots that go on */
	atomic_bool give_up; /* a thread could not be started */
};

/* ---- submitting ---- */

static void slot_rest(struct submitter *s, struct async_slot *slot, uint64_t due_ns)
{
	slot->due_ns = due_ns;
	kv_list_add_tail(&s->resting, &slot->node);
}

/* The operation has ended. Returns when the slot may go on, or 0: at once. */
static uint64_t slot_count(struct submitter *s, struct async_slot *slot)
{
	int rc = batch_end(&slot->op, s->async->put, slot->n, slot->result, slot->end_ns);
	if (rc == 0 && slot->result == -KV_ENOTFOUND)
		rc = -KV_ENOTFOUND;
	return phase_count(s->async->phase, slot->op.tally, rc, &slot->backoff_ns);
}

/* False: there is no next operation. */
static bool slot_make(struct async *a, struct async_slot *slot)
{
	if (!slot->made && !phase_take(a->phase, &slot->op.number))
		return false;
	if (!slot->made)
		slot->op.start_ns = phase_now();
	if (atomic_load_explicit(&a->give_up, memory_order_relaxed) || phase_over(a->phase, phase_now()))
		return false;
	if (!slot->made)
		slot->n = batch_begin(&slot->op, a->put, &slot->items);
	if (!slot->made && a->put && a->phase->bench->opt->load.slices)
		slot->op.start_ns = phase_now();
	slot->made = true;
	return true;
}

static void slot_next(struct submitter *s, struct async_slot *slot)
{
	struct async *a = s->async;
	struct kvc_call call = a->put ? phase_put_call(a->phase) : phase_call(a->phase->bench->opt);
	int64_t id;
	if (!slot_make(a, slot)) {
		s->left--;
		return;
	}
	slot->made = false; /* once it is submitted, the slot is no longer ours */
	id = (a->put ? kvc_submit_put : kvc_submit_get)(a->queue, slot->items, slot->n, &call, (uintptr_t)slot);
	if (id > 0)
		return;
	slot->made = id == -KV_EBUSY;
	if (!slot->made) {
		for (unsigned i = 0; i < slot->n; i++)
			slot->items[i].result = id;
		slot->result = (int)id;
		slot->end_ns = phase_now();
	}
	slot_rest(s, slot, slot->made ? kv_deadline(phase_now(), BUSY_REST_NS) : slot_count(s, slot));
}

static void slots_over(struct submitter *s, struct kv_list *over)
{
	struct kv_list *n;
	while ((n = kv_list_pop(over))) {
		struct async_slot *slot = KV_LIST_ENTRY(n, struct async_slot, node);
		uint64_t due_ns = slot_count(s, slot);
		if (due_ns)
			slot_rest(s, slot, due_ns);
		else
			slot_next(s, slot);
	}
}

/* Continue with rested slots. Returns when the next one has, or KV_NEVER. */
static uint64_t slots_rested(struct submitter *s)
{
	uint64_t next_ns = KV_NEVER, now = kv_list_empty(&s->resting) ? 0 : phase_now();
	struct kv_list rested;
	kv_list_init(&rested);
	kv_list_splice_tail(&rested, &s->resting);
	for (struct kv_list *n; (n = kv_list_pop(&rested));) {
		struct async_slot *slot = KV_LIST_ENTRY(n, struct async_slot, node);
		if (slot->due_ns <= now)
			slot_next(s, slot);
		else
			kv_list_add_tail(&s->resting, n);
	}
	KV_LIST_EACH (n, &s->resting)
		next_ns = KV_MIN(next_ns, KV_LIST_ENTRY(n, struct async_slot, node)->due_ns);
	return next_ns;
}

/* Wait for completed slots, or until this time. */
static void over_take(struct submitter *s, uint64_t until_ns, struct kv_list *out)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
	int rc = 0;
	pthread_mutex_lock(&s->lock);
	s->waits = true;
	while (kv_list_empty(&s->over) && rc == 0)
		rc = until_ns == KV_NEVER ? pthread_cond_wait(&s->wake, &s->lock)
					  : pthread_cond_timedwait(&s->wake, &s->lock, &until);
	s->waits = false;
	kv_list_splice_tail(out, &s->over);
	pthread_mutex_unlock(&s->lock);
}

/* The reaper may sleep. If the empty id is not taken, it looks at its next tick. */
static void submitter_done(struct async *a)
{
	if (atomic_fetch_sub(&a->running, 1) == 1)
		(void)kvc_submit_get(a->queue, NULL, 0, NULL, 0);
}

static void *submitter_main(void *arg)
{
	struct submitter *s = arg;
	uint64_t until_ns = slots_rested(s);
	while (s->left > 0) {
		struct kv_list over;
		kv_list_init(&over);
		over_take(s, until_ns, &over);
		slots_over(s, &over);
		until_ns = slots_rested(s);
	}
	submitter_done(s->async);
	return NULL;
}

/* ---- reaping ---- */

/* Woken under the lock, the submitter would sleep again at once, to wait for it. */
static void submitter_hand(struct submitter *s)
{
	bool waits;
	if (kv_list_empty(&s->got))
		return;
	pthread_mutex_lock(&s->lock);
	kv_list_splice_tail(&s->over, &s->got);
	waits = s->waits;
	pthread_mutex_unlock(&s->lock);
	if (waits)
		pthread_cond_signal(&s->wake);
}

static void all_reap(struct async *a)
{
	int n = kvc_reap(a->queue, a->completion, a->depth);
	uint64_t now = phase_now();
	for (int i = 0; i < n; i++) {
		struct async_slot *slot = (struct async_slot *)(uintptr_t)a->completion[i].tag;
		if (!slot)
			continue; /* a submitter's last word */
		slot->result = a->completion[i].result;
		slot->end_ns = now;
		kv_list_add_tail(&a->submitter[slot->op.worker % a->num_submitters].got, &slot->node);
	}
}

static int wait_ms(uint64_t until_ns)
{
	uint64_t now;
	if (until_ns == KV_NEVER)
		return TICK_MS;
	now = phase_now();
	return until_ns > now ? (int)KV_MIN((until_ns - now) / 1000000 + 1, (uint64_t)TICK_MS) : 0;
}

static void reaper_main(struct async *a)
{
	struct pollfd fd = {.fd = kvc_queue_fd(a->queue), .events = POLLIN};
	while (atomic_load(&a->running) > 0) {
		(void)poll(&fd, 1, TICK_MS);
		all_reap(a);
		for (unsigned i = 0; i < a->num_submitters; i++)
			submitter_hand(&a->submitter[i]);
	}
}

static void alone_main(struct async *a)
{
	struct pollfd fd = {.fd = kvc_queue_fd(a->queue), .events = POLLIN};
	struct submitter *s = &a->submitter[0];
	bool no_threads = a->phase->bench->opt->load.no_threads;
	uint64_t until_ns = slots_rested(s);
	while (s->left > 0) {
		if (no_threads)
			(void)kvc_poll(a->phase->bench->pool, wait_ms(until_ns) * 1000000ull);
		else
			(void)poll(&fd, 1, wait_ms(until_ns));
		all_reap(a);
		slots_over(s, &s->got);
		until_ns = slots_rested(s);
	}
}

/* ---- the phase ---- */

static void submitter_init(struct submitter *s, struct async *a)
{
	pthread_condattr_t attr;
	s->async = a;
	s->left = 0;
	s->waits = false;
	kv_list_init(&s->over);
	kv_list_init(&s->got);
	kv_list_init(&s->resting);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, &attr);
	pthread_condattr_destroy(&attr);
}

/* All slots begin as rested ones. */
static void slots_init(struct async *a)
{
	for (unsigned i = 0; i < a->num_submitters; i++)
		submitter_init(&a->submitter[i], a);
	for (unsigned i = 0; i < a->num_slots; i++) {
		struct submitter *s = &a->submitter[i % a->num_submitters];
		struct async_slot *slot = &a->slot[i];
		slot->op.phase = a->phase;
		slot->op.worker = i;
		slot->op.tally = &a->phase->own.tally[i % a->num_submitters];
		slot->op.raw = a->phase->raw ? a->phase->bench->raw : NULL;
		slot->op.ring = i % a->num_submitters;
		s->left++;
		slot_rest(s, slot, 0);
	}
}

/* If a thread cannot be started, the others stop. */
static int threads_start(struct async *a, struct kv_error *err)
{
	int rc = 0;
	for (; rc == 0 && a->num_threads < a->num_submitters; a->num_threads += rc == 0) {
		struct submitter *s = &a->submitter[a->num_threads];
		atomic_fetch_add(&a->running, 1);
		rc = -pthread_create(&s->thread, NULL, submitter_main, s);
	}
	if (rc == 0)
		return 0;
	atomic_store(&a->give_up, true);
	submitter_done(a);
	return kv_fail(err, rc, "submitter %u of %u cannot be started: %s; use a smaller --submitters",
		       a->num_threads + 1, a->num_submitters, kv_strerror(rc));
}

static int async_run(struct async *a, struct kv_error *err)
{
	const struct kvc_queue_options qo = {.size = sizeof(qo), .depth = a->depth};
	int rc = kvc_queue_open(a->phase->bench->pool, &qo, &a->queue, err);
	if (rc < 0)
		return rc;
	slots_init(a);
	if (a->phase->bench->opt->load.submitters == 0) {
		alone_main(a);
	} else {
		rc = threads_start(a, err);
		reaper_main(a);
	}
	for (unsigned i = 0; i < a->num_threads; i++)
		pthread_join(a->submitter[i].thread, NULL);
	for (unsigned i = 0; i < a->num_submitters; i++) {
		pthread_cond_destroy(&a->submitter[i].wake);
		pthread_mutex_destroy(&a->submitter[i].lock);
	}
	kvc_queue_close(&a->queue);
	return rc;
}

static int drive(struct phase *p, bool put, struct kv_error *err)
{
	const struct bench_options *o = p->bench->opt;
	struct async a = {.phase = p, .put = put, .num_slots = o->load.num_workers, .num_submitters = p->tallies};
	int rc;
	a.depth = KV_MIN(a.num_slots + 1, (unsigned)QUEUE_DEPTH_MAX);
	a.slot = calloc(a.num_slots, sizeof(*a.slot));
	a.submitter = aligned_alloc(KV_CACHELINE, a.num_submitters * sizeof(*a.submitter));
	a.completion = calloc(a.depth, sizeof(*a.completion));
	if (a.slot && a.submitter && a.completion)
		rc = async_run(&a, err);
	else
		rc = kv_fail(err, -KV_ENOMEM, "no memory for %u id%s in flight: use a smaller --num-workers",
			     a.num_slots, kv_plural(a.num_slots));
	free(a.completion);
	free(a.submitter);
	free(a.slot);
	return rc;
}

static int gets_drive(struct phase *p, struct kv_error *err)
{
	return drive(p, false, err);
}

static int puts_drive(struct phase *p, struct kv_error *err)
{
	return drive(p, true, err);
}

void async_phase(struct phase *phase, bool put)
{
	if (!phase->bench->opt->load.async)
		return;
	phase->drive = put ? puts_drive : gets_drive;
	phase->tallies = KV_MAX(phase->bench->opt->load.submitters, 1u);
}
