/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c -- one handshake computation in GATE_TURNS turns of a loop, so that strangers cannot delay a server: a
 * signature takes milliseconds, and all ready coroutines run in one turn.
 *
 * `held` false: the next comer passes, maybe after a yield. `held` true: one coroutine waits for its turn, then passes
 * the gate on.
 *
 * Sources (addresses) take turns by start-time fair queueing: a comer's tag is one more than the larger tag of its
 * source's last comer and the last comer let through; the lowest tag is next. A table of GATE_SOURCES keeps last tags;
 * sources in one place share it. First and later steps alternate: an honest client needs two steps, and clients that
 * send byte by byte must not starve newcomers. */
#include "bootstrap/gate.h"

struct waiter {
	struct kv_list node;
	struct co *co;
	uint64_t tag;
	bool granted;
};

static void queue_init(struct gate_queue *q)
{
	*q = (struct gate_queue){.tag = 0};
	kv_list_init(&q->waiting);
}

void gate_init(struct gate *g)
{
	*g = (struct gate){.next = 0};
	queue_init(&g->fresh);
	queue_init(&g->begun);
}

/* Fibonacci hashing. */
static unsigned slot_of(uint64_t source)
{
	return (unsigned)((source * 0x9E3779B97F4A7C15ull) >> 56) % GATE_SOURCES;
}

static uint64_t tag_take(struct gate_queue *q, uint64_t source)
{
	unsigned at = slot_of(source);
	uint64_t last = q->last[at].source == source ? q->last[at].tag : 0;
	q->last[at].source = source;
	q->last[at].tag = KV_MAX(last, q->tag) + 1;
	return q->last[at].tag;
}

static uint64_t tag_of(const struct kv_list *node)
{
	return KV_LIST_ENTRY(node, struct waiter, node)->tag;
}

/* Insert behind all with the same or a lower tag, from the nearer end: comers of one source are at one end. */
static void queue_add(struct gate_queue *q, struct waiter *w)
{
	struct kv_list *first = q->waiting.next, *last = q->waiting.prev;
	if (kv_list_empty(&q->waiting) || tag_of(last) <= w->tag) {
		kv_list_add_tail(&q->waiting, &w->node);
		return;
	}
	/* The last comer's tag is higher, so both searches end. */
	if (w->tag < tag_of(first) || w->tag - tag_of(first) < tag_of(last) - w->tag) {
		while (tag_of(first) <= w->tag)
			first = first->next;
		kv_list_add_tail(first, &w->node); /* inserts before it */
		return;
	}
	while (last != &q->waiting && tag_of(last) > w->tag)
		last = last->prev;
	kv_list_add_head(last, &w->node);
}

static bool queue_grant(struct gate_queue *q)
{
	if (kv_list_empty(&q->waiting))
		return false;
	struct waiter *w = KV_LIST_ENTRY(q->waiting.next, struct waiter, node);
	kv_list_del(&w->node);
	q->tag = KV_MAX(q->tag, w->tag);
	w->granted = true;
	co_wake(w->co);
	return true;
}

static int queue_wait_await(struct gate_queue *q, const struct gate_comer *comer)
{
	struct waiter w = {.co = co_self(), .tag = tag_take(q, comer->source)};
	queue_add(q, &w);
	int rc = co_park_await(comer->deadline_ns);
	if (w.granted)
		return 0;
	kv_list_del(&w.node);
	return rc ? rc : -KV_ECANCELED;
}

static void gate_hand_on(struct gate *g)
{
	struct gate_queue *first = g->begun_last ? &g->fresh : &g->begun,
			  *second = g->begun_last ? &g->begun : &g->fresh;
	g->held = queue_grant(first) || queue_grant(second);
}

int gate_pass_await(struct gate *g, struct loop *loop, const struct gate_comer *comer)
{
	int rc = g->held ? queue_wait_await(comer->begun ? &g->begun : &g->fresh, comer) : 0;
	if (rc)
		return rc;
	g->held = true; /* also when it was passed on */
	while (loop_turns(loop) < g->next)
		co_yield_await();
	g->next = loop_turns(loop) + GATE_TURNS;
	g->begun_last = comer->begun;
	g->passed++;
	gate_hand_on(g);
	return 0;
}
