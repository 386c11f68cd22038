/* SPDX-License-Identifier: Apache-2.0 */
/* test_machine.c -- the readers of /proc and /sys, over file trees of other machines. */
#include "tests/check.h"

#include "host/host.h"
#include "host/machine.h"
#include "tests/tree.h"

static void nothing_readable_is_no_limit(void **state)
{
	(void)state;
	assert_true(kv_cgroup_memory_room(tree_root) == UINT64_MAX);
	assert_true(kv_cgroup_cpus(tree_root) == UINT64_MAX);
	assert_int_equal(kv_meminfo_available(tree_root), 0);
	assert_int_equal(kv_hugepages_free(tree_root, 2 << 20), 0);
}

static void meminfo_gives_bytes(void **state)
{
	(void)state;
	tree_put("/proc/meminfo", "MemTotal:  100 kB\nMemFree:   40 kB\nMemAvailable:    60 kB\n");
	assert_int_equal(kv_meminfo_available(tree_root), 60 << 10);
	tree_put("/proc/meminfo", "MemTotal:  100 kB\nMemFree:   40 kB\n");
	assert_int_equal(kv_meminfo_available(tree_root), 40 << 10);
	tree_put("/proc/meminfo", "MemAvailable: none\n");
	assert_int_equal(kv_meminfo_available(tree_root), 0);
}

static void reserved_hugepages_are_not_free(void **state)
{
	(void)state;
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "10\n");
	assert_int_equal(kv_hugepages_free(tree_root, 2 << 20), 0);
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "3\n");
	assert_int_equal(kv_hugepages_free(tree_root, 2 << 20), 7);
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "11\n");
	assert_int_equal(kv_hugepages_free(tree_root, 2 << 20), 0);
	assert_int_equal(kv_hugepages_free(tree_root, 1 << 30), 0);
}

static void pages_that_a_pool_may_grow_by_are_free(void **state)
{
	(void)state;
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "10\n");
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "3\n");
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages", "100\n");
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages", "40\n");
	assert_int_equal(kv_hugepages_free(tree_root, 2 << 20), 67);
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages", "400\n");
	assert_int_equal(kv_hugepages_free(tree_root, 2 << 20), 7);
}

static void a_nodes_pages_are_its_own(void **state)
{
	(void)state;
	tree_put("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/free_hugepages", "5\n");
	assert_int_equal(kv_hugepages_free_on(tree_root, 1, 1 << 30), 5);
	assert_int_equal(kv_hugepages_free_on(tree_root, 0, 1 << 30), 0);
	assert_int_equal(kv_hugepages_free_on(tree_root, 1, 2 << 20), 0);
}

static void transparent_pages_may_be_off(void **state)
{
	(void)state;
	assert_false(kv_hugepages_transparent(tree_root));
	tree_put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
	assert_true(kv_hugepages_transparent(tree_root));
	tree_put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
	assert_false(kv_hugepages_transparent(tree_root));
}

static void hugetlb_cgroups_count_touched_and_reserved(void **state)
{
	(void)state;
	assert_true(kv_cgroup_hugetlb_room(tree_root, 2 << 20) == UINT64_MAX);
	tree_put("/proc/self/cgroup", "0::/pod\n");
	tree_put("/sys/fs/cgroup/pod/hugetlb.2MB.max", "max\n");
	assert_true(kv_cgroup_hugetlb_room(tree_root, 2 << 20) == UINT64_MAX);
	tree_put("/sys/fs/cgroup/pod/hugetlb.2MB.max", "8388608\n");
	tree_put("/sys/fs/cgroup/pod/hugetlb.2MB.current", "2097152\n");
	assert_int_equal(kv_cgroup_hugetlb_room(tree_root, 2 << 20), 6291456);
	tree_put("/sys/fs/cgroup/pod/hugetlb.2MB.rsvd.max", "4194304\n");
	assert_int_equal(kv_cgroup_hugetlb_room(tree_root, 2 << 20), 4194304);
	tree_put("/sys/fs/cgroup/pod/hugetlb.2MB.rsvd.current", "4194304\n");
	assert_int_equal(kv_cgroup_hugetlb_room(tree_root, 2 << 20), 0);
	assert_true(kv_cgroup_hugetlb_room(tree_root, 1 << 30) == UINT64_MAX);
	tree_put("/sys/fs/cgroup/hugetlb.1GB.max", "0\n");
	assert_int_equal(kv_cgroup_hugetlb_room(tree_root, 1 << 30), 0);
}

