/* SPDX-License-Identifier: Apache-2.0 */
/* test_numa.c -- the nodes of invented machines, and this kernel's answer to a wish. tests/verbs/memory.sh runs the
 * same on a machine with two nodes. */
#include "tests/check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/tree.h"
#include "host/host.h"

static void cpus_check(const char *list, unsigned count)
{
	struct kv_cpus cpus;
	assert_int_equal(kv_cpus_parse(list, &cpus), 0);
	assert_int_equal(kv_cpus_count(&cpus), count);
}

static void lists_of_the_kernel_are_read(void **state)
{
	struct kv_cpus cpus;
	(void)state;
	cpus_check("", 0);
	cpus_check("\n", 0);
	cpus_check("0\n", 1);
	cpus_check("0-3,8,10-11\n", 7);
	cpus_check("8191", 1);
	cpus_check("0-8191", KV_CPUS_MAX);
	assert_int_equal(kv_cpus_parse("0-1,64-65\n", &cpus), 0);
	assert_true(kv_cpus_has(&cpus, 64) && kv_cpus_has(&cpus, 0) && !kv_cpus_has(&cpus, 2));
	assert_false(kv_cpus_has(&cpus, KV_CPUS_MAX));
}

static void nonsense_is_no_list(void **state)
{
	static const char *const bad[] = {
		"x", "1,", "1,\n", "-1", "1-", "3-1", "8192", "0-8192", "1 2", "1,,2", "99999999999999999999", "1x"};
	struct kv_cpus cpus = {{7}};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++)
		assert_int_equal(kv_cpus_parse(bad[i], &cpus), -KV_EINVAL);
	assert_true(cpus.bits[0] == 7);
}

static void a_machine_without_nodes_has_one(void **state)
{
	struct kv_cpus cpus;
	(void)state;
	assert_int_equal(kv_numa_nodes(tree_root), 1);
	assert_int_equal(kv_numa_cpus(tree_root, 0, &cpus), -KV_ENOTFOUND);
	assert_int_equal(kv_numa_bind_thread(tree_root, 0, NULL), 0);
}

static void nodes_and_their_cpus_are_found(void **state)
{
	struct kv_cpus cpus;
	(void)state;
	tree_put("/sys/devices/system/node/has_memory", "0-1\n");
	tree_put("/sys/devices/system/node/node0/cpulist", "0-47,96-143\n");
	tree_put("/sys/devices/system/node/node1/cpulist", "48-95,144-191\n");
	tree_put("/sys/devices/system/node/node2/cpulist", "\n");
	assert_int_equal(kv_numa_nodes(tree_root), 2);
	assert_int_equal(kv_numa_cpus(tree_root, 1, &cpus), 0);
	assert_int_equal(kv_cpus_count(&cpus), 96);
	assert_true(kv_cpus_has(&cpus, 48) && !kv_cpus_has(&cpus, 47));
	assert_int_equal(kv_numa_cpus(tree_root, 2, &cpus), 0);
	assert_int_equal(kv_cpus_count(&cpus), 0);
	assert_int_equal(kv_numa_cpus(tree_root, 3, &cpus), -KV_ENOTFOUND);
	assert_int_equal(kv_numa_cpus(tree_root, -1, &cpus), -KV_ENOTFOUND);
}

/* The first CPU that this thread may use, as a list. */
static unsigned first_cpu(char *list, size_t cap)
{
	struct kv_cpus mine;
	unsigned cpu = 0;
	assert_int_equal(kv_thread_cpus(&mine), 0);
	while (!kv_cpus_has(&mine, cpu))
		cpu++;
	snprintf(list, cap, "%u,8000\n", cpu);
	return cpu;
}

static void a_thread_is_bound_to_what_it_may_use_of_a_node(void **state)
{
	struct kv_cpus before, now, mine;
	char list[32];
	unsigned cpu = first_cpu(list, sizeof(list));
	(void)state;
	assert_int_equal(kv_thread_cpus(&mine), 0);
	tree_put("/sys/devices/system/node/node0/cpulist", list);
	assert_int_equal(kv_numa_bind_thread(tree_root, 0, &before), 1);
	assert_memory_equal(&before, &mine, sizeof(before));
	assert_int_equal(kv_thread_cpus(&now), 0);
	assert_true(kv_cpus_count(&now) == 1 && kv_cpus_has(&now, cpu));
	assert_int_equal(kv_thread_set_cpus(&before), 0);
	assert_int_equal(kv_thread_cpus(&now), 0);
	assert_memory_equal(&now, &mine, sizeof(now));
}

