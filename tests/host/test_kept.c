/* SPDX-License-Identifier: Apache-2.0 */
/* test_kept.c -- memory that outlives its process: files, owners, and readers that cannot write. */
#include "tests/check.h"
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, LEN = 4 * MIB };

static char folder[64], path[96];

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/dev/shm/kvrail-kept-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/arena", folder);
	return 0;
}

static int teardown(void **state)
{
	char lock[128];
	(void)state;
	snprintf(lock, sizeof(lock), "%s.lock", path);
	unlink(path);
	unlink(lock);
	return rmdir(folder);
}

static int opened(uint64_t len, bool anew, bool fresh)
{
	struct kv_error err = {0};
	bool is_fresh = !fresh;
	int fd = -1;
	if (kv_kept_open(path, len, anew, &fd, &is_fresh, &err))
		fail_msg("%s", err.text);
	assert_int_equal(is_fresh, fresh);
	return fd;
}

static struct kv_area adopted(int fd)
{
	struct kv_area area;
	struct kv_error err = {0};
	if (kv_area_adopt(fd, LEN, KV_NODE_ANY, &area, &err))
		fail_msg("%s", err.text);
	assert_true(area.kept && area.shared);
	assert_int_equal(area.len_bytes, LEN);
	return area;
}

static void a_file_keeps_its_bytes(void **state)
{
	struct kv_area area = adopted(opened(LEN, false, true));
	(void)state;
	memset(area.base, 7, LEN);
	kv_area_unmap(&area);
	area = adopted(opened(LEN, false, false));
	assert_int_equal(((uint8_t *)area.base)[LEN - 1], 7);
	kv_area_unmap(&area);
}

static void a_file_is_found_and_gets_another_size(void **state)
{
	struct kv_error err = {0};
	struct kv_area area;
	struct stat st;
	int fd = -1;
	(void)state;
	assert_int_equal(kv_kept_find(path, &fd, &err), -KV_ENOTFOUND);
	area = adopted(opened(LEN, false, true));
	memset(area.base, 7, LEN);
	assert_int_equal(kv_kept_find(path, &fd, &err), 0);
	assert_int_equal(kv_kept_resize(fd, path, UINT64_C(1) << 60, &err) < 0, 1);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, LEN);
	assert_int_equal(kv_kept_resize(fd, path, 2 * LEN, &err), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 2 * LEN);
	assert_true(st.st_blocks * 512 >= 2 * LEN); /* no page can be missing later */
	assert_int_equal(((uint8_t *)area.base)[LEN - 1], 7);
	close(fd);
	kv_area_unmap(&area);
}

static void a_file_gets_pages_and_gives_them_back(void **state)
{
	struct kv_error err = {0};
	struct kv_area area;
	int fd = -1;
	(void)state;
	close(opened(LEN, false, true));
	assert_int_equal(kv_kept_make(path, 2 * LEN, &fd, &err), 0); /* in its place */
	assert_int_equal(kv_kept_bytes(fd), 0);
	assert_int_equal(kv_kept_page(fd) % (2 * MIB), 0);
	if (kv_area_adopt_bare(fd, 2 * LEN, &area, &err))
		fail_msg("%s", err.text);
	assert_int_equal(kv_kept_give(fd, path, 0, 3 * MIB, &err), 0);
	assert_int_equal(kv_kept_bytes(fd), 3 * MIB);
	memset(area.base, 7, 3 * MIB);
	kv_kept_release(fd, 1, 4 * MIB); /* whole pages: the second 2 MiB */
	assert_int_equal(kv_kept_bytes(fd), 2 * MIB);
	assert_int_equal(((uint8_t *)area.base)[2 * MIB - 1], 7);
	kv_kept_release(fd, 0, UINT64_MAX >> 1);
	assert_int_equal(kv_kept_bytes(fd), 0);
	assert_int_equal(kv_kept_give(fd, path, 0, UINT64_C(1) << 60, &err) < 0, 1);
	check_contains(err.text, path);
	kv_area_unmap(&area);
}

