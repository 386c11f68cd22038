/* SPDX-License-Identifier: Apache-2.0 */
/* test_refused.c -- what loop_create says when the machine refuses, and that it takes epoll where io_uring is
 * forbidden. Each in a child, since the refusals are for life. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/sanitize.h"
#include "tests/loop/harness.h"
#include "tests/loop/seccomp.h"

static int limit(int resource, rlim_t value)
{
	const struct rlimit to = {.rlim_cur = value, .rlim_max = value};
	return setrlimit(resource, &to) < 0 ? -errno : 0;
}

static int no_permission(void)
{
	return seccomp_forbid(SYS_io_uring_setup, EPERM);
}

static int no_such_call(void)
{
	return seccomp_forbid(SYS_io_uring_setup, ENOSYS);
}

static int no_memlock(void)
{
	return seccomp_forbid(SYS_io_uring_setup, ENOMEM);
}

static int no_access(void)
{
	return seccomp_forbid(SYS_io_uring_setup, EACCES);
}

static int old_kernel(void)
{
	return seccomp_forbid(SYS_io_uring_setup, EINVAL);
}

/* A filter that knows one of the three calls, or answers with an errno of its own. */
static int no_enter(void)
{
	return seccomp_forbid(SYS_io_uring_enter, EPERM);
}

static int no_register(void)
{
	return seccomp_forbid(SYS_io_uring_register, ENOSYS);
}

static int odd_answer(void)
{
	return seccomp_forbid(SYS_io_uring_setup, EIO);
}

static int no_files(void)
{
	return limit(RLIMIT_NOFILE, 3);
}

static int one_file(void)
{
	return limit(RLIMIT_NOFILE, 5); /* the pipe's end and the eventfd fit, the ring does not */
}

static int one_file_and_no_uring(void)
{
	int rc = no_permission();
	return rc < 0 ? rc : one_file();
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

static atomic_int said;

static void count_epoll(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	said += strncmp(line, "loops use epoll", 15) == 0;
}

static void answer_one_byte(void *arg)
{
	char c = 0;
	if (io_read_await(((int *)arg)[0], &c, 1, KV_NEVER) != 1 || c != 'x')
		_exit(5);
}

static int descriptors_of(const char *what)
{
	char path[64], target[64];
	int count = 0;
	for (int fd = 0; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		count += n > 0 && strstr(target, what);
	}
	return count;
}

/* In a child where prepare() forbids io_uring: it is really off, loops work nevertheless and say why, the log hears of
 * it once in the life of the process, and as many descriptors are taken as with io_uring. */
static void works_on_epoll(int (*prepare)(void), int code, const char *word)
{
	int status = 0;
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		const struct kv_log quiet = {.level = KV_LOG_ERROR, .write = count_epoll},
				    log = {.level = KV_LOG_INFO, .write = count_epoll};
		struct loop *loop[3] = {NULL};
		struct kv_error err;
		char params[256] = "";
		int ends[2], before;
		if (prepare() < 0 || pipe(ends) < 0)
			_exit(2);
		if (prepare != no_enter && prepare != no_register && syscall(SYS_io_uring_setup, 4, params) >= 0)
			_exit(3);
		before = descriptors_of("");
		for (int i = 0; i < 3; i++) {
			const struct loop_options options = {.log = i == 0 ? &quiet : &log};
			if (loop_create(&options, &loop[i], &err) < 0 || !loop_fallback(loop[i]))
				_exit(4);
			if (said != (i == 0 ? 0 : 1)) /* a log that does not take it does not count */
				_exit(6);
		}
		if (descriptors_of("io_uring") > 0 || descriptors_of("eventpoll") != 3)
			_exit(7);
		if (descriptors_of("") != before + 3 * 2) /* a loop takes two (kvdoctor/plan.c) */
			_exit(8);
		if (loop_fallback(loop[2])->code != code || !strstr(loop_fallback(loop[2])->text, word))
			_exit(9);
		if (co_spawn(loop[2], answer_one_byte, ends, "one") < 0 || loop_turn(loop[2], 0) != 1 ||
		    write(ends[1], "x", 1) != 1)
			_exit(10);
		for (int i = 0; i < 1000 && harness_live(loop[2]) > 0; i++)
			loop_turn(loop[2], 10 * MS);
		if (harness_live(loop[2]) > 0)
			_exit(12);
		for (int i = 0; i < 3; i++)
			loop_destroy(&loop[i]);
		_exit(descriptors_of("") == before ? 0 : 11);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void forbidden_io_uring_means_epoll(void **state)
{
	(void)state;
	works_on_epoll(no_permission, -KV_ELIMIT, "io_uring_setup, io_uring_enter and io_uring_register");
	works_on_epoll(no_access, -KV_ELIMIT, "seccomp");
	works_on_epoll(no_such_call, -KV_ELIMIT, "CONFIG_IO_URING");
	works_on_epoll(old_kernel, -KV_ENOTSUP, "too old");
}

/* A ring that can be made, and not used. */
static void io_uring_that_is_forbidden_in_part_means_epoll(void **state)
{
	char params[256] = "";
	int fd = (int)syscall(SYS_io_uring_setup, 4, params);
	(void)state;
	if (fd < 0) {
		print_message("io_uring is forbidden here as a whole\n");
		skip();
	}
	close(fd);
	works_on_epoll(no_enter, -KV_ELIMIT, "io_uring_enter: Operation not permitted; io_uring is forbidden");
	works_on_epoll(no_register, -KV_ELIMIT, "io_uring_register: Function not implemented; io_uring is forbidden");
	works_on_epoll(odd_answer, -KV_ELIMIT, "io_uring_setup: Input/output error; io_uring is forbidden");
}

static void short_memlock_means_epoll(void **state)
{
	(void)state;
	works_on_epoll(no_memlock, -KV_ENOMEM, "ulimit -l");
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
	assert_int_equal(refusal(one_file_and_no_uring, (struct loop_options){.entropy = kernel}, &err), -KV_ELIMIT);
	assert_non_null(strstr(err.text, "epoll_create1"));
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

/* The limits of files are counted from the three that a program has: whatever else it was started with is closed. */
static void files_close(void)
{
	for (int fd = 0; fd < 1024; fd++)
		if (fd > STDERR_FILENO)
			close(fd);
		else if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", O_RDWR); /* it takes the lowest number */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forbidden_io_uring_means_epoll),
		cmocka_unit_test(io_uring_that_is_forbidden_in_part_means_epoll),
		cmocka_unit_test(short_memlock_means_epoll),
		cmocka_unit_test(short_files_name_the_limit),
		cmocka_unit_test(short_address_space_names_the_limit),
		cmocka_unit_test(little_address_space_makes_fewer_coroutines),
		cmocka_unit_test(little_address_space_is_not_all_taken),
		cmocka_unit_test(missing_entropy_is_an_error),
	};
	files_close();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
