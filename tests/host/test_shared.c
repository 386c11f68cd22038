/* SPDX-License-Identifier: Apache-2.0 */
/* test_shared.c -- memory that other processes map: they read it, and can neither write nor shorten it. Functions of
 * the kernel are wrapped, so that a test can have another kernel. */
#include "tests/check.h"
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { MIB = 1 << 20, STRETCH = 2 << 20 };

/* ---- another kernel ---- */

static struct {
	bool no_noexec, no_future_write, strict, no_collapse, no_populate;
	uint64_t pool;                           /* free hugetlb pages of 2 MiB, which are ordinary ones here */
	int memfd_errno;                         /* 0: it works */
	_Atomic unsigned collapses, pool_memfds; /* threads map at the same time */
} kernel;

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
	if (kernel.no_noexec && flags & MFD_NOEXEC_SEAL)
		errno = EINVAL;
	else if (kernel.memfd_errno)
		errno = kernel.memfd_errno;
	else {
		kernel.pool_memfds +=
			flags == (MFD_HUGETLB | 21u << 26 | MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
		return __real_memfd_create(name, flags & (MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
	}
	return -1;
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
	va_list args;
	long arg;
	va_start(args, command);
	arg = va_arg(args, long);
	va_end(args);
	if (kernel.no_future_write && command == F_ADD_SEALS && arg & F_SEAL_FUTURE_WRITE) {
		errno = EINVAL;
		return -1;
	}
	return __real_fcntl(fd, command, arg);
}

int __real_madvise(void *base, size_t len, int advice);
int __wrap_madvise(void *base, size_t len, int advice);
int __wrap_madvise(void *base, size_t len, int advice)
{
	if (advice == MADV_COLLAPSE)
		atomic_fetch_add(&kernel.collapses, 1);
	if (advice == MADV_POPULATE_WRITE && kernel.no_populate) {
		errno = ENOMEM;
		return -1;
	}
	if (advice == MADV_COLLAPSE && kernel.no_collapse) {
		errno = EINVAL;
		return -1;
	}
	return __real_madvise(base, len, advice);
}

long __real_kv_file_number(long otherwise, const char *path, ...);
long __wrap_kv_file_number(long otherwise, const char *path, ...);
long __wrap_kv_file_number(long otherwise, const char *path, ...)
{
	char text[256];
	va_list args;
	va_start(args, path);
	vsnprintf(text, sizeof(text), path, args);
	va_end(args);
	if (strcmp(text, "/proc/sys/vm/overcommit_memory") == 0)
		return kernel.strict ? 2 : 0;
	return __real_kv_file_number(otherwise, "%s", text);
}

uint64_t __wrap_kv_pages_there(uint64_t len, uint64_t page_bytes, int node);
uint64_t __wrap_kv_pages_there(uint64_t len, uint64_t page_bytes, int node)
{
	(void)node;
	return page_bytes == STRETCH ? KV_MIN(kernel.pool, len / STRETCH) * STRETCH : 0;
}

static int usual_kernel(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	return 0;
}

static struct kv_area make(uint64_t len)
{
	struct kv_area area;
	struct kv_error err = {0};
	int rc = kv_area_map_shared(len, KV_NODE_ANY, &area, &err);
	if (rc == -KV_ENOTSUP) {
		print_message("%s\n", err.text);
		skip();
	}
	assert_int_equal(rc, 0);
	return area;
}

static unsigned open_files(void)
{
	unsigned n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += __real_fcntl(fd, F_GETFD, 0) >= 0;
	return n;
}

/* ---- who may do what ---- */

#define REFUSED(call) (errno = 0, (call) == -1 && (errno == EPERM || errno == EACCES))

/* Each attempt in turn, in another process. Returns the number of the first that the kernel allows; 0: none. */
static int attempts(int fd, uint64_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	char path[64];
	int again;
	if (p == MAP_FAILED || p[0] != 1 || p[len - 1] != 2)
		return 1;
	if (!REFUSED(mprotect(p, len, PROT_READ | PROT_WRITE)))
		return 2;
	if (mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED)
		return 3;
	if (!REFUSED(ftruncate(fd, (off_t)len / 2)) || !REFUSED(ftruncate(fd, (off_t)len * 2)))
		return 4;
	if (!REFUSED(pwrite(fd, "x", 1, 0)))
		return 5;
	if (!REFUSED(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)len)))
		return 6;
	if (!REFUSED(__real_fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE)))
		return 7;
	/* A new opening of the file has no other rights. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again >= 0 && mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) != MAP_FAILED)
		return 8;
	if (again >= 0 && !REFUSED(ftruncate(again, 0)))
		return 9;
	p[0] = 9; /* SIGSEGV */
	return 10;
}

