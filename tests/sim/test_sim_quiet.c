/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_quiet.c -- heartbeats of a server that thousands of clients are attached to, under virtual time: it says
 * little to those that do not ask, and those with calls under way notice its end as soon as of any other server.
 *
 * One client is real. The server is told that it has thousands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "kvclient/conn/node.h"
#include "kvclient/conn/private.h"
#include "kvclient/core/client.h"
#include "kvclient/pool/hosted.h"
#include "kvserver/conn/conn.h"
#include "tests/sim/world.h"

enum { CROWD = 5000 };

#define QUIET   (10 * SECOND)
#define SILENCE (2 * SECOND)
#define VALUE   4096

static struct world world;
static uint64_t stop_ns;

static struct kc_node *node(void)
{
	return &kc_pool_client(world.pool[0].pool, 0)->node[0];
}

static struct kvs_server *server(void)
{
	return world.server[0].server;
}

/* Heartbeats that the server has sent on all of its connections. */
static uint64_t beats(void)
{
	uint64_t sum = 0;
	KV_LIST_EACH (n, &server()->clients.conns)
		sum += KV_LIST_ENTRY(n, struct conn, node)->beats.count;
	return sum;
}

static void value_put(struct kvc_client *c, void *arg)
{
	static const uint8_t value[VALUE];
	(void)arg;
	if (kvc_put_await(c, (struct kvc_key){"key", 3}, value, VALUE, NULL) != 0)
		world_wrong(&world, "the value could not be stored");
}

static void open_crowded(uint64_t seed, unsigned crowd)
{
	const struct world_options o = {.seed = seed, .clients = 1};
	world_open(&world, &o);
	world_do(&world, 0, value_put, NULL);
	server()->clients.count += crowd;
	world_sleep(&world, 2 * QUIET + kv_prng_below(&world.prng, QUIET));
}

static void close_crowded(unsigned crowd)
{
	world_server_freeze(&world, 0, false);
	server()->clients.count -= crowd;
	world_sleep(&world, 3 * SECOND);
	world_close(&world);
}

static void get(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 60 * SECOND};
	uint8_t memory[VALUE];
	(void)arg;
	(void)kvc_get_await(c, (struct kvc_key){"key", 3}, memory, VALUE, &call);
}

static void get_without_end(struct kvc_client *c, void *arg)
{
	while (world_now(&world) < stop_ns) {
		get(c, arg);
		co_sleep_await(world_now(&world) + 10 * MS);
	}
}

/* How long the node stays up from now on. */
static uint64_t up_for(void)
{
	uint64_t begun = world_now(&world);
	while (node()->state == KC_NODE_UP && world_now(&world) - begun < 60 * SECOND)
		world_sleep(&world, MS);
	return world_now(&world) - begun;
}

/* ---- what is said ---- */

static void a_server_of_thousands_says_little_and_an_idle_client_nothing(void **state)
{
	uint64_t before;
	(void)state;
	open_crowded(1, CROWD);
	assert_int_equal(node()->own->pulse.quiet_ns, QUIET);
	before = beats();
	world_sleep(&world, 6 * QUIET);
	assert_in_range(beats() - before, 5, 7);
	assert_int_equal(node()->own->pulse.sequence, 0);
	close_crowded(CROWD);
}

static void a_server_of_few_sends_a_heartbeat_each_half_second(void **state)
{
	uint64_t before;
	(void)state;
	open_crowded(2, 0);
	before = beats();
	world_sleep(&world, 10 * SECOND);
	assert_in_range(beats() - before, 18, 21);
	assert_int_equal(node()->own->pulse.quiet_ns, 500 * MS);
	close_crowded(0);
}

/* Whole tenths of a second are no reason to send one at once. */
static void heartbeats_that_follow_quickly_are_none_the_quicker_for_a_crowd(void **state)
{
	const struct world_options o = {.seed = 5, .clients = 1, .heartbeat_ms = 20};
	uint64_t before;
	(void)state;
	world_open(&world, &o);
	for (unsigned crowd = 1; crowd < 100; crowd += 7) {
		server()->clients.count += crowd;
		world_sleep(&world, SECOND);
		before = beats();
		world_sleep(&world, 10 * SECOND);
		assert_in_range(beats() - before, 40, 501);
		server()->clients.count -= crowd;
	}
	world_close(&world);
}

/* Calls that are answered at once need no question. */
static void a_busy_client_asks_nothing_either(void **state)
{
	(void)state;
	open_crowded(3, CROWD);
	stop_ns = world_now(&world) + 20 * SECOND;
	for (unsigned i = 0; i < 4; i++)
		world_worker(&world, 0, 0, get_without_end, NULL);
	world_join(&world, 30 * SECOND);
	assert_int_equal(node()->own->pulse.sequence, 0);
	close_crowded(CROWD);
}

