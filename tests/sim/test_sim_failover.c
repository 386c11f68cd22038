/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_failover.c -- one of several servers is lost under calls, under virtual time, and others stand in for it.
 *
 * Values are immutable: the bytes under a key follow from the key. So any copy of one is right, whoever has it. What
 * must hold: no call fails unless all servers are down; bytes are right; who was under way at the lost server waits
 * once until it is known to be down, and nobody after that; a second later calls take no longer than before; what the
 * server had is a hit again when it is back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hist.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/call.h"
#include "tests/sim/world.h"

enum { SERVERS = 4, KEYS = 64, WORKERS = 8, BATCH = 12, LOOKUP = 1000, LONG = 3 << 20 };

#define PEER_TIMEOUT SECOND
#define BEAT         (200 * MS)
#define SLACK        (500 * MS) /* a fence, and what a call takes */

enum trouble { KILLED, WITHOUT_POWER, STOPPED, CUT, ENDED, TROUBLES };

static const char *const trouble_name[TROUBLES] = {"killed", "without power", "stopped", "cut off the fabric",
						   "told to end"};

static struct world world;

static struct {
	enum trouble trouble;
	bool stop;
	uint64_t known_ns;             /* calls that begin later know that the server is down */
	uint64_t lost_ns, normal_ns;   /* when the server was lost; calls that begin later take the normal time again */
	struct kv_hist before, normal; /* how long calls took */
	uint64_t calls, hits, misses, rounds;
	unsigned owner[KEYS]; /* by index of the key */
} test;

static struct kvc_key key_of(const uint32_t *i)
{
	return (struct kvc_key){i, sizeof(*i)};
}

static uint32_t len_of(uint32_t i)
{
	static const uint32_t len[] = {100, 3000, 60000, 400000, LONG};
	return i == 31 ? len[4] : len[i % 4];
}

static void value_fill(uint8_t *at, uint32_t i)
{
	memset(at, (int)(i * 7 + 1), len_of(i));
}

static bool value_right(const uint8_t *at, uint32_t i, int64_t len)
{
	return len == len_of(i) && at[0] == (uint8_t)(i * 7 + 1) && memcmp(at, at + 1, (size_t)len - 1) == 0;
}

/* The key was asked for. */
static void get_check(const char *what, uint32_t i, const uint8_t *at, int64_t rc)
{
	test.hits += rc > 0;
	test.misses += rc == -KV_ENOTFOUND;
	if (rc < 0 && rc != -KV_ENOTFOUND)
		world_wrong(&world, "failover: %s of a key of server %u returned %s", what, test.owner[i],
			    kv_errname((int)rc));
	else if (rc >= 0 && !value_right(at, i, rc))
		world_wrong(&world, "failover: %s returned wrong bytes", what);
}

static void put_check(const char *what, uint32_t i, int64_t rc)
{
	if (rc != 0)
		world_wrong(&world, "failover: %s of a key of server %u returned %s", what, test.owner[i],
			    kv_errname((int)rc));
}

/* How long it takes until the server is known to be down. While its control connection answers, a link of it is pinged
 * after the time of silence, at a heartbeat, and then given as much time to answer. */
static uint64_t notice_ns(void)
{
	return test.trouble == CUT ? 2 * (PEER_TIMEOUT + BEAT) : PEER_TIMEOUT;
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
			put_check("PUT in a batch", key[i], item[i].result);
		else
			get_check("GET in a batch", key[i], item[i].data, item[i].result);
		memset(item[i].data, 0xEE, len_of(key[i])); /* nobody reads or writes it any more */
		free(item[i].data);
	}
}

static void lookup_call(struct kvc_client *c)
{
	static uint32_t key[LOOKUP];
	struct kvc_key keys[LOOKUP];
	uint8_t found[LOOKUP];
	unsigned prefix = LOOKUP + 1, first = 0;
	int rc;
	for (uint32_t i = 0; i < LOOKUP; i++) {
		key[i] = i;
		keys[i] = key_of(&key[i]);
	}
	rc = kvc_exists_await(c, keys, LOOKUP, found, &prefix, NULL);
	if (rc != 0) {
		world_wrong(&world, "failover: EXISTS returned %s", kv_errname(rc));
		return;
	}
	while (first < LOOKUP && found[first])
		first++;
	if (prefix != first || first > KEYS)
		world_wrong(&world, "failover: EXISTS counts a prefix of %u, and its flags %u", prefix, first);
}

