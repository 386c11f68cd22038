/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_trouble.c -- the whole stack while things break: connections, endpoints, single operations, whole servers
 * and clients.
 *
 * What must hold whatever breaks: no wrong byte, no call that outlives its deadline and grace, no memory touched after
 * its call, and, once the trouble is over, everything works again by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "kvclient/pool/hosted.h"
#include "loop/loop.h"
#include "tests/sim/life.h"

static struct world world;

/* ---- everything at once ---- */

static void trouble_never_shows_wrong_bytes_nor_late_calls(void **state)
{
	struct life_report report = {0};
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(12); seed++)
		life_run(&world, seed, LIFE_TROUBLED, &report);
}

static void trouble_with_a_seed_that_nobody_chose_shows_nothing_either(void **state)
{
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	struct life_report report = {0};
	(void)state;
	print_message("seed 0x%llx\n", (unsigned long long)seed);
	life_run(&world, seed, LIFE_TROUBLED, &report);
}

/* A calm world of this seed: the wire takes eight operations, and a PUT whose bytes wait for it is the first request of
 * a link whose proof is not confirmed. The proof was sent again and again, and the PUT never. */
static void proofs_do_not_keep_a_put_from_the_wire(void **state)
{
	struct life_report report = {0};
	(void)state;
	life_run(&world, 20029, LIFE_ANY, &report);
	assert_int_equal(report.failed, 0);
}

static void the_same_seed_makes_the_same_trouble_twice(void **state)
{
	struct life_report report = {0};
	(void)state;
	for (uint64_t seed = 101; seed < 101 + world_seeds(3); seed++)
		assert_int_equal(life_run(&world, seed, LIFE_TROUBLED, &report),
				 life_run(&world, seed, LIFE_TROUBLED, &report));
}

/* ---- one thing at a time ---- */

enum { VALUE = 180 << 10, USERS = 12 };

struct user {
	unsigned keys;                           /* how many it has put; all calls are about these */
	uint64_t timeout_ns, pause_ns, until_ns; /* until_ns 0: its process was killed */
	unsigned good, down, late, closed;
	uint8_t *value, *back;
};

static struct user user[USERS];

static struct kvc_key user_key(const struct user *u, unsigned i, char buf[32])
{
	int n = snprintf(buf, 32, "user %u key %u", (unsigned)(u - user), i);
	return (struct kvc_key){buf, (size_t)n};
}

/* Values differ from user to user and from key to key. */
static void user_value(const struct user *u, unsigned i)
{
	struct kv_prng p;
	kv_prng_seed(&p, (uint64_t)(u - user) << 32 | i);
	kv_prng_fill(&p, u->value, VALUE);
}

static void user_put(struct kvc_client *c, void *arg)
{
	struct user *u = arg;
	char buf[32];
	for (unsigned i = 0; i < u->keys; i++) {
		user_value(u, i);
		int rc = kvc_put_await(c, user_key(u, i, buf), u->value, VALUE, NULL);
		if (rc < 0)
			world_wrong(&world, "PUT: %s", kv_errname(rc));
	}
}

/* GET after GET; each is right, or ends in time with the one code that says why. */
static void user_get(struct kvc_client *c, void *arg)
{
	struct user *u = arg;
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = u->timeout_ns};
	char buf[32];
	for (unsigned i = 0; world_now(&world) < u->until_ns && !u->closed; i = (i + 1) % u->keys) {
		uint64_t begun = world_now(&world);
		int64_t rc = kvc_get_await(c, user_key(u, i, buf), u->back, VALUE, &call);
		uint64_t took = world_now(&world) - begun;
		if (u->until_ns && took > u->timeout_ns + WORLD_GRACE + 2 * MS)
			world_wrong(&world, "GET took %.3f ms (%s)", (double)took / 1e6,
				    kv_errname((int)KV_MIN(rc, 0)));
		user_value(u, i);
		if (rc == VALUE && memcmp(u->value, u->back, VALUE) != 0)
			world_wrong(&world, "GET returned wrong bytes");
		u->good += rc == VALUE;
		u->down += rc == -KV_EPEERDOWN;
		u->late += rc == -KV_ETIMEOUT;
		u->closed += rc == -KV_ECLOSED;
		if (rc != VALUE && rc != -KV_EPEERDOWN && rc != -KV_ETIMEOUT && rc != -KV_ECLOSED &&
		    rc != -KV_ENOTFOUND)
			world_wrong(&world, "GET returned %s", rc < 0 ? kv_errname((int)rc) : "another length");
		co_sleep_await(world_now(&world) + kv_prng_below(&world.prng, u->pause_ns));
	}
}

