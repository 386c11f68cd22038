/* SPDX-License-Identifier: Apache-2.0 */
/* test_stdio.c -- a host process that has closed its standard streams: nothing of ours or of libfabric's has their
 * numbers, and no log line goes anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/base.h"
#include "server.h"

static struct test_server server;
static const struct test_server *const one[] = {&server};

static bool is_null_device(int fd)
{
	char link[32], path[64] = "";
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlink(link, path, sizeof(path) - 1) > 0 && strcmp(path, "/dev/null") == 0;
}

static bool all_null(void)
{
	return is_null_device(0) && is_null_device(1) && is_null_device(2);
}

/* 0, or the number of what was wrong. */
static int host_life(void)
{
	struct kvc_options o = test_options(one, 1, 1);
	struct kvc_key key = {"stdio", 5};
	struct kv_error err = {0};
	struct kvc_pool *pool;
	char value[5] = "";
	for (int fd = 0; fd <= 2; fd++)
		close(fd);
	o.log = NULL; /* to standard error */
	o.log_level = KV_LOG_DEBUG;
	if (kvc_pool_open(&o, &pool, &err) < 0)
		return 1;
	if (!all_null())
		return 2;
	if (kvc_put(pool, key, "value", 5, NULL) != 0 || kvc_get(pool, key, value, 5, NULL) != 5 ||
	    memcmp(value, "value", 5) != 0)
		return 3;
	kvc_pool_close(&pool);
	return all_null() ? 0 : 4;
}

static int in_child(int (*fn)(void))
{
	int status = -1;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void closed_standard_streams_are_nobody_elses(void **state)
{
	(void)state;
	test_server_need(&server);
	assert_int_equal(in_child(host_life), 0);
}

static int what_is_open_stays(void)
{
	int other = open("/dev/zero", O_RDWR);
	if (dup2(other, 1) != 1 || dup2(other, 2) != 2 || close(0) != 0)
		return 1;
	if (kv_stdio_reserve(NULL) != 0 || !is_null_device(0))
		return 2;
	return is_null_device(1) || is_null_device(2) ? 3 : 0;
}

static int without_files(void)
{
	struct rlimit none = {0};
	struct kv_error err = {0};
	close(1);
	if (setrlimit(RLIMIT_NOFILE, &none) != 0)
		return 1;
	if (kv_stdio_reserve(&err) != -KV_ELIMIT)
		return 2;
	return strstr(err.text, "descriptor 1 is closed") ? 0 : 3;
}

/* Of a program that prints its result: nobody would notice it in /dev/null. */
static int a_result_that_nobody_takes(void)
{
	close(0);
	close(1);
	close(2);
	kv_stdio_keep();
	if (write(1, "x", 1) != -1 || errno != EBADF)
		return 1;
	if (!is_null_device(0) || !is_null_device(1) || !is_null_device(2) || write(2, "x", 1) != 1)
		return 2;
	return open("/dev/null", O_RDONLY) > 2 ? 0 : 3;
}

static void only_what_is_closed_is_taken(void **state)
{
	(void)state;
	assert_int_equal(in_child(what_is_open_stays), 0);
	assert_int_equal(in_child(without_files), 0);
	assert_int_equal(in_child(a_result_that_nobody_takes), 0);
}

static int up(void **state)
{
	(void)state;
	test_server_up(&server, "stdio");
	return 0;
}

static int down(void **state)
{
	(void)state;
	if (server.pid)
		assert_int_equal(test_server_end(&server), 0);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_standard_streams_are_nobody_elses),
		cmocka_unit_test(only_what_is_closed_is_taken),
	};
	kvc_program_setup();
	return cmocka_run_group_tests(tests, up, down);
}
