/* SPDX-License-Identifier: Apache-2.0 */
/* test_get.c -- GET from a real kv-server: destinations of every size, parts of a value, and one value in many slices.
 */
#include "calls.h"

#include <sys/mman.h>

static const size_t sizes[] = LENGTHS;

static void a_larger_destination_is_fine_and_a_smaller_one_is_too_big(void **state)
{
	uint8_t *buf = memory(18 * MIB);
	(void)state;
	need_server();
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		size_t len = sizes[i];
		test_fill(buf, len, i);
		assert_int_equal(kvc_put(shared, KEY(i), buf, len, NULL), 0);
		memset(buf, 0, len);
		assert_int_equal(kvc_get(shared, KEY(i), buf, 18 * MIB, NULL), len);
		assert_true(test_same(buf, len, i));
		if (len > 1)
			assert_int_equal(kvc_get(shared, KEY(i), buf, len - 1, NULL), -KV_ETOOBIG);
		assert_int_equal(kvc_delete(shared, KEY(i), NULL), 0);
	}
	munmap(buf, 18 * MIB);
}

static void a_miss_is_not_found(void **state)
{
	char b[8];
	(void)state;
	need_server();
	assert_int_equal(kvc_get(shared, KEY(0), b, 8, NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_delete(shared, KEY(0), NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_touch(shared, KEY(0), NULL), -KV_ENOTFOUND);
}

static void parts_of_a_value_can_be_read(void **state)
{
	size_t len = 17 * MIB + 5;
	uint8_t *put = memory(len), *got = memory(len);
	static const struct {
		uint64_t offset, length;
	} parts[] = {{0, 1},
		     {1, 100},
		     {4095, 8193},
		     {0, 16 << 20},
		     {100, (16 << 20) + 50},
		     {17 << 20, 0},
		     {(17 << 20) + 4, 1},
		     {(17 << 20) + 4, 100}};
	(void)state;
	need_server();
	test_fill(put, len, 3);
	assert_int_equal(kvc_put(shared, KEY(0), put, len, NULL), 0);
	for (unsigned i = 0; i < KV_COUNT(parts); i++) {
		struct kvc_call call = {.size = sizeof(call), .offset = parts[i].offset, .length = parts[i].length};
		uint64_t there = len - parts[i].offset, want = parts[i].length ? KV_MIN(parts[i].length, there) : there;
		assert_int_equal(kvc_get(shared, KEY(0), got, len, &call), want);
		assert_memory_equal(got, put + parts[i].offset, want);
	}
	assert_int_equal(kvc_get(shared, KEY(0), got, len,
				 &(struct kvc_call){.size = sizeof(struct kvc_call), .offset = len + 1}),
			 -KV_EINVAL);
	assert_int_equal(kvc_delete(shared, KEY(0), NULL), 0);
	munmap(put, len);
	munmap(got, len);
}

/* ---- slices: one value into many layers ---- */

static void slices_check(const uint8_t *at, const uint8_t *value, uint64_t len, uint64_t slice, uint64_t stride)
{
	for (uint64_t pos = 0; pos < len; pos += slice) {
		uint64_t n = KV_MIN(slice, len - pos);
		const uint8_t *s = at + pos / slice * stride;
		assert_memory_equal(s, value + pos, n);
		/* The gap is untouched. */
		for (uint64_t i = n; i < stride && pos + n < len; i++)
			assert_int_equal(s[i], 0xEE);
	}
}

static void slices_round(bool registered, const char *name)
{
	static const struct {
		uint64_t len, slice, stride;
	} cases[] = {{1000, 100, 150},        {65536, 4096, 8192},           {65536 + 100, 4096, 4096},
		     {MIB + 1, 65536, 65537}, {18 * MIB + 3, MIB, MIB + 64}, {40, 7, 9}};
	uint8_t *value = memory(20 * MIB), *buf = memory(40 * MIB);
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	if (registered)
		assert_int_equal(kvc_register(shared, buf, 40 * MIB, &mem, &err), 0);
	for (unsigned i = 0; i < KV_COUNT(cases); i++) {
		char text[64];
		struct kvc_item item = {.key = key_of(text, sizeof(text), name, i),
					.data = buf,
					.len = cases[i].len,
					.slice = cases[i].slice,
					.stride = cases[i].stride};
		test_fill(value, cases[i].len, i);
		memset(buf, 0xEE, 40 * MIB);
		assert_int_equal(kvc_put(shared, item.key, value, cases[i].len, NULL), 0);
		assert_int_equal(kvc_get_batch(shared, &item, 1, NULL), 0);
		assert_int_equal(item.result, cases[i].len);
		slices_check(buf, value, cases[i].len, cases[i].slice, cases[i].stride);
		assert_int_equal(kvc_delete(shared, item.key, NULL), 0);
	}
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(value, 20 * MIB);
	munmap(buf, 40 * MIB);
}

static void a_value_goes_to_slices_of_registered_memory(void **state)
{
	(void)state;
	need_server();
	slices_round(true, __func__);
}

static void a_value_goes_to_slices_of_plain_memory(void **state)
{
	(void)state;
	need_server();
	slices_round(false, __func__);
}

static void slices_that_overlap_are_refused(void **state)
{
	uint8_t buf[100];
	struct kvc_item item = {.key = KEY(0), .data = buf, .len = 100, .slice = 10, .stride = 9};
	(void)state;
	need_server();
	assert_int_equal(kvc_get_batch(shared, &item, 1, NULL), -KV_EINVAL);
	assert_int_equal(item.result, -KV_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_larger_destination_is_fine_and_a_smaller_one_is_too_big),
		cmocka_unit_test(a_miss_is_not_found),
		cmocka_unit_test(parts_of_a_value_can_be_read),
		cmocka_unit_test(a_value_goes_to_slices_of_registered_memory),
		cmocka_unit_test(a_value_goes_to_slices_of_plain_memory),
		cmocka_unit_test(slices_that_overlap_are_refused),
	};
	return test_both_ways(tests, calls_up, calls_down);
}
