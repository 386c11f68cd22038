/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_pins.c -- pins follow their keys when the view changes.
 *
 * Values are pinned at three servers, or four; then one joins, drains, leaves, is cut off or comes back. Counted is
 * where the pins are afterwards, at the servers too, and of which the program was told that they are lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/conn/node.h"
#include "kvclient/copies/copies.h"
#include "kvclient/logical/pins.h"
#include "kvclient/logical/private.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/call.h"
#include "kvserver/server/server.h"
#include "kvserver/shard/shard.h"
#include "tests/sim/members.h"

enum { SERVERS = 4, FEWER = 3, KEYS = MEMBERS_KEYS, LONG = MEMBERS_LONG };

static struct {
	struct kvc_session *session; /* whose pins they are; NULL: the client's own */
	bool lost[KEYS];
	unsigned told, codes[2]; /* codes: calls that ended with 0, and with -KV_ENOTFOUND */
	int code;
} pins;

static void lost(void *arg, struct kvc_client *c, const void *key, size_t len, struct kvc_session *session)
{
	uint32_t i;
	(void)arg;
	(void)c;
	memcpy(&i, key, sizeof(i));
	if (len != sizeof(i) || i >= KEYS || session != pins.session || pins.lost[i])
		world_wrong(&members.world, "a pin that nobody has is lost, or is lost twice");
	else
		pins.lost[i] = true;
	pins.told++;
}

static struct world_options options(uint64_t seed)
{
	return (struct world_options){.seed = seed,
				      .servers = SERVERS,
				      .listed = 1,
				      .clients = 1,
				      .timeout_ns = 10 * SECOND,
				      .heartbeat_ms = 100,
				      .peer_timeout_ns = SECOND,
				      .pin_lost = lost,
				      .fabric.delay_max_ns = MS};
}

static struct kvc_client *client(void)
{
	return members.world.pool[0].pool->client[0];
}

static struct kvc_counters counters(void)
{
	return world_counters(&members.world, 0);
}

static void session_open(struct kvc_client *c, void *arg)
{
	(void)arg;
	if (kvc_session_open_await(c, NULL, &pins.session, NULL) < 0)
		world_wrong(&members.world, "a session could not be opened");
}

static void count_code(int rc)
{
	if (rc != 0 && rc != -KV_ENOTFOUND)
		world_wrong(&members.world, "a call about a pin returned %s", kv_errname(rc));
	pins.codes[rc != 0]++;
}

static void pin_all(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .session = pins.session};
	(void)arg;
	memset(pins.codes, 0, sizeof(pins.codes));
	for (uint32_t i = 0; i < KEYS; i++)
		count_code(kvc_pin_await(c, members_key_of(&i), &call));
}

static void unpin_all(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .session = pins.session};
	(void)arg;
	memset(pins.codes, 0, sizeof(pins.codes));
	for (uint32_t i = 0; i < KEYS; i++)
		count_code(kvc_unpin_await(c, members_key_of(&i), &call));
}

static void delete_all(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		if (kvc_delete_await(c, members_key_of(&i), NULL) != 0)
			world_wrong(&members.world, "a value is not there to be deleted");
}

/* `up` servers have all values, each pinned. */
static void open_with(const struct world_options *wo, unsigned up, bool session)
{
	memset(&members, 0, sizeof(members));
	memset(&pins, 0, sizeof(pins));
	world_open(&members.world, wo);
	members_all_up(up);
	world_do(&members.world, 0, members_put_all, NULL);
	if (session)
		world_do(&members.world, 0, session_open, NULL);
	members_settle();
	world_do(&members.world, 0, pin_all, NULL);
	assert_int_equal(pins.codes[0], KEYS);
}

static void open_world(uint64_t seed)
{
	struct world_options wo = options(seed);
	open_with(&wo, FEWER, false);
}

static void close_world(void)
{
	if (pins.session)
		assert_int_equal(kvc_session_close(members.world.pool[0].pool, &pins.session, 0), 0);
	world_close(&members.world);
}

/* At the servers that run. */
static uint64_t bytes_pinned(void)
{
	uint64_t bytes = 0;
	for (unsigned s = 0; s < members.world.num_servers; s++)
		for (unsigned i = 0;
		     members.world.server[s].server && !members.world.server[s].crashed && i < WORLD_SHARDS; i++)
			bytes += members.world.server[s].server->shard[i]->store.pinned_bytes;
	return bytes;
}

