/* SPDX-License-Identifier: Apache-2.0 */
/* test_shortage.c -- each check with enough, with too little and with nothing to be seen, and what it advises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>

#include "host/host.h"
#include "tests/tree.h"

static struct kv_host host;
static struct kv_device_limits limits;
static struct kv_need need;
static struct kv_checkup checkup;

/* A host that has enough of everything, and a device likewise. */
static int plenty(void **state)
{
	(void)state;
	host = (struct kv_host){.files_open = 10,
				.files_soft = 65536,
				.files_hard = 1 << 20,
				.memlock_soft = KV_NO_LIMIT,
				.memlock_hard = KV_NO_LIMIT,
				.threads_soft = 4096,
				.threads_group = KV_NO_LIMIT,
				.memory_total = 64ull << 30,
				.memory_available = 32ull << 30,
				.memory_group = KV_NO_LIMIT,
				.cpus_group = KV_NO_LIMIT,
				.cpus = 16,
				.shm_total = 8ull << 30,
				.shm_free = 8ull << 30,
				.address_soft = KV_NO_LIMIT,
				.huge = {{.page_bytes = 1 << 30}, {.page_bytes = 2 << 20, .total = 1024, .free = 1024}},
				.maps_max = 65530,
				.ptrace_scope = -1,
				.uring_disabled = 0};
	kv_device_limits_unknown(&limits);
	snprintf(limits.device, sizeof(limits.device), "mlx5_0");
	snprintf(limits.provider, sizeof(limits.provider), "verbs");
	limits.pins_memory = true;
	limits.link = 1;
	limits.endpoints = 256;
	limits.endpoints_used = 0;
	limits.qps = limits.cqs = limits.mrs = 1000;
	limits.qps_used = limits.cqs_used = limits.mrs_used = 10;
	limits.cq_entries = 1 << 20;
	limits.mr_bytes = 1ull << 40;
	limits.pages = 24 << 20;
	need = (struct kv_need){.endpoints = 4,
				.qps = 4,
				.cqs = 4,
				.mrs = 40,
				.cq_entries = 8192,
				.registered_bytes = 256 << 20,
				.pages = 128,
				.part_bytes = 64 << 20,
				.pinned_bytes = 300 << 20,
				.memory_bytes = 300 << 20,
				.huge_bytes = 256 << 20,
				.files = 100,
				.threads = 4,
				.shm_bytes = 24 << 20,
				.mappings = 2048};
	checkup = (struct kv_checkup){
		.host = &host, .limits = &limits, .need = &need, .pins_memory = true, .cma_error = -1};
	return 0;
}

/* The verdict of a check; KV_SKIP when it gave none. */
static struct kv_verdict verdict(const char *id)
{
	struct kv_verdict v[KV_CHECKS_MAX];
	unsigned n = kv_check(&checkup, KV_CHECK_DEVICE | KV_CHECK_PROCESS | KV_CHECK_HOST, v, KV_COUNT(v));
	for (unsigned i = 0; i < n; i++)
		if (strcmp(v[i].id, id) == 0)
			return v[i];
	return (struct kv_verdict){.status = KV_SKIP};
}

static void is(const char *id, enum kv_status status, const char *text, const char *remedy)
{
	struct kv_verdict v = verdict(id);
	if (v.status != status || (text && !strstr(v.text, text)) || (remedy && !strstr(v.remedy, remedy)) ||
	    (!remedy && v.remedy[0]))
		fail_msg("%s is %d: '%s' '%s'; wanted %d: '%s' '%s'", id, v.status, v.text, v.remedy, status, text,
			 remedy);
}

/* The check fails, and its remedy does not say so. */
static void is_without(const char *id, const char *remedy)
{
	struct kv_verdict v = verdict(id);
	if (v.status != KV_FAIL || strstr(v.remedy, remedy))
		fail_msg("%s is %d: '%s' '%s'; not wanted: '%s'", id, v.status, v.text, v.remedy, remedy);
}

