/* SPDX-License-Identifier: Apache-2.0 */
/* test_out_file.c -- a file appears whole or not at all; links, modes and devices stay. */
#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/kvrail-out.XXXXXX", path[512], link_path[512];

static int begin(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(link_path, sizeof(link_path), "%s/link", folder);
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(path);
	unlink(link_path);
	return rmdir(folder);
}

static unsigned files(void)
{
	DIR *d = opendir(folder);
	unsigned n = 0;
	assert_non_null(d);
	for (const struct dirent *e = readdir(d); e; e = readdir(d))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void check_text(const char *text)
{
	char have[64] = "";
	FILE *in = fopen(path, "r");
	assert_non_null(in);
	assert_int_equal(fread(have, 1, sizeof(have) - 1, in), strlen(text));
	fclose(in);
	assert_string_equal(have, text);
}

static void a_file_has_its_name_when_it_is_whole(void **state)
{
	struct kv_error err = {0};
	struct out_file f;
	(void)state;
	assert_int_equal(out_file_open(&f, path, "the page", &err), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(files(), 1);
	assert_int_equal(out_file_write(&f, "longer", 6, &err), 0);
	check_text("longer");
	assert_int_equal(files(), 1);
	assert_int_equal(out_file_open(&f, path, "the page", &err), 0);
	out_file_discard(&f);
	check_text("longer");
	assert_int_equal(out_file_open(&f, path, "the page", &err), 0);
	assert_int_equal(out_file_write(&f, NULL, 1, &err), -KV_ENOMEM);
	check_text("longer");
	assert_int_equal(files(), 1);
}

static void a_link_and_a_mode_stay(void **state)
{
	struct kv_error err = {0};
	struct out_file f;
	struct stat st;
	(void)state;
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(symlink(path, link_path), 0);
	assert_int_equal(out_file_open(&f, link_path, "the page", &err), 0);
	assert_int_equal(out_file_write_line(&f, "a line", &err), 0);
	check_text("a line\n");
	assert_int_equal(lstat(link_path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
}

static void a_place_that_cannot_be_written_is_an_error_at_once(void **state)
{
	struct kv_error err = {0};
	struct out_file f;
	(void)state;
	assert_int_equal(out_file_open(&f, "/nonexistent/x", "the page", &err), -ENOENT);
	check_contains(err.text, "the page /nonexistent/x cannot be written: No such file");
	out_file_discard(&f);
	assert_true(out_file_open(&f, "/", "the page", &err) < 0);
}

static void a_full_device_is_an_error_and_stays_a_device(void **state)
{
	struct kv_error err = {0};
	struct out_file f;
	struct stat st;
	(void)state;
	assert_int_equal(out_file_open(&f, "/dev/full", "the page", &err), 0);
	assert_int_equal(out_file_write(&f, "x", 1, &err), -ENOSPC);
	check_contains(err.text, "/dev/full cannot be written: No space left");
	assert_int_equal(stat("/dev/full", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_has_its_name_when_it_is_whole),
		cmocka_unit_test(a_link_and_a_mode_stay),
		cmocka_unit_test(a_place_that_cannot_be_written_is_an_error_at_once),
		cmocka_unit_test(a_full_device_is_an_error_and_stays_a_device),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
