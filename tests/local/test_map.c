/* SPDX-License-Identifier: Apache-2.0 */
/* test_map.c -- mapping memory of the other side. */
#include "tests/local/pair.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEN = 4 << 20 };

static void the_arena_is_read_and_not_written(void **state)
{
	struct kv_area arena;
	struct kv_error err = {0};
	void *at;
	(void)state;
	assert_int_equal(kv_area_map_shared(LEN, KV_NODE_ANY, &arena, &err), 0);
	assert_int_equal(local_map(arena.fd, LEN, false, &at, &err), 0);
	assert_int_equal((uintptr_t)at % (2 << 20), 0);
	memset(arena.base, 7, LEN);
	assert_memory_equal(at, arena.base, LEN);
	assert_int_equal(mprotect(at, LEN, PROT_READ | PROT_WRITE), -1);
	local_unmap(at, LEN);
	assert_int_equal(local_map(arena.fd, LEN, true, &at, &err), -KV_EPROTO);
	check_contains(err.text, "cannot map 4 MiB");
	kv_area_unmap(&arena);
	local_unmap(NULL, LEN);
}

static void it_stays_when_the_server_has_gone(void **state)
{
	struct kv_area arena;
	void *at;
	(void)state;
	assert_int_equal(kv_area_map_shared(LEN, KV_NODE_ANY, &arena, NULL), 0);
	memset(arena.base, 9, LEN);
	assert_int_equal(local_map(arena.fd, LEN, false, &at, NULL), 0);
	kv_area_unmap(&arena);
	for (unsigned i = 0; i < LEN; i += 4096)
		assert_int_equal(((uint8_t *)at)[i], 9);
	local_unmap(at, LEN);
}

static void the_landing_area_is_written(void **state)
{
	struct kv_area landing;
	void *at;
	(void)state;
	assert_int_equal(kv_area_map_landing(LEN, KV_NODE_ANY, &landing, NULL), 0);
	assert_int_equal(local_map(landing.fd, LEN, true, &at, NULL), 0);
	memset(at, 5, LEN);
	assert_memory_equal(at, landing.base, LEN);
	local_unmap(at, LEN);
	kv_area_unmap(&landing);
}

static int memory(uint64_t len, unsigned seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void refuse(int fd, uint64_t len, const char *why)
{
	struct kv_error err = {0};
	void *at = NULL;
	assert_int_equal(local_map(fd, len, false, &at, &err), -KV_EPROTO);
	check_contains(err.text, why);
	assert_null(at);
	if (fd >= 0)
		close(fd);
}

static void memory_that_could_shrink_is_refused(void **state)
{
	(void)state;
	refuse(memory(LEN, 0), LEN, "sealed");
	refuse(memory(LEN, F_SEAL_GROW), LEN, "sealed");
	refuse(memory(LEN, F_SEAL_SHRINK), LEN, "sealed");
	refuse(memory(LEN, F_SEAL_SHRINK | F_SEAL_GROW), LEN + 1, "shorter");
	refuse(memory(LEN, F_SEAL_SHRINK | F_SEAL_GROW), UINT64_MAX, "shorter");
	refuse(memory(LEN, F_SEAL_SHRINK | F_SEAL_GROW), 0, "shorter");
	refuse(memory(0, F_SEAL_SHRINK | F_SEAL_GROW), 4096, "shorter");
}

static void what_is_no_memory_is_refused(void **state)
{
	int pipes[2];
	(void)state;
	assert_int_equal(pipe(pipes), 0);
	refuse(pipes[0], 4096, "sealed");
	close(pipes[1]);
	refuse(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 4096, "sealed");
	refuse(open("/", O_RDONLY | O_CLOEXEC), 4096, "sealed");
	refuse(-1, 4096, "sealed");
}

/* A core dump of a client does not contain the server's memory. */
static void it_is_in_no_core_dump(void **state)
{
	struct kv_area arena;
	void *at;
	char line[512], start[32];
	bool ours = false, left_out = false;
	(void)state;
	assert_int_equal(kv_area_map_shared(LEN, KV_NODE_ANY, &arena, NULL), 0);
	assert_int_equal(local_map(arena.fd, LEN, false, &at, NULL), 0);
	snprintf(start, sizeof(start), "%lx-", (unsigned long)(uintptr_t)at);
	FILE *f = fopen("/proc/self/smaps", "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, start, strlen(start)) == 0)
			ours = true;
		if (ours && strncmp(line, "VmFlags:", 8) == 0) {
			left_out = strstr(line, " dd") != NULL;
			break;
		}
	}
	fclose(f);
	local_unmap(at, LEN);
	kv_area_unmap(&arena);
	if (!ours) {
		print_message("/proc/self/smaps does not list the mapping\n");
		skip();
	}
	assert_true(left_out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_arena_is_read_and_not_written),
		cmocka_unit_test(it_stays_when_the_server_has_gone),
		cmocka_unit_test(the_landing_area_is_written),
		cmocka_unit_test(memory_that_could_shrink_is_refused),
		cmocka_unit_test(what_is_no_memory_is_refused),
		cmocka_unit_test(it_is_in_no_core_dump),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
