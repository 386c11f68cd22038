/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c -- turn the single loop of a pool without threads: a host in kvc_poll, or one thread at a time in a blocking
 * call. A thread that finds it turning sleeps a moment and retries. Turns are short: the awaited event may have
 * happened just before the turn, and nothing would end it. */
#include "kvclient/core/block.h"

#include <time.h>

#include "loop/loop.h"

#define MOMENT_NS 1000000ull

bool kc_drive(struct kvc_pool *pool, uint64_t *wait_ns)
{
	if (!pool->turned)
		return false;
	*wait_ns = KV_MIN(*wait_ns, MOMENT_NS);
	return loop_turn(pool->loop[0], *wait_ns) >= 0;
}

void kc_post_surely(struct kvc_pool *pool, struct loop *loop, void (*fn)(void *arg), void *arg)
{
	while (loop_post(loop, fn, arg) < 0)
		kc_drive_nap(pool);
}

void kc_drive_nap(struct kvc_pool *pool)
{
	uint64_t wait_ns = MOMENT_NS;
	const struct timespec pause = {.tv_nsec = (long)wait_ns};
	if (!kc_drive(pool, &wait_ns))
		nanosleep(&pause, NULL);
}
