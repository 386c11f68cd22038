/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_copies.c -- values that are kept at two servers (KVC_TWO_COPIES).
 *
 * Asked is where values really are, at each server by itself, and what calls say of them: while one server is lost, is
 * there again without its values, drains, joins or is behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvclient/call/batch.h"
#include "kvclient/call/keyed.h"
#include "kvclient/core/placement.h"
#include "kvclient/copies/private.h"
#include "kvclient/route/private.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/second.h"
#include "kvclient/transfer/call.h"
#include "kvclient/transfer/get.h"
#include "tests/sim/churn.h"
#include "tests/sim/members.h"

enum { SERVERS = 4, KEYS = MEMBERS_KEYS, LONG = MEMBERS_LONG, PART = 100000 };

static struct world *world = &members.world;

static struct world_options options(uint64_t seed)
{
	return (struct world_options){.seed = seed,
				      .servers = SERVERS,
				      .clients = 1,
				      .timeout_ns = 10 * SECOND,
				      .heartbeat_ms = 100,
				      .peer_timeout_ns = SECOND,
				      .buffer_bytes = 16 << 20,
				      .pool_flags = KVC_TWO_COPIES,
				      .fabric.delay_max_ns = MS};
}

static void open_with(const struct world_options *wo)
{
	memset(&members, 0, sizeof(members));
	world_open(world, wo);
}

static void open_world(uint64_t seed)
{
	struct world_options wo = options(seed);
	open_with(&wo);
}

static struct kvc_client *client(void)
{
	return world->pool[0].pool->client[0];
}

static struct kvc_counters counters(void)
{
	return world_counters(world, 0);
}

static void rest(void)
{
	world_sleep(world, 500 * MS);
}

static void close_world(void)
{
	assert_int_equal(counters().errors, 0);
	world_close(world);
}

/* ---- where values are ---- */

static unsigned first_two(struct kvc_client *c, uint32_t i)
{
	const struct kc_node *second = route_second(c, members_key_of(&i));
	return 1u << route_first(c, members_key_of(&i))->index | (second ? 1u << second->index : 0);
}

/* All keys are at the two servers that they should be at, and at no other. */
static void check_two(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		unsigned at = members_holders_await(c, i, NULL);
		if (at != first_two(c, i))
			world_wrong(world, "copies: key %u is at %x, and belongs to %x", i, at, first_two(c, i));
	}
}

static void check_none(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		if (members_holders_await(c, i, NULL))
			world_wrong(world, "copies: key %u was deleted and is there", i);
}

static uint64_t all_bytes(void)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < KEYS; i++)
		n += members_len_of(i);
	return n;
}

/* How many keys have the server as one of their two. */
static unsigned keys_at(unsigned node)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < KEYS; i++)
		n += first_two(client(), i) >> node & 1;
	return n;
}

/* ---- calls ---- */

struct batch {
	struct kvc_item item[KEYS];
	uint32_t key[KEYS];
	uint8_t *memory;
};

static void batch_make(struct batch *b, bool fill)
{
	memset(b, 0, sizeof(*b));
	b->memory = malloc((size_t)KEYS * LONG);
	for (uint32_t i = 0; i < KEYS; i++) {
		b->key[i] = i;
		b->item[i] = (struct kvc_item){.key = members_key_of(&b->key[i]),
					       .data = b->memory + (size_t)i * LONG,
					       .len = members_len_of(i)};
		if (fill)
			members_value_fill(b->item[i].data, i);
	}
}

/* As kvc_put_batch_await, and as queues do it. The memory is another's the moment that the call returns. */
static void put_batch(struct kvc_client *c, void *arg)
{
	struct batch *b = malloc(sizeof(*b));
	(void)arg;
	batch_make(b, true);
	if (kc_batch_await(c, KVC_OP_PUT, b->item, KEYS, NULL, NULL) != 0)
		world_wrong(world, "copies: a batch of PUTs failed");
	memset(b->memory, 0xEE, (size_t)KEYS * LONG);
	free(b->memory);
	free(b);
}

static void put_and_spoil(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		members_value_fill(at, i);
		members_put_check(kvc_put_await(c, members_key_of(&i), at, members_len_of(i), NULL));
		memset(at, 0xEE, LONG);
	}
	free(at);
}

/* Slices with gaps between them. */
static void put_slices(struct kvc_client *c, void *arg)
{
	struct batch *b = malloc(sizeof(*b));
	uint8_t *sparse = malloc((size_t)2 * LONG * KEYS);
	(void)arg;
	batch_make(b, false);
	for (uint32_t i = 0; i < KEYS; i++) {
		b->item[i].data = sparse + (size_t)2 * LONG * i;
		b->item[i].slice = (b->item[i].len + 3) / 4;
		b->item[i].stride = 2 * b->item[i].slice;
		memset(b->item[i].data, (int)(i * 7 + 1), (size_t)2 * LONG);
	}
	if (kvc_put_batch_await(c, b->item, KEYS, NULL) != 0)
		world_wrong(world, "copies: a batch of slices failed");
	memset(sparse, 0xEE, (size_t)2 * LONG * KEYS);
	free(sparse);
	free(b->memory);
	free(b);
}

/* GET each value into a borrowed piece. */
static void get_borrowed(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		struct kvc_borrowed b;
		int64_t rc = kvc_get_borrowed_await(c, members_key_of(&i), members_len_of(i), NULL, &b);
		members_get_check(i, b.data, rc);
		kvc_borrowed_release(c, &b);
	}
}

