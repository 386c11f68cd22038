/* SPDX-License-Identifier: Apache-2.0 */
/* client.c -- calls and coroutines a closing client waits for; and functions that need the thread's own stack. */
#include "kvclient/core/client.h"

struct main_call {
	struct loop_timer timer;
	void (*fn)(void *arg);
	void *arg;
	struct co *co;
	bool done;
};

static void main_fire(struct loop_timer *t)
{
	struct main_call *m = KV_CONTAINER(t, struct main_call, timer);
	m->fn(m->arg);
	m->done = true;
	co_wake(m->co);
}

void kc_main_await(struct kvc_client *c, void (*fn)(void *arg), void *arg)
{
	struct main_call m = {.timer.fire = main_fire, .fn = fn, .arg = arg, .co = co_self()};
	loop_timer_arm(c->loop, &m.timer, loop_turn_now(c->loop));
	while (!m.done)
		co_park_await(KV_NEVER);
}

void kc_client_hold(struct kvc_client *c)
{
	c->calls++;
}

void kc_client_unhold(struct kvc_client *c)
{
	KV_ASSERT_HOT(c->calls > 0);
	if (--c->calls == 0 && c->life.closer)
		co_wake(c->life.closer);
}

void kc_client_began(struct kvc_client *c)
{
	c->life.coroutines++;
}

void kc_client_ended(struct kvc_client *c)
{
	KV_ASSERT(c->life.coroutines > 0);
	c->life.coroutines--;
	if (c->life.closer)
		co_wake(c->life.closer);
}
