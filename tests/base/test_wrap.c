/* SPDX-License-Identifier: Apache-2.0 */
/* test_wrap.c -- sentences in 80 columns. */
#include "tests/check.h"

#include <stdlib.h>

static char *text;
static size_t len;

static FILE *begin(void)
{
	free(text);
	text = NULL;
	FILE *f = open_memstream(&text, &len);
	assert_non_null(f);
	return f;
}

/* Append the words of a text, with one blank behind each. */
static void words_add(char *to, const char *from)
{
	char *copy = strdup(from), *rest = copy;
	assert_non_null(copy);
	to += strlen(to);
	for (char *word; (word = strtok_r(rest, " \n", &rest));)
		to += sprintf(to, "%s ", word);
	free(copy);
}

static void no_line_is_wider_and_no_word_is_lost(void **state)
{
	(void)state;
	FILE *f = begin();
	char all[32768] = "";
	for (unsigned words = 1; words < 60; words++) {
		char sentence[1024] = "";
		for (unsigned i = 0; i < words; i++)
			snprintf(sentence + strlen(sentence), sizeof(sentence) - strlen(sentence), "%s%.*s",
				 i ? " " : "", (int)(1 + i * 7 % 13), "abcdefghijklmn");
		kv_wrap(f, "head       ", 0, "%s", sentence);
		words_add(all, "head");
		words_add(all, sentence);
	}
	fclose(f);
	size_t column = 0, widest = 0;
	for (const char *c = text; *c; c++) {
		column = *c == '\n' ? 0 : column + 1;
		widest = KV_MAX(widest, column);
	}
	assert_in_range(widest, 75, KV_COLUMNS);
	assert_null(strstr(text, " \n"));
	char printed[32768] = "";
	words_add(printed, text);
	assert_string_equal(printed, all);
}

static void further_lines_are_indented(void **state)
{
	(void)state;
	FILE *f = begin();
	kv_wrap(f, "note  ", 0, "%s", "one two");
	kv_wrap(f, "", 2, "%080d and", 1);
	kv_wrap(f, "fabric  ", 0, "%s",
		"\xc3\xa4\xc3\xa4 "
		"/a/path/that/is/so/long/that/it/does/not/fit/a/line/and/is/left/whole/all/the/same/x next");
	fclose(f);
	assert_string_equal(
		text,
		"note  one two\n"
		"00000000000000000000000000000000000000000000000000000000000000000000000000000001\n  and\n"
		"fabric  \xc3\xa4\xc3\xa4\n        "
		"/a/path/that/is/so/long/that/it/does/not/fit/a/line/and/is/left/whole/all/the/same/x\n        next\n");
}

static void a_colour_takes_no_column(void **state)
{
	(void)state;
	char words[] = "word word word word word word word word word word word word word word word word";
	FILE *f = begin();
	kv_wrap(f, "  ok  ", 0, "%s", words);
	fclose(f);
	size_t plain = strcspn(text, "\n");
	f = begin();
	kv_wrap(f, "  \033[1;31mok\033[0m  ", 0, "%s", words);
	fclose(f);
	assert_int_equal(strcspn(text, "\n"), plain + strlen("\033[1;31m\033[0m"));
	assert_non_null(strstr(text, "\n      word"));
}

static void a_terminal_has_no_line_that_is_wider(void **state)
{
	(void)state;
	for (unsigned limit = 1; limit < 40; limit++) {
		FILE *f = begin();
		char *rest;
		kv_wrap_in(f, limit, limit > 4 ? "  " : "", 0, "a word, and one%s: gr\xc3\xbc\xc3\x9f\x65",
			   "-that-is-wider-than-a-line-of-a-narrow-terminal");
		fclose(f);
		rest = text;
		for (char *line; (line = strsep(&rest, "\n"));)
			assert_true(kv_utf8_columns(line) <= limit);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_line_is_wider_and_no_word_is_lost),
		cmocka_unit_test(further_lines_are_indented),
		cmocka_unit_test(a_colour_takes_no_column),
		cmocka_unit_test(a_terminal_has_no_line_that_is_wider),
	};
	return cmocka_run_group_tests_name("base/wrap", tests, NULL, NULL);
}
