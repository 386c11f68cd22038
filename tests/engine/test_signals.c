/* SPDX-License-Identifier: Apache-2.0 */
/* test_signals.c -- signals of completion queues behind a door (engine/door/signal.c): none is written while an
 * engine is polled, and none that would wake a sleeper is lost. An engine `sleeps` here when its fab let it: its
 * descriptor alone must tell of what comes next. Waits have no meaning but that they end. */
#include "tests/engine/node.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/fabric/fabric.h"
#include "engine/door/private.h"
#include "engine/fabric/private.h"
#include "engine/fence.h"
#include "engine/inside.h"
#include "engine/rail.h"

static const char *over;

/* ---- signals one by one ---- */

struct bare {
	struct door *door;
	struct watched *signal;
	int fd[2];
};

static void bare_open(struct bare *b)
{
	const char *why = "";
	if (door_create(GUARD_RXM, false, 4096, NULL, &b->door, &why))
		fail_msg("door_create: %s", why);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b->fd), 0);
	door_signals_begin(b->door);
	door_signal_made(b->fd);
	door_signals_end();
	b->signal = door_watch_find(b->fd[1]);
	assert_non_null(b->signal);
	assert_ptr_equal(door_watch_find(b->fd[0]), b->signal);
}

static void bare_close(struct bare *b)
{
	for (unsigned i = 0; i < 2; i++) {
		door_lock();
		door_signal_close(b->signal, b->fd[i]);
		door_unlock();
		assert_null(door_watch_find(b->fd[i]));
		close(b->fd[i]);
	}
	door_release(&b->door);
}

static unsigned bytes_in(const struct bare *b)
{
	char bytes[8];
	ssize_t n = recv(b->fd[0], bytes, sizeof(bytes), MSG_DONTWAIT);
	return n < 0 ? 0 : (unsigned)n;
}

static void pairs_that_others_make_are_left_alone(void **state)
{
	int fd[2];
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	door_signal_made(fd);
	assert_null(door_watch_find(fd[0]));
	close(fd[0]);
	close(fd[1]);
}

static void what_is_owed_is_read_without_the_kernel(void **state)
{
	struct bare b;
	(void)state;
	bare_open(&b);
	assert_false(door_signal_keep(b.signal, b.fd[1])); /* nobody has polled yet */
	door_poll(b.door);
	assert_false(door_signal_take(b.signal));
	assert_true(door_signal_keep(b.signal, b.fd[1]));
	assert_true(door_signal_keep(b.signal, b.fd[1]));
	assert_true(door_signal_take(b.signal));
	assert_false(door_signal_take(b.signal));
	door_rest(b.door);
	door_rested(b.door);
	assert_int_equal(bytes_in(&b), 0);
	assert_false(door_signal_keep(b.signal, b.fd[1]));
	bare_close(&b);
}

static void what_is_owed_is_written_before_a_rest(void **state)
{
	struct bare b;
	(void)state;
	bare_open(&b);
	for (unsigned i = 0; i < 3; i++) {
		door_poll(b.door);
		assert_true(door_signal_keep(b.signal, b.fd[1]));
		assert_int_equal(bytes_in(&b), 0);
		door_rest(b.door);
		door_rested(b.door);
		assert_int_equal(bytes_in(&b), 1);
		assert_false(door_signal_take(b.signal));
	}
	bare_close(&b);
}

static void what_is_owed_is_written_when_the_endpoint_goes(void **state)
{
	struct bare b;
	(void)state;
	bare_open(&b);
	door_poll(b.door);
	assert_true(door_signal_keep(b.signal, b.fd[1]));
	door_shut(b.door);
	assert_int_equal(bytes_in(&b), 1);
	assert_false(door_signal_keep(b.signal, b.fd[1]));
	bare_close(&b);
}

static void descriptors_that_were_closed_elsewhere_are_taken_over(void **state)
{
	struct bare b;
	(void)state;
	bare_open(&b);
	door_poll(b.door);
	assert_true(door_signal_keep(b.signal, b.fd[1]));
	door_signals_begin(b.door);
	door_signal_made(b.fd); /* the same numbers again */
	door_signals_end();
	b.signal = door_watch_find(b.fd[0]);
	assert_non_null(b.signal);
	assert_int_equal(atomic_load(&b.door->owed), 0);
	assert_false(door_signal_take(b.signal));
	bare_close(&b);
}

/* Another thread signals, as a provider's own does, while this one goes to rest: without any lock between them, which
 * libfabric has. */
static struct {
	struct bare b;
	atomic_uint asked, items;
} race;

static void *race_signal(void *arg)
{
	(void)arg;
	for (unsigned i = 1;; i++) {
		unsigned n;
		while ((n = atomic_load(&race.asked)) < i)
			sched_yield();
		if (n == UINT_MAX)
			return NULL;
		for (volatile unsigned idle = 0; idle < i % 64; idle++)
			;
		atomic_store(&race.items, i);
		if (!door_signal_keep(race.b.signal, race.b.fd[1]))
			assert_int_equal(syscall(SYS_write, race.b.fd[1], "", 1), 1);
	}
}

