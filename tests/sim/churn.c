/* SPDX-License-Identifier: Apache-2.0 */
/* churn.c -- views of all kinds, also ones that one server alone is told; servers that die, come back, move or stand
 * still; and an end at any time. Places of servers that went are used for others. */
#include "tests/sim/churn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvclient/call/batch.h"
#include "kvclient/conn/node.h"

enum { SERVERS = 4, KEYS = MEMBERS_KEYS, LONG = MEMBERS_LONG, WORKERS = 6, BATCH = 10 };

static uint32_t some(uint64_t n)
{
	return (uint32_t)kv_prng_below(&members.world.prng, n);
}

static void batch_call(struct kvc_client *c, bool put)
{
	struct kvc_item item[BATCH] = {0};
	uint32_t key[BATCH], first = some(KEYS);
	for (unsigned i = 0; i < BATCH; i++) {
		key[i] = (first + i) % KEYS;
		item[i] = (struct kvc_item){.key = members_key_of(&key[i]),
					    .data = malloc(members_len_of(key[i])),
					    .len = members_len_of(key[i])};
		if (put)
			members_value_fill(item[i].data, key[i]);
	}
	(put ? kvc_put_batch_await : kvc_get_batch_await)(c, item, BATCH, NULL);
	for (unsigned i = 0; i < BATCH; i++) {
		if (put)
			members_put_check(item[i].result);
		else
			members_get_check(key[i], item[i].data, item[i].result);
		memset(item[i].data, 0xEE, members_len_of(key[i]));
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
		keys[i] = members_key_of(&key[i]);
	}
	rc = kvc_exists_await(c, keys, KEYS, found, NULL, NULL);
	if (rc != 0 && !(rc == -KV_ECLOSED && members.stop))
		world_wrong(&members.world, "view: EXISTS returned %s", kv_errname(rc));
}

/* DELETE, TOUCH and TTL: the key is there or not. */
static void key_call(struct kvc_client *c, uint32_t i)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = 1 + some(1000)};
	struct kvc_key key = members_key_of(&i);
	uint32_t pick = some(3);
	uint64_t left_ms;
	int rc = pick == 0   ? kvc_delete_await(c, key, NULL)
		 : pick == 1 ? kvc_touch_await(c, key, &call)
			     : kvc_ttl_await(c, key, &left_ms, NULL);
	if (rc != 0 && rc != -KV_ENOTFOUND && !(rc == -KV_ECLOSED && members.stop))
		world_wrong(&members.world, "churn: a call about a key returned %s", kv_errname(rc));
}

void churn_user(struct kvc_client *c, void *arg)
{
	const uint64_t pause_ns = members.pause_ns ? members.pause_ns : 20 * MS;
	uint8_t *at = malloc(LONG);
	(void)arg;
	while (!members.stop && !members.world.wrong[0]) {
		uint32_t i = some(KEYS), pick = some(9);
		if (pick < 3) {
			members_get_check(i, at, kvc_get_await(c, members_key_of(&i), at, LONG, NULL));
		} else if (pick < 5) {
			members_value_fill(at, i);
			members_put_check(kvc_put_await(c, members_key_of(&i), at, members_len_of(i), NULL));
		} else if (pick < 7) {
			batch_call(c, pick % 2);
		} else if (pick < 8) {
			lookup_call(c);
		} else {
			key_call(c, i);
		}
		members.calls++;
		co_sleep_await(world_now(&members.world) + some(pause_ns));
	}
	free(at);
}

/* The server is dead; another one takes its place, at the same address or at another. */
static unsigned replaced(unsigned server)
{
	unsigned next =
		some(2) ? world_server_again(&members.world, server) : world_server_moved(&members.world, server);
	members.state[next] = members.state[server];
	members.state[server] = 0;
	return next;
}