/* Pins that the client has at the server. */
static unsigned pins_at(unsigned server)
{
	char name[16];
	unsigned n = 0;
	snprintf(name, sizeof(name), "node-%u", server);
	for (unsigned k = 0; k < client()->num_nodes; k++)
		if (strcmp(client()->node[k].member_id, name) == 0)
			KV_LIST_EACH (e, &client()->node[k].pins->all)
				n++;
	return n;
}

/* How many keys belong to a server now. */
static unsigned keys_of(unsigned server)
{
	char name[16];
	unsigned n = 0;
	snprintf(name, sizeof(name), "node-%u", server);
	for (uint32_t i = 0; i < KEYS; i++)
		n += strcmp(members_owner_name(client(), i), name) == 0;
	return n;
}

/* Each key's pin is at its server, and no other is anywhere. */
static void pins_check(unsigned up)
{
	for (unsigned i = 0; i < up; i++)
		assert_int_equal(pins_at(i), keys_of(i));
}

/* The fourth server joins; so many keys are its own now. */
static unsigned join(void)
{
	unsigned moved;
	members_all_up(SERVERS);
	moved = keys_of(SERVERS - 1);
	assert_in_range(moved, 3, KEYS - 3);
	return moved;
}

/* ---- a server joins ---- */

static void after_a_join_pins_are_where_their_keys_are(void **state)
{
	(void)state;
	for (unsigned session = 0; session < 2; session++) {
		struct world_options wo = options(1000 + session);
		unsigned moved;
		uint64_t bytes;
		open_with(&wo, FEWER, session);
		bytes = bytes_pinned();
		moved = join();
		members_settle();
		pins_check(SERVERS);
		assert_int_equal(counters().pins_moved, moved);
		assert_int_equal(bytes_pinned(), bytes);
		/* Nobody has read anything: after the time of settling all are found, and still pinned. */
		world_sleep(&members.world, 601 * SECOND);
		world_do(&members.world, 0, members_get_all, NULL);
		assert_int_equal(counters().settle_hits, 0);
		assert_int_equal(pins.told, 0);
		world_do(&members.world, 0, unpin_all, NULL);
		assert_int_equal(pins.codes[0], KEYS);
		assert_int_equal(bytes_pinned(), 0);
		pins_check(0);
		close_world();
	}
}

/* Right after the join, before anything was moved. */
static void pin_finds_what_get_finds(void **state)
{
	struct world_options wo = options(1010);
	unsigned moved;
	(void)state;
	open_with(&wo, FEWER, false);
	world_do(&members.world, 0, unpin_all, NULL);
	assert_int_equal(bytes_pinned(), 0);
	moved = join();
	world_do(&members.world, 0, pin_all, NULL);
	assert_int_equal(pins.codes[0], KEYS);
	pins_check(SERVERS);
	assert_int_equal(counters().repairs, moved);
	world_do(&members.world, 0, unpin_all, NULL);
	assert_int_equal(pins.codes[0], KEYS);
	assert_int_equal(bytes_pinned(), 0);
	close_world();
}

/* Copies are so slow that most pins are still where they were. */
static void unpin_finds_pins_that_were_not_moved_yet(void **state)
{
	struct world_options wo = options(1020);
	(void)state;
	WORLD_LONG();
	wo.repair_bytes_s = 1000;
	open_with(&wo, FEWER, false);
	(void)join();
	assert_true(client()->pins->moving);
	world_do(&members.world, 0, unpin_all, NULL);
	assert_int_equal(pins.codes[0], KEYS);
	world_sleep(&members.world, 700 * SECOND);
	assert_int_equal(bytes_pinned(), 0);
	assert_int_equal(pins.told, 0);
	close_world();
}

