/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_late.c -- a server learns late of a DELETE or a TOUCH: after it was restarted, in two parts, after the key
 * was put again, or after it dropped its doubted values. Each case began as an attack that found deleted values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kvclient/call/keyed.h"
#include "kvclient/conn/node.h"
#include "kvclient/transfer/call.h"
#include "tests/sim/members.h"

enum { KEYS = MEMBERS_KEYS, NEW_LEN = 777 };

static unsigned found, old; /* keys that GET finds, and those with the value that was put first */

static bool recall; /* servers ask each other what was deleted */

static void open_world(uint64_t seed, unsigned servers, unsigned up, unsigned pools, unsigned flags)
{
	struct world_options wo = {.seed = seed,
				   .servers = servers,
				   .pools = pools,
				   .clients = 1,
				   .pool_flags = flags,
				   .timeout_ns = 10 * SECOND,
				   .heartbeat_ms = 100,
				   .peer_timeout_ns = SECOND,
				   .recall = recall,
				   .fabric.delay_max_ns = MS};
	memset(&members, 0, sizeof(members));
	world_open(&members.world, &wo);
	members_all_up(up);
}

static struct kvc_client *client(unsigned pool)
{
	return members.world.pool[pool].pool->client[0];
}

static struct kc_node *node_named(struct kvc_client *c, const char *id)
{
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (strcmp(c->node[i].member_id, id) == 0)
			return &c->node[i];
	fail_msg("no node has the id %s", id);
	return NULL;
}

static void sleep_s(unsigned seconds)
{
	world_sleep(&members.world, seconds * SECOND);
}

static void do_all(unsigned pool, void (*job)(struct kvc_client *, void *), void *arg)
{
	world_do(&members.world, pool, job, arg);
}

/* ---- jobs ---- */

static void look(struct kvc_client *c, void *arg)
{
	uint8_t *to = malloc(MEMBERS_LONG);
	(void)arg;
	found = old = 0;
	for (uint32_t i = 0; i < KEYS; i++) {
		int64_t n = kvc_get_await(c, members_key_of(&i), to, MEMBERS_LONG, NULL);
		found += n > 0;
		old += n == members_len_of(i);
	}
	free(to);
}

static void delete_all(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < KEYS; i++) {
		int rc = kvc_delete_await(c, members_key_of(&i), NULL);
		if (rc != 0 && rc != -KV_ENOTFOUND)
			world_wrong(&members.world, "DELETE returned %s", kv_errname(rc));
	}
}

/* arg: seconds to live. */
static void touch_all(struct kvc_client *c, void *arg)
{
	const struct kvc_call call = {.size = sizeof(call), .ttl_s = (uint32_t)(uintptr_t)arg};
	for (uint32_t i = 0; i < KEYS; i++)
		if (kvc_touch_await(c, members_key_of(&i), &call) != 0)
			world_wrong(&members.world, "TOUCH failed");
}

/* Values with other bytes. arg: seconds to live. */
static void put_other(struct kvc_client *c, void *arg)
{
	const struct kvc_call call = {.size = sizeof(call), .ttl_s = (uint32_t)(uintptr_t)arg};
	static uint8_t other[NEW_LEN];
	memset(other, 'B', sizeof(other));
	for (uint32_t i = 0; i < KEYS; i++)
		if (kvc_put_await(c, members_key_of(&i), other, sizeof(other), &call) != 0)
			world_wrong(&members.world, "PUT of other bytes failed");
}

static void freeze(unsigned server, bool on)
{
	world_server_freeze(&members.world, server, on);
}

/* Only of keys whose server knows of their DELETE. */
static void look_at_node_3(struct kvc_client *c, void *arg)
{
	uint8_t *to = malloc(MEMBERS_LONG);
	(void)arg;
	old = 0;
	for (uint32_t i = 0; i < KEYS; i++)
		old += strcmp(members_owner_name(c, i), "node-3") == 0 &&
		       kvc_get_await(c, members_key_of(&i), to, MEMBERS_LONG, NULL) == members_len_of(i);
	free(to);
}

/* ---- cases ---- */

