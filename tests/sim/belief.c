/* SPDX-License-Identifier: Apache-2.0 */
/* belief.c -- see belief.h. Four of five servers announce what the test, as their source, says; they may hear of it one
 * after the other, and differ for that time. The fifth serves as well as the others, and announces what it likes. */
#include "tests/sim/belief.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/transfer/call.h"
#include "tests/sim/members.h"

enum { SERVERS = 5, LIAR = SERVERS - 1, WORKERS = 4, DEAD_PORT = 9, VIEWS_MAX = 256 };
enum { OWN = 32, WORDS = 64, OWN_FIRST = 1000 };

static struct {
	unsigned now[SERVERS];     /* the world's number of each server */
	kv_u128 honest[VIEWS_MAX]; /* digests that the source has announced */
	unsigned num_honest;
	uint64_t changes[WORLD_POOLS][WORLD_CLIENTS];
	kv_u128 digest[WORLD_POOLS][WORLD_CLIENTS];
	uint32_t version[OWN], last; /* of each worker's own keys: the value that may be there; 0: it is deleted */
} t;

static uint32_t some(uint64_t n)
{
	return (uint32_t)kv_prng_below(&members.world.prng, n);
}

/* ---- what is announced ---- */

static void member_put(struct kv_view *v, const char *id, uint16_t port, uint32_t weight, enum kv_member_state state)
{
	struct kv_member m = {.weight = weight, .state = state};
	snprintf(m.node_id, sizeof(m.node_id), "%s", id);
	snprintf(m.address, sizeof(m.address), "127.0.0.1:%u", port);
	assert_int_equal(kv_view_add(v, &m), 0);
}

static void others_put(struct kv_view *v, unsigned liar, enum belief_lie lie)
{
	const struct world_server *self = &members.world.server[liar];
	for (unsigned i = 0; i < members.world.num_servers; i++) {
		const struct world_server *s = &members.world.server[i];
		char id[24];
		if (!members.state[i] && i != liar)
			continue;
		snprintf(id, sizeof(id), "node-%u", s->as);
		member_put(v, id, lie == LIE_NAMES ? self->port : s->port,
			   lie == LIE_WEIGHT && i == liar ? KV_WEIGHT_MAX : 1,
			   lie == LIE_DRAINING && i != liar ? KV_MEMBER_DRAINING : KV_MEMBER_UP);
	}
}

void belief_lie(unsigned liar, enum belief_lie lie, uint64_t source, uint64_t epoch)
{
	struct kv_view v = {.source = source, .epoch = lie == LIE_NONE ? 0 : epoch};
	char id[24];
	snprintf(id, sizeof(id), "node-%u", members.world.server[liar].as);
	if (lie == LIE_DEAD)
		member_put(&v, "node-dead", DEAD_PORT, 1, KV_MEMBER_UP);
	if (lie == LIE_ALONE) {
		member_put(&v, id, members.world.server[liar].port, 1, KV_MEMBER_UP);
		member_put(&v, "node-mine", DEAD_PORT + 1, KV_WEIGHT_MAX, KV_MEMBER_UP);
	}
	if (lie == LIE_DRAINING || lie == LIE_WEIGHT || lie == LIE_NAMES)
		others_put(&v, liar, lie);
	if (lie == LIE_STALE)
		member_put(&v, "node-0", members.world.server[0].port, 7, KV_MEMBER_UP);
	assert_int_equal(kvs_server_view_set(members.world.server[liar].server, &v), 0);
	kv_view_fini(&v);
}

/* The source has another view: its servers hear of it at once, or one after the other. */
static void announce(bool at_once)
{
	struct kv_view v;
	members.epoch++;
	for (unsigned i = 0; i < SERVERS; i++) {
		if (i == LIAR)
			continue;
		members_tell_one(t.now[i], members.epoch);
		if (!at_once)
			world_sleep(&members.world, some(200 * MS));
	}
	members_view(&v, members.epoch);
	assert_true(t.num_honest < VIEWS_MAX);
	t.honest[t.num_honest++] = kv_view_digest(&v);
	kv_view_fini(&v);
}

/* ---- what clients believe ---- */

