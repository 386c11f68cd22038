/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_absent.c -- a server is absent for a while, and others stand in for it. When it is back they have values
 * that no GET asks them for, until the next server is absent. What was deleted or has expired in between stays away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvclient/call/batch.h"
#include "kvclient/route/second.h"
#include "tests/sim/members.h"

enum { SERVERS = 4, KEYS = MEMBERS_KEYS, LIFE_S = 2 };

static const unsigned kinds[] = {0, KVC_TWO_COPIES, KVC_HOT_COPIES};

static void open_world(uint64_t seed, unsigned flags)
{
	memset(&members, 0, sizeof(members));
	world_open(&members.world, &(struct world_options){.seed = seed,
							   .servers = SERVERS,
							   .pools = 1,
							   .clients = 1,
							   .timeout_ns = 10 * SECOND,
							   .heartbeat_ms = 100,
							   .peer_timeout_ns = SECOND,
							   .pool_flags = flags,
							   .fabric.delay_max_ns = MS});
	members_all_up(SERVERS);
}

/* ---- jobs ---- */

static void delete_batch(struct kvc_client *c, void *arg)
{
	struct kvc_item item[KEYS];
	uint32_t key[KEYS];
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		key[i] = i;
		item[i] = (struct kvc_item){.key = members_key_of(&key[i])};
	}
	(void)kc_batch_await(c, KVC_OP_DELETE, item, KEYS, NULL, NULL);
	for (uint32_t i = 0; i < KEYS; i++)
		if (item[i].result != 0 && item[i].result != -KV_ENOTFOUND)
			world_wrong(&members.world, "a DELETE returned %s", kv_errname((int)item[i].result));
}

static void touch_each(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = LIFE_S};
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		int rc = kvc_touch_await(c, members_key_of(&i), &call);
		if (rc != 0 && rc != -KV_ENOTFOUND)
			world_wrong(&members.world, "a TOUCH returned %s", kv_errname(rc));
	}
}

/* ---- absences ---- */

static void still(unsigned server, bool begins)
{
	world_server_freeze(&members.world, server, begins);
	members_settle();
}

static void killed(unsigned server, bool begins)
{
	if (begins)
		world_server_crash(&members.world, server, false);
	else
		world_server_again(&members.world, server);
	members_settle();
	if (!begins)
		members_tell(members.epoch);
	members_settle();
}

static void draining(unsigned server, bool begins)
{
	members_change(server, begins ? KV_MEMBER_DRAINING : KV_MEMBER_UP);
	members_settle();
}

/* What is put while server 1 is absent, and undone when it is back, is not found while each server is absent in turn.
 */
static void undone_stays(uint64_t seed, unsigned flags, void (*absent)(unsigned server, bool begins),
			 void (*undo)(struct kvc_client *c, void *arg))
{
	open_world(seed, flags);
	absent(1, true);
	world_do(&members.world, 0, members_put_all, NULL);
	world_do(&members.world, 0, members_put_all, NULL);
	members_settle();
	absent(1, false);
	members_settle();
	world_do(&members.world, 0, undo, NULL);
	world_sleep(&members.world, (LIFE_S + 1) * SECOND);
	for (unsigned i = 0; i < SERVERS; i++) {
		still(i, true);
		world_do(&members.world, 0, members_find_none, NULL);
		still(i, false);
		members_settle();
	}
	world_close(&members.world);
}

static void each_kind(uint64_t seed, void (*absent)(unsigned server, bool begins))
{
	for (unsigned i = 0; i < KV_COUNT(kinds); i++) {
		undone_stays(seed + i, kinds[i], absent, members_delete_all);
		undone_stays(seed + 10 + i, kinds[i], absent, delete_batch);
		undone_stays(seed + 20 + i, kinds[i], absent, touch_each);
	}
}

static void undone_after_a_server_stood_still(void **state)
{
	(void)state;
	each_kind(100, still);
}

static void undone_after_a_server_was_killed(void **state)
{
	(void)state;
	each_kind(200, killed);
}

static void undone_after_a_view_said_that_a_server_drains(void **state)
{
	(void)state;
	each_kind(300, draining);
}

static void touch_shortly(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = LIFE_S, .timeout_ns = 20 * MS};
	unsigned *half = arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		struct kvc_key key = members_key_of(&i);
		bool second = route_second(c, key) == &c->node[1];
		int rc = kvc_touch_await(c, key, &call);
		*half += second;
		if (second && rc != -KV_ETIMEOUT)
			world_wrong(&members.world, "a TOUCH that one server did not answer returned %s",
				    kv_errname(rc));
	}
}

/* The second one of two servers does not answer, and is not known to be lost: the value may live longer there. */
static void a_touch_that_one_server_does_not_answer_fails(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(4); i++) {
		unsigned half = 0;
		open_world(500 + i, i % 2 ? KVC_TWO_COPIES : KVC_HOT_COPIES);
		world_do(&members.world, 0, members_put_all, NULL);
		members_settle();
		world_server_freeze(&members.world, 1, true);
		world_do(&members.world, 0, touch_shortly, &half);
		world_server_freeze(&members.world, 1, false);
		assert_int_not_equal(half, 0);
		members_settle();
		world_close(&members.world);
	}
}

/* It stands still again while it is told what was deleted meanwhile: the next attempt to connect tells it. */
static void what_an_attempt_could_not_tell_the_next_one_tells(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(12); i++) {
		open_world(400 + i, 0);
		world_do(&members.world, 0, members_put_all, NULL);
		still(1, true);
		world_do(&members.world, 0, members_delete_all, NULL);
		world_sleep(&members.world, 2 * SECOND);
		world_do(&members.world, 0, members_delete_all, NULL);
		world_sleep(&members.world, kv_prng_below(&members.world.prng, 5 * SECOND));
		world_server_freeze(&members.world, 1, false);
		world_sleep(&members.world, (4 + 4 * i) * MS);
		world_server_freeze(&members.world, 1, true);
		world_sleep(&members.world, 10 * SECOND);
		still(1, false);
		members_settle();
		world_do(&members.world, 0, members_find_none, NULL);
		world_close(&members.world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(undone_after_a_server_stood_still),
		cmocka_unit_test(undone_after_a_server_was_killed),
		cmocka_unit_test(undone_after_a_view_said_that_a_server_drains),
		cmocka_unit_test(a_touch_that_one_server_does_not_answer_fails),
		cmocka_unit_test(what_an_attempt_could_not_tell_the_next_one_tells),
	};
	return cmocka_run_group_tests_name("sim_absent", tests, NULL, NULL);
}
