/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_clears.c -- what was put before a clear that succeeded is found by nobody, beside joins, drains,
 * standstills, copies, and PUTs that were under way. docs/internals/reliability.md has the limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvserver/server/server.h"
#include "tests/sim/members.h"

enum { SERVERS = 4, FEWER = 3, KEYS = 40, SIZES = 5, LONG = 300000, USERS = 3, CHANGES = 20 };

/* A value has the number of its PUT, which rises. Those up to `floor` had begun before a clear that succeeded. */
static struct {
	uint64_t last, floor;
	uint64_t clears, failed, found, missed, puts;
	bool stop;
} now;

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
				      .namespace_name = "sim",
				      .recall = true,
				      .fabric.delay_max_ns = MS};
}

static void open_world(const struct world_options *wo, unsigned servers)
{
	memset(&now, 0, sizeof(now));
	memset(&members, 0, sizeof(members));
	world_open(&members.world, wo);
	members_all_up(servers);
}

static uint64_t some(uint64_t n)
{
	return kv_prng_below(&members.world.prng, n);
}

static struct kvc_key key_of(const uint32_t *i)
{
	return (struct kvc_key){i, sizeof(*i)};
}

/* ---- calls ---- */

static bool unlucky(int64_t rc)
{
	return rc == -KV_EPEERDOWN || rc == -KV_ETIMEOUT || rc == -KV_ELEFT || rc == -KV_EBUSY || rc == -KV_EPROVIDER;
}

static uint32_t len_of(uint64_t number)
{
	static const uint32_t len[SIZES] = {64, 3000, 9000, 70000, LONG};
	return len[number % SIZES];
}

static void put_one(struct kvc_client *c, uint32_t i)
{
	uint64_t number = ++now.last;
	uint8_t *from = calloc(1, LONG);
	int rc;
	memcpy(from, &number, sizeof(number));
	rc = kvc_put_await(c, key_of(&i), from, len_of(number), NULL);
	if (rc != 0 && rc != -KV_EEXIST && !unlucky(rc) && !now.stop)
		world_wrong(&members.world, "clears: a PUT returned %s", kv_errname(rc));
	now.puts += rc == 0;
	memset(from, 0xEE, LONG);
	free(from);
}

static void value_check(uint32_t i, const uint8_t *at, int64_t rc, uint64_t floor)
{
	uint64_t number;
	memcpy(&number, at, sizeof(number));
	now.found += rc >= 0;
	now.missed += rc == -KV_ENOTFOUND;
	if (rc >= 0 && number <= floor)
		world_wrong(&members.world, "clears: key %u has value %llu, and all up to %llu were cleared", i,
			    (unsigned long long)number, (unsigned long long)floor);
	else if (rc >= 0 && rc != len_of(number))
		world_wrong(&members.world, "clears: key %u has a value of another length", i);
	else if (rc < 0 && rc != -KV_ENOTFOUND && !unlucky(rc) && !now.stop)
		world_wrong(&members.world, "clears: a GET returned %s", kv_errname((int)rc));
}

static void get_one(struct kvc_client *c, uint32_t i)
{
	uint64_t floor = now.floor;
	uint8_t *to = calloc(1, LONG);
	value_check(i, to, kvc_get_await(c, key_of(&i), to, LONG, NULL), floor);
	free(to);
}

static void get_batch(struct kvc_client *c)
{
	enum { N = 6 };
	uint64_t floor = now.floor;
	struct kvc_item item[N] = {0};
	uint32_t key[N], first = (uint32_t)some(KEYS);
	for (unsigned i = 0; i < N; i++) {
		key[i] = (first + i) % KEYS;
		item[i] = (struct kvc_item){.key = key_of(&key[i]), .data = calloc(1, LONG), .len = LONG};
	}
	kvc_get_batch_await(c, item, N, NULL);
	for (unsigned i = 0; i < N; i++) {
		value_check(key[i], item[i].data, item[i].result, floor);
		free(item[i].data);
	}
}

static void put_batch(struct kvc_client *c)
{
	enum { N = 6 };
	struct kvc_item item[N] = {0};
	uint32_t key[N], first = (uint32_t)some(KEYS);
	for (unsigned i = 0; i < N; i++) {
		uint64_t number = ++now.last;
		key[i] = (first + i) % KEYS;
		item[i] = (struct kvc_item){.key = key_of(&key[i]), .data = calloc(1, LONG), .len = len_of(number)};
		memcpy(item[i].data, &number, sizeof(number));
	}
	kvc_put_batch_await(c, item, N, NULL);
	for (unsigned i = 0; i < N; i++)
		free(item[i].data);
}

