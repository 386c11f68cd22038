/* SPDX-License-Identifier: Apache-2.0 */
/* test_limits.c -- the limits of other machines, from copied trees, and of this one. */
#include "tests/check.h"

#include <sys/resource.h>
#include <time.h>

#include "tests/tree.h"
#include "host/host.h"

static const char limits_text[] = "Limit                     Soft Limit           Hard Limit           Units     \n"
				  "Max processes             96365                96365                processes \n"
				  "Max open files            1024                 4096                 files     \n"
				  "Max locked memory         8388608              unlimited            bytes     \n";

static struct kv_host read_tree(void)
{
	struct kv_host h;
	kv_host_read(tree_root, &h);
	return h;
}

static void nothing_readable_is_unknown(void **state)
{
	(void)state;
	struct kv_host h = read_tree();
	assert_true(h.files_soft == KV_UNKNOWN && h.files_hard == KV_UNKNOWN && h.files_open == KV_UNKNOWN);
	assert_true(h.memlock_soft == KV_UNKNOWN && h.locked_bytes == KV_UNKNOWN && !h.locks_freely);
	assert_true(h.memory_available == KV_UNKNOWN && h.shm_free == KV_UNKNOWN && h.maps_max == KV_UNKNOWN);
	assert_true(h.memory_group == KV_NO_LIMIT && h.threads_group == KV_NO_LIMIT && h.cpus_group == KV_NO_LIMIT);
	assert_int_equal(h.ptrace_scope, -1);
	assert_int_equal(h.uring_disabled, -1);
	assert_int_equal(h.seccomp, -1);
	assert_int_equal(h.container, KV_CONTAINER_NONE);
	assert_string_equal(h.kernel, "");
}

static void limits_are_read(void **state)
{
	(void)state;
	tree_put("/proc/self/limits", limits_text);
	struct kv_host h = read_tree();
	assert_int_equal(h.files_soft, 1024);
	assert_int_equal(h.files_hard, 4096);
	assert_int_equal(h.memlock_soft, 8 << 20);
	assert_true(h.memlock_hard == KV_NO_LIMIT);
	assert_int_equal(h.threads_soft, 96365);
}

static void limits_of_nonsense_are_unknown(void **state)
{
	(void)state;
	tree_put("/proc/self/limits", "Max open files            many\nMax locked memory         x y bytes\n");
	struct kv_host h = read_tree();
	assert_true(h.files_soft == KV_UNKNOWN);
	assert_true(h.memlock_soft == KV_UNKNOWN);
}

static void the_status_is_read(void **state)
{
	(void)state;
	tree_put("/proc/self/status", "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nVmLck:\t    64 kB\nVmPin:\t    36 kB\n"
				      "CapEff:\t0000000000004000\nSeccomp:\t2\nCpus_allowed:\t0000000f,ff000001\n");
	struct kv_host h = read_tree();
	assert_int_equal(h.locked_bytes, 100 << 10);
	assert_true(h.locks_freely && !h.raises_limits && !h.administers);
	assert_false(h.root);
	assert_int_equal(h.seccomp, 2);
	assert_int_equal(h.cpus, 13);
	tree_put("/proc/self/status", "Uid:\t1000\t0\t0\t0\nCapEff:\t0000000000002000\n");
	h = read_tree();
	assert_true(h.root);
	assert_false(h.locks_freely);
	tree_put("/proc/self/status", "CapEff:\t0000000001200000\n");
	h = read_tree();
	assert_true(h.raises_limits && h.administers && !h.locks_freely);
}

static void capabilities_of_a_user_namespace_lift_no_limit(void **state)
{
	(void)state;
	tree_put("/proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n");
	tree_put("/proc/self/uid_map", "         0          0 4294967295\n");
	struct kv_host h = read_tree();
	assert_true(h.root && !h.mapped_users && h.locks_freely && h.raises_limits && h.administers);
	tree_put("/proc/self/uid_map", "         0       1000          1\n         1     100000      65536\n");
	h = read_tree();
	assert_true(h.root && h.mapped_users && !h.locks_freely && !h.raises_limits && !h.administers);
}

static void huge_pages_have_a_pool_of_each_size(void **state)
{
	(void)state;
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n");
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "60\n");
	tree_put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "10\n");
	struct kv_host h = read_tree();
	assert_int_equal(h.huge[0].total, 0);
	assert_int_equal(h.huge[1].page_bytes, 2 << 20);
	assert_int_equal(h.huge[1].total, 64);
	assert_int_equal(h.huge[1].free, 50);
}

