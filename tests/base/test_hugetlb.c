/* SPDX-License-Identifier: Apache-2.0 */
/* test_hugetlb.c -- which pages an area gets, on a machine of our making.
 *
 * mem.c is compiled into this test with the kernel's calls replaced, because a pool of hugetlb pages is a setting of
 * the whole machine. A fake huge mapping is ordinary memory; what counts is what was asked for and given back. */
#include "check.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

static struct {
	uint64_t free_1g, free_2m; /* pages */
	int map_errno;             /* of a huge mmap; 0 works */
	int populate_errno;        /* of MADV_POPULATE_WRITE; 0 works */
	unsigned huge_maps, plain_maps, populated, advised;
	int last_log2;             /* page size that the last huge mmap named */
	uint64_t mapped, unmapped; /* bytes, in all */
} fake;

static void *fake_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	bool huge = flags & MAP_HUGETLB;
	fake.huge_maps += huge;
	fake.plain_maps += !huge;
	if (huge) {
		fake.last_log2 = (flags >> 26) & 63;
		if (flags & MAP_NORESERVE)
			fail_msg("a huge mapping without a reservation can give SIGBUS");
		if (fake.map_errno) {
			errno = fake.map_errno;
			return MAP_FAILED;
		}
		flags &= ~(MAP_HUGETLB | (int)(63u << 26));
		flags |= MAP_NORESERVE;
	}
	void *p = mmap(addr, len, prot, flags, fd, offset);
	if (p != MAP_FAILED)
		fake.mapped += len;
	return p;
}

static int fake_munmap(void *addr, size_t len)
{
	fake.unmapped += len;
	return munmap(addr, len);
}

static int fake_madvise(void *addr, size_t len, int advice)
{
	(void)addr, (void)len;
	if (advice == MADV_HUGEPAGE) {
		fake.advised++;
		return 0;
	}
	fake.populated++;
	errno = fake.populate_errno;
	return fake.populate_errno ? -1 : 0;
}

#define mmap    fake_mmap
#define munmap  fake_munmap
#define madvise fake_madvise
#include "../../base/mem.c"
#undef mmap
#undef munmap
#undef madvise

uint64_t kv_hugepages_free(const char *root, uint64_t page_bytes)
{
	(void)root;
	return page_bytes == PAGE_1G ? fake.free_1g : fake.free_2m;
}

static int fake_reset(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	return 0;
}

/* check_area -- map, expect this page size, unmap, and find every byte given back. */
static void check_area(uint64_t len, uint64_t page)
{
	struct kv_area area;
	assert_int_equal(kv_area_map(len, &area, NULL), 0);
	assert_int_equal(area.page_bytes, page);
	assert_int_equal(area.len_bytes, kv_align_up(len, PAGE_2M));
	kv_area_unmap(&area);
	assert_int_equal(fake.mapped, fake.unmapped);
}

static void without_a_pool_pages_are_transparent(void **state)
{
	(void)state;
	check_area(8 << 20, 4096);
	assert_int_equal(fake.huge_maps, 0);
	assert_int_equal(fake.advised, 1);
}

static void free_pages_are_used_and_touched(void **state)
{
	(void)state;
	fake.free_2m = 4;
	check_area(8 << 20, PAGE_2M);
	assert_int_equal(fake.last_log2, 21);
	assert_int_equal(fake.populated, 1);
	assert_int_equal(fake.plain_maps, 0);
}

static void too_few_free_pages_are_left_alone(void **state)
{
	(void)state;
	fake.free_2m = 3;
	check_area(8 << 20, 4096);
	assert_int_equal(fake.huge_maps, 0);
}

static void whole_gigabytes_get_gigabyte_pages(void **state)
{
	(void)state;
	fake.free_1g = 1;
	fake.free_2m = 10000;
	check_area(PAGE_1G, PAGE_1G);
	assert_int_equal(fake.last_log2, 30);
	check_area(PAGE_1G + 1, PAGE_2M);
	assert_int_equal(fake.last_log2, 21);
}

static void a_refused_reservation_falls_back(void **state)
{
	(void)state;
	fake.free_2m = 4;
	fake.map_errno = ENOMEM;
	check_area(8 << 20, 4096);
	assert_int_equal(fake.huge_maps, 1);
	assert_int_equal(fake.plain_maps, 1);
}

static void pages_that_cannot_be_touched_fall_back(void **state)
{
	(void)state;
	fake.free_2m = 4;
	fake.populate_errno = EFAULT;
	check_area(8 << 20, 4096);
	assert_int_equal(fake.plain_maps, 1);
}

static void an_old_kernel_trusts_the_reservation(void **state)
{
	(void)state;
	fake.free_2m = 4;
	fake.populate_errno = EINVAL;
	check_area(8 << 20, PAGE_2M);
}

#define FAKE_TEST(f) cmocka_unit_test_setup(f, fake_reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(without_a_pool_pages_are_transparent), FAKE_TEST(free_pages_are_used_and_touched),
		FAKE_TEST(too_few_free_pages_are_left_alone),    FAKE_TEST(whole_gigabytes_get_gigabyte_pages),
		FAKE_TEST(a_refused_reservation_falls_back),     FAKE_TEST(pages_that_cannot_be_touched_fall_back),
		FAKE_TEST(an_old_kernel_trusts_the_reservation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
