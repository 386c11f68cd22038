/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_drops.c -- a batch of DELETEs stays a batch while copies wait, views settle, values are pinned or kept
 * twice.
 *
 * Counted is exactly: each server that may have a value gets one DELETE of its key, beside a few requests of the
 * client's own. Time is virtual: a request and its answer take 2 ms at most, so a batch that asked one key after the
 * other would take ten times what is allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvclient/call/batch.h"
#include "kvclient/call/keyed.h"
#include "kvclient/logical/pins.h"
#include "kvclient/route/private.h"
#include "kvclient/route/former.h"
#include "kvclient/route/hot.h"
#include "kvclient/logical/pins.h"
#include "kvclient/route/former.h"
#include "kvclient/route/second.h"
#include "tests/sim/members.h"

enum { SERVERS = 4, FEWER = 3, KEYS = MEMBERS_KEYS, MOST = 1500, WINDOW = 128, OWN = 16 };

#define TRIP_NS (2 * MS)

static struct world *const world = &members.world;

static struct kvc_client *client(void)
{
	return world->pool[0].pool->client[0];
}

/* The batch: `n` keys from `from` on, of which keys below KEYS have values. */
static struct drop {
	unsigned from, n;
	struct kvc_item item[MOST];
	uint32_t key[MOST];
	uint64_t took_ns, rounds, asked, sent;
} drop;

static void drop_make(unsigned from, unsigned n)
{
	drop = (struct drop){.from = from, .n = n};
	for (unsigned i = 0; i < n; i++) {
		drop.key[i] = from + i;
		drop.item[i].key = members_key_of(&drop.key[i]);
	}
}

/* How many servers may have the value. */
static unsigned servers_of(struct kvc_client *c, struct kvc_key key)
{
	struct kc_place_set told = {0};
	struct kc_node *at;
	unsigned n = 0;
	while (route_every(c, key, route_two_places(c, 0), &told))
		n++;
	while ((at = kc_pin_elsewhere(c, key, &told)) != NULL) {
		kc_place_set_put(&told, at->index, true);
		n += at->state != KC_NODE_DOWN;
	}
	return n;
}

static void drop_expect(struct kvc_client *c)
{
	for (unsigned i = 0; i < drop.n; i++) {
		unsigned n = servers_of(c, drop.item[i].key);
		drop.asked += n;
		drop.rounds = KV_MAX(drop.rounds, (uint64_t)n);
	}
}

static void delete_batch(struct kvc_client *c, void *arg)
{
	uint64_t begun_ns = world_now(world), sent = c->count.requests;
	(void)arg;
	drop_expect(c);
	(void)kc_batch_await(c, KVC_OP_DELETE, drop.item, drop.n, NULL, NULL);
	drop.sent = c->count.requests - sent;
	drop.took_ns = world_now(world) - begun_ns;
}

/* Each server that may have a value is asked once, and items wait for no others but those of their window. */
static void drop_check(const char *when)
{
	uint64_t most_ns = (drop.n / WINDOW + 2) * drop.rounds * TRIP_NS;
	if (drop.sent < drop.asked || drop.sent > drop.asked + OWN)
		world_wrong(world, "drops: %s: %u items, %llu requests of %llu", when, drop.n,
			    (unsigned long long)drop.sent, (unsigned long long)drop.asked);
	if (drop.took_ns > most_ns)
		world_wrong(world, "drops: %s: a batch of %u took %.1f ms of %.1f", when, drop.n,
			    (double)drop.took_ns / 1e6, (double)most_ns / 1e6);
}

static void drop_others(const char *when, unsigned n)
{
	drop_make(5000, n);
	world_do(world, 0, delete_batch, NULL);
	drop_check(when);
	for (unsigned i = 0; i < n; i++)
		if (drop.item[i].result != -KV_ENOTFOUND)
			world_wrong(world, "drops: a key that nobody put is %s", kv_errname((int)drop.item[i].result));
}

static void drop_sizes(const char *when)
{
	static const unsigned size[] = {1, 64, 512, MOST};
	for (unsigned i = 0; i < KV_COUNT(size); i++)
		drop_others(when, size[i]);
}

/* `copies`: flags of the pool. Copies are slow: they wait as long as the test needs them. */
static void open_world(uint64_t seed, unsigned copies, uint64_t repair_bytes_s)
{
	struct world_options wo = {.seed = seed,
				   .servers = SERVERS,
				   .listed = 1,
				   .clients = 1,
				   .timeout_ns = 10 * SECOND,
				   .heartbeat_ms = 100,
				   .peer_timeout_ns = SECOND,
				   .pool_flags = copies,
				   .repair_bytes_s = repair_bytes_s,
				   .fabric.delay_max_ns = MS};
	memset(&members, 0, sizeof(members));
	world_open(world, &wo);
	members_all_up(FEWER);
	world_do(world, 0, members_put_all, NULL);
	world_sleep(world, SECOND);
}

static void close_world(void)
{
	world_close(world);
}

