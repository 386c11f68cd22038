/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_opening.c -- which servers a client takes when it begins, and servers contradict each other, under virtual
 * time: half of them have a stale view, some name another cluster, one says that it is another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "kvclient/core/client.h"
#include "kvclient/core/pool.h"
#include "kvserver/server/server.h"
#include "tests/sim/belief.h"
#include "tests/sim/members.h"

enum { SERVERS = 3 };

static struct world_options options(uint64_t seed)
{
	return (struct world_options){.seed = seed,
				      .servers = SERVERS,
				      .clients = 2,
				      .open_behind = true,
				      .timeout_ns = 10 * SECOND,
				      .heartbeat_ms = 100,
				      .peer_timeout_ns = SECOND,
				      .buffer_bytes = 16 << 20,
				      .fabric.delay_max_ns = MS};
}

static void open_with(const struct world_options *wo)
{
	memset(&members, 0, sizeof(members));
	world_open(&members.world, wo);
}

/* Both clients of the pool have the server of this port, or not. */
static void up_check(unsigned pool, unsigned server, bool up)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct kvc_client *c = members.world.pool[pool].pool->client[i];
		const struct kc_node *n = &c->node[server];
		if ((n->state == KC_NODE_UP) != up)
			fail_msg("client %u, server %u: state %d, \"%s\"", i, server, (int)n->state, n->why);
	}
}

static void stored_and_read(unsigned pool)
{
	world_do(&members.world, pool, members_put_all, NULL);
	world_do(&members.world, pool, members_get_all, NULL);
}

/* A client that waits for servers opens, and follows the honest view. */
static void honest_check(void)
{
	unsigned pool;
	members.world.options.open_behind = false;
	pool = world_pool_open(&members.world);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(members.world.pool[pool].pool->client[i]->cluster.view.epoch, 7);
	stored_and_read(pool);
}

/* ---- no view has a majority, and the list has no names ---- */

/* Half of the servers have a stale file: the view that names those which announce it is taken. Weights change its
 * digest: the higher of two digests does not decide. */
static void of_two_halves_the_one_that_its_view_names_is_followed(void **state)
{
	(void)state;
	for (unsigned half = 1; half <= 2; half++)
		for (unsigned s = 0; s < world_seeds(4); s++) {
			struct world_options wo = options(800 + s);
			wo.seeds = true;
			wo.servers = 2 * half;
			open_with(&wo);
			members.weight[0] = 1 + s;
			for (unsigned i = 0; i < 2 * half; i++)
				members.state[i] = KV_MEMBER_UP;
			for (unsigned i = 0; i < 2 * half; i++)
				if (i < half)
					members_tell_one(i, 7);
				else
					belief_lie(i, LIE_DEAD, 1, 900);
			honest_check();
			world_close(&members.world);
		}
}

static void one_of_three_is_stale_and_one_is_gone(void **state)
{
	(void)state;
	for (unsigned s = 0; s < world_seeds(4); s++) {
		struct world_options wo = options(810 + s);
		wo.seeds = true;
		open_with(&wo);
		members.weight[0] = 1 + s;
		for (unsigned i = 0; i < SERVERS; i++)
			members.state[i] = KV_MEMBER_UP;
		members_tell_one(0, 7);
		belief_lie(2, LIE_DEAD, 1, 900);
		world_server_crash(&members.world, 1, false);
		honest_check();
		world_close(&members.world);
	}
}

/* ---- names of clusters ---- */

/* One server has a wrong --cluster and is there first. */
static void the_cluster_of_most_servers_is_followed(void **state)
{
	struct world_options wo = options(820);
	unsigned pool;
	(void)state;
	wo.late = true;
	wo.cluster[0] = "prodd";
	wo.cluster[1] = wo.cluster[2] = "prod";
	open_with(&wo);
	world_server_late(&members.world);
	world_sleep(&members.world, 3 * SECOND);
	up_check(0, 0, true);
	world_server_late(&members.world);
	world_sleep(&members.world, 3 * SECOND);
	up_check(0, 0, true); /* one against one: nothing changes */
	up_check(0, 1, false);
	world_server_late(&members.world);
	for (unsigned i = 0; i < 20 && !world_said("event=cluster_name"); i++)
		world_sleep(&members.world, 100 * MS);
	assert_non_null(world_said("event=cluster_name"));
	world_sleep(&members.world, 5 * SECOND);
	up_check(0, 0, false);
	up_check(0, 1, true);
	up_check(0, 2, true);
	stored_and_read(0);
	members.world.options.open_behind = false; /* one that waits for its servers opens, too */
	pool = world_pool_open(&members.world);
	world_sleep(&members.world, 2 * SECOND);
	up_check(pool, 0, false);
	up_check(pool, 1, true);
	up_check(pool, 2, true);
	world_server_crash(&members.world, 0, false);
	members.world.options.cluster[0] = "prod";
	world_server_again(&members.world, 0);
	world_sleep(&members.world, 3 * SECOND);
	for (unsigned i = 0; i < SERVERS; i++)
		up_check(0, i, true);
	world_close(&members.world);
}

/* All servers get another name one after the other: clients follow without a restart. */
static void a_cluster_that_is_renamed_keeps_its_clients(void **state)
{
	struct world_options wo = options(821);
	(void)state;
	for (unsigned i = 0; i < SERVERS; i++)
		wo.cluster[i] = "old";
	open_with(&wo);
	world_sleep(&members.world, SECOND);
	for (unsigned i = 0; i < SERVERS; i++) {
		world_server_crash(&members.world, i, false);
		members.world.options.cluster[i] = "new";
		world_server_again(&members.world, i);
		world_sleep(&members.world, 3 * SECOND);
		up_check(0, i, i > 0);
	}
	up_check(0, 0, true);
	stored_and_read(0);
	world_close(&members.world);
}

/* ---- who a server says it is ---- */

/* One member says that it has the incarnation of another one: `id` also the node id. */
static void liar_run(uint64_t seed, bool seeds, bool id)
{
	struct world_options wo = options(seed);
	struct kvs_server *honest, *liar;
	unsigned pool;
	wo.seeds = seeds;
	open_with(&wo);
	members_all_up(SERVERS);
	honest = members.world.server[0].server;
	liar = members.world.server[2].server;
	liar->incarnation = honest->incarnation;
	if (id)
		memcpy(liar->node_id, honest->node_id, sizeof(liar->node_id));
	pool = world_pool_open(&members.world);
	world_sleep(&members.world, 10 * SECOND);
	up_check(pool, 0, true);
	up_check(pool, 1, true);
	stored_and_read(pool);
	world_close(&members.world);
}

static void a_copied_incarnation_costs_no_other_server(void **state)
{
	(void)state;
	for (unsigned s = 0; s < world_seeds(8); s++) {
		liar_run(830 + s, false, false);
		liar_run(830 + s, true, false);
		liar_run(830 + s, true, true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_two_halves_the_one_that_its_view_names_is_followed),
		cmocka_unit_test(one_of_three_is_stale_and_one_is_gone),
		cmocka_unit_test(the_cluster_of_most_servers_is_followed),
		cmocka_unit_test(a_cluster_that_is_renamed_keeps_its_clients),
		cmocka_unit_test(a_copied_incarnation_costs_no_other_server),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
