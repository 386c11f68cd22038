/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_view.c -- the members of a cluster change under calls, under virtual time.
 *
 * The test is the source: it tells servers their views, and clients hear of them from servers alone. Values are
 * immutable, and what is in a server that left is lost. What must hold: no call fails because of a view; bytes are
 * right; clients with the same view agree where a key belongs, by node ids alone; a view that is old or empty, or that
 * half of the servers announce or fewer, is not followed (more of that: test_sim_belief.c); a server that drains is
 * given nothing, and is asked; nothing is left of a server that went. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/conn/node.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/view.h"
#include "kvclient/transfer/call.h"
#include "tests/sim/churn.h"
#include "tests/sim/members.h"

enum { SERVERS = 4, KEYS = MEMBERS_KEYS, LONG = MEMBERS_LONG, WORKERS = 6 };

/* All clients have the view in force, and call the same server for a key. */
static void agree(void)
{
	struct kvc_client *first = members.world.pool[0].pool->client[0];
	for (unsigned p = 0; p < members.world.options.pools; p++)
		for (unsigned k = 0; k < members.world.options.clients; k++) {
			struct kvc_client *c = members.world.pool[p].pool->client[k];
			if (c->cluster.view.epoch != members.epoch)
				world_wrong(&members.world, "view: pool %u client %u has epoch %llu, not %llu", p, k,
					    (unsigned long long)c->cluster.view.epoch,
					    (unsigned long long)members.epoch);
			for (uint32_t i = 0; i < KEYS; i++)
				if (strcmp(members_owner_name(first, i), members_owner_name(c, i)) != 0)
					world_wrong(&members.world, "view: two clients do not agree about a key");
			for (uint32_t i = 0; i < KEYS; i++)
				if (route_first(c, members_key_of(&i))->state != KC_NODE_UP)
					world_wrong(&members.world, "view: a key's server is not up");
		}
}

static void open_world(uint64_t seed, unsigned listed)
{
	struct world_options wo = {.seed = seed,
				   .servers = SERVERS,
				   .listed = listed,
				   .servers_max = 8,
				   .clients = 2,
				   .timeout_ns = 10 * SECOND,
				   .heartbeat_ms = 100,
				   .peer_timeout_ns = SECOND,
				   .buffer_bytes = 16 << 20,
				   .fabric.delay_max_ns = MS};
	memset(&members, 0, sizeof(members));
	world_open(&members.world, &wo);
}

static void users_begin(void)
{
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&members.world, 0, i % 2, churn_user, NULL);
}

static void users_end(void)
{
	members.stop = true;
	world_join(&members.world, 20 * SECOND);
}

/* ---- the tests ---- */

static void come_and_go(uint64_t seed)
{
	struct kvc_counters n;
	unsigned moved;
	open_world(seed, 2);
	users_begin();
	world_sleep(&members.world, 200 * MS);
	members_all_up(2); /* what the list says */
	agree();
	members_all_up(SERVERS); /* two join */
	agree();
	members_change(1, 0); /* one of the list leaves, and goes on running */
	members_settle();
	agree();
	members_change(2, KV_MEMBER_DRAINING); /* one that came drains, and leaves */
	members_settle();
	agree();
	members_change(2, 0);
	members_settle();
	kvs_server_stop(members.world.server[2].server, SECOND);
	members_settle();
	agree();
	members_change(1, KV_MEMBER_UP); /* one comes back */
	members_settle();
	agree();
	world_server_crash(&members.world, 3, false); /* one comes back elsewhere */
	moved = world_server_moved(&members.world, 3);
	members.state[3] = 0;
	members_change(moved, KV_MEMBER_UP);
	members_settle();
	agree();
	users_end();
	world_do(&members.world, 0, members_put_all, NULL);
	world_do(&members.world, 0, members_get_all, NULL);
	n = world_counters(&members.world, 0);
	if (n.errors > 0 || n.view_epoch != members.epoch || n.members != 3)
		world_wrong(&members.world, "view: %llu calls failed; epoch %llu, %llu members",
			    (unsigned long long)n.errors, (unsigned long long)n.view_epoch,
			    (unsigned long long)n.members);
	world_close(&members.world);
}