static void users_open(const struct world_options *wo, unsigned keys)
{
	world_open(&world, wo);
	for (unsigned i = 0; i < USERS; i++) {
		user[i] = (struct user){.keys = keys,
					.timeout_ns = 300 * MS,
					.pause_ns = 100 * MS,
					.value = malloc(VALUE),
					.back = malloc(VALUE)};
		assert_true(user[i].value && user[i].back);
		world_worker(&world, i % world.options.pools, i, user_put, &user[i]);
	}
	world_join(&world, 60 * SECOND);
}

static void users_get(uint64_t for_ns)
{
	for (unsigned i = 0; i < USERS; i++) {
		user[i].good = user[i].down = user[i].late = user[i].closed = 0;
		user[i].until_ns = world_now(&world) + for_ns;
		world_worker(&world, i % world.options.pools, i, user_get, &user[i]);
	}
}

static void users_sum(struct user *out)
{
	*out = (struct user){0};
	for (unsigned i = 0; i < USERS; i++) {
		out->good += user[i].good;
		out->down += user[i].down;
		out->late += user[i].late;
		out->closed += user[i].closed;
	}
}

static void users_close(void)
{
	for (unsigned i = 0; i < world.options.pools; i++)
		if (world.pool[i].pool)
			assert_int_equal(world_counters(&world, i).corrupt, 0);
	world_close(&world);
	for (unsigned i = 0; i < USERS; i++) {
		free(user[i].value);
		free(user[i].back);
	}
}

/* The server dies; another takes its place, empty. */
static void crash(uint64_t seed, bool power_loss)
{
	struct user sum;
	users_open(&(struct world_options){.seed = seed, .fabric.virt = seed & 1, .fabric.delay_max_ns = MS}, 2);
	users_get(20 * SECOND);
	world_sleep(&world, 200 * MS + kv_prng_below(&world.prng, 10 * MS));
	users_sum(&sum);
	assert_true(sum.good > 0 && sum.down + sum.late == 0);
	world_server_crash(&world, 0, power_loss);
	world_sleep(&world, 9 * SECOND);
	users_sum(&sum);
	assert_true(sum.down > 0); /* noticed, without a word if need be */
	assert_true(power_loss || sum.late == 0);
	world_server_again(&world, 0);
	/* However long it was away, a second later every client uses it. (Attempts that a dead machine left unanswered
	 * end when their own time is up.) */
	world_sleep(&world, SECOND);
	for (unsigned i = 0; i < USERS; i++)
		user[i].down = user[i].late = 0;
	world_sleep(&world, SECOND);
	users_sum(&sum);
	assert_true(power_loss || sum.down + sum.late == 0);
	world_join(&world, 30 * SECOND);
	for (unsigned i = 0; i < USERS; i++)
		world_worker(&world, 0, i, user_put, &user[i]);
	world_join(&world, 30 * SECOND);
	users_get(SECOND);
	world_join(&world, 30 * SECOND);
	users_sum(&sum);
	assert_true(sum.good > 0 && sum.down + sum.late == 0);
	users_close();
}

static void a_server_is_killed(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(4); seed++)
		crash(seed, false);
}

static void a_server_loses_power(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(4); seed++)
		crash(seed, true);
}

/* Calls end in time although nobody answers; its endpoints go on with what they were told, and what comes late meets
 * nobody's memory. */
static void a_server_is_stopped_for_a_while(void **state)
{
	struct user sum;
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(4); seed++) {
		uint64_t ns = seed & 1 ? 600 * MS : 6 * SECOND;
		users_open(&(struct world_options){.seed = seed, .fabric.delay_max_ns = MS, .buffer_bytes = 4 << 20},
			   2);
		users_get(ns + 8 * SECOND);
		world_sleep(&world, 100 * MS + kv_prng_below(&world.prng, 5 * MS));
		world_server_freeze(&world, 0, true);
		world_sleep(&world, ns);
		users_sum(&sum);
		assert_true(sum.late > 0);
		world_server_freeze(&world, 0, false);
		world_sleep(&world, 6 * SECOND);
		for (unsigned i = 0; i < USERS; i++)
			user[i].good = user[i].down = user[i].late = 0;
		world_join(&world, 60 * SECOND);
		users_sum(&sum);
		assert_true(sum.good > 0 && sum.down + sum.late == 0);
		users_close();
	}
}

