/* SPDX-License-Identifier: Apache-2.0 */
/* test_tenants.c -- the table of tenants: what a file says, and what it may not say. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvserver/tenant/tenants.h"
#include "tests/check.h"

static const char good[] =
	"{\"tenants\": [{\"name\": \"a\", \"identities\": [\"ia\", \"CN=host a\"], \"memory_share\": \"1MiB\","
	" \"memory_cap\": 4194304, \"requests_max\": 8,"
	" \"namespaces\": {\"a\": \"rwdpc\", \"a-*\": \"rw\", \"public\": \"r\"}},"
	"{\"name\": \"b\", \"identities\": [\"ib\"],"
	" \"namespaces\": {\"\": \"rw\", \"public\": \"rw\", \"a-b*\": \"rw\"}},"
	"{\"name\": \"ops\", \"identities\": [\"ops\"], \"namespaces\": {\"*\": \"rwdpc\"}}]}";

static struct tenants *table(const char *text)
{
	struct tenants *t = NULL;
	struct kv_error err = {0};
	if (tenants_parse(text, strlen(text), "t.json", &t, &err))
		fail_msg("%s", err.text);
	return t;
}

static void a_file_gives_identities_rights_and_limits(void **state)
{
	struct tenants *t = table(good);
	const struct tenant_row *a = tenants_row(t, 0), *b = tenants_row(t, 1), *ops = tenants_row(t, 2);
	(void)state;
	assert_null(tenants_row(t, 3));
	assert_ptr_equal(tenants_find(t, "ia\0"), a);
	assert_ptr_equal(tenants_find(t, "CN=host a\0DNS:other\0"), a);
	assert_ptr_equal(tenants_find(t, "DNS:other\0ib\0"), b);
	assert_null(tenants_find(t, ""));
	assert_null(tenants_find(t, "ic\0"));
	assert_null(tenants_find(t, "ia\0ib\0")); /* two tenants */
	assert_int_equal(tenants_rights(t, a, "a"), TENANT_RIGHTS);
	assert_int_equal(tenants_rights(t, a, "a-1"), TENANT_READ | TENANT_WRITE);
	assert_int_equal(tenants_rights(t, a, "public"), TENANT_READ);
	assert_int_equal(tenants_rights(t, a, "ab"), 0);
	assert_int_equal(tenants_rights(t, a, ""), 0);
	assert_int_equal(tenants_rights(t, b, "a"), 0);
	assert_int_equal(tenants_rights(t, b, ""), TENANT_READ | TENANT_WRITE);
	assert_int_equal(tenants_rights(t, ops, "anything"), TENANT_RIGHTS);
	assert_true(ops->reads_all && !a->reads_all);
	assert_int_equal(a->limits.memory_share, 1 << 20);
	assert_int_equal(a->limits.memory_cap, 4 << 20);
	assert_int_equal(a->limits.requests_max, 8);
	assert_true(b->limits.memory_cap == UINT64_MAX && b->limits.memory_share == 0);
	tenants_unref(&t);
}

static void the_best_rule_with_the_right_to_write_names_the_owner(void **state)
{
	struct tenants *t = table(good);
	(void)state;
	assert_string_equal(tenants_owner(t, "a")->name, "a");
	assert_string_equal(tenants_owner(t, "a-1")->name, "a");
	assert_string_equal(tenants_owner(t, "a-b1")->name, "b");
	assert_string_equal(tenants_owner(t, "public")->name, "b"); /* a only reads it */
	assert_string_equal(tenants_owner(t, "x")->name, "ops");
	tenants_unref(&t);
}

#define ONE(fields) "{\"tenants\": [{\"name\": \"a\", \"identities\": [\"i\"], \"namespaces\": {}" fields "}]}"