static void a_thread_that_may_use_none_of_a_node_stays(void **state)
{
	struct kv_cpus mine, now;
	(void)state;
	assert_int_equal(kv_thread_cpus(&mine), 0);
	tree_put("/sys/devices/system/node/node1/cpulist", "8000-8001\n");
	assert_int_equal(kv_numa_bind_thread(tree_root, 1, NULL), 0);
	assert_int_equal(kv_thread_cpus(&now), 0);
	assert_memory_equal(&now, &mine, sizeof(now));
}

/* "Forbidden" (a container) and "missing" (a kernel without NUMA) are valid answers, too. */
static void memory_comes_from_the_node_that_is_asked(void **state)
{
	struct kv_area area;
	(void)state;
	assert_int_equal(kv_area_map_on(4 << 20, 0, &area, NULL), 0);
	assert_true(area.node_error == 0 || area.node_error == -EPERM || area.node_error == -ENOSYS);
	if (area.pages.bytes_2m == 0) /* else they are touched already */
		assert_int_equal(kv_numa_share(area.base, area.len_bytes, 0), -1);
	memset(area.base, 1, area.len_bytes);
	int share = kv_numa_share(area.base, area.len_bytes, 0);
	if (area.node_error == 0 && share >= 0)
		assert_int_equal(share, 100);
	kv_area_unmap(&area);
}

static void a_node_that_is_not_there_is_refused(void **state)
{
	struct kv_numa_saved saved;
	uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)state;
	assert_true(p != MAP_FAILED);
	assert_true(kv_numa_prefer_memory(p, 8192, 1000) < 0);
	assert_int_equal(kv_numa_prefer_memory(p, 8192, KV_NODES_MAX), -EINVAL);
	assert_int_equal(kv_numa_prefer_memory(p, 8192, KV_NODE_ANY), -EINVAL);
	assert_true(kv_numa_prefer(1000, &saved) < 0);
	kv_numa_restore(&saved);
	assert_int_equal(kv_numa_prefer(KV_NODE_ANY, &saved), 0);
	assert_false(saved.changed);
	memset(p, 1, 8192);
	munmap(p, 8192);
}

static void a_wish_of_a_thread_ends(void **state)
{
	struct kv_numa_saved first, second;
	(void)state;
	if (kv_numa_prefer(0, &first) < 0) {
		print_message("a memory policy cannot be set here (containers forbid it)\n");
		skip();
	}
	assert_int_equal(kv_numa_prefer(0, &second), 0);
	assert_true(second.mode != first.mode); /* it is ours */
	kv_numa_restore(&second);
	kv_numa_restore(&first);
	assert_int_equal(kv_numa_prefer(0, &second), 0);
	assert_int_equal(second.mode, first.mode);
	kv_numa_restore(&second);
}

/* When nothing is to be placed, the text does not depend on this machine. */
static void placing_is_told_in_words(void **state)
{
	struct kv_numa_place p[5] = {{.node = 0, .thread = 4}, {.node = 0, .thread = 4}, {.node = 1, .thread = 4}};
	char buf[200];
	(void)state;
	assert_string_equal(kv_numa_describe(p, 3, "shard", true, buf, sizeof(buf)), "off");
	kv_numa_describe(p, 3, "shard", false, buf, sizeof(buf));
	if (kv_numa_nodes("") < 2) {
		assert_string_equal(buf, "one node");
		return;
	}
	assert_string_equal(buf, "shards 0-1 on node 0, 2 on node 1; 3 of 3 threads bound to CPUs there");
	p[2] = (struct kv_numa_place){.node = KV_NODE_ANY, .thread = KV_THREAD_FREE};
	p[1].thread = p[0].thread = -EPERM;
	p[0].memory_error = -EPERM;
	check_contains(kv_numa_describe(p, 3, "shard", false, buf, sizeof(buf)), "shards 0-1 on node 0, 2 anywhere; "
										 "threads cannot be bound");
	check_contains(buf, "so a page is where it is first touched");
	p[0] = p[1] = p[2];
	check_contains(kv_numa_describe(p, 3, "shard", false, buf, sizeof(buf)), "not known");
}

#define TREE_TEST(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_the_kernel_are_read),
		cmocka_unit_test(nonsense_is_no_list),
		TREE_TEST(a_machine_without_nodes_has_one),
		TREE_TEST(nodes_and_their_cpus_are_found),
		TREE_TEST(a_thread_is_bound_to_what_it_may_use_of_a_node),
		TREE_TEST(a_thread_that_may_use_none_of_a_node_stays),
		cmocka_unit_test(memory_comes_from_the_node_that_is_asked),
		cmocka_unit_test(a_node_that_is_not_there_is_refused),
		cmocka_unit_test(a_wish_of_a_thread_ends),
		cmocka_unit_test(placing_is_told_in_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
