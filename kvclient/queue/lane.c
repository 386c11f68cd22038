/* SPDX-License-Identifier: Apache-2.0 */
/* lane.c -- the loop's side of a queue: coroutines of a client's loop make the parts posted to it. A coroutine makes
 * parts while any wait, then ends, so a closing client has no idle coroutines. Above KC_QUEUE_COROUTINES per client,
 * parts wait and may be taken back. The bell is rung once per loop turn (tell_await). Once started, a part's items and
 * memory belong to the call until it returns; before, to the thread that changes the state. */
#include "kvclient/call/batch.h"
#include "kvclient/queue/queue.h"
#include "kvclient/request/admission.h"

/* Ring the bell once for all ids that end in this turn: yielding lets the other ready coroutines end theirs first. */
static void tell_await(struct kc_queue_lane *l)
{
	uint32_t n;
	co_yield_await();
	n = l->untold;
	l->untold = 0;
	kc_queue_told(l->queue, n);
}

/* Release the entry before the part ends, so that the reaping thread finds it free. */
static void part_make_await(struct kc_queue_part *p, struct kc_queue_lane *l)
{
	struct kvc_client *c = l->client;
	struct kc_queue_entry *e = p->entry;
	struct kvc_call call = e->call;
	uint64_t deadline = atomic_load_explicit(&p->deadline_ns, memory_order_relaxed), now = loop_now(c->loop);
	bool late = now >= deadline;
	p->stop = false;
	if (!kc_part_turn(p, e->id, KC_PART_POSTED, KC_PART_STARTED)) {
		kc_entry_unhold(e); /* it was taken back */
		return;
	}
	call.timeout_ns = deadline - now;
	c->hints.begun_ns = e->begun_ns;
	if (!late) /* kc_batch_await gives every item its result */
		(void)kc_batch_await(c, e->op, p->items, p->n, &call, &p->stop);
	c->hints.begun_ns = 0;
	atomic_store(&p->state, kc_part_word(e->id, KC_PART_OVER));
	kc_entry_unhold(e);
	if (kc_part_end_untold(p, late ? -KV_ETIMEOUT : 0) && l->untold++ == 0)
		tell_await(l);
}

static bool in_background(const struct kc_queue_part *p)
{
	return p->entry->call.flags & KVC_BACKGROUND;
}

/* The next part to make, or NULL. Background calls get half of the coroutines. They run when no other part waits, or
 * after KC_PASSED_MAX others. */
static struct kc_queue_part *part_next(struct kc_queue_lane *l)
{
	bool others = !kv_list_empty(&l->waiting);
	bool behind = !kv_list_empty(&l->behind) && l->background < KC_QUEUE_COROUTINES / 2;
	struct kv_list *n = NULL;
	if (behind && (!others || l->passed >= KC_PASSED_MAX)) {
		l->passed = 0;
		n = kv_list_pop(&l->behind);
	} else if (others) {
		l->passed += behind;
		n = kv_list_pop(&l->waiting);
	}
	return n ? KV_LIST_ENTRY(n, struct kc_queue_part, node) : NULL;
}

static void lane_main(void *arg)
{
	struct kc_queue_lane *l = arg;
	struct kvc_client *c = l->client;
	struct kc_queue_part *p;
	while ((p = part_next(l))) {
		unsigned background = in_background(p);
		l->background += background;
		part_make_await(p, l);
		l->background -= background;
	}
	l->coroutines--;
	kc_queue_unhold(l->queue);
	kc_client_unhold(c);
}

static void lane_fail(struct kc_queue_lane *l, int rc)
{
	struct kv_list *n;
	while ((n = kv_list_pop(&l->waiting)) || (n = kv_list_pop(&l->behind))) {
		struct kc_queue_part *p = KV_LIST_ENTRY(n, struct kc_queue_part, node);
		if (kc_part_turn(p, p->entry->id, KC_PART_POSTED, KC_PART_OVER))
			kc_part_end(p, rc);
		kc_entry_unhold(p->entry);
	}
}

static void part_arrive(void *arg)
{
	struct kc_queue_part *p = arg;
	struct kc_queue_lane *l = &p->entry->queue->lane[atomic_load_explicit(&p->lane, memory_order_relaxed)];
	int rc;
	kv_list_add_tail(in_background(p) ? &l->behind : &l->waiting, &p->node);
	if (l->coroutines == KC_QUEUE_COROUTINES)
		return;
	rc = co_spawn(l->client->loop, lane_main, l, "kvc queue");
	if (rc == 0) {
		l->coroutines++;
		kc_queue_hold(l->queue);
		kc_client_hold(l->client);
	} else if (l->coroutines == 0) {
		kc_queue_hold(l->queue);
		lane_fail(l, rc);
		kc_queue_unhold(l->queue);
	}
}

static struct loop *part_loop(const struct kvc_queue *q, const struct kc_queue_part *p)
{
	return q->lane[atomic_load_explicit(&p->lane, memory_order_relaxed)].client->loop;
}

int kc_lane_post(struct kc_queue_part *p)
{
	return loop_post(part_loop(p->entry->queue, p), part_arrive, p);
}

/* The part may be of a later use by now, made by another loop: then this loop does not stop it. */
static void part_stop(void *arg)
{
	struct kc_queue_part *p = arg;
	struct kvc_queue *q = p->entry->queue;
	uint64_t id = atomic_load(&p->stop_id);
	if (atomic_load(&p->state) == kc_part_word(id, KC_PART_STARTED) && part_loop(q, p) == loop_current()) {
		p->stop = true;
		kc_batch_stop(q->lane[atomic_load_explicit(&p->lane, memory_order_relaxed)].client, &p->stop);
	}
	kc_queue_unhold(q);
}

/* A thread may bring an ended id after another thread has stopped a later use. Ids of an entry grow; keep the latest.
 */
static void stop_note(struct kc_queue_part *p, uint64_t id)
{
	uint64_t noted = atomic_load(&p->stop_id);
	while (noted < id && !atomic_compare_exchange_weak(&p->stop_id, &noted, id))
		;
}

int kc_lane_stop(struct kc_queue_part *p, uint64_t id)
{
	struct kvc_queue *q = p->entry->queue;
	int rc;
	stop_note(p, id);
	kc_queue_hold(q);
	rc = loop_post(part_loop(q, p), part_stop, p);
	if (rc < 0)
		kc_queue_unhold(q);
	return rc;
}