static void members_come_and_go_and_no_call_fails(void **state)
{
	(void)state;
	for (unsigned seed = 400; seed < 400 + world_seeds(4); seed++) {
		print_message("seed %u\n", seed);
		come_and_go(seed);
	}
}

static uint64_t epoch_here(void)
{
	return world_counters(&members.world, 0).view_epoch;
}

static void a_view_that_is_old_or_empty_is_not_believed(void **state)
{
	struct kv_view none = {.source = 1, .epoch = 900};
	(void)state;
	open_world(410, SERVERS);
	members.epoch = 6;
	members_all_up(SERVERS);
	agree();
	members.state[3] = 0;
	members_tell(5); /* older */
	members_settle();
	assert_int_equal(epoch_here(), 7);
	for (unsigned i = 0; i < SERVERS; i++)
		assert_int_equal(kvs_server_view_set(members.world.server[i].server, &none), 0);
	members_settle();
	assert_int_equal(epoch_here(), 7);
	assert_int_equal(world_counters(&members.world, 0).members, SERVERS);
	members_tell(8);
	members_settle();
	assert_int_equal(epoch_here(), 8);
	assert_int_equal(world_counters(&members.world, 0).members, SERVERS - 1);
	world_close(&members.world);
}

/* A view that is in force is told again under a later epoch: one in between is old, though it is told later. */
static void what_comes_between_two_epochs_of_one_view_is_old(void **state)
{
	(void)state;
	open_world(411, SERVERS);
	members.epoch = 3;
	members_all_up(SERVERS);
	members_tell(9);
	members_settle();
	assert_int_equal(epoch_here(), 9);
	members.state[3] = 0;
	members_tell_one(1, 7);
	members_settle();
	assert_int_equal(world_counters(&members.world, 0).members, SERVERS);
	world_close(&members.world);
}

/* One server after the other gets another source, which numbers otherwise and has one member more. `dies`: the last one
 * is gone before it has the other source. */
static void source_change(bool dies)
{
	open_world(dies ? 413 : 412, SERVERS - 1);
	members.epoch = 900;
	members_all_up(SERVERS - 1);
	members_settle();
	agree();
	members.source = 1;
	members.state[3] = KV_MEMBER_UP;
	for (unsigned i = 0; i + 1 < SERVERS; i++) {
		assert_int_equal(world_counters(&members.world, 0).members, SERVERS - 1);
		if (dies && i == 2)
			world_server_crash(&members.world, i, false);
		else
			members_tell_one(i, 5);
		members_settle();
	}
	world_sleep(&members.world, 5 * SECOND);
	assert_int_equal(world_counters(&members.world, 0).members, SERVERS);
	assert_int_equal(members.world.pool[0].pool->client[0]->cluster.view.source, 2);
	world_close(&members.world);
}

static void a_cluster_that_gets_another_source_is_followed(void **state)
{
	(void)state;
	source_change(false);
	source_change(true);
}

/* Some servers have heard of a change, the others not yet: a pool that opens then has the view of more than half of
 * them, whoever tells it first; or none if there is no such view, and then it places keys by its list. */
static void a_pool_that_opens_has_the_view_of_most_servers(void **state)
{
	(void)state;
	for (unsigned seed = 460; seed < 460 + world_seeds(12); seed++) {
		unsigned know = seed % (SERVERS + 1), first, pool;
		uint64_t want;
		open_world(seed, SERVERS);
		members_all_up(SERVERS);
		want = 2 * know > SERVERS ? 2 : 2 * know == SERVERS ? 0 : members.epoch;
		first = (unsigned)kv_prng_below(&members.world.prng, SERVERS);
		members.state[1] = KV_MEMBER_DRAINING;
		for (unsigned i = 0; i < know; i++)
			members_tell_one((first + i) % SERVERS, members.epoch + 1);
		world_sleep(&members.world, 1); /* the servers take it */
		pool = world_pool_open(&members.world);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(members.world.pool[pool].pool->client[i]->cluster.view.epoch, want);
		world_close(&members.world);
	}
}

