/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c -- turn the loop of a pool that has no thread of its own.
 *
 * Such a pool has one loop, which one thread at a time may turn: a host in kvc_poll, or a thread that waits in a call
 * that blocks. A thread that finds it turning sleeps for a moment and tries again, since the other one may leave after
 * any turn.
 *
 * A turn here is short. What this thread waits for may have been done by another one just before the turn began, and
 * then nothing would end it early. */
#include "kvclient/core/drive.h"

#include <time.h>

#include "loop/loop.h"

#define MOMENT_NS 1000000ull

bool kvc_drive(struct kvc_pool *pool, uint64_t *wait_ns)
{
	if (!pool->turned)
		return false;
	*wait_ns = KV_MIN(*wait_ns, MOMENT_NS);
	return loop_turn(pool->loop[0], *wait_ns) >= 0;
}

void kvc_drive_nap(struct kvc_pool *pool)
{
	uint64_t wait_ns = MOMENT_NS;
	const struct timespec pause = {.tv_nsec = (long)wait_ns};
	if (!kvc_drive(pool, &wait_ns))
		nanosleep(&pause, NULL);
}