static bool is_honest(kv_u128 digest)
{
	for (unsigned i = 0; i < t.num_honest; i++)
		if (t.honest[i] == digest)
			return true;
	return digest == 0;
}

static void client_check(unsigned pool, unsigned client)
{
	const struct kvc_client *c = members.world.pool[pool].pool->client[client];
	if (!is_honest(c->cluster.digest))
		world_wrong(&members.world, "belief: client %u of pool %u follows a view that one server announces",
			    client, pool);
	t.changes[pool][client] += c->cluster.digest != t.digest[pool][client];
	t.digest[pool][client] = c->cluster.digest;
	if (t.changes[pool][client] > t.num_honest)
		world_wrong(&members.world, "belief: client %u of pool %u has changed its view %llu times, of %u",
			    client, pool, (unsigned long long)t.changes[pool][client], t.num_honest);
}

static void check(void)
{
	for (unsigned p = 0; p < members.world.options.pools; p++)
		for (unsigned i = 0; i < members.world.options.clients; i++)
			client_check(p, i);
}

/* Time passes, and what clients believe is looked at all the while. */
static void pass(uint64_t ns)
{
	for (uint64_t step; ns > 0; ns -= step) {
		step = KV_MIN(ns, 50 * MS);
		world_sleep(&members.world, step);
		check();
	}
}

/* ---- keys that one worker alone changes: a value that was deleted is not found again ---- */

static void own_get(struct kvc_client *c, uint32_t k)
{
	uint32_t key = OWN_FIRST + k, value[WORDS];
	int64_t rc = kvc_get_await(c, members_key_of(&key), value, sizeof(value), NULL);
	if (rc > 0 && value[0] != t.version[k])
		world_wrong(&members.world, "belief: own key %u has version %u, not %u", k, value[0], t.version[k]);
	else if (rc < 0 && rc != -KV_ENOTFOUND)
		world_wrong(&members.world, "belief: a GET returned %s", kv_errname((int)rc));
}

static void own_put(struct kvc_client *c, uint32_t k)
{
	uint32_t key = OWN_FIRST + k, value[WORDS] = {++t.last};
	if (t.version[k])
		return;
	t.version[k] = t.last;
	members_put_check(kvc_put_await(c, members_key_of(&key), value, sizeof(value), NULL));
}

static void own_delete(struct kvc_client *c, uint32_t k)
{
	uint32_t key = OWN_FIRST + k;
	int rc = kvc_delete_await(c, members_key_of(&key), NULL);
	t.version[k] = 0;
	if (rc != 0 && rc != -KV_ENOTFOUND)
		world_wrong(&members.world, "belief: a DELETE returned %s", kv_errname(rc));
}

/* TOUCH, PIN and UNPIN. */
static void own_keep(struct kvc_client *c, uint32_t k)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = 100 + some(1000)};
	uint32_t key = OWN_FIRST + k, pick = some(3);
	int rc = pick == 0   ? kvc_touch_await(c, members_key_of(&key), &call)
		 : pick == 1 ? kvc_pin_await(c, members_key_of(&key), NULL)
			     : kvc_unpin_await(c, members_key_of(&key), NULL);
	if (rc != 0 && rc != -KV_ENOTFOUND)
		world_wrong(&members.world, "belief: a TOUCH, PIN or UNPIN returned %s", kv_errname(rc));
}

static void own_call(struct kvc_client *c, unsigned worker)
{
	uint32_t k = worker + WORKERS * some(OWN / WORKERS), pick = some(8);
	if (pick < 4)
		own_get(c, k);
	else if (pick < 6)
		own_put(c, k);
	else if (pick < 7)
		own_delete(c, k);
	else
		own_keep(c, k);
}

/* Most of a world's time passes quietly. */
static void user(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(MEMBERS_LONG);
	while (!members.stop && !members.world.wrong[0]) {
		uint32_t i = some(MEMBERS_KEYS);
		if (some(3) == 0) {
			own_call(c, (unsigned)(uintptr_t)arg);
		} else if (some(2)) {
			members_get_check(i, at, kvc_get_await(c, members_key_of(&i), at, MEMBERS_LONG, NULL));
		} else {
			members_value_fill(at, i);
			members_put_check(kvc_put_await(c, members_key_of(&i), at, members_len_of(i), NULL));
		}
		co_sleep_await(world_now(&members.world) + some(400 * MS));
	}
	free(at);
}

