/* SPDX-License-Identifier: Apache-2.0 */
/* test_hugetlb.c -- which pages an area gets, on a simulated machine.
 *
 * memory.c is compiled into this test with the kernel's calls replaced, because a pool of hugetlb pages is a setting of
 * the whole machine. A fake huge mapping is ordinary memory; the test checks which pages were asked for and given back.
 * tests/verbs/memory.sh checks the same with a real kernel. */
#include "tests/check.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#define TWO  ((uint64_t)2 << 20)
#define GIGA ((uint64_t)1 << 30)

static struct {
	uint64_t free_1g, free_2m;   /* pages; taken by a mapping */
	uint64_t near_1g;            /* of the 1 GiB ones, on node 1 */
	uint64_t group_1g, group_2m; /* bytes that the cgroup allows */
	unsigned nodes;
	int map_errno_1g, map_errno_2m;           /* of a huge mmap; 0 works */
	int populate_errno_1g, populate_errno_2m; /* of MADV_POPULATE_WRITE; 0 works */
	int populated_after;                      /* MAP_POPULATE: pages that are there, in percent */
	int steals;                               /* so many fixed mappings find the place taken */
	int bind_error;
	unsigned huge_maps, plain_maps, populated, advised, bound;
	uint64_t mapped, unmapped; /* bytes, in all */
	uint8_t *huge_base;        /* of the last huge mapping */
	uint64_t huge_page, huge_len;
} fake;

static uint64_t *pool_of(uint64_t page)
{
	return page == GIGA ? &fake.free_1g : &fake.free_2m;
}

static void *fake_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	bool huge = flags & MAP_HUGETLB;
	uint64_t page = (uint64_t)1 << ((flags >> 26) & 63);
	if ((flags & MAP_FIXED_NOREPLACE) && fake.steals > 0) {
		fake.steals--;
		errno = EEXIST;
		return MAP_FAILED;
	}
	fake.huge_maps += huge;
	fake.plain_maps += !huge && prot != PROT_NONE;
	if (huge) {
		int error = page == GIGA ? fake.map_errno_1g : fake.map_errno_2m;
		if (flags & MAP_NORESERVE)
			fail_msg("a huge mapping without a reservation can give SIGBUS");
		assert_int_equal((uintptr_t)addr % page, 0);
		assert_int_equal(len % page, 0);
		if (error || *pool_of(page) < len / page) {
			errno = error ? error : ENOMEM;
			return MAP_FAILED;
		}
		flags &= ~(MAP_HUGETLB | MAP_POPULATE | (int)(63u << 26));
		flags |= MAP_NORESERVE;
	}
	void *p = mmap(addr, len, prot, flags, fd, offset);
	if (p == MAP_FAILED)
		return p;
	fake.mapped += len;
	if (huge) {
		fake.huge_base = p;
		fake.huge_len = len;
		fake.huge_page = page;
		*pool_of(page) -= len / page;
	}
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
	__atomic_add_fetch(&fake.populated, 1, __ATOMIC_RELAXED);
	errno = fake.huge_page == GIGA ? fake.populate_errno_1g : fake.populate_errno_2m;
	return errno ? -1 : 0;
}

static int fake_mincore(void *addr, size_t len, unsigned char *vec)
{
	(void)addr;
	memset(vec, 1, len / 4096);
	if (fake.populated_after < 100)
		vec[len / 4096 - 1] = 0;
	return 0;
}

#define mmap    fake_mmap
#define munmap  fake_munmap
#define madvise fake_madvise
#define mincore fake_mincore
#include "../../host/memory.c"
#include "../../host/pages.c"
#include "host/host.h"
#undef mmap
#undef munmap
#undef madvise
#undef mincore

uint64_t kv_hugepages_free(const char *root, uint64_t page_bytes)
{
	(void)root;
	return *pool_of(page_bytes);
}

uint64_t kv_hugepages_free_on(const char *root, int node, uint64_t page_bytes)
{
	(void)root;
	return node == 1 && page_bytes == GIGA ? fake.near_1g : 0;
}

uint64_t kv_cgroup_hugetlb_room(const char *root, uint64_t page_bytes)
{
	(void)root;
	return page_bytes == GIGA ? fake.group_1g : fake.group_2m;
}