/* GET the long values in parts. */
static void get_parts(struct kvc_client *c, void *arg)
{
	static uint8_t at[KEYS][LONG];
	static const uint64_t ends[] = {PART, 2 * PART, 3 * PART, LONG};
	struct kvc_arrival arrival[KEYS] = {0};
	struct kvc_layout layout[KEYS];
	struct kvc_item item[KEYS] = {0};
	uint32_t key[KEYS];
	unsigned n = 0;
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		if (members_len_of(i) != LONG)
			continue;
		key[n] = i;
		layout[n] = (struct kvc_layout){.size = sizeof(layout[n]),
						.num_parts = KV_COUNT(ends),
						.part_ends = ends,
						.arrival = &arrival[n]};
		item[n] = (struct kvc_item){
			.key = members_key_of(&key[n]), .data = at[n], .len = LONG, .layout = &layout[n]};
		n++;
	}
	kvc_get_batch_await(c, item, n, NULL);
	for (unsigned i = 0; i < n; i++) {
		members_get_check(key[i], at[i], item[i].result);
		if (item[i].result > 0 && kvc_arrival_parts(&arrival[i]) != KV_COUNT(ends))
			world_wrong(world, "copies: a value came without its parts");
	}
}

/* All values are found, by every kind of call. */
static void find_all_ways(void)
{
	members.misses = 0;
	world_do(world, 0, members_get_all, NULL);
	world_do(world, 0, members_find_all, NULL);
	world_do(world, 0, get_borrowed, NULL);
	world_do(world, 0, get_parts, NULL);
	assert_int_equal(members.misses, 0);
}

/* Another server is at its port, without any value. */
static void restart(unsigned server)
{
	world_server_crash(world, server, false);
	rest();
	world_server_again(world, server);
	world_sleep(world, 3 * SECOND);
	assert_int_equal(client()->node[server].state, KC_NODE_UP);
}

/* ---- where copies go ---- */

static void put_twice(uint64_t seed, void (*put)(struct kvc_client *c, void *arg))
{
	struct kvc_counters n;
	open_world(seed);
	world_do(world, 0, put, NULL);
	rest();
	n = counters();
	assert_int_equal(n.copies, KEYS);
	assert_int_equal(n.copies_dropped, 0);
	assert_int_equal(n.copy_bytes, all_bytes());
	assert_int_equal(n.puts, KEYS); /* copies are none of the caller's */
	assert_int_equal(n.bytes_out, all_bytes());
	world_do(world, 0, check_two, NULL);
	find_all_ways();
	assert_int_equal(counters().second_hits, 0);
	world_rest_check(world);
	close_world();
}

static void a_value_is_at_the_first_two_servers_of_its_key(void **state)
{
	(void)state;
	put_twice(700, put_and_spoil);
}

/* (In a batch more values come at a time than a server is sent copies: buffers are large enough here.) */
static void values_of_batches_are_at_two_servers(void **state)
{
	struct world_options wo = options(701);
	struct kvc_counters n;
	(void)state;
	wo.buffer_bytes = 256 << 20;
	open_with(&wo);
	world_do(world, 0, put_batch, NULL);
	rest();
	n = counters();
	assert_int_equal(n.copies + n.copies_dropped, KEYS);
	assert_in_range(n.copies, KEYS / 2, KEYS);
	world_do(world, 0, put_batch, NULL);
	rest();
	members.misses = 0;
	world_do(world, 0, members_get_all, NULL);
	assert_int_equal(members.misses, 0);
	close_world();
}

static void values_of_slices_are_at_two_servers(void **state)
{
	struct kvc_counters n;
	(void)state;
	open_world(702);
	world_do(world, 0, put_slices, NULL);
	rest();
	n = counters();
	assert_int_equal(n.copies + n.copies_dropped, KEYS);
	assert_int_not_equal(n.copies, 0);
	find_all_ways();
	close_world();
}

static void put_marked(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .flags = KVC_TWO_COPIES};
	uint8_t *at = malloc(LONG);
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		members_value_fill(at, i);
		members_put_check(kvc_put_await(c, members_key_of(&i), at, members_len_of(i), i % 2 ? &call : NULL));
	}
	free(at);
}

static void check_marked(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		unsigned at = members_holders_await(c, i, NULL),
			 first = 1u << route_first(c, members_key_of(&i))->index;
		if (at != (i % 2 ? first_two(c, i) : first))
			world_wrong(world, "copies: key %u is at %x", i, at);
	}
}

/* Of a pool without the flag, only what a call marks is kept twice. */
static void a_call_marks_what_is_kept_twice(void **state)
{
	struct world_options wo = options(703);
	(void)state;
	wo.pool_flags = 0;
	open_with(&wo);
	world_do(world, 0, put_marked, NULL);
	rest();
	world_do(world, 0, check_marked, NULL);
	assert_int_equal(counters().copies, KEYS / 2);
	close_world();
}

static void put_briefly(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = 50};
	uint8_t *at = malloc(LONG);
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		members_value_fill(at, i);
		members_put_check(kvc_put_await(c, members_key_of(&i), at, members_len_of(i), &call));
	}
	free(at);
}

struct lives {
	uint64_t least_ms, most_ms;
};

