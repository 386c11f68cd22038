/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_guarantees.c -- what DELETE, TOUCH, PIN and a time to live guarantee in each situation: each cell of the
 * tables in docs/internals/reliability.md is a test here, of that name.
 *
 * A situation begins and ends, as when a server leaves and is back. Pool 0 has put all values. It makes the call for
 * one half of the keys before the situation, and for the other half in it; pool 1 reads all of them in it, so that
 * values are copied to where they belong then. Then it ends, and both pools look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvclient/logical/pins.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/call.h"
#include "kvserver/server/server.h"
#include "kvserver/shard/shard.h"
#include "tests/sim/members.h"

enum { SERVERS = 4, KEYS = MEMBERS_KEYS, SHORT_S = 4, LIFE_S = 30, LONG_S = 1000, AT = 1 };

enum situation { JOINS, DRAINS, LEAVES, AWAY, TWICE, HOT, OUT_OF_REACH, STANDS_STILL, RESTARTS, VIEWS_DIFFER };
enum does { DELETES, SHORTENS, LENGTHENS, PINS, LIVES };

/* What is found in the end. SOME: all but values that were at one server alone. */
enum found { NONE, SOME, ALL };

static const struct cell {
	const char *name;
	enum does call;
	enum situation in;
	enum found found;
} cells[] = {
	{"delete_when_a_server_joins", DELETES, JOINS, NONE},
	{"delete_when_a_server_drains", DELETES, DRAINS, NONE},
	{"delete_when_a_server_leaves", DELETES, LEAVES, NONE},
	{"delete_when_a_server_was_no_member", DELETES, AWAY, NONE},
	{"delete_of_two_copies", DELETES, TWICE, NONE},
	{"delete_of_hot_copies", DELETES, HOT, NONE},
	{"delete_out_of_reach", DELETES, OUT_OF_REACH, NONE},
	{"delete_when_a_server_stands_still", DELETES, STANDS_STILL, NONE},
	{"delete_when_a_server_restarts", DELETES, RESTARTS, NONE},
	{"delete_while_views_differ", DELETES, VIEWS_DIFFER, NONE},

	{"shorter_life_when_a_server_joins", SHORTENS, JOINS, NONE},
	{"shorter_life_when_a_server_drains", SHORTENS, DRAINS, NONE},
	{"shorter_life_when_a_server_leaves", SHORTENS, LEAVES, NONE},
	{"shorter_life_when_a_server_was_no_member", SHORTENS, AWAY, NONE},
	{"shorter_life_of_two_copies", SHORTENS, TWICE, NONE},
	{"shorter_life_of_hot_copies", SHORTENS, HOT, NONE},
	{"shorter_life_out_of_reach", SHORTENS, OUT_OF_REACH, NONE},
	{"shorter_life_when_a_server_stands_still", SHORTENS, STANDS_STILL, NONE},
	{"shorter_life_when_a_server_restarts", SHORTENS, RESTARTS, NONE},
	{"shorter_life_while_views_differ", SHORTENS, VIEWS_DIFFER, NONE},

	{"longer_life_when_a_server_joins", LENGTHENS, JOINS, ALL},
	{"longer_life_when_a_server_drains", LENGTHENS, DRAINS, ALL},
	{"longer_life_when_a_server_leaves", LENGTHENS, LEAVES, SOME},
	{"longer_life_when_a_server_was_no_member", LENGTHENS, AWAY, SOME},
	{"longer_life_of_two_copies", LENGTHENS, TWICE, ALL},
	{"longer_life_of_hot_copies", LENGTHENS, HOT, SOME},
	{"longer_life_out_of_reach", LENGTHENS, OUT_OF_REACH, SOME},
	{"longer_life_when_a_server_stands_still", LENGTHENS, STANDS_STILL, SOME},
	{"longer_life_when_a_server_restarts", LENGTHENS, RESTARTS, SOME},
	{"longer_life_while_views_differ", LENGTHENS, VIEWS_DIFFER, ALL},

	{"pin_when_a_server_joins", PINS, JOINS, ALL},
	{"pin_when_a_server_drains", PINS, DRAINS, ALL},
	{"pin_when_a_server_leaves", PINS, LEAVES, SOME},
	{"pin_when_a_server_was_no_member", PINS, AWAY, SOME},
	{"pin_of_two_copies", PINS, TWICE, ALL},
	{"pin_of_hot_copies", PINS, HOT, ALL},
	{"pin_out_of_reach", PINS, OUT_OF_REACH, ALL},
	{"pin_when_a_server_stands_still", PINS, STANDS_STILL, SOME},
	{"pin_when_a_server_restarts", PINS, RESTARTS, SOME},
	{"pin_while_views_differ", PINS, VIEWS_DIFFER, ALL},

	{"life_when_a_server_joins", LIVES, JOINS, ALL},
	{"life_when_a_server_drains", LIVES, DRAINS, ALL},
	{"life_when_a_server_leaves", LIVES, LEAVES, SOME},
	{"life_when_a_server_was_no_member", LIVES, AWAY, ALL},
	{"life_of_two_copies", LIVES, TWICE, ALL},
	{"life_of_hot_copies", LIVES, HOT, SOME},
	{"life_out_of_reach", LIVES, OUT_OF_REACH, ALL},
	{"life_when_a_server_stands_still", LIVES, STANDS_STILL, ALL},
	{"life_when_a_server_restarts", LIVES, RESTARTS, SOME},
	{"life_while_views_differ", LIVES, VIEWS_DIFFER, ALL},
};

