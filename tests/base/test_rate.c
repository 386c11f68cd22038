/* SPDX-License-Identifier: Apache-2.0 */
/* test_rate.c -- how many lines pass, and how many are reported as suppressed. */
#include "tests/check.h"

#define S 1000000000ull

static void a_second_takes_so_many_and_counts_the_rest(void **state)
{
	struct kv_rate r = {0};
	uint64_t suppressed = 99;
	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_true(kv_rate_take(&r, 5 * S + (uint64_t)i, 3, &suppressed));
		assert_int_equal(suppressed, 0);
	}
	for (int i = 0; i < 7; i++)
		assert_false(kv_rate_take(&r, 6 * S - 1, 3, &suppressed));
	assert_int_equal(r.suppressed, 7);
	/* The second began with its first line, at 5 s. */
	assert_true(kv_rate_take(&r, 6 * S, 3, &suppressed));
	assert_int_equal(suppressed, 7);
	assert_true(kv_rate_take(&r, 6 * S, 3, &suppressed));
	assert_int_equal(suppressed, 0);
}

static void the_first_line_is_taken_at_any_time(void **state)
{
	struct kv_rate r = {0};
	uint64_t suppressed;
	(void)state;
	assert_true(kv_rate_take(&r, 0, 1, &suppressed));
	assert_false(kv_rate_take(&r, 0, 1, &suppressed));
	assert_true(kv_rate_take(&r, S, 1, &suppressed));
	assert_int_equal(suppressed, 1);
}

static void keys_are_shown_as_text_or_hex_and_shortened(void **state)
{
	char buf[KV_KEY_TEXT];
	uint8_t bytes[128];
	(void)state;
	memset(bytes, 0xab, sizeof(bytes));
	assert_string_equal(kv_key_text("block-17", 8, buf), "'block-17'");
	assert_string_equal(kv_key_text("a b", 3, buf), "0x612062");
	assert_string_equal(kv_key_text("it's", 4, buf), "0x69742773");
	assert_string_equal(kv_key_text("0123456789abcdef", 16, buf), "'0123456789abcdef'");
	assert_string_equal(kv_key_text("0123456789abcdef0123456789abcdef0123456789abcdef0", 49, buf),
			    "'0123456789abcdef0123456789abcdef0123456789abcdef'.. (49 bytes)");
	assert_string_equal(kv_key_text(bytes, 128, buf), "0xababababababababababababababababababababababababababababab"
							  "ababababababababababababababababababab.. (128 bytes)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_second_takes_so_many_and_counts_the_rest),
		cmocka_unit_test(the_first_line_is_taken_at_any_time),
		cmocka_unit_test(keys_are_shown_as_text_or_hex_and_shortened),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