static void others_read_and_can_neither_write_nor_shorten(void **state)
{
	struct kv_area area = make(4 * MIB);
	uint8_t *p = area.base;
	int status;
	(void)state;
	p[0] = 1;
	p[area.len_bytes - 1] = 2;
	pid_t child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka has a handler */
		_exit(attempts(area.fd, area.len_bytes));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGSEGV);
	assert_int_equal(p[0], 1);
	p[0] = 3; /* ours is writable still */
	assert_int_equal(p[0], 3);
	kv_area_unmap(&area);
}

static void a_landing_area_is_written_by_the_other_side(void **state)
{
	struct kv_area area;
	void *theirs;
	(void)state;
	assert_int_equal(kv_area_map_landing(3 * MIB, KV_NODE_ANY, &area, NULL), 0);
	assert_int_equal(area.len_bytes, 4 * MIB);
	assert_int_equal(area.page_bytes, 4096);
	assert_int_equal(kv_memfd_check(area.fd, area.len_bytes, NULL), 0);
	assert_int_equal(kv_memfd_map(area.fd, area.len_bytes, true, &theirs, NULL), 0);
	memset(theirs, 7, area.len_bytes);
	assert_int_equal(((uint8_t *)area.base)[area.len_bytes - 1], 7);
	assert_true(REFUSED(ftruncate(area.fd, 4096)));
	assert_true(REFUSED(__real_fcntl(area.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE)));
	munmap(theirs, area.len_bytes);
	kv_area_unmap(&area);
}

/* ---- areas ---- */

static void an_area_is_aligned_zeroed_and_counted(void **state)
{
	struct kv_area area = make(5 * MIB);
	char text[160];
	(void)state;
	assert_true(area.shared);
	assert_int_equal(area.len_bytes, 6 * MIB);
	assert_int_equal((uintptr_t)area.base % STRETCH, 0);
	assert_int_equal(area.pages.bytes_1g + area.pages.bytes_2m + area.pages.transparent + area.pages.plain,
			 6 * MIB);
	check_contains(kv_pages_format(&area.pages, text, sizeof(text)), "6 MiB in ");
	for (uint64_t i = 0; i < area.len_bytes; i++)
		assert_int_equal(((uint8_t *)area.base)[i], 0);
	kv_area_unmap(&area);
	assert_null(area.base);
	kv_area_unmap(&area);
}

static void a_large_area_is_not_touched(void **state)
{
	enum { LARGE = 256 * MIB };
	uint64_t before = kv_memory_rss();
	struct kv_area area = make(LARGE);
	(void)state;
	assert_true(area.page_bytes != 4096 || kv_memory_rss() < before + LARGE / 2);
	kv_area_unmap(&area);
}

static void descriptors_are_given_back(void **state)
{
	unsigned before = open_files();
	struct kv_area area = make(STRETCH);
	(void)state;
	assert_true(__real_fcntl(area.fd, F_GETFD, 0) & FD_CLOEXEC);
	kv_area_unmap(&area);
	kernel.no_future_write = true;
	assert_int_equal(kv_area_map_shared(STRETCH, KV_NODE_ANY, &area, NULL), -KV_ENOTSUP);
	assert_int_equal(open_files(), before);
}

static void pages_of_a_pool_are_used_if_all_fit(void **state)
{
	struct kv_area area;
	(void)state;
	kernel.pool = 4;
	area = make(8 * MIB);
	assert_int_equal(kernel.pool_memfds, 1);
	assert_int_equal(area.pages.bytes_2m, 8 * MIB);
	assert_int_equal(area.page_bytes, STRETCH);
	assert_null(area.ready);
	kv_area_unmap(&area);
	area = make(10 * MIB);
	assert_int_equal(kernel.pool_memfds, 1);
	assert_int_equal(area.pages.bytes_2m, 0);
	assert_int_equal(area.page_bytes, 4096);
	kv_area_unmap(&area);
	/* Not for a writer, which may punch holes. */
	assert_int_equal(kv_area_map_landing(2 * MIB, KV_NODE_ANY, &area, NULL), 0);
	assert_int_equal(area.pages.bytes_2m, 0);
	kv_area_unmap(&area);
}

static void pages_of_a_pool_that_are_refused_at_the_touch_are_not_used(void **state)
{
	unsigned before = open_files();
	struct kv_area area;
	(void)state;
	kernel.pool = 4;
	kernel.no_populate = true;
	area = make(8 * MIB);
	assert_int_equal(kernel.pool_memfds, 1);
	assert_int_equal(area.pages.bytes_2m, 0);
	assert_int_equal(open_files(), before + 1);
	((uint8_t *)area.base)[8 * MIB - 1] = 1;
	kv_area_unmap(&area);
	assert_int_equal(open_files(), before);
}

/* ---- other kernels ---- */

