/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_belief.c -- which view a client believes when servers announce different ones, under virtual time.
 *
 * What must hold: more than half of the servers that a client reaches decide, whatever the epochs; no view makes a
 * client leave servers that answer and announce another one; views do not take turns; no call fails because of what one
 * server announces; where a source's numbers begin anew, clients follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "kvclient/transfer/call.h"
#include "tests/sim/belief.h"
#include "tests/sim/churn.h"
#include "tests/sim/members.h"

enum { SERVERS = 3, SPARE = 4, WORKERS = 4, KEYS = MEMBERS_KEYS };

static struct world_options options(uint64_t seed)
{
	return (struct world_options){.seed = seed,
				      .servers = SERVERS,
				      .clients = 2,
				      .timeout_ns = 10 * SECOND,
				      .heartbeat_ms = 100,
				      .peer_timeout_ns = SECOND,
				      .buffer_bytes = 16 << 20,
				      .fabric.delay_max_ns = MS};
}

/* Views are believed after a minute. Calls see the view of that moment, and a few of them a second are enough. */
static void open_with(const struct world_options *wo)
{
	memset(&members, 0, sizeof(members));
	members.pause_ns = SECOND;
	world_open(&members.world, wo);
	for (unsigned i = 0; i < wo->servers; i++)
		members.weight[i] = 1 + i % 3; /* also of the process that takes its place */
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&members.world, 0, i % 2, churn_user, NULL);
}

static void users_end(void)
{
	members.stop = true;
	world_join(&members.world, 20 * SECOND);
	members.stop = false;
}

static void close_world(void)
{
	users_end();
	for (unsigned p = 0; p < members.world.options.pools; p++)
		assert_int_equal(world_counters(&members.world, p).errors, 0);
	world_close(&members.world);
}

static struct kvc_client *client(unsigned pool)
{
	return members.world.pool[pool].pool->client[0];
}

static uint64_t epoch(unsigned pool)
{
	return world_counters(&members.world, pool).view_epoch;
}

static unsigned keys_of(unsigned pool, const char *name)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < KEYS; i++)
		n += strcmp(members_owner_name(client(pool), i), name) == 0;
	return n;
}

/* The server restarts, and has this number then. Its state is the former one's. */
static unsigned again(unsigned server, uint64_t away_ns)
{
	unsigned next;
	world_server_crash(&members.world, server, false);
	world_sleep(&members.world, away_ns);
	next = world_server_again(&members.world, server);
	members.state[next] = members.state[server];
	members.weight[next] = members.weight[server];
	members.state[server] = 0;
	return next;
}

/* One of three servers restarts with a list that names a dead address, and then another one, with the right list. */
static void a_stale_list_on_one_server_costs_nothing(void **state)
{
	struct world_options wo = options(700);
	unsigned stale, pool;
	(void)state;
	open_with(&wo);
	members_all_up(SERVERS);
	stale = again(2, SECOND);
	belief_lie(stale, LIE_DEAD, 1, 900);
	members_settle();
	members_tell_one(again(1, SECOND), 1);
	world_sleep(&members.world, 60 * SECOND);
	assert_int_equal(epoch(0), 1);
	assert_non_null(world_said("event=views_differ"));
	users_end();
	pool = world_pool_open(&members.world);
	assert_int_equal(epoch(pool), 1);
	world_do(&members.world, pool, members_put_all, NULL);
	world_do(&members.world, pool, members_get_all, NULL);
	members_tell_one(stale, 1);
	members_settle();
	assert_non_null(world_said("event=views_agree"));
	close_world();
}

static void servers_without_a_view_are_not_left_for_one_with_a_view(void **state)
{
	struct world_options wo = options(701);
	(void)state;
	open_with(&wo);
	belief_lie(2, LIE_DEAD, 1, 900);
	world_sleep(&members.world, 100 * SECOND);
	assert_int_equal(epoch(0), 0);
	assert_int_equal(epoch(world_pool_open(&members.world)), 0);
	close_world();
}

