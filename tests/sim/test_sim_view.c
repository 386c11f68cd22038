/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_view.c -- the members of a cluster change under calls, under virtual time.
 *
 * The test is the source: it tells servers their views, and clients hear of them from servers alone. Values are
 * immutable, and what is in a server that left is lost. What must hold: no call fails because of a view; bytes are
 * right; clients with the same view agree where a key belongs, by node ids alone; a view that is old, empty, or lacks
 * half of the servers that still answer is not believed; a server that drains is given nothing, and is asked; nothing
 * is left of a server that went. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/call/call.h"
#include "kvclient/conn/node.h"
#include "tests/sim/world.h"

enum { SERVERS = 4, KEYS = 48, WORKERS = 6, BATCH = 10, LONG = 400000 };

static struct world world;

static struct {
	bool stop, closed;
	uint64_t epoch, calls, hits, misses;
	enum kv_member_state state[WORLD_SERVERS]; /* by number of the server; 0: no member */
} test;

static struct kvc_key key_of(const uint32_t *i)
{
	return (struct kvc_key){i, sizeof(*i)};
}

static uint32_t len_of(uint32_t i)
{
	static const uint32_t len[] = {100, 3000, 60000, LONG};
	return len[i % 4];
}

static void value_fill(uint8_t *at, uint32_t i)
{
	memset(at, (int)(i * 7 + 1), len_of(i));
}

static bool value_right(const uint8_t *at, uint32_t i, int64_t len)
{
	return len == len_of(i) && at[0] == (uint8_t)(i * 7 + 1) && memcmp(at, at + 1, (size_t)len - 1) == 0;
}

static void get_check(uint32_t i, const uint8_t *at, int64_t rc)
{
	if (rc == -KV_ECLOSED && test.stop)
		return;
	test.hits += rc > 0;
	test.misses += rc == -KV_ENOTFOUND;
	if (rc < 0 && rc != -KV_ENOTFOUND)
		world_wrong(&world, "view: a GET returned %s", kv_errname((int)rc));
	else if (rc >= 0 && !value_right(at, i, rc))
		world_wrong(&world, "view: a GET returned wrong bytes");
}

static void put_check(int64_t rc)
{
	if (rc != 0 && !(rc == -KV_ECLOSED && test.stop))
		world_wrong(&world, "view: a PUT returned %s", kv_errname((int)rc));
}

static uint32_t some(uint64_t n)
{
	return (uint32_t)kv_prng_below(&world.prng, n);
}

static void batch_call(struct kvc_client *c, bool put)
{
	struct kvc_item item[BATCH] = {0};
	uint32_t key[BATCH], first = some(KEYS);
	for (unsigned i = 0; i < BATCH; i++) {
		key[i] = (first + i) % KEYS;
		item[i] = (struct kvc_item){
			.key = key_of(&key[i]), .data = malloc(len_of(key[i])), .len = len_of(key[i])};
		if (put)
			value_fill(item[i].data, key[i]);
	}
	(put ? kvc_put_batch_await : kvc_get_batch_await)(c, item, BATCH, NULL);
	for (unsigned i = 0; i < BATCH; i++) {
		if (put)
			put_check(item[i].result);
		else
			get_check(key[i], item[i].data, item[i].result);
		memset(item[i].data, 0xEE, len_of(key[i]));
		free(item[i].data);
	}
}

static void lookup_call(struct kvc_client *c)
{
	uint32_t key[KEYS];
	struct kvc_key keys[KEYS];
	uint8_t found[KEYS];
	int rc;
	for (uint32_t i = 0; i < KEYS; i++) {
		key[i] = i;
		keys[i] = key_of(&key[i]);
	}
	rc = kvc_exists_await(c, keys, KEYS, found, NULL, NULL);
	if (rc != 0 && !(rc == -KV_ECLOSED && test.stop))
		world_wrong(&world, "view: EXISTS returned %s", kv_errname(rc));
}

static void user(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	(void)arg;
	while (!test.stop && !world.wrong[0]) {
		uint32_t i = some(KEYS), pick = some(8);
		if (pick < 3) {
			get_check(i, at, kvc_get_await(c, key_of(&i), at, LONG, NULL));
		} else if (pick < 5) {
			value_fill(at, i);
			put_check(kvc_put_await(c, key_of(&i), at, len_of(i), NULL));
		} else if (pick < 7) {
			batch_call(c, pick % 2);
		} else {
			lookup_call(c);
		}
		test.calls++;
		co_sleep_await(world_now(&world) + some(20 * MS));
	}
	free(at);
}

