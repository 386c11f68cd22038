/* SPDX-License-Identifier: Apache-2.0 */
/* test_sized.c -- structs of a program that is newer or older than the library: what the library does not know must be
 * zero in what the program fills, is zeroed in what the library fills, and what the program does not know is its
 * default. Every struct of kvclient.h that has a size or a reserve. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "server.h"

static const struct test_server *const one[] = {&test_first};
static const struct kvc_key key = {"sized", 5};

static void newer_options_are_refused_if_they_ask_for_something(void **state)
{
	struct {
		struct kvc_options known;
		uint64_t more;
	} o = {.more = 1};
	struct kvc_pool *p = NULL;
	struct kv_error err = {0};
	(void)state;
	test_server_need(&test_first);
	o.known = test_options(one, 1, 1);
	o.known.size = sizeof(o);
	assert_int_equal(kvc_pool_open(&o.known, &p, &err), -KV_EINVAL);
	assert_null(p);
	assert_non_null(strstr(err.text, "struct kvc_options is newer than this library"));
	o.more = 0;
	assert_int_equal(kvc_pool_open(&o.known, &p, &err), 0);
	kvc_pool_close(&p);
}

static void a_newer_call_is_refused_if_it_asks_for_something(void **state)
{
	struct {
		struct kvc_call known;
		uint64_t more[3];
	} c = {.known = {.size = sizeof(c)}, .more = {0, 0, 1}};
	struct kvc_item item = {.key = key, .data = "1234", .len = 4};
	char got[8];
	(void)state;
	test_server_need(&test_first);
	assert_int_equal(kvc_put(test_one_pool, key, "1234", 4, &c.known), -KV_EINVAL);
	assert_int_equal(kvc_get(test_one_pool, key, got, sizeof(got), NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_put_batch(test_one_pool, &item, 1, &c.known), -KV_EINVAL);
	assert_int_equal(item.result, -KV_EINVAL);
	assert_int_equal(kvc_ping(test_one_pool, &c.known), -KV_EINVAL);
	c.more[2] = 0;
	assert_int_equal(kvc_put(test_one_pool, key, "1234", 4, &c.known), 0);
	assert_int_equal(kvc_get(test_one_pool, key, got, sizeof(got), &c.known), 4);
	assert_int_equal(kvc_delete(test_one_pool, key, NULL), 0);
}

static void a_newer_sessions_options_are_refused_if_they_ask_for_something(void **state)
{
	struct {
		struct kvc_session_options known;
		uint64_t more;
	} o = {.known = {.size = sizeof(o)}, .more = 1};
	struct kvc_session *sub = NULL;
	struct kv_error err = {0};
	(void)state;
	test_server_need(&test_first);
	assert_int_equal(kvc_session_open(test_one_pool, 0, &o.known, &sub, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "struct kvc_session_options is newer"));
	o.more = 0;
	assert_int_equal(kvc_session_open(test_one_pool, 0, &o.known, &sub, &err), 0);
	assert_int_equal(kvc_session_close(test_one_pool, &sub, 0), 0);
}

/* The layout of an item is the caller's too: of another size, or with something set that the library does not know. */
static void a_layout_that_is_not_known_fails_its_item_alone(void **state)
{
	char got[8];
	struct {
		struct kvc_layout known;
		uint8_t more[16];
	} l = {.known.size = sizeof(l)};
	struct kvc_layout unset = {0}, put_parts = {.size = sizeof(put_parts), .num_parts = 1};
	struct kvc_item item[4] = {{.key = key, .data = "12", .len = 2, .layout = &unset},
				   {.key = {"sized2", 6}, .data = "34", .len = 2},
				   {.key = key, .data = "56", .len = 2, .layout = &l.known},
				   {.key = key, .data = "78", .len = 2, .layout = &put_parts}};
	(void)state;
	test_server_need(&test_first);
	l.more[3] = 1;
	assert_int_equal(kvc_put_batch(test_one_pool, item, 4, NULL), -KV_EINVAL);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(item[i].result, i == 1 ? 0 : -KV_EINVAL);
	item[1].layout = &l.known;
	item[1].data = got;
	assert_int_equal(kvc_get_batch(test_one_pool, &item[1], 1, NULL), -KV_EINVAL);
	l.more[3] = 0;
	assert_int_equal(kvc_get_batch(test_one_pool, &item[1], 1, NULL), 0);
	assert_int_equal(kvc_delete(test_one_pool, item[1].key, NULL), 0);
}

/* Filled by the library: `call` fills x, which has 16 bytes more than the library knows, or ends behind its first two
 * members. */
