/* SPDX-License-Identifier: Apache-2.0 */
/* test_bytes.c -- byte order on the wire, alignment, and the comparison of secrets. */
#include "tests/check.h"

static void stores_are_little_endian_at_any_address(void **state)
{
	(void)state;
	uint8_t b[16] = {0};
	kv_put16(b + 1, 0x0102);
	kv_put32(b + 3, 0x03040506);
	kv_put64(b + 7, 0x0708090a0b0c0d0eu);
	const uint8_t expect[16] = {0, 2, 1, 6, 5, 4, 3, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 9, 8, 7, 0};
	assert_memory_equal(b, expect, sizeof(b));
	assert_int_equal(kv_get16(b + 1), 0x0102);
	assert_int_equal(kv_get32(b + 3), 0x03040506);
	assert_true(kv_get64(b + 7) == 0x0708090a0b0c0d0eu);
}

static void alignment_rounds_both_ways(void **state)
{
	(void)state;
	assert_int_equal(kv_align_up(0, 4096), 0);
	assert_int_equal(kv_align_up(1, 4096), 4096);
	assert_int_equal(kv_align_up(4096, 4096), 4096);
	assert_int_equal(kv_align_down(4097, 4096), 4096);
	assert_int_equal(kv_align_down(4095, 4096), 0);
}

static void secrets_differ_in_any_bit(void **state)
{
	(void)state;
	uint8_t a[16], b[16];
	memset(a, 0x5a, sizeof(a));
	memcpy(b, a, sizeof(b));
	assert_true(kv_equal_secret(a, b, sizeof(a)));
	for (unsigned bit = 0; bit < 128; bit++) {
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(kv_equal_secret(a, b, sizeof(a)));
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	b[15] ^= 1;
	assert_true(kv_equal_secret(a, b, 15));
	assert_true(kv_equal_secret(a, b, 0));
}

static int calls;

static int counted(int v)
{
	calls++;
	return v;
}

/* A call in KV_MIN once ran twice: kv-client asked each server for its counters twice and printed both answers. */
static void the_lesser_and_the_greater_ask_once(void **state)
{
	(void)state;
	calls = 0;
	assert_int_equal(KV_MIN(counted(2), counted(7)), 2);
	assert_int_equal(calls, 2);
	assert_int_equal(KV_MAX(counted(2), counted(7)), 7);
	assert_int_equal(KV_MIN(counted(7), counted(2)), 2);
	assert_int_equal(KV_MAX(counted(7), counted(2)), 7);
	assert_int_equal(calls, 8);
	assert_int_equal(KV_MIN(KV_MAX(counted(1), counted(3)), KV_MIN(counted(9), counted(5))), 3);
	assert_int_equal(calls, 12);
	assert_true(KV_MIN((uint64_t)1 << 40, UINT64_MAX) == (uint64_t)1 << 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stores_are_little_endian_at_any_address),
		cmocka_unit_test(alignment_rounds_both_ways),
		cmocka_unit_test(secrets_differ_in_any_bit),
		cmocka_unit_test(the_lesser_and_the_greater_ask_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