static void put_all(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		value_fill(at, i);
		put_check(kvc_put_await(c, key_of(&i), at, len_of(i), NULL));
	}
	free(at);
}

static void get_all(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		int64_t rc = kvc_get_await(c, key_of(&i), at, LONG, NULL);
		get_check(i, at, rc);
		if (rc == -KV_ENOTFOUND)
			world_wrong(&world, "view: a value that was put is not there");
	}
	free(at);
}

/* The same by batches and look-ups. */
static void find_all(struct kvc_client *c, void *arg)
{
	struct kvc_item item[KEYS] = {0};
	struct kvc_key keys[KEYS];
	uint32_t key[KEYS];
	unsigned prefix = 0;
	int rc;
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		key[i] = i;
		keys[i] = key_of(&key[i]);
		item[i] = (struct kvc_item){.key = keys[i], .data = malloc(LONG), .len = LONG};
	}
	rc = kvc_exists_await(c, keys, KEYS, NULL, &prefix, NULL);
	if (rc != 0 || prefix != KEYS)
		world_wrong(&world, "view: a look-up returned %s and a prefix of %u", kv_errname(rc), prefix);
	kvc_get_batch_await(c, item, KEYS, NULL);
	for (uint32_t i = 0; i < KEYS; i++) {
		get_check(i, item[i].data, item[i].result);
		if (item[i].result == -KV_ENOTFOUND)
			world_wrong(&world, "view: a value that was put is not in a batch");
		free(item[i].data);
	}
}

/* ---- telling ---- */

static void view_make(struct kv_view *v, uint64_t epoch)
{
	*v = (struct kv_view){.source = 1, .epoch = epoch};
	for (unsigned i = 0; i < world.num_servers; i++) {
		struct kv_member m = {.weight = 1 + i % 3, .state = test.state[i]};
		if (!test.state[i])
			continue;
		snprintf(m.node_id, sizeof(m.node_id), "node-%u", world.server[i].as);
		snprintf(m.address, sizeof(m.address), "127.0.0.1:%u", world.server[i].port);
		if (kv_view_add(v, &m) < 0)
			world_wrong(&world, "view: the test makes a wrong view");
	}
}

static void tell(uint64_t epoch)
{
	struct kv_view v;
	view_make(&v, epoch);
	for (unsigned i = 0; i < world.num_servers; i++)
		if (world.server[i].server && !world.server[i].crashed &&
		    kvs_server_state(world.server[i].server, NULL) == KVS_RUNNING)
			assert_int_equal(kvs_server_view_set(world.server[i].server, &v), 0);
	kv_view_fini(&v);
}

static void change(unsigned server, enum kv_member_state state)
{
	test.state[server] = state;
	tell(++test.epoch);
}

static void settle(void)
{
	world_sleep(&world, 2 * SECOND);
}

static const char *owner_name(struct kvc_client *c, uint32_t i)
{
	return kvc_call_node(c, key_of(&i))->member_id;
}

/* All clients have the view in force, and call the same server for a key. */
static void agree(void)
{
	struct kvc_client *first = world.pool[0].pool->client[0];
	for (unsigned p = 0; p < world.options.pools; p++)
		for (unsigned k = 0; k < world.options.clients; k++) {
			struct kvc_client *c = world.pool[p].pool->client[k];
			if (c->cluster.view.epoch != test.epoch)
				world_wrong(&world, "view: pool %u client %u has epoch %llu, not %llu", p, k,
					    (unsigned long long)c->cluster.view.epoch, (unsigned long long)test.epoch);
			for (uint32_t i = 0; i < KEYS; i++)
				if (strcmp(owner_name(first, i), owner_name(c, i)) != 0)
					world_wrong(&world, "view: two clients do not agree about a key");
			for (uint32_t i = 0; i < KEYS; i++)
				if (kvc_call_node(c, key_of(&i))->state != KVC_NODE_UP)
					world_wrong(&world, "view: a key's server is not up");
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
	memset(&test, 0, sizeof(test));
	world_open(&world, &wo);
}

static void users_begin(void)
{
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&world, 0, i % 2, user, NULL);
}

static void users_end(void)
{
	test.stop = true;
	world_join(&world, 20 * SECOND);
}

static void all_up(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		test.state[i] = KV_MEMBER_UP;
	tell(++test.epoch);
	settle();
}

/* ---- the tests ---- */