static void no_signal_is_lost_on_the_way_to_a_rest(void **state)
{
	enum { ROUNDS = 20000 };
	struct pollfd fd = {.events = POLLIN};
	pthread_t thread;
	(void)state;
	memset(&race, 0, sizeof(race));
	bare_open(&race.b);
	fd.fd = race.b.fd[0];
	assert_int_equal(pthread_create(&thread, NULL, race_signal, NULL), 0);
	for (unsigned i = 1; i <= ROUNDS; i++) {
		door_poll(race.b.door);
		atomic_store(&race.asked, i);
		for (volatile unsigned idle = 0; idle < i / 64 % 64; idle++)
			;
		door_rest(race.b.door);
		bool taken = door_signal_take(race.b.signal);
		if (atomic_load(&race.items) < i) {
			door_rested(race.b.door);
			assert_int_equal(poll(&fd, 1, (int)(WAIT_NS / 1000000)), 1);
			assert_int_equal(atomic_load(&race.items), i);
			assert_false(taken);
		} else if (!taken) { /* it comes yet, one way or the other */
			while (!door_signal_take(race.b.signal) && poll(&fd, 1, 0) == 0)
				sched_yield();
		}
		(void)bytes_in(&race.b);
	}
	atomic_store(&race.asked, UINT_MAX);
	pthread_join(thread, NULL);
	bare_close(&race.b);
}

/* ---- engines ---- */

/* The signals that libfabric had written. */
static atomic_uint written;

static ssize_t count_write(int fd, const void *buf, size_t n)
{
	written += n == 1;
	return syscall(SYS_write, fd, buf, n);
}

struct pair {
	struct node a, b;
	struct te_peer *ab, *ba;
};

static void pair_open(struct pair *p)
{
	struct te_options o = {.door = TE_DOOR_REQUIRE};
	memset(p, 0, sizeof(*p));
	node_open(&p->a, over, &o);
	node_open(&p->b, over, &o);
	p->ab = node_peer(&p->a, &p->b);
	p->ba = node_peer(&p->b, &p->a);
}

static void pair_close(struct pair *p)
{
	te_peer_close(&p->ab);
	te_peer_close(&p->ba);
	node_close(&p->a);
	if (p->b.te)
		node_close(&p->b);
}

static void send_to(struct node *n, struct te_peer *peer, struct result *r)
{
	*r = (struct result){0};
	te_msg_send(n->te, peer, 0, msg_for(n, r, "hello", 5), KV_NEVER);
}

static struct fab *fab_of(const struct node *n)
{
	return n->te->rails[0].fab;
}

/* net has no descriptor to sleep on. */
static bool sleepless(struct pair *p)
{
	if (fab_wait_fd(fab_of(&p->a)) >= 0)
		return false;
	print_message("%s: always polled\n", over);
	pair_close(p);
	return true;
}

/* Poll this engine alone until nothing is left to find and its fab lets it sleep. */
static void falls_asleep(struct node *n)
{
	uint64_t end = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	while (te_poll(n->te) > 0 || fab_arm(fab_of(n)))
		assert_true(kv_clock_now(&kv_clock_monotonic) < end);
	assert_false(atomic_load(&fab_of(n)->door->awake));
	assert_int_equal(atomic_load(&fab_of(n)->door->owed), 0);
}

static bool woken(struct node *n)
{
	struct pollfd fd = {.fd = fab_wait_fd(fab_of(n)), .events = POLLIN};
	return poll(&fd, 1, 0) == 1;
}

/* Poll the other engine alone until the sleeper is woken. */
static void wakes(struct node *other, struct node *sleeper)
{
	uint64_t end = kv_clock_now(&kv_clock_monotonic) + WAIT_NS;
	while (!woken(sleeper)) {
		te_poll(other->te);
		assert_true(kv_clock_now(&kv_clock_monotonic) < end);
	}
}

/* Without the doorkeeper's help libfabric 1.17 writes hundreds here, and 2.1 none. */
static void engines_that_are_polled_write_no_signals(void **state)
{
	enum { ROUNDS = 50 };
	struct pair p;
	struct result r, s;
	(void)state;
	pair_open(&p);
	send_to(&p.a, p.ab, &r);
	WAIT(r.done && p.b.messages == 1);
	door_before.write = count_write;
	written = 0;
	for (unsigned i = 1; i <= ROUNDS; i++) {
		send_to(&p.a, p.ab, &r);
		send_to(&p.b, p.ba, &s);
		WAIT(r.done && s.done && p.b.messages == 1 + i && p.a.messages == i);
	}
	assert_int_equal(written, 0);
	pair_close(&p);
}