static void small_call(struct kvc_client *c)
{
	uint32_t i = some(KEYS);
	int rc = some(4)   ? kvc_touch_await(c, key_of(&i), NULL)
		 : some(2) ? kvc_pin_await(c, key_of(&i), NULL)
			   : kvc_unpin_await(c, key_of(&i), NULL);
	if (rc < 0 && rc != -KV_ENOTFOUND)
		world_wrong(&world, "failover: TOUCH, PIN or UNPIN returned %s", kv_errname(rc));
}

static void borrowed_call(struct kvc_client *c)
{
	uint32_t i = some(KEYS);
	struct kvc_borrowed b = {0};
	int64_t rc = kvc_get_borrowed_await(c, key_of(&i), len_of(i), NULL, &b);
	get_check("GET of a borrowed piece", i, b.data, rc);
	kvc_borrowed_release(c, &b);
}

static void one_call(struct kvc_client *c, uint8_t *at)
{
	uint32_t i = some(KEYS), pick = some(16);
	if (pick < 5) {
		get_check("GET", i, at, kvc_get_await(c, key_of(&i), at, LONG, NULL));
	} else if (pick < 9) {
		value_fill(at, i);
		put_check("PUT", i, kvc_put_await(c, key_of(&i), at, len_of(i), NULL));
	} else if (pick < 13) {
		batch_call(c, pick % 2);
	} else if (pick == 13) {
		lookup_call(c);
	} else if (pick == 14) {
		small_call(c);
	} else {
		borrowed_call(c);
	}
}

static void user(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	(void)arg;
	while (!test.stop && !world.wrong[0]) {
		uint64_t begun = world_now(&world), took;
		one_call(c, at);
		took = world_now(&world) - begun;
		test.calls++;
		if (world_now(&world) <= test.lost_ns)
			kv_hist_add(&test.before, took);
		else if (begun >= test.normal_ns)
			kv_hist_add(&test.normal, took);
		if (took > (begun >= test.known_ns ? 0 : notice_ns()) + SLACK)
			world_wrong(&world, "failover: a call that began %s took %.3f s",
				    begun >= test.known_ns ? "when the server was known to be down" : "before",
				    (double)took / 1e9);
		co_sleep_await(world_now(&world) + some(30 * MS));
	}
	free(at);
}

/* Calls into registered memory that give up long before the server is known to be down: what they asked it for may come
 * at any time, so the client fences, and attaches anew. */
static void hasty(struct kvc_client *c, void *arg)
{
	struct kvc_call soon = {.size = sizeof(soon), .timeout_ns = 100 * MS};
	uint8_t *at = arg;
	while (!test.stop && !world.wrong[0]) {
		uint32_t i = some(KEYS);
		int64_t rc = kvc_get_await(c, key_of(&i), at, LONG, &soon);
		if (rc != -KV_ETIMEOUT)
			get_check("a hasty GET", i, at, rc);
		co_sleep_await(world_now(&world) + some(30 * MS));
	}
}

static void put_all(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		test.owner[i] = route_owner(c, key_of(&i))->index;
		value_fill(at, i);
		put_check("PUT", i, kvc_put_await(c, key_of(&i), at, len_of(i), NULL));
	}
	free(at);
}

static void get_all(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	bool all = arg != NULL;
	for (uint32_t i = 0; i < KEYS; i++) {
		int64_t rc = kvc_get_await(c, key_of(&i), at, LONG, NULL);
		get_check("GET", i, at, rc);
		if (all && rc == -KV_ENOTFOUND)
			world_wrong(&world, "failover: a value of server %u is not there", test.owner[i]);
	}
	free(at);
}

/* Both clients ask the same server for a key that a third one stands in for. */
static void agree(void)
{
	struct kvc_client **c = world.pool[0].pool->client;
	for (uint32_t i = 0; i < KEYS; i++) {
		unsigned a = route_first(c[0], key_of(&i))->index;
		if (a != route_first(c[1], key_of(&i))->index)
			world_wrong(&world, "failover: two clients do not agree about a key");
		if (c[0]->node[a].state == KC_NODE_DOWN)
			world_wrong(&world, "failover: a server that is avoided is asked");
		if (a != test.owner[i] && c[0]->node[test.owner[i]].state != KC_NODE_DOWN)
			world_wrong(&world, "failover: a key is not where it belongs");
	}
}

static unsigned down(unsigned server)
{
	switch (test.trouble) {
	case STOPPED:
		world_server_freeze(&world, server, true);
		break;
	case CUT:
		world_unplug(&world, world.server[server].fab_first, world.server[server].fab_end, true);
		break;
	case ENDED:
		kvs_server_stop(world.server[server].server, SECOND);
		break;
	default:
		world_server_crash(&world, server, test.trouble == WITHOUT_POWER);
	}
	return server;
}