static void come_and_go(uint64_t seed)
{
	struct kvc_counters n;
	unsigned moved;
	open_world(seed, 2);
	users_begin();
	world_sleep(&world, 200 * MS);
	all_up(2); /* what the list says */
	agree();
	all_up(SERVERS); /* two join */
	agree();
	change(1, 0); /* one of the list leaves, and goes on running */
	settle();
	agree();
	change(2, KV_MEMBER_DRAINING); /* one that came drains, and leaves */
	settle();
	agree();
	change(2, 0);
	settle();
	kvs_server_stop(world.server[2].server, SECOND);
	settle();
	agree();
	change(1, KV_MEMBER_UP); /* one comes back */
	settle();
	agree();
	world_server_crash(&world, 3, false); /* one comes back elsewhere */
	moved = world_server_moved(&world, 3);
	test.state[3] = 0;
	change(moved, KV_MEMBER_UP);
	settle();
	agree();
	users_end();
	world_do(&world, 0, put_all, NULL);
	world_do(&world, 0, get_all, NULL);
	n = world_counters(&world, 0);
	if (n.errors > 0 || n.view_epoch != test.epoch || n.members != 3)
		world_wrong(&world, "view: %llu calls failed; epoch %llu, %llu members", (unsigned long long)n.errors,
			    (unsigned long long)n.view_epoch, (unsigned long long)n.members);
	world_close(&world);
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
	return world_counters(&world, 0).view_epoch;
}

static void a_view_that_is_old_or_empty_is_not_believed(void **state)
{
	struct kv_view none = {.source = 1, .epoch = 900};
	(void)state;
	open_world(410, SERVERS);
	test.epoch = 6;
	all_up(SERVERS);
	agree();
	test.state[3] = 0;
	tell(5); /* older */
	settle();
	assert_int_equal(epoch_here(), 7);
	for (unsigned i = 0; i < SERVERS; i++)
		assert_int_equal(kvs_server_view_set(world.server[i].server, &none), 0);
	settle();
	assert_int_equal(epoch_here(), 7);
	assert_int_equal(world_counters(&world, 0).members, SERVERS);
	tell(8);
	settle();
	assert_int_equal(epoch_here(), 8);
	assert_int_equal(world_counters(&world, 0).members, SERVERS - 1);
	world_close(&world);
}

static void a_view_without_half_of_the_servers_is_believed_when_they_are_gone(void **state)
{
	(void)state;
	open_world(420, SERVERS);
	all_up(SERVERS);
	users_begin();
	test.state[0] = test.state[2] = 0;
	tell(9);
	settle();
	assert_int_equal(epoch_here(), 1);
	assert_int_not_equal(world_counters(&world, 0).views_doubted, 0);
	world_server_crash(&world, 0, true);
	world_sleep(&world, 3 * SECOND);
	assert_int_equal(epoch_here(), 9);
	assert_int_equal(world_counters(&world, 0).members, 2);
	test.epoch = 9;
	agree();
	users_end();
	world_close(&world);
}

/* Values that the draining server has are found, and those that are put now are put elsewhere. */
static void a_draining_server_is_given_nothing_and_asked(void **state)
{
	struct kvc_client *c;
	(void)state;
	open_world(430, SERVERS);
	all_up(SERVERS);
	world_do(&world, 0, put_all, NULL);
	change(1, KV_MEMBER_DRAINING);
	settle();
	agree();
	c = world.pool[0].pool->client[0];
	for (uint32_t i = 0; i < KEYS; i++)
		assert_string_not_equal(owner_name(c, i), "node-1");
	world_do(&world, 0, find_all, NULL);
	world_do(&world, 0, get_all, NULL);
	world_do(&world, 0, put_all, NULL);
	change(1, 0);
	settle();
	world_do(&world, 0, get_all, NULL);
	assert_int_equal(world_counters(&world, 0).errors, 0);
	world_close(&world);
}

/* A pool that knows one address alone learns the others, and places keys as a pool does that knew them all. */
static void one_address_is_enough(void **state)
{
	unsigned pool;
	(void)state;
	open_world(440, SERVERS);
	all_up(SERVERS);
	world_do(&world, 0, put_all, NULL);
	world.options.listed = 1;
	world.options.seeds = true;
	pool = world_pool_open(&world);
	settle();
	agree();
	world_do(&world, pool, get_all, NULL);
	world_close(&world);
}

/* The servers are all elsewhere: the one of the list, which is no member, is asked again. */
static void a_list_leads_back_to_servers_that_all_moved(void **state)
{
	(void)state;
	open_world(445, 1);
	test.state[0] = 0;
	test.state[1] = test.state[2] = KV_MEMBER_UP;
	tell(++test.epoch);
	settle();
	agree();
	for (unsigned i = 1; i < 3; i++) {
		test.state[i] = 0;
		world_server_crash(&world, i, false);
		test.state[world_server_moved(&world, i)] = KV_MEMBER_UP;
	}
	tell(++test.epoch);
	world_sleep(&world, 5 * SECOND);
	agree();
	world_do(&world, 0, put_all, NULL);
	world_do(&world, 0, get_all, NULL);
	world_close(&world);
}

