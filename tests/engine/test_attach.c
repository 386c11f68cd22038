/* SPDX-License-Identifier: Apache-2.0 */
/* test_attach.c -- engines on a loop: pollers with and without wait fds. */
#include "tests/engine/node.h"

#include "loop/loop.h"

static struct loop *loop;
static struct node a, b;
static struct te_peer *ab, *ba;
static bool finished;

static void loop_open(const char *provider, struct te_options *o)
{
	struct loop_options lo = {.name = "test"};
	struct kv_error err = {0};
	finished = false;
	if (loop_create(&lo, &loop, &err))
		fail_msg("loop_create: %s", err.text);
	node_open(&a, provider, o);
	node_open(&b, provider, o);
	ab = node_peer(&a, &b);
	ba = node_peer(&b, &a);
	assert_int_equal(te_attach(a.te, loop), 0);
	assert_int_equal(te_attach(b.te, loop), 0);
	assert_int_equal(te_attach(b.te, loop), -KV_EINVAL);
}

static void loop_close(void)
{
	te_detach(a.te);
	te_detach(b.te);
	node_close(&a);
	node_close(&b);
	loop_destroy(&loop);
}

/* Turn the loop until the coroutine says it has finished. */
static void run(void (*fn)(void *))
{
	uint64_t end = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	assert_int_equal(co_spawn(loop, fn, NULL, "test"), 0);
	while (!finished) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < end);
		loop_turn(loop, 10000000);
	}
}

static uint64_t in_ms(uint64_t ms)
{
	return loop_now(loop) + ms * 1000000;
}

/* A coroutine waits for a send buffer. */
static struct te_msg *msg_wait(void)
{
	struct te_msg *m = te_msg_acquire(a.te);
	for (; !m; m = te_msg_acquire(a.te))
		co_sleep_await(in_ms(1));
	return m;
}

static void send_many(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 100; i++) {
		struct te_msg *m = msg_wait();
		memset(m->data, (int)i, 64);
		m->len = 64;
		m->sent = NULL;
		te_msg_send(a.te, ab, i % te_peer_links(ab), m, KV_NEVER);
	}
	while (te_busy(a.te) || b.messages < 100)
		co_sleep_await(in_ms(1));
	finished = true;
}

static void messages_flow_through_few_buffers(void **state)
{
	struct te_options o = {.messages = 2};
	loop_open(*state, &o);
	run(send_many);
	assert_int_equal(b.messages, 100);
	loop_close();
}

static void several_rails_share_one_fd(void **state)
{
	struct te_options o = {.messages = 4, .rails = 3};
	loop_open(*state, &o);
	run(send_many);
	assert_int_equal(b.messages, 100);
	loop_close();
}

static void fence_and_go_on(void *arg)
{
	(void)arg;
	for (unsigned round = 0; round < 3; round++) {
		uint64_t before = b.messages;
		struct te_msg *m = msg_wait();
		m->len = 8;
		te_msg_send(a.te, ab, 0, m, KV_NEVER);
		while (b.messages == before)
			co_sleep_await(in_ms(1));
		unsigned resets = a.resets + b.resets;
		assert_in_range(te_peer_fence(round % 2 ? ba : ab, NULL), 0, 1);
		bool rebuilt = te_reset_due(round % 2 ? b.te : a.te);
		while (a.resets + b.resets < resets + rebuilt)
			co_sleep_await(in_ms(1));
		if (!rebuilt)
			co_sleep_await(in_ms(20));           /* the other side hears that its connection was shut */
		while (te_fencing(a.te) || te_fencing(b.te)) /* EFA closes the old endpoint in its own time */
			co_sleep_await(in_ms(1));
		node_readdress(ba, &a);
		node_readdress(ab, &b);
	}
	finished = true;
}

static void a_rebuilt_endpoint_is_waited_for(void **state)
{
	loop_open(*state, NULL);
	run(fence_and_go_on);
	assert_int_equal(b.messages, 3);
	loop_close();
}

static void idle(void *arg)
{
	(void)arg;
	co_sleep_await(in_ms(100));
	finished = true;
}

static void an_idle_engine_lets_the_loop_sleep(void **state)
{
	struct loop_stats s;
	struct te_info info;
	loop_open(*state, NULL);
	te_info(a.te, &info);
	run(idle);
	loop_stats(loop, &s);
	assert_true(s.sleeps > 0);
	printf("# %s: wait fd %d, %llu turns, %llu sleeps in 100 ms\n", info.provider, info.wait_fd,
	       (unsigned long long)s.turns, (unsigned long long)s.sleeps);
	loop_close();
}

static const struct node_case cases[] = {
	{"messages flow through few buffers", messages_flow_through_few_buffers, NULL},
	{"several rails share one fd", several_rails_share_one_fd, NULL},
	{"a rebuilt endpoint is waited for", a_rebuilt_endpoint_is_waited_for, NULL},
	{"an idle engine lets the loop sleep", an_idle_engine_lets_the_loop_sleep, NULL},
};

int main(void)
{
	test_env();
	return node_cases_run("attach", cases, KV_COUNT(cases));
}
