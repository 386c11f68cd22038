/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_names.c -- pools whose servers come late, move, have several addresses or names that nobody knows, under
 * virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "kvclient/core/client.h"
#include "kvclient/pool/hosted.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/call.h"
#include "tests/sim/resolve_sim.h"
#include "tests/sim/world.h"

enum { LEN = 5000, NO_PORT = 9 /* nobody listens there */ };

static struct world world;

/* ---- calls ---- */

static struct {
	unsigned server; /* whose key it is */
	uint64_t timeout_ns;
	uint8_t *dst;
	int64_t put, get;
	uint64_t took_ns;
} one;

static struct kvc_key key_of(struct kvc_client *c, unsigned server, uint32_t *name)
{
	struct kvc_key key = {name, sizeof(*name)};
	for (*name = 0; route_owner(c, key)->index != server; ++*name)
		;
	return key;
}

static void put_and_get(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = one.timeout_ns};
	uint8_t value[LEN], back[LEN], *dst = one.dst ? one.dst : back;
	uint64_t begun = world_now(&world);
	uint32_t name;
	struct kvc_key key = key_of(c, one.server, &name);
	(void)arg;
	memset(value, 7, sizeof(value));
	one.put = kvc_put_await(c, key, value, sizeof(value), &call);
	one.took_ns = world_now(&world) - begun;
	one.get = kvc_get_await(c, key, dst, sizeof(back), &call);
	if (one.get == LEN && memcmp(dst, value, LEN) != 0)
		world_wrong(&world, "other bytes");
}

static void ask(unsigned server, uint64_t timeout_ns)
{
	one.server = server;
	one.timeout_ns = timeout_ns;
	world_do(&world, 0, put_and_get, NULL);
}

static void served(unsigned server)
{
	ask(server, 2 * SECOND);
	if (one.put != 0 || one.get != LEN)
		fail_msg("PUT %s, GET %lld", kv_errname((int)one.put), (long long)one.get);
}

static enum kc_node_state state(unsigned server)
{
	return world.pool[0].pool->client[0]->node[server].state;
}

static const char *why(unsigned server)
{
	return world.pool[0].pool->client[0]->node[server].why;
}

static void said(unsigned server, const char *words)
{
	if (!strstr(why(server), words))
		fail_msg("\"%s\" does not say \"%s\"", why(server), words);
}

/* Until all clients are connected with it. */
static bool all_up(void *arg)
{
	unsigned server = (unsigned)(uintptr_t)arg;
	const struct kvc_pool *p = world.pool[0].pool;
	for (unsigned i = 0; i < p->num_clients; i++)
		if (p->client[i]->node[server].state != KC_NODE_UP)
			return false;
	return true;
}

static void up_within(unsigned server, uint64_t ns)
{
	world_run(&world, all_up, (void *)(uintptr_t)server, ns, "not all clients have their server");
}

static void name_set(const char *host, uint16_t a, uint16_t b, uint16_t c, uint64_t delay_ns)
{
	sim_name_set(host, (const uint16_t[SIM_NAME_ADDRESSES]){a, b, c}, delay_ns);
}

/* ---- servers that come late ---- */

static void a_pool_opens_before_its_servers(void **st)
{
	uint8_t *memory = aligned_alloc(4096, 8192);
	struct kvc_mem *mem = NULL;
	(void)st;
	one.dst = memory;
	world_open(&world, &(struct world_options){.seed = 1, .servers = 2, .late = true, .open_behind = true});
	assert_in_range(world_now(&world), 0, SECOND + 100 * MS); /* time begins at 1 s */
	assert_int_equal(world_register(&world, 0, memory, 8192, &mem), 0);
	for (unsigned s = 0; s < 2; s++) {
		ask(s, SECOND);
		assert_int_equal(one.put, -KV_EPEERDOWN);
		assert_int_equal(one.get, -KV_EPEERDOWN);
		assert_in_range(one.took_ns, 0, 100 * MS);
		said(s, "connection refused: is kv-server running there");
	}
	world_server_late(&world);
	up_within(0, 700 * MS);
	served(0);
	served(1); /* the other one stands in */
	world_server_late(&world);
	up_within(1, 700 * MS);
	served(1);
	assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
	world_close(&world);
	one.dst = NULL;
	free(memory);
}

