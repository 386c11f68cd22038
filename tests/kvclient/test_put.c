/* SPDX-License-Identifier: Apache-2.0 */
/* test_put.c -- PUT at a real kv-server: values of every size from plain and from registered memory, values that are
 * there already, expiry, and a PUT that is given up. */
#include "calls.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const size_t sizes[] = LENGTHS;

static void plain_memory_round_trips(void **state)
{
	uint8_t *put = memory(17 * MIB), *got = memory(17 * MIB + 1);
	(void)state;
	need_server();
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		size_t len = sizes[i];
		test_fill(put, len, i);
		memset(got, 0xEE, len + 1);
		assert_int_equal(kvc_put(shared, KEY(i), put, len, NULL), 0);
		assert_int_equal(kvc_get(shared, KEY(i), got, len, NULL), len);
		assert_true(test_same(got, len, i));
		assert_int_equal(got[len], 0xEE);
		assert_int_equal(kvc_delete(shared, KEY(i), NULL), 0);
	}
	munmap(put, 17 * MIB);
	munmap(got, 17 * MIB + 1);
}

static void registered_memory_round_trips(void **state)
{
	size_t room = 40 * MIB;
	uint8_t *buf = memory(room);
	struct kvc_mem *mem;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(shared, buf, room, &mem, &err), 0);
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		size_t len = sizes[i], at = 20 * MIB + i * 13;
		test_fill(buf, len, i);
		memset(buf + at, 0xEE, len + 1);
		assert_int_equal(kvc_put(shared, KEY(i), buf, len, NULL), 0);
		assert_int_equal(kvc_get(shared, KEY(i), buf + at, len, NULL), len);
		assert_true(test_same(buf + at, len, i));
		assert_int_equal(buf[at + len], 0xEE);
		assert_int_equal(kvc_delete(shared, KEY(i), NULL), 0);
	}
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	assert_null(mem);
	munmap(buf, room);
}

/* Memory is registered in parts of 1 GiB, and no write goes across a border of theirs. */
static void a_value_across_parts_of_registered_memory_round_trips(void **state)
{
	enum { PART = 1 << 30, LEN = 300000 };
	size_t room = PART + MIB;
	uint8_t *buf = memory(room), *at = buf + PART - LEN / 3, *got = memory(LEN);
	struct kvc_mem *mem;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(shared, buf, room, &mem, &err), 0);
	test_fill(at, LEN, 8);
	assert_int_equal(kvc_put(shared, KEY(0), at, LEN, NULL), 0);
	assert_int_equal(kvc_get(shared, KEY(0), got, LEN, NULL), LEN);
	assert_true(test_same(got, LEN, 8));
	assert_int_equal(kvc_delete(shared, KEY(0), NULL), 0);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(buf, room);
	munmap(got, LEN);
}

static void a_value_of_100_mib_round_trips(void **state)
{
	size_t len = 100 * MIB + 12345;
	uint8_t *put = memory(len), *got = memory(len);
	struct kvc_mem *mem;
	struct kv_error err;
	(void)state;
	need_server();
	test_fill(put, len, 7);
	assert_int_equal(kvc_put(shared, KEY(0), put, len, NULL), 0);
	assert_int_equal(kvc_get(shared, KEY(0), got, len, NULL), len);
	assert_memory_equal(got, put, len);
	memset(got, 0, len);
	assert_int_equal(kvc_register(shared, got, len, &mem, &err), 0);
	assert_int_equal(kvc_get(shared, KEY(0), got, len, NULL), len);
	assert_memory_equal(got, put, len);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	assert_int_equal(kvc_delete(shared, KEY(0), NULL), 0);
	munmap(put, len);
	munmap(got, len);
}

#define SLOW_NS 600000000000ull /* a GiB under a sanitizer, on a machine that is busy otherwise */

/* Private memory that a process can write: the kernel's count for RLIMIT_DATA, without memory that it shares. */
static uint64_t data_bytes(pid_t pid)
{
	char path[64], line[256];
	unsigned long long kib = 0;
	FILE *f;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) && sscanf(line, "VmData: %llu kB", &kib) != 1)
		;
	fclose(f);
	assert_true(kib > 0);
	return (uint64_t)kib << 10;
}

