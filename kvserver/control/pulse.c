/* SPDX-License-Identifier: Apache-2.0 */
/* pulse.c -- whether the loops of a server turn, for a watchdog.
 *
 * Each loop is asked by a call that is posted to it, and answers when it runs the call. A loop that sleeps wakes for
 * it, so an idle server is no dead one. What was asked last time must be answered by now; who has not answered is not
 * asked again. */
#include "kvserver/control/pulse.h"

#include "kvserver/control/server.h"

static void answer(void *arg)
{
	atomic_store((_Atomic bool *)arg, false);
}

bool kvs_server_pulse(struct kvs_server *s)
{
	bool all = true;

	for (unsigned i = 0; i <= s->opt.shards; i++) {
		_Atomic bool *asked = &s->pulse.asked[i];

		if (atomic_load(asked)) {
			all = false;
			continue;
		}
		atomic_store(asked, true);
		if (loop_post(i == 0 ? s->control : s->shard_loop[i - 1], answer, asked) != 0) {
			atomic_store(asked, false);
			all = false; /* its queue is full: it does not take work */
		}
	}
	return all;
}
