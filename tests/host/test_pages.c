/* SPDX-License-Identifier: Apache-2.0 */
/* test_pages.c -- areas on a real kernel's hugetlb pages and NUMA nodes. It needs a prepared machine, with two nodes
 * and free pages that no other process takes; tests/verbs/memory.sh makes one. Elsewhere every test reports what is
 * missing. */
#include "tests/check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "host/host.h"
#include "host/machine.h"

#define TWO  ((uint64_t)2 << 20)
#define GIGA ((uint64_t)1 << 30)

static void need(bool there, const char *what)
{
	if (there)
		return;
	printf("# skipped: %s\n", what);
	skip();
}

static void need_prepared(void)
{
	need(getenv("KVRAIL_TEST_PAGES") != NULL, "a machine prepared by tests/verbs/memory.sh");
}

/* Write and read every page: a missing page would kill us here. */
static void use(struct kv_area *area)
{
	uint8_t *p = area->base;
	for (uint64_t at = 0; at < area->len_bytes; at += 4096)
		assert_int_equal(p[at], 0);
	for (uint64_t at = 0; at < area->len_bytes; at += 4096)
		p[at] = (uint8_t)(at >> 12);
	for (uint64_t at = 0; at < area->len_bytes; at += 4096)
		assert_int_equal(p[at], (uint8_t)(at >> 12));
}

static void free_pages_are_taken_and_given_back(void **state)
{
	struct kv_area area;
	(void)state;
	need_prepared();
	uint64_t before = kv_hugepages_free("", TWO);
	assert_int_equal(kv_area_map(8 * TWO - 5, &area, NULL), 0);
	assert_int_equal(area.pages.bytes_2m, 8 * TWO);
	assert_int_equal(area.page_bytes, TWO);
	assert_int_equal(kv_hugepages_free("", TWO), before - 8);
	use(&area);
	kv_area_unmap(&area);
	assert_int_equal(kv_hugepages_free("", TWO), before);
}

static void a_shared_area_takes_pages_for_all_or_none(void **state)
{
	struct kv_area area;
	struct kv_error err = {0};
	void *theirs;
	(void)state;
	need_prepared();
	uint64_t before = kv_hugepages_free("", TWO);
	if (kv_area_map_shared(8 * TWO, KV_NODE_ANY, &area, &err) < 0)
		need(false, err.text);
	assert_int_equal(area.pages.bytes_2m, 8 * TWO);
	assert_int_equal(kv_hugepages_free("", TWO), before - 8);
	use(&area);
	assert_int_equal(kv_memfd_check(area.fd, 8 * TWO, &err), 0);
	assert_int_equal(kv_memfd_map(area.fd, 8 * TWO, false, &theirs, &err), 0);
	assert_memory_equal(theirs, area.base, 8 * TWO);
	assert_true(mprotect(theirs, TWO, PROT_READ | PROT_WRITE) < 0);
	munmap(theirs, 8 * TWO);
	kv_area_unmap(&area);
	assert_int_equal(kv_hugepages_free("", TWO), before);
	assert_int_equal(kv_area_map_shared((before + 1) * TWO, KV_NODE_ANY, &area, NULL), 0);
	assert_int_equal(area.pages.bytes_2m, 0);
	assert_int_equal(kv_hugepages_free("", TWO), before);
	kv_area_unmap(&area);
}

static void gigabyte_pages_are_taken_and_given_back(void **state)
{
	struct kv_area area;
	(void)state;
	need_prepared();
	need(kv_hugepages_free("", GIGA) > 0, "a free page of 1 GiB");
	assert_int_equal(kv_area_map(GIGA + 3 * TWO, &area, NULL), 0);
	assert_int_equal(area.pages.bytes_1g, GIGA);
	assert_int_equal(area.pages.bytes_2m, 3 * TWO);
	assert_int_equal((uintptr_t)area.base % GIGA, 0);
	use(&area);
	kv_area_unmap(&area);
	assert_true(kv_hugepages_free("", GIGA) > 0);
}

static void a_pool_that_is_too_small_is_used_as_far_as_it_goes(void **state)
{
	struct kv_area hold, area;
	(void)state;
	need_prepared();
	/* First take away 1 GiB pages, and all but 3 of the 2 MiB pages. */
	uint64_t giga = kv_hugepages_free("", GIGA), two = kv_hugepages_free("", TWO);
	assert_int_equal(kv_area_map(giga * GIGA + (two - 3) * TWO, &hold, NULL), 0);
	assert_int_equal(kv_hugepages_free("", TWO), 3);
	assert_int_equal(kv_area_map(20 * TWO, &area, NULL), 0);
	assert_int_equal(area.pages.bytes_2m, 3 * TWO);
	assert_int_equal(area.pages.transparent + area.pages.plain, 17 * TWO);
	assert_int_equal(area.page_bytes, 4096);
	use(&area);
	kv_area_unmap(&area);
	kv_area_unmap(&hold);
	assert_int_equal(kv_hugepages_free("", TWO), two);
}

