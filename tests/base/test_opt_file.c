/* SPDX-License-Identifier: Apache-2.0 */
/* test_opt_file.c -- options from a file: what is taken, and what is refused with its line. */
#include "tests/check.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct conf {
	uint64_t memory;
	bool loud;
	const char *name;
};

static const struct kv_opt table[] = {
	{.name = "memory-mb",
	 .alias = "mem",
	 .type = KV_OPT_U64,
	 .offset = offsetof(struct conf, memory),
	 .min = 1,
	 .max = 99},
	{.name = "loud", .type = KV_OPT_FLAG, .offset = offsetof(struct conf, loud)},
	{.name = "name", .type = KV_OPT_STRING, .offset = offsetof(struct conf, name), .metavar = "TEXT"},
	{.name = NULL},
};
static const struct kv_opt_refused refused[] = {{"psk", "no keys here"}, {NULL, NULL}};

static struct conf conf;
static struct kv_error err;
static char *text;

static int read_bytes(const char *bytes, size_t len)
{
	char path[] = "/tmp/kvrail-optXXXXXX";
	int fd = mkstemp(path), rc;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	close(fd);
	conf = (struct conf){0};
	free(text);
	text = NULL;
	rc = kv_opt_file_read(table, refused, path, &conf, &text, &err);
	unlink(path);
	return rc;
}

static int read_text(const char *bytes)
{
	return read_bytes(bytes, strlen(bytes));
}

static void lines_are_taken(void **state)
{
	(void)state;
	assert_int_equal(read_text("# a comment\n\n  memory-mb =  7 \r\nloud\n\tname = a = b # c"), 0);
	assert_int_equal(conf.memory, 7);
	assert_true(conf.loud);
	assert_string_equal(conf.name, "a = b # c");
	assert_int_equal(read_text("mem = 8\nloud = false\n"), 0);
	assert_int_equal(conf.memory, 8);
	assert_false(conf.loud);
	assert_int_equal(read_text(""), 0);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
	(void)state;
	static const struct {
		const char *text, *line, *says;
	} cases[] = {
		{"loud\nmemry-mb = 3", "line 2", "did you mean memory-mb?"},
		{"memory = 3", "line 1", "did you mean memory-mb?"},
		{"zebra = 3", "line 1", "there is no option 'zebra'"},
		{"\n\nmemory-mb = 100", "line 3", "out of range"},
		{"memory-mb", "line 1", "needs a value"},
		{"name", "line 1", "name = TEXT"},
		{"memory-mb = 1\nmem = 2", "line 2", "is repeated here"},
		{"psk = a:00", "line 1", "no keys here"},
		{"= 4", "line 1", "there is no option ''"},
		{"\x1b[2J = 4", "line 1", "there is no option '\\x1b[2J'"},
		{"loud = perhaps", "line 1", "loud"},
	};
	for (size_t i = 0; i < KV_COUNT(cases); i++) {
		assert_int_equal(read_text(cases[i].text), -KV_EINVAL);
		check_contains(err.text, cases[i].line);
		check_contains(err.text, cases[i].says);
		assert_null(text);
	}
	assert_int_equal(read_text("\xff\xfe"), -KV_EINVAL);
	assert_null(strstr(err.text, "did you mean")); /* nothing is like it */
}

static void what_is_no_text_file_is_refused(void **state)
{
	(void)state;
	assert_int_equal(read_bytes("loud\0\n", 6), -KV_EINVAL);
	assert_true(kv_opt_file_read(table, NULL, "/nonexistent/file", &conf, &text, &err) < 0);
	check_contains(err.text, "/nonexistent/file cannot be read");
	assert_int_equal(kv_opt_file_read(table, NULL, "/dev/null", &conf, &text, &err), -KV_EINVAL);
	assert_true(kv_opt_file_read(table, NULL, "/tmp", &conf, &text, &err) < 0);
}

static void a_fifo_is_not_waited_for(void **state)
{
	(void)state;
	char path[] = "/tmp/kvrail-optXXXXXX";
	close(mkstemp(path));
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	alarm(20); /* a wait would have no end */
	int rc = kv_opt_file_read(table, NULL, path, &conf, &text, &err);
	alarm(0);
	unlink(path);
	assert_int_equal(rc, -KV_EINVAL);
	check_contains(err.text, "is no file");
}

static int tidy(void **state)
{
	(void)state;
	free(text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_taken),
		cmocka_unit_test(what_is_wrong_is_named_with_its_line),
		cmocka_unit_test(what_is_no_text_file_is_refused),
		cmocka_unit_test(a_fifo_is_not_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, tidy);
}