static void enough_of_everything_is_well(void **state)
{
	struct kv_verdict v[KV_CHECKS_MAX];
	(void)state;
	unsigned n = kv_check(&checkup, KV_CHECK_DEVICE | KV_CHECK_PROCESS | KV_CHECK_HOST, v, KV_COUNT(v));
	assert_int_equal(n, 16); /* all but the two of shm */
	for (unsigned i = 0; i < n; i++) {
		if (v[i].status != KV_OK || v[i].remedy[0] || !v[i].text[0])
			fail_msg("%s is %d: %s; %s", v[i].id, v[i].status, v[i].text, v[i].remedy);
	}
}

static void what_is_unknown_never_fails(void **state)
{
	struct kv_verdict v[KV_CHECKS_MAX];
	(void)state;
	assert_int_equal(tree_make(NULL), 0);
	kv_host_read(tree_root, &host); /* nothing there */
	assert_int_equal(tree_remove(NULL), 0);
	kv_device_limits_unknown(&limits);
	checkup.shared_memory = true;
	unsigned n = kv_check(&checkup, KV_CHECK_DEVICE | KV_CHECK_PROCESS | KV_CHECK_HOST, v, KV_COUNT(v));
	assert_true(n > 0);
	for (unsigned i = 0; i < n; i++)
		assert_int_not_equal(v[i].status, KV_FAIL);
}

static void a_cut_list_is_cut(void **state)
{
	struct kv_verdict v[3];
	(void)state;
	assert_int_equal(kv_check(&checkup, KV_CHECK_DEVICE | KV_CHECK_PROCESS, v, KV_COUNT(v)), 3);
}

static void limits_of_the_device_name_what_is_used_up(void **state)
{
	(void)state;
	limits.endpoints = 6;
	limits.endpoints_used = 3;
	is("endpoints", KV_FAIL, "needs 4, 6 allowed, 3 open in this process", "--num-clients");
	limits.endpoints_used = 2;
	is("endpoints", KV_OK, "needs 4, 6 allowed, 2 open", NULL);
	limits.qps = 256;
	limits.qps_used = 253;
	is("qps", KV_FAIL, "needs 4, 256 allowed, 253 in use on this machine", "rdma resource show qp");
	limits.cqs_used = 997;
	is("cqs", KV_FAIL, "1,000 allowed, 997 in use", "rdma resource show cq");
	limits.mrs_used = 1000;
	is("mrs", KV_FAIL, "1,000 in use", "fewer clients");
	limits.mrs_used = 2000; /* more than allowed: a limit that was lowered */
	is("mrs", KV_FAIL, "2,000 in use", "fewer clients");
}

static void too_few_completion_entries_name_the_setting(void **state)
{
	(void)state;
	need.cq_entries = 256 * 1024;
	need.cq_entries_per_peer = 256;
	limits.cq_entries = 32767;
	is("cq_entries", KV_FAIL, "needs 262,144, 32,767 allowed", "FI_UNIVERSE_SIZE=127 ");
	need.cq_entries_per_peer = 0;
	snprintf(limits.provider, sizeof(limits.provider), "efa");
	is("cq_entries", KV_FAIL, "32,767", "FI_EFA_CQ_SIZE");
	need.cq_entries = 32767;
	is("cq_entries", KV_OK, "needs 32,767", NULL);
}

static void a_link_that_is_down_is_told(void **state)
{
	(void)state;
	limits.link = 0;
	is("link", KV_FAIL, "no port is active", "rdma link");
	limits.link = -1;
	is("link", KV_SKIP, NULL, NULL);
}

static void large_regions_are_divided(void **state)
{
	(void)state;
	limits.mr_bytes = 32 << 20;
	is("mr_bytes", KV_INFO, "in parts", NULL);
}

static void page_table_entries_ask_for_huge_pages(void **state)
{
	(void)state;
	need.pages = 30 << 20;
	is("pages", KV_WARN, "needs 31,457,280, 25,165,824 allowed", "vm.nr_hugepages=129");
}

