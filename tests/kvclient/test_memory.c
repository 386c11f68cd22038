/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c -- memory of the caller that is registered: any address, memory of files, of huge pages, of two
 * processes and two pools, arenas that grow; and what is refused. */
#include "calls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void overlapping_registrations_are_refused(void **state)
{
	uint8_t *buf = memory(4 * MIB);
	struct kvc_mem *mem, *other;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(shared, buf, 2 * MIB, &mem, &err), 0);
	assert_int_equal(kvc_register(shared, buf + 2 * MIB - 1, MIB, &other, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "overlaps"));
	assert_int_equal(kvc_register(shared, buf + 2 * MIB, MIB, &other, &err), 0);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	assert_int_equal(kvc_unregister(shared, &other), 0);
	munmap(buf, 4 * MIB);
}

/* Not at a page, not of whole pages. */
static void memory_at_any_address_is_registered(void **state)
{
	size_t len = MIB + 77;
	uint8_t *buf = memory(4 * MIB), *at = buf + 4097;
	struct kvc_mem *mem;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(shared, at, len, &mem, &err), 0);
	test_fill(at, len, 5);
	assert_int_equal(kvc_put(shared, KEY(0), at, len, NULL), 0);
	memset(buf, 0xEE, 4 * MIB);
	assert_int_equal(kvc_get(shared, KEY(0), at, len, NULL), len);
	assert_true(test_same(at, len, 5));
	assert_int_equal(at[-1], 0xEE);
	assert_int_equal(at[len], 0xEE);
	assert_int_equal(kvc_delete(shared, KEY(0), NULL), 0);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(buf, 4 * MIB);
}

static void memory_that_is_not_there_or_not_writable_is_refused(void **state)
{
	uint8_t *buf = memory(4 * MIB);
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(mprotect(buf + 2 * MIB, MIB, PROT_READ), 0);
	assert_int_equal(kvc_register(shared, buf, 4 * MIB, &mem, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "is not writable"));
	assert_int_equal(munmap(buf + 2 * MIB, MIB), 0);
	assert_int_equal(kvc_register(shared, buf, 4 * MIB, &mem, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "is not fully mapped"));
	assert_non_null(strstr(err.text, "2097152 bytes after its start"));
	assert_null(mem);
	/* What is left of it is good. */
	assert_int_equal(kvc_register(shared, buf, 2 * MIB, &mem, &err), 0);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(buf, 4 * MIB);
}

/* ---- memory of files ---- */

enum { LEN = 3 << 20, HUGE = 2 << 20 };

/* A value there and back in `at`, which is registered. */
static void there_and_back(struct kvc_pool *pool, struct kvc_key key, uint8_t *at, size_t len, uint64_t seed)
{
	test_fill(at, len, seed);
	assert_int_equal(kvc_put(pool, key, at, len, NULL), 0);
	memset(at, 0, len);
	assert_int_equal(kvc_get(pool, key, at, len, NULL), len);
	assert_true(test_same(at, len, seed));
	assert_int_equal(kvc_delete(pool, key, NULL), 0);
}

/* A file of LEN bytes in this folder; without a name. */
static int file_in(const char *folder)
{
	char path[256];
	int fd;
	snprintf(path, sizeof(path), "%s/kvrail-XXXXXX", folder);
	fd = mkstemp(path);
	if (fd >= 0) {
		assert_int_equal(unlink(path), 0);
		assert_int_equal(ftruncate(fd, LEN), 0);
	}
	return fd;
}