static void delete_takes_pins_that_are_moved_along(void **state)
{
	(void)state;
	for (uint64_t seed = 1030; seed < 1030 + world_seeds(12); seed++) {
		struct world_options wo = options(seed);
		wo.repair_bytes_s = seed % 2 ? 0 : 1000;
		open_with(&wo, FEWER, false);
		members.state[3] = KV_MEMBER_UP;
		members_tell(++members.epoch);
		world_sleep(&members.world, 100 * MS + (seed - 1030) * 30 * MS);
		world_do(&members.world, 0, delete_all, NULL);
		world_sleep(&members.world, 20 * SECOND);
		assert_int_equal(bytes_pinned(), 0);
		assert_int_equal(pins.told, 0);
		pins_check(0);
		close_world();
	}
}

/* ---- what cannot be moved is lost, and told ---- */

static void without_copies_pins_are_told_as_lost(void **state)
{
	struct world_options wo = options(1040);
	unsigned moved;
	(void)state;
	wo.repair_bytes_s = 1;
	open_with(&wo, FEWER, false);
	moved = join();
	world_sleep(&members.world, 20 * SECOND);
	assert_int_equal(pins.told, moved);
	assert_int_equal(counters().pins_lost, moved);
	assert_int_equal(counters().pins_moved, 0);
	world_do(&members.world, 0, unpin_all, NULL);
	assert_int_equal(bytes_pinned(), 0); /* and the lost ones let go before */
	close_world();
}

/* The new server is cut off from the client: the former ones stand in for it, and keep their pins until it is there. */
static void a_server_that_is_cut_off_gets_its_pins_when_it_is_there(void **state)
{
	struct world_options wo = options(1050);
	unsigned moved;
	(void)state;
	wo.settle_ns = 10 * SECOND;
	open_with(&wo, FEWER, false);
	sim_port_cut(members.world.sim, members.world.server[3].port, true);
	members_all_up(SERVERS);
	world_sleep(&members.world, 20 * SECOND);
	assert_int_equal(counters().pins_moved, 0);
	world_do(&members.world, 0, members_get_all, NULL);
	sim_port_cut(members.world.sim, members.world.server[3].port, false);
	world_sleep(&members.world, 40 * SECOND);
	moved = keys_of(SERVERS - 1);
	assert_int_not_equal(moved, 0);
	assert_int_equal(counters().pins_moved, moved);
	assert_int_equal(pins.told, 0);
	pins_check(SERVERS);
	close_world();
}

static void a_server_without_room_for_a_pin_loses_it(void **state)
{
	unsigned moved;
	(void)state;
	open_world(1060);
	for (unsigned i = 0; i < WORLD_SHARDS; i++) /* no pin fits there */
		members.world.server[3].server->shard[i]->store.arena.limit = 200;
	moved = join();
	world_sleep(&members.world, 30 * SECOND);
	assert_int_equal(counters().pins_moved + pins.told, moved);
	assert_int_not_equal(pins.told, 0);
	close_world();
}

/* ---- a server drains, leaves, comes back ---- */

static void pins_of_a_draining_server_move(void **state)
{
	struct world_options wo = options(1070);
	unsigned its;
	(void)state;
	open_with(&wo, SERVERS, false);
	its = keys_of(1);
	assert_int_not_equal(its, 0);
	members_change(1, KV_MEMBER_DRAINING);
	members_settle();
	assert_int_equal(counters().pins_moved, its);
	members_change(1, 0);
	members_settle();
	assert_int_equal(pins.told, 0);
	world_do(&members.world, 0, members_get_all, NULL);
	world_do(&members.world, 0, unpin_all, NULL);
	assert_int_equal(pins.codes[0], KEYS);
	close_world();
}

/* Its lease was lost, say. The values that it has are as good as gone, and so are their pins. */
static void pins_of_a_server_that_leaves_are_told_as_lost(void **state)
{
	struct world_options wo = options(1080);
	unsigned its;
	(void)state;
	open_with(&wo, SERVERS, false);
	its = keys_of(1);
	members_change(1, 0);
	members_settle();
	assert_int_equal(pins.told, its);
	/* It is back. Nobody says which of its values were deleted meanwhile: they are gone, and others can be pinned.
	 */
	members_change(1, KV_MEMBER_UP);
	world_sleep(&members.world, 20 * SECOND);
	world_do(&members.world, 0, members_put_all, NULL);
	memset(pins.lost, 0, sizeof(pins.lost));
	world_do(&members.world, 0, pin_all, NULL);
	assert_int_equal(pins.codes[0], KEYS);
	pins_check(SERVERS);
	world_do(&members.world, 0, unpin_all, NULL);
	assert_int_equal(bytes_pinned(), 0);
	close_world();
}

