/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_hot.c -- values that servers report as hot, in pools that copy them (KVC_HOT_COPIES).
 *
 * Asked is where values really are, which server a GET would go to, and that neither a copy that is gone nor a server
 * that is lost costs a hit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvclient/route/hot.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/second.h"
#include "tests/sim/churn.h"
#include "tests/sim/members.h"

enum { SERVERS = 4, KEYS = MEMBERS_KEYS, LONG = MEMBERS_LONG, MANY = 300, HOT = 5 };

static struct world *world = &members.world;

static struct world_options options(uint64_t seed)
{
	return (struct world_options){.seed = seed,
				      .servers = SERVERS,
				      .pools = 2,
				      .clients = 1,
				      .timeout_ns = 10 * SECOND,
				      .heartbeat_ms = 100,
				      .peer_timeout_ns = SECOND,
				      .buffer_bytes = 16 << 20,
				      .pool_flags = KVC_HOT_COPIES,
				      .fabric.delay_max_ns = MS};
}

static struct kvc_client *client(unsigned pool)
{
	return world->pool[pool].pool->client[0];
}

static struct kvc_key hot_key(void)
{
	static const uint32_t i = HOT;
	return members_key_of(&i);
}

static struct kc_node *first_of(unsigned pool)
{
	return route_first(client(pool), hot_key());
}

static struct kc_node *second_of(unsigned pool)
{
	return route_second(client(pool), hot_key());
}

/* ---- calls ---- */

static void get_one(struct kvc_client *c, uint32_t i)
{
	uint8_t *at = malloc(LONG);
	members_get_check(i, at, kvc_get_await(c, members_key_of(&i), at, LONG, NULL));
	free(at);
}

static void get_often(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < MANY && !members.stop; i++)
		get_one(c, HOT);
}

/* In batches, in which the key comes once. */
static void get_batches(struct kvc_client *c, void *arg)
{
	enum { N = 4 };
	static const uint32_t key[N] = {1, HOT, 2, 3};
	uint8_t *at = malloc((size_t)N * LONG);
	(void)arg;
	for (unsigned k = 0; k < 100; k++) {
		struct kvc_item item[N];
		for (unsigned i = 0; i < N; i++)
			item[i] = (struct kvc_item){
				.key = members_key_of(&key[i]), .data = at + (size_t)i * LONG, .len = LONG};
		kvc_get_batch_await(c, item, N, NULL);
		for (unsigned i = 0; i < N; i++)
			members_get_check(key[i], item[i].data, item[i].result);
	}
	free(at);
}

static void delete_hot(struct kvc_client *c, void *arg)
{
	(void)arg;
	assert_int_equal(kvc_delete_await(c, hot_key(), NULL), 0);
}

static unsigned holders[2];

static void holders_ask(struct kvc_client *c, void *arg)
{
	(void)arg;
	holders[0] = members_holders_await(c, HOT, NULL);
	holders[1] = members_holders_await(c, HOT + 1, NULL);
}

/* Which nodes have the hot value. Another one is at its own server alone. */
static unsigned hot_holders(void)
{
	const uint32_t other = HOT + 1;
	world_do(world, 0, holders_ask, NULL);
	assert_int_equal(holders[1], 1u << route_first(client(0), members_key_of(&other))->index);
	return holders[0];
}

static void open_world(const struct world_options *wo)
{
	memset(&members, 0, sizeof(members));
	world_open(world, wo);
	world_do(world, 0, members_put_all, NULL);
}

/* One value is hot for the first pool. */
static void open_hot(uint64_t seed)
{
	struct world_options wo = options(seed);
	open_world(&wo);
	world_do(world, 0, get_often, NULL);
	world_sleep(world, SECOND);
	assert_int_equal(world_counters(world, 0).copies, 1);
}

static void close_world(void)
{
	assert_int_equal(world_counters(world, 0).errors, 0);
	assert_int_equal(world_counters(world, 1).errors, 0);
	world_close(world);
}

/* Whether a GET of this pool goes to the second server if the first one has more to do. */
static bool reads_both(unsigned pool)
{
	struct kc_node *first = first_of(pool), *asked;
	first->share.reqs += 2;
	asked = route_read_first(client(pool), 0, hot_key());
	first->share.reqs -= 2;
	assert_ptr_equal(asked, asked == first ? first : second_of(pool));
	return asked != first;
}

/* ---- the tests ---- */

static void a_hot_value_has_a_second_copy_and_is_read_from_both(void **state)
{
	(void)state;
	open_hot(900);
	assert_int_equal(hot_holders(), 1u << first_of(0)->index | 1u << second_of(0)->index);
	assert_true(reads_both(0));
	assert_false(reads_both(1)); /* it has not heard yet */
	assert_int_equal(world_counters(world, 0).copy_bytes, members_len_of(HOT));
	assert_int_equal(world_counters(world, 0).repairs, 0);
	assert_int_equal(world_counters(world, 0).copies_dropped, 0);
	world_do(world, 0, get_often, NULL);
	assert_int_equal(members.misses, 0);
	assert_int_equal(world_counters(world, 0).copies, 1);
	close_world();
}