static void clear_now(struct kvc_client *c, void *arg)
{
	uint64_t floor = now.last;
	int rc = kvc_namespace_clear_await(c, NULL, NULL);
	(void)arg;
	if (rc == 0)
		now.floor = KV_MAX(now.floor, floor);
	else if (!unlucky(rc) && !now.stop)
		world_wrong(&members.world, "clears: a clear returned %s", kv_errname(rc));
	now.clears += rc == 0;
	now.failed += rc != 0;
}

/* ---- jobs ---- */

static void put_each(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		put_one(c, i);
}

static void get_each(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		get_one(c, i);
}

static void find_none(struct kvc_client *c, void *arg)
{
	uint8_t found[KEYS];
	struct kvc_key keys[KEYS];
	uint32_t key[KEYS];
	(void)arg;
	get_each(c, NULL);
	for (uint32_t i = 0; i < KEYS; i++) {
		key[i] = i;
		keys[i] = key_of(&key[i]);
	}
	if (kvc_exists_await(c, keys, KEYS, found, NULL, NULL) != 0 || memchr(found, 1, KEYS))
		world_wrong(&members.world, "clears: a look-up finds a key");
}

static void user(struct kvc_client *c, void *arg)
{
	(void)arg;
	while (!now.stop && !members.world.wrong[0]) {
		uint64_t pick = some(20);
		if (pick < 8)
			get_one(c, (uint32_t)some(KEYS));
		else if (pick < 14)
			put_one(c, (uint32_t)some(KEYS));
		else if (pick < 16)
			get_batch(c);
		else if (pick < 18)
			put_batch(c);
		else
			co_sleep_await(world_now(&members.world) + some(20 * MS));
	}
}

static void clearer(struct kvc_client *c, void *arg)
{
	(void)arg;
	while (!now.stop && !members.world.wrong[0]) {
		co_sleep_await(world_now(&members.world) + some(600 * MS));
		clear_now(c, NULL);
	}
}

static const unsigned kinds[] = {0, KVC_TWO_COPIES, KVC_HOT_COPIES};

/* ---- at rest ---- */

static void nobody_finds_what_was_cleared(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct world_options wo = options(2000 + i, kinds[i % KV_COUNT(kinds)]);
		open_world(&wo, FEWER);
		world_do(&members.world, 0, put_each, NULL);
		world_do(&members.world, 1, clear_now, NULL);
		assert_int_equal(now.clears, 1);
		for (unsigned pool = 0; pool < 2; pool++)
			world_do(&members.world, pool, find_none, NULL);
		assert_int_equal(now.found, 0);
		for (unsigned pool = 0; pool < 2; pool++) { /* each has other knowledge of the clear */
			world_do(&members.world, pool, put_each, NULL);
			now.found = 0;
			world_do(&members.world, !pool, get_each, NULL);
			assert_int_equal(now.found, KEYS);
			world_do(&members.world, pool, clear_now, NULL);
		}
		assert_int_equal(now.clears, 3);
		world_close(&members.world);
	}
}

/* Views arrive late, and messages take long. */
static struct world_options slow_options(uint64_t seed, unsigned flags)
{
	struct world_options wo = options(seed, flags);
	wo.heartbeat_ms = 1000;
	wo.peer_timeout_ns = 4 * SECOND;
	wo.fabric.delay_max_ns = 30 * MS;
	return wo;
}

static void read_on(struct kvc_client *c, void *arg)
{
	(void)arg;
	while (!now.stop && !members.world.wrong[0])
		get_one(c, (uint32_t)some(KEYS));
}

/* One clear, and look-ups for seconds; then the other pool's worker ends. */
static void clear_and_look(struct kvc_client *c, void *arg)
{
	(void)arg;
	co_sleep_await(world_now(&members.world) + some(1500 * MS));
	clear_now(c, NULL);
	for (unsigned k = 0; k < 6; k++) {
		find_none(c, NULL);
		co_sleep_await(world_now(&members.world) + 250 * MS);
	}
	now.stop = true;
}