/* A server tells news once, with a heartbeat, and a client may be attaching when it comes. PINGs take long here, so
 * that heartbeats come in between, and the view changes at every stage. */
static void news_that_comes_while_a_client_attaches_is_not_lost(void **state)
{
	struct world_options wo = {.seed = 465,
				   .clients = 1,
				   .heartbeat_ms = 100,
				   .fabric = {.delay_min_ns = 350 * MS, .delay_max_ns = 400 * MS}};
	struct kc_node *n;
	(void)state;
	memset(&members, 0, sizeof(members));
	world_open(&members.world, &wo);
	n = &members.world.pool[0].pool->client[0]->node[0];
	members_all_up(1);
	members.weight[0] = 1;
	for (unsigned i = 0; i < 40; i++) {
		uint64_t before_ns = kv_prng_below(&members.world.prng, 100 * MS);
		world_sleep(&members.world, before_ns);
		kc_node_redo(n, "the test wants another attachment");
		world_sleep(&members.world, kv_prng_below(&members.world.prng, i % 2 ? 10 * MS : 900 * MS));
		members.weight[0]++;
		members_tell(++members.epoch);
		world_sleep(&members.world, 5 * SECOND);
		if (n->state != KC_NODE_UP || epoch_here() != members.epoch)
			fail_msg("round %u: epoch %llu, not %llu", i, (unsigned long long)epoch_here(),
				 (unsigned long long)members.epoch);
	}
	world_close(&members.world);
}

/* As servers tell it, but only this client hears of it: three of four announce it. */
static void take_heavier(struct kvc_client *c, void *arg)
{
	uint32_t weight = c->cluster.view.member[3].weight + 1;
	uint64_t epoch = ++members.epoch;
	(void)arg;
	for (unsigned i = 0; i < 3; i++) {
		struct kv_view view;
		assert_int_equal(kv_view_copy(&c->cluster.view, &view), 0);
		view.epoch = epoch;
		view.member[3].weight = weight;
		kc_cluster_take(&c->node[i], &view, false);
	}
}

static void a_client_that_hears_of_a_view_tells_the_others_of_its_pool(void **state)
{
	struct world_options wo = {.seed = 466,
				   .pools = 2,
				   .servers = SERVERS,
				   .clients = 4,
				   .timeout_ns = 10 * SECOND,
				   .heartbeat_ms = 1000,
				   .peer_timeout_ns = 10 * SECOND};
	uint64_t before;
	(void)state;
	memset(&members, 0, sizeof(members));
	world_open(&members.world, &wo);
	members_all_up(SERVERS);
	members_settle();
	for (unsigned i = 0; i < 20; i++) {
		before = members.epoch;
		world_do(&members.world, 0, take_heavier, NULL);
		world_sleep(&members.world, MS);
		for (unsigned c = 0; c < wo.clients; c++) {
			assert_int_equal(members.world.pool[0].pool->client[c]->cluster.view.epoch, before + 1);
			assert_int_equal(members.world.pool[1].pool->client[c]->cluster.view.epoch, before - i);
		}
	}
	world_do(&members.world, 0, take_heavier, NULL); /* and the pools close at once */
	world_close(&members.world);
}

/* Half of the servers do not decide, nor does any epoch; one more does, also about a view without half of the servers.
 */
