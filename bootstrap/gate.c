/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c -- one computation in GATE_TURNS turns of a loop, so that what strangers make a server compute delays nobody
 * else.
 *
 * A handshake's signature takes milliseconds (RSA-4096), a thousand of them seconds, and heartbeats leave on the same
 * loop. All coroutines that are ready run in one turn; without a gate a thousand handshakes whose bytes have come are
 * one turn of seconds, and after two a client takes its server for dead. With it a turn has one of them at most. In
 * between the loop reads its sockets, fires its timers and runs everything else: a heartbeat is late by one step, and a
 * step is bounded by the key and the groups that tls.c allows.
 *
 * Why not every turn: a turn accepts one connection, and a newcomer needs some turns until it stands at the gate. When
 * each of them takes the time of a signature, it waits in the kernel's backlog behind all who came before. A turn
 * without a computation costs microseconds, and nobody waits for turns when nobody has computed.
 *
 * held: false, nobody waits and whoever comes goes through, if need be after a yield to the next turn. true, one
 * coroutine is between its coming and its turn; when it goes through it hands the gate to the next one, which yields
 * until its turn.
 *
 * Whose turn it is. A thousand waiting handshakes of RSA-4096 are five seconds, which is all that an honest newcomer
 * has. So sources (addresses) take turns, whatever number each has waiting: start-time fair queueing. A comer's tag is
 * one more than that of its source's last one, or than that of whoever was let through last if this is more; the lowest
 * tag goes first. A source's first comer thus waits for one step of each other source. Last tags stand in a table of
 * GATE_SOURCES; two sources of one place forget each other's, which favours them by as much as one more address would.
 * And those that go on alternate with those that begin: an honest client needs two steps, and its second one would wait
 * behind all who have only begun. Serving second ones always first would let those starve the others who drip bytes.
 *
 * Rejected: a thread of its own for all that comes before WELCOME. Connections would change loops with what is armed on
 * them, the bookkeeping of places would need locks, and where there are few cores the kernel would share them out in
 * slices of milliseconds, as the gate does. Rejected, too: a budget of time per turn. It lets several short steps
 * through, which saves microseconds, and cannot be tested without a clock. */
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

/* Behind all whose tag is not higher, looked for from the end that is nearer: many of one source are at one end, and
 * the first one of another at the other. */
static void queue_add(struct gate_queue *q, struct waiter *w)
{
	struct kv_list *first = q->waiting.next, *last = q->waiting.prev;
	if (kv_list_empty(&q->waiting) || tag_of(last) <= w->tag) {
		kv_list_add_tail(&q->waiting, &w->node);
		return;
	}
	/* The last one's tag is higher, so both searches end. */
	if (w->tag < tag_of(first) || w->tag - tag_of(first) < tag_of(last) - w->tag) {
		while (tag_of(first) <= w->tag)
			first = first->next;
		kv_list_add_tail(first, &w->node); /* before it */
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

/* The next one is on its way, or nobody is. */
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
	g->held = true; /* also when it was handed on to us */
	while (loop_turns(loop) < g->next)
		co_yield_await();
	g->next = loop_turns(loop) + GATE_TURNS;
	g->begun_last = comer->begun;
	g->passed++;
	gate_hand_on(g);
	return 0;
}
