/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_deletes.c -- what was deleted, or touched to live shorter, stays so: beside copies of other clients, changes
 * of the view, servers that were away, and values with other bytes. docs/internals/reliability.md has the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvclient/call/keyed.h"
#include "kvclient/conn/node.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/call.h"
#include "tests/sim/members.h"

enum { SERVERS = 4, FEWER = 3, KEYS = MEMBERS_KEYS };

static struct world_options options(uint64_t seed, unsigned flags)
{
	return (struct world_options){.seed = seed,
				      .servers = SERVERS,
				      .pools = 2,
				      .clients = 1,
				      .timeout_ns = 10 * SECOND,
				      .heartbeat_ms = 100,
				      .peer_timeout_ns = SECOND,
				      .pool_flags = flags,
				      .fabric.delay_max_ns = MS};
}

static void open_world(const struct world_options *wo)
{
	memset(&members, 0, sizeof(members));
	world_open(&members.world, wo);
	members_all_up(FEWER);
}

static struct kvc_client *client(unsigned pool)
{
	return members.world.pool[pool].pool->client[0];
}

/* ---- jobs ---- */

static unsigned at; /* the key that the reader is at */

static void read_slowly(struct kvc_client *c, void *arg)
{
	uint8_t *to = malloc(MEMBERS_LONG);
	(void)arg;
	for (at = 0; at < KEYS; at++) {
		uint32_t i = at;
		(void)kvc_get_await(c, members_key_of(&i), to, MEMBERS_LONG, NULL);
		co_sleep_await(world_now(&members.world) + 20 * MS);
	}
	free(to);
}

/* Soon after the other pool has asked for each key. arg: seconds to live; 0: delete it. */
static void undo_each(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = (uint32_t)(uintptr_t)arg};
	for (uint32_t i = 0; i < KEYS; i++) {
		int rc;
		while (at < i)
			co_sleep_await(world_now(&members.world) + MS / 10);
		co_sleep_await(world_now(&members.world) + kv_prng_below(&members.world.prng, 8 * MS));
		rc = call.ttl_s ? kvc_touch_await(c, members_key_of(&i), &call)
				: kvc_delete_await(c, members_key_of(&i), NULL);
		if (rc != 0 && (rc != -KV_ENOTFOUND || call.ttl_s))
			world_wrong(&members.world, "a DELETE or TOUCH returned %s", kv_errname(rc));
	}
}

static void touch_each(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = (uint32_t)(uintptr_t)arg};
	for (uint32_t i = 0; i < KEYS; i++)
		if (kvc_touch_await(c, members_key_of(&i), &call) != 0)
			world_wrong(&members.world, "a TOUCH does not find key %u", i);
}

static void put_each_for(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = (uint32_t)(uintptr_t)arg};
	uint8_t *from = malloc(MEMBERS_LONG);
	for (uint32_t i = 0; i < KEYS; i++) {
		members_value_fill(from, i);
		members_put_check(kvc_put_await(c, members_key_of(&i), from, members_len_of(i), &call));
	}
	free(from);
}

static void nothing_is_found(void)
{
	for (unsigned pool = 0; pool < 2; pool++)
		world_do(&members.world, pool, members_find_none, NULL);
}

/* ---- another client's copies ---- */

/* One pool reads what a join has moved, and has it copied; the other one deletes each key at that moment, or has it
 * live for a second instead of a thousand. */
static void join_undone(uint64_t seed, unsigned flags, uint32_t ttl_s)
{
	struct world_options wo = options(seed, flags);
	open_world(&wo);
	world_do(&members.world, 0, put_each_for, (void *)1000);
	members_all_up(SERVERS);
	at = 0;
	world_worker(&members.world, 0, 0, read_slowly, NULL);
	world_worker(&members.world, 1, 0, undo_each, (void *)(uintptr_t)ttl_s);
	world_join(&members.world, 60 * SECOND);
	world_sleep(&members.world, 2 * SECOND);
	nothing_is_found();
	world_sleep(&members.world, 30 * SECOND);
	nothing_is_found();
	world_close(&members.world);
}

