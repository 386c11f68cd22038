/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_tiers.c -- a cluster whose servers have NVMe tiers. Servers are killed at any time, and return with their
 * tiers; they drain, stand still and leave; values are put, deleted, touched, and all are cleared. Each GET returns the
 * right bytes or a miss, and what was deleted or cleared does not come back from any tier.
 *
 * A client repeats its DELETEs at a server that was down. So one of two pools is killed while a server is: the other
 * members alone know then what that pool has deleted.
 *
 *   test_sim_tiers FIRST COUNT      so many seeds */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/members.h"

enum { SERVERS = 3, WORKERS = 8, OF_A_POOL = WORKERS / 2, KEYS = 480, LEN_MAX = 90000 };

#define TIER_BYTES (24ull << 20)
#define WALL_S     1800000000 /* in 2027 */

static const unsigned kinds[] = {0, KVC_TWO_COPIES};

static struct {
	char folder[64];
	unsigned now[SERVERS];  /* the world's number of each server */
	uint32_t version[KEYS]; /* of each key: the value that may be there; 0: it is deleted */
	bool unsure[KEYS];      /* a deletion of it failed: any version may be there */
	uint32_t last;
	bool pause;              /* workers make no calls */
	unsigned busy;           /* workers in a call */
	uint32_t doing[WORKERS]; /* a key and 1 while its worker makes a call; else 0 */
	bool killed;             /* pool 1 */
	uint64_t found, missed, deleted, clears, from_tier;
} t;

/* Files of tiers have times of the wall clock, and their server compares them before its loops turn. */
int clock_gettime(clockid_t id, struct timespec *out)
{
	uint64_t now_ns;
	if (!members.world.sim || (id != CLOCK_REALTIME && id != CLOCK_MONOTONIC))
		return (int)syscall(SYS_clock_gettime, id, out);
	now_ns = world_now(&members.world);
	out->tv_sec = (time_t)(now_ns / SECOND) + (id == CLOCK_REALTIME ? WALL_S : 0);
	out->tv_nsec = (long)(now_ns % SECOND);
	return 0;
}

static uint32_t some(uint64_t n)
{
	return (uint32_t)kv_prng_below(&members.world.prng, n);
}

/* ---- values: each worker has keys of its own ---- */

static uint32_t len_of(uint32_t key, uint32_t version)
{
	return 1000 + (uint32_t)(kv_hash_key(&(uint64_t){(uint64_t)key << 32 | version}, 8, 5) % (LEN_MAX - 1000));
}

static void value_fill(uint8_t *to, uint32_t key, uint32_t version)
{
	struct kv_prng p;
	kv_prng_seed(&p, (uint64_t)key << 32 | version);
	kv_prng_fill(&p, to, len_of(key, version));
}

static bool value_is(const uint8_t *at, int64_t len, uint32_t key, uint32_t version)
{
	uint8_t *want = malloc(LEN_MAX);
	bool is;
	value_fill(want, key, version);
	is = len == len_of(key, version) && memcmp(want, at, (size_t)len) == 0;
	free(want);
	return is;
}

static void value_check(uint32_t key, const uint8_t *at, int64_t len)
{
	uint32_t v = t.last;
	if (t.version[key] && value_is(at, len, key, t.version[key]))
		return;
	while (v > 0 && !value_is(at, len, key, v))
		v--;
	if (v == 0)
		world_wrong(&members.world, "tiers: key %u has wrong bytes (%lld of them)", key, (long long)len);
	else if (!t.unsure[key])
		world_wrong(&members.world, "tiers: key %u has version %u, not %u: it came back", key, v,
			    t.version[key]);
}

static bool unlucky(int64_t rc)
{
	return rc == -KV_EPEERDOWN || rc == -KV_ETIMEOUT || rc == -KV_ELEFT || rc == -KV_EBUSY || rc == -KV_EPROVIDER ||
	       rc == -KV_ENOMEM || rc == -KV_ECLOSED || rc == -KV_EDELETED;
}

static void get_one(struct kvc_client *c, uint32_t key, uint8_t *at)
{
	int64_t rc = kvc_get_await(c, members_key_of(&key), at, LEN_MAX, NULL);
	t.found += rc > 0;
	t.missed += rc == -KV_ENOTFOUND;
	if (rc > 0)
		value_check(key, at, rc);
	else if (rc != -KV_ENOTFOUND && !unlucky(rc))
		world_wrong(&members.world, "tiers: a GET returned %s", kv_errname((int)rc));
}