/* Both copies of each value live as long. */
static void check_lives(struct kvc_client *c, void *arg)
{
	const struct lives *l = arg;
	uint64_t left[SERVERS] = {0}, told = 0;
	for (uint32_t i = 0; i < KEYS; i++) {
		unsigned at = members_holders_await(c, i, left);
		for (unsigned k = 0; k < SERVERS; k++)
			if (at >> k & 1 && (left[k] < l->least_ms || left[k] > l->most_ms))
				world_wrong(world, "copies: a copy lives for %llu ms", (unsigned long long)left[k]);
		if (kvc_ttl_await(c, members_key_of(&i), &told, NULL) != 0 || told < l->least_ms || told > l->most_ms)
			world_wrong(world, "copies: a TTL of %llu ms", (unsigned long long)told);
	}
}

static void touch_all(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = 200};
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		if (kvc_touch_await(c, members_key_of(&i), &call) != 0)
			world_wrong(world, "copies: a TOUCH failed");
}

static void both_copies_live_as_long(void **state)
{
	struct lives put = {40000, 50000}, touched = {190000, 200000};
	(void)state;
	open_world(704);
	world_do(world, 0, put_briefly, NULL);
	rest();
	world_do(world, 0, check_two, NULL);
	world_do(world, 0, check_lives, &put);
	world_do(world, 0, touch_all, NULL);
	world_do(world, 0, check_lives, &touched);
	restart(1); /* what one of the two has is touched, and its time told */
	world_do(world, 0, touch_all, NULL);
	world_do(world, 0, check_lives, &touched);
	close_world();
}

/* ---- which one is asked ---- */

static void the_less_busy_server_is_asked(void **state)
{
	unsigned seconds = 0;
	(void)state;
	open_world(705);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct kvc_key key = members_key_of(&i);
		struct kc_node *first = route_first(client(), key), *second = route_second(client(), key);
		seconds += route_reader(client(), key, false) == second;
		first->share.reqs += 2;
		assert_ptr_equal(route_reader(client(), key, false), second);
		second->share.reqs += 3;
		assert_ptr_equal(route_reader(client(), key, false), first);
		first->share.reqs -= 2;
		second->share.reqs -= 3;
	}
	assert_in_range(seconds, KEYS / 4, 3 * KEYS / 4);
	close_world();
}

/* The view changed while a server was asked that is neither of the two now: both are asked, as single calls and items
 * of a batch do. */
static void both_are_asked_after_a_server_that_is_none_of_them(void **state)
{
	uint32_t i = 0;
	struct kvc_key key = members_key_of(&i);
	struct kc_node *first, *second;
	struct route r;
	unsigned k = 0;
	(void)state;
	open_world(706);
	first = route_first(client(), key);
	second = route_second(client(), key);
	while (&client()->node[k] == first || &client()->node[k] == second)
		k++;
	route_begin(&r, client(), key, ROUTE_READ, KVC_TWO_COPIES, KV_NEVER);
	r.n = &client()->node[k];
	assert_true(route_next(&r, -KV_ENOTFOUND));
	assert_ptr_equal(r.n, first);
	assert_true(route_next(&r, -KV_ENOTFOUND));
	assert_ptr_equal(r.n, second);
	assert_false(route_next(&r, -KV_ENOTFOUND));
	close_world();
}

/* GETs that ask the second server of each key, which has lost its copy, while a server joins: where that is the first
 * one now, the one with the value has become the second, and the one that was asked is none of the two. */
static void get_across_a_join(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .flags = KVC_TWO_COPIES};
	static struct kvc_get g[KEYS];
	uint8_t *at = malloc((size_t)KEYS * LONG);
	uint32_t key[KEYS];
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		struct kc_target to = {.at = at + (size_t)i * LONG};
		key[i] = i;
		assert_int_equal(kc_get_init(&g[i], c, members_key_of(&key[i]), &to, LONG, &call, KV_NEVER), 0);
		g[i].route.n = route_second(c, g[i].route.key);
	}
	co_sleep_await(loop_now(c->loop) + 2 * SECOND);
	for (uint32_t i = 0; i < KEYS; i++) {
		members_get_check(i, g[i].to.at.at, kc_get_all_await(&g[i]));
		kc_get_fini(&g[i]);
	}
	free(at);
}

static void a_get_that_asks_while_a_server_joins_finds_the_value(void **state)
{
	struct world_options wo = options(706);
	(void)state;
	wo.pool_flags = 0;
	open_with(&wo);
	members_all_up(SERVERS - 1);
	world_do(world, 0, members_put_all, NULL);
	world_worker(world, 0, 0, get_across_a_join, NULL);
	world_sleep(world, 10 * MS);
	members.state[SERVERS - 1] = KV_MEMBER_UP;
	members_tell(++members.epoch);
	world_join(world, 20 * SECOND);
	assert_int_equal(members.hits, KEYS);
	assert_int_equal(members.misses, 0);
	close_world();
}

/* The same in batches, half of whose items ask the second server: the join comes while they are under way. */
static void get_batch_across_a_join(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .flags = KVC_TWO_COPIES};
	uint8_t *at = malloc((size_t)KEYS * LONG);
	struct kvc_item item[KEYS];
	uint32_t key[KEYS];
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		key[i] = i;
		item[i] = (struct kvc_item){.key = members_key_of(&key[i]), .data = at + (size_t)i * LONG, .len = LONG};
	}
	kvc_get_batch_await(c, item, KEYS, &call);
	for (uint32_t i = 0; i < KEYS; i++)
		members_get_check(i, item[i].data, item[i].result);
	free(at);
}