/* Calls wait for the first attempt; how it ended, or their deadline, ends them. */
static void calls_before_the_first_connection_end_by_their_deadline(void **st)
{
	(void)st;
	world_open(&world,
		   &(struct world_options){
			   .seed = 2, .open_behind = true, .host = {"cache"}, .connect_timeout_ns = 2 * SECOND});
	assert_int_equal(state(0), KC_NODE_DOWN); /* there is no such name yet */
	world_close(&world);
	name_set("cache", NO_PORT, 0, 0, 1500 * MS);
	world_open(&world,
		   &(struct world_options){
			   .seed = 3, .open_behind = true, .host = {"cache"}, .connect_timeout_ns = 2 * SECOND});
	ask(0, 300 * MS);
	assert_int_equal(one.put, -KV_ETIMEOUT);
	assert_in_range(one.took_ns, 300 * MS, 300 * MS + 60 * MS);
	ask(0, 10 * SECOND);
	assert_int_equal(one.put, -KV_EPEERDOWN);
	assert_in_range(one.took_ns, 500 * MS, 1300 * MS);
	world_close(&world);
}

/* ---- names ---- */

static void a_name_that_nobody_knows_fails_only_its_server(void **st)
{
	(void)st;
	world_open(&world, &(struct world_options){.seed = 4, .servers = 2, .host = {NULL, "gone.example"}});
	served(0);
	served(1); /* by the other one */
	said(1, "cannot resolve host 'gone.example'");
	name_set("gone.example", world.server[1].port, 0, 0, 0);
	up_within(1, SECOND);
	served(1);
	world_close(&world);
}

static void a_server_that_moves_is_found(void **st)
{
	unsigned next;
	(void)st;
	name_set("cache", 40000, 0, 0, 3 * MS);
	world_open(&world, &(struct world_options){.seed = 5, .host = {"cache"}});
	assert_int_equal(world.server[0].port, 40000);
	served(0);
	world_server_crash(&world, 0, false);
	next = world_server_moved(&world, 0);
	assert_int_not_equal(world.server[next].port, 40000);
	world_sleep(&world, SECOND);
	ask(0, SECOND);
	assert_int_equal(one.put, -KV_EPEERDOWN);
	name_set("cache", world.server[next].port, 0, 0, 3 * MS);
	up_within(0, SECOND);
	served(0);
	world_close(&world);
}

/* The first refuses, the second says nothing, the third is the server. Of the time each has its share. */
static void all_addresses_are_tried(void **st)
{
	(void)st;
	name_set("cache", NO_PORT, NO_PORT + 1, 40000, 0);
	world_open(&world,
		   &(struct world_options){
			   .seed = 6, .open_behind = true, .host = {"cache"}, .connect_timeout_ns = 3 * SECOND});
	sim_port_cut(world.sim, NO_PORT + 1, true);
	up_within(0, 4 * SECOND);
	served(0);
	world_server_crash(&world, 0, false);
	world_sleep(&world, 5 * SECOND);
	said(0, "127.0.0.1:40000: connection refused"); /* the one that served last is dialled first */
	said(0, "nor do its other addresses");
	sim_port_cut(world.sim, NO_PORT + 1, false);
	world_close(&world);
}

static bool stopped(void *pool)
{
	return kc_pool_stopped(pool);
}

/* Name servers that say nothing: nothing of the pool waits longer for them than it was told to, and its end not at all.
 */
static void a_look_up_that_hangs_holds_up_nobody(void **st)
{
	uint64_t begun;
	(void)st;
	name_set("cache", 40001, 0, 0, KV_NEVER);
	world_open(&world, &(struct world_options){.seed = 7,
						   .servers = 2,
						   .open_behind = true,
						   .host = {NULL, "cache"},
						   .connect_timeout_ns = 2 * SECOND});
	up_within(0, SECOND);
	served(0);
	ask(1, 10 * SECOND);
	assert_int_equal(one.put, 0); /* after the first attempt the other one stands in */
	assert_in_range(one.took_ns, SECOND, 2500 * MS);
	said(1, "could not be looked up by the deadline");
	begun = world_now(&world);
	world_pool_stop(&world, 0);
	world_run(&world, stopped, world.pool[0].pool, 200 * MS, "closing waits for a look-up");
	assert_in_range(world_now(&world) - begun, 0, 200 * MS);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pool_opens_before_its_servers),
		cmocka_unit_test(calls_before_the_first_connection_end_by_their_deadline),
		cmocka_unit_test(a_name_that_nobody_knows_fails_only_its_server),
		cmocka_unit_test(a_server_that_moves_is_found),
		cmocka_unit_test(all_addresses_are_tried),
		cmocka_unit_test(a_look_up_that_hangs_holds_up_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
