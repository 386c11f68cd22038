/* SPDX-License-Identifier: Apache-2.0 */
/* test_proc_files.c -- small files below a root: what is there, what is missing, and what has a path too long. */
#include "tests/check.h"

#include "tests/tree.h"
#include "host/host.h"

static void a_line_is_read(void **state)
{
	char line[8];
	(void)state;
	tree_put("/sys/one", "first\nsecond\n");
	tree_put("/sys/long", "0123456789");
	tree_put("/sys/empty", "");
	assert_true(kv_file_line(line, sizeof(line), "%s/sys/%s", tree_root, "one"));
	assert_string_equal(line, "first");
	assert_true(kv_file_line(line, sizeof(line), "%s/sys/long", tree_root));
	assert_string_equal(line, "0123456");
	assert_false(kv_file_line(line, sizeof(line), "%s/sys/empty", tree_root));
	assert_false(kv_file_line(line, sizeof(line), "%s/sys/none", tree_root));
	assert_string_equal(line, "");
	assert_true(kv_file_here("%s/sys/empty", tree_root) && kv_file_here("%s/sys", tree_root));
	assert_false(kv_file_here("%s/sys/none", tree_root));
}

static void numbers_are_read(void **state)
{
	(void)state;
	tree_put("/a", "17 more\n");
	tree_put("/b", "0x1d0f\n");
	tree_put("/c", "-1\n");
	tree_put("/d", "max\n");
	assert_int_equal(kv_file_number(5, "%s/a", tree_root), 17);
	assert_int_equal(kv_file_number(5, "%s/b", tree_root), 0x1d0f);
	assert_int_equal(kv_file_number(5, "%s/c", tree_root), -1);
	assert_int_equal(kv_file_number(5, "%s/d", tree_root), 5);
	assert_int_equal(kv_file_number(5, "%s/e", tree_root), 5);
}

static void a_field_is_found(void **state)
{
	char text[8] = "before";
	(void)state;
	tree_put("/proc/self/status", "VmRSSx: 1\nVmRSS:\t  12 kB\nLong:   0123456789\n");
	assert_false(kv_file_field(text, sizeof(text), "VmLck:", "%s/proc/self/status", tree_root));
	assert_string_equal(text, "before");
	assert_true(kv_file_field(text, sizeof(text), "VmRSS:", "%s/proc/self/status", tree_root));
	assert_string_equal(text, "12 kB");
	assert_true(kv_file_field(text, sizeof(text), "Long:", "%s/proc/self/status", tree_root));
	assert_string_equal(text, "0123456");
}

static void entry_add(const char *entry, void *arg)
{
	strcat(strcat(arg, entry), " ");
}

static void links_and_directories_are_read(void **state)
{
	char text[64] = "", few[4];
	(void)state;
	tree_link("/l", "../../../bus/pci/drivers/efa");
	tree_link("/m", "mlx5_core");
	kv_link_last(text, sizeof(text), "%s/l", tree_root);
	assert_string_equal(text, "efa");
	kv_link_last(few, sizeof(few), "%s/m", tree_root);
	assert_string_equal(few, "mlx");
	kv_link_last(text, sizeof(text), "%s/n", tree_root);
	assert_string_equal(text, "");
	tree_put("/net/eth10", "");
	tree_put("/net/eth2", "");
	kv_dir_each(entry_add, text, "%s/net", tree_root);
	assert_string_equal(text, "eth2 eth10 ");
	kv_dir_each(entry_add, text, "%s/nothing", tree_root);
	assert_string_equal(text, "eth2 eth10 ");
}

static void a_path_that_is_too_long_is_no_file(void **state)
{
	static char name[2 * PATH_MAX];
	char line[8];
	(void)state;
	memset(name, '/', sizeof(name) - 1); /* the root directory, were it cut */
	assert_false(kv_file_line(line, sizeof(line), "%s", name));
	assert_false(kv_file_here("%s", name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_line_is_read, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(numbers_are_read, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(a_field_is_found, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(links_and_directories_are_read, tree_make, tree_remove),
		cmocka_unit_test(a_path_that_is_too_long_is_no_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
