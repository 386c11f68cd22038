/* SPDX-License-Identifier: Apache-2.0 */
/* test_disk.c -- the places of tiers: what the option says, and what is there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/host.h"
#include "tests/check.h"

static void a_path_may_have_a_size(void **state)
{
	static const struct {
		const char *text, *path;
		uint64_t bytes;
	} good[] = {{"/mnt/tier", "/mnt/tier", 0},
		    {"/mnt/tier:1MiB", "/mnt/tier", 1 << 20},
		    {"tier:4096", "tier", 4096},
		    {"/a:b/tier:2G", "/a:b/tier", 2ull << 30}};
	struct kv_disk_spec s;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(good); i++) {
		assert_int_equal(kv_disk_parse(good[i].text, &s, NULL), 0);
		assert_string_equal(s.path, good[i].path);
		assert_int_equal(s.bytes, good[i].bytes);
	}
}

static void what_is_no_place_is_said(void **state)
{
	static const char *const bad[] = {"", ":1G", "/mnt/tier:", "/mnt/tier:0", "/mnt/tier:-1", "/mnt/tier:many"};
	char longest[KV_DISK_PATH_MAX + 1];
	struct kv_disk_spec s;
	struct kv_error err = {0};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++)
		assert_int_equal(kv_disk_parse(bad[i], &s, NULL), -KV_EINVAL);
	assert_int_equal(kv_disk_parse("/mnt/tier:many", &s, &err), -KV_EINVAL);
	check_contains(err.text, "'many' is no size: use PATH or PATH:SIZE");
	memset(longest, 'x', KV_DISK_PATH_MAX);
	longest[KV_DISK_PATH_MAX] = '\0';
	assert_int_equal(kv_disk_parse(longest, &s, NULL), -KV_EINVAL);
}

static void files_and_folders_are_told_apart(void **state)
{
	char path[] = "/tmp/kvrail-disk-XXXXXX", below[64], missing[64];
	struct kv_disk k;
	struct kv_error err = {0};
	int fd = mkstemp(path);
	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(kv_disk_look(path, &k, NULL), 0);
	assert_false(k.device);
	assert_true(k.system[0]);
	snprintf(below, sizeof(below), "%s/tier", path);
	assert_int_equal(kv_disk_look(below, &k, NULL), -ENOTDIR);
	unlink(path);
	assert_int_equal(kv_disk_look(path, &k, NULL), 0); /* it can be made */
	snprintf(missing, sizeof(missing), "%s/tier", path);
	assert_int_equal(kv_disk_look(missing, &k, &err), -ENOENT);
	check_contains(err.text, "make the folder first");
	assert_int_equal(kv_disk_look("/tmp", &k, &err), -KV_EINVAL);
	check_contains(err.text, "neither a file nor a block device");
	assert_int_equal(kv_disk_look("/dev/null", &k, NULL), -KV_EINVAL);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_may_have_a_size),
		cmocka_unit_test(what_is_no_place_is_said),
		cmocka_unit_test(files_and_folders_are_told_apart),
	};
	return cmocka_run_group_tests_name("host/disk", tests, NULL, NULL);
}