static void up(unsigned server)
{
	if (test.trouble == STOPPED)
		world_server_freeze(&world, server, false);
	else if (test.trouble == CUT)
		world_unplug(&world, world.server[server].fab_first, world.server[server].fab_end, false);
	else if (test.trouble != ENDED)
		world_server_again(&world, server);
	test.known_ns = test.normal_ns = KV_NEVER;
	world_sleep(&world, 3 * SECOND);
}

static void open_world(uint64_t seed, unsigned servers)
{
	struct world_options wo = {.seed = seed,
				   .servers = servers,
				   .clients = 2,
				   .timeout_ns = 10 * SECOND,
				   .heartbeat_ms = BEAT / MS,
				   .peer_timeout_ns = PEER_TIMEOUT,
				   .buffer_bytes = 16 << 20,
				   .fabric.delay_max_ns = MS};
	enum trouble t = test.trouble;
	memset(&test, 0, sizeof(test));
	test.trouble = t;
	test.known_ns = test.lost_ns = test.normal_ns = KV_NEVER;
	kv_hist_init(&test.before);
	kv_hist_init(&test.normal);
	world_open(&world, &wo);
	world_do(&world, 0, put_all, NULL);
}

/* A call in a hundred took as long, or longer, before the loss, and from a second after it was known on. */
static void normal_check(void)
{
	uint64_t before = kv_hist_reached(&test.before, 0.99), now = kv_hist_reached(&test.normal, 0.99);
	print_message("p99 of %llu calls before: %.3f ms; of %llu again: %.3f ms\n",
		      (unsigned long long)test.before.count, (double)before / 1e6,
		      (unsigned long long)test.normal.count, (double)now / 1e6);
	if (before == 0 || now == 0 || now > before + before / 4)
		world_wrong(&world,
			    "failover: a second after the loss was known p99 was %.3f ms, and %.3f ms before it",
			    (double)now / 1e6, (double)before / 1e6);
}

static void lose_one(uint64_t seed)
{
	unsigned victim;
	struct kvc_counters n;
	open_world(seed, SERVERS);
	victim = (unsigned)kv_prng_below(&world.prng, SERVERS);
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&world, 0, i % 2, user, NULL);
	world_sleep(&world, 2 * SECOND + kv_prng_below(&world.prng, 100 * MS));
	test.lost_ns = world_now(&world);
	test.normal_ns = test.lost_ns + notice_ns() + SECOND;
	down(victim);
	world_sleep(&world, notice_ns() + SLACK);
	test.known_ns = world_now(&world);
	agree();
	world_sleep(&world, 2500 * MS);
	agree();
	normal_check();
	n = world_counters(&world, 0);
	if (n.stand_ins == 0 || n.errors > 0)
		world_wrong(&world, "failover: %llu keys were asked for elsewhere, and %llu calls failed",
			    (unsigned long long)n.stand_ins, (unsigned long long)n.errors);
	up(victim);
	test.stop = true;
	world_join(&world, 20 * SECOND);
	if (test.hits == 0 || test.misses == 0)
		world_wrong(&world, "failover: nothing was seen");
	if (test.trouble == STOPPED || test.trouble == CUT) /* its content was never lost */
		world_do(&world, 0, get_all, &test);
	world_do(&world, 0, put_all, NULL);
	world_do(&world, 0, get_all, &test);
	agree();
	world_close(&world);
}

/* The attempts to attach anew after a fence have no answer either: calls wait for them no longer than for a server that
 * is silent. */
static void a_server_that_stops_among_hasty_calls_is_avoided_as_soon(void **state)
{
	(void)state;
	for (unsigned seed = 360; seed < 360 + world_seeds(2); seed++) {
		uint8_t *memory = aligned_alloc(4096, 2 * LONG);
		struct kvc_mem *mem;
		unsigned victim;
		test.trouble = STOPPED;
		open_world(seed, SERVERS);
		assert_int_equal(world_register(&world, 0, memory, 2 * LONG, &mem), 0);
		victim = (unsigned)kv_prng_below(&world.prng, SERVERS);
		for (unsigned i = 0; i < WORKERS; i++)
			world_worker(&world, 0, i % 2, i < 2 ? hasty : user, i < 2 ? memory + i * LONG : NULL);
		world_sleep(&world, 300 * MS);
		down(victim);
		world_sleep(&world, 2 * PEER_TIMEOUT + SLACK);
		test.known_ns = world_now(&world);
		agree();
		world_sleep(&world, 4 * SECOND);
		agree();
		if (world_counters(&world, 0).fences == 0)
			world_wrong(&world, "failover: no hasty call was fenced");
		up(victim);
		test.stop = true;
		world_join(&world, 20 * SECOND);
		world_do(&world, 0, get_all, &test);
		world_close(&world);
		free(memory);
	}
}