/* (After a failed PUT the value may be there.) */
static void put_one(struct kvc_client *c, uint32_t key, uint8_t *at)
{
	int64_t rc;
	if (t.version[key] || t.unsure[key])
		return;
	t.version[key] = ++t.last;
	value_fill(at, key, t.version[key]);
	rc = kvc_put_await(c, members_key_of(&key), at, len_of(key, t.version[key]), NULL);
	if (rc != 0 && !unlucky(rc))
		world_wrong(&members.world, "tiers: a PUT returned %s", kv_errname((int)rc));
}

static void delete_one(struct kvc_client *c, uint32_t key)
{
	int rc = kvc_delete_await(c, members_key_of(&key), NULL);
	t.unsure[key] = rc != 0 && rc != -KV_ENOTFOUND;
	t.version[key] = t.unsure[key] ? t.version[key] : 0;
	t.deleted += rc == 0;
	if (t.unsure[key] && !unlucky(rc))
		world_wrong(&members.world, "tiers: a DELETE returned %s", kv_errname(rc));
}

static void touch_one(struct kvc_client *c, uint32_t key)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = 1000 + some(1000)};
	int rc = kvc_touch_await(c, members_key_of(&key), &call);
	if (rc != 0 && rc != -KV_ENOTFOUND && !unlucky(rc))
		world_wrong(&members.world, "tiers: a TOUCH returned %s", kv_errname(rc));
}

static void user(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LEN_MAX);
	while (!members.stop && !members.world.wrong[0]) {
		uint32_t worker = (uint32_t)(uintptr_t)arg, pick = some(40);
		uint32_t key = worker + WORKERS * some(KEYS / WORKERS);
		t.busy += !t.pause;
		if (t.pause) {
			co_sleep_await(world_now(&members.world) + 20 * MS);
			continue;
		}
		t.doing[worker] = key + 1;
		if (pick < 20)
			get_one(c, key, at);
		else if (pick < 37)
			put_one(c, key, at);
		else if (pick < 39)
			delete_one(c, key);
		else
			touch_one(c, key);
		t.doing[worker] = 0;
		t.busy--;
		co_sleep_await(world_now(&members.world) + some(30 * MS));
	}
	free(at);
}

static bool quiet(void *arg)
{
	(void)arg;
	return t.busy == 0;
}

static void clear_all(struct kvc_client *c, void *arg)
{
	int rc = kvc_namespace_clear_await(c, NULL, NULL);
	(void)arg;
	if (rc == 0) {
		memset(t.version, 0, sizeof(t.version));
		memset(t.unsure, 0, sizeof(t.unsure));
	} else if (!unlucky(rc)) {
		world_wrong(&members.world, "tiers: a clear returned %s", kv_errname(rc));
	}
	t.clears += rc == 0;
}

/* ---- what happens ---- */

static void pass(uint64_t ns)
{
	world_sleep(&members.world, ns);
}

static unsigned returned(unsigned at)
{
	unsigned next = world_server_again(&members.world, at);
	members.state[next] = members.state[at];
	members.weight[next] = members.weight[at];
	members.state[at] = 0;
	return next;
}

/* Pool 1 is killed, and nobody repeats its DELETEs. The other pool takes its keys. */
static void pool_kill(void)
{
	pass(SECOND + some(4 * SECOND));
	t.killed = true;
	world_pool_crash(&members.world, 1);
	for (unsigned i = OF_A_POOL; i < WORKERS; i++) {
		if (t.doing[i]) {
			t.unsure[t.doing[i] - 1] = true;
			t.busy--;
		}
		t.doing[i] = 0;
		world_worker(&members.world, 0, i % 2, user, (void *)(uintptr_t)i);
	}
}

static void restart(unsigned i)
{
	world_server_crash(&members.world, t.now[i], some(4) == 0);
	if (!t.killed)
		pool_kill();
	pass(some(some(2) ? 200 * MS : 12 * SECOND));
	t.now[i] = returned(t.now[i]);
	pass(some(some(2) ? 50 * MS : SECOND));
	members_tell(++members.epoch);
}

/* All are killed, one after the other, and return. */
static void restart_all(void)
{
	for (unsigned i = 0; i < SERVERS; i++) {
		world_server_crash(&members.world, t.now[i], some(4) == 0);
		pass(some(500 * MS));
	}
	pass(some(3 * SECOND));
	for (unsigned i = 0; i < SERVERS; i++) {
		t.now[i] = returned(t.now[i]);
		pass(some(some(2) ? 50 * MS : 6 * SECOND));
		members_tell_one(t.now[i], members.epoch);
	}
}

static void leave(unsigned i)
{
	members_change(t.now[i], 0);
	pass(some(8 * SECOND));
	members_change(t.now[i], KV_MEMBER_UP);
}