static void an_item_that_is_asked_for_while_a_server_joins_is_found(void **state)
{
	(void)state;
	for (unsigned seed = 706; seed < 706 + world_seeds(4); seed++) {
		struct world_options wo = options(seed);
		wo.pool_flags = 0;
		wo.timeout_ns = 60 * SECOND;
		wo.fabric.delay_max_ns = 300 * MS;
		open_with(&wo);
		members_all_up(SERVERS - 1);
		world_do(world, 0, members_put_all, NULL);
		world_worker(world, 0, 0, get_batch_across_a_join, NULL);
		world_sleep(world, kv_prng_below(&world->prng, 200) * MS);
		members.state[SERVERS - 1] = KV_MEMBER_UP;
		members_tell(++members.epoch);
		world_join(world, 100 * SECOND);
		assert_int_equal(members.hits, KEYS);
		close_world();
	}
}

/* Of a miss at the second server the first one is asked also while it is being connected: calls wait for it. For the
 * second one only a DELETE waits. */
static void a_server_that_is_connected_is_asked(void **state)
{
	uint32_t i = 0;
	struct kvc_key key = members_key_of(&i);
	struct kc_node *first, *second;
	(void)state;
	open_world(706);
	first = route_first(client(), key);
	second = route_second(client(), key);
	first->state = KC_NODE_CONNECTING;
	assert_ptr_equal(route_reader(client(), key, false), second);
	assert_ptr_equal(route_other(client(), key, second), first);
	first->state = KC_NODE_UP;
	second->state = KC_NODE_CONNECTING;
	assert_null(route_other(client(), key, first));
	assert_ptr_equal(route_other_place(client(), key, first), second);
	second->state = KC_NODE_DOWN;
	assert_null(route_other_place(client(), key, first));
	second->state = KC_NODE_UP;
	close_world();
}

static void the_loss_of_a_server_loses_no_value(void **state)
{
	(void)state;
	for (unsigned seed = 710; seed < 710 + world_seeds(4); seed++) {
		open_world(seed);
		world_do(world, 0, members_put_all, NULL);
		rest();
		world_server_crash(world, seed % SERVERS, seed & 4);
		find_all_ways(); /* while nobody knows it yet */
		world_sleep(world, 3 * SECOND);
		find_all_ways();
		close_world();
	}
}

/* A server that comes back without its values has them again after they were read once. */
static void what_one_of_the_two_misses_is_read_at_the_other_and_copied(void **state)
{
	struct kvc_counters n;
	unsigned its;
	(void)state;
	open_world(720);
	world_do(world, 0, members_put_all, NULL);
	rest();
	its = keys_at(2);
	restart(2);
	world_do(world, 0, members_get_all, NULL);
	n = counters();
	assert_in_range(n.second_hits, its / 4, its);
	assert_int_equal(n.misses, 0);
	world_sleep(world, 3 * SECOND);
	assert_int_equal(counters().repairs, n.second_hits);
	for (unsigned i = 0; i < 20; i++) { /* until each was asked for there */
		for (unsigned k = 0; k < SERVERS; k++)
			client()->node[k].share.reqs += k != 2;
		world_do(world, 0, members_get_all, NULL);
		for (unsigned k = 0; k < SERVERS; k++)
			client()->node[k].share.reqs -= k != 2;
		world_sleep(world, SECOND);
	}
	world_do(world, 0, check_two, NULL);
	assert_int_equal(counters().repairs, its);
	close_world();
}

static unsigned waiting(const struct kvc_client *c)
{
	return c->repairs ? c->repairs->count : 0;
}

static uint64_t second_bytes(const struct kvc_client *c)
{
	return c->seconds ? c->seconds->bytes : 0;
}

/* GET the long values, and DELETE the first one that is to be copied once its copy has begun. */
static void get_and_delete_one(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	bool deleted = false;
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		if (members_len_of(i) != LONG)
			continue;
		members_get_check(i, at, kvc_get_await(c, members_key_of(&i), at, LONG, NULL));
		if (deleted || waiting(c) == 0)
			continue;
		co_yield_await();
		deleted = (c->repairs && c->repairs->copying);
		if (kvc_delete_await(c, members_key_of(&i), NULL) != 0)
			world_wrong(world, "copies: a DELETE failed");
	}
	if (!deleted || waiting(c) == 0)
		world_wrong(world, "copies: nothing was copied when it was deleted, or nothing waits behind it");
	free(at);
}

/* What was read for a copy counts, also if it comes to nothing: else each GET would have it read again at once. */
static void a_copy_that_fails_is_paced(void **state)
{
	struct world_options wo = options(721);
	(void)state;
	wo.repair_bytes_s = 10 << 10;
	open_with(&wo);
	world_do(world, 0, members_put_all, NULL);
	rest();
	restart(2);
	world_do(world, 0, get_and_delete_one, NULL);
	world_sleep(world, 10 * SECOND);
	assert_int_equal(counters().repairs_dropped, 1);
	assert_int_equal(counters().repairs, 0);
	world_sleep(world, 60 * SECOND);
	assert_in_range(counters().repairs, 1, 2);
	close_world();
}