static void another_file_takes_the_place_and_the_former_stays_mapped(void **state)
{
	struct kv_area area = adopted(opened(LEN, false, true)), other;
	(void)state;
	memset(area.base, 7, LEN);
	other = adopted(opened(LEN, true, true));
	assert_int_equal(((uint8_t *)other.base)[0], 0);
	memset(other.base, 8, LEN);
	assert_int_equal(((uint8_t *)area.base)[LEN - 1], 7);
	kv_area_unmap(&area);
	kv_area_unmap(&other);
	close(opened(2 * LEN, false, true)); /* another size */
}

static void the_memory_is_there_at_once(void **state)
{
	struct stat st;
	int fd = opened(LEN, false, true);
	(void)state;
	assert_int_equal(fstat(fd, &st), 0);
	assert_true((uint64_t)st.st_blocks * 512 >= LEN);
	assert_int_equal(st.st_mode & 0777, 0600);
	close(fd);
}

static void unusable_files_are_refused_with_a_sentence(void **state)
{
	struct kv_error err = {0};
	bool fresh;
	int fd;
	(void)state;
	assert_int_equal(kv_kept_open("/nonexistent/arena", LEN, false, &fd, &fresh, &err), -ENOENT);
	assert_int_equal(kv_kept_open("/proc/version", LEN, false, &fd, &fresh, &err) < 0, 1);
	assert_int_equal(kv_kept_open("/dev/shm", LEN, false, &fd, &fresh, &err), -EISDIR);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(kv_kept_open(path, LEN, false, &fd, &fresh, &err), -KV_EINVAL);
	check_contains(err.text, "no regular file of this user");
	unlink(path);
	assert_int_equal(symlink("/dev/shm/elsewhere", path), 0);
	assert_int_equal(kv_kept_open(path, LEN, false, &fd, &fresh, &err), -ELOOP);
	unlink(path);
	assert_int_equal(kv_kept_open(path, UINT64_C(1) << 60, false, &fd, &fresh, &err) < 0, 1);
	check_contains(err.text, path);
	assert_int_equal(access(path, F_OK), -1);
}

static void a_disk_is_refused(void **state)
{
	char name[] = "/var/tmp/kvrail-kept-XXXXXX";
	struct kv_error err = {0};
	bool fresh;
	int fd = mkstemp(name), rc;
	(void)state;
	assert_true(fd >= 0);
	close(fd);
	rc = kv_kept_open(name, LEN, false, &fd, &fresh, &err);
	unlink(name);
	if (rc == 0) {
		close(fd);
		print_message("/var/tmp is in memory on this machine\n");
		skip();
	}
	assert_int_equal(rc, -KV_EINVAL);
	check_contains(err.text, "is not in memory: give a path on tmpfs");
}

static void a_path_has_one_owner(void **state)
{
	struct kv_error err = {0};
	int fd, other;
	(void)state;
	assert_int_equal(kv_kept_lock(path, &fd, &err), 0);
	assert_int_equal(kv_kept_lock(path, &other, &err), -KV_EEXIST);
	check_contains(err.text, "another server uses");
	check_contains(err.text, path);
	close(fd);
	assert_int_equal(kv_kept_lock(path, &fd, &err), 0);
	close(fd);
	assert_int_equal(kv_kept_lock("/nonexistent/arena", &fd, &err), -ENOENT);
}

/* ---- readers ---- */

static struct kv_area kept_memfd(void)
{
	struct kv_area area;
	struct kv_error err = {0};
	if (kv_area_map_kept(LEN, KV_NODE_ANY, &area, &err))
		fail_msg("%s", err.text);
	return area;
}

