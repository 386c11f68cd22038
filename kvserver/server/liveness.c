/* SPDX-License-Identifier: Apache-2.0 */
/* liveness.c -- whether the loops of a server turn, for a watchdog and for /healthz.
 *
 * Each loop gets a posted call, and answers by running it. A sleeping loop wakes for it, so an idle server is not dead.
 * The last question must be answered by the next check; a loop that owes an answer is not asked again. */
#include <stdio.h>

#include "kvserver/server/server.h"

static void answer(void *arg)
{
	atomic_store((_Atomic bool *)arg, false);
}

/* False: it owes one, or takes no work. */
static bool ask(struct kvs_server *s, struct liveness *p, unsigned i, uint64_t now_ns)
{
	_Atomic bool *asked = &p->asked[i];
	if (atomic_load(asked))
		return false;
	if (now_ns)
		p->asked_ns[i] = now_ns;
	atomic_store(asked, true);
	if (loop_post(i == 0 ? s->control : s->shard_loop[i - 1], answer, asked) == 0)
		return true;
	atomic_store(asked, false);
	return false; /* its queue is full */
}

static void loop_name(unsigned i, char *out, unsigned cap)
{
	if (i == 0)
		snprintf(out, cap, "the control loop");
	else
		snprintf(out, cap, "worker thread %u", i - 1);
}

bool kvs_server_alive(struct kvs_server *s)
{
	bool all = true;
	if (kvs_server_state(s, NULL) == KVS_STOPPED)
		return true;
	for (unsigned i = 0; i <= s->opt.shards; i++) {
		bool answered = ask(s, &s->alive, i, 0);

		if (!answered && all)
			s->alive.owes = i;
		all = answered && all;
	}
	return all;
}

void kvs_server_stuck_loop(struct kvs_server *s, char *out, unsigned cap)
{
	loop_name(s->alive.owes, out, cap);
}

uint64_t kvs_server_silence_ns(struct kvs_server *s, char *out_loop, unsigned cap)
{
	uint64_t now_ns = kv_now(), longest = 0;
	if (kvs_server_state(s, NULL) != KVS_RUNNING)
		return 0;
	for (unsigned i = 0; i <= s->opt.shards; i++) {
		if (ask(s, &s->health, i, now_ns) || now_ns - s->health.asked_ns[i] <= longest)
			continue;
		longest = now_ns - s->health.asked_ns[i];
		loop_name(i, out_loop, cap);
	}
	return longest;
}