/* Another client may fill a restarted server before this one reaches it. */
static void restarted(unsigned flags)
{
	char was[sizeof(((struct kc_node *)NULL)->where)];
	struct kc_node *n;
	unsigned next;
	open_world(7, 3, 3, 2, flags);
	n = node_named(client(0), "node-1");
	do_all(0, members_put_all, NULL);
	world_server_crash(&members.world, 1, false);
	sleep_s(2);
	do_all(0, members_put_all, NULL); /* at those that stand in */
	memcpy(was, n->where, sizeof(was));
	snprintf(n->where, sizeof(n->where), "127.0.0.1:9"); /* out of this client's reach for a while */
	next = world_server_again(&members.world, 1);
	members.state[next] = KV_MEMBER_UP;
	members.state[1] = 0;
	members.weight[next] = 2;
	members_tell_one(next, members.epoch);
	sleep_s(3);
	do_all(1, look, NULL);
	sleep_s(3);
	assert_int_equal(found, KEYS);
	do_all(0, delete_all, NULL);
	memcpy(n->where, was, sizeof(was));
	sleep_s(10);
	do_all(0, look, NULL);
	assert_int_equal(found, 0);
	world_close(&members.world);
}

static void a_restarted_server_is_told_too(void **state)
{
	(void)state;
	restarted(0);
}

static void a_restarted_second_server_is_told_too(void **state)
{
	(void)state;
	restarted(KVC_TWO_COPIES);
}

/* The server stands still again in the middle. */
static void telling_goes_on_where_it_was_cut(void **state)
{
	(void)state;
	open_world(11, 3, 3, 1, 0);
	do_all(0, members_put_all, NULL);
	freeze(1, true);
	sleep_s(3);
	do_all(0, delete_all, NULL);
	freeze(1, false);
	for (unsigned i = 0; world_counters(&members.world, 0).deletes_owed < 8 && i < 100000; i++)
		world_sleep(&members.world, 100 * US);
	freeze(1, true);
	sleep_s(10);
	freeze(1, false);
	sleep_s(10);
	do_all(0, look, NULL);
	assert_int_equal(found, 0);
	world_close(&members.world);
}

static uint8_t *arena; /* registered memory */

static void get_into_arena(struct kvc_client *c, void *arg)
{
	(void)arg;
	found = 0;
	for (uint32_t i = 0; i < KEYS; i++)
		found += kvc_get_await(c, members_key_of(&i), arena, MEMBERS_LONG, NULL) == members_len_of(i);
}