/* Batches, borrowed pieces, parts and look-ups do so, too. */
static void every_kind_of_call_asks_the_other_server(void **state)
{
	static void (*const calls[])(struct kvc_client *c, void *arg) = {members_get_all, members_find_all,
									 get_borrowed, get_parts};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(calls); i++) {
		struct world_options wo = options(730 + i);
		wo.repair_bytes_s = 1; /* nothing is copied */
		open_with(&wo);
		world_do(world, 0, members_put_all, NULL);
		rest();
		restart(i);
		world_do(world, 0, calls[i], NULL);
		assert_int_equal(members.misses, 0);
		assert_int_not_equal(counters().second_hits, 0);
		assert_int_equal(counters().repairs, 0);
		close_world();
	}
}

enum { LARGE = 17 << 20 /* two ranges */ };

static struct kvc_key large_key(void)
{
	return (struct kvc_key){"large", 5};
}

static void large_put(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LARGE);
	(void)arg;
	memset(at, 0x55, LARGE);
	members_put_check(kvc_put_await(c, large_key(), at, LARGE, NULL));
	free(at);
}

static void large_get(struct kvc_client *c, void *arg)
{
	struct kvc_borrowed b;
	int64_t rc = kvc_get_borrowed_await(c, large_key(), LARGE, NULL, &b);
	(void)arg;
	if (rc != LARGE)
		world_wrong(world, "copies: a borrowed GET of two ranges returned %lld", (long long)rc);
	kvc_borrowed_release(c, &b);
}

/* A borrowed piece of several ranges is counted as one call, wherever the value was found. */
static void a_borrowed_value_of_two_ranges_is_counted_once(void **state)
{
	struct world_options wo = options(736);
	unsigned first, again;
	uint64_t stand_ins;
	(void)state;
	wo.buffer_bytes = 128 << 20;
	wo.repair_bytes_s = 1; /* nothing is copied */
	open_with(&wo);
	first = route_first(client(), large_key())->index;
	world_server_crash(world, first, false);
	world_sleep(world, 3 * SECOND);
	world_do(world, 0, large_put, NULL); /* at the other of its two servers */
	again = world_server_again(world, first);
	world_sleep(world, 3 * SECOND);
	for (unsigned k = 0; k < SERVERS; k++)
		client()->node[k].share.reqs += k != first; /* so it is asked first, and misses */
	world_do(world, 0, large_get, NULL);
	for (unsigned k = 0; k < SERVERS; k++)
		client()->node[k].share.reqs -= k != first;
	assert_int_equal(counters().second_hits, 1);
	assert_int_equal(counters().hits, 1);
	world_server_crash(world, again, false);
	world_sleep(world, 3 * SECOND);
	stand_ins = counters().stand_ins;
	world_do(world, 0, large_get, NULL);
	assert_int_equal(counters().stand_ins - stand_ins, 1);
	assert_int_equal(counters().hits, 2);
	close_world();
}

static void get_nothing(struct kvc_client *c, void *arg)
{
	static uint8_t at[LONG];
	(void)arg;
	for (uint32_t i = 1000; i < 1000 + KEYS; i++)
		if (kvc_get_await(c, members_key_of(&i), at, LONG, NULL) != -KV_ENOTFOUND)
			world_wrong(world, "copies: a value that was never put");
}

static void what_nobody_has_costs_two_questions(void **state)
{
	uint64_t before;
	(void)state;
	open_world(735);
	before = counters().requests;
	world_do(world, 0, get_nothing, NULL);
	assert_in_range(counters().requests - before, 2 * KEYS, 2 * KEYS + 40); /* and PINGs */
	assert_int_equal(counters().misses, KEYS);
	assert_int_equal(counters().second_hits, 0);
	close_world();
}

/* ---- DELETE ---- */

static void delete_all(struct kvc_client *c, void *arg)
{
	const int *want = arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		int rc = kvc_delete_await(c, members_key_of(&i), NULL);
		if (rc != *want)
			world_wrong(world, "copies: a DELETE returned %s", kv_errname(rc));
	}
}

static void delete_batch(struct kvc_client *c, void *arg)
{
	struct batch *b = malloc(sizeof(*b));
	const int *want = arg;
	batch_make(b, false);
	(void)kc_batch_await(c, KVC_OP_DELETE, b->item, KEYS, NULL, NULL);
	for (uint32_t i = 0; i < KEYS; i++)
		if (b->item[i].result != *want)
			world_wrong(world, "copies: a DELETE in a batch returned %s",
				    kv_errname((int)b->item[i].result));
	free(b->memory);
	free(b);
}

static void delete_both(uint64_t seed, void (*delete)(struct kvc_client *c, void *arg))
{
	int done = 0, absent = -KV_ENOTFOUND;
	open_world(seed);
	world_do(world, 0, members_put_all, NULL);
	rest();
	world_do(world, 0, delete, &done);
	world_do(world, 0, check_none, NULL);
	world_do(world, 0, delete, &absent);
	world_do(world, 0, members_put_all, NULL);
	rest();
	restart(0); /* some have one copy left, the first one or the second */
	world_do(world, 0, delete, &done);
	world_do(world, 0, check_none, NULL);
	close_world();
}

static void a_delete_deletes_both(void **state)
{
	(void)state;
	delete_both(740, delete_all);
	delete_both(741, delete_batch);
}

/* A value is deleted while its copy is under way: it is found nowhere afterwards. */
static void chase(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	unsigned *chased = arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		members_value_fill(at, i);
		members_put_check(kvc_put_await(c, members_key_of(&i), at, members_len_of(i), NULL));
		if (kv_prng_below(&world->prng, 2))
			co_sleep_await(world_now(world) + kv_prng_below(&world->prng, 4 * MS));
		*chased += second_bytes(c) > 0;
		if (kvc_delete_await(c, members_key_of(&i), NULL) != 0)
			world_wrong(world, "copies: a DELETE failed");
		co_sleep_await(world_now(world) + 20 * MS);
		if (members_holders_await(c, i, NULL))
			world_wrong(world, "copies: a value that was deleted while it was copied is there");
	}
	free(at);
}