static struct {
	const struct cell *cell;
	unsigned its, only;          /* keys whose server is the one that has trouble; values that are there alone */
	bool done[KEYS], lost[KEYS]; /* the call found the value; its pin was told as lost */
} g;

/* ---- the calls ---- */

static void lost(void *arg, struct kvc_client *c, const void *key, size_t len, struct kvc_session *session)
{
	uint32_t i;
	(void)arg;
	(void)c;
	(void)len;
	(void)session;
	memcpy(&i, key, sizeof(i));
	if (i >= KEYS || !g.done[i] || g.lost[i])
		world_wrong(&members.world, "a pin that nobody has is lost, or is lost twice");
	else
		g.lost[i] = true;
}

static void put_each(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = LIFE_S};
	uint8_t *from = malloc(MEMBERS_LONG);
	(void)arg;
	if (g.cell->call == DELETES || g.cell->call == SHORTENS || g.cell->call == PINS)
		call.ttl_s = LONG_S;
	for (uint32_t i = 0; i < KEYS; i++) {
		members_value_fill(from, i);
		members_put_check(kvc_put_await(c, members_key_of(&i), from, members_len_of(i), &call));
	}
	free(from);
}

static int call_one(struct kvc_client *c, uint32_t i)
{
	struct kvc_call call = {.size = sizeof(call)};
	switch (g.cell->call) {
	case DELETES:
		return kvc_delete_await(c, members_key_of(&i), &call);
	case SHORTENS:
		call.ttl_s = SHORT_S;
		return kvc_touch_await(c, members_key_of(&i), &call);
	case LENGTHENS:
		call.ttl_s = LONG_S;
		return kvc_touch_await(c, members_key_of(&i), &call);
	case PINS:
		return kvc_pin_await(c, members_key_of(&i), &call);
	default:
		return 0;
	}
}

/* arg: the half of the keys. */
static void call_half(struct kvc_client *c, void *arg)
{
	for (uint32_t i = (uint32_t)(uintptr_t)arg; i < KEYS; i += 2) {
		int rc = call_one(c, i);
		g.done[i] = rc == 0;
		if (rc != 0 && rc != -KV_ENOTFOUND)
			world_wrong(&members.world, "%s: a call returned %s", g.cell->name, kv_errname(rc));
	}
}

static void read_each(struct kvc_client *c, void *arg)
{
	uint8_t *to = malloc(MEMBERS_LONG);
	for (uintptr_t k = 0; k < (uintptr_t)arg; k++)
		for (uint32_t i = 0; i < KEYS; i++)
			members_get_check(i, to, kvc_get_await(c, members_key_of(&i), to, MEMBERS_LONG, NULL));
	free(to);
}

/* ---- the situations ---- */

/* With every second seed values are kept twice in the other situations, too. */
static unsigned flags_of(enum situation in, uint64_t seed)
{
	return in == HOT ? KVC_HOT_COPIES : in == TWICE || seed % 2 ? KVC_TWO_COPIES : 0;
}