static void a_view_needs_more_than_half_of_the_servers(void **state)
{
	(void)state;
	WORLD_LONG();
	open_world(420, SERVERS);
	members_all_up(SERVERS);
	users_begin();
	members.state[0] = members.state[2] = 0;
	for (unsigned i = 0; i < SERVERS / 2; i++)
		members_tell_one(i, 900);
	world_sleep(&members.world, test_rounds(100, 20) * SECOND);
	assert_int_equal(epoch_here(), 1);
	assert_int_equal(world_counters(&members.world, 0).members, SERVERS);
	members_tell_one(2, 9);
	members_settle();
	assert_int_equal(epoch_here(), 9); /* what more than half have reached */
	assert_int_equal(world_counters(&members.world, 0).members, 2);
	members.epoch = 9;
	agree();
	users_end();
	assert_int_equal(world_counters(&members.world, 0).errors, 0);
	world_close(&members.world);
}

/* Values that the draining server has are found, and those that are put now are put elsewhere. */
static void a_draining_server_is_given_nothing_and_asked(void **state)
{
	struct kvc_client *c;
	(void)state;
	open_world(430, SERVERS);
	members_all_up(SERVERS);
	world_do(&members.world, 0, members_put_all, NULL);
	members_change(1, KV_MEMBER_DRAINING);
	members_settle();
	agree();
	c = members.world.pool[0].pool->client[0];
	for (uint32_t i = 0; i < KEYS; i++)
		assert_string_not_equal(members_owner_name(c, i), "node-1");
	world_do(&members.world, 0, members_find_all, NULL);
	world_do(&members.world, 0, members_get_all, NULL);
	world_do(&members.world, 0, members_put_all, NULL);
	members_change(1, 0);
	members_settle();
	world_do(&members.world, 0, members_get_all, NULL);
	assert_int_equal(world_counters(&members.world, 0).errors, 0);
	world_close(&members.world);
}

/* The source says nothing new, but the server that drained is there again, as another process: it is used. */
static void a_server_that_drained_is_used_again_after_a_restart(void **state)
{
	struct kvc_client *c;
	unsigned its = 0, again;
	(void)state;
	open_world(435, SERVERS);
	members.incarnations = true;
	members_all_up(SERVERS);
	members_change(1, KV_MEMBER_DRAINING);
	members_settle();
	c = members.world.pool[0].pool->client[0];
	for (uint32_t i = 0; i < KEYS; i++)
		assert_string_not_equal(members_owner_name(c, i), "node-1");
	world_server_crash(&members.world, 1, false);
	members_settle();
	again = world_server_again(&members.world, 1);
	assert_non_null(members.world.server[again].server);
	world_sleep(&members.world, 5 * SECOND);
	for (uint32_t i = 0; i < KEYS; i++)
		its += strcmp(members_owner_name(c, i), "node-1") == 0;
	assert_int_not_equal(its, 0);
	world_do(&members.world, 0, members_put_all, NULL);
	world_do(&members.world, 0, members_get_all, NULL);
	world_close(&members.world);
}

/* A pool that knows one address alone learns the others, and places keys as a pool does that knew them all. */
static void one_address_is_enough(void **state)
{
	unsigned pool;
	(void)state;
	open_world(440, SERVERS);
	members_all_up(SERVERS);
	world_do(&members.world, 0, members_put_all, NULL);
	members.world.options.listed = 1;
	members.world.options.seeds = true;
	pool = world_pool_open(&members.world);
	members_settle();
	agree();
	world_do(&members.world, pool, members_get_all, NULL);
	world_close(&members.world);
}

/* The servers are all elsewhere: the one of the list, which is no member, is asked again. */
static void a_list_leads_back_to_servers_that_all_moved(void **state)
{
	(void)state;
	open_world(445, 1);
	members.state[0] = 0;
	members.state[1] = members.state[2] = KV_MEMBER_UP;
	members_tell(++members.epoch);
	members_settle();
	agree();
	for (unsigned i = 1; i < 3; i++) {
		members.state[i] = 0;
		world_server_crash(&members.world, i, false);
		members.state[world_server_moved(&members.world, i)] = KV_MEMBER_UP;
	}
	members_tell(++members.epoch);
	world_sleep(&members.world, 5 * SECOND);
	agree();
	world_do(&members.world, 0, members_put_all, NULL);
	world_do(&members.world, 0, members_get_all, NULL);
	world_close(&members.world);
}