static void switches_are_read(void **state)
{
	(void)state;
	tree_put("/proc/sys/kernel/io_uring_disabled", "2\n");
	tree_put("/proc/sys/kernel/yama/ptrace_scope", "1\n");
	tree_put("/proc/sys/vm/max_map_count", "262144\n");
	tree_put("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
	tree_put("/etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
	struct kv_host h = read_tree();
	assert_int_equal(h.uring_disabled, 2);
	assert_int_equal(h.ptrace_scope, 1);
	assert_int_equal(h.maps_max, 262144);
	assert_string_equal(h.kernel, "6.1.0-18-amd64");
	assert_string_equal(h.system, "Debian GNU/Linux 12 (bookworm)");
}

static void the_pids_cgroup_limits_threads(void **state)
{
	(void)state;
	tree_put("/proc/self/cgroup", "0::/pod\n");
	tree_put("/sys/fs/cgroup/pod/pids.max", "100\n");
	tree_put("/sys/fs/cgroup/pod/pids.current", "93\n");
	assert_int_equal(read_tree().threads_group, 7);
	tree_put("/sys/fs/cgroup/pod/pids.max", "max\n");
	assert_true(read_tree().threads_group == KV_NO_LIMIT);
}

static void containers_are_told_apart(void **state)
{
	(void)state;
	tree_put("/proc/self/cgroup", "0::/kubepods/burstable/podx\n");
	assert_int_equal(read_tree().container, KV_CONTAINER_KUBERNETES);
	tree_put("/proc/self/cgroup", "3:memory:/docker/0123\n");
	assert_int_equal(read_tree().container, KV_CONTAINER_DOCKER);
	tree_put("/proc/self/cgroup", "0::/\n");
	assert_int_equal(read_tree().container, KV_CONTAINER_NONE);
	tree_put("/run/.containerenv", "");
	assert_int_equal(read_tree().container, KV_CONTAINER_PODMAN);
	assert_string_equal(kv_container_name(KV_CONTAINER_PODMAN), "podman");
	tree_put("/.dockerenv", "");
	assert_int_equal(read_tree().container, KV_CONTAINER_DOCKER);
}

static void this_machine_is_read(void **state)
{
	struct kv_host h;
	struct rlimit rl;
	(void)state;
	kv_host_read("", &h);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &rl), 0);
	if (rl.rlim_cur != RLIM_INFINITY)
		assert_int_equal(h.files_soft, rl.rlim_cur);
	assert_in_range(h.files_open, 3, 1000000);
	assert_true(h.cpus >= 1);
	assert_true(h.memory_available <= h.memory_total);
	assert_int_equal(h.root, geteuid() == 0);
	assert_true(h.threads_used == KV_UNKNOWN);
	kv_host_threads_count(&h);
	assert_in_range(h.threads_used, 1, 10000000);
}

static void a_process_is_seen(void **state)
{
	struct kv_process p, more;
	(void)state;
	kv_process_read(0, &p);
	assert_in_range(p.rss, 1 << 20, 1ull << 40);
	assert_true(p.memory >= p.rss);
	assert_in_range(p.threads, 1, 64);
	int fd = dup(1);
	kv_process_read(0, &more);
	close(fd);
	assert_int_equal(more.files, p.files + 1);
	kv_process_read((int)getpid(), &more);
	assert_in_range(more.rss, 1 << 20, 1ull << 40);
	assert_true(more.files_soft == p.files_soft && more.files_soft >= more.files);
	kv_process_read(999999999, &more);
	assert_int_equal(more.rss + more.memory + more.files + more.threads, 0);
	assert_true(more.files_soft == KV_UNKNOWN);
}

static double own_seconds(void)
{
	struct timespec t;
	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Not in ticks of the kernel's: a short phase of a server would have none, or one that is not its own. */
static void processor_time_is_finer_than_a_tick(void **state)
{
	(void)state;
	double before = own_seconds(), from = kv_process_cpu_seconds((int)getpid()), until = own_seconds() + 0.002;
	while (own_seconds() < until)
		;
	double used = kv_process_cpu_seconds((int)getpid()) - from;
	assert_true(used > 0.0019 && used < own_seconds() - before + 0.0001);
	assert_true(kv_process_cpu_seconds(0) == 0 && kv_process_cpu_seconds(999999999) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_readable_is_unknown, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(limits_are_read, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(limits_of_nonsense_are_unknown, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(capabilities_of_a_user_namespace_lift_no_limit, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(the_status_is_read, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(huge_pages_have_a_pool_of_each_size, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(switches_are_read, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(the_pids_cgroup_limits_threads, tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(containers_are_told_apart, tree_make, tree_remove),
		cmocka_unit_test(this_machine_is_read),
		cmocka_unit_test(a_process_is_seen),
		cmocka_unit_test(processor_time_is_finer_than_a_tick),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