/* From now on the kernel refuses the process more than `more` of such memory; UINT64_MAX: it refuses nothing. */
static void data_limit(pid_t pid, uint64_t more)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY}, limit = {data_bytes(pid) + more, RLIM_INFINITY};
	assert_int_equal(prlimit(pid, RLIMIT_DATA, more == UINT64_MAX ? &none : &limit, NULL), 0);
}

/* A value streams: beside the value itself, which the server has in shared memory, neither side needs memory that grows
 * with it. (A sanitizer's own memory would count.) */
static void a_value_streams_in_bounded_memory(void **state)
{
	enum { LEN = 160 << 20, MORE = 16 << 20 };
	static const char *const more[] = {"--memory-mb", "700", "--worker-threads", "1", "--prefault", "off", NULL};
	const struct test_server *const servers[] = {&test_second};
	struct kvc_mem *mem = NULL;
	struct kvc_pool *pool;
	struct kv_error err;
	const struct kvc_call slow = {.size = sizeof(slow), .timeout_ns = SLOW_NS};
	uint8_t *put, *got;
	(void)state;
	if (KV_ASAN || KV_TSAN)
		skip(); /* their shadow counts for RLIMIT_DATA; release builds run this */
	need_server();
	test_server_start_with(&test_second, "second", more);
	pool = pool_open(servers, 1, 1, 64 * MIB);
	put = memory(LEN);
	got = memory(16 * MIB);
	test_fill(put, LEN, 9);
	data_limit(getpid(), MORE);
	data_limit(test_second.pid, MORE);
	assert_true(mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	for (unsigned round = 0; round < 2; round++) { /* from plain memory, then from registered memory */
		if (round == 1)
			assert_int_equal(kvc_register(pool, put, LEN, &mem, &err), 0);
		assert_int_equal(kvc_put(pool, KEY(0), put, LEN, &slow), 0);
		for (uint64_t at = 0; at < LEN; at += 16 * MIB) {
			const struct kvc_call part = {
				.size = sizeof(part), .offset = at, .length = 16 * MIB, .timeout_ns = SLOW_NS};
			assert_int_equal(kvc_get(pool, KEY(0), got, 16 * MIB, &part), 16 * MIB);
			assert_memory_equal(got, put + at, 16 * MIB);
		}
		assert_int_equal(kvc_delete(pool, KEY(0), NULL), 0);
	}
	if (test_local == KVC_LOCAL_AUTO) /* all of them in place: a lease is no more than a quarter of the memory */
		assert_int_equal(counters(pool).local_gets, 2 * LEN / (16 * MIB));
	data_limit(getpid(), UINT64_MAX);
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	kvc_pool_close(&pool);
	test_server_kill(&test_second);
	munmap(put, LEN);
	munmap(got, 16 * MIB);
}

static void the_largest_value_round_trips(void **state)
{
	static const char *const more[] = {"--memory-mb", "1100", "--worker-threads", "1", "--prefault", "off", NULL};
	const struct test_server *const servers[] = {&test_second};
	const struct kvc_call slow = {.size = sizeof(slow), .timeout_ns = SLOW_NS};
	const uint64_t last = KV_VALUE_MAX - 16 * MIB;
	struct kvc_pool *pool;
	uint8_t *put, *got;
	(void)state;
	need_server();
	test_server_start_with(&test_second, "second", more);
	pool = pool_open(servers, 1, 1, 64 * MIB);
	put = memory(KV_VALUE_MAX);
	got = memory(16 * MIB);
	test_fill(put, MIB, 9);
	test_fill(put + last, 16 * MIB, 10);
	assert_int_equal(kvc_put(pool, KEY(0), put, KV_VALUE_MAX, &slow), 0);
	for (uint64_t at = 0; at <= last; at += last) {
		const struct kvc_call part = {
			.size = sizeof(part), .offset = at, .length = 16 * MIB, .timeout_ns = SLOW_NS};
		assert_int_equal(kvc_get(pool, KEY(0), got, 16 * MIB, &part), 16 * MIB);
		assert_memory_equal(got, put + at, 16 * MIB);
	}
	kvc_pool_close(&pool);
	test_server_kill(&test_second);
	munmap(put, KV_VALUE_MAX);
	munmap(got, 16 * MIB);
}

static void the_same_value_again_succeeds_and_another_is_refused(void **state)
{
	uint8_t *a = memory(MIB), *b = memory(MIB);
	(void)state;
	need_server();
	test_fill(a, MIB, 1);
	test_fill(b, MIB, 2);
	for (size_t len = 10; len <= MIB; len = len * 100 + 76) {
		assert_int_equal(kvc_put(shared, KEY(len), a, len, NULL), 0);
		assert_int_equal(kvc_put(shared, KEY(len), a, len, NULL), 0);
		assert_int_equal(kvc_put(shared, KEY(len), b, len, NULL), -KV_EEXIST);
		assert_int_equal(kvc_put(shared, KEY(len), a, len - 1, NULL), -KV_EEXIST);
		assert_int_equal(kvc_get(shared, KEY(len), b, len, NULL), len);
		assert_true(test_same(b, len, 1));
		test_fill(b, MIB, 2);
		assert_int_equal(kvc_delete(shared, KEY(len), NULL), 0);
	}
	munmap(a, MIB);
	munmap(b, MIB);
}

static void a_value_expires_after_its_ttl(void **state)
{
	struct kvc_call call = {.size = sizeof(call), .ttl_s = 1};
	uint64_t until;
	char b[4];
	int64_t rc;
	(void)state;
	need_server();
	assert_int_equal(kvc_put(shared, KEY(0), "abc", 4, &call), 0);
	until = now_ns() + 10000000000ull;
	while ((rc = kvc_get(shared, KEY(0), b, 4, NULL)) == 4 && now_ns() < until)
		usleep(50000);
	assert_int_equal(rc, -KV_ENOTFOUND);
}

static void registered_memory_is_not_touched_after_a_put_was_given_up(void **state)
{
	struct kvc_call call = brief();
	uint8_t *buf = memory(4 * MIB);
	struct kvc_pool *pool;
	struct kvc_mem *mem;
	struct kv_error err;
	int64_t rc;
	(void)state;
	need_server();
	pool = pool_open(one, 1, 1, 64 * MIB);
	assert_int_equal(kvc_register(pool, buf, 4 * MIB, &mem, &err), 0);
	test_fill(buf, 4 * MIB, 5);
	test_server_stop(&test_first);
	assert_int_equal(kvc_put(pool, NAMED("reput"), buf, 4 * MIB, &call), -KV_ETIMEOUT);
	/* What a late reader would see now must not be stored. */
	memset(buf, 0, 4 * MIB);
	test_server_cont(&test_first);
	rc = kvc_get(pool, NAMED("reput"), buf, 4 * MIB, NULL);
	assert_true(rc == -KV_ENOTFOUND || (rc == (int64_t)(4 * MIB) && test_same(buf, 4 * MIB, 5)));
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	kvc_delete(pool, NAMED("reput"), NULL);
	kvc_pool_close(&pool);
	munmap(buf, 4 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_memory_round_trips),
		cmocka_unit_test(registered_memory_round_trips),
		cmocka_unit_test(a_value_across_parts_of_registered_memory_round_trips),
		cmocka_unit_test(a_value_of_100_mib_round_trips),
		cmocka_unit_test(a_value_streams_in_bounded_memory),
		cmocka_unit_test(the_largest_value_round_trips),
		cmocka_unit_test(the_same_value_again_succeeds_and_another_is_refused),
		cmocka_unit_test(a_value_expires_after_its_ttl),
		cmocka_unit_test_teardown(registered_memory_is_not_touched_after_a_put_was_given_up, let_go),
	};
	return test_both_ways(tests, calls_up, calls_down);
}
