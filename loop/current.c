/* SPDX-License-Identifier: Apache-2.0 */
/* current.c -- the loop whose turn runs on this thread, and its time.
 *
 * The thread-local pointer is set during a turn only, so several loops can share a thread (the simulation).
 * loop_current is never inlined: a compiler may keep the address of a thread-local over a call, and with host_turned a
 * coroutine may resume on another thread. */
#include "loop/inside.h"

static _Thread_local struct loop *current;

__attribute__((noinline)) struct loop *loop_current(void)
{
	return current;
}

__attribute__((noinline)) struct loop **current_at(void)
{
	return &current;
}

uint64_t loop_now(const struct loop *loop)
{
	return kv_clock_now(loop->clock);
}

uint64_t loop_turn_now(const struct loop *loop)
{
	return loop->now_ns;
}

void loop_timer_arm(struct loop *loop, struct loop_timer *t, uint64_t when_ns)
{
	timer_arm(&loop->timers, t, KV_MAX(when_ns, loop->now_ns));
}

void loop_timer_cancel(struct loop *loop, struct loop_timer *t)
{
	timer_cancel(&loop->timers, t);
}