static const unsigned kinds[] = {0, KVC_TWO_COPIES, KVC_HOT_COPIES};

static void a_copy_of_another_client_undoes_no_delete(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(6); i++)
		join_undone(800 + i, kinds[i % KV_COUNT(kinds)], 0);
}

static void a_copy_of_another_client_undoes_no_touch(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(6); i++)
		join_undone(820 + i, kinds[i % KV_COUNT(kinds)], 1);
}

/* Nothing at the same time: values with a long life are read, so that some are at two servers, and then touched. */
static void a_shorter_life_is_one_everywhere(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct world_options wo = options(840 + i, kinds[i % KV_COUNT(kinds)]);
		open_world(&wo);
		world_do(&members.world, 0, put_each_for, (void *)1000);
		if (i < 3)
			members_all_up(SERVERS);
		else
			members_change(1, KV_MEMBER_DRAINING);
		members_settle();
		world_do(&members.world, 0, members_get_all, NULL);
		world_sleep(&members.world, 5 * SECOND);
		world_do(&members.world, 0, touch_each, (void *)1);
		world_sleep(&members.world, 2 * SECOND);
		nothing_is_found();
		assert_int_equal(members.misses, 0);
		world_close(&members.world);
	}
}

/* A longer life is one everywhere, too, as far as the servers are up. */
static void a_longer_life_survives_a_change_of_the_view(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct world_options wo = options(850 + i, kinds[i]);
		open_world(&wo);
		world_do(&members.world, 0, put_each_for, (void *)10);
		world_do(&members.world, 0, touch_each, (void *)1000);
		members_all_up(SERVERS);
		world_do(&members.world, 0, touch_each, (void *)1000);
		world_sleep(&members.world, 20 * SECOND);
		world_do(&members.world, 0, members_get_all, NULL);
		assert_int_equal(members.misses, 0);
		world_close(&members.world);
	}
}

/* ---- servers that were away ---- */

/* A server is out of the view for two seconds, as when its lease was lost, and has its memory still. Its values are
 * hidden at once; since nobody tells it what was deleted (kvs_options.recall), it drops them. What is put afterwards
 * stays. */
static void a_server_that_was_no_member_brings_nothing_back(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct world_options wo = options(860 + i, kinds[i / 2]);
		wo.listed = i % 2 ? FEWER : 1;
		open_world(&wo);
		world_do(&members.world, 0, members_put_all, NULL);
		members_change(1, 0);
		members_settle();
		world_do(&members.world, 0, members_delete_all, NULL);
		members_change(1, KV_MEMBER_UP);
		members_settle();
		nothing_is_found();
		world_do(&members.world, 0, members_put_all, NULL);
		world_sleep(&members.world, 10 * SECOND);
		world_do(&members.world, 1, members_get_all, NULL);
		assert_int_equal(members.misses, 0);
		assert_int_equal(world_server_stat(&members.world, WIRE_STAT_DOUBTS), 1);
		world_close(&members.world);
	}
}

/* A server stands still, so that others stand in for it. What is deleted meanwhile it is told of before a call goes
 * there. What is put afterwards stays. */
static void a_server_that_stood_still_is_told_what_was_deleted(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct world_options wo = options(880 + i, kinds[i % KV_COUNT(kinds)]);
		open_world(&wo);
		world_do(&members.world, 0, members_put_all, NULL);
		world_server_freeze(&members.world, 1, true);
		world_do(&members.world, 0, members_delete_all, NULL); /* (the first calls wait until it is down) */
		world_sleep(&members.world, 2 * SECOND);
		world_do(&members.world, 0, members_delete_all, NULL);
		world_server_freeze(&members.world, 1, false);
		members_settle();
		members_settle();
		nothing_is_found();
		world_do(&members.world, 0, members_put_all, NULL);
		members_settle();
		world_do(&members.world, 1, members_get_all, NULL);
		assert_int_equal(members.misses, 0);
		assert_int_not_equal(world_counters(&members.world, 0).deletes_owed, 0);
		world_close(&members.world);
	}
}