static void view_tell(uint64_t epoch)
{
	struct kv_view v = {.source = 1, .epoch = epoch};
	struct kv_member m = {.weight = (uint32_t)epoch, .state = KV_MEMBER_UP};
	snprintf(m.node_id, sizeof(m.node_id), "node-0");
	snprintf(m.address, sizeof(m.address), "127.0.0.1:%u", world.server[0].port);
	assert_int_equal(kv_view_add(&v, &m), 0);
	assert_int_equal(kvs_server_view_set(server(), &v), 0);
	kv_view_fini(&v);
}

static uint64_t epoch_known(void)
{
	return kc_pool_client(world.pool[0].pool, 0)->cluster.view.epoch;
}

/* Who else should tell of them? */
static void news_of_a_small_cluster_do_not_wait_for_a_heartbeat(void **state)
{
	(void)state;
	open_crowded(4, CROWD);
	view_tell(1);
	for (uint64_t epoch = 2; epoch < 10; epoch++) {
		world_sleep(&world, QUIET + kv_prng_below(&world.prng, QUIET));
		assert_int_equal(epoch_known(), epoch - 1);
		view_tell(epoch);
		world_sleep(&world, 600 * MS);
		assert_int_equal(epoch_known(), epoch);
	}
	close_crowded(CROWD);
}

/* ---- who notices its end, and when ---- */

static void a_call_notices_within_two_seconds(void **state)
{
	(void)state;
	for (uint64_t seed = 10; seed < 10 + world_seeds(20); seed++) {
		open_crowded(seed, CROWD);
		world_server_freeze(&world, 0, true);
		world_sleep(&world, kv_prng_below(&world.prng, SECOND));
		assert_int_equal(node()->state, KC_NODE_UP);
		world_worker(&world, 0, 0, get, NULL);
		assert_true(up_for() <= SILENCE + 2 * MS);
		assert_int_equal(node()->state, KC_NODE_DOWN);
		world_join(&world, SECOND);
		close_crowded(CROWD);
	}
}

static void a_busy_client_notices_within_two_seconds_and_not_at_once(void **state)
{
	(void)state;
	for (uint64_t seed = 40; seed < 40 + world_seeds(20); seed++) {
		open_crowded(seed, CROWD);
		stop_ns = world_now(&world) + 3 * SECOND;
		for (unsigned i = 0; i < 4; i++)
			world_worker(&world, 0, 0, get_without_end, NULL);
		world_sleep(&world, SECOND + kv_prng_below(&world.prng, SECOND));
		world_server_freeze(&world, 0, true);
		/* Its last answers are on their way, and the next call begins 10 ms after them. */
		assert_in_range(up_for(), SILENCE - 500 * MS, SILENCE + 20 * MS);
		world_join(&world, 5 * SECOND);
		close_crowded(CROWD);
	}
}

/* What waits need not be a request. */
static void a_region_that_is_announced_notices_within_two_seconds(void **state)
{
	static uint8_t memory[8192];
	struct kvc_mem *mem = NULL;
	uint64_t begun;
	(void)state;
	open_crowded(70, CROWD);
	world_server_freeze(&world, 0, true);
	begun = world_now(&world);
	assert_int_equal(world_register(&world, 0, memory, sizeof(memory), &mem), 0);
	(void)up_for();
	assert_true(world_now(&world) - begun <= SILENCE + 2 * MS);
	assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
	close_crowded(CROWD);
}

static void an_idle_client_notices_after_the_time_that_it_was_told(void **state)
{
	(void)state;
	for (uint64_t seed = 80; seed < 80 + world_seeds(8); seed++) {
		open_crowded(seed, CROWD);
		world_server_freeze(&world, 0, true);
		assert_in_range(up_for(), SILENCE - 500 * MS, QUIET + SILENCE);
		close_crowded(CROWD);
	}
}

/* ---- who must not be blamed ---- */

/* The shards stand still, and the control loop answers each question. */
static void a_slow_call_is_no_end(void **state)
{
	(void)state;
	open_crowded(100, CROWD);
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		sim_loop_freeze(world.server[0].loop[1 + i], true);
	world_worker(&world, 0, 0, get, NULL);
	world_sleep(&world, 3 * SECOND);
	assert_in_range(node()->own->pulse.sequence, 4, 7);
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		sim_loop_freeze(world.server[0].loop[1 + i], false);
	world_join(&world, SECOND);
	assert_int_equal(world_counters(&world, 0).reattaches, 0);
	close_crowded(CROWD);
}

