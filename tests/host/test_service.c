/* SPDX-License-Identifier: Apache-2.0 */
/* test_service.c -- what a service manager is told: by a path, by an abstract name, and where nobody listens. */
#include "tests/check.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/host.h"

/* A manager that listens at name ("/path" or "@name"). */
static int manager(const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	memcpy(at.sun_path, name, strlen(name));
	if (name[0] == '@')
		at.sun_path[0] = '\0';
	assert_int_equal(
		bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
		0);
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
	return fd;
}

static void hears(int fd, const char *text)
{
	char got[256] = "";
	assert_int_equal(recv(fd, got, sizeof(got) - 1, 0), strlen(text));
	assert_string_equal(got, text);
}

static void a_manager_is_told_at_its_path(void **state)
{
	char dir[] = "/tmp/kvrail-service-XXXXXX", path[64];
	int fd;
	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/notify", dir);
	fd = manager(path);
	assert_int_equal(kv_service_tell("READY=1\nSTATUS=serving\n"), 0);
	hears(fd, "READY=1\nSTATUS=serving\n");
	close(fd);
	assert_int_equal(kv_service_tell("STOPPING=1"), -ECONNREFUSED);
	unlink(path);
	assert_int_equal(kv_service_tell("STOPPING=1"), -ENOENT);
	rmdir(dir);
}

static void a_manager_is_told_at_its_abstract_name(void **state)
{
	char name[64];
	int fd;
	(void)state;
	snprintf(name, sizeof(name), "@kvrail-service-%d", (int)getpid());
	fd = manager(name);
	assert_int_equal(kv_service_tell("WATCHDOG=1"), 0);
	hears(fd, "WATCHDOG=1");
	close(fd);
}

/* A manager that reads nothing keeps nobody waiting. */
static void a_full_socket_is_an_error(void **state)
{
	enum { LINES = 100000 };
	char name[64];
	int fd, rc = 0;
	(void)state;
	snprintf(name, sizeof(name), "@kvrail-full-%d", (int)getpid());
	fd = manager(name);
	for (unsigned i = 0; i < LINES && rc == 0; i++)
		rc = kv_service_tell("WATCHDOG=1");
	assert_int_equal(rc, -EAGAIN);
	close(fd);
}

static void nobody_is_told_where_nobody_asked(void **state)
{
	char name[200];
	(void)state;
	unsetenv("NOTIFY_SOCKET");
	assert_int_equal(kv_service_tell("READY=1"), 1);
	setenv("NOTIFY_SOCKET", "", 1);
	assert_int_equal(kv_service_tell("READY=1"), 1);
	setenv("NOTIFY_SOCKET", "relative", 1);
	assert_int_equal(kv_service_tell("READY=1"), -EINVAL);
	memset(name, '/', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	setenv("NOTIFY_SOCKET", name, 1);
	assert_int_equal(kv_service_tell("READY=1"), -EINVAL);
	unsetenv("NOTIFY_SOCKET");
}

static void the_watchdog_is_ours_or_nobodys(void **state)
{
	char pid[16];
	(void)state;
	unsetenv("WATCHDOG_USEC");
	assert_int_equal(kv_service_watchdog_ns(), 0);
	setenv("WATCHDOG_USEC", "30000000", 1);
	assert_int_equal(kv_service_watchdog_ns(), 30000000000ull);
	setenv("WATCHDOG_PID", "1", 1);
	assert_int_equal(kv_service_watchdog_ns(), 0);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("WATCHDOG_PID", pid, 1);
	assert_int_equal(kv_service_watchdog_ns(), 30000000000ull);
	setenv("WATCHDOG_USEC", "junk", 1);
	assert_int_equal(kv_service_watchdog_ns(), 0);
	setenv("WATCHDOG_USEC", "18446744073709551615", 1);
	assert_int_equal(kv_service_watchdog_ns(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_manager_is_told_at_its_path),
		cmocka_unit_test(a_manager_is_told_at_its_abstract_name),
		cmocka_unit_test(a_full_socket_is_an_error),
		cmocka_unit_test(nobody_is_told_where_nobody_asked),
		cmocka_unit_test(the_watchdog_is_ours_or_nobodys),
	};
	return cmocka_run_group_tests_name("host/service", tests, NULL, NULL);
}