static void what_another_client_has_copied_is_not_copied_again(void **state)
{
	(void)state;
	open_hot(901);
	world_do(world, 1, get_often, NULL);
	world_sleep(world, SECOND);
	assert_true(reads_both(1));
	assert_int_equal(world_counters(world, 1).copies, 0);
	assert_int_equal(world_counters(world, 1).copies_dropped, 0);
	close_world();
}

/* Values that are asked for, but not often, have one copy. */
static void what_is_not_hot_has_one_copy(void **state)
{
	struct world_options wo = options(902);
	(void)state;
	open_world(&wo);
	for (unsigned i = 0; i < 20; i++)
		world_do(world, 0, members_get_all, NULL);
	world_sleep(world, SECOND);
	assert_int_equal(world_counters(world, 0).copies, 0);
	assert_false(reads_both(0));
	close_world();
}

/* A pool without the flag does nothing of that. */
static void a_pool_without_the_flag_copies_nothing(void **state)
{
	struct world_options wo = options(903);
	(void)state;
	wo.pool_flags = 0;
	open_world(&wo);
	world_do(world, 0, get_often, NULL);
	world_sleep(world, SECOND);
	assert_int_equal(hot_holders(), 1u << first_of(0)->index);
	close_world();
}

static void batches_and_parts_of_hot_values_are_read_from_both(void **state)
{
	(void)state;
	open_hot(904);
	for (unsigned i = 0; i < 4; i++)
		world_worker(world, 0, 0, get_batches, NULL);
	world_join(world, 60 * SECOND);
	world_do(world, 0, members_find_all, NULL);
	assert_int_equal(members.misses, 0);
	assert_true(reads_both(0));
	close_world();
}

/* The second server comes back without its values: no GET misses, and it has the copy again. */
static void a_copy_that_is_gone_costs_no_hit(void **state)
{
	unsigned second;
	(void)state;
	open_hot(905);
	second = second_of(0)->index;
	world_server_crash(world, second, false);
	world_sleep(world, 500 * MS);
	world_server_again(world, second);
	world_sleep(world, 3 * SECOND);
	assert_int_equal(client(0)->node[second].state, KC_NODE_UP);
	members.misses = 0;
	for (unsigned i = 0; i < 4; i++)
		world_worker(world, 0, 0, get_often, NULL);
	world_join(world, 60 * SECOND);
	world_sleep(world, SECOND);
	assert_int_equal(members.misses, 0);
	world_do(world, 0, holders_ask, NULL);
	assert_int_equal(holders[0] >> second & 1, 1);
	close_world();
}

/* The first one is lost: what is hot is at the server that stands in. */
static void the_loss_of_the_first_server_loses_no_hot_value(void **state)
{
	(void)state;
	open_hot(906);
	members.misses = 0;
	world_server_crash(world, first_of(0)->index, false);
	world_do(world, 0, get_often, NULL);
	world_sleep(world, 3 * SECOND);
	world_do(world, 0, get_often, NULL);
	assert_int_equal(members.misses, 0);
	close_world();
}

static void a_delete_deletes_both(void **state)
{
	(void)state;
	open_hot(907);
	world_do(world, 1, delete_hot, NULL); /* a pool that knows nothing of the copy */
	assert_int_equal(hot_holders(), 0);
	close_world();
}

/* How many GETs a server has answered, as this pool's client hears. */
static uint64_t gets[SERVERS];

static void gets_ask(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (unsigned n = 0; n < SERVERS; n++) {
		static struct kvc_stat_item item[WIRE_STAT_END];
		struct kvc_call call = {.size = sizeof(call), .server = n};
		int num = kvc_stat_await(c, item, WIRE_STAT_END, &call);
		for (int i = 0; i < num; i++)
			if (strcmp(item[i].name, "gets") == 0)
				gets[n] = item[i].value;
	}
}

/* Of a client that has one call under way at a time, both servers have as many requests: none. */
static void calls_one_after_the_other_go_to_both(void **state)
{
	uint64_t before[SERVERS];
	unsigned first, second;
	(void)state;
	open_hot(930);
	first = first_of(0)->index;
	second = second_of(0)->index;
	for (unsigned k = 0; k < 2; k++) {
		world_do(world, 0, gets_ask, NULL);
		memcpy(before, gets, sizeof(gets));
		world_do(world, 0, k ? get_batches : get_often, NULL);
		world_do(world, 0, gets_ask, NULL);
		assert_true(gets[first] - before[first] >= 30);
		assert_true(gets[second] - before[second] >= 30);
	}
	close_world();
}

static void put_hot_for_5_s(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = 5};
	uint8_t *at = malloc(LONG);
	(void)arg;
	members_value_fill(at, HOT);
	assert_int_equal(kvc_delete_await(c, hot_key(), NULL), 0);
	members_put_check(kvc_put_await(c, hot_key(), at, members_len_of(HOT), &call));
	free(at);
}