/* Whether the other user of this child can open the descriptor for writing. */
static bool can_write(int fd)
{
	char name[32];
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		if (geteuid() == 0 && setuid(65534) != 0)
			_exit(2);
		_exit(open(name, O_RDWR) >= 0 || ftruncate(fd, 0) == 0 || write(fd, "x", 1) == 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

/* The kernel drops the lock with the last reference. Whoever looks at this process or its child in /proc at that moment
 * (ps, another test) has one as well, for a little longer. */
static bool unread_soon(int fd, uint64_t generation)
{
	for (unsigned i = 0; i < 2000 && kv_kept_read(fd, generation); i++)
		usleep(5000);
	return !kv_kept_read(fd, generation);
}

static void check_reader(struct kv_area *area)
{
	struct kv_error err = {0};
	int fd = kv_kept_reader(area, 3);
	void *theirs;
	assert_true(fd >= 0);
	assert_int_equal(kv_memfd_check(fd, LEN, &err), 0);
	assert_int_equal(kv_memfd_map(fd, LEN, true, &theirs, &err), -KV_EPROTO);
	assert_int_equal(kv_memfd_map(fd, LEN, false, &theirs, &err), 0);
	assert_int_equal(mprotect(theirs, LEN, PROT_READ | PROT_WRITE), -1);
	if (geteuid() == 0)
		assert_false(can_write(fd));
	close(fd);
	((uint8_t *)area->base)[5] = 42;
	assert_int_equal(((uint8_t *)theirs)[5], 42);
	/* The mapping alone counts. */
	assert_false(kv_kept_read(area->fd, 0));
	assert_false(kv_kept_read(area->fd, 3));
	assert_true(kv_kept_read(area->fd, 4));
	munmap(theirs, LEN);
	assert_true(unread_soon(area->fd, 4));
	kv_area_unmap(area);
}

static void a_reader_of_a_memfd_cannot_write_and_is_known(void **state)
{
	struct kv_area area = kept_memfd();
	(void)state;
	assert_true(ftruncate(area.fd, 4096) < 0 && errno == EPERM);
	check_reader(&area);
}

static void a_reader_of_a_file_cannot_write_and_is_known(void **state)
{
	struct kv_area area = adopted(opened(LEN, false, true));
	(void)state;
	check_reader(&area);
}

static void a_file_that_strangers_may_shorten_is_not_mapped(void **state)
{
	int own = opened(LEN, false, true), fd = open(path, O_RDONLY);
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(kv_memfd_check(fd, LEN, &err), 0);
	assert_int_equal(kv_memfd_check(fd, LEN + 1, &err), -KV_EPROTO);
	assert_int_equal(kv_memfd_check(own, LEN, &err), -KV_EPROTO); /* it may write */
	assert_int_equal(fchmod(own, 0620), 0);
	assert_int_equal(kv_memfd_check(fd, LEN, &err), -KV_EPROTO);
	assert_int_equal(fchmod(own, 0600), 0);
	if (geteuid() == 0) {
		assert_int_equal(fchown(own, 65534, 65534), 0);
		assert_int_equal(kv_memfd_check(fd, LEN, &err), -KV_EPROTO);
		assert_int_equal(fchown(own, 0, 0), 0);
	}
	close(fd);
	close(own);
}

/* The next process gets the descriptor, and the mapping of the last one is gone. */
static void the_next_owner_writes(void **state)
{
	struct kv_area area = kept_memfd(), next;
	int fd = dup(area.fd);
	(void)state;
	memset(area.base, 9, LEN);
	kv_area_unmap(&area);
	next = adopted(fd);
	assert_int_equal(((uint8_t *)next.base)[LEN - 1], 9);
	memset(next.base, 1, LEN);
	kv_area_unmap(&next);
}

static void memory_of_another_size_is_not_adopted(void **state)
{
	struct kv_area area = kept_memfd(), next;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(kv_area_adopt(area.fd, LEN + 1, KV_NODE_ANY, &next, &err), -KV_EINVAL);
	assert_int_equal(kv_area_adopt(STDIN_FILENO, 1, KV_NODE_ANY, &next, &err), -KV_EINVAL);
	kv_area_unmap(&area);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_file_keeps_its_bytes),
		TEST(a_file_is_found_and_gets_another_size),
		TEST(a_file_gets_pages_and_gives_them_back),
		TEST(another_file_takes_the_place_and_the_former_stays_mapped),
		TEST(the_memory_is_there_at_once),
		TEST(unusable_files_are_refused_with_a_sentence),
		TEST(a_disk_is_refused),
		TEST(a_path_has_one_owner),
		TEST(a_reader_of_a_memfd_cannot_write_and_is_known),
		TEST(a_reader_of_a_file_cannot_write_and_is_known),
		TEST(a_file_that_strangers_may_shorten_is_not_mapped),
		TEST(the_next_owner_writes),
		TEST(memory_of_another_size_is_not_adopted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