static void a_kernel_without_the_seal_is_named(void **state)
{
	struct kv_area area;
	struct kv_error err = {0};
	(void)state;
	kernel.no_future_write = true;
	assert_int_equal(kv_area_map_shared(STRETCH, KV_NODE_ANY, &area, &err), -KV_ENOTSUP);
	check_contains(err.text, "Linux 5.1");
	assert_int_equal(kv_area_map_landing(STRETCH, KV_NODE_ANY, &area, &err), 0);
	kv_area_unmap(&area);
}

static void a_kernel_without_noexec_memfds_will_do(void **state)
{
	struct kv_area area;
	(void)state;
	kernel.no_noexec = true;
	area = make(STRETCH);
	assert_int_equal(kv_memfd_check(area.fd, STRETCH, NULL), 0);
	kv_area_unmap(&area);
}

static void strict_accounting_is_named(void **state)
{
	struct kv_area area;
	struct kv_error err = {0};
	(void)state;
	kernel.strict = true;
	assert_int_equal(kv_area_map_shared(STRETCH, KV_NODE_ANY, &area, &err), -KV_ENOTSUP);
	check_contains(err.text, "vm.overcommit_memory is 2");
}

static void what_is_missing_is_named(void **state)
{
	struct kv_area area;
	struct kv_error err = {0};
	int fd;
	(void)state;
	kernel.memfd_errno = EMFILE;
	assert_int_equal(kv_area_map_shared(STRETCH, KV_NODE_ANY, &area, &err), -KV_ELIMIT);
	check_contains(err.text, "open files");
	assert_int_equal(kv_memfd_make("test", 4096, &fd, &err), -KV_ELIMIT);
	kernel.memfd_errno = ENOMEM;
	assert_int_equal(kv_area_map_shared(STRETCH, KV_NODE_ANY, &area, &err), -KV_ENOMEM);
	kernel.memfd_errno = ENOSYS;
	assert_int_equal(kv_area_map_shared(STRETCH, KV_NODE_ANY, &area, &err), -KV_ENOTSUP);
	check_contains(err.text, "shared memory");
}

static void nothing_and_too_much_are_refused(void **state)
{
	struct kv_area area = {.base = &area, .len_bytes = 7};
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(kv_area_map_shared(0, KV_NODE_ANY, &area, &err), -KV_EINVAL);
	assert_int_equal(kv_area_map_shared(UINT64_MAX, KV_NODE_ANY, &area, &err), -KV_ENOMEM);
	assert_int_equal(kv_area_map_shared((uint64_t)1 << 61, KV_NODE_ANY, &area, &err), -KV_ENOMEM);
	check_contains(err.text, "2 EiB");
	assert_int_equal(area.len_bytes, 7);
}

/* ---- huge pages on request ---- */

/* Bytes of this mapping in huge pages. */
static uint64_t huge_bytes(const void *base)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512], start[32];
	unsigned long long kib = 0;
	bool ours = false;
	snprintf(start, sizeof(start), "%lx-", (unsigned long)(uintptr_t)base);
	while (f && fgets(line, sizeof(line), f)) {
		if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
			ours = strncmp(line, start, strlen(start)) == 0;
		if (ours && sscanf(line, "ShmemPmdMapped: %llu", &kib) == 1)
			break;
	}
	if (f)
		fclose(f);
	return kib << 10;
}

static struct kv_area make_collapsed(uint64_t len)
{
	struct kv_area area = make(len);
	if (!area.ready) {
		kv_area_unmap(&area);
		print_message("this kernel collapses no shared memory (Linux 6.1 does), or the pool has pages\n");
		skip();
	}
	return area;
}

static void stretches_become_huge_before_use_and_once(void **state)
{
	struct kv_area area = make_collapsed(16 * MIB);
	uint8_t *p = area.base;
	void *theirs;
	(void)state;
	kernel.collapses = 0;
	p[5 * MIB] = 5;
	kv_area_ready(&area, 4 * MIB, 2 * MIB);
	assert_int_equal(kernel.collapses, 1);
	assert_int_equal(p[5 * MIB], 5);
	kv_area_ready(&area, 5 * MIB, MIB);
	kv_area_ready(&area, 4 * MIB, 0);
	assert_int_equal(kernel.collapses, 1);
	kv_area_ready(&area, 6 * MIB - 1, 2);
	assert_int_equal(kernel.collapses, 2);
	kv_area_ready(&area, 0, 16 * MIB);
	assert_int_equal(kernel.collapses, 8);
	assert_int_equal(p[5 * MIB], 5);
	/* A lack of huge pages is no error; where there are some, another mapping has them as well. */
	if (huge_bytes(p) == 16 * MIB) {
		assert_int_equal(kv_memfd_map(area.fd, area.len_bytes, false, &theirs, NULL), 0);
		for (uint64_t at = 0; at < area.len_bytes; at += 4096)
			p[at] = ((uint8_t *)theirs)[at];
		assert_int_equal(huge_bytes(theirs), 16 * MIB);
		munmap(theirs, area.len_bytes);
	}
	kv_area_unmap(&area);
}

