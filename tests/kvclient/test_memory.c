/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c -- memory of the caller that is registered: any address, and what is refused. */
#include "calls.h"

#include <sys/mman.h>

static void overlapping_registrations_are_refused(void **state)
{
	uint8_t *buf = memory(4 * MIB);
	struct kvc_mem *mem, *other;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(shared, buf, 2 * MIB, &mem, &err), 0);
	assert_int_equal(kvc_register(shared, buf + 2 * MIB - 1, MIB, &other, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "overlaps"));
	assert_int_equal(kvc_register(shared, buf + 2 * MIB, MIB, &other, &err), 0);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	assert_int_equal(kvc_unregister(shared, &other), 0);
	munmap(buf, 4 * MIB);
}

/* Not at a page, not of whole pages. */
static void memory_at_any_address_is_registered(void **state)
{
	size_t len = MIB + 77;
	uint8_t *buf = memory(4 * MIB), *at = buf + 4097;
	struct kvc_mem *mem;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(shared, at, len, &mem, &err), 0);
	test_fill(at, len, 5);
	assert_int_equal(kvc_put(shared, KEY(0), at, len, NULL), 0);
	memset(buf, 0xEE, 4 * MIB);
	assert_int_equal(kvc_get(shared, KEY(0), at, len, NULL), len);
	assert_true(test_same(at, len, 5));
	assert_int_equal(at[-1], 0xEE);
	assert_int_equal(at[len], 0xEE);
	assert_int_equal(kvc_delete(shared, KEY(0), NULL), 0);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(buf, 4 * MIB);
}

static void memory_that_is_not_there_or_not_writable_is_refused(void **state)
{
	uint8_t *buf = memory(4 * MIB);
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(mprotect(buf + 2 * MIB, MIB, PROT_READ), 0);
	assert_int_equal(kvc_register(shared, buf, 4 * MIB, &mem, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "is not writable"));
	assert_int_equal(munmap(buf + 2 * MIB, MIB), 0);
	assert_int_equal(kvc_register(shared, buf, 4 * MIB, &mem, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "is not all mapped"));
	assert_non_null(strstr(err.text, "2097152 bytes behind its start"));
	assert_null(mem);
	/* What is left of it is good. */
	assert_int_equal(kvc_register(shared, buf, 2 * MIB, &mem, &err), 0);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(buf, 4 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlapping_registrations_are_refused),
		cmocka_unit_test(memory_at_any_address_is_registered),
		cmocka_unit_test(memory_that_is_not_there_or_not_writable_is_refused),
	};
	return cmocka_run_group_tests(tests, calls_up, calls_down);
}
