/* SPDX-License-Identifier: Apache-2.0 */
/* test_history.c -- what the prompt keeps on disk, for whom, and what it does not keep. */
#include "tests/check.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvcli/history.h"

static char folder[] = "/tmp/kvrail-history.XXXXXX", path[512];
static unsigned added;
static char first[64], last[64];

static void take(const char *line)
{
	snprintf(added++ ? last : first, sizeof(first), "%s", line);
}

static void load(void)
{
	added = 0;
	first[0] = last[0] = 0;
	history_load(path, take);
}

static int begin(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	setenv("XDG_STATE_HOME", folder, 1);
	return history_path(path, sizeof(path)) ? 0 : -1;
}

static int end(void **state)
{
	char text[600];
	(void)state;
	unlink(path);
	snprintf(text, sizeof(text), "%s/kvrail", folder);
	rmdir(text);
	return rmdir(folder);
}

static void values_are_not_kept(void **state)
{
	(void)state;
	static const char *const no[] = {"",
					 "   ",
					 "put k secret",
					 " put k secret",
					 "put\tk secret",
					 "put k 'secret -f x'",
					 "put k secret -",
					 "put 'a -f b' secret",
					 "put a\\ -f secret",
					 "\"put\" k secret",
					 "'put' k secret",
					 "pu\\t k secret",
					 "PUT k secret",
					 "pit k secret",
					 "putter k secret",
					 "put",
					 "put k",
					 "put k -f",
					 "put k -fsecret",
					 "put k -f file secret",
					 "put k - secret",
					 "put k --",
					 "secret",
					 "  second line of a value that was pasted"};
	static const char *const yes[] = {"get k",    "put k -f file", "put\tk\t-f\tfile ",
					  "put k -",  " put k - ",     "exists a b",
					  "ttl k 1m", "stat",          "help put"};
	for (unsigned i = 0; i < KV_COUNT(no); i++)
		if (history_wanted(no[i]))
			fail_msg("'%s' is kept", no[i]);
	for (unsigned i = 0; i < KV_COUNT(yes); i++)
		if (!history_wanted(yes[i]))
			fail_msg("'%s' is not kept", yes[i]);
}

static void lines_come_back_and_are_the_owners_alone(void **state)
{
	(void)state;
	struct stat st;
	load();
	assert_int_equal(added, 0);
	history_keep(path, "get one");
	history_keep(path, "put two secret");
	history_keep(path, "get three");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	load();
	assert_int_equal(added, 2);
	assert_string_equal(first, "get one");
	assert_string_equal(last, "get three");
}

/* Two thousand lines and more, as after a long session: the newest thousand stay. */
static void a_long_file_keeps_its_newest_lines(void **state)
{
	(void)state;
	char line[64];
	for (unsigned i = 0; i < 2 * HISTORY_LINES + 500; i++) {
		snprintf(line, sizeof(line), "get %u", i);
		history_keep(path, line);
	}
	for (unsigned twice = 0; twice < 2; twice++) {
		load();
		assert_int_equal(added, HISTORY_LINES);
		assert_string_equal(last, "get 2499");
		assert_string_equal(first, "get 1500");
	}
}

static void the_place_follows_the_environment(void **state)
{
	(void)state;
	char text[512];
	assert_non_null(strstr(path, "/kvrail/kv-client.history"));
	unsetenv("XDG_STATE_HOME");
	setenv("HOME", "/home/x", 1);
	assert_true(history_path(text, sizeof(text)));
	assert_string_equal(text, "/home/x/.local/state/kvrail/kv-client.history");
	unsetenv("HOME");
	assert_false(history_path(text, sizeof(text)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_not_kept),
		cmocka_unit_test(lines_come_back_and_are_the_owners_alone),
		cmocka_unit_test(a_long_file_keeps_its_newest_lines),
		cmocka_unit_test(the_place_follows_the_environment),
	};
	return cmocka_run_group_tests_name("kvcli/history", tests, begin, end);
}