static void v1_hugetlb_cgroups_count(void **state)
{
	(void)state;
	tree_put("/proc/self/cgroup", "7:hugetlb:/a\n");
	tree_put("/sys/fs/cgroup/hugetlb/a/hugetlb.2MB.limit_in_bytes", "9223372036853727232\n");
	assert_true(kv_cgroup_hugetlb_room(tree_root, 2 << 20) == UINT64_MAX);
	tree_put("/sys/fs/cgroup/hugetlb/a/hugetlb.2MB.limit_in_bytes", "4194304\n");
	tree_put("/sys/fs/cgroup/hugetlb/a/hugetlb.2MB.usage_in_bytes", "2097152\n");
	assert_int_equal(kv_cgroup_hugetlb_room(tree_root, 2 << 20), 2097152);
}

/* ---- room for a server ---- */

/* A server of 1 GiB with 40 MiB of endpoints, 128 MiB of landing areas and many clients. */
static struct kv_footprint server_of(uint64_t mib)
{
	return (struct kv_footprint){
		.values_bytes = mib << 20, .engines_bytes = 40 << 20, .landing_bytes = 128 << 20, .clients = 1000};
}

static int room_fits(uint64_t mib, struct kv_error *err)
{
	struct kv_footprint r = server_of(mib);
	return kv_footprint_fits(tree_root, &r, err);
}

static void machine_of(uint64_t mib)
{
	char line[64];
	snprintf(line, sizeof(line), "MemAvailable:    %llu kB\n", (unsigned long long)mib << 10);
	tree_put("/proc/meminfo", line);
}

static void v2_of(uint64_t max_mib, uint64_t used_mib)
{
	char line[64];
	tree_put("/proc/self/cgroup", "0::/pod\n");
	snprintf(line, sizeof(line), "%llu\n", (unsigned long long)max_mib << 20);
	tree_put("/sys/fs/cgroup/pod/memory.max", line);
	snprintf(line, sizeof(line), "%llu\n", (unsigned long long)used_mib << 20);
	tree_put("/sys/fs/cgroup/pod/memory.current", line);
}

static void what_fits_says_nothing(void **state)
{
	struct kv_footprint r = server_of(UINT32_MAX);
	(void)state;
	assert_int_equal(kv_footprint_fits(tree_root, &r, NULL), 0); /* nothing tells */
	assert_int_equal(kv_footprint_values(tree_root, &r), r.values_bytes >> 10);
	assert_int_equal(kv_footprint_landing(tree_root, 128 << 20), 128 << 20);
	machine_of(1500);
	assert_int_equal(room_fits(1024, NULL), 0);
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "512\n");
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "0\n");
	assert_int_equal(room_fits(2048, NULL), 0);
}

/* More than the values counts. */
static void every_part_of_the_room_counts(void **state)
{
	static const struct kv_footprint parts[] = {{.values_bytes = 1ull << 30},
						    {.engines_bytes = 1ull << 30},
						    {.landing_bytes = 1ull << 30},
						    {.others_bytes = 1ull << 30},
						    {.tier_bytes = 420ull << 30},
						    {.tier_drives = 128},
						    {.values_max = (1ull << 30) / KV_FOOTPRINT_VALUE_BYTES}};
	struct kv_footprint r = {0};
	(void)state;
	machine_of(1024);
	for (unsigned i = 0; i < KV_COUNT(parts); i++)
		assert_int_equal(kv_footprint_fits(tree_root, &parts[i], NULL),
				 -KV_ENOMEM); /* the reserve is missing */
	assert_int_equal(kv_footprint_need(&r), KV_FOOTPRINT_RESERVE_LEAST);
	r.clients = 1000;
	assert_int_equal(kv_footprint_need(&r),
			 KV_FOOTPRINT_RESERVE_LEAST + KV_FOOTPRINT_CLIENTS * KV_FOOTPRINT_CLIENT_BYTES);
}

/* The largest --memory-mb that a refusal names fits, and one more does not. */
static void recommended(const struct kv_error *err)
{
	const char *at = strstr(err->text, "use --memory-mb ");
	uint64_t mib = at ? strtoull(at + strlen("use --memory-mb "), NULL, 10) : 0;
	assert_true(mib > 0);
	assert_int_equal(room_fits(mib, NULL), 0);
	assert_int_equal(room_fits(mib + 1, NULL), -KV_ENOMEM);
}