/* First all others drain, then they are no members. */
static void a_server_that_lies_has_its_share_of_the_keys_and_no_more(void **state)
{
	struct world_options wo = options(702);
	unsigned its, pool;
	(void)state;
	WORLD_LONG();
	open_with(&wo);
	members_all_up(SERVERS);
	its = keys_of(0, "node-2");
	for (enum belief_lie lie = 0; lie < LIES; lie++) {
		belief_lie(2, LIE_DRAINING, 1, 1000 + 2 * lie);
		members_settle();
		assert_int_equal(keys_of(0, "node-2"), its);
		belief_lie(2, lie, 1, 1001 + 2 * lie);
		world_sleep(&members.world, 100 * SECOND);
		assert_int_equal(keys_of(0, "node-2"), its);
	}
	assert_int_equal(epoch(0), 1);
	pool = world_pool_open(&members.world);
	assert_int_equal(keys_of(pool, "node-2"), its);
	close_world();
}

/* All servers are away, and one that lies is there first. */
static void a_server_that_is_there_first_keeps_nobody(void **state)
{
	(void)state;
	for (unsigned away_s = 2; away_s <= 62; away_s += 60) {
		struct world_options wo = options(703);
		unsigned now[SERVERS];
		memset(&members, 0, sizeof(members));
		world_open(&members.world, &wo);
		members_all_up(SERVERS);
		for (unsigned i = 0; i < SERVERS; i++)
			world_server_crash(&members.world, i, false);
		world_sleep(&members.world, away_s * SECOND);
		for (unsigned i = 0; i < SERVERS; i++) {
			now[i] = world_server_again(&members.world, SERVERS - 1 - i);
			members.state[now[i]] = KV_MEMBER_UP;
			members.weight[now[i]] = 1 + (SERVERS - 1 - i) % 3;
			members.state[SERVERS - 1 - i] = 0;
			if (i == 0) {
				belief_lie(now[i], LIE_ALONE, 1, 900);
				world_sleep(&members.world, 10 * SECOND);
			}
		}
		members_tell_one(now[1], 1);
		members_tell_one(now[2], 1);
		world_sleep(&members.world, 120 * SECOND);
		assert_int_equal(epoch(0), 1);
		assert_int_equal(world_counters(&members.world, 0).members, SERVERS);
		world_do(&members.world, 0, members_put_all, NULL);
		world_do(&members.world, 0, members_get_all, NULL);
		world_close(&members.world);
	}
}

/* ---- numbers that begin anew ---- */

/* etcd was wiped: its servers restart one after the other, and a fourth one comes. */
static void a_source_that_was_wiped_is_followed(void **state)
{
	struct world_options wo = options(710);
	(void)state;
	wo.servers = SPARE;
	wo.listed = SERVERS;
	open_with(&wo);
	members.epoch = 999;
	members_all_up(SERVERS);
	for (unsigned i = 0; i < SERVERS; i++) {
		members_tell_one(again(i, SECOND), 10 + i);
		world_sleep(&members.world, 5 * SECOND);
	}
	members.state[SERVERS] = KV_MEMBER_UP;
	members_tell(20);
	world_sleep(&members.world, 5 * SECOND);
	assert_int_equal(epoch(0), 20);
	assert_int_equal(world_counters(&members.world, 0).members, SPARE);
	close_world();
}

/* Kubernetes' control plane was restored: the servers run on, and all hear lower numbers. One does not hear of it. */
static void a_source_that_was_restored_is_followed(void **state)
{
	struct world_options wo = options(711);
	(void)state;
	open_with(&wo);
	members.epoch = 999;
	members_all_up(SERVERS);
	members.weight[1] = 9;
	members_tell_one(0, 500);
	members_tell_one(1, 500);
	world_sleep(&members.world, 50 * SECOND);
	assert_int_equal(epoch(0), 1000);
	world_sleep(&members.world, 20 * SECOND);
	assert_int_equal(epoch(0), 500);
	assert_int_equal(world_counters(&members.world, 0).view_resets, 2); /* of two clients */
	assert_non_null(world_said("event=view_reset"));
	members.weight[1] = 8;
	members_tell_one(0, 501);
	members_tell_one(1, 501);
	world_sleep(&members.world, SECOND);
	assert_int_equal(epoch(0), 501);
	close_world();
}

/* One server's clock is an hour ahead: its number counts for nobody else, and goes with it. */
static void a_clock_that_is_ahead_holds_up_no_change(void **state)
{
	struct world_options wo = options(712);
	(void)state;
	wo.servers = SPARE;
	wo.listed = SERVERS;
	open_with(&wo);
	members.epoch = 999999;
	members_all_up(SERVERS);
	members_tell_one(2, 1000000 + 3600000);
	members_settle();
	assert_int_equal(epoch(0), 1000000);
	world_server_crash(&members.world, 2, false);
	members.state[2] = 0;
	members.state[3] = KV_MEMBER_UP;
	members_tell(1010000);
	members_settle();
	assert_int_equal(epoch(0), 1010000);
	assert_int_not_equal(keys_of(0, "node-3"), 0);
	close_world();
}