static void begin(enum situation in)
{
	struct world *w = &members.world;
	switch (in) {
	case JOINS:
		members_all_up(SERVERS);
		break;
	case DRAINS:
		assert_int_equal(kvs_server_drains(w->server[AT].server), 0);
		members_change(AT, KV_MEMBER_DRAINING);
		members_settle();
		break;
	case LEAVES:
	case AWAY:
		members_change(AT, 0);
		members_settle();
		break;
	case OUT_OF_REACH:
	case STANDS_STILL:
		world_server_freeze(w, AT, true);
		break;
	case RESTARTS:
		world_server_crash(w, AT, false);
		break;
	case VIEWS_DIFFER: /* pool 1, which opens now, has the new view; pool 0 hears of it with a heartbeat */
		members.weight[SERVERS - 1] = 9;
		members_tell(++members.epoch);
		(void)world_pool_open(w);
		assert_int_equal(world_counters(w, 1).view_epoch, members.epoch);
		break;
	case TWICE:
	case HOT:
		break;
	}
}

static void end(enum situation in)
{
	struct world *w = &members.world;
	unsigned next;
	/* Whoever deleted or touched meanwhile has ended, and tells the server nothing. */
	if ((in == AWAY || in == STANDS_STILL) && (g.cell->call == DELETES || g.cell->call == SHORTENS))
		world_pool_crash(w, 0);
	switch (in) {
	case AWAY:
		members_change(AT, KV_MEMBER_UP);
		break;
	case STANDS_STILL:
		world_sleep(w, 2 * SECOND);
		world_server_freeze(w, AT, false);
		break;
	case OUT_OF_REACH:
		world_server_freeze(w, AT, false);
		break;
	case RESTARTS:
		next = world_server_again(w, AT);
		members.state[next] = members.state[AT];
		members.state[AT] = 0;
		members_tell(++members.epoch);
		break;
	case TWICE: /* what is left at one of two servers shows */
	case HOT:
		if (g.cell->call != PINS)
			world_server_crash(w, AT, false);
		break;
	default:
		break;
	}
	members_settle();
}

static void open_world(uint64_t seed)
{
	enum situation in = g.cell->in;
	struct world_options wo = {.seed = seed,
				   .servers = SERVERS,
				   .pools = in == VIEWS_DIFFER ? 1 : 2,
				   .clients = 1,
				   .timeout_ns = 10 * SECOND,
				   .heartbeat_ms = in == VIEWS_DIFFER ? 4000 : 100,
				   .peer_timeout_ns = SECOND,
				   .pool_flags = flags_of(in, seed),
				   .pin_lost = lost,
				   .recall = in == AWAY || in == STANDS_STILL,
				   .fabric.delay_max_ns = MS};
	memset(&members, 0, sizeof(members));
	world_open(&members.world, &wo);
	members_all_up(in == JOINS ? SERVERS - 1 : SERVERS);
	/* (Servers that have just started do not know what was deleted before.) */
	if (in == VIEWS_DIFFER || in == AWAY)
		world_sleep(&members.world, 10 * SECOND);
}

/* ---- what is found ---- */

static bool usable(unsigned pool)
{
	return world_pool_usable(&members.world, pool);
}

/* What a call did not find is the caller's affair, except for DELETE. */
static void look_each(struct kvc_client *c, void *arg)
{
	uint8_t *to = malloc(MEMBERS_LONG);
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		if (g.done[i] || g.cell->call == DELETES)
			members_get_check(i, to, kvc_get_await(c, members_key_of(&i), to, MEMBERS_LONG, NULL));
	free(to);
}

/* Both pools look, and find that many values. */
static void look(enum found found)
{
	for (unsigned pool = 0; pool < 2; pool++) {
		if (!usable(pool))
			continue;
		members.hits = members.misses = 0;
		world_do(&members.world, pool, look_each, NULL);
		if (found == NONE)
			assert_int_equal(members.hits, 0);
		else
			assert_in_range(members.misses, 0, found == ALL ? 0 : g.only);
	}
}

/* At the servers that run. */
static uint64_t bytes_pinned(void)
{
	uint64_t bytes = 0;
	for (unsigned s = 0; s < members.world.num_servers; s++)
		for (unsigned i = 0; !members.world.server[s].crashed && i < WORLD_SHARDS; i++)
			bytes += members.world.server[s].server->shard[i]->store.pinned_bytes;
	return bytes;
}