/* The server is about to come up: it has heard of all memory so far, and hears of DELETEs now. */
static void memory_that_is_registered_during_the_telling_is_announced(void **state)
{
	struct kvc_mem *mem = NULL;
	(void)state;
	arena = mmap(NULL, MEMBERS_LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	open_world(11, 3, 3, 1, 0);
	do_all(0, members_put_all, NULL);
	freeze(1, true);
	sleep_s(3);
	do_all(0, delete_all, NULL);
	freeze(1, false);
	for (unsigned i = 0; world_counters(&members.world, 0).deletes_owed < 8 && i < 100000; i++)
		world_sleep(&members.world, 100 * US);
	assert_int_equal(world_register(&members.world, 0, arena, MEMBERS_LONG, &mem), 0);
	sleep_s(5);
	do_all(0, members_put_all, NULL);
	do_all(0, get_into_arena, NULL);
	assert_int_equal(found, KEYS);
	world_close(&members.world);
	munmap(arena, MEMBERS_LONG);
}

/* The key's server knows of the DELETE, and has lost the value that was put afterwards. An older copy lies at a server
 * that was out of reach. */
static void a_delete_holds_when_the_next_value_has_expired(void **state)
{
	(void)state;
	open_world(9, 4, 3, 2, 0);
	do_all(0, members_put_all, NULL);
	members_all_up(4); /* a quarter of the keys move to node-3 */
	for (unsigned s = 0; s < 3; s++)
		freeze(s, true);
	sleep_s(5);
	do_all(0, delete_all, NULL);
	do_all(0, put_other, (void *)2);
	sleep_s(4);
	for (unsigned s = 0; s < 3; s++)
		freeze(s, false);
	world_pool_crash(&members.world, 0);
	sleep_s(6);
	do_all(1, look_at_node_3, NULL);
	assert_int_equal(old, 0);
	world_close(&members.world);
}

/* Its source calls it draining, then names it no more, then names it again. It never drained. */
static void a_server_that_was_called_draining_asks_too(void **state)
{
	(void)state;
	open_world(5, 3, 3, 2, 0);
	do_all(0, members_put_all, NULL);
	members_change(1, KV_MEMBER_DRAINING);
	sleep_s(3);
	members_change(1, 0);
	sleep_s(3);
	do_all(1, delete_all, NULL);
	world_pool_crash(&members.world, 1);
	members_change(1, KV_MEMBER_UP);
	sleep_s(20);
	do_all(0, look, NULL);
	assert_int_equal(found, 0);
	world_close(&members.world);
}

/* Of the others, one has forgotten the DELETEs: it was restarted, or has left. Then the values of before are dropped.
 */
static void absent_while(bool restarts)
{
	unsigned next;
	recall = true;
	open_world(6, 3, 3, 2, 0);
	recall = false;
	sleep_s(10);
	do_all(0, members_put_all, NULL);
	members_change(1, 0);
	sleep_s(3);
	do_all(1, delete_all, NULL);
	world_pool_crash(&members.world, 1);
	world_server_crash(&members.world, 2, false);
	members_change(2, 0);
	if (restarts) {
		next = world_server_again(&members.world, 2);
		members.weight[next] = 3;
		members_change(next, KV_MEMBER_UP);
	}
	sleep_s(5);
	members_change(1, KV_MEMBER_UP);
	sleep_s(20);
	do_all(0, look, NULL);
	assert_int_equal(found, 0);
	world_close(&members.world);
}

static void a_member_that_restarted_meanwhile_has_forgotten(void **state)
{
	(void)state;
	absent_while(true);
}

static void a_member_that_left_meanwhile_says_nothing(void **state)
{
	(void)state;
	absent_while(false);
}

static bool was_node_0[KEYS];
static unsigned missed;

static void look_at_those(struct kvc_client *c, void *arg)
{
	uint8_t *to = malloc(MEMBERS_LONG);
	(void)arg;
	missed = 0;
	for (uint32_t i = 0; i < KEYS; i++)
		missed += was_node_0[i] && kvc_get_await(c, members_key_of(&i), to, MEMBERS_LONG, NULL) < 0;
	free(to);
}

/* It had no answer, dropped what was in doubt, and is then sent copies of values that are older than that. */
static void a_server_keeps_old_copies_that_come_after_its_doubt(void **state)
{
	(void)state;
	open_world(12, 3, 3, 1, 0);
	for (uint32_t i = 0; i < KEYS; i++)
		was_node_0[i] = strcmp(members_owner_name(client(0), i), "node-0") == 0;
	do_all(0, members_put_all, NULL);
	sleep_s(1);
	members_change(1, 0);
	members_settle();
	members_change(1, KV_MEMBER_UP);
	sleep_s(20);
	members_change(0, KV_MEMBER_DRAINING);
	members_settle();
	for (unsigned i = 0; i < 3; i++) {
		do_all(0, look_at_those, NULL);
		sleep_s(5);
	}
	members_change(0, 0);
	members_settle();
	do_all(0, look_at_those, NULL);
	assert_int_equal(missed, 0);
	world_close(&members.world);
}

/* Two servers; one stands still after the last call and is told again of what it may have missed. */
static void stand_still(void)
{
	freeze(0, true);
	sleep_s(3);
	freeze(0, false);
	sleep_s(15);
	do_all(0, look, NULL);
	assert_int_equal(found, KEYS);
	world_close(&members.world);
}

static void a_touch_does_not_shorten_a_newer_value(void **state)
{
	(void)state;
	open_world(7, 2, 2, 1, 0);
	do_all(0, members_put_all, NULL);
	do_all(0, touch_all, (void *)10);
	do_all(0, delete_all, NULL);
	do_all(0, members_put_all, NULL);
	stand_still();
}

static void the_last_touch_counts(void **state)
{
	(void)state;
	open_world(7, 2, 2, 1, 0);
	do_all(0, members_put_all, NULL);
	do_all(0, touch_all, (void *)1);
	do_all(0, touch_all, (void *)1000);
	stand_still();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_restarted_server_is_told_too),
		cmocka_unit_test(a_restarted_second_server_is_told_too),
		cmocka_unit_test(telling_goes_on_where_it_was_cut),
		cmocka_unit_test(memory_that_is_registered_during_the_telling_is_announced),
		cmocka_unit_test(a_delete_holds_when_the_next_value_has_expired),
		cmocka_unit_test(a_server_that_was_called_draining_asks_too),
		cmocka_unit_test(a_member_that_restarted_meanwhile_has_forgotten),
		cmocka_unit_test(a_member_that_left_meanwhile_says_nothing),
		cmocka_unit_test(a_server_keeps_old_copies_that_come_after_its_doubt),
		cmocka_unit_test(a_touch_does_not_shorten_a_newer_value),
		cmocka_unit_test(the_last_touch_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