static void a_view_that_has_no_room_is_not_taken(void **state)
{
	struct world_options wo = {.seed = 450, .servers = SERVERS, .listed = 1, .servers_max = 3, .heartbeat_ms = 100};
	(void)state;
	memset(&members, 0, sizeof(members));
	world_open(&members.world, &wo);
	members_all_up(SERVERS);
	assert_int_equal(epoch_here(), 0);
	assert_non_null(world_said("raise kvc_options.servers_max"));
	members_all_up(3);
	members.state[3] = 0;
	members_tell(++members.epoch);
	members_settle();
	assert_int_equal(epoch_here(), members.epoch);
	world_do(&members.world, 0, members_put_all, NULL);
	world_close(&members.world);
}

/* Each half of the servers has a view of its own, and so have the clients that know one of it. */
static void split_open(uint64_t seed)
{
	open_world(seed, 1);
	for (unsigned i = 0; i < SERVERS; i++)
		members.state[i] = i < SERVERS / 2 ? KV_MEMBER_UP : 0;
	for (unsigned i = 0; i < SERVERS / 2; i++)
		members_tell_one(i, 1);
	for (unsigned i = 0; i < SERVERS; i++)
		members.state[i] = i < SERVERS / 2 ? 0 : KV_MEMBER_UP;
	for (unsigned i = SERVERS / 2; i < SERVERS; i++)
		members_tell_one(i, 1);
	members.world.options.listed_from = SERVERS / 2;
	assert_int_equal(world_pool_open(&members.world), 1);
	members_settle();
}

/* ---- pins ---- */

static unsigned pins_told;

static void pin_lost(void *arg, struct kvc_client *c, const void *key, size_t len, struct kvc_session *session)
{
	(void)arg, (void)c, (void)key, (void)len, (void)session;
	pins_told++;
}

static void pin_all(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		int rc = kvc_pin_await(c, members_key_of(&i), NULL);
		if (rc != 0)
			world_wrong(&members.world, "view: PIN returned %s", kv_errname(rc));
	}
}

/* A server that leaves takes its pins along: each is told of once, and nothing of it is left. More servers come and go
 * than the pool has places. */
static void pins_leave_with_their_server_and_are_told_of(void **state)
{
	struct world_options wo = {.seed = 455,
				   .servers = 3, /* of two, one that was lost has as many votes as the other */
				   .listed = 1,
				   .servers_max = 5,
				   .clients = 1,
				   .heartbeat_ms = 100,
				   .settle_ns = 1,
				   .pin_lost = pin_lost};
	unsigned last = 2, lost = 0;
	(void)state;
	memset(&members, 0, sizeof(members));
	pins_told = 0;
	world_open(&members.world, &wo);
	members_all_up(3);
	for (unsigned round = 0; round < 6; round++) {
		unsigned its = 0, before = pins_told;
		char name[32];
		world_do(&members.world, 0, members_put_all, NULL);
		world_do(&members.world, 0, pin_all, NULL);
		snprintf(name, sizeof(name), "node-%u", members.world.server[last].as);
		for (uint32_t i = 0; i < KEYS; i++)
			its += strcmp(members_owner_name(members.world.pool[0].pool->client[0], i), name) == 0;
		members.state[last] = 0;
		world_server_crash(&members.world, last, false);
		last = world_server_moved(&members.world, last);
		members_change(last, KV_MEMBER_UP);
		members_settle();
		assert_int_equal(epoch_here(), members.epoch);
		assert_int_equal(pins_told - before, its);
		lost += its;
	}
	assert_int_equal(world_counters(&members.world, 0).pins_lost, lost);
	world_close(&members.world);
}

static void get_some(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	(void)arg;
	members.hits = members.misses = 0;
	for (uint32_t i = 0; i < KEYS; i++)
		members_get_check(i, at, kvc_get_await(c, members_key_of(&i), at, LONG, NULL));
	free(at);
}