/* One of two servers is lost while its writes are under way. The other goes on being served from the same buffer, in
 * which quarantine keeps apart what the writes may still hit. */
static void late_writes_of_a_lost_server_meet_nobody(void **state)
{
	uint64_t late = 0, landed = 0;
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(12); seed++) {
		const struct world_options wo = {.seed = seed,
						 .servers = 2,
						 .clients = 1,
						 .fabric.delay_max_ns = 2 * MS,
						 .chunk_bytes = 64 << 10,
						 .buffer_bytes = 64 << 20};
		users_open(&wo, 4);
		for (unsigned i = 0; i < USERS; i++)
			user[i].pause_ns = MS;
		users_get(500 * MS);
		world_sleep(&world, 100 * MS + kv_prng_below(&world.prng, 20 * MS));
		world_unplug(&world, world.server[0].fab_first, world.server[0].fab_end, true);
		world_sleep(&world, kv_prng_below(&world.prng, 3 * MS));
		sim_port_kill(world.sim, world.server[0].port);
		world_sleep(&world, MS); /* the news arrives */
		sim_port_cut(world.sim, world.server[0].port, true);
		for (unsigned i = 0; i < 50; i++) {
			world_sleep(&world, kv_prng_below(&world.prng, 4 * MS));
			world_unplug(&world, world.server[0].fab_first, world.server[0].fab_end, i & 1);
		}
		sim_port_cut(world.sim, world.server[0].port, false);
		world_join(&world, 60 * SECOND);
		late += world_counters(&world, 0).stale_immediates;
		landed += world.late_landings;
		users_close();
	}
	assert_true(late > 0 && landed > 0); /* or nothing was tested */
}

/* What a lost server may still write to is not reused; but the buffer does not stay smaller for ever. */
static void lose_one_of_two(uint64_t seed, enum world_fence fence)
{
	users_open(&(struct world_options){.seed = seed,
					   .fence = fence,
					   .servers = 2,
					   .clients = 1,
					   .fabric.delay_max_ns = 2 * MS,
					   .buffer_bytes = 64 << 20},
		   4);
	users_get(300 * MS);
	world_sleep(&world, 100 * MS);
	world_server_crash(&world, 0, true);
	world_join(&world, 30 * SECOND);
}

static void lose_and_keep(uint64_t seed)
{
	lose_one_of_two(seed, WORLD_FENCE_ALL);
	assert_true(world_counters(&world, 0).quarantined_bytes > 0);
	assert_int_equal(world_counters(&world, 0).fences, 0);
}

/* Where a fence is one of the lost server alone, it is made at once. */
static void memory_of_a_lost_server_that_can_be_cut_is_never_kept(void **state)
{
	struct sim_fabric_stats stats;
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(4); seed++) {
		lose_one_of_two(seed, WORLD_FENCE_ONE);
		world_sleep(&world, 4 * SECOND); /* its silence is noticed */
		sim_fabric_stats(&stats);
		assert_int_equal(world_counters(&world, 0).quarantined_bytes, 0);
		assert_int_equal(world_counters(&world, 0).fences, 1);
		assert_int_equal(world_counters(&world, 0).reattaches, 0);
		assert_int_equal(stats.cuts, WORLD_SHARDS);
		assert_int_equal(stats.rebuilds, 0);
		world_rest_check(&world);
		users_close();
	}
}

static void memory_of_a_lost_server_comes_back_at_rest(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(4); seed++) {
		lose_and_keep(seed);
		world_sleep(&world, 2 * SECOND);
		assert_true(world_counters(&world, 0).quarantined_bytes > 0);
		world_sleep(&world, 8 * SECOND);
		assert_int_equal(world_counters(&world, 0).fences, 1);
		world_rest_check(&world);
		users_close();
	}
}

/* A call that needs the whole buffer. */
static void take_all(struct kvc_client *c, void *arg)
{
	struct kvc_borrowed borrowed;
	uint64_t begun = world_now(&world);
	int rc = kvc_borrow_await(c, 64 << 20, 100 * SECOND, &borrowed);
	if (rc < 0)
		world_wrong(&world, "acquiring the whole buffer: %s", kv_errname(rc));
	kvc_borrowed_release(c, &borrowed);
	*(uint64_t *)arg = world_now(&world) - begun;
}