static void get_until_missed(struct kvc_client *c, void *arg)
{
	(void)arg;
	while (members.misses == 0)
		get_one(c, HOT);
}

/* A copy lives up to a second less than its value, which is not worth another copy by then. */
static void a_copy_that_cannot_be_made_anew_is_not_tried_for_each_get(void **state)
{
	struct world_options wo = options(931);
	(void)state;
	open_world(&wo);
	world_do(world, 0, put_hot_for_5_s, NULL);
	world_do(world, 0, get_until_missed, NULL);
	assert_int_equal(world_counters(world, 0).copies, 1);
	assert_in_range(world_counters(world, 0).repairs_dropped, 1, 2);
	assert_in_range(world_counters(world, 0).second_hits, 1, 8);
	close_world();
}

static void look_up(struct kvc_client *c, void *arg)
{
	static const uint32_t key[] = {HOT, HOT + 1};
	struct kvc_key keys[] = {members_key_of(&key[0]), members_key_of(&key[1])};
	uint8_t *found = arg;
	assert_int_equal(kvc_exists_await(c, keys, 2, found, NULL, NULL), 0);
}

/* The first server comes back without its values. Programs look keys up before they GET them. */
static void a_look_up_finds_the_copy(void **state)
{
	uint8_t found[2] = {0};
	unsigned first;
	(void)state;
	open_hot(932);
	first = first_of(0)->index;
	world_server_crash(world, first, false);
	world_sleep(world, 500 * MS);
	world_server_again(world, first);
	world_sleep(world, 3 * SECOND);
	assert_int_equal(client(0)->node[first].state, KC_NODE_UP);
	world_do(world, 0, look_up, found);
	assert_int_equal(found[0], 1);
	assert_int_equal(found[1], route_first(client(0), members_key_of(&(uint32_t){HOT + 1}))->index != first);
	close_world();
}

/* What is no longer asked for is read at its own server again. For a miss it counts a while longer. */
static void what_is_cold_again_is_read_at_its_own_server(void **state)
{
	(void)state;
	WORLD_LONG();
	open_hot(908);
	world_sleep(world, 31 * SECOND);
	assert_false(reads_both(0));
	assert_true(route_twice(client(0), 0, hot_key()));
	world_sleep(world, 601 * SECOND);
	assert_false(route_twice(client(0), 0, hot_key()));
	world_do(world, 0, get_often, NULL);
	world_sleep(world, SECOND);
	assert_true(reads_both(0));
	assert_int_equal(world_counters(world, 0).copies, 1); /* it was there still */
	close_world();
}

/* One server: there is nowhere to copy to, and nothing is tried for each GET. */
static void one_server_copies_nothing(void **state)
{
	struct world_options wo = options(909);
	(void)state;
	wo.servers = 1;
	open_world(&wo);
	world_do(world, 0, get_often, NULL);
	world_sleep(world, SECOND);
	assert_int_equal(world_counters(world, 0).copies, 0);
	assert_int_equal(world_counters(world, 0).copies_dropped, 0);
	close_world();
}

static void a_pool_closes_while_a_hot_value_is_copied(void **state)
{
	(void)state;
	for (unsigned seed = 910; seed < 910 + world_seeds(8); seed++) {
		struct world_options wo = options(seed);
		open_world(&wo);
		world_worker(world, 0, 0, get_often, NULL);
		world_sleep(world, kv_prng_below(&world->prng, 300 * MS));
		members.stop = true;
		world_pool_stop(world, 0);
		world_join(world, 20 * SECOND);
		world_close(world);
	}
}

static void no_call_fails_whatever_happens(void **state)
{
	(void)state;
	for (unsigned seed = 920; seed < 920 + world_seeds(6); seed++) {
		print_message("seed %u\n", seed);
		churn_run(seed, CHURN_HOT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hot_value_has_a_second_copy_and_is_read_from_both),
		cmocka_unit_test(what_another_client_has_copied_is_not_copied_again),
		cmocka_unit_test(what_is_not_hot_has_one_copy),
		cmocka_unit_test(a_pool_without_the_flag_copies_nothing),
		cmocka_unit_test(batches_and_parts_of_hot_values_are_read_from_both),
		cmocka_unit_test(a_copy_that_is_gone_costs_no_hit),
		cmocka_unit_test(the_loss_of_the_first_server_loses_no_hot_value),
		cmocka_unit_test(a_delete_deletes_both),
		cmocka_unit_test(calls_one_after_the_other_go_to_both),
		cmocka_unit_test(a_copy_that_cannot_be_made_anew_is_not_tried_for_each_get),
		cmocka_unit_test(a_look_up_finds_the_copy),
		cmocka_unit_test(what_is_cold_again_is_read_at_its_own_server),
		cmocka_unit_test(one_server_copies_nothing),
		cmocka_unit_test(a_pool_closes_while_a_hot_value_is_copied),
		cmocka_unit_test(no_call_fails_whatever_happens),
	};
	return cmocka_run_group_tests_name("sim/hot", tests, NULL, NULL);
}