static void a_machine_that_is_too_small_is_named(void **state)
{
	struct kv_error err = {0};
	(void)state;
	machine_of(1024);
	assert_int_equal(room_fits(3072, &err), -KV_ENOMEM);
	check_contains(err.text,
		       "3 GiB for values, 120 MiB for keys and index, 40 MiB for endpoints and messages, 128 MiB for "
		       "landing areas, 4 MiB for clients, the rest in reserve; this machine can give 1 GiB; use");
	check_contains(err.text, "or less, or free memory");
	recommended(&err);
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "512\n");
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "0\n");
	assert_int_equal(room_fits(3072, &err), -KV_ENOMEM);
	check_contains(err.text, "1 GiB, and 1 GiB in free huge pages; use --memory-mb");
	recommended(&err);
	machine_of(100);
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n");
	assert_int_equal(room_fits(3072, &err), -KV_ENOMEM);
	assert_null(strstr(err.text, "use --memory-mb")); /* none would do */
	check_contains(err.text, "can give 100 MiB; free memory");
}

static void a_cgroup_that_is_too_small_is_named(void **state)
{
	struct kv_error err = {0};
	(void)state;
	machine_of(102400);
	v2_of(2048, 1024);
	tree_put("/sys/fs/cgroup/pod/hugetlb.2MB.max", "0\n");
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "2048\n");
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "0\n");
	assert_int_equal(room_fits(3072, &err), -KV_ENOMEM);
	check_contains(err.text, "the memory cgroup of this process allows 1 GiB, and of 4 GiB in free huge pages the "
				 "hugetlb cgroup allows 0 B");
	check_contains(err.text, "or less, or raise its limit");
	recommended(&err);
}

static void a_cgroup_of_v1_is_named_as_well(void **state)
{
	struct kv_error err = {0};
	(void)state;
	machine_of(102400);
	tree_put("/proc/self/cgroup", "4:memory:/a\n");
	tree_put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "314572800\n");
	tree_put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1048576\n");
	assert_int_equal(room_fits(267, &err), -KV_ENOMEM);
	check_contains(err.text, "the memory cgroup of this process allows 299 MiB; use --memory-mb");
	recommended(&err);
}

/* Where memory is short, the landing area and the number of values become smaller, and what is kept then fits. */
static void a_little_memory_makes_less(void **state)
{
	struct kv_footprint r = server_of(200);
	(void)state;
	machine_of(102400);
	assert_int_equal(kv_footprint_landing(tree_root, 128 << 20), 128 << 20);
	assert_int_equal(kv_footprint_values(tree_root, &r), 200 << 10);
	v2_of(320, 0);
	r.landing_bytes = kv_footprint_landing(tree_root, 128 << 20);
	assert_int_equal(r.landing_bytes, 20 << 20);
	assert_int_equal(kv_footprint_fits(tree_root, &r, NULL), 0);
	r.values_max = kv_footprint_values(tree_root, &r);
	assert_in_range(r.values_max, r.values_bytes / KV_FOOTPRINT_VALUE_MEAN, (200 << 10) - 1);
	assert_int_equal(kv_footprint_fits(tree_root, &r, NULL), 0);
	v2_of(16, 0);
	assert_int_equal(kv_footprint_landing(tree_root, 128 << 20), KV_FOOTPRINT_LANDING_LEAST);
}

static void other_processes_have_a_reserve_too(void **state)
{
	struct kv_error err = {0};
	(void)state;
	machine_of(1024);
	assert_int_equal(kv_footprint_others(tree_root, 900 << 20, "buffers", "use fewer", &err), 0);
	assert_int_equal(kv_footprint_others(tree_root, 1000 << 20, "buffers", "use fewer", &err), -KV_ENOMEM);
	check_contains(err.text, "1.03 GiB of memory are wanted for buffers, with a reserve; "
				 "this machine can give 1 GiB; use fewer, or free memory");
}

/* Three pages of memory: one writable, one read-only, one missing. */
static const char maps[] = "10000-11000 rw-p 00000000 00:00 0\n"
			   "11000-12000 r--p 00000000 08:01 42                         /models/weights bin\n"
			   "13000-14000 rw-p 00000000 00:00 0                          [heap]\n"
			   "14000-15000 rw-s 00000000 00:01 7                          /dev/shm/x\n"
			   "15000-16000 ---p 00000000 00:00 0\n";