/* Keys of one kind: each second one. arg: the kind. */
static void delete_half(struct kvc_client *c, void *arg)
{
	for (uint32_t i = (uint32_t)(uintptr_t)arg; i < KEYS; i += 2) {
		int rc = kvc_delete_await(c, members_key_of(&i), NULL);
		if (rc != 0 && rc != -KV_ENOTFOUND)
			world_wrong(&members.world, "a DELETE returned %s", kv_errname(rc));
	}
}

static void find_half(struct kvc_client *c, void *arg)
{
	uint8_t *to = malloc(MEMBERS_LONG);
	for (uint32_t i = 0; i < KEYS; i++) {
		int64_t rc = kvc_get_await(c, members_key_of(&i), to, MEMBERS_LONG, NULL);
		if (i % 2 != (uintptr_t)arg)
			members_get_check(i, to, rc);
		else if (rc != -KV_ENOTFOUND)
			world_wrong(&members.world, "deletes: key %u is found", i);
	}
	free(to);
}

/* A server stands still for longer than clients wait, and the client that deletes meanwhile is killed: nobody tells the
 * server. It notices by itself, and asks the other members, before another client finds anything. Twice. */
static void a_server_that_stood_still_asks_what_was_deleted(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct world_options wo = options(1310 + i, i % 2 ? KVC_TWO_COPIES : 0);
		wo.recall = true;
		wo.listed = 1 + i / 2;
		open_world(&wo);
		world_do(&members.world, 0, members_put_all, NULL);
		world_server_freeze(&members.world, 1, true);
		world_do(&members.world, 0, delete_half, (void *)(uintptr_t)(i / 2));
		world_pool_crash(&members.world, 0);
		world_sleep(&members.world, 2 * SECOND);
		world_server_freeze(&members.world, 1, false);
		for (unsigned k = 0; k < 40; k++) {
			world_do(&members.world, 1, find_half, (void *)(uintptr_t)(i / 2));
			world_sleep(&members.world, 100 * MS);
		}
		members_settle();
		members.misses = 0;
		world_do(&members.world, 1, find_half, (void *)(uintptr_t)(i / 2));
		assert_int_equal(members.misses, 0);
		assert_non_null(world_said("event=stood_still"));
		assert_int_equal(world_server_stat(&members.world, WIRE_STAT_DOUBTS), 1);
		world_close(&members.world);
	}
}

static void find_no_key(struct kvc_client *c, void *arg)
{
	uint32_t i = (uint32_t)(uintptr_t)arg;
	uint8_t *to = malloc(MEMBERS_LONG);
	if (kvc_get_await(c, members_key_of(&i), to, MEMBERS_LONG, NULL) != -KV_ENOTFOUND)
		world_wrong(&members.world, "deletes: key %u is found", i);
	free(to);
}

/* The same. Requests of a client that stood still as well wait at the server when it goes on: it serves none before it
 * has noticed. */
static void a_server_that_stood_still_hides_its_values_first(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct world_options wo = options(1316 + i, 0);
		wo.recall = true;
		open_world(&wo);
		world_do(&members.world, 0, members_put_all, NULL);
		world_server_freeze(&members.world, 1, true);
		sim_loop_freeze(members.world.pool[1].loop[0], true);
		world_do(&members.world, 0, members_delete_all, NULL);
		world_pool_crash(&members.world, 0);
		world_sleep(&members.world, 2 * SECOND);
		sim_loop_freeze(members.world.pool[1].loop[0], false);
		for (uintptr_t k = 0; k < KEYS; k++)
			world_worker(&members.world, 1, 0, find_no_key, (void *)k);
		world_sleep(&members.world, 100 * MS);
		world_server_freeze(&members.world, 1, false);
		world_join(&members.world, 20 * SECOND);
		world_close(&members.world);
	}
}