static void drain(unsigned i)
{
	members_change(t.now[i], KV_MEMBER_DRAINING);
	pass(some(5 * SECOND));
	members_change(t.now[i], KV_MEMBER_UP);
}

static void stand_still(unsigned i)
{
	world_server_freeze(&members.world, t.now[i], true);
	pass(some(5 * SECOND));
	world_server_freeze(&members.world, t.now[i], false);
}

static void clear(void)
{
	t.pause = true;
	world_run(&members.world, quiet, NULL, 60 * SECOND, "calls did not end");
	world_worker(&members.world, 0, 0, clear_all, NULL);
	pass(15 * SECOND);
	t.pause = false;
}

static void step(void)
{
	unsigned i = some(SERVERS), pick = some(16);
	if (pick < 7)
		restart(i);
	else if (pick < 9)
		restart_all();
	else if (pick < 11)
		leave(i);
	else if (pick < 12)
		drain(i);
	else if (pick < 14)
		stand_still(i);
	else if (pick < 15)
		clear();
}

static void files_remove(void)
{
	char path[96];
	for (unsigned i = 0; i < SERVERS; i++) {
		snprintf(path, sizeof(path), "%s/%u.img", t.folder, i);
		(void)unlink(path);
	}
}

static void world_run_seed(uint64_t seed)
{
	struct world_options wo = {.seed = seed,
				   .servers = SERVERS,
				   .servers_max = 8,
				   .clients = 2,
				   .pools = 2,
				   .memory_bytes = 4 << 20,
				   .landing_bytes = 1 << 20,
				   .timeout_ns = 5 * SECOND,
				   .heartbeat_ms = 100,
				   .peer_timeout_ns = SECOND,
				   .pool_flags = kinds[seed % KV_COUNT(kinds)],
				   .namespace_name = "sim",
				   .recall = true,
				   .open_behind = true, /* a member serves once it knows its cluster */
				   .tier_folder = t.folder,
				   .tier_bytes = TIER_BYTES,
				   .tier_fail_ppm = seed % 3 == 2 ? 300 : 0,
				   .fabric.delay_max_ns = MS};
	char folder[sizeof(t.folder)];
	unsigned rounds;
	memcpy(folder, t.folder, sizeof(folder));
	memset(&members, 0, sizeof(members));
	memset(&t, 0, sizeof(t));
	memcpy(t.folder, folder, sizeof(folder));
	files_remove();
	world_open(&members.world, &wo);
	for (unsigned i = 0; i < SERVERS; i++)
		t.now[i] = i;
	members_all_up(SERVERS);
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&members.world, i / OF_A_POOL, i % 2, user, (void *)(uintptr_t)i);
	pass(15 * SECOND); /* memory is full, and values are on the tiers */
	rounds = 4 + some(8);
	for (unsigned k = 0; k < rounds; k++) {
		pass(SECOND + some(8 * SECOND));
		if (k == 0)
			restart(some(SERVERS));
		else
			step();
	}
	pass(20 * SECOND);
	members.stop = true;
	world_join(&members.world, 20 * SECOND);
	t.from_tier = world_server_stat(&members.world, WIRE_STAT_TIER_HITS);
	world_close(&members.world);
	members.world.sim = NULL;
	files_remove();
}

static void values_of_tiers_are_right_or_missing(void **state)
{
	uint64_t found = 0, tier = 0;
	(void)state;
	for (unsigned i = 0; i < world_seeds(24); i++) {
		world_run_seed(9000 + i);
		found += t.found;
		tier += t.from_tier;
		print_message("# seed %u: %llu found, %llu missed, %llu deleted, %llu clears, %llu from tiers\n",
			      9000 + i, (unsigned long long)t.found, (unsigned long long)t.missed,
			      (unsigned long long)t.deleted, (unsigned long long)t.clears,
			      (unsigned long long)t.from_tier);
	}
	assert_true(found > 1000);
	assert_true(tier > 100);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(values_of_tiers_are_right_or_missing)};
	int rc = 0;
	snprintf(t.folder, sizeof(t.folder), "/tmp/kvrail-tiers.XXXXXX");
	if (!mkdtemp(t.folder))
		return 1;
	if (argc == 3) {
		for (uint64_t i = 0; i < strtoull(argv[2], NULL, 0); i++)
			world_run_seed(strtoull(argv[1], NULL, 0) + i);
	} else {
		rc = cmocka_run_group_tests_name("sim/tiers", tests, NULL, NULL);
	}
	(void)rmdir(t.folder);
	return rc;
}
