/* SPDX-License-Identifier: Apache-2.0 */
/* test_fold.c -- keys that are longer than ours may be, folded. What a key folds to never changes: values that other
 * versions stored are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"

static const char million[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"; /* FIPS 180-2 */

static void a_short_key_stays_what_it_is(void **state)
{
	unsigned char room[KVC_KEY_MAX], key[KVC_KEY_MAX] = {0};
	struct kvc_key out;
	(void)state;
	for (size_t len = 1; len <= KVC_KEY_MAX; len++) {
		assert_int_equal(kvc_key_fold(key, len, room, &out), 0);
		assert_ptr_equal(out.data, key);
		assert_int_equal(out.len, len);
	}
}

static void a_long_key_is_its_beginning_and_a_digest_of_all_of_it(void **state)
{
	enum { LEN = 1000000 };
	unsigned char room[KVC_KEY_MAX], *key = malloc(LEN);
	struct kvc_key out;
	(void)state;
	memset(key, 'a', LEN);
	assert_int_equal(kvc_key_fold(key, LEN, room, &out), 0);
	assert_ptr_equal(out.data, room);
	assert_int_equal(out.len, KVC_KEY_MAX);
	assert_memory_equal(room, key, 63);
	assert_int_equal(room[63], '#');
	assert_memory_equal(room + 64, million, 64);
	free(key);
}

static void keys_that_differ_anywhere_differ_folded(void **state)
{
	enum { LEN = KVC_KEY_MAX + 1 };
	unsigned char first[KVC_KEY_MAX], other[KVC_KEY_MAX], key[LEN + 1] = {0};
	struct kvc_key a, b;
	(void)state;
	assert_int_equal(kvc_key_fold(key, LEN, first, &a), 0);
	for (size_t i = 0; i < LEN; i++) {
		key[i] = 1;
		assert_int_equal(kvc_key_fold(key, LEN, other, &b), 0);
		assert_memory_not_equal(a.data, b.data, KVC_KEY_MAX);
		key[i] = 0;
	}
	assert_int_equal(kvc_key_fold(key, LEN + 1, other, &b), 0);
	assert_memory_not_equal(a.data, b.data, KVC_KEY_MAX);
}

static void no_key_is_an_error(void **state)
{
	unsigned char room[KVC_KEY_MAX], key[KVC_KEY_MAX + 1] = {0};
	struct kvc_key out = {"untouched", 9};
	(void)state;
	assert_int_equal(kvc_key_fold(NULL, 5, room, &out), -KV_EINVAL);
	assert_int_equal(kvc_key_fold("k", 0, room, &out), -KV_EINVAL);
	assert_int_equal(kvc_key_fold("k", 1, room, NULL), -KV_EINVAL);
	assert_int_equal(kvc_key_fold(key, sizeof(key), NULL, &out), -KV_EINVAL);
	assert_string_equal(out.data, "untouched");
	assert_int_equal(kvc_key_fold(key, KVC_KEY_MAX, NULL, &out), 0); /* which needs none */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_short_key_stays_what_it_is),
		cmocka_unit_test(a_long_key_is_its_beginning_and_a_digest_of_all_of_it),
		cmocka_unit_test(keys_that_differ_anywhere_differ_folded),
		cmocka_unit_test(no_key_is_an_error),
	};
	return cmocka_run_group_tests_name("kvclient/fold", tests, NULL, NULL);
}
