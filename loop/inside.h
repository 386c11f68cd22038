/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h -- struct loop, for the files of loop/. */
#ifndef KVRAIL_LOOP_INSIDE_H
#define KVRAIL_LOOP_INSIDE_H

#include <stdatomic.h>

#include "loop/coro.h"
#include "loop/loop.h"
#include "loop/poller.h"
#include "loop/post.h"
#include "loop/ring.h"
#include "loop/spin.h"
#include "loop/timer.h"

enum { LOOP_NAME_MAX = 16 };

struct loop {
	char name[LOOP_NAME_MAX];
	const struct kv_log *log;
	const struct kv_clock *clock;
	const struct kv_entropy *entropy;
	struct kv_prng prng;
	struct ring *ring;
	struct timer_heap timers;
	struct poller_set pollers;
	struct co_sched cos;
	struct post_queue posts;

	uint64_t now_ns;
	struct spin spin;
	bool spun; /* the last rest was a spin without an event */
	uint64_t sleeps, spins, posted;
	bool strange; /* logged: a thread turns the loop without owning it */
	_Atomic uint64_t turns;
	atomic_bool stop;
	atomic_bool turning; /* refuses a second turn at the same time */
};

/* current_at -- this thread's pointer to its current loop. Only for a turn, which sets and restores it: a turn stays on
 * its thread, its coroutines may not. */
struct loop **current_at(void);

#endif