static void a_view_that_has_no_room_is_not_taken(void **state)
{
	struct world_options wo = {.seed = 450, .servers = SERVERS, .listed = 1, .servers_max = 3, .heartbeat_ms = 100};
	(void)state;
	memset(&test, 0, sizeof(test));
	world_open(&world, &wo);
	all_up(SERVERS);
	assert_int_equal(epoch_here(), 0);
	assert_non_null(world_said("raise kvc_options.servers_max"));
	all_up(3);
	test.state[3] = 0;
	tell(++test.epoch);
	settle();
	assert_int_equal(epoch_here(), test.epoch);
	world_do(&world, 0, put_all, NULL);
	world_close(&world);
}

/* The server is dead; another one takes its place, at the same address or at another. */
static unsigned replaced(unsigned server)
{
	unsigned next = some(2) ? world_server_again(&world, server) : world_server_moved(&world, server);
	test.state[next] = test.state[server];
	test.state[server] = 0;
	return next;
}

/* A logical client whose session comes and goes. */
static void guest(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	(void)arg;
	while (!test.stop && !world.wrong[0]) {
		struct kvc_session_options o = {.size = sizeof(o)};
		struct kvc_call call = {.size = sizeof(call)};
		struct kv_error err;
		if (kvc_session_open_await(c, &o, &call.session, &err) < 0) {
			co_sleep_await(world_now(&world) + 50 * MS);
			continue;
		}
		for (unsigned k = some(6); k > 0 && !world.wrong[0] && !test.closed; k--) {
			uint32_t i = some(KEYS);
			get_check(i, at, kvc_get_await(c, key_of(&i), at, LONG, &call));
			kvc_pin_await(c, key_of(&i), &call);
			co_sleep_await(world_now(&world) + some(60 * MS));
		}
		if (test.closed) /* its sessions have ended with the pool */
			break;
		kvc_session_close_await(c, &call.session, SECOND);
	}
	free(at);
}

/* Views of all kinds, servers that die and come back, and an end at any time: nothing is left, and nothing touched that
 * is gone (world_close looks, and ASan). Places of servers that went are used for others. */
static void churn(uint64_t seed)
{
	unsigned now[SERVERS] = {0, 1, 2, 3};
	bool stop;
	open_world(seed, 2);
	world_do(&world, 0, put_all, NULL);
	all_up(SERVERS);
	stop = some(3) == 0;
	users_begin();
	world_worker(&world, 0, 0, guest, NULL);
	for (unsigned k = 0, rounds = 4 + some(30); k < rounds; k++) {
		unsigned at = 1 + some(SERVERS - 1);
		test.state[now[at]] = (enum kv_member_state)some(4);
		tell(++test.epoch);
		if (some(4) == 0) {
			world_server_crash(&world, now[at], some(2));
			world_sleep(&world, some(300 * MS));
			now[at] = replaced(now[at]);
		}
		if (some(4) == 0)
			kvc_node_redo(&world.pool[0].pool->client[some(2)]->node[some(2)], "the test wants it");
		world_sleep(&world, some(some(2) ? 30 * MS : 400 * MS));
	}
	test.stop = true;
	test.closed = stop;
	if (stop)
		world_pool_stop(&world, 0);
	world_join(&world, 20 * SECOND);
	world_close(&world);
}

static void nothing_is_left_of_servers_that_went(void **state)
{
	(void)state;
	for (unsigned seed = 500; seed < 500 + world_seeds(24); seed++) {
		print_message("seed %u\n", seed);
		churn(seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_come_and_go_and_no_call_fails),
		cmocka_unit_test(a_view_that_is_old_or_empty_is_not_believed),
		cmocka_unit_test(a_view_without_half_of_the_servers_is_believed_when_they_are_gone),
		cmocka_unit_test(a_draining_server_is_given_nothing_and_asked),
		cmocka_unit_test(one_address_is_enough),
		cmocka_unit_test(a_list_leads_back_to_servers_that_all_moved),
		cmocka_unit_test(a_view_that_has_no_room_is_not_taken),
		cmocka_unit_test(nothing_is_left_of_servers_that_went),
	};
	return cmocka_run_group_tests_name("sim/view", tests, NULL, NULL);
}
