/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c -- areas on this machine. The kinds of pages depend on the machine; the invariants do not. */
#include "tests/check.h"
#include "host/host.h"

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
	assert_int_equal(area.pages.bytes_1g + area.pages.bytes_2m + area.pages.transparent + area.pages.plain,
			 6 << 20);
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

/* How much of a range is resident, by the kernel's own account. */
static bool resident_at(const uint8_t *at, uint64_t len)
{
	unsigned char vec[1024];
	bool all = mincore((void *)(uintptr_t)at, len, vec) == 0;
	for (uint64_t i = 0; all && i < len / 4096; i++)
		all = vec[i] & 1;
	return all;
}

static void memory_is_populated_and_keeps_what_is_in_it(void **state)
{
	enum { LEN = 4 << 20 };
	unsigned threads = 0;
	uint8_t *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)state;
	assert_true(p != MAP_FAILED);
	p[5000] = 7;
	int rc = kv_memory_populate(p + 4097, LEN - 8192, KV_NODE_ANY, &threads);
	if (rc == -KV_ENOTSUP) {
		munmap(p, LEN);
		print_message("Linux before 5.14 cannot populate memory that is mapped already\n");
		skip();
	}
	assert_int_equal(rc, 0);
	assert_int_equal(threads, 1);
	assert_true(resident_at(p + 4096, LEN - 4096));
	assert_int_equal(p[5000], 7);
	assert_int_equal(munmap(p + 8192, 4096), 0);
	assert_int_equal(kv_memory_populate(p, LEN, KV_NODE_ANY, NULL), -KV_ENOMEM);
	assert_int_equal(kv_memory_populate(p, 0, KV_NODE_ANY, NULL), 0);
	munmap(p, LEN);
}

static void large_memory_is_populated_by_several_threads(void **state)
{
	enum { LEN = 320 << 20 };
	struct kv_area area;
	unsigned threads = 0;
	(void)state;
	if (kv_memory_available() < 2 * (uint64_t)LEN) {
		print_message("less than 640 MiB of memory is free\n");
		skip();
	}
	assert_int_equal(kv_area_map_lazy(LEN, &area, NULL), 0);
	int rc = kv_memory_populate(area.base, LEN, KV_NODE_ANY, &threads);
	if (rc == 0) {
		assert_int_equal(threads, KV_MIN(kv_cpus_available(), 2u));
		for (uint64_t at = 0; at < LEN; at += 4 << 20)
			assert_true(resident_at((uint8_t *)area.base + at, 4 << 20));
	} else {
		assert_int_equal(rc, -KV_ENOTSUP);
	}
	kv_area_unmap(&area);
}

static void memory_of_this_process_is_looked_at(void **state)
{
	struct kv_error err = {0};
	uint8_t *p = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)state;
	assert_true(p != MAP_FAILED);
	assert_int_equal(kv_memory_mapped(p, 3 * 4096, &err), 0);
	assert_int_equal(kv_memory_mapped(&err, sizeof(err), &err), 0);
	assert_int_equal(mprotect(p + 4096, 4096, PROT_READ), 0);
	assert_int_equal(kv_memory_mapped(p, 3 * 4096, &err), -KV_EINVAL);
	check_contains(err.text, "not writable");
	assert_int_equal(munmap(p + 4096, 4096), 0);
	assert_int_equal(kv_memory_mapped(p, 3 * 4096, &err), -KV_EINVAL);
	check_contains(err.text, "4096 bytes after its start");
	assert_int_equal(kv_memory_mapped(p, 4096, &err), 0);
	munmap(p, 3 * 4096);
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
		print_message("the area lies in hugetlb pages, which VmRSS does not count\n");
		skip();
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

/* Processes of several network namespaces share it. */
static void a_boot_id_is_stable(void **state)
{
	uint8_t a[16], b[16], host[16];
	(void)state;
	kv_boot_id(a);
	kv_boot_id(b);
	kv_host_id(host);
	assert_memory_equal(a, b, 16);
	assert_memory_not_equal(a, host, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_area_is_aligned_zeroed_and_writable),
		cmocka_unit_test(one_byte_is_one_large_page),
		cmocka_unit_test(a_lazy_area_is_not_touched),
		cmocka_unit_test(nothing_is_left_around_or_after_an_area),
		cmocka_unit_test(nothing_and_too_much_are_refused),
		cmocka_unit_test(memory_is_populated_and_keeps_what_is_in_it),
		cmocka_unit_test(large_memory_is_populated_by_several_threads),
		cmocka_unit_test(memory_of_this_process_is_looked_at),
		cmocka_unit_test(machine_facts_are_plausible),
		cmocka_unit_test(touched_memory_shows_in_rss),
		cmocka_unit_test(a_host_id_is_stable),
		cmocka_unit_test(a_boot_id_is_stable),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
