/* SPDX-License-Identifier: Apache-2.0 */
/* test_space.c -- which names a namespace may have. */
#include "tests/check.h"

#include <string.h>

#include "base/limits.h"
#include "base/space.h"

static void text_may_name_one(void **state)
{
	(void)state;
	static const char *const names[] = {"", "a", "model@1.0 (fp8)", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80",
					    "{\"}\\"};
	char longest[KV_SPACE_MAX + 1];
	memset(longest, 'n', sizeof(longest));
	for (unsigned i = 0; i < KV_COUNT(names); i++)
		assert_true(kv_space_check(names[i], strlen(names[i])));
	assert_true(kv_space_check(longest, KV_SPACE_MAX));
	assert_false(kv_space_check(longest, KV_SPACE_MAX + 1));
}

static void other_bytes_may_not(void **state)
{
	(void)state;
	static const char *const names[] = {"a\n",  "\t",   "\x1B[1m",  "\x7F",        "\xC2\x85",
					    "\xFF", "\xC3", "\xC0\x80", "\xED\xA0\x80"};
	for (unsigned i = 0; i < KV_COUNT(names); i++)
		assert_false(kv_space_check(names[i], strlen(names[i])));
	assert_false(kv_space_check("a\0b", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_may_name_one),
		cmocka_unit_test(other_bytes_may_not),
	};
	return cmocka_run_group_tests_name("base/space", tests, NULL, NULL);
}
