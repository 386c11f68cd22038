/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_sim.c -- the simulated ring: two loops, virtual time, virtual TCP, trouble on request, and exact replay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/ring_sim.h"

#define US     1000ull
#define MS     1000000ull
#define SECOND 1000000000ull
enum { BYTES = 300000 };

static struct sim_world *world;
static struct loop *loops[2]; /* client, server */
static struct sockaddr_storage address;
static int listen_fd, client_fd, server_fd;
static uint8_t sent[BYTES], got[BYTES];
static size_t got_bytes;
static int64_t client_result, server_result;
static uint64_t client_ns;

static uint64_t seed(void)
{
	static uint64_t value;
	if (!value)
		value = kv_seed_from_env("KVRAIL_SEED");
	return value;
}

static void open_world(uint64_t with_seed)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&address;
	world = sim_world_create(with_seed);
	for (int i = 0; i < 2; i++) {
		struct loop_options o = {
			.name = i ? "server" : "client", .entropy = sim_world_entropy(world), .seed = with_seed + 1};
		assert_int_equal(loop_create(&o, &loops[i], NULL), 0);
	}
	memset(&address, 0, sizeof(address));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(io_listen(loops[1], &address, sizeof(*in), &listen_fd, NULL), 0);
	client_fd = server_fd = -1;
	got_bytes = 0;
	client_result = server_result = -1;
	kv_prng_fill(sim_world_prng(world), sent, sizeof(sent));
}

static void close_world(void)
{
	loop_destroy(&loops[0]);
	loop_destroy(&loops[1]);
	sim_world_destroy(&world);
}

static int set_up(void **state)
{
	(void)state;
	open_world(seed());
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close_world();
	return 0;
}

static uint64_t coroutines(void)
{
	uint64_t count = 0;
	for (int i = 0; i < 2; i++) {
		struct loop_stats stats;
		loop_stats(loops[i], &stats);
		count += stats.coroutines;
	}
	return count;
}

static bool all_ended(void *arg)
{
	(void)arg;
	return coroutines() == 0;
}

static void run_to_the_end(void)
{
	assert_true(sim_run(world, loops, 2, all_ended, NULL, sim_world_now(world) + 1000 * SECOND));
}

static void run_for(uint64_t ns)
{
	sim_run(world, loops, 2, NULL, NULL, sim_world_now(world) + ns);
}

static void spawn(int loop, void (*fn)(void *arg))
{
	assert_int_equal(co_spawn(loops[loop], fn, NULL, "test"), 0);
}

static void send_all(void *arg)
{
	(void)arg;
	client_result = io_connect_await(&address, sizeof(struct sockaddr_in), &client_fd, KV_NEVER);
	if (client_result == 0)
		client_result = io_write_all_await(client_fd, sent, sizeof(sent), KV_NEVER);
	client_ns = sim_world_now(world);
	io_shutdown(loops[0], client_fd);
}

static void receive_all(void *arg)
{
	(void)arg;
	server_result = io_accept_await(listen_fd, &server_fd, NULL, KV_NEVER);
	for (ssize_t n = 1; server_result == 0 && n > 0; got_bytes += n > 0 ? (size_t)n : 0) {
		n = io_read_await(server_fd, got + got_bytes, sizeof(got) - got_bytes, KV_NEVER);
		server_result = n < 0 ? n : 0;
		if (got_bytes + (n > 0 ? (size_t)n : 0) == sizeof(got))
			n = 0;
	}
}

static void bytes_arrive_whole_and_in_order(void **state)
{
	(void)state;
	spawn(0, send_all);
	spawn(1, receive_all);
	run_to_the_end();
	assert_int_equal(client_result, 0);
	assert_int_equal(server_result, 0);
	assert_memory_equal(got, sent, sizeof(sent));
}

static uint64_t trace_of(uint64_t with_seed)
{
	open_world(with_seed);
	spawn(0, send_all);
	spawn(1, receive_all);
	run_to_the_end();
	uint64_t trace = sim_world_trace(world);
	close_world();
	return trace;
}

static void a_seed_replays_and_another_does_not(void **state)
{
	(void)state;
	assert_true(trace_of(seed()) == trace_of(seed()));
	assert_true(trace_of(seed()) != trace_of(seed() + 1));
}

static void sleep_an_hour(void *arg)
{
	(void)arg;
	client_ns = loop_now(loop_current());
	client_result = co_sleep_await(client_ns + 3600 * SECOND);
	client_ns = loop_now(loop_current()) - client_ns;
}

static void time_jumps_to_the_next_timer(void **state)
{
	struct loop_stats stats;
	(void)state;
	spawn(0, sleep_an_hour);
	assert_true(sim_run(world, loops, 2, all_ended, NULL, KV_NEVER));
	assert_int_equal(client_ns, 3600 * SECOND);
	loop_stats(loops[0], &stats);
	assert_in_range(stats.turns, 2, 4);
}

