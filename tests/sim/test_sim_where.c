/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_where.c -- members with several addresses, under virtual time: any of them will do, the one that served is
 * tried first, and a member keeps its node as long as one of them stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "kvclient/conn/private.h"
#include "kvclient/core/client.h"
#include "tests/sim/members.h"
#include "tests/sim/resolve_sim.h"

enum { SERVERS = 3, NO_PORT = 9 /* nobody listens there */, SILENT_PORT = 11 };

static void open_world(uint64_t seed)
{
	struct world_options wo = {.seed = seed,
				   .servers = SERVERS,
				   .listed = SERVERS,
				   .servers_max = 8,
				   .timeout_ns = 10 * SECOND,
				   .connect_timeout_ns = 2 * SECOND,
				   .heartbeat_ms = 100,
				   .peer_timeout_ns = SECOND,
				   .buffer_bytes = 16 << 20,
				   .clients = 2};
	memset(&members, 0, sizeof(members));
	world_open(&members.world, &wo);
}

static struct kvc_client *client(unsigned i)
{
	return members.world.pool[0].pool->client[i];
}

/* The node that is used for a member. */
static const struct kc_node *node(unsigned of, unsigned server)
{
	char id[KV_NAME_MAX];
	snprintf(id, sizeof(id), "node-%u", server);
	for (unsigned i = 0; i < client(of)->num_nodes; i++)
		if (!client(of)->node[i].retired && strcmp(client(of)->node[i].member_id, id) == 0)
			return &client(of)->node[i];
	fail_msg("client %u has no node for %s", of, id);
	return NULL;
}

static bool all_up(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 2; i++)
		for (unsigned s = 0; s < SERVERS; s++)
			if (node(i, s)->state != KC_NODE_UP)
				return false;
	return true;
}

static void all_up_within(uint64_t ns)
{
	world_run(&members.world, all_up, NULL, ns, "not all members are up");
}

static void values_go_and_come(void)
{
	world_do(&members.world, 0, members_put_all, NULL);
	world_do(&members.world, 0, members_get_all, NULL);
}

/* The list calls the servers by addresses that the view has not, so all nodes are new ones, of the view. */
static void any_address_will_do(void **state)
{
	(void)state;
	open_world(1);
	members.where[0] = "127.0.0.1:9+localhost:%u";
	members.where[1] = "localhost:%u+127.0.0.1:9+[::1]:9";
	members.where[2] = "127.0.0.2:9+[::1]:9+127.0.0.1:9+localhost:%u";
	members_all_up(SERVERS);
	all_up_within(SECOND);
	values_go_and_come();
	world_close(&members.world);
}

/* The first address says nothing. It costs a share of one attempt, and not one at each reconnect. */
static void the_address_that_served_is_tried_first(void **state)
{
	uint64_t begun;
	(void)state;
	open_world(2);
	sim_port_cut(members.world.sim, SILENT_PORT, true);
	for (unsigned i = 0; i < SERVERS; i++)
		members.where[i] = "127.0.0.1:11+localhost:%u";
	members_all_up(SERVERS);
	all_up_within(2 * SECOND);
	for (unsigned i = 0; i < SERVERS; i++)
		sim_port_kill(members.world.sim, members.world.server[i].port);
	begun = world_now(&members.world);
	world_sleep(&members.world, 10 * MS);
	all_up_within(900 * MS); /* a share of the time to connect is 1 s */
	print_message("up again after %llu ms\n", (unsigned long long)((world_now(&members.world) - begun) / MS));
	values_go_and_come();
	sim_port_cut(members.world.sim, SILENT_PORT, false);
	world_close(&members.world);
}

static void a_member_keeps_its_node_while_an_address_stays(void **state)
{
	unsigned index[2], pool;
	uint64_t connects[2];
	(void)state;
	open_world(3);
	members.where[1] = "127.0.0.1:%u+127.0.0.1:9";
	members_all_up(SERVERS);
	all_up_within(SECOND);
	for (unsigned i = 0; i < 2; i++) {
		index[i] = node(i, 1)->index;
		connects[i] = node(i, 1)->own->connects;
	}
	members.where[1] = "127.0.0.1:9+localhost:%u"; /* the first one goes, and one comes */
	members_tell(++members.epoch);
	members_settle();
	members.where[1] = "[::1]:9+localhost:%u";
	members_tell(++members.epoch);
	members_settle();
	all_up_within(SECOND);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(node(i, 1)->index, index[i]);
		assert_int_equal(node(i, 1)->own->connects, connects[i]);
	}
	/* A new connection is made to an address that the view has now. */
	sim_port_kill(members.world.sim, members.world.server[1].port);
	world_sleep(&members.world, 10 * MS);
	all_up_within(SECOND);
	values_go_and_come();
	/* No address stays: another node, under the same name. */
	members.where[1] = NULL;
	members_tell(++members.epoch);
	members_settle();
	all_up_within(SECOND);
	for (unsigned i = 0; i < 2; i++)
		assert_int_not_equal(node(i, 1)->index, index[i]);
	pool = world_pool_open(&members.world);
	world_do(&members.world, pool, members_get_all, NULL);
	world_close(&members.world);
}

/* All clients of a pool call a member by one number, also one that did not hear of addresses that came and went. */
static void clients_call_a_member_by_one_number(void **state)
{
	static const char *const where[] = {"127.0.0.1:9+localhost:%u", "localhost:%u+[::1]:9", "[::1]:9+127.0.0.1:%u"};
	struct loop *late;
	(void)state;
	open_world(4);
	late = members.world.pool[0].loop[1];
	members_all_up(SERVERS - 1);
	sim_loop_freeze(late, true);
	members.state[SERVERS - 1] = KV_MEMBER_UP;
	for (unsigned i = 0; i < KV_COUNT(where); i++) {
		members.where[SERVERS - 1] = where[i];
		members_tell(++members.epoch);
		world_sleep(&members.world, 250 * MS);
	}
	assert_int_equal(client(0)->cluster.view.epoch, members.epoch);
	sim_loop_freeze(late, false);
	members_settle();
	all_up_within(SECOND);
	assert_int_equal(node(0, SERVERS - 1)->index, node(1, SERVERS - 1)->index);
	values_go_and_come();
	world_close(&members.world);
}

/* An address that was another server's before: the one there is not the member. */
static void another_server_at_an_address_is_passed_over(void **state)
{
	char where[KV_WHERE_MAX];
	(void)state;
	open_world(5);
	snprintf(where, sizeof(where), "localhost:%u+localhost:%%u", members.world.server[0].port);
	members.where[1] = where;
	members_all_up(SERVERS);
	all_up_within(3 * SECOND);
	values_go_and_come();
	world_close(&members.world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_address_will_do),
		cmocka_unit_test(the_address_that_served_is_tried_first),
		cmocka_unit_test(a_member_keeps_its_node_while_an_address_stays),
		cmocka_unit_test(clients_call_a_member_by_one_number),
		cmocka_unit_test(another_server_at_an_address_is_passed_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