bool kv_hugepages_transparent(const char *root)
{
	(void)root;
	return true;
}

unsigned kv_cpus_available(void)
{
	return 4;
}

int kv_numa_bind_thread(const char *root, int node, struct kv_cpus *out_before)
{
	(void)root, (void)out_before;
	assert_int_equal(node, 1);
	return 0;
}

int kv_numa_prefer(int node, struct kv_numa_saved *out)
{
	(void)node, (void)out;
	return 0;
}

void kv_numa_restore(const struct kv_numa_saved *saved)
{
	(void)saved;
}

unsigned kv_numa_nodes(const char *root)
{
	(void)root;
	return fake.nodes;
}

int kv_numa_prefer_memory(void *base, uint64_t len, int node)
{
	(void)base, (void)len;
	assert_int_equal(node, 1);
	fake.bound++;
	return fake.bind_error;
}

static int fake_reset(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.group_1g = fake.group_2m = UINT64_MAX;
	fake.populated_after = 100;
	fake.nodes = 1;
	return 0;
}

/* check_area -- map an area, expect these bytes in these pages, unmap it, and expect every byte to be given back. */
static void check_area(uint64_t len, int node, uint64_t bytes_1g, uint64_t bytes_2m, uint64_t page)
{
	struct kv_area area;
	assert_int_equal(kv_area_map_on(len, node, &area, NULL), 0);
	assert_int_equal(area.len_bytes, kv_align_up(len, TWO));
	assert_int_equal(area.pages.bytes_1g, bytes_1g);
	assert_int_equal(area.pages.bytes_2m, bytes_2m);
	assert_int_equal(area.pages.transparent, area.len_bytes - bytes_1g - bytes_2m);
	assert_int_equal(area.page_bytes, page);
	assert_int_equal((uintptr_t)area.base % (bytes_1g ? GIGA : TWO), 0);
	kv_area_unmap(&area);
	assert_int_equal(fake.mapped, fake.unmapped);
}

static void without_a_pool_pages_are_transparent(void **state)
{
	(void)state;
	check_area(8 << 20, KV_NODE_ANY, 0, 0, 4096);
	assert_int_equal(fake.huge_maps, 0);
	assert_int_equal(fake.advised, 1);
}

static void free_pages_are_used_and_touched(void **state)
{
	(void)state;
	fake.free_2m = 4;
	check_area(8 << 20, KV_NODE_ANY, 0, 8 << 20, TWO);
	assert_int_equal(fake.populated, 1);
	assert_int_equal(fake.plain_maps, 0);
}

static void what_huge_pages_do_not_hold_lies_in_others(void **state)
{
	(void)state;
	fake.free_2m = 3;
	check_area(8 << 20, KV_NODE_ANY, 0, 6 << 20, 4096);
	assert_int_equal(fake.plain_maps, 1);
}

static void gigabytes_come_first(void **state)
{
	(void)state;
	fake.free_1g = 1;
	fake.free_2m = 10000;
	check_area(GIGA, KV_NODE_ANY, GIGA, 0, GIGA);
	fake.free_1g = 2;
	fake.free_2m = 3;
	check_area(GIGA + (8 << 20), KV_NODE_ANY, GIGA, 6 << 20, 4096);
}

static void a_large_area_is_touched_in_slices(void **state)
{
	(void)state;
	fake.free_1g = 2;
	check_area(2 * GIGA, KV_NODE_ANY, 2 * GIGA, 0, GIGA);
	assert_int_equal(fake.populated, 16);
}

static void a_refused_reservation_falls_back(void **state)
{
	(void)state;
	fake.free_1g = 1;
	fake.free_2m = 600;
	fake.map_errno_1g = ENOMEM;
	check_area(GIGA, KV_NODE_ANY, 0, GIGA, TWO);
	fake.free_2m = 600;
	fake.map_errno_2m = ENOMEM;
	check_area(8 << 20, KV_NODE_ANY, 0, 0, 4096);
}