static void memory_of_a_lost_server_comes_back_under_calls(void **state)
{
	uint64_t took = 0;
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(4); seed++) {
		lose_and_keep(seed);
		world_worker(&world, 0, 0, take_all, &took);
		world_join(&world, 110 * SECOND);
		assert_in_range(took, 20 * SECOND, 70 * SECOND);
		assert_int_equal(world_counters(&world, 0).fences, 1);
		world_rest_check(&world);
		users_close();
	}
}

/* A client process dies with requests out. The server and another pool do not mind, and its sessions are gone. */
static void a_pool_is_killed(void **state)
{
	struct user sum;
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(6); seed++) {
		users_open(&(struct world_options){.seed = seed, .pools = 2, .fabric.delay_max_ns = MS}, 2);
		users_get(3 * SECOND);
		world_sleep(&world, 100 * MS + kv_prng_below(&world.prng, 5 * MS));
		world_pool_crash(&world, 1);
		for (unsigned i = 1; i < USERS; i += 2)
			user[i].until_ns = 0;
		world_sleep(&world, 5 * SECOND);
		users_sum(&sum);
		assert_int_equal(world.workers, 0);
		assert_int_equal(world.pool[1].workers, USERS / 2); /* those of the dead one */
		assert_true(sum.good > 0 && sum.down + sum.late == 0);
		users_close();
	}
}

/* Told to stop, it finishes what is under way and says goodbye; calls then fail at once. */
static bool has_stopped(void *arg)
{
	return kvs_server_state(arg, NULL) == KVS_STOPPED;
}

static void a_server_is_told_to_stop(void **state)
{
	struct user sum;
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(6); seed++) {
		users_open(&(struct world_options){.seed = seed, .fabric.delay_max_ns = MS}, 2);
		users_get(3 * SECOND);
		world_sleep(&world, 100 * MS + kv_prng_below(&world.prng, 5 * MS));
		kvs_server_stop(world.server[0].server, SECOND);
		world_run(&world, has_stopped, world.server[0].server, 3 * SECOND, "the server did not stop");
		world_join(&world, 30 * SECOND);
		users_sum(&sum);
		assert_true(sum.good > 0 && sum.down == 0 &&
			    sum.late == 0); /* it said goodbye: what it held are misses */
		users_close();
	}
}

/* A pool is closed under its calls: they end with one code, and everything is given back. */
static bool has_closed(void *arg)
{
	return kc_pool_stopped(arg);
}

static void a_pool_is_closed_under_its_calls(void **state)
{
	struct user sum;
	(void)state;
	for (uint64_t seed = 1; seed <= world_seeds(8); seed++) {
		users_open(&(struct world_options){.seed = seed, .fabric.delay_max_ns = MS}, 2);
		users_get(3 * SECOND);
		world_sleep(&world, 100 * MS + kv_prng_below(&world.prng, 5 * MS));
		world_server_freeze(&world, 0, seed & 1); /* nobody answers the goodbye */
		kc_pool_stop(world.pool[0].pool);
		world_run(&world, has_closed, world.pool[0].pool, 5 * SECOND, "the pool did not close");
		world_join(&world, SECOND);
		users_sum(&sum);
		assert_int_equal(sum.closed, USERS);
		users_close();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_is_killed),
		cmocka_unit_test(a_server_loses_power),
		cmocka_unit_test(a_server_is_stopped_for_a_while),
		cmocka_unit_test(late_writes_of_a_lost_server_meet_nobody),
		cmocka_unit_test(memory_of_a_lost_server_that_can_be_cut_is_never_kept),
		cmocka_unit_test(memory_of_a_lost_server_comes_back_at_rest),
		cmocka_unit_test(memory_of_a_lost_server_comes_back_under_calls),
		cmocka_unit_test(a_pool_is_killed),
		cmocka_unit_test(a_server_is_told_to_stop),
		cmocka_unit_test(a_pool_is_closed_under_its_calls),
		cmocka_unit_test(trouble_never_shows_wrong_bytes_nor_late_calls),
		cmocka_unit_test(trouble_with_a_seed_that_nobody_chose_shows_nothing_either),
		cmocka_unit_test(proofs_do_not_keep_a_put_from_the_wire),
		cmocka_unit_test(the_same_seed_makes_the_same_trouble_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
