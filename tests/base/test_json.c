/* SPDX-License-Identifier: Apache-2.0 */
/* test_json.c -- text inside JSON strings: nothing in it ends the string, and what comes out is UTF-8. */
#include "tests/check.h"

#include <string.h>

static void text_is_escaped(void **state)
{
	(void)state;
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"plain", "plain"},
		{"a\"b\\c", "a\\\"b\\\\c"},
		{"\n\t\r\x01\x1f\x7f", "\\n\\t\\r\\u0001\\u001f\\u007f"},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
		{"\xc0\xaf", "\\ufffd\\ufffd"},            /* overlong */
		{"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"}, /* a surrogate */
		{"\xf4\x90\x80\x80x", "\\ufffd\\ufffd\\ufffd\\ufffdx"},
		{"\xe2\x82", "\\ufffd\\ufffd"}, /* cut off by the end */
		{"\xff", "\\ufffd"},
	};
	char buf[128];
	for (size_t i = 0; i < KV_COUNT(cases); i++)
		assert_string_equal(kv_json_text(cases[i].text, buf, sizeof(buf)), cases[i].want);
}

static void a_character_is_not_cut(void **state)
{
	(void)state;
	char buf[16];
	for (size_t cap = 1; cap < sizeof(buf); cap++) {
		memset(buf, 'x', sizeof(buf));
		kv_json_text("\x01\xc3\xa4\"", buf, cap);
		assert_true(strlen(buf) < cap);
		assert_string_equal(buf, cap > 10  ? "\\u0001\xc3\xa4\\\""
					 : cap > 8 ? "\\u0001\xc3\xa4"
					 : cap > 6 ? "\\u0001"
						   : "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_escaped),
		cmocka_unit_test(a_character_is_not_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
