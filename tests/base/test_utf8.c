/* SPDX-License-Identifier: Apache-2.0 */
/* test_utf8.c -- characters, their columns, and text that cannot drive a terminal. */
#include "tests/check.h"

#include <stdlib.h>

static int take(const char *bytes, uint32_t *c)
{
	return kv_utf8_take((const uint8_t *)bytes, strlen(bytes), c);
}

static void characters_are_found(void **state)
{
	uint32_t c = 0;
	(void)state;
	assert_int_equal(take("a", &c), 1);
	assert_int_equal(take("\xc3\xbc", &c), 2);
	assert_int_equal(c, 0xFC);
	assert_int_equal(take("\xe6\xbc\xa2", &c), 3);
	assert_int_equal(take("\xf0\x9f\x98\x80", &c), 4);
	assert_int_equal(c, 0x1F600);
	assert_int_equal(take("\xc3", &c), -1);
	assert_int_equal(take("\xf0\x9f\x98", &c), -1);
}

static void what_is_no_character_is_not_one(void **state)
{
	static const char *const bad[] = {
		"\x80", "\xff", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3z", "\xe6\xbcz"};
	uint32_t c;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++)
		assert_int_equal(take(bad[i], &c), 0);
}

/* Each code point, encoded by the C library's rules written out here, comes back. */
static void all_code_points_come_back(void **state)
{
	(void)state;
	for (uint32_t want = 1; want < 0x110000; want++) {
		uint8_t b[4] = {(uint8_t)want};
		uint32_t c = 0;
		int n = want < 0x80 ? 1 : want < 0x800 ? 2 : want < 0x10000 ? 3 : 4, got;
		if (n > 1) {
			for (int i = 0; i < n; i++)
				b[i] = (uint8_t)(0x80 | (want >> 6 * (n - 1 - i) & 0x3F));
			b[0] = (uint8_t)(0xF00u >> n | want >> 6 * (n - 1));
		}
		got = kv_utf8_take(b, sizeof(b), &c);
		if (want >= 0xD800 && want < 0xE000)
			assert_int_equal(got, 0);
		else if (got != n || c != want)
			fail_msg("U+%x: length %d, U+%x", want, got, c);
	}
}

static void columns_are_counted(void **state)
{
	(void)state;
	assert_int_equal(kv_utf8_columns(""), 0);
	assert_int_equal(kv_utf8_columns("gr\xc3\xbc\xc3\x9f"
					 "e"),
			 5);
	assert_int_equal(kv_utf8_columns("\xe6\xbc\xa2\xe5\xad\x97"), 4);
	assert_int_equal(kv_utf8_columns("e\xcc\x81"), 1);
	assert_int_equal(kv_utf8_columns("\xff\xfe"), 2);
}

static const char *clipped(const char *text, unsigned columns)
{
	static char buf[64];
	snprintf(buf, sizeof(buf), "%s", text);
	kv_utf8_clip(buf, columns);
	return buf;
}

static void text_is_clipped_between_characters(void **state)
{
	(void)state;
	assert_string_equal(clipped("short", 5), "short");
	assert_string_equal(clipped("longer text", 8), "longe...");
	assert_string_equal(clipped("longer", 3), "lon");
	assert_string_equal(clipped("gr\xc3\xbc\xc3\x9f\x65 an alle", 8), "gr\xc3\xbc\xc3\x9f\x65...");
	assert_string_equal(clipped("\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", 6), "\xe6\xbc\xa2...");
	assert_string_equal(clipped("abc", 0), "");
	for (unsigned n = 0; n < 20; n++)
		assert_true(kv_utf8_columns(clipped("a\xe6\xbc\xa2z\xc3\xbc\xff\xe5\xad\x97 tail", n)) <= n);
}

static void terminals_are_not_driven(void **state)
{
	static const char bytes[] = "a\x1b[31m\n\xc2\x9b"
				    "2J\xc3\xbc\xff\x7f";
	char buf[64], *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	(void)state;
	assert_string_equal(kv_utf8_text(bytes, sizeof(bytes) - 1, buf, sizeof(buf)),
			    "a\\x1b[31m\\x0a\\xc2\\x9b2J\xc3\xbc\\xff\\x7f");
	assert_string_equal(kv_utf8_text("abcdef\x1b", 7, buf, 8), "abcdef");
	assert_non_null(f);
	kv_utf8_print(f, "a\tb\n\r\0", 6, true);
	fclose(f);
	assert_string_equal(text, "a\tb\n\\x0d\\x00");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(characters_are_found),
		cmocka_unit_test(what_is_no_character_is_not_one),
		cmocka_unit_test(all_code_points_come_back),
		cmocka_unit_test(columns_are_counted),
		cmocka_unit_test(text_is_clipped_between_characters),
		cmocka_unit_test(terminals_are_not_driven),
	};
	return cmocka_run_group_tests_name("base/utf8", tests, NULL, NULL);
}