static void what_is_deleted_while_it_is_copied_stays_deleted(void **state)
{
	unsigned chased = 0;
	(void)state;
	for (unsigned seed = 745; seed < 745 + world_seeds(8); seed++) {
		open_world(seed);
		world_do(world, 0, chase, &chased);
		close_world();
	}
	assert_int_not_equal(chased, 0);
}

/* The second server of some keys stands still: a DELETE that does not reach it does not say that it is done. */
static void delete_briefly(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 200 * MS};
	unsigned *late = arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		const struct kc_node *second = route_second(c, members_key_of(&i));
		int rc;
		if (second->index != 1)
			continue;
		rc = kvc_delete_await(c, members_key_of(&i), &call);
		if (rc == 0)
			world_wrong(world, "copies: a DELETE of one copy of two returned 0");
		*late += rc == -KV_ETIMEOUT;
		break; /* the next ones would find that server down */
	}
}

static void a_delete_that_reaches_one_copy_is_not_done(void **state)
{
	unsigned late = 0;
	(void)state;
	open_world(742);
	world_do(world, 0, members_put_all, NULL);
	rest();
	world_server_freeze(world, 1, true);
	world_do(world, 0, delete_briefly, &late);
	assert_int_equal(late, 1);
	world_server_freeze(world, 1, false);
	world_sleep(world, 5 * SECOND);
	world_close(world); /* with an error: that one */
}

/* So it is by threads' calls, each of which may be another client's. */
static void what_a_thread_deletes_stays_deleted_whichever_client_copies(void **state)
{
	struct world_options wo = options(744);
	uint8_t *at = malloc(LONG);
	struct kvc_pool *pool;
	(void)state;
	wo.clients = 3;
	open_with(&wo);
	pool = world->pool[0].pool;
	for (uint32_t i = 0; i < KEYS; i++) {
		members_value_fill(at, i);
		assert_int_equal(kvc_put(pool, members_key_of(&i), at, members_len_of(i), NULL), 0);
		assert_int_equal(kvc_delete(pool, members_key_of(&i), NULL), 0);
	}
	free(at);
	rest();
	world_do(world, 0, check_none, NULL);
	close_world();
}

static void touch_at_once(struct kvc_client *c, void *arg)
{
	struct kvc_call put = {.size = sizeof(put), .ttl_s = 50}, touch = {.size = sizeof(touch), .ttl_s = 200};
	uint8_t *at = malloc(LONG);
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		members_value_fill(at, i);
		members_put_check(kvc_put_await(c, members_key_of(&i), at, members_len_of(i), &put));
		if (kvc_touch_await(c, members_key_of(&i), &touch) != 0)
			world_wrong(world, "copies: a TOUCH failed");
	}
	free(at);
}

static void what_is_touched_while_it_is_copied_lives_as_long_at_both(void **state)
{
	struct lives touched = {190000, 200000};
	(void)state;
	open_world(743);
	world_do(world, 0, touch_at_once, NULL);
	rest();
	world_do(world, 0, check_two, NULL);
	world_do(world, 0, check_lives, &touched);
	close_world();
}

/* GET what one server has lost, and TOUCH each value while its copy is on its way there. */
static void get_and_touch(struct kvc_client *c, void *arg)
{
	struct kvc_call touch = {.size = sizeof(touch), .ttl_s = 200};
	uint8_t *at = malloc(LONG);
	unsigned *touched = arg, at_two;
	uint64_t left[SERVERS];
	for (uint32_t i = 0; i < KEYS; i++) {
		members_get_check(i, at, kvc_get_await(c, members_key_of(&i), at, LONG, NULL));
		if (waiting(c) == 0)
			continue;
		co_sleep_await(world_now(world) + kv_prng_below(&world->prng, 12 * MS));
		*touched += (c->repairs && c->repairs->copying);
		if (kvc_touch_await(c, members_key_of(&i), &touch) != 0)
			world_wrong(world, "copies: a TOUCH failed");
		while (waiting(c) > 0)
			co_sleep_await(world_now(world) + MS);
		at_two = members_holders_await(c, i, left);
		for (unsigned k = 0; k < SERVERS; k++)
			if (at_two >> k & 1 && left[k] < 190000)
				world_wrong(world, "copies: key %u lives %llu ms at %u, and was touched", i,
					    (unsigned long long)left[k], k);
	}
	free(at);
}

static void what_is_touched_while_it_is_mended_lives_as_long_at_both(void **state)
{
	unsigned touched = 0;
	(void)state;
	for (uint64_t seed = 840; seed < 840 + world_seeds(8); seed++) {
		open_world(seed);
		world_do(world, 0, put_briefly, NULL);
		rest();
		restart(2);
		world_do(world, 0, get_and_touch, &touched);
		close_world();
	}
	assert_int_not_equal(touched, 0);
}

/* ---- a server that is behind ---- */

struct slowest {
	uint64_t ns;
};