/* A logical client whose session comes and goes. */
static void guest(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	(void)arg;
	while (!members.stop && !members.world.wrong[0]) {
		struct kvc_session_options o = {.size = sizeof(o)};
		struct kvc_call call = {.size = sizeof(call)};
		struct kv_error err;
		if (kvc_session_open_await(c, &o, &call.session, &err) < 0) {
			co_sleep_await(world_now(&members.world) + 50 * MS);
			continue;
		}
		/* (Where copies are slow each PIN may take its 10 s: not several of them after the end.) */
		for (unsigned k = some(6); k > 0 && !members.stop && !members.world.wrong[0] && !members.closed; k--) {
			uint32_t i = some(KEYS);
			members_get_check(i, at, kvc_get_await(c, members_key_of(&i), at, LONG, &call));
			kvc_pin_await(c, members_key_of(&i), &call);
			co_sleep_await(world_now(&members.world) + some(60 * MS));
		}
		if (members.closed) /* its sessions have ended with the pool */
			break;
		kvc_session_close_await(c, &call.session, SECOND);
	}
	free(at);
}

/* Asks for one key until the end, which is hot then. */
static void fan(struct kvc_client *c, void *arg)
{
	const uint32_t i = 7;
	uint8_t *at = malloc(MEMBERS_LONG);
	(void)arg;
	while (!members.stop)
		members_get_check(i, at, kvc_get_await(c, members_key_of(&i), at, MEMBERS_LONG, NULL));
	free(at);
}

static void open_world(uint64_t seed, enum churn_copies copies)
{
	struct world_options wo = {.seed = seed,
				   .servers = SERVERS,
				   .listed = 2,
				   .servers_max = 8,
				   .clients = 2,
				   .timeout_ns = 10 * SECOND,
				   .heartbeat_ms = 100,
				   .peer_timeout_ns = SECOND,
				   .buffer_bytes = 16 << 20,
				   .fabric.delay_max_ns = MS};
	struct kv_prng p;
	kv_prng_seed(&p, seed);
	wo.settle_ns = kv_prng_below(&p, 4) ? 0 : 1;
	wo.repair_bytes_s = kv_prng_below(&p, 4) ? 0 : 100000;
	if (copies == CHURN_TWICE || (copies == CHURN_BY_SEED && kv_prng_below(&p, 2)))
		wo.pool_flags = KVC_TWO_COPIES;
	else if (copies == CHURN_HOT)
		wo.pool_flags = KVC_HOT_COPIES;
	memset(&members, 0, sizeof(members));
	world_open(&members.world, &wo);
}

static void stand_still(unsigned server)
{
	world_server_freeze(&members.world, server, true);
	world_sleep(&members.world, some(3 * SECOND));
	world_server_freeze(&members.world, server, false);
}

/* One thing happens to the server that is number `at` now. Returns the one that is in its place. */
static unsigned trouble(unsigned at)
{
	unsigned pick = some(16);
	members.state[at] = (enum kv_member_state)some(4);
	members.weight[at] = 1 + some(5);
	if (pick == 0) /* the others hear of it when they are told another time, or from nobody */
		members_tell_one(some(2) ? 0 : at, ++members.epoch);
	else
		members_tell(++members.epoch);
	if (pick == 1)
		stand_still(at);
	if (pick < 12)
		return at;
	world_server_crash(&members.world, at, some(2));
	world_sleep(&members.world, some(300 * MS));
	return replaced(at);
}

void churn_run(uint64_t seed, enum churn_copies copies)
{
	unsigned now[SERVERS] = {0, 1, 2, 3};
	bool stop;
	open_world(seed, copies);
	world_do(&members.world, 0, members_put_all, NULL);
	members_all_up(SERVERS);
	stop = some(3) == 0;
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&members.world, 0, i % 2, churn_user, NULL);
	world_worker(&members.world, 0, 0, guest, NULL);
	for (unsigned i = 0; i < 4 && copies == CHURN_HOT; i++)
		world_worker(&members.world, 0, i % 2, fan, NULL);
	for (unsigned k = 0, rounds = 4 + some(30); k < rounds; k++) {
		unsigned at = 1 + some(SERVERS - 1); /* the first one stays */
		now[at] = trouble(now[at]);
		if (some(4) == 0)
			kc_node_redo(&members.world.pool[0].pool->client[some(2)]->node[some(2)], "the test wants it");
		world_sleep(&members.world, some(some(2) ? 30 * MS : 400 * MS));
	}
	members.stop = true;
	members.closed = stop;
	if (stop)
		world_pool_stop(&members.world, 0);
	world_join(&members.world, 20 * SECOND);
	world_close(&members.world);
}