/* What is put and pinned while a server is away is at the one that stands in for it, and comes back with it. */
static void pins_at_a_stand_in_come_back(void **state)
{
	struct world_options wo = options(1090);
	unsigned its;
	(void)state;
	open_with(&wo, SERVERS, false);
	its = keys_of(1);
	world_server_crash(&members.world, 1, false);
	members_settle();
	world_do(&members.world, 0, members_put_all, NULL);
	world_do(&members.world, 0, unpin_all, NULL);
	world_do(&members.world, 0, pin_all, NULL);
	assert_int_equal(pins.codes[0], KEYS);
	(void)world_server_again(&members.world, 1);
	members.state[4] = KV_MEMBER_UP;
	members.state[1] = 0;
	members_tell(++members.epoch);
	world_sleep(&members.world, 5 * SECOND);
	assert_int_equal(keys_of(1), its);
	pins_check(SERVERS);
	assert_true(counters().pins_moved >= its);
	world_do(&members.world, 0, unpin_all, NULL);
	assert_int_equal(pins.codes[0], KEYS);
	assert_int_equal(bytes_pinned(), 0);
	close_world();
}

/* The order of a key's two servers changes: the first one has the pin, and the value is there already. */
static void of_two_copies_the_first_one_is_pinned(void **state)
{
	struct world_options wo = options(1100);
	(void)state;
	wo.pool_flags = KVC_TWO_COPIES;
	open_with(&wo, SERVERS, false);
	members_change(1, KV_MEMBER_DRAINING);
	members_settle();
	pins_check(1);
	assert_int_equal(counters().repairs, 0);
	assert_int_not_equal(counters().pins_moved, 0);
	members_change(1, KV_MEMBER_UP);
	members_settle();
	pins_check(SERVERS);
	assert_int_equal(pins.told, 0);
	world_do(&members.world, 0, unpin_all, NULL);
	assert_int_equal(pins.codes[0], KEYS);
	assert_int_equal(bytes_pinned(), 0);
	close_world();
}

/* ---- how it is done ---- */

static void pool_closes_while_pins_are_moved(void **state)
{
	(void)state;
	for (unsigned frozen = 0; frozen < 2; frozen++) {
		struct world_options wo = options(1110 + frozen);
		wo.repair_bytes_s = 1000;
		open_with(&wo, FEWER, false);
		members.state[3] = KV_MEMBER_UP;
		members_tell(++members.epoch);
		world_sleep(&members.world, 300 * MS);
		assert_true(client()->pins->moving);
		if (frozen)
			world_server_freeze(&members.world, 3, true);
		world_close(&members.world);
	}
}

/* Some are looked at in each turn, and other calls come in between. */
static bool all_looked_at(void *arg)
{
	(void)arg;
	return !client()->pins->moving;
}

enum { MANY = 3000 };

static void pin_many(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < MANY; i++) {
		uint32_t number = KEYS + i;
		struct kvc_key key = {&number, sizeof(number)};
		if (kvc_put_await(c, key, "v", 1, NULL) < 0 || kvc_pin_await(c, key, NULL) < 0)
			world_wrong(&members.world, "a value could not be pinned");
	}
}

static void unpin_many(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < MANY; i++) {
		uint32_t number = KEYS + i;
		if (kvc_unpin_await(c, (struct kvc_key){&number, sizeof(number)}, NULL) < 0)
			world_wrong(&members.world, "a value could not be unpinned");
	}
}

static void many_pins_leave_the_loop_to_others(void **state)
{
	struct world_options wo = options(1120);
	uint64_t turns;
	(void)state;
	wo.pin_lost = NULL;
	open_with(&wo, FEWER, false);
	world_do(&members.world, 0, pin_many, NULL);
	turns = loop_turns(client()->loop);
	kc_pins_follow(client());
	world_run(&members.world, all_looked_at, NULL, SECOND, "pins are looked at for ever");
	assert_true(loop_turns(client()->loop) - turns >= MANY / 64);
	close_world();
}

/* ---- at random ---- */