static void put_timed(struct kvc_client *c, void *arg)
{
	struct slowest *s = arg;
	uint8_t *at = malloc(LONG);
	for (uint32_t i = 0; i < 4 * KEYS; i++) {
		uint32_t key = 2000 + i;
		uint64_t begun = world_now(world);
		if (route_first(c, members_key_of(&key))->index == 1)
			continue;
		members_value_fill(at, key);
		members_put_check(kvc_put_await(c, members_key_of(&key), at, members_len_of(key), NULL));
		s->ns = KV_MAX(s->ns, world_now(world) - begun);
	}
	free(at);
}

/* Its copies are dropped, no PUT elsewhere waits for it, and it has them again when it is there and they are read. */
static void a_server_that_is_behind_costs_copies_and_no_time(void **state)
{
	struct slowest before = {0}, s = {0};
	struct kvc_counters n;
	(void)state;
	open_world(750);
	world_do(world, 0, put_timed, &before);
	rest();
	assert_int_equal(counters().copies_dropped, 0);
	world_server_freeze(world, 1, true);
	world_do(world, 0, put_timed, &s);
	n = counters();
	assert_int_not_equal(n.copies_dropped, 0);
	assert_true(s.ns <= 2 * before.ns + 10 * MS);
	world_sleep(world, 5 * SECOND);
	world_server_freeze(world, 1, false);
	world_sleep(world, 5 * SECOND);
	assert_int_equal(second_bytes(client()), 0);
	world_rest_check(world);
	close_world();
}

/* Where a fence would cut the client off from all servers, a copy whose server stands still costs none. */
static void a_copy_to_a_server_that_stands_still_fences_nobody(void **state)
{
	struct world_options wo = options(754);
	struct slowest s = {0};
	struct kvc_counters n;
	(void)state;
	wo.fence = WORLD_FENCE_ALL;
	open_with(&wo);
	world_server_freeze(world, 1, true);
	world_do(world, 0, put_timed, &s);
	world_sleep(world, 3 * SECOND);
	n = counters();
	assert_int_not_equal(n.copies_dropped, 0);
	assert_int_equal(n.fences, 0);
	world_server_freeze(world, 1, false);
	world_sleep(world, 5 * SECOND);
	assert_int_equal(second_bytes(client()), 0);
	world_rest_check(world);
	close_world();
}

/* Every call is a slow one: as many as there are calls are told, and copies are none. */
static void copies_are_no_slow_calls(void **state)
{
	struct world_options wo = options(753);
	struct kvc_counters n;
	(void)state;
	wo.slow_ns = 1;
	open_with(&wo);
	world_do(world, 0, members_put_all, NULL);
	rest();
	restart(2);
	world_do(world, 0, members_get_all, NULL);
	world_sleep(world, 3 * SECOND);
	n = counters();
	assert_int_equal(n.copies, KEYS);
	assert_int_not_equal(n.repairs, 0);
	assert_int_equal(n.slow, 2 * KEYS);
	close_world();
}

static void a_value_that_is_too_long_has_one_copy(void **state)
{
	struct world_options wo = options(751);
	struct kvc_counters n;
	unsigned longs = 0;
	(void)state;
	for (uint32_t i = 0; i < KEYS; i++)
		longs += members_len_of(i) == LONG;
	wo.buffer_bytes = 2 << 20; /* an eighth of it is less than a long value */
	open_with(&wo);
	world_do(world, 0, members_put_all, NULL);
	rest();
	n = counters();
	assert_int_equal(n.copies_dropped, longs);
	assert_int_equal(n.copies, KEYS - longs);
	world_do(world, 0, members_get_all, NULL);
	close_world();
}

static void one_server_keeps_one_copy(void **state)
{
	struct world_options wo = options(752);
	(void)state;
	wo.servers = 1;
	open_with(&wo);
	world_do(world, 0, members_put_all, NULL);
	find_all_ways();
	assert_int_equal(counters().copies + counters().copies_dropped, 0);
	close_world();
}

/* All but one are down: values have one copy, and no call fails. */
static void the_last_server_keeps_one_copy(void **state)
{
	(void)state;
	open_world(753);
	for (unsigned i = 1; i < SERVERS; i++)
		world_server_crash(world, i, false);
	world_sleep(world, 3 * SECOND);
	world_do(world, 0, members_put_all, NULL);
	find_all_ways();
	assert_int_equal(counters().copies + counters().copies_dropped, 0);
	close_world();
}

static void a_pool_closes_while_copies_are_under_way(void **state)
{
	(void)state;
	for (unsigned seed = 755; seed < 755 + world_seeds(8); seed++) {
		open_world(seed);
		world_server_freeze(world, 2, seed % 2);
		world_worker(world, 0, 0, put_timed, &(struct slowest){0});
		members.stop = true; /* calls may end with -KV_ECLOSED */
		world_sleep(world, kv_prng_below(&world->prng, 60 * MS));
		world_pool_stop(world, 0);
		world_join(world, 20 * SECOND);
		world_close(world);
	}
}

/* ---- views ---- */

static void open_cluster(uint64_t seed, uint64_t settle_ns, unsigned up)
{
	struct world_options wo = options(seed);
	wo.listed = 1;
	wo.settle_ns = settle_ns;
	open_with(&wo);
	members_all_up(up);
	world_do(world, 0, members_put_all, NULL);
	rest();
	world_do(world, 0, check_two, NULL);
}

/* Without any help of former servers: of the two of before, one is still one of the two. */
static void a_join_loses_no_value(void **state)
{
	(void)state;
	open_cluster(760, 1, SERVERS - 1);
	members_all_up(SERVERS);
	find_all_ways();
	assert_int_equal(counters().settle_hits, 0);
	assert_int_not_equal(counters().second_hits, 0);
	close_world();
}

