/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_stranded.c -- a machine loses the address that its endpoints have, under virtual time: they are opened again
 * at another one, and the other side is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/sim/fabric_sim.h"
#include "tests/sim/world.h"

enum { LEN = 5000, KEYS = 16 };

static struct world world;
static unsigned failed;

static void open_world(uint64_t seed)
{
	struct world_options wo = {.seed = seed,
				   .servers = 2,
				   .clients = 2,
				   .timeout_ns = 8 * SECOND,
				   .heartbeat_ms = 100,
				   .peer_timeout_ns = SECOND};
	world_open(&world, &wo);
}

static void put_and_get(struct kvc_client *c, void *arg)
{
	uint8_t value[LEN], back[LEN];
	(void)arg;
	failed = 0;
	memset(value, 7, sizeof(value));
	for (uint32_t i = 0; i < KEYS; i++) {
		struct kvc_key key = {&i, sizeof(i)};
		int64_t put = kvc_put_await(c, key, value, sizeof(value), NULL), get;
		get = kvc_get_await(c, key, back, sizeof(back), NULL);
		failed += put != 0 || get != LEN || memcmp(back, value, LEN) != 0;
	}
}

/* All keys are there, within this time. */
static void served_within(uint64_t ns)
{
	uint64_t begun = world_now(&world);
	world_do(&world, 0, put_and_get, NULL);
	assert_int_equal(failed, 0);
	print_message("served after %llu ms\n", (unsigned long long)((world_now(&world) - begun) / MS));
	assert_true(world_now(&world) - begun < ns);
}

static void each(uint64_t first, uint64_t end, bool homeless)
{
	for (uint64_t id = first; id < end; id++)
		sim_fabric_strand(id, homeless);
}

static void a_client_whose_address_changes_goes_on(void **state)
{
	(void)state;
	open_world(1);
	served_within(SECOND);
	for (unsigned i = 0; i < 3; i++) {
		each(world.pool[0].fab_first, world.pool[0].fab_end, false);
		served_within(2 * SECOND);
		assert_non_null(world_said("this machine no longer has that address"));
	}
	world_close(&world);
}

/* For a while there is no address at all. Calls wait or are told, and then all is as before. */
static void a_client_without_an_address_comes_back(void **state)
{
	(void)state;
	open_world(2);
	served_within(SECOND);
	each(world.pool[0].fab_first, world.pool[0].fab_end, true);
	world_do(&world, 0, put_and_get, NULL);
	assert_int_not_equal(failed, 0);
	for (uint64_t id = world.pool[0].fab_first; id < world.pool[0].fab_end; id++)
		sim_fabric_home(id);
	world_sleep(&world, 6 * SECOND); /* the longest pause between two rebuilds is 5 s */
	served_within(SECOND);
	world_close(&world);
}

/* A server that has nothing to post notices by itself, and tells its clients. */
static void a_server_whose_address_changes_goes_on(void **state)
{
	(void)state;
	open_world(3);
	served_within(SECOND);
	each(world.server[0].fab_first, world.server[0].fab_end, false);
	world_sleep(&world, 4 * SECOND);
	assert_non_null(world_said("this machine no longer has that address"));
	served_within(SECOND);
	each(world.server[1].fab_first, world.server[1].fab_end, false);
	served_within(8 * SECOND); /* under calls */
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_whose_address_changes_goes_on),
		cmocka_unit_test(a_client_without_an_address_comes_back),
		cmocka_unit_test(a_server_whose_address_changes_goes_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