/* What the program knows of its pins. */
enum known { FREE, HELD, UNKNOWN };

static enum known known[KEYS];
static bool in_call[KEYS]; /* a pin that is lost during a call may be lost before or after it */

static uint32_t some(uint64_t n)
{
	return (uint32_t)kv_prng_below(&members.world.prng, n);
}

static void known_lost(void *arg, struct kvc_client *c, const void *key, size_t len, struct kvc_session *session)
{
	uint32_t i;
	(void)arg;
	(void)c;
	(void)session;
	memcpy(&i, key, KV_MIN(len, sizeof(i)));
	if (known[i] == FREE && !in_call[i])
		world_wrong(&members.world, "a pin that nobody has is lost");
	known[i] = in_call[i] ? UNKNOWN : FREE;
	pins.told++;
}

static void one_call(struct kvc_client *c, uint32_t i)
{
	struct kvc_call call = {.size = sizeof(call), .session = pins.session};
	uint32_t pick = some(8);
	enum known before = known[i];
	int rc;
	in_call[i] = true;
	if (pick < 4)
		rc = kvc_pin_await(c, members_key_of(&i), &call);
	else if (pick < 7)
		rc = kvc_unpin_await(c, members_key_of(&i), &call);
	else
		rc = kvc_delete_await(c, members_key_of(&i), NULL);
	in_call[i] = false;
	if (known[i] != before) /* lost in between */
		known[i] = UNKNOWN;
	else if (rc == 0)
		known[i] = pick < 4 ? HELD : FREE;
	else if (rc != -KV_ENOTFOUND || pick >= 4)
		known[i] = UNKNOWN;
	if (pick == 7 &&
	    c->nodes.avoided.count > 0) /* a server that is down has its value, and its pin, until it is back */
		known[i] = UNKNOWN;
	members.calls++;
}

static void user(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LONG);
	(void)arg;
	while (!members.stop && !members.world.wrong[0]) {
		uint32_t i = some(KEYS);
		if (some(3) == 0) {
			members_value_fill(at, i);
			members_put_check(kvc_put_await(c, members_key_of(&i), at, members_len_of(i), NULL));
		} else if (!in_call[i]) {
			one_call(c, i);
		}
		co_sleep_await(world_now(&members.world) + some(20 * MS));
	}
	free(at);
}

/* Returns the server that is in the place of `at` now. */
static unsigned trouble(unsigned at)
{
	static const enum kv_member_state states[] = {KV_MEMBER_UP, KV_MEMBER_UP, KV_MEMBER_JOINING, KV_MEMBER_DRAINING,
						      0};
	uint32_t pick = some(12);
	unsigned next = at;
	if (pick == 0) {
		world_server_freeze(&members.world, at, true);
		world_sleep(&members.world, some(1500 * MS));
		world_server_freeze(&members.world, at, false);
	} else if (pick == 1) {
		sim_port_kill(members.world.sim, members.world.server[at].port);
	} else if (pick == 2) {
		world_server_crash(&members.world, at, false);
		world_sleep(&members.world, some(SECOND));
		next = world_server_again(&members.world, at);
		members.state[at] = 0;
		members.state[next] = KV_MEMBER_UP;
		members_tell(++members.epoch);
	} else {
		members_change(at, states[some(KV_COUNT(states))]);
	}
	return next;
}

static struct kc_pin *pin_of(uint32_t i, struct kc_node **out)
{
	struct kvc_key key = members_key_of(&i);
	struct kc_pin *found = NULL;
	for (unsigned k = 0; k < client()->num_nodes; k++) {
		struct kc_pin *p = kc_pin_held(&client()->node[k], pins.session, key);
		if (p && found)
			world_wrong(&members.world, "key %u is pinned at two servers", i);
		*out = p ? &client()->node[k] : *out;
		found = p ? p : found;
	}
	return found;
}

