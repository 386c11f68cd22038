/* SPDX-License-Identifier: Apache-2.0 */
/* test_mem.c -- areas on this machine. Which pages they have depends on it; what must hold does not. */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const uint64_t page_2m = (uint64_t)2 << 20;

static void an_area_is_aligned_zeroed_and_writable(void **state)
{
	(void)state;
	struct kv_area area;
	struct kv_error err = {0};
	assert_int_equal(kv_area_map(5 << 20, &area, &err), 0);
	assert_int_equal(area.len_bytes, 6 << 20);
	assert_int_equal((uintptr_t)area.base % page_2m, 0);
	assert_true(area.page_bytes == 4096 || area.page_bytes == page_2m);
	uint8_t *p = area.base;
	for (uint64_t i = 0; i < area.len_bytes; i++)
		assert_int_equal(p[i], 0);
	memset(p, 0xff, area.len_bytes);
	kv_area_unmap(&area);
	assert_null(area.base);
	kv_area_unmap(&area);
}

static void one_byte_is_one_large_page(void **state)
{
	(void)state;
	struct kv_area area;
	assert_int_equal(kv_area_map(1, &area, NULL), 0);
	assert_int_equal(area.len_bytes, page_2m);
	kv_area_unmap(&area);
}

static void a_lazy_area_is_not_touched(void **state)
{
	enum { LAZY = 256 << 20 };
	struct kv_area area;
	uint64_t before = kv_memory_rss();
	(void)state;
	assert_int_equal(kv_area_map_lazy(LAZY, &area, NULL), 0);
	assert_int_equal(area.len_bytes, LAZY);
	assert_int_equal((uintptr_t)area.base % page_2m, 0);
	assert_int_equal(area.page_bytes, 4096);
	assert_true(kv_memory_rss() < before + LAZY / 2);
	assert_int_equal(((uint8_t *)area.base)[LAZY - 1], 0);
	kv_area_unmap(&area);
	assert_int_equal(kv_area_map_lazy(0, &area, NULL), -KV_EINVAL);
}

static bool mapped(void *at)
{
	unsigned char vec;
	return mincore(at, 4096, &vec) == 0 || errno != ENOMEM;
}

static void nothing_is_left_around_or_after_an_area(void **state)
{
	(void)state;
	enum { AREAS = 8 };
	struct kv_area area[AREAS];
	void *base[AREAS];
	for (int i = 0; i < AREAS; i++) {
		assert_int_equal(kv_area_map(page_2m, &area[i], NULL), 0);
		base[i] = area[i].base;
		memset(area[i].base, i, area[i].len_bytes);
	}
	for (int i = 0; i < AREAS; i++) {
		assert_int_equal(*(uint8_t *)area[i].base, i);
		assert_int_equal(((uint8_t *)area[i].base)[page_2m - 1], i);
	}
	for (int i = 0; i < AREAS; i++) {
		kv_area_unmap(&area[i]);
		assert_false(mapped(base[i]));
		assert_false(mapped((uint8_t *)base[i] + page_2m - 4096));
	}
}

static void nothing_and_too_much_are_refused(void **state)
{
	(void)state;
	struct kv_area area = {.base = &area, .len_bytes = 7};
	struct kv_error err = {0};
	assert_int_equal(kv_area_map(0, &area, &err), -KV_EINVAL);
	assert_int_equal(kv_area_map(UINT64_MAX, &area, &err), -KV_ENOMEM);
	assert_int_equal(kv_area_map((uint64_t)1 << 61, &area, &err), -KV_ENOMEM);
	check_contains(err.text, "2 EiB");
	assert_int_equal(area.len_bytes, 7);
}

static void machine_facts_are_plausible(void **state)
{
	(void)state;
	uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	assert_in_range(kv_memory_available(), 1, total);
	assert_in_range(kv_cpus_available(), 1, sysconf(_SC_NPROCESSORS_CONF));
	uint64_t rss = kv_memory_rss(), peak = kv_memory_rss_peak();
	assert_true(rss > 0);
	assert_true(peak > 0);
}

static void touched_memory_shows_in_rss(void **state)
{
	(void)state;
	enum { LEN = 64 << 20 };
	struct kv_area area;
	assert_int_equal(kv_area_map(LEN, &area, NULL), 0);
	if (area.page_bytes != 4096) {
		kv_area_unmap(&area);
		skip(); /* hugetlb pages are not counted in VmRSS */
	}
	uint64_t before = kv_memory_rss();
	memset(area.base, 1, LEN);
	assert_true(kv_memory_rss() >= before + LEN / 2);
	assert_true(kv_memory_rss_peak() >= before + LEN / 2);
	kv_area_unmap(&area);
	assert_true(kv_memory_rss() < before + LEN / 2);
}

static void a_host_id_is_stable(void **state)
{
	(void)state;
	uint8_t a[16], b[16], zero[16] = {0};
	kv_host_id(a);
	kv_host_id(b);
	assert_memory_equal(a, b, 16);
	assert_memory_not_equal(a, zero, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_area_is_aligned_zeroed_and_writable),
		cmocka_unit_test(one_byte_is_one_large_page),
		cmocka_unit_test(a_lazy_area_is_not_touched),
		cmocka_unit_test(nothing_is_left_around_or_after_an_area),
		cmocka_unit_test(nothing_and_too_much_are_refused),
		cmocka_unit_test(machine_facts_are_plausible),
		cmocka_unit_test(touched_memory_shows_in_rss),
		cmocka_unit_test(a_host_id_is_stable),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
