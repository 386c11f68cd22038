/* SPDX-License-Identifier: Apache-2.0 */
/* test_machine.c -- the readers of /proc and /sys over trees of files that other machines have. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine.h"

static char root[PATH_MAX];

static int root_make(void **state)
{
	(void)state;
	const char *tmp = getenv("TMPDIR");
	snprintf(root, sizeof(root), "%.200s/kvrail-machine-XXXXXX", tmp ? tmp : P_tmpdir);
	return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static int root_remove(void **state)
{
	(void)state;
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* put -- write a file below the root, with the directories it needs. */
static void put(const char *name, const char *text)
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s%s", root, name);
	assert_in_range(len, 1, PATH_MAX - 1);
	for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
		*p = '/';
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void nothing_readable_is_no_limit(void **state)
{
	(void)state;
	assert_true(kv_cgroup_memory_room(root) == UINT64_MAX);
	assert_true(kv_cgroup_cpus(root) == UINT64_MAX);
	assert_int_equal(kv_meminfo_available(root), 0);
	assert_int_equal(kv_hugepages_free(root, 2 << 20), 0);
}

static void meminfo_gives_bytes(void **state)
{
	(void)state;
	put("/proc/meminfo", "MemTotal:  100 kB\nMemFree:   40 kB\nMemAvailable:    60 kB\n");
	assert_int_equal(kv_meminfo_available(root), 60 << 10);
	put("/proc/meminfo", "MemTotal:  100 kB\nMemFree:   40 kB\n");
	assert_int_equal(kv_meminfo_available(root), 40 << 10);
	put("/proc/meminfo", "MemAvailable: none\n");
	assert_int_equal(kv_meminfo_available(root), 0);
}

static void reserved_hugepages_are_not_free(void **state)
{
	(void)state;
	put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "10\n");
	assert_int_equal(kv_hugepages_free(root, 2 << 20), 0);
	put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "3\n");
	assert_int_equal(kv_hugepages_free(root, 2 << 20), 7);
	put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "11\n");
	assert_int_equal(kv_hugepages_free(root, 2 << 20), 0);
	assert_int_equal(kv_hugepages_free(root, 1 << 30), 0);
}

static void v2_limits_count_from_leaf_to_root(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "0::/pod/app\n");
	put("/sys/fs/cgroup/pod/app/memory.max", "max\n");
	put("/sys/fs/cgroup/pod/app/memory.current", "100\n");
	assert_true(kv_cgroup_memory_room(root) == UINT64_MAX);
	put("/sys/fs/cgroup/pod/memory.max", "1000\n");
	put("/sys/fs/cgroup/pod/memory.current", "600\n");
	assert_int_equal(kv_cgroup_memory_room(root), 400);
	put("/sys/fs/cgroup/pod/app/memory.max", "350\n");
	assert_int_equal(kv_cgroup_memory_room(root), 250);
	put("/sys/fs/cgroup/memory.max", "5000\n");
	put("/sys/fs/cgroup/memory.current", "4990\n");
	assert_int_equal(kv_cgroup_memory_room(root), 10);
}

static void idle_page_cache_counts_as_room(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/memory.max", "1000\n");
	put("/sys/fs/cgroup/memory.current", "900\n");
	put("/sys/fs/cgroup/memory.stat", "anon 1\nfile 400\ninactive_file 300\nactive_file 100\n");
	assert_int_equal(kv_cgroup_memory_room(root), 400);
	put("/sys/fs/cgroup/memory.current", "1200\n");
	put("/sys/fs/cgroup/memory.stat", "inactive_file 0\n");
	assert_int_equal(kv_cgroup_memory_room(root), 0);
	put("/sys/fs/cgroup/memory.stat", "inactive_file 9999\n");
	assert_int_equal(kv_cgroup_memory_room(root), 1000);
}

static void v1_limits_count(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,cpuacct:/\n3:memory:/a\n0::/\n");
	put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "5\n");
	assert_true(kv_cgroup_memory_room(root) == UINT64_MAX);
	put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
	put("/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 2\n");
	assert_int_equal(kv_cgroup_memory_room(root), 997);
}

static void a_container_sees_its_group_as_the_mount(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "3:memory:/docker/0123\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
	put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
	assert_int_equal(kv_cgroup_memory_room(root), 900);
	put("/proc/self/cgroup", "3:memory:/../../outside\n");
	assert_int_equal(kv_cgroup_memory_room(root), 900);
}

static void v2_quota_rounds_up_to_cpus(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "0::/pod\n");
	put("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
	assert_true(kv_cgroup_cpus(root) == UINT64_MAX);
	put("/sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
	assert_int_equal(kv_cgroup_cpus(root), 3);
	put("/sys/fs/cgroup/pod/cpu.max", "200000 100000\n");
	assert_int_equal(kv_cgroup_cpus(root), 2);
	put("/sys/fs/cgroup/pod/cpu.max", "1000 100000\n");
	assert_int_equal(kv_cgroup_cpus(root), 1);
	put("/sys/fs/cgroup/pod/cpu.max", "1000 0\n");
	assert_true(kv_cgroup_cpus(root) == UINT64_MAX);
	put("/sys/fs/cgroup/pod/cpu.max", "1000\n");
	assert_true(kv_cgroup_cpus(root) == UINT64_MAX);
}

static void v1_quota_counts(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "4:cpuacct,cpu:/a\n");
	put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
	assert_true(kv_cgroup_cpus(root) == UINT64_MAX);
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	assert_int_equal(kv_cgroup_cpus(root), 2);
}

static void nonsense_is_no_limit(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "nonsense\n::\n0:\n\n0::/pod");
	put("/sys/fs/cgroup/pod/memory.max", "99999999999999999999999\n");
	put("/sys/fs/cgroup/pod/memory.current", "");
	put("/sys/fs/cgroup/pod/cpu.max", "");
	assert_true(kv_cgroup_memory_room(root) == UINT64_MAX);
	assert_true(kv_cgroup_cpus(root) == UINT64_MAX);
}

#define MACHINE_TEST(f) cmocka_unit_test_setup_teardown(f, root_make, root_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MACHINE_TEST(nothing_readable_is_no_limit),
		MACHINE_TEST(meminfo_gives_bytes),
		MACHINE_TEST(reserved_hugepages_are_not_free),
		MACHINE_TEST(v2_limits_count_from_leaf_to_root),
		MACHINE_TEST(idle_page_cache_counts_as_room),
		MACHINE_TEST(v1_limits_count),
		MACHINE_TEST(a_container_sees_its_group_as_the_mount),
		MACHINE_TEST(v2_quota_rounds_up_to_cpus),
		MACHINE_TEST(v1_quota_counts),
		MACHINE_TEST(nonsense_is_no_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