static void holds(uint64_t seed, unsigned copies)
{
	open_world(seed, copies, 20000);
	drop_sizes("at rest");
	members_all_up(SERVERS);
	drop_sizes("a server has joined");
	world_do(world, 0, members_get_all, NULL);
	assert_in_range(client()->repairs->count, 4, REPAIRS);
	drop_sizes("copies wait");
	members_change(0, KV_MEMBER_DRAINING);
	members_settle();
	drop_sizes("a server drains");
	assert_in_range(client()->repairs->count, 2, REPAIRS);
	close_world();
}

static void a_batch_stays_one_while_copies_wait(void **state)
{
	(void)state;
	holds(4300, 0);
	holds(4301, KVC_TWO_COPIES);
	holds(4302, KVC_HOT_COPIES);
}

/* Second copies of the values are under way when these are deleted, and the pieces of others. */
static void put_and_delete(struct kvc_client *c, void *arg)
{
	members_put_all(c, NULL);
	delete_batch(c, arg);
}

static void check_none(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		if (members_holders_await(c, i, NULL))
			world_wrong(world, "drops: a server still has key %u", i);
}

static void drop_all(unsigned n, void (*job)(struct kvc_client *c, void *arg))
{
	drop_make(0, n);
	world_do(world, 0, job, NULL);
	for (unsigned i = 0; i < n; i++)
		if (drop.item[i].result != (i < KEYS ? 0 : -KV_ENOTFOUND))
			world_wrong(world, "drops: the DELETE of key %u returned %s", i,
				    kv_errname((int)drop.item[i].result));
	world_do(world, 0, check_none, NULL);
}

/* Keys whose copies wait or are under way among others: all are gone afterwards, and only they wait. */
static void deleted_among_others(uint64_t seed)
{
	static const unsigned flags[] = {0, KVC_TWO_COPIES, KVC_HOT_COPIES};
	unsigned copies = flags[seed % KV_COUNT(flags)];
	open_world(seed, copies, seed % 2 ? 200000 : 2000000);
	members_all_up(SERVERS);
	world_do(world, 0, members_get_all, NULL);
	world_sleep(world, kv_prng_below(&world->prng, 50 * MS));
	drop_all(700, delete_batch);
	if (drop.took_ns > 300 * MS) /* the copy of the longest value takes less */
		world_wrong(world, "drops: a batch took %.1f ms", (double)drop.took_ns / 1e6);
	drop_all(200, put_and_delete);
	world_sleep(world, 5 * SECOND);
	world_do(world, 0, check_none, NULL);
	close_world();
}

static void what_is_copied_is_deleted_in_a_batch_of_others(void **state)
{
	(void)state;
	for (uint64_t seed = 4310; seed < 4310 + world_seeds(9); seed++)
		deleted_among_others(seed);
}

static void pin_all(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		if (kvc_pin_await(c, members_key_of(&i), NULL) != 0)
			world_wrong(world, "drops: key %u is not pinned", i);
}

/* Pins make no difference but for their keys; they are forgotten with their values. */
static void a_batch_stays_one_beside_pins(void **state)
{
	(void)state;
	open_world(4330, 0, 20000);
	world_do(world, 0, pin_all, NULL);
	drop_sizes("values are pinned");
	members_all_up(SERVERS);
	drop_sizes("pins move");
	drop_all(KEYS, delete_batch);
	assert_int_equal(world_server_stat(world, WIRE_STAT_PINNED_BYTES), 0);
	close_world();
}

/* Several batches at once take each other's room at the servers: each item has its own result all the same. */
static void delete_some(struct kvc_client *c, void *arg)
{
	static uint32_t key[3][MOST];
	unsigned k = *(const unsigned *)arg;
	struct kvc_item *item = calloc(MOST, sizeof(*item));
	for (unsigned i = 0; i < MOST; i++) {
		key[k][i] = k + 3 * i;
		item[i].key = members_key_of(&key[k][i]);
	}
	(void)kc_batch_await(c, KVC_OP_DELETE, item, MOST, NULL, NULL);
	for (unsigned i = 0; i < MOST; i++)
		if (item[i].result != (key[k][i] < KEYS ? 0 : -KV_ENOTFOUND))
			world_wrong(world, "drops: one of three batches: key %u: %s", key[k][i],
				    kv_errname((int)item[i].result));
	free(item);
}

static void batches_beside_each_other(void **state)
{
	static const unsigned number[] = {0, 1, 2};
	(void)state;
	open_world(4340, KVC_TWO_COPIES, 20000);
	members_all_up(SERVERS);
	for (unsigned k = 0; k < KV_COUNT(number); k++)
		world_worker(world, 0, 0, delete_some, (void *)(uintptr_t)&number[k]);
	world_join(world, 20 * SECOND);
	world_do(world, 0, check_none, NULL);
	close_world();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_stays_one_while_copies_wait),
		cmocka_unit_test(what_is_copied_is_deleted_in_a_batch_of_others),
		cmocka_unit_test(a_batch_stays_one_beside_pins),
		cmocka_unit_test(batches_beside_each_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