/* No client gives a server up that soon: nothing is hidden. Nor is anything where a server is alone. */
static void a_short_pause_hides_nothing(void **state)
{
	(void)state;
	for (unsigned alone = 0; alone < 2; alone++) {
		struct world_options wo = options(1320 + alone, 0);
		wo.recall = true;
		wo.peer_timeout_ns = 2 * SECOND;
		memset(&members, 0, sizeof(members));
		world_open(&members.world, &wo);
		members_all_up(alone ? 1 : FEWER);
		world_do(&members.world, 0, members_put_all, NULL);
		world_server_freeze(&members.world, alone ? 0 : 1, true);
		world_sleep(&members.world, alone ? 10 * SECOND : 1800 * MS);
		world_server_freeze(&members.world, alone ? 0 : 1, false);
		world_sleep(&members.world, alone ? 2 * SECOND : 10 * MS);
		world_do(&members.world, 0, members_get_all, NULL);
		assert_int_equal(members.misses, 0);
		assert_int_equal(world_server_stat(&members.world, WIRE_STAT_DOUBTS), 0);
		world_close(&members.world);
	}
}

/* ---- servers that had a key longer ago than DELETE asks ---- */

/* Nearly all keys are this server's. */
static void give_all(unsigned server)
{
	for (unsigned i = 0; i < SERVERS; i++)
		members.weight[i] = i == server ? 500 : 1;
	members_tell(++members.epoch);
	members_settle();
}

/* Keys have moved more often than former servers are known (KC_FORMER_PLACES), and are deleted where they are now.
 * Then they are the first server's again, which has the values: the client tells it. */
static void what_moved_often_and_was_deleted_does_not_come_back(void **state)
{
	(void)state;
	for (unsigned moves = 3; moves < 8; moves++) {
		struct world_options wo = options(1330, 0);
		memset(&members, 0, sizeof(members));
		world_open(&members.world, &wo);
		members_all_up(SERVERS);
		give_all(0);
		world_do(&members.world, 0, put_each_for, (void *)10000);
		for (unsigned k = 0; k < moves; k++)
			give_all(1 + k % 3);
		world_do(&members.world, 0, members_delete_all, NULL);
		world_sleep(&members.world, 60 * SECOND);
		give_all(0);
		nothing_is_found();
		world_close(&members.world);
	}
}

/* The same when former servers are known no more, after settle_ns (ten minutes): a server joins, and leaves later. What
 * was put again in between stays. */
static void what_was_deleted_long_after_a_join_does_not_come_back(void **state)
{
	(void)state;
	WORLD_LONG();
	for (unsigned i = 0; i < 2; i++) {
		struct world_options wo = options(1340 + i, 0);
		wo.heartbeat_ms = 1000;
		open_world(&wo);
		world_do(&members.world, 0, put_each_for, (void *)100000);
		members_all_up(SERVERS);
		world_sleep(&members.world, 700 * SECOND);
		world_do(&members.world, 0, members_delete_all, NULL);
		world_sleep(&members.world, 60 * SECOND);
		if (i == 1)
			members_change(SERVERS - 1, KV_MEMBER_DRAINING);
		else
			members_change(SERVERS - 1, 0);
		members_settle();
		nothing_is_found();
		world_do(&members.world, 0, members_put_all, NULL);
		members_settle();
		world_do(&members.world, 1, members_get_all, NULL);
		assert_int_equal(members.misses, 0);
		world_close(&members.world);
	}
}

/* ---- two values of one key ---- */

static void put_a(struct kvc_client *c, void *arg)
{
	uint32_t i = 0;
	uint8_t a[2000];
	(void)arg;
	memset(a, 'A', sizeof(a));
	members_put_check(kvc_put_await(c, members_key_of(&i), a, sizeof(a), NULL));
}

/* Each time: PUT A, GETs, DELETE, PUT B; then nobody finds A any more. */
static void replace_each(struct kvc_client *c, void *arg)
{
	uint8_t to[3000], from[3000];
	(void)arg;
	for (uint32_t i = 100; i < 160; i++) {
		memset(from, 'A', sizeof(from));
		members_put_check(kvc_put_await(c, members_key_of(&i), from, 2000, NULL));
		for (unsigned k = 0; k < 100; k++)
			(void)kvc_get_await(c, members_key_of(&i), to, sizeof(to), NULL);
		if (kvc_delete_await(c, members_key_of(&i), NULL) != 0)
			world_wrong(&members.world, "a DELETE of what is there failed");
		memset(from, 'B', sizeof(from));
		members_put_check(kvc_put_await(c, members_key_of(&i), from, 3000, NULL));
		for (unsigned k = 0; k < 20; k++)
			if (kvc_get_await(c, members_key_of(&i), to, sizeof(to), NULL) != 3000 || to[0] != 'B')
				world_wrong(&members.world, "deletes: a GET finds another value than was put last");
	}
}