static void too_little_locked_memory_names_the_limit(void **state)
{
	(void)state;
	host.memlock_soft = 8 << 20;
	is("memlock", KV_FAIL, "needs 300 MiB, 8 MiB allowed", "ulimit -l $(ulimit -H -l)");
	host.memlock_hard = 8 << 20;
	is("memlock", KV_FAIL, "8 MiB", "/etc/security/limits.d/90-kvrail.conf");
	is("memlock", KV_FAIL, "8 MiB", "LimitMEMLOCK=infinity");
	host.root = true;
	is_without("memlock", "in this shell");
	host.raises_limits = true;
	is("memlock", KV_FAIL, "8 MiB", "`ulimit -l unlimited` in this shell");
	host.container = KV_CONTAINER_DOCKER;
	is("memlock", KV_FAIL, "8 MiB", "--ulimit memlock=-1");
	host.container = KV_CONTAINER_KUBERNETES;
	is("memlock", KV_FAIL, "8 MiB", "IPC_LOCK");
	host.locks_freely = true;
	is("memlock", KV_OK, "CAP_IPC_LOCK", NULL);
	host.locks_freely = false;
	checkup.pins_memory = false;
	is("memlock", KV_SKIP, NULL, NULL);
}

static void locked_already_counts(void **state)
{
	(void)state;
	host.memlock_soft = host.memlock_hard = 320 << 20;
	is("memlock", KV_OK, "needs 300 MiB, 320 MiB allowed", NULL);
	host.locked_bytes = 30 << 20;
	is("memlock", KV_FAIL, "30 MiB locked already", "LimitMEMLOCK");
}

static void too_few_open_files_name_the_limit(void **state)
{
	(void)state;
	host.files_soft = 100;
	is("files", KV_FAIL, "needs 116, 100 allowed, 10 open already", "`ulimit -n 65536`");
	host.files_hard = 100;
	is("files", KV_FAIL, "100 allowed", "LimitNOFILE=65536");
	is_without("files", "in this shell");
	host.root = true; /* but without the capability, as in most containers */
	is_without("files", "in this shell");
	host.raises_limits = true;
	is("files", KV_FAIL, "100 allowed", "`ulimit -n 65536` in this shell; for good: put");
	host.container = KV_CONTAINER_DOCKER;
	is("files", KV_FAIL, "100 allowed", "--ulimit nofile=65536:65536");
	need.files = 70000;
	is("files", KV_FAIL, "needs 70,016",
	   "`ulimit -n 131072` in this shell; for good: start the container with --ulimit nofile=131072:131072");
	host.files_hard = 80000;
	is("files", KV_FAIL, "needs 70,016", "`ulimit -n 80000` in this shell, or");
	need.files = 100;
	host.files_soft = 126;
	is("files", KV_OK, "needs 116, 126 allowed", NULL);
	host.files_soft = KV_NO_LIMIT;
	is("files", KV_OK, "needs 116, no limit", NULL);
	host.files_soft = KV_UNKNOWN;
	is("files", KV_INFO, "cannot be read", NULL);
}

static void too_few_threads_name_the_limit(void **state)
{
	(void)state;
	host.threads_group = 3;
	is("threads", KV_FAIL, "needs 4, 3 allowed", "--pids-limit");
	host.threads_group = KV_NO_LIMIT;
	host.threads_soft = 2;
	is("threads", KV_FAIL, "2 allowed", "ulimit -u");
	host.threads_soft = 100;
	host.threads_used = 97;
	is("threads", KV_FAIL, "needs 4, 100 allowed, 97 in use by this user", "ulimit -u");
	host.threads_used = 96;
	is("threads", KV_OK, "96 in use", NULL);
	host.threads_group = 3;
	is("threads", KV_FAIL, "needs 4, 3 allowed", "--pids-limit");
	host.threads_group = KV_NO_LIMIT;
	host.threads_used = 200;
	is("threads", KV_FAIL, "100 in use", "ulimit -u");
	host.root = host.mapped_users = true;
	is("threads", KV_FAIL, "100 in use", "ulimit -u");
	host.mapped_users = false;
	is("threads", KV_OK, "no limit", NULL);
}

