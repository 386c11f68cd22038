/* SPDX-License-Identifier: Apache-2.0 */
/* test_gone.c -- which members have left, and whether they may come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "kvserver/conn/gone.h"

#define MINUTE 60000000000ull

static struct gone gone;
static uint64_t now_ns;

/* A view of these members, a letter each; this server is a. */
static void see(const char *letters)
{
	struct kv_view view = {.epoch = 1};
	for (; *letters; letters++) {
		struct kv_member m = {.weight = 1, .state = KV_MEMBER_UP};
		snprintf(m.node_id, sizeof(m.node_id), "%c", *letters);
		snprintf(m.address, sizeof(m.address), "127.0.0.1:1");
		assert_int_equal(kv_view_add(&view, &m), 0);
	}
	gone_view(&gone, &view, "a", ++now_ns);
	kv_view_fini(&view);
}

static int begin(void **state)
{
	(void)state;
	gone = (struct gone){0};
	now_ns = 1000 * MINUTE;
	return 0;
}

static void a_member_that_returns_answers_for_itself(void **state)
{
	(void)state;
	see("abc");
	assert_int_equal(gone_last_ns(&gone), 0);
	see("ab");
	assert_int_equal(gone_last_ns(&gone), now_ns);
	see("b");
	assert_int_equal(gone.rows, 1); /* this server itself does not count */
	see("abc");
	assert_int_equal(gone_last_ns(&gone), 0);
	assert_int_equal(gone.lost_ns, 0);
}

static void a_member_that_stays_away_is_lost(void **state)
{
	uint64_t left_ns;
	(void)state;
	see("abc");
	see("ac");
	left_ns = now_ns;
	gone_forget(&gone, left_ns + 10 * MINUTE);
	assert_int_equal(gone_last_ns(&gone), left_ns);
	gone_forget(&gone, left_ns + 12 * MINUTE);
	assert_int_equal(gone_last_ns(&gone), 0);
	assert_int_equal(gone.lost_ns, left_ns);
}

/* A restarted server knows the members of before, and not when they left. */
static void former_members_are_missed(void **state)
{
	const uint64_t names[] = {tier_member_name("a"), tier_member_name("b"), tier_member_name("c")};
	uint64_t all[2 * KV_VIEW_MAX];
	(void)state;
	gone_former(&gone, names, 3, "a");
	assert_int_equal(gone.rows, 2);
	assert_true(gone_last_ns(&gone) == KV_NEVER);
	see("ab");
	assert_int_equal(gone_last_ns(&gone), now_ns);
	assert_int_equal(gone_names(&gone, all), 2); /* the next process misses it as well */
	assert_true(all[1] == names[2]);
	see("abc");
	assert_int_equal(gone_last_ns(&gone), 0);
}

static void many_leave(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_VIEW_MAX; i++)
		gone.member[gone.members++] = 1000 + i;
	see("ab");
	assert_int_equal(gone.rows, KV_VIEW_MAX);
	see("a");
	assert_int_equal(gone.rows, KV_VIEW_MAX);
	assert_int_equal(gone.lost_ns, now_ns - 1);
	assert_int_equal(gone_last_ns(&gone), now_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_member_that_returns_answers_for_itself, begin),
		cmocka_unit_test_setup(a_member_that_stays_away_is_lost, begin),
		cmocka_unit_test_setup(former_members_are_missed, begin),
		cmocka_unit_test_setup(many_leave, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
