/* SPDX-License-Identifier: Apache-2.0 */
/* test_key_reload.c -- key files that are read again, beside a control loop; and a thread that is left behind in a file
 * system that does not answer. */
#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvserver/server/server.h"

#define PATIENCE_NS 60000000000ull

extern char **environ;

static const struct kv_log sink = {.level = KV_LOG_OFF, .write = kv_log_stderr};
static char dir[] = "/tmp/kvrail-keeper-XXXXXX";
static char cert[64], key[64], ca[64], fifo[64];
static struct kvs_server server; /* as much of one as a keeper needs */

static void run(char *const argv[])
{
	pid_t pid;
	int status = -1;
	assert_int_equal(posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int certs_make(void **state)
{
	char *argv[] = {"bash", "scripts/make-test-certs.sh", dir, NULL};
	(void)state;
	assert_non_null(mkdtemp(dir));
	run(argv);
	snprintf(cert, sizeof(cert), "%s/server.pem", dir);
	snprintf(key, sizeof(key), "%s/server.key", dir);
	snprintf(ca, sizeof(ca), "%s/ca.pem", dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	return 0;
}

static int certs_remove(void **state)
{
	char *argv[] = {"rm", "-rf", dir, NULL};
	(void)state;
	run(argv);
	return 0;
}

static void server_up(const char *cert_file)
{
	const struct boot_security security = {.cert_file = cert, .key_file = key, .ca_file = ca};
	const struct loop_options options = {.name = "control", .log = &sink};
	struct kv_error err = {0};
	memset(&server, 0, sizeof(server));
	server.opt = (struct kvs_options){.cert_file = cert_file, .key_file = key, .ca_file = ca, .log = &sink};
	assert_int_equal(loop_create(&options, &server.control, &err), 0);
	assert_int_equal(boot_context_create(&security, true, &sink, &server.keys.boot, &err), 0);
	assert_int_equal(key_reload_start(&server, &server.keys.reload, &err), 0);
}

static void server_down(void)
{
	key_reload_end(&server.keys.reload);
	boot_context_destroy(&server.keys.boot);
	loop_destroy(&server.control);
}

static unsigned threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void keys_that_were_read_again_come_to_the_loop(void **state)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + PATIENCE_NS;
	unsigned taken = 0, failed = 0;
	(void)state;
	server_up(cert);
	assert_true(key_reload_ask(server.keys.reload));
	while (taken == 0) {
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		loop_turn(server.control, 10000000);
		key_reload_rounds(server.keys.reload, &taken, &failed);
	}
	loop_turn(server.control, 0);
	assert_int_equal(failed, 0);
	server_down();
}

static void without_files_there_is_none(void **state)
{
	struct kv_error err = {0};
	(void)state;
	memset(&server, 0, sizeof(server));
	assert_int_equal(key_reload_start(&server, &server.keys.reload, &err), 0);
	assert_null(server.keys.reload);
	assert_false(key_reload_ask(server.keys.reload));
	key_reload_end(&server.keys.reload);
}

/* The writing end, once the keeper reads. -1: it does not. */
static int writer(void)
{
	return open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

static void feed(int fd)
{
	char text[16384];
	FILE *in = fopen(cert, "re");
	size_t n;
	assert_non_null(in);
	n = fread(text, 1, sizeof(text), in);
	fclose(in);
	assert_int_equal(write(fd, text, n), n);
	close(fd);
}

/* The server ends while a file does not answer. Later it does: what the thread made of it goes with the thread
 * (LeakSanitizer looks). */
static void keys_that_come_after_the_end_are_nobodys(void **state)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + PATIENCE_NS;
	unsigned before = threads();
	int fd;
	(void)state;
	server_up(fifo);
	assert_true(key_reload_ask(server.keys.reload));
	while ((fd = writer()) < 0) {
		assert_int_equal(errno, ENXIO);
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		usleep(1000);
	}
	server_down();
	for (; threads() > before; usleep(1000)) { /* it may read the file more than once */
		assert_true(kv_clock_now(&kv_clock_monotonic) < until);
		fd = fd < 0 ? writer() : fd;
		if (fd >= 0)
			feed(fd);
		fd = -1;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_that_were_read_again_come_to_the_loop),
		cmocka_unit_test(without_files_there_is_none),
		cmocka_unit_test(keys_that_come_after_the_end_are_nobodys),
	};
	return cmocka_run_group_tests_name("kvserver/keeper", tests, certs_make, certs_remove);
}
