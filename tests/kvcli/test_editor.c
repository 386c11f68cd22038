/* SPDX-License-Identifier: Apache-2.0 */
/* test_editor.c -- bytes become characters of the editor, and the same bytes again. */
#include "tests/check.h"

#include <stdlib.h>

#include "kvcli/editor.h"

static void there_and_back(const char *bytes)
{
	char *line = editor_encode(bytes);
	uint32_t c;
	assert_non_null(line);
	for (const char *p = line; *p;) { /* libedit loses nothing of UTF-8 */
		int len = kv_utf8_take((const uint8_t *)p, strlen(p), &c);
		if (len <= 0 || (c >= 0x80 && c < 0xA0))
			fail_msg("'%s' has something that libedit drops, or takes for a command", line);
		p += len;
	}
	editor_decode(line);
	assert_string_equal(line, bytes);
	free(line);
}

static void bytes_come_back(void **state)
{
	static const char *const lines[] = {"",
					    "put a b",
					    "gr\xc3\xbc\xc3\x9f\x65",
					    "gr\xfc\xdf\x65",
					    "\xc2\x85",
					    "cut \xe6\xbc",
					    "\xff\xfe\x80",
					    "\xf3\xa0\xbe\x80",
					    "\xf3\xa0\xbf\xbf",
					    "\xf3\xa0\xbe",
					    "\xf3",
					    "\xf0\x9f\x98\x80",
					    "\xed\xa0\x80",
					    "\xc0\xaf"};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(lines); i++)
		there_and_back(lines[i]);
}

/* Random bytes, and random mixtures of what is special. */
static void any_bytes_come_back(void **state)
{
	static const char special[] = "\xf3\xa0\xbe\xbf\xc3\xbc\x80\xff"
				      "a";
	struct kv_prng prng = check_seed();
	char line[32];
	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		unsigned len = (unsigned)kv_prng_below(&prng, sizeof(line));
		for (unsigned k = 0; k < len; k++)
			line[k] = i % 2 ? (char)(1 + kv_prng_below(&prng, 255))
					: special[kv_prng_below(&prng, sizeof(special) - 1)];
		line[len] = 0;
		there_and_back(line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_back),
		cmocka_unit_test(any_bytes_come_back),
	};
	if (!editor_begin()) {
		printf("1..0 # SKIP this C library has no UTF-8 locale\n");
		return 0;
	}
	return cmocka_run_group_tests_name("kvcli/editor", tests, NULL, NULL);
}