static void a_server_that_is_lost_fails_no_call(void **state)
{
	(void)state;
	for (unsigned t = 0; t < TROUBLES; t++)
		for (unsigned seed = 300; seed < 300 + world_seeds(2); seed++) {
			test.trouble = t;
			print_message("%s, seed %u\n", trouble_name[t], seed);
			lose_one(seed);
		}
}

/* It goes and comes, faster than it is waited for. */
static void a_server_that_flaps_fails_no_call(void **state)
{
	(void)state;
	for (unsigned seed = 320; seed < 320 + world_seeds(2); seed++) {
		test.trouble = KILLED;
		open_world(seed, SERVERS);
		for (unsigned i = 0; i < WORKERS; i++)
			world_worker(&world, 0, i % 2, user, NULL);
		for (unsigned i = 0, at = 1; i < 8; i++) {
			world_server_crash(&world, at, false);
			world_sleep(&world, kv_prng_below(&world.prng, 400 * MS));
			at = world_server_again(&world, at);
			world_sleep(&world, kv_prng_below(&world.prng, 600 * MS));
		}
		test.stop = true;
		world_join(&world, 20 * SECOND);
		world_close(&world);
	}
}

static void looker(struct kvc_client *c, void *arg)
{
	(void)arg;
	while (!test.stop && !world.wrong[0])
		lookup_call(c);
}

/* Beside other calls the end of an attachment is a fence, which ends lookups as one that is to be made again. Alone
 * they have no memory in question, and end as their server is: it is the lookup that looks for who stands in. */
static void lookups_alone_are_made_again_elsewhere(void **state)
{
	(void)state;
	WORLD_LONG();
	for (test.trouble = 0; test.trouble < TROUBLES; test.trouble++) {
		unsigned victim;
		open_world(900 + test.trouble, SERVERS);
		for (unsigned i = 0; i < 2; i++)
			world_worker(&world, 0, i, looker, NULL);
		world_sleep(&world, 100 * MS + some(10 * MS));
		victim = down(some(SERVERS));
		world_sleep(&world, notice_ns() + MS);
		up(victim);
		test.stop = true;
		world_join(&world, 11 * SECOND);
		world_rest_check(&world);
		world_close(&world);
	}
}

static void all_fail(struct kvc_client *c, void *arg)
{
	struct kvc_call miss = {.size = sizeof(miss), .flags = KVC_DOWN_IS_MISS};
	uint8_t *at = malloc(LONG), found = 1;
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		struct kvc_key key = key_of(&i);
		int64_t got = kvc_get_await(c, key, at, LONG, NULL), missed = kvc_get_await(c, key, at, LONG, &miss);
		int put = kvc_put_await(c, key, "x", 1, &miss), looked = kvc_exists_await(c, &key, 1, NULL, NULL, NULL);
		int lenient = kvc_exists_await(c, &key, 1, &found, NULL, &miss);
		if (got != -KV_EPEERDOWN || missed != -KV_ENOTFOUND || put != -KV_EPEERDOWN ||
		    looked != -KV_EPEERDOWN || lenient != 0 || found)
			world_wrong(&world, "failover: with all servers down: GET %s, or %s; PUT %s; EXISTS %s, or %s",
				    kv_errname((int)got), kv_errname((int)missed), kv_errname(put), kv_errname(looked),
				    kv_errname(lenient));
	}
	free(at);
}

static void with_all_servers_down_calls_fail_at_once(void **state)
{
	uint64_t begun;
	(void)state;
	test.trouble = WITHOUT_POWER;
	open_world(340, 3);
	for (unsigned i = 0; i < 3; i++) {
		world_do(&world, 0, put_all, NULL); /* fails nowhere, while one is up */
		world_server_crash(&world, i, i % 2);
		world_sleep(&world, PEER_TIMEOUT + SLACK);
	}
	begun = world_now(&world);
	world_do(&world, 0, all_fail, NULL);
	assert_in_range(world_now(&world) - begun, 0, 10 * MS);
	world_server_again(&world, 1);
	world_sleep(&world, 3 * SECOND);
	world_do(&world, 0, put_all, NULL);
	world_do(&world, 0, get_all, &test);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_is_lost_fails_no_call),
		cmocka_unit_test(a_server_that_stops_among_hasty_calls_is_avoided_as_soon),
		cmocka_unit_test(a_server_that_flaps_fails_no_call),
		cmocka_unit_test(lookups_alone_are_made_again_elsewhere),
		cmocka_unit_test(with_all_servers_down_calls_fail_at_once),
	};
	return cmocka_run_group_tests_name("sim/failover", tests, NULL, NULL);
}