static void of_two_copies_none_is_the_deleted_value(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(4); i++) {
		struct world_options wo = options(900 + i, i % 2 ? KVC_TWO_COPIES : KVC_HOT_COPIES);
		open_world(&wo);
		world_do(&members.world, 0, put_a, NULL);
		world_worker(&members.world, 0, 0, replace_each, NULL);
		world_worker(&members.world, 1, 0, read_slowly, NULL);
		world_join(&members.world, 120 * SECOND);
		world_close(&members.world);
	}
}

/* Pool 1 has kept to a server that was cut off from pool 0. So two servers have a value of one key, with other bytes:
 * the older one goes when it is to be copied. */
static struct kc_node *second_of(struct kvc_client *c, uint32_t i, struct kc_node **first)
{
	struct kc_place_set others = {0};
	struct kvc_key key = members_key_of(&i);
	*first = route_first(c, key);
	kc_place_set_put(&others, (*first)->index, true);
	return &c->node[kc_place_among(c->placement, key.data, key.len, &others)];
}

static void put_b_at_second(struct kvc_client *c, void *arg)
{
	uint32_t i = 0;
	uint8_t b[3000];
	(void)arg;
	memset(b, 'B', sizeof(b));
	members_put_check(kvc_put_await(c, members_key_of(&i), b, sizeof(b), NULL));
}

static void get_often(struct kvc_client *c, void *arg)
{
	uint8_t to[3000];
	uint32_t i = 0;
	(void)arg;
	for (unsigned k = 0; k < 200; k++) {
		(void)kvc_get_await(c, members_key_of(&i), to, sizeof(to), NULL);
		co_sleep_await(world_now(&members.world) + MS);
	}
}

static void is_b(struct kvc_client *c, void *arg)
{
	uint8_t to[3000];
	uint32_t i = 0;
	(void)arg;
	for (unsigned k = 0; k < 20; k++) {
		int64_t rc = kvc_get_await(c, members_key_of(&i), to, sizeof(to), NULL);
		if (rc >= 0 && (rc != 3000 || to[0] != 'B'))
			world_wrong(&members.world, "deletes: the older of two values was kept");
	}
}

static void of_two_values_the_older_one_yields(void **state)
{
	struct world_options wo = options(920, KVC_HOT_COPIES);
	struct kc_node *first, *second;
	unsigned frozen;
	(void)state;
	open_world(&wo);
	world_do(&members.world, 0, put_a, NULL);
	second = second_of(client(0), 0, &first);
	frozen = first->index;
	world_server_freeze(&members.world, frozen, true);
	world_sleep(&members.world, 5 * SECOND);
	assert_ptr_equal(route_first(client(0), members_key_of(&(uint32_t){0})), second);
	world_do(&members.world, 0, put_b_at_second, NULL);
	world_server_freeze(&members.world, frozen, false);
	world_sleep(&members.world, 5 * SECOND);
	world_do(&members.world, 1, get_often, NULL); /* A is hot, and to be copied to where B is */
	world_sleep(&members.world, 5 * SECOND);
	world_do(&members.world, 1, is_b, NULL);
	assert_int_not_equal(world_counters(&members.world, 1).copies_yielded +
				     world_server_stat(&members.world, WIRE_STAT_COPIES_REPLACED),
			     0);
	world_close(&members.world);
}

/* ---- a storm ---- */

enum { FEW = 24, USERS = 4, WORDS = 50, CHANGES = 24 };
static struct {
	uint32_t of[FEW], last; /* the version that is there, perhaps; 0: deleted */
	bool stop;
} now_there;

