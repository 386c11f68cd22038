/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c -- one computation per turn of a loop, so that what strangers make a server compute delays nobody else.
 *
 * A handshake's signature takes milliseconds (RSA-4096), a thousand of them seconds, and heartbeats leave on the same loop.
 * All coroutines that are ready run in one turn; without a gate a thousand handshakes whose bytes have come are one turn of
 * seconds, and after two a client takes its server for dead. With it a turn has one of them at most. In between the loop
 * reads its sockets, fires its timers and runs everything else: a heartbeat is late by one step, and a step is bounded by
 * the key and the groups that tls.c allows. A turn costs microseconds, so nothing is lost when nobody presses.
 *
 * held: false, nobody waits and whoever comes goes through, if need be after a yield to the next turn. true, one coroutine
 * is between its coming and its turn; when it goes through it wakes the next one, which finds this turn used up and yields.
 *
 * Those that go on alternate with those that begin. An honest client needs two steps, and its second one would wait behind
 * all who have only begun. Serving the second ones always first would let those starve the others who drip bytes.
 *
 * Rejected: a thread of its own for all that comes before WELCOME. Connections would change loops with what is armed on
 * them, the bookkeeping of places would need locks, and where there are few cores the kernel would share them out in slices
 * of milliseconds, as the gate does. Rejected, too: a budget of time per turn. It lets several short steps through, which
 * saves microseconds, and cannot be tested without a clock. */
#include "bootstrap/gate.h"

void gate_init(struct gate *g)
{
	*g = (struct gate){.turn = UINT64_MAX};
	co_queue_init(&g->fresh);
	co_queue_init(&g->begun);
}

/* The next one is on its way, or nobody is. */
static void gate_hand_on(struct gate *g)
{
	struct co_queue *first = g->begun_last ? &g->fresh : &g->begun, *second = g->begun_last ? &g->begun : &g->fresh;
	g->held = co_queue_wake_one(first) || co_queue_wake_one(second);
}

int gate_pass_await(struct gate *g, struct loop *loop, bool begun, uint64_t deadline_ns)
{
	int rc = g->held ? co_queue_wait_await(begun ? &g->begun : &g->fresh, deadline_ns) : 0;
	if (rc)
		return rc;
	g->held = true; /* also when it was handed on to us */
	while (loop_turns(loop) == g->turn)
		co_yield_await();
	g->turn = loop_turns(loop);
	g->begun_last = begun;
	g->passed++;
	gate_hand_on(g);
	return 0;
}