static void a_server_that_leaves_loses_no_value(void **state)
{
	(void)state;
	open_cluster(761, 1, SERVERS);
	members_change(1, 0);
	members_settle();
	find_all_ways();
	close_world();
}

static void another_weight_loses_no_value(void **state)
{
	(void)state;
	open_cluster(762, 1, SERVERS);
	members.weight[2] = 9;
	members_tell(++members.epoch);
	members_settle();
	find_all_ways();
	close_world();
}

/* What drains is given no copy, and what it has is found. */
static void a_draining_server_is_given_no_copy(void **state)
{
	(void)state;
	open_cluster(763, 0, SERVERS);
	members_change(2, KV_MEMBER_DRAINING);
	members_settle();
	for (uint32_t i = 0; i < KEYS; i++) {
		const struct kc_node *second = route_second(client(), members_key_of(&i));
		assert_string_not_equal(second->member_id, "node-2");
	}
	find_all_ways();
	world_do(world, 0, members_put_all, NULL);
	members_change(2, 0);
	members_settle();
	find_all_ways();
	close_world();
}

/* What drains has second copies: they are found when the first ones are lost, and deleted. */
static void a_draining_server_has_its_second_copies(void **state)
{
	int done = 0;
	(void)state;
	for (unsigned lost = 0; lost < 2; lost++) {
		open_cluster(768 + lost, 0, SERVERS);
		members_change(2, KV_MEMBER_DRAINING);
		members_settle();
		if (lost) {
			world_server_crash(world, 1, false);
			world_sleep(world, 3 * SECOND);
			find_all_ways();
		} else {
			world_do(world, 0, delete_all, &done);
			world_do(world, 0, check_none, NULL);
		}
		close_world();
	}
}

/* Two servers come at once, and one goes later: former servers are asked behind the two. */
static void several_changes_lose_no_value(void **state)
{
	(void)state;
	for (unsigned seed = 764; seed < 764 + world_seeds(4); seed++) {
		open_cluster(seed, 0, 2);
		members_all_up(SERVERS);
		find_all_ways();
		world_sleep(world, 5 * SECOND);
		members_change(seed % 2, 0);
		members_settle();
		find_all_ways();
		close_world();
	}
}

/* ---- all together ---- */

static void no_call_fails_whatever_happens(void **state)
{
	(void)state;
	for (unsigned seed = 780; seed < 780 + world_seeds(6); seed++) {
		print_message("seed %u\n", seed);
		churn_run(seed, CHURN_TWICE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_at_the_first_two_servers_of_its_key),
		cmocka_unit_test(values_of_batches_are_at_two_servers),
		cmocka_unit_test(values_of_slices_are_at_two_servers),
		cmocka_unit_test(a_call_marks_what_is_kept_twice),
		cmocka_unit_test(both_copies_live_as_long),
		cmocka_unit_test(the_less_busy_server_is_asked),
		cmocka_unit_test(a_server_that_is_connected_is_asked),
		cmocka_unit_test(a_get_that_asks_while_a_server_joins_finds_the_value),
		cmocka_unit_test(an_item_that_is_asked_for_while_a_server_joins_is_found),
		cmocka_unit_test(both_are_asked_after_a_server_that_is_none_of_them),
		cmocka_unit_test(the_loss_of_a_server_loses_no_value),
		cmocka_unit_test(what_one_of_the_two_misses_is_read_at_the_other_and_copied),
		cmocka_unit_test(a_copy_that_fails_is_paced),
		cmocka_unit_test(every_kind_of_call_asks_the_other_server),
		cmocka_unit_test(a_borrowed_value_of_two_ranges_is_counted_once),
		cmocka_unit_test(what_nobody_has_costs_two_questions),
		cmocka_unit_test(a_delete_deletes_both),
		cmocka_unit_test(a_delete_that_reaches_one_copy_is_not_done),
		cmocka_unit_test(what_is_deleted_while_it_is_copied_stays_deleted),
		cmocka_unit_test(what_a_thread_deletes_stays_deleted_whichever_client_copies),
		cmocka_unit_test(what_is_touched_while_it_is_copied_lives_as_long_at_both),
		cmocka_unit_test(what_is_touched_while_it_is_mended_lives_as_long_at_both),
		cmocka_unit_test(a_copy_to_a_server_that_stands_still_fences_nobody),
		cmocka_unit_test(copies_are_no_slow_calls),
		cmocka_unit_test(a_server_that_is_behind_costs_copies_and_no_time),
		cmocka_unit_test(a_value_that_is_too_long_has_one_copy),
		cmocka_unit_test(one_server_keeps_one_copy),
		cmocka_unit_test(the_last_server_keeps_one_copy),
		cmocka_unit_test(a_pool_closes_while_copies_are_under_way),
		cmocka_unit_test(a_join_loses_no_value),
		cmocka_unit_test(a_server_that_leaves_loses_no_value),
		cmocka_unit_test(another_weight_loses_no_value),
		cmocka_unit_test(a_draining_server_is_given_no_copy),
		cmocka_unit_test(a_draining_server_has_its_second_copies),
		cmocka_unit_test(several_changes_lose_no_value),
		cmocka_unit_test(no_call_fails_whatever_happens),
	};
	return cmocka_run_group_tests_name("sim/copies", tests, NULL, NULL);
}
