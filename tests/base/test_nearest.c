/* SPDX-License-Identifier: Apache-2.0 */
/* test_nearest.c -- which name a mistyped word may have meant. */
#include "tests/check.h"

static const char *const names[] = {"capacity", "compare", "fabric", "hits",        "models",   "plot",   "scale",
				    "sweep",    "versus",  "help",   "num-workers", "num-keys", "server", "servers"};

static const char *nearest(const char *word)
{
	struct kv_nearest n = kv_nearest_begin(word, strlen(word));
	for (unsigned i = 0; i < KV_COUNT(names); i++)
		kv_nearest_try(&n, names[i]);
	return n.best ? n.best : "";
}

static void mistakes_are_understood(void **state)
{
	static const char *const of[][2] = {{"swep", "sweep"},
					    {"seewp", "sweep"},
					    {"sweeep", "sweep"},
					    {"swepe", "sweep"},
					    {"comapre", "compare"},
					    {"veruss", "versus"},
					    {"hit", "hits"},
					    {"num-wrokers", "num-workers"},
					    {"workers", "num-workers"},
					    {"keys", "num-keys"},
					    {"num_workers", "num-workers"},
					    {"sever", "server"}};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(of); i++)
		assert_string_equal(nearest(of[i][0]), of[i][1]);
}

static void other_words_are_not(void **state)
{
	static const char long_word[] = "a-word-that-is-longer-than-any-name-of-an-option-or-a-command";
	static const char *const words[] = {"", "x", "zz", "bogus", "frobnicate", "plum", long_word};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(words); i++)
		if (*nearest(words[i]))
			fail_msg("'%s' is taken for %s", words[i], nearest(words[i]));
}

static void the_hint_is_a_question(void **state)
{
	char text[KV_NEAREST_TEXT];
	struct kv_nearest n = kv_nearest_begin("sweeps-and-more", 6);
	(void)state;
	assert_string_equal(kv_nearest_hint(&n, "--", text), "");
	kv_nearest_try(&n, "sweep");
	assert_string_equal(kv_nearest_hint(&n, "--", text), "; did you mean --sweep?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mistakes_are_understood),
		cmocka_unit_test(other_words_are_not),
		cmocka_unit_test(the_hint_is_a_question),
	};
	return cmocka_run_group_tests_name("base/nearest", tests, NULL, NULL);
}