static void too_little_address_space_names_the_limit(void **state)
{
	(void)state;
	is("address_space", KV_SKIP, NULL, NULL);
	host.address_soft = 1 << 30;
	host.address_used = 512 << 20;
	need.address_bytes = 512 << 20;
	is("address_space", KV_OK, "needs 512 MiB, 1 GiB allowed, 512 MiB in use", NULL);
	need.address_bytes++;
	is("address_space", KV_FAIL, "1 GiB allowed", "ulimit -v unlimited");
	host.address_soft = KV_NO_LIMIT;
	is("address_space", KV_SKIP, NULL, NULL);
	host.address_soft = KV_UNKNOWN;
	is("address_space", KV_SKIP, NULL, NULL);
}

static void too_little_memory_names_what_to_lower(void **state)
{
	(void)state;
	host.memory_available = 100 << 20;
	is("memory", KV_FAIL, "needs 300 MiB, 100 MiB available", "--buffer-mb");
	host.memory_available = 32ull << 30;
	host.memory_group = 200 << 20;
	is("memory", KV_FAIL, "200 MiB left in the cgroup", "resources.limits.memory");
	need.memory_soon_bytes = 201 << 20;
	is("memory", KV_FAIL, "needs 300 MiB, 200 MiB left in the cgroup", "resources.limits.memory");
	need.memory_soon_bytes = 200 << 20;
	is("memory", KV_WARN, "200 MiB of it at once, the rest as it is used", "resources.limits.memory");
}

/* Free hugetlb pages are no available memory, and what would lie in them needs none. */
static void memory_in_huge_pages_counts(void **state)
{
	(void)state;
	host.memory_available = 100 << 20;
	is("memory", KV_FAIL, "needs 300 MiB, 100 MiB available", "--buffer-mb");
	host.huge[1].allowed = 1024;
	is("memory", KV_OK, "needs 300 MiB, 100 MiB available, and 256 MiB in free huge pages", NULL);
	host.huge[1].allowed = 50; /* the hugetlb cgroup has no more for us */
	is("memory", KV_FAIL, "needs 300 MiB, 100 MiB available, and 100 MiB in free huge pages", "--buffer-mb");
}

static void missing_huge_pages_name_the_setting(void **state)
{
	(void)state;
	host.huge[1].free = 28;
	is("hugepages", KV_WARN, "256 MiB wanted, 56 MiB free of 2 GiB", "vm.nr_hugepages=1125");
	checkup.pins_memory = false;
	is("hugepages", KV_INFO, "ordinary pages", NULL);
	host.huge[0].free = 1;
	is("hugepages", KV_OK, "1.05 GiB free", NULL);
}

static void shared_memory_and_ptrace_name_their_settings(void **state)
{
	(void)state;
	checkup.shared_memory = true;
	is("shm", KV_OK, "needs 24 MiB, 8 GiB allowed", NULL);
	host.shm_free = host.shm_total = 1 << 20;
	is("shm", KV_FAIL, "1 MiB allowed", "`mount -o remount,size=1G /dev/shm`");
	need.shm_free_bytes = 3ull << 30; /* many processors */
	is("shm", KV_FAIL, "needs 3.02 GiB, 1 MiB allowed", "`mount -o remount,size=4G /dev/shm`");
	host.container = KV_CONTAINER_DOCKER;
	is("shm", KV_FAIL, "1 MiB allowed", "--shm-size=4g");
	host.shm_total = (2ull << 30) + (1 << 20); /* of which others have 2 GiB */
	is("shm", KV_FAIL, "1 MiB allowed", "--shm-size=6g");
	host.shm_free = 4ull << 30;
	is("shm", KV_OK, "needs 3.02 GiB, 4 GiB allowed", NULL);
	need.shm_free_bytes = 0;
	is("ptrace", KV_OK, "may read", NULL);
	host.container = KV_CONTAINER_NONE;
	host.ptrace_scope = 1;
	is("ptrace", KV_WARN, "ptrace_scope is 1", "kernel.yama.ptrace_scope=0");
	checkup.cma_error = 0; /* seen to work */
	is("ptrace", KV_OK, "(tried)", NULL);
	checkup.cma_error = EPERM;
	host.ptrace_scope = -1;
	host.container = KV_CONTAINER_DOCKER;
	is("ptrace", KV_WARN, "process_vm_readv", "SYS_PTRACE");
}