/* The pool has pages, but the cgroup of this process may have only two of them: the third would give SIGBUS. */
static void a_hugetlb_cgroup_bounds_what_is_taken(void **state)
{
	struct kv_area area;
	(void)state;
	uint64_t room = kv_cgroup_hugetlb_room("", TWO);
	need(getenv("KVRAIL_TEST_PAGES") && room != UINT64_MAX, "a hugetlb cgroup with a limit");
	assert_true(room >= TWO && room < 8 * TWO);
	assert_int_equal(kv_area_map(8 * TWO, &area, NULL), 0);
	assert_int_equal(area.pages.bytes_2m, room / TWO * TWO);
	use(&area);
	kv_area_unmap(&area);
}

/* The same when the limit is not known beforehand: pages that cannot be touched are detected without a signal. */
static void pages_that_are_refused_at_the_touch_are_found_out(void **state)
{
	(void)state;
	uint64_t room = kv_cgroup_hugetlb_room("", TWO);
	need(getenv("KVRAIL_TEST_PAGES") && room != UINT64_MAX, "a hugetlb cgroup with a limit");
	void *p = mmap(NULL, 8 * TWO, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << 26, -1,
		       0);
	need(p != MAP_FAILED, "a limit that is looked at when pages are touched (this one is, when they are reserved)");
	assert_true(kv_memory_populate(p, 8 * TWO, KV_NODE_ANY, NULL) < 0);
	munmap(p, 8 * TWO);
}

static void memory_is_on_the_node_that_was_asked(void **state)
{
	struct kv_area area;
	(void)state;
	need_prepared();
	need(kv_numa_nodes("") >= 2, "two NUMA nodes");
	for (int node = 0; node < 2; node++) {
		assert_int_equal(kv_area_map_on(16 * TWO, node, &area, NULL), 0);
		assert_int_equal(area.node_error, 0);
		use(&area);
		assert_int_equal(kv_numa_share(area.base, area.len_bytes, node), 100);
		kv_area_unmap(&area);
		assert_int_equal(kv_area_map_lazy(16 * TWO, &area, NULL), 0);
		assert_int_equal(kv_memory_populate(area.base, area.len_bytes, node, NULL), 0);
		/* The area was mapped without a wish for a node, but the threads that touched it ran on this one. */
		assert_int_equal(kv_numa_share(area.base, area.len_bytes, node), 100);
		kv_area_unmap(&area);
	}
}

static void pages_of_the_wrong_node_are_better_than_none(void **state)
{
	struct kv_area hold, area;
	(void)state;
	need_prepared();
	need(kv_numa_nodes("") >= 2, "two NUMA nodes");
	uint64_t near = kv_hugepages_free_on("", 1, TWO), all = kv_hugepages_free("", TWO);
	assert_int_equal(kv_area_map_on(near * TWO, 1, &hold, NULL), 0);
	assert_int_equal(kv_numa_share(hold.base, hold.len_bytes, 1), 100);
	assert_int_equal(kv_area_map_on(4 * TWO, 1, &area, NULL), 0);
	assert_int_equal(area.pages.bytes_2m, 4 * TWO);
	assert_int_equal(kv_numa_share(area.base, area.len_bytes, 0), 100);
	use(&area);
	kv_area_unmap(&area);
	kv_area_unmap(&hold);
	assert_int_equal(kv_hugepages_free("", TWO), all);
}

static void a_thread_is_bound_to_its_node(void **state)
{
	struct kv_cpus before, near, now;
	(void)state;
	need_prepared();
	need(kv_numa_nodes("") >= 2, "two NUMA nodes");
	for (int node = 0; node < 2; node++) {
		assert_int_equal(kv_numa_cpus("", node, &near), 0);
		assert_int_equal(kv_numa_bind_thread("", node, &before), kv_cpus_count(&near));
		assert_int_equal(kv_thread_cpus(&now), 0);
		assert_memory_equal(&now, &near, sizeof(now));
		assert_int_equal(kv_thread_set_cpus(&before), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free_pages_are_taken_and_given_back),
		cmocka_unit_test(a_shared_area_takes_pages_for_all_or_none),
		cmocka_unit_test(gigabyte_pages_are_taken_and_given_back),
		cmocka_unit_test(a_pool_that_is_too_small_is_used_as_far_as_it_goes),
		cmocka_unit_test(memory_is_on_the_node_that_was_asked),
		cmocka_unit_test(pages_of_the_wrong_node_are_better_than_none),
		cmocka_unit_test(a_thread_is_bound_to_its_node),
	};
	const struct CMUnitTest limited[] = {
		cmocka_unit_test(a_hugetlb_cgroup_bounds_what_is_taken),
		cmocka_unit_test(pages_that_are_refused_at_the_touch_are_found_out),
	};
	/* In a cgroup with a limit the other tests would not find the pages that they expect. */
	if (getenv("KVRAIL_TEST_PAGES") && kv_cgroup_hugetlb_room("", TWO) != UINT64_MAX)
		return cmocka_run_group_tests(limited, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
