/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c -- allow one handshake computation in GATE_TURNS turns of a loop, so that strangers cannot delay a server's
 * other work.
 *
 * A handshake's signature takes milliseconds (RSA-4096), a thousand of them take seconds, and heartbeats leave on the
 * same loop. All coroutines that are ready run in one turn. Without a gate, a thousand handshakes whose bytes have come
 * make one turn of seconds, and after two seconds a client takes its server for dead. With the gate a turn has one of
 * them at most. In between the loop reads its sockets, fires its timers and runs everything else. So a heartbeat is
 * late by one step at most, and the key and the groups that tls.c allows bound a step.
 *
 * Why not every turn: the loop accepts one connection per turn, and a newcomer needs some turns to reach the gate. If
 * each turn took the time of a signature, it would wait in the kernel's backlog behind all earlier ones. A turn without
 * a computation costs microseconds, and nobody waits for turns when nobody has computed.
 *
 * `held` false: nobody waits, and a comer goes through, if need be after a yield to the next turn. `held` true: one
 * coroutine has come and waits for its turn. When it goes through, it hands the gate to the next one, which yields
 * until its turn.
 *
 * The order. A thousand waiting handshakes of RSA-4096 are five seconds, which is all the time an honest newcomer has.
 * So sources (addresses) take turns, however many handshakes of each wait: start-time fair queueing. A comer's tag is
 * one more than the larger of two tags: that of its source's last comer, and that of the last one let through. The
 * lowest tag goes first. So a source's first comer waits for one step of each other source. A table of GATE_SOURCES
 * keeps the last tags. Two sources of one place overwrite each other's, which favours them by as much as one more
 * address would.
 *
 * First steps and later steps alternate, too. An honest client needs two steps, and its second one would otherwise wait
 * behind all first ones. If second steps always went first, clients that drip bytes could starve newcomers.
 *
 * Rejected: a thread of its own for everything before WELCOME. Connections would change loops with timers and I/O armed
 * on them, the bookkeeping of places would need locks, and where there are few cores the kernel would share them out in
 * slices of milliseconds, as the gate does. A budget of time per turn: it lets several short steps through, which saves
 * microseconds, and cannot be tested without a clock. */
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

/* Insert behind all with the same or a lower tag. The search begins at the nearer end: many comers of one source are at
 * one end, and the first one of another source at the other. */
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

/* Start the next comer, or open the gate if there is none. */
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
	g->held = true; /* also when the gate was handed to us */
	while (loop_turns(loop) < g->next)
		co_yield_await();
	g->next = loop_turns(loop) + GATE_TURNS;
	g->begun_last = comer->begun;
	g->passed++;
	gate_hand_on(g);
	return 0;
}
