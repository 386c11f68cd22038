/* SPDX-License-Identifier: Apache-2.0 */
/* timer.h -- the timers of one loop. Internal to loop/. */
#ifndef KVRAIL_LOOP_TIMER_H
#define KVRAIL_LOOP_TIMER_H

#include "loop/loop.h"

struct timer_heap {
	struct loop_timer *root; /* the next one to fire */
	uintptr_t armed;         /* armings so far: the tie-break */
};

void timer_arm(struct timer_heap *heap, struct loop_timer *t, uint64_t when_ns);
void timer_cancel(struct timer_heap *heap, struct loop_timer *t);
uint64_t timer_next_ns(const struct timer_heap *heap); /* KV_NEVER when none is armed */

/* timer_expire -- fire due timers in order of time, then arming; timers armed meanwhile wait for the next call. No
 * timer may be armed for before an earlier call's now_ns. Returns how many fired. */
int timer_expire(struct timer_heap *heap, uint64_t now_ns);

#endif
