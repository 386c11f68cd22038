/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_notes.c -- the servers of partitions are found once for all clients of a pool, and stay found when the view
 * changes, but where a server that came or left has a say. Weights of the servers differ, so they are noted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kvclient/core/pool.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/private.h"
#include "kvclient/transfer/call.h"
#include "tests/sim/members.h"

enum { SERVERS = 6, FEWER = 4, CLIENTS = 3, KEYS = 3000 };

static struct world *const world = &members.world;

static const struct kvc_client *client(unsigned i)
{
	return world->pool[0].pool->client[i];
}

static unsigned noted(void)
{
	const struct kc_place *p = client(0)->placement;
	unsigned n = 0;
	for (unsigned i = 0; i < KC_PLACE_PARTITIONS; i++) {
		unsigned holder = p->notes->holder[i];
		n += holder != 0;
		if (holder && holder - 1 != kc_place_find(p, i))
			fail_msg("partition %u is not of server %u", i, holder - 1);
	}
	return n;
}

static void look_up(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		(void)route_owner(c, members_key_of(&i));
}

/* All clients use the notes of one of them, and each view has its own. */
static void assert_shared(void)
{
	for (unsigned i = 1; i < CLIENTS; i++)
		assert_ptr_equal(client(i)->placement->notes, client(0)->placement->notes);
	for (unsigned i = 0; i < CLIENTS; i++)
		assert_false(client(i)->cluster.own->carrying);
}

static unsigned owned_by(unsigned server)
{
	char name[32];
	unsigned n = 0;
	snprintf(name, sizeof(name), "node-%u", server);
	for (uint32_t i = 0; i < KEYS; i++)
		n += strcmp(members_owner_name(world->pool[0].pool->client[0], i), name) == 0;
	return n;
}

static void open_world(uint64_t seed)
{
	const struct world_options wo = {.seed = seed,
					 .servers = SERVERS,
					 .clients = CLIENTS,
					 .listed = 1,
					 .heartbeat_ms = 100,
					 .peer_timeout_ns = SECOND,
					 .fabric.delay_max_ns = MS};
	memset(&members, 0, sizeof(members));
	world_open(world, &wo);
	members_all_up(FEWER);
}

static void clients_share_what_they_find(void **state)
{
	unsigned n;
	(void)state;
	open_world(4400);
	assert_shared();
	assert_int_equal(noted(), 0);
	world_do(world, 0, look_up, NULL);
	n = noted();
	assert_in_range(n, KEYS - KEYS / 50, KEYS);
	world_close(world);
}

static void what_was_found_stays_found(void **state)
{
	unsigned before, after;
	(void)state;
	open_world(4401);
	world_do(world, 0, look_up, NULL);
	before = noted();
	members_all_up(SERVERS); /* a server that comes leaves all of them found */
	assert_shared();
	assert_int_equal(noted(), before);
	after = owned_by(1);
	members_change(1, 0); /* one that leaves, all but its own */
	members_settle();
	assert_shared();
	assert_in_range(noted(), before - after, before - after + KEYS / 50);
	world_do(world, 0, look_up, NULL);
	assert_int_equal(noted(), before);
	world_close(world);
}

/* Views follow each other more quickly than notes do. */
static void views_in_a_row(void **state)
{
	(void)state;
	for (uint64_t seed = 4410; seed < 4410 + world_seeds(6); seed++) {
		open_world(seed);
		for (unsigned i = 0; i < 12; i++) {
			unsigned s = 1 + (unsigned)kv_prng_below(&world->prng, SERVERS - 1);
			world_do(world, 0, look_up, NULL);
			members_change(s, members.state[s] ? 0 : KV_MEMBER_UP);
			world_sleep(world, kv_prng_below(&world->prng, 400 * MS));
		}
		members_settle();
		assert_shared();
		world_do(world, 0, look_up, NULL);
		(void)noted();
		world_close(world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients_share_what_they_find),
		cmocka_unit_test(what_was_found_stays_found),
		cmocka_unit_test(views_in_a_row),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