static void unpin_each(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++)
		if (g.done[i] && !g.lost[i] && kvc_unpin_await(c, members_key_of(&i), NULL) != 0)
			world_wrong(&members.world, "%s: UNPIN does not find key %u", g.cell->name, i);
}

/* What PIN found is pinned once, at the key's server, or was told as lost. */
static void pins_check(void)
{
	struct kvc_client *c = members.world.pool[0].pool->client[0];
	unsigned told = 0, missed = 0;
	uint64_t bytes = 0;
	world_sleep(&members.world, 10 * SECOND);
	look(g.cell->found);
	for (uint32_t i = 0; i < KEYS; i++) {
		bool held = kc_pin_held(route_first(c, members_key_of(&i)), NULL, members_key_of(&i));
		assert_int_equal(held, g.done[i] && !g.lost[i]);
		bytes += held ? members_len_of(i) : 0;
		told += g.lost[i];
		missed += !g.done[i];
	}
	assert_in_range(told, 0, g.cell->found == ALL ? 0 : g.its);
	assert_in_range(missed, 0, g.cell->in == JOINS || g.cell->in == DRAINS ? 0 : g.its);
	assert_in_range(bytes_pinned(), bytes, bytes + bytes / 4);
	world_do(&members.world, 0, unpin_each, NULL);
	assert_int_equal(bytes_pinned(), 0);
}

static void life_check(uint64_t from_ns)
{
	struct world *w = &members.world;
	world_sleep(w, from_ns + (LIFE_S - 5) * SECOND - world_now(w));
	look(g.cell->found);
	world_sleep(w, 6 * SECOND);
	look(g.cell->call == LIVES ? NONE : g.cell->found);
}

static void check(uint64_t from_ns)
{
	struct world *w = &members.world;
	switch (g.cell->call) {
	case PINS:
		pins_check();
		break;
	case LENGTHENS:
	case LIVES:
		life_check(from_ns);
		break;
	case SHORTENS:
		world_sleep(w, (SHORT_S - 1) * SECOND);
		look(NONE);
		world_sleep(w, 10 * SECOND);
		look(NONE);
		break;
	case DELETES:
		if (g.cell->in == VIEWS_DIFFER) /* once pool 0 has the new view, it deletes what pool 1 has copied */
			members_settle();
		look(NONE);
		world_sleep(w, 10 * SECOND);
		look(NONE);
		break;
	}
}

static void cell_run(void **state)
{
	g.cell = *state;
	for (unsigned seed = 1400; seed < 1400 + world_seeds(2); seed++) {
		uint64_t from_ns;
		memset(g.done, 0, sizeof(g.done));
		memset(g.lost, 0, sizeof(g.lost));
		g.its = g.only = 0;
		open_world(seed);
		from_ns = world_now(&members.world);
		world_do(&members.world, 0, put_each, NULL);
		for (uint32_t i = 0; i < KEYS; i++)
			g.its += strcmp(members_owner_name(members.world.pool[0].pool->client[0], i), "node-1") == 0;
		assert_in_range(g.its, 3, KEYS / 2);
		g.only = flags_of(g.cell->in, seed) == KVC_TWO_COPIES ? 0 : g.its;
		if (flags_of(g.cell->in, seed))
			world_do(&members.world, usable(1), read_each, (void *)20);
		world_do(&members.world, 0, call_half, (void *)0);
		begin(g.cell->in);
		world_do(&members.world, 1, read_each, (void *)1);
		world_sleep(&members.world, 100 * MS); /* copies are made */
		world_do(&members.world, 0, call_half, (void *)1);
		if (g.cell->in == VIEWS_DIFFER) /* still */
			assert_int_equal(world_counters(&members.world, 0).view_epoch, members.epoch - 1);
		end(g.cell->in);
		check(from_ns);
		world_close(&members.world);
	}
}

int main(void)
{
	struct CMUnitTest tests[KV_COUNT(cells)];
	for (unsigned i = 0; i < KV_COUNT(cells); i++)
		tests[i] = (struct CMUnitTest){
			.name = cells[i].name, .test_func = cell_run, .initial_state = (void *)(uintptr_t)&cells[i]};
	return cmocka_run_group_tests_name("sim/guarantees", tests, NULL, NULL);
}