#define FILLED(type, call)                                                                                             \
	do {                                                                                                           \
		struct {                                                                                               \
			struct type known;                                                                             \
			uint8_t more[16], guard[16];                                                                   \
		} x;                                                                                                   \
		memset(&x, 0xA5, sizeof(x));                                                                           \
		x.known.size = sizeof(x.known) + 16;                                                                   \
		assert_int_equal(call, 0);                                                                             \
		assert_int_equal(x.known.size, sizeof(x.known));                                                       \
		assert_memory_equal(x.more, ((uint8_t[16]){0}), 16);                                                   \
		assert_int_equal(x.guard[0], 0xA5);                                                                    \
		memset(&x, 0xA5, sizeof(x));                                                                           \
		x.known.size = 2 * sizeof(size_t);                                                                     \
		assert_int_equal(call, 0);                                                                             \
		assert_int_equal(x.known.size, 2 * sizeof(size_t));                                                    \
		assert_int_equal(((uint8_t *)&x)[2 * sizeof(size_t)], 0xA5);                                           \
		x.known.size = 3;                                                                                      \
		assert_int_equal(call, -KV_EINVAL);                                                                    \
		x.known.size = SIZE_MAX;                                                                               \
		assert_int_equal(call, -KV_EINVAL);                                                                    \
	} while (0)

static int ping_with(struct kvc_phases *phases)
{
	return kvc_ping(test_one_pool, &(struct kvc_call){.size = sizeof(struct kvc_call), .phases = phases});
}

static void what_the_library_fills_ends_where_both_know_it(void **state)
{
	struct kvc_session *sub = NULL;
	struct kv_error err = {0};
	(void)state;
	test_server_need(&test_first);
	assert_int_equal(kvc_session_open(test_one_pool, 0, NULL, &sub, &err), 0);
	FILLED(kvc_info, kvc_info(test_one_pool, &x.known));
	FILLED(kvc_counters, kvc_counters(test_one_pool, &x.known));
	FILLED(kvc_server_info, kvc_server_info(test_one_pool, 0, 0, &x.known));
	FILLED(kvc_rail_info, kvc_rail_info(test_one_pool, 0, 0, &x.known));
	FILLED(kvc_session_info, kvc_session_info(test_one_pool, sub, 0, &x.known));
	FILLED(kvc_phases, ping_with(&x.known));
	assert_int_equal(kvc_session_close(test_one_pool, &sub, 0), 0);
}

static void reserves_of_what_the_library_fills_are_zero(void **state)
{
	static struct kvc_stat_item item[400];
	struct kvc_counters counters = {.size = sizeof(counters)};
	int n[2];
	(void)state;
	test_server_need(&test_first);
	for (int round = 0; round < 2; round++) {
		memset(item, 0xA5, sizeof(item));
		assert_int_equal(kvc_counters(test_one_pool, &counters), 0);
		n[round] = round ? kvc_counters_items(&counters, item, KV_COUNT(item))
				 : kvc_stat(test_one_pool, item, KV_COUNT(item), NULL);
		assert_true(n[round] > 0);
		for (int i = 0; i < n[round]; i++)
			assert_true(item[i].name && item[i].reserved_32 == 0 && item[i].reserved[0] == 0 &&
				    item[i].reserved[1] == 0);
	}
}

static void borrowed_worker(struct kvc_client *client, unsigned w, void *arg)
{
	struct kvc_borrowed borrowed, none = {0};
	(void)w;
	memset(&borrowed, 0xA5, sizeof(borrowed));
	*(int *)arg = kvc_borrow_await(client, 4096, 0, &borrowed);
	*(int *)arg += borrowed.in_place != 0 || borrowed.reserved_32 != 0;
	for (unsigned i = 3; i < KV_COUNT(borrowed.priv); i++)
		*(int *)arg += borrowed.priv[i] != 0;
	kvc_borrowed_release(client, &borrowed);
	*(int *)arg += memcmp(&borrowed, &none, sizeof(borrowed)) != 0;
}

static void the_reserve_of_a_borrowed_piece_is_zero(void **state)
{
	int rc = -1;
	(void)state;
	test_server_need(&test_first);
	assert_int_equal(kvc_run(test_one_pool, 1, borrowed_worker, &rc), 0);
	assert_int_equal(rc, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newer_options_are_refused_if_they_ask_for_something),
		cmocka_unit_test(a_newer_call_is_refused_if_it_asks_for_something),
		cmocka_unit_test(a_newer_sessions_options_are_refused_if_they_ask_for_something),
		cmocka_unit_test(a_layout_that_is_not_known_fails_its_item_alone),
		cmocka_unit_test(what_the_library_fills_ends_where_both_know_it),
		cmocka_unit_test(reserves_of_what_the_library_fills_are_zero),
		cmocka_unit_test(the_reserve_of_a_borrowed_piece_is_zero),
	};
	return test_both_ways(tests, test_one_up, test_one_down);
}