static void forbidden_io_uring_names_the_setting(void **state)
{
	(void)state;
	host.uring_disabled = 2;
	is("io_uring", KV_WARN, "kernel.io_uring_disabled is 2; loops use epoll", "kernel.io_uring_disabled=0");
	host.uring_disabled = 1;
	host.root = host.administers = true;
	is("io_uring", KV_OK, "not forbidden", NULL);
	host.administers = false; /* root of a container */
	is("io_uring", KV_WARN, "io_uring_disabled is 1", "io_uring_group");
	checkup.uring = ""; /* in the group: seen to work */
	is("io_uring", KV_OK, "the rings were made", NULL);
	host.uring_disabled = 0;
	host.seccomp = 2;
	checkup.uring = "Operation not permitted";
	is("io_uring", KV_WARN, "seccomp", "io_uring_setup");
	host.container = KV_CONTAINER_KUBERNETES;
	is("io_uring", KV_WARN, "seccomp", "seccompProfile");
	host.memlock_soft = 64 << 10; /* docker's default: a few rings */
	host.container = KV_CONTAINER_DOCKER;
	checkup.uring_code = -KV_ENOMEM;
	is("io_uring", KV_WARN, "64 KiB allowed", "--ulimit memlock=-1");
	checkup.uring_code = -KV_ELIMIT;
	checkup.uring = "eventfd: this process has all of its 40 files open; raise the limit (ulimit -n, LimitNOFILE)";
	checkup.loops_fail = true; /* epoll needs files, too */
	is("io_uring", KV_FAIL, "no event loop can be made: eventfd: this process has all of its 40 files open",
	   "raise the limit (ulimit -n, LimitNOFILE)");
	checkup.loops_fail = false;
	checkup.uring_code = -KV_ENOTSUP; /* in a container, whose filter has nothing to do with it */
	checkup.uring =
		"io_uring of this kernel is too old (no timed waits); Linux 5.11 or newer is needed, 6.1 is best";
	is("io_uring", KV_WARN, "too old", "5.11 or later");
	checkup.uring_code = -KV_ELIMIT;
	host.seccomp = 0;
	checkup.uring = "Function not implemented; and more";
	is("io_uring", KV_WARN, "Function not implemented", "CONFIG_IO_URING");
}

static void too_few_cpus_are_a_warning(void **state)
{
	(void)state;
	host.cpus = 2;
	is("cpus", KV_WARN, "4 threads that work, 2 CPUs", "--num-threads");
	host.cpus_group = 1;
	is("cpus", KV_WARN, "1 CPU (the cgroup's quota)", "resources.limits.cpu");
}

static void too_few_mappings_are_a_warning(void **state)
{
	(void)state;
	host.maps_max = 1000;
	is("maps", KV_WARN, "needs 2,048, 1,000 allowed", "vm.max_map_count=65530");
}

static void a_verdict_becomes_an_error(void **state)
{
	struct kv_error err;
	(void)state;
	limits.qps_used = 1000;
	struct kv_verdict v = verdict("qps");
	assert_int_equal(kv_verdict_fail(&v, "mlx5_0", &err), -KV_ELIMIT);
	assert_string_equal(err.text, "mlx5_0: queue pairs: needs 4, 1,000 allowed, 1,000 in use on this machine; "
				      "use fewer clients or rails, or end other programs that "
				      "use this device (`rdma resource show qp` lists them)");
}

static void needs_add_up(void **state)
{
	struct kv_need sum = {0}, b = need;
	(void)state;
	b.cq_entries = 100;
	kv_need_add(&sum, &need);
	kv_need_add(&sum, &b);
	assert_int_equal(sum.qps, 8);
	assert_int_equal(sum.files, 200);
	assert_int_equal(sum.pinned_bytes, 600 << 20);
	assert_int_equal(sum.cq_entries, 8192);
	assert_int_equal(sum.part_bytes, 64 << 20);
}