static void bad_files_say_where_they_are_wrong(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"", "t.json, line 1, column 0"},
		{"{\"tenants\": [\n{]}", "t.json, line 2"},
		{"[]", "\"tenants\": a list of 1 to 256"},
		{"{\"tenants\": []}", "a list of 1 to 256"},
		{"{\"tenants\": [{}], \"x\": 1}", "one field"},
		{"{\"tenants\": [5]}", "tenants[0].name"},
		{"{\"tenants\": [{\"name\": \"\"}]}", "tenants[0].name"},
		{"{\"tenants\": [{\"name\": \"a\"}]}", "tenants[0].identities"},
		{"{\"tenants\": [{\"name\": \"a\", \"identities\": [\"a#1\"]}]}", "are both the identity a"},
		{"{\"tenants\": [{\"name\": \"a\", \"identities\": [\"a\"]}]}", "tenants[0].namespaces"},
		{"{\"tenants\": [{\"name\": \"a\", \"identities\": [\"a\"], \"namespaces\": {\"n\": \"w\"}}]}",
		 "with an r"},
		{"{\"tenants\": [{\"name\": \"a\", \"identities\": [\"a\"], \"namespaces\": {\"n\": \"rr\"}}]}",
		 "at most once"},
		{"{\"tenants\": [{\"name\": \"a\", \"identities\": [\"a\"], \"namespaces\": {\"n\": \"rx\"}}]}",
		 "letters"},
		{"{\"tenants\": [{\"name\": \"a\", \"identities\": [\"a\"], \"namespaces\": {\"n\": 1}}]}", "letters"},
		{ONE(", \"colour\": 1"), "unknown field \"colour\""},
		{ONE(", \"memory_cap\": -1"), "tenants[0].memory_cap"},
		{ONE(", \"memory_cap\": \"much\""), "tenants[0].memory_cap"},
		{ONE(", \"requests_max\": 0"), "tenants[0].requests_max"},
		{ONE(", \"memory_cap\": 1, \"memory_share\": 2"), "larger than memory_cap"},
		{ONE(", \"name\": \"b\""), "duplicate"},
		{"{\"tenants\": [{\"name\": \"a\", \"identities\": [\"i\"], \"namespaces\": {}},"
		 "{\"name\": \"a\", \"identities\": [\"j\"], \"namespaces\": {}}]}",
		 "tenants[1].name: an earlier tenant"},
		{"{\"tenants\": [{\"name\": \"a\", \"identities\": [\"i\"], \"namespaces\": {}},"
		 "{\"name\": \"b\", \"identities\": [\"i\"], \"namespaces\": {}}]}",
		 "\"i\" is listed twice"},
	};
	(void)state;
	for (size_t i = 0; i < KV_COUNT(bad); i++) {
		struct tenants *t = (void *)1;
		struct kv_error err = {0};
		assert_int_equal(tenants_parse(bad[i].text, strlen(bad[i].text), "t.json", &t, &err), -KV_EINVAL);
		if (!strstr(err.text, bad[i].says) || strncmp(err.text, "t.json", 6) != 0)
			fail_msg("text %zu: expected \"%s\" in: %s", i, bad[i].says, err.text);
		assert_ptr_equal(t, (void *)1);
	}
}

static void limits_must_fit_the_server(void **state)
{
	struct tenants *t = table(good);
	struct kv_error err;
	(void)state;
	assert_int_equal(tenants_fit(t, 1 << 20, 8, &err), 0);
	assert_int_equal(tenants_fit(t, (1 << 20) - 1, 8, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "--memory-mb"));
	assert_int_equal(tenants_fit(t, 1 << 20, 9, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "requests_max"));
	tenants_unref(&t);
}

static void a_file_that_others_may_write_is_refused(void **state)
{
	char path[] = "/tmp/tenants-XXXXXX";
	struct tenants *t = NULL;
	struct kv_error err;
	int fd = mkstemp(path);
	(void)state;
	assert_true(fd >= 0 && write(fd, good, sizeof(good) - 1) == (ssize_t)sizeof(good) - 1);
	close(fd);
	assert_int_equal(tenants_load(path, &t, &err), 0);
	tenants_unref(&t);
	assert_int_equal(chmod(path, 0622), 0);
	assert_int_equal(tenants_load(path, &t, &err), -KV_EDENIED);
	assert_non_null(strstr(err.text, "chmod go-w"));
	unlink(path);
	assert_int_equal(tenants_load(path, &t, &err), -ENOENT);
	assert_int_equal(tenants_load("/dev/null", &t, &err), -KV_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_gives_identities_rights_and_limits),
		cmocka_unit_test(the_best_rule_with_the_right_to_write_names_the_owner),
		cmocka_unit_test(bad_files_say_where_they_are_wrong),
		cmocka_unit_test(limits_must_fit_the_server),
		cmocka_unit_test(a_file_that_others_may_write_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