/* A page that a cpuset or a memory error keeps from us would kill the process at the first touch. */
static void pages_that_cannot_be_touched_fall_back(void **state)
{
	(void)state;
	fake.free_1g = 1;
	fake.free_2m = 600;
	fake.populate_errno_1g = EFAULT;
	check_area(GIGA, KV_NODE_ANY, 0, GIGA, TWO);
	fake.free_2m = 4;
	fake.populate_errno_2m = EFAULT;
	check_area(8 << 20, KV_NODE_ANY, 0, 0, 4096);
}

static void a_hugetlb_cgroup_counts(void **state)
{
	(void)state;
	fake.free_2m = 100;
	fake.group_2m = (4 << 20) + 4096;
	check_area(8 << 20, KV_NODE_ANY, 0, 4 << 20, 4096);
	fake.group_2m = 0;
	check_area(8 << 20, KV_NODE_ANY, 0, 0, 4096);
	assert_int_equal(fake.huge_maps, 1);
}

static void an_old_kernel_populates_while_it_maps(void **state)
{
	(void)state;
	fake.free_2m = 8;
	fake.populate_errno_2m = EINVAL;
	check_area(8 << 20, KV_NODE_ANY, 0, 8 << 20, TWO);
	fake.free_2m = 8;
	fake.populated_after = 99;
	check_area(8 << 20, KV_NODE_ANY, 0, 0, 4096);
}

/* A thread of the host has mapped memory of its own into the gap. */
static void a_gap_that_was_taken_is_left_to_the_other(void **state)
{
	(void)state;
	fake.free_2m = 8;
	fake.steals = 1;
	check_area(8 << 20, KV_NODE_ANY, 0, 8 << 20, TWO);
	fake.free_2m = 8;
	fake.steals = 1000;
	check_area(8 << 20, KV_NODE_ANY, 0, 0, 4096);
}

static void far_gigabytes_are_left_alone(void **state)
{
	(void)state;
	fake.nodes = 2;
	fake.free_1g = 3;
	fake.near_1g = 1;
	fake.free_2m = 512;
	check_area(2 * GIGA, 1, GIGA, GIGA, TWO);
	assert_int_equal(fake.bound, 2);
}

static void a_node_that_may_not_be_asked_for_is_told(void **state)
{
	struct kv_area area;
	(void)state;
	fake.nodes = 2;
	fake.bind_error = -EPERM;
	assert_int_equal(kv_area_map_on(4 << 20, 1, &area, NULL), 0);
	assert_int_equal(area.node, 1);
	assert_int_equal(area.node_error, -EPERM);
	kv_area_unmap(&area);
}

static void pages_read_like_a_sentence(void **state)
{
	char buf[160];
	(void)state;
	struct kv_pages sum = {0}, more = {.bytes_1g = 3 * GIGA, .bytes_2m = 512 << 20, .transparent = 64 << 20};
	assert_string_equal(kv_pages_format(&sum, buf, sizeof(buf)), "");
	kv_pages_add(&sum, &more);
	assert_string_equal(kv_pages_format(&sum, buf, sizeof(buf)),
			    "3 GiB in 1 GiB pages, 512 MiB in 2 MiB pages, 64 MiB in transparent huge pages");
	assert_string_equal(kv_pages_format(&(struct kv_pages){.plain = 4096}, buf, sizeof(buf)),
			    "4 KiB in 4 KiB pages");
	assert_int_equal(strlen(kv_pages_format(&sum, buf, 20)), 19);
}

#define FAKE_TEST(f) cmocka_unit_test_setup(f, fake_reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(without_a_pool_pages_are_transparent),
		FAKE_TEST(free_pages_are_used_and_touched),
		FAKE_TEST(what_huge_pages_do_not_hold_lies_in_others),
		FAKE_TEST(gigabytes_come_first),
		FAKE_TEST(a_large_area_is_touched_in_slices),
		FAKE_TEST(a_refused_reservation_falls_back),
		FAKE_TEST(pages_that_cannot_be_touched_fall_back),
		FAKE_TEST(a_hugetlb_cgroup_counts),
		FAKE_TEST(an_old_kernel_populates_while_it_maps),
		FAKE_TEST(a_gap_that_was_taken_is_left_to_the_other),
		FAKE_TEST(far_gigabytes_are_left_alone),
		FAKE_TEST(a_node_that_may_not_be_asked_for_is_told),
		FAKE_TEST(pages_read_like_a_sentence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