/* What the others put is a miss until the views are one; what was put before is found by those that put it, and then,
 * once it was read, by all. */
static void split_views_cost_misses_and_nothing_else(void **state)
{
	(void)state;
	split_open(470);
	world_do(&members.world, 0, members_put_all, NULL);
	world_do(&members.world, 0, members_get_all, NULL);
	world_do(&members.world, 1, get_some, NULL);
	assert_int_equal(members.misses, KEYS);
	members.epoch = 1;
	members_all_up(SERVERS);
	agree();
	world_do(&members.world, 1, get_some, NULL);
	assert_int_equal(members.hits + members.misses, KEYS);
	world_do(&members.world, 0, members_get_all, NULL);
	members_settle();
	world_do(&members.world, 1, members_get_all, NULL);
	for (unsigned p = 0; p < 2; p++)
		assert_int_equal(world_counters(&members.world, p).errors, 0);
	world_close(&members.world);
}

/* The same under all kinds of calls of both, while views part, meet and part again. */
static void no_call_fails_while_views_are_split(void **state)
{
	(void)state;
	for (unsigned seed = 471; seed < 471 + world_seeds(4); seed++) {
		split_open(seed);
		for (unsigned i = 0; i < WORKERS; i++)
			world_worker(&members.world, i % 2, i / 2 % 2, churn_user, NULL);
		for (unsigned i = 0; i < 8; i++) {
			for (unsigned s = 0; s < SERVERS; s++) {
				unsigned at = (unsigned)kv_prng_below(&members.world.prng, SERVERS);
				members.weight[at] = 1 + (unsigned)kv_prng_below(&members.world.prng, 9);
				members.state[s] = KV_MEMBER_UP;
				members_tell_one(s, 2 + i); /* one epoch, and a view for each server */
			}
			world_sleep(&members.world, kv_prng_below(&members.world.prng, SECOND));
		}
		members.epoch = 100;
		members.weight[0] = 20; /* as in none of these views */
		members_all_up(SERVERS);
		agree();
		users_end();
		for (unsigned p = 0; p < 2; p++)
			assert_int_equal(world_counters(&members.world, p).errors, 0);
		world_close(&members.world);
	}
}

static void nothing_is_left_of_servers_that_went(void **state)
{
	(void)state;
	for (unsigned seed = 500; seed < 500 + world_seeds(24); seed++) {
		print_message("seed %u\n", seed);
		churn_run(seed, CHURN_ONCE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_come_and_go_and_no_call_fails),
		cmocka_unit_test(a_view_that_is_old_or_empty_is_not_believed),
		cmocka_unit_test(what_comes_between_two_epochs_of_one_view_is_old),
		cmocka_unit_test(a_cluster_that_gets_another_source_is_followed),
		cmocka_unit_test(a_pool_that_opens_has_the_view_of_most_servers),
		cmocka_unit_test(news_that_comes_while_a_client_attaches_is_not_lost),
		cmocka_unit_test(a_client_that_hears_of_a_view_tells_the_others_of_its_pool),
		cmocka_unit_test(a_view_needs_more_than_half_of_the_servers),
		cmocka_unit_test(a_draining_server_is_given_nothing_and_asked),
		cmocka_unit_test(a_server_that_drained_is_used_again_after_a_restart),
		cmocka_unit_test(one_address_is_enough),
		cmocka_unit_test(a_list_leads_back_to_servers_that_all_moved),
		cmocka_unit_test(a_view_that_has_no_room_is_not_taken),
		cmocka_unit_test(pins_leave_with_their_server_and_are_told_of),
		cmocka_unit_test(split_views_cost_misses_and_nothing_else),
		cmocka_unit_test(no_call_fails_while_views_are_split),
		cmocka_unit_test(nothing_is_left_of_servers_that_went),
	};
	return cmocka_run_group_tests_name("sim/view", tests, NULL, NULL);
}