static int maps_look(uint64_t from, uint64_t len, struct kv_error *err)
{
	tree_put("/proc/self/maps", maps);
	return kv_maps_check(tree_root, (void *)(uintptr_t)from, len, err);
}

static void memory_that_is_all_there_is_accepted(void **state)
{
	(void)state;
	assert_int_equal(kv_maps_check(tree_root, (void *)16, 16, NULL), 0); /* no /proc, no answer */
	assert_int_equal(maps_look(0x10000, 0x1000, NULL), 0);
	assert_int_equal(maps_look(0x10fff, 1, NULL), 0);
	assert_int_equal(maps_look(0x13001, 0x1ffe, NULL), 0);
}

static void holes_are_named(void **state)
{
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(maps_look(0x13800, 0x1801, &err), -KV_EINVAL);
	assert_int_equal(maps_look(0xf000, 0x1001, &err), -KV_EINVAL);
	check_contains(err.text, "nothing is mapped at 0xf000, 0 bytes after its start");
	assert_int_equal(maps_look(0x20000, 1, &err), -KV_EINVAL);
	check_contains(err.text, "nothing is mapped at 0x20000");
}

static void what_cannot_be_written_is_named(void **state)
{
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(maps_look(0x10800, 0x1000, &err), -KV_EINVAL);
	check_contains(err.text, "not writable at 0x11000 (mapped r--p, /models/weights bin)");
	assert_int_equal(maps_look(0x14fff, 2, &err), -KV_EINVAL);
	check_contains(err.text, "not writable at 0x15000 (mapped ---p)");
}

static void v2_limits_count_from_leaf_to_root(void **state)
{
	(void)state;
	tree_put("/proc/self/cgroup", "0::/pod/app\n");
	tree_put("/sys/fs/cgroup/pod/app/memory.max", "max\n");
	tree_put("/sys/fs/cgroup/pod/app/memory.current", "100\n");
	assert_true(kv_cgroup_memory_room(tree_root) == UINT64_MAX);
	tree_put("/sys/fs/cgroup/pod/memory.max", "1000\n");
	tree_put("/sys/fs/cgroup/pod/memory.current", "600\n");
	assert_int_equal(kv_cgroup_memory_room(tree_root), 400);
	tree_put("/sys/fs/cgroup/pod/app/memory.max", "350\n");
	assert_int_equal(kv_cgroup_memory_room(tree_root), 250);
	tree_put("/sys/fs/cgroup/memory.max", "5000\n");
	tree_put("/sys/fs/cgroup/memory.current", "4990\n");
	assert_int_equal(kv_cgroup_memory_room(tree_root), 10);
}

static void idle_page_cache_counts_as_room(void **state)
{
	(void)state;
	tree_put("/proc/self/cgroup", "0::/\n");
	tree_put("/sys/fs/cgroup/memory.max", "1000\n");
	tree_put("/sys/fs/cgroup/memory.current", "900\n");
	tree_put("/sys/fs/cgroup/memory.stat", "anon 1\nfile 400\ninactive_file 300\nactive_file 100\n");
	assert_int_equal(kv_cgroup_memory_room(tree_root), 400);
	tree_put("/sys/fs/cgroup/memory.current", "1200\n");
	tree_put("/sys/fs/cgroup/memory.stat", "inactive_file 0\n");
	assert_int_equal(kv_cgroup_memory_room(tree_root), 0);
	tree_put("/sys/fs/cgroup/memory.stat", "inactive_file 9999\n");
	assert_int_equal(kv_cgroup_memory_room(tree_root), 1000);
}

static void v1_limits_count(void **state)
{
	(void)state;
	tree_put("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,cpuacct:/\n3:memory:/a\n0::/\n");
	tree_put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
	tree_put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "5\n");
	assert_true(kv_cgroup_memory_room(tree_root) == UINT64_MAX);
	tree_put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
	tree_put("/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 2\n");
	assert_int_equal(kv_cgroup_memory_room(tree_root), 997);
}

static void a_container_sees_its_group_as_the_mount(void **state)
{
	(void)state;
	tree_put("/proc/self/cgroup", "3:memory:/docker/0123\n");
	tree_put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
	tree_put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
	assert_int_equal(kv_cgroup_memory_room(tree_root), 900);
	tree_put("/proc/self/cgroup", "3:memory:/../../outside\n");
	assert_int_equal(kv_cgroup_memory_room(tree_root), 900);
}