static void all_pages_are_made_at_once(void **state)
{
	struct kv_area area = make_collapsed(8 * MIB);
	unsigned threads;
	(void)state;
	int rc = kv_area_populate(&area, &threads);
	if (rc != -KV_ENOTSUP) {
		assert_int_equal(rc, 0);
		assert_true(threads >= 1);
		assert_true(huge_bytes(area.base) % STRETCH == 0);
	}
	kv_area_unmap(&area);
}

static void a_kernel_that_collapses_nothing_has_small_pages(void **state)
{
	struct kv_area area;
	(void)state;
	kernel.no_collapse = true;
	area = make(4 * MIB);
	assert_null(area.ready);
	kernel.collapses = 0;
	kv_area_ready(&area, 0, 4 * MIB);
	assert_int_equal(kernel.collapses, 0);
	kv_area_unmap(&area);
}

/* ---- received memory ---- */

static void memory_is_checked_before_it_is_mapped(void **state)
{
	struct kv_error err = {0};
	int fd, unsealed = __real_memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	(void)state;
	assert_int_equal(kv_memfd_make("test", 8192, &fd, NULL), 0);
	assert_int_equal(kv_memfd_check(fd, 8192, &err), 0);
	assert_int_equal(kv_memfd_check(fd, 8193, &err), -KV_EPROTO);
	assert_int_equal(kv_memfd_check(fd, UINT64_MAX, &err), -KV_EPROTO);
	assert_int_equal(kv_memfd_check(fd, 0, &err), -KV_EPROTO);
	check_contains(err.text, "shorter");
	assert_int_equal(ftruncate(unsealed, 8192), 0);
	assert_int_equal(kv_memfd_check(unsealed, 8192, &err), -KV_EPROTO);
	check_contains(err.text, "sealed");
	assert_int_equal(kv_memfd_check(STDIN_FILENO, 1, &err), -KV_EPROTO);
	assert_int_equal(kv_memfd_check(-1, 1, &err), -KV_EPROTO);
	close(fd);
	close(unsealed);
}

/* ---- gaps that other threads take ---- */

static void *maps_often(void *arg)
{
	enum { TIMES = 2000 };
	uint64_t len = (uint64_t)2 << 20;
	long failed = 0;
	for (int i = 0; i < TIMES; i++) {
		void *base;
		if (kv_memfd_map(*(int *)arg, len, false, &base, NULL) == 0)
			munmap(base, len);
		else
			failed++;
	}
	return (void *)failed;
}

static void threads_that_map_at_the_same_time_all_succeed(void **state)
{
	pthread_t thread[8];
	void *failed;
	int fd;
	(void)state;
	assert_int_equal(kv_memfd_make("kvrail-test", (uint64_t)2 << 20, &fd, NULL), 0);
	for (unsigned i = 0; i < KV_COUNT(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, maps_often, &fd), 0);
	for (unsigned i = 0; i < KV_COUNT(thread); i++) {
		assert_int_equal(pthread_join(thread[i], &failed), 0);
		assert_null(failed);
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_that_map_at_the_same_time_all_succeed),
		cmocka_unit_test_setup(others_read_and_can_neither_write_nor_shorten, usual_kernel),
		cmocka_unit_test_setup(a_landing_area_is_written_by_the_other_side, usual_kernel),
		cmocka_unit_test_setup(an_area_is_aligned_zeroed_and_counted, usual_kernel),
		cmocka_unit_test_setup(a_large_area_is_not_touched, usual_kernel),
		cmocka_unit_test_setup(descriptors_are_given_back, usual_kernel),
		cmocka_unit_test_setup(pages_of_a_pool_are_used_if_all_fit, usual_kernel),
		cmocka_unit_test_setup(pages_of_a_pool_that_are_refused_at_the_touch_are_not_used, usual_kernel),
		cmocka_unit_test_setup(a_kernel_without_the_seal_is_named, usual_kernel),
		cmocka_unit_test_setup(a_kernel_without_noexec_memfds_will_do, usual_kernel),
		cmocka_unit_test_setup(strict_accounting_is_named, usual_kernel),
		cmocka_unit_test_setup(what_is_missing_is_named, usual_kernel),
		cmocka_unit_test_setup(nothing_and_too_much_are_refused, usual_kernel),
		cmocka_unit_test_setup(stretches_become_huge_before_use_and_once, usual_kernel),
		cmocka_unit_test_setup(all_pages_are_made_at_once, usual_kernel),
		cmocka_unit_test_setup(a_kernel_that_collapses_nothing_has_small_pages, usual_kernel),
		cmocka_unit_test_setup(memory_is_checked_before_it_is_mapped, usual_kernel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
