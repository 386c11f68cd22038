/* SPDX-License-Identifier: Apache-2.0 */
/* test_shm.c -- the files of shm endpoints in /dev/shm: named so that no process number can bring them back, and
 * removed when their process was killed. */
#include "tests/engine/node.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t namespace_of_pids(void)
{
	struct stat st;
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	return st.st_ino;
}

static const char *name_of(char out[96], uint64_t ns, long pid, const char *unique)
{
	snprintf(out, 96, "kvrail-%" PRIu64 "-%ld-%s", ns, pid, unique);
	return out;
}

static void create(const char *name)
{
	int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static bool exists(const char *name)
{
	int fd = shm_open(name, O_RDONLY, 0);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static unsigned files_of(long pid)
{
	char prefix[96];
	unsigned n = 0;
	DIR *d = opendir("/dev/shm");
	assert_non_null(d);
	name_of(prefix, namespace_of_pids(), pid, "");
	for (struct dirent *e; (e = readdir(d));)
		n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
	closedir(d);
	return n;
}

static struct te *open_shm(void)
{
	static const struct te_handlers none;
	struct te_options o = {.provider = "shm"};
	struct kv_error err = {0};
	struct te *te = NULL;
	if (te_open(&o, &none, NULL, &te, &err))
		fail_msg("te_open: %s", err.text);
	return te;
}

static long process_that_is_gone(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void what_a_killed_process_left_does_not_stand_in_the_way(void **state)
{
	char own[64];
	(void)state;
	/* As the provider would name our endpoints, left by an earlier process of our number. */
	for (int i = 0; i < 4; i++) {
		snprintf(own, sizeof(own), "%d:%d:%d", (int)getpid(), (int)getuid(), i);
		create(own);
	}
	struct te *te = open_shm();
	te_close(&te);
	for (int i = 0; i < 4; i++) {
		snprintf(own, sizeof(own), "%d:%d:%d", (int)getpid(), (int)getuid(), i);
		shm_unlink(own);
	}
}

static void files_last_as_long_as_their_endpoint(void **state)
{
	(void)state;
	struct te *a = open_shm(), *b = open_shm();
	assert_int_equal(files_of(getpid()), 2);
	te_close(&a);
	assert_int_equal(files_of(getpid()), 1);
	te_close(&b);
	assert_int_equal(files_of(getpid()), 0);
}

static void only_files_whose_process_is_gone_are_removed(void **state)
{
	char dead[96], alive[96], elsewhere[96], longer[96], strange[] = "kvrail-0123";
	long gone = process_that_is_gone();
	uint64_t ns = namespace_of_pids();
	(void)state;
	create(name_of(dead, ns, gone, "0123456789abcdef"));
	create(name_of(alive, ns, getppid(), "0123456789abcdef"));
	create(name_of(elsewhere, ns + 1, gone, "0123456789abcdef"));
	create(name_of(longer, ns, gone, "0123456789abcdef-of-somebody"));
	create(strange);
	struct te *te = open_shm();
	assert_false(exists(dead));
	assert_true(exists(alive) && exists(elsewhere) && exists(longer) && exists(strange));
	te_close(&te);
	shm_unlink(alive);
	shm_unlink(elsewhere);
	shm_unlink(longer);
	shm_unlink(strange);
}

int main(void)
{
	test_env();
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_killed_process_left_does_not_stand_in_the_way),
		cmocka_unit_test(files_last_as_long_as_their_endpoint),
		cmocka_unit_test(only_files_whose_process_is_gone_are_removed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