static void clear_on(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (unsigned k = 0; k < 20; k++) {
		clear_now(c, NULL);
		co_sleep_await(world_now(&members.world) + some(100 * MS));
	}
	now.stop = true;
}

/* A server joins. One pool has heard of it, and copies values there; another one has not, and clears. */
static void a_copy_that_is_under_way_does_not_survive_at_a_new_member(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(12); i++) {
		struct world_options wo = slow_options(2100 + i, kinds[i % KV_COUNT(kinds)]);
		open_world(&wo, FEWER);
		world_do(&members.world, 0, put_each, NULL);
		world_worker(&members.world, 0, 0, read_on, NULL);
		members_change(SERVERS - 1, KV_MEMBER_UP);
		world_worker(&members.world, 1, 0, clear_and_look, NULL);
		world_join(&members.world, 300 * SECOND);
		assert_int_equal(now.clears, 1);
		world_close(&members.world);
	}
}

/* A server joins, and is the last to hear of it: what clients have put there is found all the time. */
static void a_value_put_at_a_new_member_is_found(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(6); i++) {
		struct world_options wo = options(2130 + i, kinds[i % KV_COUNT(kinds)]);
		open_world(&wo, FEWER);
		members.state[SERVERS - 1] = KV_MEMBER_UP;
		members.epoch++;
		for (unsigned k = 0; k < SERVERS - 1; k++)
			members_tell_one(k, members.epoch);
		world_sleep(&members.world, SECOND);
		world_do(&members.world, 0, put_each, NULL);
		members_tell_one(SERVERS - 1, members.epoch);
		for (unsigned k = 0; k < 12; k++) {
			now.found = 0;
			world_do(&members.world, 0, get_each, NULL);
			assert_int_equal(now.found, KEYS);
			world_sleep(&members.world, 500 * MS);
		}
		world_close(&members.world);
	}
}

static void put_on(struct kvc_client *c, void *arg)
{
	(void)arg;
	while (!now.stop && !members.world.wrong[0]) {
		put_one(c, (uint32_t)some(KEYS));
		get_one(c, (uint32_t)some(KEYS));
	}
}

/* A member leaves the view. One pool has not heard of it, and goes on there; another one clears. */
static void a_member_that_has_left_is_not_used_after_a_clear(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(8); i++) {
		struct world_options wo = slow_options(2150 + i, 0);
		open_world(&wo, FEWER);
		world_worker(&members.world, 0, 0, put_on, NULL);
		world_sleep(&members.world, SECOND + some(SECOND));
		members_change(1, 0);
		world_worker(&members.world, 1, 0, clear_on, NULL);
		world_join(&members.world, 300 * SECOND);
		assert_int_not_equal(now.clears, 0);
		world_close(&members.world);
	}
}

/* A server stands still and leaves the view. The pool that clears then is gone when the server is back: it asks the
 * others. */
static void a_server_that_stood_still_asks_what_was_cleared(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(6); i++) {
		struct world_options wo = options(2200 + i, kinds[i % KV_COUNT(kinds)]);
		wo.servers = FEWER;
		open_world(&wo, FEWER);
		world_do(&members.world, 0, put_each, NULL);
		world_server_freeze(&members.world, 1, true);
		members_change(1, 0);
		members_settle();
		members_settle();
		world_do(&members.world, 1, clear_now, NULL);
		assert_int_equal(now.clears, 1);
		world_pool_crash(&members.world, 1);
		members_change(1, KV_MEMBER_UP);
		world_server_freeze(&members.world, 1, false);
		for (unsigned k = 0; k < 40; k++) {
			world_do(&members.world, 0, get_each, NULL);
			world_sleep(&members.world, 200 * MS);
		}
		assert_int_equal(now.found, 0);
		assert_non_null(world_said("event=values_judged")); /* they were not just dropped */
		world_do(&members.world, 0, put_each, NULL);
		world_do(&members.world, 0, get_each, NULL);
		assert_int_equal(now.found, KEYS);
		world_close(&members.world);
	}
}

static uint64_t generation_of(unsigned server)
{
	return space_find(&members.world.server[server].server->shard[0]->store.spaces, "sim")->generation;
}

