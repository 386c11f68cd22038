/* SPDX-License-Identifier: Apache-2.0 */
/* coro.c -- coroutines: spawn, the ready list, park and wake, queues.
 *
 * States: READY (in sched->ready) -> RUNNING -> BLOCKED (in no list, or in a co_queue) -> READY ..., or RUNNING ->
 * DEAD. `node` is in at most one list.
 *
 * co_unblock ends a co_block_await, for timers, queues and requests. co_wake ends co_park_await, or is remembered,
 * once. A wake between the deadline and the coroutine's turn wins over the timeout. struct co lies at the top of its
 * own stack: one page per parked coroutine. The loop frees a dead one's stack after the switch. */
#include "loop/coro.h"

#include "loop/inside.h"
#include "loop/sanitize.h"
#include "loop/switch.h"

enum co_state { CO_READY, CO_RUNNING, CO_BLOCKED, CO_DEAD };

struct co {
	void *context; /* valid while it does not run */
	struct loop *loop;
	void (*fn)(void *arg);
	void *arg;
	const char *name;
	struct kv_list node, live;
	struct loop_timer timer; /* of the current co_block_await */
	struct stack stack;
	enum co_state state;
	bool timed_out;
	bool parked;       /* blocked in co_park_await */
	bool wake_pending; /* a co_wake outside of co_park_await */
	const void *mark;  /* co_set_mark */
	struct co_io io;
#if KV_ASAN
	void *fake;
#endif
#if KV_TSAN
	void *fiber;
#endif
};

/* ---- the switch, and its reports to sanitizers ---- */

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

/* Now on the coroutine's stack. Another thread may turn the loop now, so the bounds of the host's stack are read anew.
 */
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
	KV_ASSERT_HOT(co == co_self() && co->state == CO_RUNNING);
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
	KV_ASSERT_HOT(co->state != CO_DEAD);
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
