/* SPDX-License-Identifier: Apache-2.0 */
/* test_drained.c -- the report of a drain: its sentence, and the numbers that cannot be. */
#include "tests/check.h"

static void assert_text(struct kv_drained d, const char *want, const char *names)
{
	char text[KV_DRAINED_TEXT];
	assert_true(kv_drained_valid(&d));
	assert_string_equal(kv_drained_text(&d, text, sizeof(text)), want);
	assert_string_equal(kv_drained_names(&d, text, sizeof(text)), names);
}

static void the_sentence_says_how_many_and_why_not_all(void **state)
{
	(void)state;
	assert_text((struct kv_drained){0}, "there was no value to push", "");
	assert_text((struct kv_drained){.gone = 1},
		    "there was no value to push; 1 was deleted or expired during the drain", "");
	assert_text((struct kv_drained){.values = 1, .of = 1, .bytes = 5}, "1 of 1 value, 5 B, is at other servers",
		    "");
	assert_text((struct kv_drained){.values = 3, .of = 5, .bytes = 3072, .left = {[KV_LEFT_TIME] = 2}},
		    "3 of 5 values, 3 KiB, are at other servers; 2 are not: the time was over", "time");
	assert_text((struct kv_drained){.of = 8, .left = {[KV_LEFT_FULL] = 7, [KV_LEFT_DAMAGED] = 1}, .gone = 2},
		    "0 of 8 values, 0 B, are at other servers; 8 are not: 7 since the other servers have no room, 1 "
		    "since their bytes are damaged; 2 were deleted or expired during the drain",
		    "full,damaged");
}

/* Every reason at once, with the largest numbers, has room; in less room nothing is written behind it. */
static void the_longest_sentence_fits(void **state)
{
	struct kv_drained d = {.values = UINT64_MAX / 2, .of = UINT64_MAX / 2, .gone = UINT64_MAX};
	char text[KV_DRAINED_TEXT], *small;
	(void)state;
	for (unsigned i = 0; i < KV_LEFT_REASONS; i++) {
		d.left[i] = UINT64_MAX / 20;
		d.of += d.left[i];
	}
	assert_true(kv_drained_valid(&d));
	check_contains(kv_drained_text(&d, text, sizeof(text)), "deleted or expired during the drain");
	for (size_t cap = 1; cap < strlen(text) + 1; cap++) {
		small = malloc(cap);
		assert_non_null(small);
		kv_drained_text(&d, small, cap);
		assert_memory_equal(small, text, strlen(small));
		kv_drained_names(&d, small, cap);
		free(small);
	}
}

static void numbers_that_do_not_agree_are_found(void **state)
{
	const struct kv_drained bad[] = {
		{.values = 1},
		{.of = 1},
		{.of = 1, .left = {[KV_LEFT_TIME] = 2}},
		{.of = 3, .values = 1, .left = {[KV_LEFT_TIME] = 1}},
		{.of = 1, .left = {[KV_LEFT_TIME] = UINT64_MAX, [KV_LEFT_FULL] = 2}},
	};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++)
		assert_false(kv_drained_valid(&bad[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sentence_says_how_many_and_why_not_all),
		cmocka_unit_test(the_longest_sentence_fits),
		cmocka_unit_test(numbers_that_do_not_agree_are_found),
	};
	return cmocka_run_group_tests_name("base/drained", tests, NULL, NULL);
}
