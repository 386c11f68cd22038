/* SPDX-License-Identifier: Apache-2.0 */
/* test_error.c -- codes of all three ranges have names, keys and texts; sentences are cut, never overrun. */
#include "tests/check.h"

#include <errno.h>
#include <limits.h>

static void zero_is_success(void **state)
{
	(void)state;
	assert_string_equal(kv_errname(0), "OK");
	assert_string_equal(kv_errkey(0), "ok");
	assert_string_equal(kv_strerror(0), "success");
}

static void errno_codes_are_named(void **state)
{
	(void)state;
	assert_string_equal(kv_errname(-ENOMEM), "ENOMEM");
	assert_string_equal(kv_errkey(-ENOMEM), "enomem");
	assert_string_equal(kv_strerror(-ENOMEM), "Cannot allocate memory");
	assert_string_equal(kv_strerror(-EAGAIN), "Resource temporarily unavailable");
}

static void the_sign_is_ignored(void **state)
{
	(void)state;
	assert_string_equal(kv_errname(ENOMEM), "ENOMEM");
	assert_string_equal(kv_strerror(KV_EBUSY), kv_strerror(-KV_EBUSY));
}

static void fabric_codes_are_named(void **state)
{
	(void)state;
	assert_string_equal(kv_errname(-259), "FI_EAVAIL");
	assert_string_equal(kv_errkey(-265), "fi_etrunc");
	assert_string_equal(kv_strerror(-268), "a fabric queue has been overrun");
	for (int code = 256; code <= 271; code++)
		assert_null(strstr(kv_strerror(-code), "unknown"));
}

static void own_codes_are_all_distinct(void **state)
{
	(void)state;
	const char *name[KV_ETIER + 1] = {0}, *key[KV_ETIER + 1] = {0}, *text[KV_ETIER + 1] = {0};
	for (int c = KV_ETIMEOUT; c <= KV_ETIER; c++) {
		name[c] = kv_errname(-c);
		key[c] = kv_errkey(-c);
		text[c] = kv_strerror(-c);
		assert_int_equal(strncmp(name[c], "KV_E", 4), 0);
		assert_null(strstr(text[c], "unknown"));
		for (int d = KV_ETIMEOUT; d < c; d++) {
			assert_string_not_equal(name[c], name[d]);
			assert_string_not_equal(key[c], key[d]);
			assert_string_not_equal(text[c], text[d]);
		}
	}
	assert_string_equal(kv_errname(-KV_ETIMEOUT), "KV_ETIMEOUT");
	assert_string_equal(kv_errkey(-KV_ENOTFOUND), "not_found");
}

static void unknown_codes_still_tell_their_range(void **state)
{
	(void)state;
	assert_string_equal(kv_errname(-254), "ERRNO_254");
	assert_string_equal(kv_errname(-300), "FI_300");
	assert_string_equal(kv_errname(-1500), "KV_1500");
	assert_string_equal(kv_errkey(-300), "fi_300");
	assert_string_equal(kv_strerror(-300), "unknown fabric error 300");
	assert_string_equal(kv_strerror(-5000), "unknown error 5000");
	assert_string_equal(kv_errname(INT_MIN), "KV_2147483648");
}

static void fail_sets_code_and_sentence(void **state)
{
	(void)state;
	struct kv_error err = {0};
	assert_int_equal(kv_fail(&err, -KV_EBUSY, "queue of %d is full", 8), -KV_EBUSY);
	assert_int_equal(err.code, -KV_EBUSY);
	assert_string_equal(err.text, "queue of 8 is full");
	assert_int_equal(kv_fail(NULL, -KV_EBUSY, "nobody listens"), -KV_EBUSY);
}

static void fail_never_returns_success(void **state)
{
	(void)state;
	struct kv_error err = {0};
	assert_int_equal(kv_fail(&err, 0, "x"), -KV_EINTERNAL);
	assert_int_equal(kv_fail(&err, 259, "x"), -259);
	assert_int_equal(err.code, -259);
}

static void fail_keeps_errno(void **state)
{
	(void)state;
	struct kv_error err = {0};
	errno = EPIPE;
	kv_fail(&err, -KV_EBUSY, "%s", "x");
	kv_fail_more(&err, "%s", "y");
	assert_int_equal(errno, EPIPE);
}

static void a_long_sentence_is_cut(void **state)
{
	(void)state;
	struct kv_error err = {0};
	char text[2000];
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	kv_fail(&err, -KV_EINVAL, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	kv_fail_more(&err, "prefix");
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_int_equal(strncmp(err.text, "prefix: aaa", 11), 0);
	kv_fail_more(&err, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void fail_may_quote_its_own_text(void **state)
{
	(void)state;
	struct kv_error err = {0};
	kv_fail(&err, -KV_EPEERDOWN, "connection refused");
	kv_fail(&err, -KV_EPEERDOWN, "server a: %s", err.text);
	assert_string_equal(err.text, "server a: connection refused");
}

static void fail_more_prefixes(void **state)
{
	(void)state;
	struct kv_error err = {0};
	kv_fail(&err, -KV_EPEERDOWN, "refused");
	assert_int_equal(kv_fail_more(&err, "connect to %s", "h:1"), -KV_EPEERDOWN);
	assert_string_equal(err.text, "connect to h:1: refused");
	assert_int_equal(kv_fail_more(NULL, "x"), -KV_EINTERNAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zero_is_success),
		cmocka_unit_test(errno_codes_are_named),
		cmocka_unit_test(the_sign_is_ignored),
		cmocka_unit_test(fabric_codes_are_named),
		cmocka_unit_test(own_codes_are_all_distinct),
		cmocka_unit_test(unknown_codes_still_tell_their_range),
		cmocka_unit_test(fail_sets_code_and_sentence),
		cmocka_unit_test(fail_never_returns_success),
		cmocka_unit_test(fail_keeps_errno),
		cmocka_unit_test(a_long_sentence_is_cut),
		cmocka_unit_test(fail_may_quote_its_own_text),
		cmocka_unit_test(fail_more_prefixes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