static void one_limit_can_be_asked_for(void **state)
{
	struct kv_verdict v;
	(void)state;
	assert_int_equal(kv_check_one(&checkup, KV_LIMIT_QPS, NULL), KV_OK);
	limits.qps_used = 1000;
	assert_int_equal(kv_check_one(&checkup, KV_LIMIT_QPS, &v), KV_FAIL);
	assert_string_equal(v.id, "qps");
	assert_int_equal(v.limit, KV_LIMIT_QPS);
	assert_int_equal(kv_check_one(&checkup, KV_LIMIT_SHM, &v), KV_SKIP);
	checkup.limits = NULL;
	assert_int_equal(kv_check_one(&checkup, KV_LIMIT_QPS, NULL), KV_SKIP);
}

/* An error crosses processes as text, and the limit that it blames is found again. */
static void a_sentence_names_its_limit(void **state)
{
	struct kv_verdict v[KV_CHECKS_MAX];
	struct kv_error err;
	char text[700];
	unsigned told = 0;
	(void)state;
	limits = (struct kv_device_limits){.link = 1}; /* of everything none, and so for the host */
	host = (struct kv_host){.files_soft = 1, .threads_soft = 1, .address_soft = 1, .huge = {{0}}};
	need.address_bytes = 1 << 20;
	checkup.shared_memory = true;
	unsigned n = kv_check(&checkup, KV_CHECK_DEVICE | KV_CHECK_PROCESS | KV_CHECK_HOST, v, KV_COUNT(v));
	for (unsigned i = 0; i < n; i++) {
		if (strncmp(v[i].text, "needs ", 6) != 0)
			continue;
		kv_verdict_fail(&v[i], "client 3: tcp on lo", &err);
		assert_int_equal(kv_limit_said(err.text), v[i].limit);
		snprintf(text, sizeof(text), "fi_enable: Cannot allocate memory; ");
		kv_verdict_short(&v[i], text + strlen(text), sizeof(text) - strlen(text));
		assert_int_equal(kv_limit_said(text), v[i].limit);
		told++;
	}
	assert_in_range(told, 12, KV_LIMITS);
	assert_int_equal(kv_limit_said("client 4: the peer is not reachable"), KV_LIMITS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(enough_of_everything_is_well, plenty),
		cmocka_unit_test_setup(what_is_unknown_never_fails, plenty),
		cmocka_unit_test_setup(a_cut_list_is_cut, plenty),
		cmocka_unit_test_setup(limits_of_the_device_name_what_is_used_up, plenty),
		cmocka_unit_test_setup(too_few_completion_entries_name_the_setting, plenty),
		cmocka_unit_test_setup(a_link_that_is_down_is_told, plenty),
		cmocka_unit_test_setup(large_regions_are_divided, plenty),
		cmocka_unit_test_setup(page_table_entries_ask_for_huge_pages, plenty),
		cmocka_unit_test_setup(too_little_locked_memory_names_the_limit, plenty),
		cmocka_unit_test_setup(locked_already_counts, plenty),
		cmocka_unit_test_setup(too_few_open_files_name_the_limit, plenty),
		cmocka_unit_test_setup(too_few_threads_name_the_limit, plenty),
		cmocka_unit_test_setup(too_little_address_space_names_the_limit, plenty),
		cmocka_unit_test_setup(too_little_memory_names_what_to_lower, plenty),
		cmocka_unit_test_setup(memory_in_huge_pages_counts, plenty),
		cmocka_unit_test_setup(missing_huge_pages_name_the_setting, plenty),
		cmocka_unit_test_setup(shared_memory_and_ptrace_name_their_settings, plenty),
		cmocka_unit_test_setup(forbidden_io_uring_names_the_setting, plenty),
		cmocka_unit_test_setup(too_few_cpus_are_a_warning, plenty),
		cmocka_unit_test_setup(too_few_mappings_are_a_warning, plenty),
		cmocka_unit_test_setup(a_verdict_becomes_an_error, plenty),
		cmocka_unit_test_setup(needs_add_up, plenty),
		cmocka_unit_test_setup(one_limit_can_be_asked_for, plenty),
		cmocka_unit_test_setup(a_sentence_names_its_limit, plenty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
