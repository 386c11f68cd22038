/* SPDX-License-Identifier: Apache-2.0 */
/* coro.c -- coroutines: spawn, the ready list, park and wake, queues.
 *
 * States: READY (in sched->ready) -> RUNNING -> BLOCKED (in no list, or in a co_queue) -> READY ..., or RUNNING ->
 * DEAD. A coroutine is in one list at a time through `node`. Waking only moves it to the ready list. It runs when its
 * turn comes, so the code that wakes it finds nothing changed afterwards.
 *
 * There are two ways to wake. co_unblock ends a co_block_await; code that knows what the coroutine waits for calls it
 * (timers, queues, completed requests). co_wake is for all other code and ends only co_park_await; at any other moment
 * it is remembered, once, for the next park. A wake that arrives after the deadline fired but before the coroutine ran
 * wins over the timeout, so it is not lost.
 *
 * struct co lies at the top of its own stack, in the page that the first frames touch anyway: a parked coroutine with
 * shallow frames costs one page. The price is that an overflow of another kind, writing above one's frames, can hit it.
 *
 * The loop gives a dead coroutine's stack back after the switch, since the coroutine cannot free the stack that it runs
 * on. */
#include "loop/coro.h"

#include "loop/inside.h"
#include "loop/sanitize.h"
#include "loop/switch.h"

enum co_state { CO_READY, CO_RUNNING, CO_BLOCKED, CO_DEAD };

struct co {
	void *context; /* its context while it does not run */
	struct loop *loop;
	void (*fn)(void *arg);
	void *arg;
	const char *name;
	struct kv_list node, live;
	struct loop_timer timer; /* of the present co_block_await */
	struct stack stack;
	enum co_state state;
	bool timed_out;
	bool parked;       /* the present block is a co_park_await */
	bool wake_pending; /* a co_wake that came outside of one */
	const void *mark;  /* co_set_mark */
	struct co_io io;
#if KV_ASAN
	void *fake;
#endif
#if KV_TSAN
	void *fiber;
#endif
};

/* ---- the switch, and what the sanitizers must be told about it ---- */

static void enter(struct co_sched *sched, struct co *co)
{
#if KV_ASAN
	__sanitizer_start_switch_fiber(&sched->host_fake, co->stack.low, (size_t)(co->stack.top - co->stack.low));
#endif
#if KV_TSAN
	sched->host_fiber = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(co->fiber, 0);
#endif
	switch_to(&sched->host, co->context);
#if KV_ASAN
	__sanitizer_finish_switch_fiber(sched->host_fake, NULL, NULL);
#endif
}

/* We arrive on the coroutine's stack. The bounds of the host's stack are read each time, since another thread may turn
 * the loop now. */
static void arrive(struct co *co)
{
#if KV_ASAN
	struct co_sched *sched = &co->loop->cos;
	__sanitizer_finish_switch_fiber(co->state == CO_DEAD ? NULL : co->fake, &sched->host_low, &sched->host_bytes);
#endif
	(void)co;
}

static void leave(struct co *co)
{
	struct co_sched *sched = &co->loop->cos;
#if KV_ASAN
	__sanitizer_start_switch_fiber(co->state == CO_DEAD ? NULL : &co->fake, sched->host_low, sched->host_bytes);
#endif
#if KV_TSAN
	__tsan_switch_to_fiber(sched->host_fiber, 0);
#endif
	switch_to(&co->context, sched->host);
	arrive(co);
}

static void co_main(void *arg)
{
	struct co *co = arg;
	arrive(co);
	co->fn(co->arg);
	co->state = CO_DEAD;
	leave(co);
	__builtin_unreachable();
}

/* ---- birth and death ---- */

int co_sched_init(struct co_sched *sched, uint32_t stack_bytes, uint32_t max, struct kv_error *err)
{
	*sched = (struct co_sched){0};
	kv_list_init(&sched->ready);
	kv_list_init(&sched->all);
	return stack_pool_init(&sched->stacks, stack_bytes, max, STACK_GUARD_MADVISE, err);
}

static void bury(struct co_sched *sched, struct co *co)
{
#if KV_TSAN
	__tsan_destroy_fiber(co->fiber);
#endif
	kv_list_del(&co->live);
	sched->count--;
	stack_put(&sched->stacks, co->stack.slot);
}

void co_sched_fini(struct co_sched *sched)
{
	if (!sched->stacks.base)
		return;
	KV_LIST_EACH_SAFE (n, &sched->all)
		bury(sched, KV_LIST_ENTRY(n, struct co, live));
	stack_pool_fini(&sched->stacks);
}

static void time_out(struct loop_timer *t)
{
	struct co *co = KV_CONTAINER(t, struct co, timer);
	co->timed_out = co->state == CO_BLOCKED;
	co_unblock(co);
}

