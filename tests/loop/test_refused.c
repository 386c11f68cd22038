/* SPDX-License-Identifier: Apache-2.0 */
/* test_refused.c -- what loop_create says when the machine refuses. Each in a child, since the refusals are for life.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/sanitize.h"
#include "tests/loop/harness.h"

/* io_uring_setup returns this errno from now on. */
static int forbid_io_uring(int with_errno)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)with_errno & SECCOMP_RET_DATA)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = KV_COUNT(code), .filter = code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

static int limit(int resource, rlim_t value)
{
	const struct rlimit to = {.rlim_cur = value, .rlim_max = value};
	return setrlimit(resource, &to) < 0 ? -errno : 0;
}

static int no_permission(void)
{
	return forbid_io_uring(EPERM);
}

static int no_such_call(void)
{
	return forbid_io_uring(ENOSYS);
}

static int no_memlock(void)
{
	return forbid_io_uring(ENOMEM);
}

static int no_files(void)
{
	return limit(RLIMIT_NOFILE, 3);
}

static int one_file(void)
{
	return limit(RLIMIT_NOFILE, 5); /* the pipe's end and the eventfd fit, the ring does not */
}

static int no_address_space(void)
{
	return limit(RLIMIT_AS, 1 << 20);
}

static int no_entropy(const struct kv_entropy *e, void *out, size_t n)
{
	(void)e;
	(void)out;
	(void)n;
	return -EIO;
}

/* What loop_create returns and says in a child after prepare(). */
static int refusal(int (*prepare)(void), struct loop_options options, struct kv_error *err)
{
	int ends[2], status = 0;
	fflush(NULL);
	memset(err, 0, sizeof(*err));
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct kv_error in_child = {0};
		struct loop *loop = NULL;
		close(ends[0]);
		dup2(ends[1], 4); /* whatever it was, the child's files end at 4 */
		if (prepare && prepare() < 0)
			_exit(2);
		int rc = loop_create(&options, &loop, &in_child);
		if (rc != in_child.code || loop != NULL)
			_exit(3);
		_exit(write(4, &in_child, sizeof(in_child)) == sizeof(in_child) ? 0 : 4);
	}
	close(ends[1]);
	ssize_t n = read(ends[0], err, sizeof(*err));
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(n, sizeof(*err));
	printf("%s\n", err->text);
	return err->code;
}

static void forbidden_io_uring_names_the_setting(void **state)
{
	struct kv_error err;
	(void)state;
	assert_int_equal(refusal(no_permission, (struct loop_options){0}, &err), -KV_ELIMIT);
	assert_non_null(strstr(err.text, "seccomp"));
	assert_non_null(strstr(err.text, "io_uring_setup, io_uring_enter and io_uring_register"));
	assert_int_equal(refusal(no_such_call, (struct loop_options){0}, &err), -KV_ELIMIT);
	assert_non_null(strstr(err.text, "CONFIG_IO_URING"));
}

static void short_memlock_names_the_limit(void **state)
{
	struct kv_error err;
	(void)state;
	assert_int_equal(refusal(no_memlock, (struct loop_options){0}, &err), -KV_ELIMIT);
	assert_non_null(strstr(err.text, "ulimit -l"));
}

static void short_files_name_the_limit(void **state)
{
	struct kv_error err;
	const struct kv_entropy *kernel = &kv_entropy_kernel;
	(void)state;
	assert_int_equal(refusal(no_files, (struct loop_options){.entropy = kernel}, &err), -KV_ELIMIT);
	assert_non_null(strstr(err.text, "eventfd"));
	assert_non_null(strstr(err.text, "ulimit -n"));
	assert_int_equal(refusal(one_file, (struct loop_options){.entropy = kernel}, &err), -KV_ELIMIT);
	assert_non_null(strstr(err.text, "ulimit -n"));
}

static void need_address_space(void)
{
	if (!KV_ASAN && !KV_TSAN)
		return;
	print_message("a sanitizer needs terabytes of address space\n");
	skip();
}

static void short_address_space_names_the_limit(void **state)
{
	struct kv_error err;
	(void)state;
	need_address_space();
	assert_int_equal(refusal(no_address_space, (struct loop_options){0}, &err), -KV_ENOMEM);
	assert_non_null(strstr(err.text, "ulimit -v"));
	assert_null(strstr(err.text, "coroutines_max")); /* no option of a user's */
}

static void nothing(void *arg)
{
	(void)arg;
}

/* 16384 coroutines take a gigabyte of address space. */
static void little_address_space_makes_fewer_coroutines(void **state)
{
	int status = 0;
	(void)state;
	need_address_space();
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct kv_error err;
		struct loop *loop = NULL;
		if (limit(RLIMIT_AS, 256 << 20) < 0 ||
		    loop_create(&(struct loop_options){.name = "small"}, &loop, &err) < 0)
			_exit(2);
		_exit(co_spawn(loop, nothing, NULL, "one") == 0 ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Threads, buffers and the provider need some of it, too. */
static void little_address_space_is_not_all_taken(void **state)
{
	int status = 0;
	(void)state;
	need_address_space();
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct kv_error err;
		struct loop *loop = NULL;
		if (limit(RLIMIT_AS, 640 << 20) < 0 ||
		    loop_create(&(struct loop_options){.name = "small"}, &loop, &err) < 0)
			_exit(2);
		_exit(mmap(NULL, 320 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void missing_entropy_is_an_error(void **state)
{
	static const struct kv_entropy broken = {.fill = no_entropy};
	struct kv_error err;
	(void)state;
	assert_int_equal(refusal(NULL, (struct loop_options){.entropy = &broken}, &err), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forbidden_io_uring_names_the_setting),
		cmocka_unit_test(short_memlock_names_the_limit),
		cmocka_unit_test(short_files_name_the_limit),
		cmocka_unit_test(short_address_space_names_the_limit),
		cmocka_unit_test(little_address_space_makes_fewer_coroutines),
		cmocka_unit_test(little_address_space_is_not_all_taken),
		cmocka_unit_test(missing_entropy_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