/* What the provider did while it posted has no descriptor: its fab must not let it sleep. */
static void who_has_something_to_reap_does_not_sleep(void **state)
{
	struct pair p;
	struct result r;
	(void)state;
	pair_open(&p);
	if (sleepless(&p))
		return;
	send_to(&p.a, p.ab, &r);
	WAIT(r.done && p.b.messages == 1);
	for (unsigned i = 0; i < 8; i++) {
		te_poll(p.a.te);
		send_to(&p.a, p.ab, &r);
		assert_true(r.done || fab_arm(fab_of(&p.a)) || !woken(&p.a));
		WAIT(r.done && p.b.messages == 2 + i);
	}
	pair_close(&p);
}

/* Both sides of a connection that is made, messages, and the end of the peer. */
static void a_sleeper_is_woken_by_whatever_comes(void **state)
{
	struct pair p;
	struct result r;
	(void)state;
	pair_open(&p);
	if (sleepless(&p))
		return;
	falls_asleep(&p.b);
	assert_false(woken(&p.b));
	send_to(&p.a, p.ab, &r);
	wakes(&p.a, &p.b); /* a connects; no event tells it when it has (attach.c) */
	WAIT(r.done && p.b.messages == 1);
	for (unsigned i = 1; i <= 8; i++) {
		node_poll_for(1000000);
		falls_asleep(&p.b);
		send_to(&p.a, p.ab, &r);
		wakes(&p.a, &p.b);
		WAIT(r.done && p.b.messages == 1 + i);
		node_poll_for(1000000);
		falls_asleep(&p.a);
		send_to(&p.b, p.ba, &r);
		wakes(&p.b, &p.a);
		WAIT(r.done && p.a.messages == i);
	}
	node_poll_for(1000000);
	falls_asleep(&p.a);
	te_peer_close(&p.ba);
	node_close(&p.b);
	p.b.te = NULL;
	WAIT(woken(&p.a) || te_poll(p.a.te) < 0);
	pair_close(&p);
}

/* More than sockets hold: the rest goes out when the other side has read. */
static void a_sleeper_is_woken_when_there_is_room_to_send(void **state)
{
	enum { LEN = 64 << 20 };
	struct pair p;
	struct area from, to;
	struct te_xfer x;
	struct result r;
	(void)state;
	pair_open(&p);
	if (sleepless(&p))
		return;
	send_to(&p.a, p.ab, &r);
	WAIT(r.done && p.b.messages == 1);
	area_open(&from, &p.a, LEN, 0, 5);
	area_open(&to, &p.b, LEN, 0, 0);
	xfer_init(&x, &r, TE_WRITE, p.ab, &from, 0, &to, 0, LEN);
	assert_true(te_xfer_start(p.a.te, &x) >= 0);
	while (!r.done) {
		falls_asleep(&p.a);
		if (!r.done)
			wakes(&p.b, &p.a);
	}
	assert_int_equal(r.status, 0);
	WAIT(memcmp(to.base, from.base, LEN) == 0);
	area_close(&from);
	area_close(&to);
	pair_close(&p);
}

/* The queues of the new endpoint have signals of their own. */
static void a_sleeper_is_woken_after_its_endpoint_was_rebuilt(void **state)
{
	struct pair p;
	struct result r;
	struct kv_error err = {0};
	(void)state;
	pair_open(&p);
	if (sleepless(&p))
		return;
	for (unsigned i = 1; i <= 3; i++) {
		send_to(&p.a, p.ab, &r);
		WAIT(r.done && p.b.messages == i);
		if (te_reset(p.a.te, &err))
			fail_msg("te_reset: %s", err.text);
		WAIT(p.a.resets == i);
		node_readdress(p.ba, &p.a);
		node_readdress(p.ab, &p.b);
		falls_asleep(&p.a);
		send_to(&p.b, p.ba, &r);
		while (p.a.messages < i) {
			falls_asleep(&p.a);
			if (p.a.messages < i)
				wakes(&p.b, &p.a);
		}
		WAIT(r.done);
	}
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs_that_others_make_are_left_alone),
		cmocka_unit_test(what_is_owed_is_read_without_the_kernel),
		cmocka_unit_test(what_is_owed_is_written_before_a_rest),
		cmocka_unit_test(what_is_owed_is_written_when_the_endpoint_goes),
		cmocka_unit_test(descriptors_that_were_closed_elsewhere_are_taken_over),
		cmocka_unit_test(no_signal_is_lost_on_the_way_to_a_rest),
		NODE_CASE(engines_that_are_polled_write_no_signals),
		NODE_CASE(who_has_something_to_reap_does_not_sleep),
		NODE_CASE(a_sleeper_is_woken_by_whatever_comes),
		NODE_CASE(a_sleeper_is_woken_when_there_is_room_to_send),
		NODE_CASE(a_sleeper_is_woken_after_its_endpoint_was_rebuilt),
	};
	over = test_provider_speaks_tcp() ? test_provider() : "tcp";
	test_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