/* ---- what happens ---- */

/* One server of the source restarts: it was killed, or ends in order; it has its view at once, or a bit later. */
static void restart(void)
{
	unsigned at = some(LIAR), next;
	bool late = some(2);
	if (some(2)) {
		kvs_server_stop(members.world.server[t.now[at]].server, 100 * MS);
		pass(some(2) ? 200 * MS : SECOND);
	}
	world_server_crash(&members.world, t.now[at], some(4) == 0);
	pass(some(some(2) ? 100 * MS : 5 * SECOND));
	next = world_server_again(&members.world, t.now[at]);
	members.state[next] = members.state[t.now[at]];
	members.weight[next] = members.weight[t.now[at]];
	members.state[t.now[at]] = 0;
	t.now[at] = next;
	if (late)
		pass(some(2 * SECOND));
	members_tell_one(next, members.epoch);
}

static void change(void)
{
	unsigned at = t.now[some(SERVERS)];
	members.weight[at] = 1 + members.weight[at] % 9;
	members.state[at] = some(4) ? KV_MEMBER_UP : KV_MEMBER_JOINING;
	announce(some(2));
}

/* The source was wiped, is restored, or is another one: its numbers begin anew. */
static void reset(void)
{
	members.epoch = some(3);
	members.source += some(3) == 0;
	change();
	pass(70 * SECOND);
}

static void clock_ahead(void)
{
	members_tell_one(t.now[some(LIAR)], members.epoch + 3600000);
}

static void lie(void)
{
	enum belief_lie what = (enum belief_lie)some(LIES);
	uint64_t source = some(3) ? 1 + members.source : 77, epoch = members.epoch + some(2) * (1 + some(100000));
	belief_lie(t.now[LIAR], what, source, KV_MAX(epoch, (uint64_t)1));
}

static void step(void)
{
	switch (some(8)) {
	case 0:
	case 1:
		change();
		break;
	case 2:
		restart();
		break;
	case 3:
		clock_ahead();
		break;
	case 4:
		if (some(3) == 0)
			reset();
		break;
	default:
		lie();
	}
}

static void open_world(uint64_t seed)
{
	struct world_options wo = {.seed = seed,
				   .servers = SERVERS,
				   .servers_max = 16,
				   .clients = 2,
				   .timeout_ns = 10 * SECOND,
				   .heartbeat_ms = 100,
				   .peer_timeout_ns = SECOND,
				   .buffer_bytes = 16 << 20,
				   .pool_flags = seed % 3 == 1 ? KVC_TWO_COPIES : 0,
				   .fabric.delay_max_ns = MS};
	memset(&members, 0, sizeof(members));
	memset(&t, 0, sizeof(t));
	world_open(&members.world, &wo);
	for (unsigned i = 0; i < SERVERS; i++) {
		t.now[i] = i;
		members.state[i] = KV_MEMBER_UP;
		members.weight[i] = 1;
	}
	announce(true);
	pass(2 * SECOND);
}

static void end_check(void)
{
	for (unsigned p = 0; p < members.world.options.pools; p++)
		for (unsigned i = 0; i < members.world.options.clients; i++)
			if (members.world.pool[p].pool->client[i]->cluster.digest != t.honest[t.num_honest - 1])
				world_wrong(&members.world, "belief: client %u of pool %u does not follow in the end",
					    i, p);
}

void belief_run(uint64_t seed)
{
	unsigned rounds, opens;
	open_world(seed);
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&members.world, 0, i % 2, user, (void *)(uintptr_t)i);
	rounds = 6 + some(20);
	opens = some(rounds);
	for (unsigned k = 0; k < rounds; k++) {
		step();
		pass(some(some(2) ? 100 * MS : 3 * SECOND));
		if (k == opens)
			(void)world_pool_open(&members.world);
	}
	pass(70 * SECOND);
	announce(true);
	pass(70 * SECOND);
	end_check();
	members.stop = true;
	world_join(&members.world, 20 * SECOND);
	world_close(&members.world);
}
