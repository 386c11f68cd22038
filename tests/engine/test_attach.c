/* SPDX-License-Identifier: Apache-2.0 */
/* test_attach.c -- engines on a loop: pollers with and without wait fds, and bells of peers on this host. */
#include "tests/engine/node.h"

#include <pthread.h>

#include "loop/loop.h"
#include "tests/engine/ends.h"

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

/* ---- local peers ---- */

static struct ends ends;

static void both_local(void)
{
	ends_open(&ends);
	assert_int_equal(te_peer_local(ab, ends.client), 0);
	assert_int_equal(te_peer_local(ba, ends.server), 0);
}

static void send_large(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 300; i++) {
		struct te_msg *m = msg_wait();
		memset(m->data, (int)i, KV_MSG_MAX);
		m->len = KV_MSG_MAX;
		m->sent = NULL;
		te_msg_send(a.te, ab, i % te_peer_links(ab), m, KV_NEVER);
	}
	while (te_busy(a.te) || b.locals < 300)
		co_sleep_await(in_ms(1));
	finished = true;
}

static void a_full_ring_is_emptied_on_a_loop(void **state)
{
	loop_open(*state, NULL);
	both_local();
	run(send_large);
	assert_int_equal(b.locals, 300);
	assert_int_equal(b.messages, 0);
	loop_close();
	ends_close(&ends);
}

/* Another peer comes and goes, whose bell is still open at its side, while messages flow. */
static void come_and_go(void *arg)
{
	struct ends other;
	(void)arg;
	for (unsigned i = 0; i < 20; i++) {
		uint64_t before = b.locals;
		struct te_peer *p = node_peer(&a, &b);
		ends_open(&other);
		if (te_peer_local(p, other.server))
			abort();
		struct te_msg *m = msg_wait();
		m->len = 8;
		te_msg_send(a.te, ab, 0, m, KV_NEVER);
		while (b.locals == before)
			co_sleep_await(in_ms(1));
		if (i % 2)
			te_peer_local_end(p);
		else
			te_peer_close(&p);
		local_channel_close(&other.server);
		if (local_send(other.client, "frame", 5))
			abort();
		co_sleep_await(in_ms(1));
		ends_close(&other);
		te_peer_close(&p);
	}
	finished = true;
}

static void local_peers_come_and_go(void **state)
{
	loop_open(*state, NULL);
	both_local();
	run(come_and_go);
	assert_int_equal(b.locals, 20);
	loop_close();
	ends_close(&ends);
}

/* Two threads with a loop each, which sleep in between. */
enum { ROUNDS = 200 };

static struct {
	struct loop *loop;
	struct co *asker;
	uint64_t shortest_ns;
} echo;

static void answer(struct node *node, struct te_peer *p, const uint8_t *data, size_t len)
{
	struct te_msg *m = te_msg_acquire(node->te);
	if (!m || data[0] == 0) {
		loop_stop(echo.loop);
		return;
	}
	memcpy(m->data, data, len);
	m->len = (uint32_t)len;
	te_msg_send(node->te, p, 0, m, KV_NEVER);
}

static void answered(struct node *node, struct te_peer *p, const uint8_t *data, size_t len)
{
	(void)node;
	(void)p;
	(void)data;
	(void)len;
	co_wake(echo.asker);
}

static void ask(uint8_t what)
{
	struct te_msg *m = msg_wait();
	m->data[0] = what;
	m->len = 1;
	te_msg_send(a.te, ab, 0, m, KV_NEVER);
}

static void ask_many(void *arg)
{
	(void)arg;
	echo.asker = co_self();
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t before = a.locals, since = loop_now(loop);
		ask(1);
		while (a.locals == before)
			(void)co_park_await(KV_NEVER);
		echo.shortest_ns = KV_MIN(echo.shortest_ns, loop_now(loop) - since);
	}
	ask(0);
	finished = true;
}

static void *echo_main(void *arg)
{
	(void)arg;
	(void)loop_run(echo.loop);
	return NULL;
}

/* Without bells both loops look every 10 ms only: no question would be answered in less. */
static void a_local_message_wakes_a_sleeping_loop(void **state)
{
	struct loop_options lo = {.name = "echo"};
	struct te_info info;
	pthread_t thread;
	loop_open(*state, NULL);
	both_local();
	te_detach(b.te);
	assert_int_equal(loop_create(&lo, &echo.loop, NULL), 0);
	assert_int_equal(te_attach(b.te, echo.loop), 0);
	echo.shortest_ns = UINT64_MAX;
	a.on_local = answered;
	b.on_local = answer;
	assert_int_equal(pthread_create(&thread, NULL, echo_main, NULL), 0);
	run(ask_many);
	pthread_join(thread, NULL);
	te_info(a.te, &info);
	if (info.wait_fd)
		assert_in_range(echo.shortest_ns, 0, 5000000);
	loop_close();
	loop_destroy(&echo.loop);
	ends_close(&ends);
}

static const struct node_case cases[] = {
	{"messages flow through few buffers", messages_flow_through_few_buffers, NULL},
	{"several rails share one fd", several_rails_share_one_fd, NULL},
	{"a rebuilt endpoint is waited for", a_rebuilt_endpoint_is_waited_for, NULL},
	{"an idle engine lets the loop sleep", an_idle_engine_lets_the_loop_sleep, NULL},
	{"a full ring is emptied on a loop", a_full_ring_is_emptied_on_a_loop, NULL},
	{"local peers come and go", local_peers_come_and_go, NULL},
	{"a local message wakes a sleeping loop", a_local_message_wakes_a_sleeping_loop, NULL},
};

int main(void)
{
	test_env();
	return node_cases_run("attach", cases, KV_COUNT(cases));
}