static void storm(uint64_t seed)
{
	struct world_options wo = options(seed);
	unsigned now[SERVERS] = {0, 1, 2, 3};
	wo.pin_lost = known_lost;
	wo.settle_ns = 10 * SECOND;
	wo.repair_bytes_s = seed % 3 == 0 ? 300000 : 0;
	wo.pool_flags = seed % 4 == 1 ? KVC_TWO_COPIES : 0;
	wo.timeout_ns = 3 * SECOND;
	memset(known, 0, sizeof(known));
	memset(in_call, 0, sizeof(in_call));
	open_with(&wo, SERVERS, seed % 2);
	for (uint32_t i = 0; i < KEYS; i++)
		known[i] = HELD;
	for (unsigned i = 0; i < 3; i++)
		world_worker(&members.world, 0, 0, user, NULL);
	for (unsigned k = 0, rounds = 4 + some(20); k < rounds; k++) {
		unsigned at = 1 + some(SERVERS - 1); /* the first one stays */
		now[at] = trouble(now[at]);
		world_sleep(&members.world, some(some(2) ? 50 * MS : 2 * SECOND));
	}
	for (unsigned i = 0; i < SERVERS; i++)
		members.state[now[i]] = KV_MEMBER_UP;
	members_tell(++members.epoch);
	members.stop = true;
	world_join(&members.world, 60 * SECOND);
	world_sleep(&members.world, 120 * SECOND);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct kc_node *at = NULL;
		bool held = pin_of(i, &at);
		if (known[i] != UNKNOWN && held != (known[i] == HELD))
			world_wrong(&members.world, "key %u is %spinned", i, held ? "" : "not ");
		if (held && at != route_first(client(), members_key_of(&i)))
			world_wrong(&members.world, "key %u is pinned at another server", i);
	}
	world_do(&members.world, 0, unpin_all, NULL);
	if (bytes_pinned())
		world_wrong(&members.world, "%llu bytes are pinned by nobody", (unsigned long long)bytes_pinned());
	world_sleep(&members.world, MS);
	close_world();
}

/* ---- what sessions leave ---- */

/* Sessions of another pool have MANY pins, two on each block, and end. */
static struct {
	struct kvc_session *session[2];
	struct watch {
		struct loop_poller poller;
		const struct store *store;
		unsigned used, largest,
			turns; /* pins there are; the most that went in a turn; turns in which any did */
	} shard[WORLD_SHARDS];
	bool done;
} left;

static void pin_twice(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (unsigned s = 0; s < KV_COUNT(left.session); s++) {
		struct kvc_call call = {.size = sizeof(call)};
		if (kvc_session_open_await(c, NULL, &left.session[s], NULL) < 0)
			world_wrong(&members.world, "a session could not be opened");
		call.session = left.session[s];
		for (uint32_t i = 0; i < MANY; i++) {
			uint32_t number = KEYS + i;
			if (kvc_pin_await(c, (struct kvc_key){&number, sizeof(number)}, &call) < 0)
				world_wrong(&members.world, "a value could not be pinned");
		}
	}
}

/* In each turn of a shard's loop. */
static int turn_watch(struct loop_poller *p)
{
	struct watch *w = KV_CONTAINER(p, struct watch, poller);
	unsigned used = w->store->pins.used;
	w->turns += used < w->used;
	w->largest = KV_MAX(w->largest, w->used - KV_MIN(used, w->used));
	w->used = used;
	return 0;
}

static void watch_begin(void)
{
	struct world_server *server = &members.world.server[0];
	for (unsigned i = 0; i < WORLD_SHARDS; i++) {
		struct watch *w = &left.shard[i];
		w->store = &server->server->shard[i]->store;
		w->used = w->store->pins.used;
		w->poller = (struct loop_poller){.poll = turn_watch, .wait_fd = -1};
		assert_int_equal(loop_poller_add(server->loop[1 + i], &w->poller), 0);
	}
}

static void watch_end(void)
{
	for (unsigned i = 0; i < WORLD_SHARDS; i++) {
		const struct watch *w = &left.shard[i];
		loop_poller_del(members.world.server[0].loop[1 + i], &left.shard[i].poller);
		assert_in_range(w->largest, 1, PINS_AT_ONCE + 8);
		assert_in_range(w->turns, MANY / PINS_AT_ONCE, UINT32_MAX);
	}
}

static unsigned pins_now(void)
{
	return left.shard[0].store->pins.used + left.shard[1].store->pins.used;
}

static bool all_dropped(void *arg)
{
	(void)arg;
	return left.done && !pins_leaving(left.shard[0].store) && !pins_leaving(left.shard[1].store);
}