static void v2_quota_rounds_up_to_cpus(void **state)
{
	(void)state;
	tree_put("/proc/self/cgroup", "0::/pod\n");
	tree_put("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
	assert_true(kv_cgroup_cpus(tree_root) == UINT64_MAX);
	tree_put("/sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
	assert_int_equal(kv_cgroup_cpus(tree_root), 3);
	tree_put("/sys/fs/cgroup/pod/cpu.max", "200000 100000\n");
	assert_int_equal(kv_cgroup_cpus(tree_root), 2);
	tree_put("/sys/fs/cgroup/pod/cpu.max", "1000 100000\n");
	assert_int_equal(kv_cgroup_cpus(tree_root), 1);
	tree_put("/sys/fs/cgroup/pod/cpu.max", "1000 0\n");
	assert_true(kv_cgroup_cpus(tree_root) == UINT64_MAX);
	tree_put("/sys/fs/cgroup/pod/cpu.max", "1000\n");
	assert_true(kv_cgroup_cpus(tree_root) == UINT64_MAX);
}

static void v1_quota_counts(void **state)
{
	(void)state;
	tree_put("/proc/self/cgroup", "4:cpuacct,cpu:/a\n");
	tree_put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
	tree_put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
	assert_true(kv_cgroup_cpus(tree_root) == UINT64_MAX);
	tree_put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
	tree_put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	assert_int_equal(kv_cgroup_cpus(tree_root), 2);
}

static void nonsense_is_no_limit(void **state)
{
	(void)state;
	tree_put("/proc/self/cgroup", "nonsense\n::\n0:\n\n0::/pod");
	tree_put("/sys/fs/cgroup/pod/memory.max", "99999999999999999999999\n");
	tree_put("/sys/fs/cgroup/pod/memory.current", "");
	tree_put("/sys/fs/cgroup/pod/cpu.max", "");
	assert_true(kv_cgroup_memory_room(tree_root) == UINT64_MAX);
	assert_true(kv_cgroup_cpus(tree_root) == UINT64_MAX);
}

static void processors_have_a_name(void **state)
{
	char name[128];
	(void)state;
	assert_string_equal(kv_cpu_name(tree_root, name, sizeof(name)), "");
	tree_put("/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 2100.00\n");
	assert_string_equal(kv_cpu_name(tree_root, name, sizeof(name)), "");
	tree_put("/proc/cpuinfo",
		 "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\n");
	assert_string_equal(kv_cpu_name(tree_root, name, sizeof(name)), "AMD EPYC (family 25, model 17)");
	tree_put("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n");
	assert_string_equal(kv_cpu_name(tree_root, name, sizeof(name)), "implementer 0x41, part 0xd0c");
}

#define MACHINE_TEST(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MACHINE_TEST(nothing_readable_is_no_limit),
		MACHINE_TEST(meminfo_gives_bytes),
		MACHINE_TEST(reserved_hugepages_are_not_free),
		MACHINE_TEST(pages_that_a_pool_may_grow_by_are_free),
		MACHINE_TEST(a_nodes_pages_are_its_own),
		MACHINE_TEST(transparent_pages_may_be_off),
		MACHINE_TEST(hugetlb_cgroups_count_touched_and_reserved),
		MACHINE_TEST(v1_hugetlb_cgroups_count),
		MACHINE_TEST(what_fits_says_nothing),
		MACHINE_TEST(every_part_of_the_room_counts),
		MACHINE_TEST(a_cgroup_of_v1_is_named_as_well),
		MACHINE_TEST(a_little_memory_makes_less),
		MACHINE_TEST(other_processes_have_a_reserve_too),
		MACHINE_TEST(a_machine_that_is_too_small_is_named),
		MACHINE_TEST(a_cgroup_that_is_too_small_is_named),
		MACHINE_TEST(memory_that_is_all_there_is_accepted),
		MACHINE_TEST(holes_are_named),
		MACHINE_TEST(what_cannot_be_written_is_named),
		MACHINE_TEST(v2_limits_count_from_leaf_to_root),
		MACHINE_TEST(idle_page_cache_counts_as_room),
		MACHINE_TEST(v1_limits_count),
		MACHINE_TEST(a_container_sees_its_group_as_the_mount),
		MACHINE_TEST(v2_quota_rounds_up_to_cpus),
		MACHINE_TEST(v1_quota_counts),
		MACHINE_TEST(nonsense_is_no_limit),
		MACHINE_TEST(processors_have_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