static uint8_t *shared_map(int fd, size_t len)
{
	uint8_t *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static void memory_of_files_is_registered(void **state)
{
	const char *tmp = getenv("TMPDIR");
	const int fd[] = {file_in("/dev/shm"), file_in(tmp ? tmp : "/tmp"), memfd_create("kvrail-test", MFD_CLOEXEC)};
	struct kv_error err;
	(void)state;
	need_server();
	for (unsigned i = 0; i < 3; i++) {
		struct kvc_mem *mem;
		uint8_t *at, *again;
		if (fd[i] < 0) { /* no such folder, or it may not be written */
			print_message("file %u is not possible here\n", i);
			continue;
		}
		assert_int_equal(ftruncate(fd[i], LEN), 0);
		at = shared_map(fd[i], LEN);
		assert_int_equal(kvc_register(shared, at, LEN, &mem, &err), 0);
		there_and_back(shared, KEY(i), at, LEN, i);
		/* What came lies in the file. */
		again = shared_map(fd[i], LEN);
		assert_true(test_same(again, LEN, i));
		munmap(again, LEN);
		assert_int_equal(kvc_unregister(shared, &mem), 0);
		munmap(at, LEN);
		close(fd[i]);
	}
}

/* A mapping that is longer than its file would end the process at the first touch. */
static void memory_beyond_the_end_of_a_file_is_refused(void **state)
{
	int fd = memfd_create("kvrail-test", MFD_CLOEXEC);
	uint8_t *at = shared_map(fd, LEN);
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(ftruncate(fd, LEN / 2), 0);
	if (madvise(at, 4096, 22 /* MADV_POPULATE_READ */) != 0) {
		print_message("this kernel has no MADV_POPULATE_READ\n");
		skip();
	}
	assert_int_equal(kvc_register(shared, at, LEN, &mem, &err), -KV_EINVAL);
	check_contains(err.text, "beyond the end of its file");
	check_contains(err.text, "ftruncate");
	assert_null(mem);
	assert_int_equal(kvc_register(shared, at, LEN / 2, &mem, &err), 0);
	there_and_back(shared, KEY(0), at, LEN / 2, 3);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	assert_int_equal(ftruncate(fd, LEN), 0);
	assert_int_equal(kvc_register(shared, at, LEN, &mem, &err), 0);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(at, LEN);
	close(fd);
}

static void huge_pages_are_registered(void **state)
{
	struct kvc_mem *mem;
	struct kv_error err;
	uint8_t *at = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	int fd = memfd_create("kvrail-test", MFD_CLOEXEC | MFD_HUGETLB);
	(void)state;
	need_server();
	if (at == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		print_message("there is no free page of 2 MiB\n");
		skip();
	}
	assert_int_equal(kvc_register(shared, at, HUGE, &mem, &err), 0);
	there_and_back(shared, KEY(0), at, HUGE, 1);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(at, HUGE);
	if (fd >= 0 && ftruncate(fd, HUGE) == 0) {
		at = shared_map(fd, HUGE);
		assert_int_equal(kvc_register(shared, at, HUGE, &mem, &err), 0);
		there_and_back(shared, KEY(1), at, HUGE, 2);
		assert_int_equal(kvc_unregister(shared, &mem), 0);
		munmap(at, HUGE);
	}
	close(fd);
}

/* Transparent ones, where the kernel makes them: a registration says nothing about pages, and these come and go. */
static void pages_that_the_kernel_joins_are_registered(void **state)
{
	uint8_t *at = memory(4 * HUGE);
	struct kvc_mem *mem;
	struct kv_error err;
	(void)state;
	need_server();
	(void)madvise(at, 4 * HUGE, MADV_HUGEPAGE);
	assert_int_equal(kvc_register(shared, at, 4 * HUGE, &mem, &err), 0);
	there_and_back(shared, KEY(0), at, 4 * HUGE, 1);
	assert_int_equal(madvise(at, 4 * HUGE, MADV_NOHUGEPAGE), 0);
	there_and_back(shared, KEY(1), at, 4 * HUGE, 2);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(at, 4 * HUGE);
}

/* As the workers of an engine have it: another process maps the same memory, writes what is PUT and reads what came by
 * GET, and ends first. */
static void memory_of_two_processes_is_registered(void **state)
{
	int fd = memfd_create("kvrail-test", 0), go[2], status = 0;
	uint8_t *at = shared_map(fd, LEN);
	struct kvc_mem *mem;
	struct kv_error err;
	char c = 0;
	pid_t pid;
	(void)state;
	need_server();
	assert_int_equal(ftruncate(fd, LEN), 0);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		uint8_t *theirs = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(go[1]);
		if (theirs == MAP_FAILED)
			_exit(1);
		test_fill(theirs, LEN / 2, 11);
		while (read(go[0], &c, 1) > 0)
			;
		_exit(test_same(theirs + LEN / 2, LEN / 2, 11) ? 0 : 2);
	}
	close(go[0]);
	while (!test_same(at, LEN / 2, 11))
		usleep(1000);
	assert_int_equal(kvc_register(shared, at, LEN, &mem, &err), 0);
	assert_int_equal(kvc_put(shared, KEY(0), at, LEN / 2, NULL), 0);
	assert_int_equal(kvc_get(shared, KEY(0), at + LEN / 2, LEN / 2, NULL), LEN / 2);
	close(go[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	there_and_back(shared, KEY(1), at, LEN, 12);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	assert_int_equal(kvc_delete(shared, KEY(0), NULL), 0);
	munmap(at, LEN);
	close(fd);
}

/* ---- arenas that grow ---- */

/* An address range that is reserved, of which piece after piece is made usable and registered. A value that spans two
 * registrations is moved by a copy, also in slices: right, and slower. The pieces go in any order. */
static void an_arena_grows_by_registrations(void **state)
{
	enum { PIECES = 4, PIECE = 1 << 20, SPAN = 300000 };
	uint8_t *arena = mmap(NULL, PIECES * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct kvc_mem *mem[PIECES] = {0}, *other = NULL;
	struct kvc_item item;
	struct kv_error err;
	(void)state;
	need_server();
	assert_ptr_not_equal(arena, MAP_FAILED);
	assert_int_equal(kvc_register(shared, arena, PIECES * PIECE, &other, &err), -KV_EINVAL);
	check_contains(err.text, "is not writable");
	for (unsigned i = 0; i < PIECES; i++) {
		uint8_t *piece = arena + i * PIECE, *border = piece - SPAN / 2;
		assert_int_equal(mprotect(piece, PIECE, PROT_READ | PROT_WRITE), 0);
		assert_int_equal(kvc_register(shared, piece, PIECE, &mem[i], &err), 0);
		there_and_back(shared, KEY(i), piece, PIECE, i);
		if (i == 0)
			continue;
		there_and_back(shared, KEY(10 + i), border, SPAN, 10 + i);
		/* One more call, since only it has the mark around the value. */
		test_fill(border, SPAN, i);
		assert_int_equal(kvc_put(shared, KEY(20 + i), border, SPAN, NULL), 0);
		memset(arena, 0xEE, (i + 1) * PIECE);
		item = (struct kvc_item){
			.key = KEY(20 + i), .data = border, .len = SPAN, .slice = SPAN / 4, .stride = SPAN / 4 + 64};
		assert_int_equal(kvc_get_batch(shared, &item, 1, NULL), 0);
		for (unsigned s = 1; s < 4; s++) {
			assert_int_equal(border[s * item.stride - 1], 0xEE);
			memmove(border + s * item.slice, border + s * item.stride, item.slice);
		}
		assert_int_equal(border[-1], 0xEE);
		assert_int_equal(border[3 * item.stride + item.slice], 0xEE);
		assert_true(test_same(border, SPAN, i));
		assert_int_equal(kvc_delete(shared, KEY(20 + i), NULL), 0);
	}
	/* The last piece and one in the middle go; their neighbours stay registered, and so does what spans. */
	assert_int_equal(kvc_unregister(shared, &mem[3]), 0);
	assert_int_equal(munmap(arena + 3 * PIECE, PIECE), 0);
	assert_int_equal(kvc_unregister(shared, &mem[1]), 0);
	there_and_back(shared, KEY(30), arena + PIECE - SPAN / 2, SPAN, 30);
	there_and_back(shared, KEY(31), arena + 2 * PIECE, PIECE, 31);
	assert_int_equal(kvc_register(shared, arena + PIECE, PIECE, &mem[1], &err), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(kvc_unregister(shared, &mem[i]), 0);
	munmap(arena, PIECES * PIECE);
}

/* Two pools of a process: the same memory is registered with both, and one goes on when the other is closed. */
static void two_pools_share_a_process(void **state)
{
	struct kvc_pool *second;
	uint8_t *at = memory(LEN);
	struct kvc_mem *mem, *theirs;
	struct kv_error err;
	(void)state;
	need_server();
	second = test_pool(one, 1, 1);
	assert_int_equal(kvc_register(shared, at, LEN, &mem, &err), 0);
	assert_int_equal(kvc_register(second, at, LEN, &theirs, &err), 0);
	there_and_back(shared, KEY(0), at, LEN, 1);
	there_and_back(second, KEY(1), at, LEN, 2);
	test_fill(at, LEN, 3);
	assert_int_equal(kvc_put(second, KEY(2), at, LEN, NULL), 0);
	assert_int_equal(kvc_unregister(second, &theirs), 0);
	kvc_pool_close(&second);
	memset(at, 0, LEN);
	assert_int_equal(kvc_get(shared, KEY(2), at, LEN, NULL), LEN);
	assert_true(test_same(at, LEN, 3));
	assert_int_equal(kvc_delete(shared, KEY(2), NULL), 0);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(at, LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlapping_registrations_are_refused),
		cmocka_unit_test(memory_at_any_address_is_registered),
		cmocka_unit_test(memory_that_is_not_there_or_not_writable_is_refused),
		cmocka_unit_test(memory_of_files_is_registered),
		cmocka_unit_test(memory_beyond_the_end_of_a_file_is_refused),
		cmocka_unit_test(huge_pages_are_registered),
		cmocka_unit_test(pages_that_the_kernel_joins_are_registered),
		cmocka_unit_test(memory_of_two_processes_is_registered),
		cmocka_unit_test(an_arena_grows_by_registrations),
		cmocka_unit_test(two_pools_share_a_process),
	};
	test_local = KVC_LOCAL_OFF; /* only the fabric needs registrations */
	return cmocka_run_group_tests(tests, calls_up, calls_down);
}
