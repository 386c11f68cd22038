/* SPDX-License-Identifier: Apache-2.0 */
/* coro.h -- coroutines, for the other files of loop/. */
#ifndef KVRAIL_LOOP_CORO_H
#define KVRAIL_LOOP_CORO_H

#include "loop/loop.h"
#include "loop/stack.h"

struct co_sched {
	struct kv_list ready; /* co.node, in order of execution */
	struct kv_list all;   /* co.live */
	struct co *running;
	void *host; /* the loop's context while a coroutine runs */
	struct stack_pool stacks;
	uint32_t count, peak;
	/* For the sanitizers: the loop's own stack and fiber. */
	void *host_fake, *host_fiber;
	const void *host_low;
	size_t host_bytes;
};

int co_sched_init(struct co_sched *sched, uint32_t stack_bytes, uint32_t max, struct kv_error *err);
/* co_sched_fini -- drop parked coroutines without running them. */
void co_sched_fini(struct co_sched *sched);

/* co_run_ready -- run each ready coroutine once, until it parks or ends. Returns how many. */
int co_run_ready(struct co_sched *sched);

/* co_block_await -- park until co_unblock or the deadline: 0 or -KV_ETIMEOUT. co_wake does not end it. Only from a
 * coroutine. */
int co_block_await(struct co *co, uint64_t deadline_ns);
void co_unblock(struct co *co); /* harmless if it is not blocked */

const char *co_name(const struct co *co);

/* io.c's part of a coroutine. */
struct co_io {
	void *wait;       /* its current request */
	bool interrupted; /* io_interrupt */
};
struct co_io *co_io(struct co *co);

#endif