static void storm_get(struct kvc_client *c, uint32_t i)
{
	uint32_t value[WORDS];
	int64_t rc = kvc_get_await(c, members_key_of(&i), value, sizeof(value), NULL);
	if (rc > 0 && value[0] != now_there.of[i])
		world_wrong(&members.world, "storm: key %u has version %u, not %u", i, value[0], now_there.of[i]);
	else if (rc < 0 && rc != -KV_ENOTFOUND)
		world_wrong(&members.world, "storm: a GET returned %s", kv_errname((int)rc));
}

static void storm_put(struct kvc_client *c, uint32_t i)
{
	uint32_t value[WORDS] = {++now_there.last};
	int rc;
	if (now_there.of[i])
		return;
	now_there.of[i] = now_there.last;
	rc = kvc_put_await(c, members_key_of(&i), value, sizeof(value), NULL);
	if (rc != 0)
		world_wrong(&members.world, "storm: a PUT returned %s", kv_errname(rc));
}

static void storm_drop(struct kvc_client *c, uint32_t i)
{
	int rc = kvc_delete_await(c, members_key_of(&i), NULL);
	now_there.of[i] = 0;
	if (rc != 0 && rc != -KV_ENOTFOUND)
		world_wrong(&members.world, "storm: a DELETE returned %s", kv_errname(rc));
}

/* Each user has keys of its own; another pool reads all of them, and copies what it finds. */
static void storm_user(struct kvc_client *c, void *arg)
{
	struct kv_prng *prng = &members.world.prng;
	while (!now_there.stop && !members.world.wrong[0]) {
		uint32_t i = (uint32_t)(uintptr_t)arg + USERS * (uint32_t)kv_prng_below(prng, FEW / USERS);
		uint64_t pick = kv_prng_below(prng, 20);
		if (pick < 12)
			storm_get(c, i);
		else if (pick < 16)
			storm_put(c, i);
		else if (pick < 18)
			storm_drop(c, i);
		else
			co_sleep_await(world_now(&members.world) + kv_prng_below(prng, 20 * MS));
	}
}

static void storm_reader(struct kvc_client *c, void *arg)
{
	struct kv_prng *prng = &members.world.prng;
	uint32_t value[WORDS];
	(void)arg;
	while (!now_there.stop && !members.world.wrong[0]) {
		uint32_t i = (uint32_t)kv_prng_below(prng, FEW);
		(void)kvc_get_await(c, members_key_of(&i), value, sizeof(value), NULL);
		co_sleep_await(world_now(&members.world) + kv_prng_below(prng, 3 * MS));
	}
}

static void storm_run(uint64_t seed, unsigned flags)
{
	struct world_options wo = options(seed, flags);
	struct kv_prng *prng = &members.world.prng;
	memset(&now_there, 0, sizeof(now_there));
	memset(&members, 0, sizeof(members));
	world_open(&members.world, &wo);
	members_all_up(SERVERS);
	for (uintptr_t u = 0; u < USERS; u++)
		world_worker(&members.world, 0, 0, storm_user, (void *)u);
	world_worker(&members.world, 1, 0, storm_reader, NULL);
	for (unsigned k = 1; k <= CHANGES && !members.world.wrong[0]; k++) {
		unsigned which = 1 + (unsigned)kv_prng_below(prng, SERVERS - 1);
		static const enum kv_member_state to[] = {0, KV_MEMBER_JOINING, KV_MEMBER_UP, KV_MEMBER_UP};
		members.state[which] = to[kv_prng_below(prng, KV_COUNT(to))];
		members_tell(++members.epoch);
		world_sleep(&members.world, SECOND + kv_prng_below(prng, 2 * SECOND));
	}
	now_there.stop = true;
	world_join(&members.world, 20 * SECOND);
	world_close(&members.world);
}

static void what_is_deleted_in_a_storm_stays_deleted(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_storms(6); i++)
		storm_run(940 + i, kinds[i % KV_COUNT(kinds)]);
}