/* The same, but one of the others reports nonsense. */
static void an_impossible_generation_is_not_learned(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(3); i++) {
		struct world_options wo = options(2250 + i, kinds[i % KV_COUNT(kinds)]);
		uint64_t before;
		wo.servers = FEWER;
		open_world(&wo, FEWER);
		world_do(&members.world, 0, put_each, NULL);
		before = generation_of(1);
		world_server_freeze(&members.world, 1, true);
		members_change(1, 0);
		members_settle();
		members_settle();
		for (unsigned k = 0; k < WORLD_SHARDS; k++) {
			struct store *liar = &members.world.server[0].server->shard[k]->store;
			store_space_advance(liar, space_find(&liar->spaces, "sim"), UINT64_MAX - 1,
					    world_now(&members.world));
		}
		members_change(1, KV_MEMBER_UP);
		world_server_freeze(&members.world, 1, false);
		world_sleep(&members.world, 20 * SECOND);
		assert_non_null(world_said("event=generation_refused"));
		assert_int_equal(generation_of(1), before);
		world_close(&members.world);
	}
}

/* It was down when the namespace was cleared, and no view names members: the pool that cleared tells it. */
static void a_server_that_is_back_is_told_of_the_clear(void **state)
{
	struct world_options wo = options(2300, 0);
	unsigned again;
	(void)state;
	memset(&now, 0, sizeof(now));
	memset(&members, 0, sizeof(members));
	wo.recall = false;
	world_open(&members.world, &wo);
	world_do(&members.world, 0, put_each, NULL);
	world_server_freeze(&members.world, 1, true);
	world_do(&members.world, 0, clear_now, NULL);
	assert_int_equal(now.failed, 1);
	now.floor = now.last; /* for this pool */
	world_server_freeze(&members.world, 1, false);
	world_sleep(&members.world, 3 * SECOND);
	world_do(&members.world, 0, find_none, NULL);
	world_do(&members.world, 0, clear_now, NULL);
	assert_int_equal(now.clears, 1);
	world_server_crash(&members.world, 2, false);
	world_sleep(&members.world, 2 * SECOND);
	again = world_server_again(&members.world, 2);
	world_sleep(&members.world, 2 * SECOND);
	assert_int_equal(generation_of(again), generation_of(0));
	world_close(&members.world);
}

/* ---- a storm ---- */

static void change_some(void)
{
	static const enum kv_member_state to[] = {0, KV_MEMBER_JOINING, KV_MEMBER_UP, KV_MEMBER_UP, KV_MEMBER_DRAINING};
	unsigned which = 1 + (unsigned)some(SERVERS - 1);
	if (some(4) == 0) {
		world_server_freeze(&members.world, which, true);
		world_sleep(&members.world, some(4 * SECOND));
		world_server_freeze(&members.world, which, false);
	} else {
		members.state[which] = to[some(KV_COUNT(to))];
		members_tell(++members.epoch);
	}
	world_sleep(&members.world, some(3 * SECOND));
}

static void storm_run(uint64_t seed, unsigned flags)
{
	struct world_options wo = options(seed, flags);
	open_world(&wo, SERVERS);
	for (uintptr_t u = 0; u < USERS; u++)
		world_worker(&members.world, u % 2, 0, user, NULL);
	world_worker(&members.world, 1, 0, clearer, NULL);
	if (some(2))
		world_worker(&members.world, 0, 0, clearer, NULL);
	for (unsigned k = 0; k < CHANGES && !members.world.wrong[0]; k++)
		change_some();
	now.stop = true;
	world_join(&members.world, 30 * SECOND);
	assert_int_not_equal(now.clears, 0);
	assert_int_not_equal(now.found, 0);
	world_close(&members.world);
}

static void what_is_cleared_in_a_storm_stays_cleared(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_storms(12); i++)
		storm_run(2400 + i, kinds[i % KV_COUNT(kinds)]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_finds_what_was_cleared),
		cmocka_unit_test(a_copy_that_is_under_way_does_not_survive_at_a_new_member),
		cmocka_unit_test(a_value_put_at_a_new_member_is_found),
		cmocka_unit_test(a_member_that_has_left_is_not_used_after_a_clear),
		cmocka_unit_test(a_server_that_stood_still_asks_what_was_cleared),
		cmocka_unit_test(an_impossible_generation_is_not_learned),
		cmocka_unit_test(a_server_that_is_back_is_told_of_the_clear),
		cmocka_unit_test(what_is_cleared_in_a_storm_stays_cleared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