int co_spawn(struct loop *loop, void (*fn)(void *arg), void *arg, const char *name)
{
	struct co_sched *sched = &loop->cos;
	struct stack stack;
	int rc = stack_get(&sched->stacks, &stack);
	if (rc < 0)
		return rc;
	struct co *co = (struct co *)kv_align_down((uintptr_t)(stack.top - sizeof(struct co)), KV_CACHELINE);
	*co = (struct co){.loop = loop, .fn = fn, .arg = arg, .name = name, .stack = stack, .state = CO_READY};
	co->timer.fire = time_out;
	co->context = switch_make(co, co_main, co);
	if (!co->context) {
		stack_put(&sched->stacks, stack.slot);
		return -KV_ENOMEM;
	}
#if KV_TSAN
	co->fiber = __tsan_create_fiber(0);
	__tsan_set_fiber_name(co->fiber, name);
#endif
	kv_list_add_tail(&sched->all, &co->live);
	kv_list_add_tail(&sched->ready, &co->node);
	sched->count++;
	sched->peak = KV_MAX(sched->peak, sched->count);
	return 0;
}

/* ---- running ---- */

static void run(struct co_sched *sched, struct co *co)
{
	co->state = CO_RUNNING;
	sched->running = co;
	enter(sched, co);
	sched->running = NULL;
	if (co->state == CO_DEAD)
		bury(sched, co);
}

int co_run_ready(struct co_sched *sched)
{
	struct kv_list batch;
	struct kv_list *node;
	int ran = 0;
	kv_list_init(&batch);
	kv_list_splice_tail(&batch, &sched->ready);
	for (; (node = kv_list_pop(&batch)); ran++)
		run(sched, KV_LIST_ENTRY(node, struct co, node));
	return ran;
}

struct co *co_self(void)
{
	struct loop *loop = loop_current();
	return loop ? loop->cos.running : NULL;
}

void co_set_mark(const void *mark)
{
	struct co *co = co_self();
	if (co)
		co->mark = mark;
}

const void *co_mark(void)
{
	const struct co *co = co_self();
	return co ? co->mark : NULL;
}

const char *co_name(const struct co *co)
{
	return co->name;
}

struct co_io *co_io(struct co *co)
{
	return &co->io;
}

/* ---- blocking ---- */

int co_block_await(struct co *co, uint64_t deadline_ns)
{
	co->state = CO_BLOCKED;
	co->timed_out = false;
	if (deadline_ns != KV_NEVER)
		loop_timer_arm(co->loop, &co->timer, deadline_ns);
	leave(co);
	loop_timer_cancel(co->loop, &co->timer);
	return co->timed_out ? -KV_ETIMEOUT : 0;
}

void co_unblock(struct co *co)
{
	if (co->state != CO_BLOCKED)
		return;
	co->state = CO_READY;
	kv_list_del(&co->node);
	kv_list_add_tail(&co->loop->cos.ready, &co->node);
}

int co_park_await(uint64_t deadline_ns)
{
	struct co *co = co_self();
	int rc = 0;
	if (!co)
		return -KV_EINVAL;
	if (!co->wake_pending) {
		co->parked = true;
		rc = co_block_await(co, deadline_ns);
		co->parked = false;
	}
	co->wake_pending = false;
	return rc;
}

void co_wake(struct co *co)
{
	if (!co->parked) {
		co->wake_pending = true;
		return;
	}
	co->timed_out = false;
	co_unblock(co);
}

int co_yield_await(void)
{
	struct co *co = co_self();
	if (!co)
		return -KV_EINVAL;
	co->state = CO_READY;
	kv_list_add_tail(&co->loop->cos.ready, &co->node);
	leave(co);
	return 0;
}

int co_sleep_await(uint64_t deadline_ns)
{
	struct co *co = co_self();
	if (!co)
		return -KV_EINVAL;
	co_block_await(co, deadline_ns);
	return 0;
}

/* ---- queues ---- */

void co_queue_init(struct co_queue *q)
{
	kv_list_init(&q->waiting);
}

int co_queue_wait_await(struct co_queue *q, uint64_t deadline_ns)
{
	struct co *co = co_self();
	if (!co)
		return -KV_EINVAL;
	kv_list_add_tail(&q->waiting, &co->node);
	return co_block_await(co, deadline_ns);
}

bool co_queue_wake_one(struct co_queue *q)
{
	if (kv_list_empty(&q->waiting))
		return false;
	co_unblock(KV_LIST_ENTRY(q->waiting.next, struct co, node));
	return true;
}

void co_queue_wake_all(struct co_queue *q)
{
	while (co_queue_wake_one(q))
		continue;
}

bool co_queue_empty(const struct co_queue *q)
{
	return kv_list_empty(&q->waiting);
}