/* Meanwhile pins of the others come and go, of the same values, and values are deleted. */
static void use_meanwhile(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < MANY; i += 10) {
		uint32_t number = KEYS + (i * 7 % MANY);
		struct kvc_key key = {&number, sizeof(number)};
		if (kvc_pin_await(c, key, NULL) != 0 || kvc_get_await(c, key, pins.codes, 1, NULL) != 1)
			world_wrong(&members.world, "a value of which pins are dropped is not pinned");
		if (i % 20 == 0 && kvc_unpin_await(c, key, NULL) != 0)
			world_wrong(&members.world, "a value of which pins are dropped is not unpinned");
		if (i % 50 == 0 && kvc_delete_await(c, key, NULL) != 0)
			world_wrong(&members.world, "a value of which pins are dropped is not deleted");
	}
	left.done = true;
}

static void close_sessions(void)
{
	for (unsigned s = 0; s < KV_COUNT(left.session); s++)
		assert_int_equal(kvc_session_close(members.world.pool[1].pool, &left.session[s], 0), 0);
}

/* `end` 0: the sessions are closed; 1: their pool is told to close; 2: its process dies. */
static void sessions_leave(unsigned end)
{
	struct world_options wo = options(1130 + end);
	unsigned held = 0;
	memset(&members, 0, sizeof(members));
	memset(&pins, 0, sizeof(pins));
	memset(&left, 0, sizeof(left));
	wo.servers = wo.listed = 1;
	wo.pools = 2;
	world_open(&members.world, &wo);
	world_do(&members.world, 0, pin_many, NULL);
	world_do(&members.world, 1, pin_twice, NULL);
	world_do(&members.world, 0, unpin_many, NULL);
	watch_begin();
	assert_int_equal(pins_now(), 2 * MANY);
	world_worker(&members.world, 0, 0, use_meanwhile, NULL);
	if (end == 0)
		close_sessions();
	else if (end == 1)
		world_pool_stop(&members.world, 1);
	else
		world_pool_crash(&members.world, 1);
	world_run(&members.world, all_dropped, NULL, 60 * SECOND, "the end of pins that were left");
	world_join(&members.world, SECOND);
	watch_end();
	for (uint32_t i = 0; i < MANY; i += 10)
		held += i % 20 != 0 && i % 50 != 0;
	assert_int_equal(pins_now(), held);
	assert_int_equal(bytes_pinned(), held * ARENA_GRANULE);
	world_close(&members.world);
}

static void pins_of_sessions_that_end_are_dropped_in_slices(void **state)
{
	(void)state;
	for (unsigned end = 0; end < 3; end++)
		sessions_leave(end);
}

static void pins_survive_storms(void **state)
{
	const char *given = getenv("KVRAIL_SEED"), *count = getenv("KVRAIL_SEEDS");
	uint64_t first = given ? strtoull(given, NULL, 0) : 198; /* 200 finds unpin-in-doubt */
	uint64_t n = count ? strtoull(count, NULL, 0) : given ? 1 : world_seeds(24);
	(void)state;
	for (uint64_t seed = first; seed < first + n; seed++)
		storm(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_join_pins_are_where_their_keys_are),
		cmocka_unit_test(pin_finds_what_get_finds),
		cmocka_unit_test(unpin_finds_pins_that_were_not_moved_yet),
		cmocka_unit_test(delete_takes_pins_that_are_moved_along),
		cmocka_unit_test(without_copies_pins_are_told_as_lost),
		cmocka_unit_test(a_server_that_is_cut_off_gets_its_pins_when_it_is_there),
		cmocka_unit_test(a_server_without_room_for_a_pin_loses_it),
		cmocka_unit_test(pins_of_a_draining_server_move),
		cmocka_unit_test(pins_of_a_server_that_leaves_are_told_as_lost),
		cmocka_unit_test(pins_at_a_stand_in_come_back),
		cmocka_unit_test(of_two_copies_the_first_one_is_pinned),
		cmocka_unit_test(pool_closes_while_pins_are_moved),
		cmocka_unit_test(many_pins_leave_the_loop_to_others),
		cmocka_unit_test(pins_of_sessions_that_end_are_dropped_in_slices),
		cmocka_unit_test(pins_survive_storms),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