static void a_world_with_nothing_to_do_stands_still(void **state)
{
	uint64_t now = sim_world_now(world);
	(void)state;
	assert_true(sim_run(world, loops, 2, NULL, NULL, KV_NEVER));
	assert_int_equal(sim_world_now(world), now);
	run_for(5 * MS);
	assert_int_equal(sim_world_now(world), now);
}

static int order[3], ordered;

static void note(void *arg)
{
	order[ordered++] = (int)(intptr_t)arg;
}

static void events_run_by_time_then_by_call(void **state)
{
	uint64_t now = sim_world_now(world);
	(void)state;
	ordered = 0;
	sim_world_at(world, now + 2 * MS, note, (void *)2);
	sim_world_at(world, now + MS, note, (void *)0);
	sim_world_at(world, now + MS, note, (void *)1);
	assert_true(sim_world_step(world, KV_NEVER));
	assert_int_equal(ordered, 2);
	assert_int_equal(sim_world_now(world), now + MS);
	assert_false(sim_world_step(world, now + MS + 1));
	assert_int_equal(sim_world_now(world), now + MS + 1);
	assert_true(sim_world_step(world, KV_NEVER));
	assert_int_equal(ordered, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(order[i], i);
}

static void read_with_deadline(void *arg)
{
	char c;
	uint64_t deadline = sim_world_now(world) + 7 * MS;
	(void)arg;
	io_connect_await(&address, sizeof(struct sockaddr_in), &client_fd, KV_NEVER);
	client_result = io_read_await(client_fd, &c, 1, deadline);
	client_ns = sim_world_now(world) - deadline;
}

static void a_timeout_is_exact(void **state)
{
	(void)state;
	spawn(0, read_with_deadline);
	run_to_the_end();
	assert_int_equal(client_result, -KV_ETIMEOUT);
	assert_int_equal(client_ns, 0);
}

static void connect_to_nobody(void *arg)
{
	struct sockaddr_storage nobody = address;
	(void)arg;
	((struct sockaddr_in *)&nobody)->sin_port = htons(1);
	client_result = io_connect_await(&nobody, sizeof(struct sockaddr_in), &client_fd, KV_NEVER);
}

static void connect_to_nobody_is_refused(void **state)
{
	(void)state;
	spawn(0, connect_to_nobody);
	run_to_the_end();
	assert_int_equal(client_result, -ECONNREFUSED);
}

static void connect_only(void *arg)
{
	(void)arg;
	client_result = io_connect_await(&address, sizeof(struct sockaddr_in), &client_fd, KV_NEVER);
}

static void read_one(void *arg)
{
	char c;
	(void)arg;
	io_accept_await(listen_fd, &server_fd, NULL, KV_NEVER);
	io_user_timeout(loops[1], server_fd, 500);
	server_result = io_read_await(server_fd, &c, 1, KV_NEVER);
}

static void a_killed_connection_breaks_at_both_ends(void **state)
{
	char c;
	(void)state;
	(void)c;
	spawn(0, connect_only);
	spawn(1, read_one);
	run_for(10 * MS);
	assert_int_equal(coroutines(), 1);
	sim_sock_kill(world, client_fd);
	run_to_the_end();
	assert_int_equal(server_result, -ECONNRESET);
}

static void a_cut_delays_and_the_user_timeout_ends_it(void **state)
{
	uint16_t port = ntohs(((struct sockaddr_in *)&address)->sin_port);
	(void)state;
	spawn(0, connect_only);
	spawn(1, read_one);
	run_for(10 * MS);
	assert_int_equal(sim_port_cut(world, port, true), 1);
	run_for(499 * MS);
	assert_int_equal(coroutines(), 1);
	run_for(2 * MS);
	assert_int_equal(coroutines(), 0);
	assert_int_equal(server_result, -ETIMEDOUT);
}

static void a_mended_cut_loses_nothing(void **state)
{
	uint16_t port = ntohs(((struct sockaddr_in *)&address)->sin_port);
	(void)state;
	sim_port_cut(world, port, true);
	spawn(0, send_all);
	spawn(1, receive_all);
	run_for(100 * MS);
	assert_int_equal(client_fd, -1); /* even the connect hangs */
	sim_port_cut(world, port, false);
	run_for(MS);
	assert_true(client_fd >= 0);
	sim_sock_cut(world, client_fd, true);
	run_for(100 * MS);
	sim_sock_cut(world, client_fd, false);
	run_to_the_end();
	assert_int_equal(server_result, 0);
	assert_memory_equal(got, sent, sizeof(sent));
}

static void close_listener(void *arg)
{
	(void)arg;
	co_sleep_await(sim_world_now(world) + MS);
	io_close(loops[1], listen_fd);
}

static void accept_one(void *arg)
{
	(void)arg;
	server_result = io_accept_await(listen_fd, &server_fd, NULL, KV_NEVER);
}

static void close_ends_an_accept(void **state)
{
	(void)state;
	spawn(1, accept_one);
	spawn(1, close_listener);
	run_to_the_end();
	assert_int_equal(server_result, -KV_ECLOSED);
}

/* ---- a poller with a virtual descriptor, as a simulated completion queue has it ---- */

struct queue {
	struct loop_poller poller;
	int pending, handled, polls;
};

static int queue_poll(struct loop_poller *p)
{
	struct queue *q = KV_CONTAINER(p, struct queue, poller);
	int n = q->pending;
	q->polls++;
	q->handled += n;
	q->pending = 0;
	sim_flag_set(world, p->wait_fd, false);
	return n;
}

static int queue_arm(struct loop_poller *p)
{
	return KV_CONTAINER(p, struct queue, poller)->pending ? -EAGAIN : 0;
}

static void queue_event(void *arg)
{
	struct queue *q = arg;
	q->pending++;
	sim_flag_set(world, q->poller.wait_fd, true);
}

static bool queue_handled(void *arg)
{
	return ((struct queue *)arg)->handled == 1;
}

static void a_poller_is_woken_at_the_instant_of_its_event(void **state)
{
	struct queue q = {.poller = {.poll = queue_poll, .arm = queue_arm}};
	uint64_t when = sim_world_now(world) + 3 * MS + 7;
	(void)state;
	q.poller.wait_fd = sim_flag_open(world);
	assert_int_equal(loop_poller_add(loops[0], &q.poller), 0);
	sim_world_at(world, when, queue_event, &q);
	assert_true(sim_run(world, loops, 2, queue_handled, &q, when + SECOND));
	assert_int_equal(sim_world_now(world), when);
	assert_in_range(q.polls, 2, 5);
	loop_poller_del(loops[0], &q.poller);
	loop_turn(loops[0], 0);
}

static int queue_refuse(struct loop_poller *p)
{
	(void)p;
	return -EAGAIN;
}

static void a_poller_that_always_refuses_the_sleep_does_not_stop_time(void **state)
{
	struct queue q = {.poller = {.poll = queue_poll, .arm = queue_refuse}};
	uint64_t when = sim_world_now(world) + 100 * US;
	(void)state;
	q.poller.wait_fd = sim_flag_open(world);
	assert_int_equal(loop_poller_add(loops[0], &q.poller), 0);
	loop_turn(loops[0], SECOND); /* the first refusal is believed at once */
	sim_world_at(world, when, queue_event, &q);
	for (int i = 0; i < 200 && q.handled == 0; i++) {
		loop_turn(loops[0], SECOND);
		assert_true(sim_world_step(world, when));
	}
	assert_int_equal(sim_world_now(world), when);
	assert_int_equal(q.polls, 2 + 2 * 100 + 1); /* twice per idle turn, once per microsecond */
	loop_poller_del(loops[0], &q.poller);
}

static void a_spinning_loop_moves_time(void **state)
{
	struct queue q = {.poller = {.poll = queue_poll, .wait_fd = -1}};
	uint64_t when = sim_world_now(world) + 40 * US;
	struct loop_stats stats;
	(void)state;
	loop_set_spin(loops[0], 50 * US);
	assert_int_equal(loop_poller_add(loops[0], &q.poller), 0);
	sim_world_at(world, when, queue_event, &q);
	assert_true(sim_run(world, loops, 2, queue_handled, &q, when + SECOND));
	loop_stats(loops[0], &stats);
	assert_int_equal(stats.spins, 42); /* one per microsecond, one at the event, and one after it */
	assert_int_equal(stats.sleeps, 0);
	run_for(100 * MS);
	loop_stats(loops[0], &stats);
	assert_int_equal(stats.spins, 92);       /* run_for begins with a turn at the same instant */
	assert_in_range(stats.sleeps, 100, 110); /* 50 us doubling to 1 ms, then every 1 ms */
	loop_poller_del(loops[0], &q.poller);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_arrive_whole_and_in_order, set_up, tear_down),
		cmocka_unit_test(a_seed_replays_and_another_does_not),
		cmocka_unit_test_setup_teardown(time_jumps_to_the_next_timer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_world_with_nothing_to_do_stands_still, set_up, tear_down),
		cmocka_unit_test_setup_teardown(events_run_by_time_then_by_call, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_timeout_is_exact, set_up, tear_down),
		cmocka_unit_test_setup_teardown(connect_to_nobody_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_killed_connection_breaks_at_both_ends, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_cut_delays_and_the_user_timeout_ends_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_mended_cut_loses_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(close_ends_an_accept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_poller_is_woken_at_the_instant_of_its_event, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_poller_that_always_refuses_the_sleep_does_not_stop_time, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_spinning_loop_moves_time, set_up, tear_down),
	};
	printf("KVRAIL_SEED=0x%llx\n", (unsigned long long)seed());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
