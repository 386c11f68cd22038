/* SPDX-License-Identifier: Apache-2.0 */
/* timer.h -- the timers of one loop. Internal to loop/. */
#ifndef KVRAIL_LOOP_TIMER_H
#define KVRAIL_LOOP_TIMER_H

#include "loop/loop.h"

struct timer_heap {
	struct loop_timer *root; /* the next one to fire */
	uintptr_t armed;         /* how many were ever armed: the tie-break of equal times */
};

void timer_arm(struct timer_heap *heap, struct loop_timer *t, uint64_t when_ns);
void timer_cancel(struct timer_heap *heap, struct loop_timer *t);
uint64_t timer_next_ns(const struct timer_heap *heap); /* KV_NEVER when none is armed */

/* timer_expire -- fire the timers that are due at now_ns, in order of time and then of arming; one that is armed
 * meanwhile waits for the next call. Timers must not be armed for before the now_ns of an earlier call. Returns how
 * many fired. */
int timer_expire(struct timer_heap *heap, uint64_t now_ns);

#endif