/* ---- what a server says about itself ---- */

static void a_server_alone_says_that_it_drains(void **state)
{
	struct world_options wo = options(720);
	unsigned next;
	(void)state;
	open_with(&wo);
	members_all_up(SERVERS);
	assert_int_not_equal(keys_of(0, "node-1"), 0);
	assert_int_equal(kvs_server_drains(members.world.server[1].server), 0);
	members_settle();
	assert_int_equal(keys_of(0, "node-1"), 0);
	assert_int_equal(epoch(0), 1);
	members.weight[0] = 5; /* another view does not undo it */
	members_tell(++members.epoch);
	members_settle();
	assert_int_equal(epoch(0), 2);
	assert_int_equal(keys_of(0, "node-1"), 0);
	assert_int_equal(keys_of(world_pool_open(&members.world), "node-1"), 0);
	next = again(1, SECOND); /* the next process does not drain */
	members_tell_one(next, 2);
	members_settle();
	assert_int_not_equal(keys_of(0, "node-1"), 0);
	assert_int_not_equal(keys_of(1, "node-1"), 0);
	close_world();
}

/* Two members at one address, as a guard may keep one that was renamed: the server takes clients by its own name. */
static void of_two_members_at_one_address_the_server_is_one(void **state)
{
	(void)state;
	for (unsigned listed = 1; listed <= SERVERS; listed += 2)
		for (unsigned seeds = 0; seeds < 2; seeds++) {
			struct world_options wo = options(730);
			struct kv_view v;
			wo.listed = listed;
			wo.seeds = seeds;
			memset(&members, 0, sizeof(members));
			for (unsigned i = 0; i < SERVERS; i++)
				members.state[i] = KV_MEMBER_UP;
			wo.open_behind = true;
			world_open(&members.world, &wo);
			members_tell(1);
			members_settle();
			members_view(&v, 50);
			for (unsigned i = 0; i < 2; i++) {
				struct kv_member m = {.weight = 1, .state = KV_MEMBER_UP};
				snprintf(m.node_id, sizeof(m.node_id), "%s", i ? "zone-1" : "gone-1");
				snprintf(m.address, sizeof(m.address), "127.0.0.1:%u", members.world.server[1].port);
				assert_int_equal(kv_view_add(&v, &m), 0);
			}
			for (unsigned i = 0; i < SERVERS; i++)
				assert_int_equal(kvs_server_view_set(members.world.server[i].server, &v), 0);
			kv_view_fini(&v);
			world_sleep(&members.world, 10 * SECOND);
			assert_int_equal(epoch(0), 50);
			assert_int_not_equal(keys_of(0, "node-1"), 0);
			assert_int_equal(keys_of(0, "gone-1") + keys_of(0, "zone-1"), 0);
			world_do(&members.world, 0, members_put_all, NULL);
			world_do(&members.world, 0, members_get_all, NULL);
			world_close(&members.world);
		}
}

/* ---- at random ---- */

static void one_server_that_announces_anything_decides_nothing(void **state)
{
	(void)state;
	for (unsigned seed = 7000; seed < 7000 + world_seeds(4); seed++) {
		print_message("seed %u\n", seed);
		belief_run(seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stale_list_on_one_server_costs_nothing),
		cmocka_unit_test(servers_without_a_view_are_not_left_for_one_with_a_view),
		cmocka_unit_test(a_server_that_lies_has_its_share_of_the_keys_and_no_more),
		cmocka_unit_test(a_server_that_is_there_first_keeps_nobody),
		cmocka_unit_test(a_source_that_was_wiped_is_followed),
		cmocka_unit_test(a_source_that_was_restored_is_followed),
		cmocka_unit_test(a_clock_that_is_ahead_holds_up_no_change),
		cmocka_unit_test(a_server_alone_says_that_it_drains),
		cmocka_unit_test(of_two_members_at_one_address_the_server_is_one),
		cmocka_unit_test(one_server_that_announces_anything_decides_nothing),
	};
	return cmocka_run_group_tests_name("sim/belief", tests, NULL, NULL);
}