static void a_client_that_was_stopped_under_a_call_blames_nobody(void **state)
{
	(void)state;
	for (uint64_t seed = 110; seed < 110 + world_seeds(20); seed++) {
		open_crowded(seed, CROWD);
		stop_ns = world_now(&world) + 60 * SECOND;
		world_worker(&world, 0, 0, get_without_end, NULL);
		world_sleep(&world, kv_prng_below(&world.prng, SECOND));
		sim_loop_freeze(world.pool[0].loop[0], true);
		world_sleep(&world, 30 * SECOND);
		sim_loop_freeze(world.pool[0].loop[0], false);
		world_join(&world, 60 * SECOND);
		assert_int_equal(world_counters(&world, 0).reattaches, 0);
		close_crowded(CROWD);
	}
}

/* A heartbeat of a reader that works says that the next one is near. While it waits for the connection the reader ends
 * its work: the next one is near all the same. */
static void what_a_heartbeat_has_told_is_kept(void **state)
{
	struct sim_net *net;
	uint64_t before;
	struct conn *c;
	size_t window;
	(void)state;
	open_crowded(140, CROWD);
	net = sim_world_net(world.sim);
	window = net->window_bytes;
	c = KV_LIST_ENTRY(server()->clients.conns.next, struct conn, node);
	before = c->beats.count;
	net->window_bytes = 0;
	conn_busy(c, true);
	world_sleep(&world, 600 * MS);
	assert_int_equal(c->beats.count, before + 1);
	conn_busy(c, false);
	net->window_bytes = window;
	world_sleep(&world, 3 * QUIET);
	assert_int_equal(node()->own->pulse.quiet_ns, QUIET);
	assert_int_equal(node()->own->pulse.sequence, 0); /* none was overdue */
	assert_int_equal(world_counters(&world, 0).reattaches, 0);
	close_crowded(CROWD);
}

static bool links_pinged(void *arg)
{
	const struct kc_attachment *s = node()->attachment;
	(void)arg;
	return node()->state != KC_NODE_UP && s && s->link[0].probe.req && s->link[0].probe.req->state != KC_REQ_DONE;
}

/* The heartbeat that the client reads while it waits for its links is the last for a long time. */
static void a_heartbeat_that_comes_while_links_are_pinged_counts(void **state)
{
	(void)state;
	open_crowded(141, CROWD);
	kc_node_redo(node(), "the test wants it");
	world_run(&world, links_pinged, NULL, SECOND, "a ping of links");
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		sim_loop_freeze(world.server[0].loop[1 + i], true);
	world_sleep(&world, 1500 * MS);
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		sim_loop_freeze(world.server[0].loop[1 + i], false);
	world_sleep(&world, 3 * QUIET);
	assert_int_equal(node()->state, KC_NODE_UP);
	assert_int_equal(node()->attaches, 2);
	assert_int_equal(node()->own->pulse.sequence, 0); /* none was overdue */
	close_crowded(CROWD);
}

/* Each side has its own idea of when it is due. */
static void a_heartbeat_that_is_overdue_is_asked_for(void **state)
{
	struct conn *c;
	(void)state;
	open_crowded(142, CROWD);
	c = KV_LIST_ENTRY(server()->clients.conns.next, struct conn, node);
	for (unsigned asked = 1; asked <= 3; asked++) {
		loop_timer_cancel(server()->control, &c->beats.timer);
		world_sleep(&world, QUIET + SILENCE);
		assert_int_equal(node()->state, KC_NODE_UP);
		assert_int_equal(node()->own->pulse.sequence, asked);
	}
	assert_int_equal(node()->attaches, 1);
	close_crowded(CROWD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_of_thousands_says_little_and_an_idle_client_nothing),
		cmocka_unit_test(a_server_of_few_sends_a_heartbeat_each_half_second),
		cmocka_unit_test(heartbeats_that_follow_quickly_are_none_the_quicker_for_a_crowd),
		cmocka_unit_test(a_busy_client_asks_nothing_either),
		cmocka_unit_test(news_of_a_small_cluster_do_not_wait_for_a_heartbeat),
		cmocka_unit_test(a_call_notices_within_two_seconds),
		cmocka_unit_test(a_busy_client_notices_within_two_seconds_and_not_at_once),
		cmocka_unit_test(a_region_that_is_announced_notices_within_two_seconds),
		cmocka_unit_test(an_idle_client_notices_after_the_time_that_it_was_told),
		cmocka_unit_test(a_slow_call_is_no_end),
		cmocka_unit_test(a_client_that_was_stopped_under_a_call_blames_nobody),
		cmocka_unit_test(what_a_heartbeat_has_told_is_kept),
		cmocka_unit_test(a_heartbeat_that_comes_while_links_are_pinged_counts),
		cmocka_unit_test(a_heartbeat_that_is_overdue_is_asked_for),
	};
	return cmocka_run_group_tests_name("sim/quiet", tests, NULL, NULL);
}