/* A server begins to drain. Another pool hears of it first, and copies the server's values to those that take its
 * place, as the server's own push does. This client deletes them before it has heard: by then that is known at the
 * former server alone. */
static void what_is_deleted_before_a_drain_is_heard_of_stays_deleted(void **state)
{
	struct world_options wo = options(1300, 0);
	unsigned late;
	(void)state;
	wo.pools = 1;
	wo.heartbeat_ms = 2000;
	open_world(&wo);
	world_sleep(&members.world, 5 * SECOND);
	world_do(&members.world, 0, put_each_for, (void *)1000);
	assert_int_equal(kvs_server_drains(members.world.server[1].server), 0);
	late = world_pool_open(&members.world);
	assert_int_equal(client(late)->cluster.draining.count, 1);
	world_do(&members.world, late, members_get_all, NULL);
	world_sleep(&members.world, 200 * MS);
	assert_int_not_equal(world_counters(&members.world, late).repairs, 0);
	assert_int_equal(client(0)->cluster.draining.count, 0);
	world_do(&members.world, 0, members_delete_all, NULL);
	assert_int_equal(client(0)->cluster.draining.count, 0);
	world_sleep(&members.world, 5 * SECOND);
	assert_int_equal(client(0)->cluster.draining.count, 1);
	nothing_is_found();
	world_close(&members.world);
}

static void delete_at_each(struct kvc_client *c, void *arg)
{
	uint64_t before = *(const uint64_t *)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		struct kvc_key key = members_key_of(&i);
		if (kc_delete_at_await(c, key, before, NULL) != -KV_ENOTFOUND)
			world_wrong(&members.world, "a DELETE of a time before its value was put has deleted it");
		if (i % 2 && kc_delete_at_await(c, key, world_now(&members.world), NULL) != 0)
			world_wrong(&members.world, "a DELETE of a time finds nothing");
	}
}

static void find_even(struct kvc_client *c, void *arg)
{
	uint8_t *to = malloc(MEMBERS_LONG);
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		if ((kvc_get_await(c, members_key_of(&i), to, MEMBERS_LONG, NULL) >= 0) != (i % 2 == 0))
			world_wrong(&members.world, "of key %u the wrong value was deleted", i);
	free(to);
}

/* A server that drains repeats a DELETE that came to it alone: a value that was put since stays. */
static void a_delete_of_a_time_spares_what_was_put_since(void **state)
{
	const struct world_options wo = options(1400, 0);
	uint64_t before;
	(void)state;
	open_world(&wo);
	world_sleep(&members.world, 5 * SECOND);
	before = world_now(&members.world);
	world_sleep(&members.world, SECOND);
	world_do(&members.world, 0, members_put_all, NULL);
	world_do(&members.world, 1, delete_at_each, &before);
	world_do(&members.world, 0, find_even, NULL);
	world_close(&members.world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_of_another_client_undoes_no_delete),
		cmocka_unit_test(a_copy_of_another_client_undoes_no_touch),
		cmocka_unit_test(a_shorter_life_is_one_everywhere),
		cmocka_unit_test(a_longer_life_survives_a_change_of_the_view),
		cmocka_unit_test(a_server_that_was_no_member_brings_nothing_back),
		cmocka_unit_test(a_server_that_stood_still_is_told_what_was_deleted),
		cmocka_unit_test(a_server_that_stood_still_asks_what_was_deleted),
		cmocka_unit_test(a_server_that_stood_still_hides_its_values_first),
		cmocka_unit_test(a_short_pause_hides_nothing),
		cmocka_unit_test(what_moved_often_and_was_deleted_does_not_come_back),
		cmocka_unit_test(what_was_deleted_long_after_a_join_does_not_come_back),
		cmocka_unit_test(of_two_copies_none_is_the_deleted_value),
		cmocka_unit_test(of_two_values_the_older_one_yields),
		cmocka_unit_test(what_is_deleted_before_a_drain_is_heard_of_stays_deleted),
		cmocka_unit_test(a_delete_of_a_time_spares_what_was_put_since),
		cmocka_unit_test(what_is_deleted_in_a_storm_stays_deleted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
