/* SPDX-License-Identifier: Apache-2.0 */
/* test_client.c -- the client against real kv-server processes: bytes, sizes, batches, threads, and servers that die.
 *
 * Each test makes the keys that it uses. Waits are bounded by the calls' own deadlines, so a hang ends as a failure. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/pool/client.h"
#include "kvclient/pool/hosted.h"
#include "kvclient/raw.h"
#include "server.h"

#define MIB ((size_t)1 << 20)

static struct test_server server, second;
static const struct test_server *const one[] = {&server}, *const two[] = {&server, &second};
static struct kvc_pool *pool; /* two clients, one server */

static int setup(void **state)
{
	(void)state;
	test_server_up(&server, "one");
	if (server.pid)
		pool = test_pool(one, 1, 2);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvc_pool_close(&pool);
	test_server_kill(&server);
	test_server_kill(&second);
	return 0;
}

static void need_server(void)
{
	test_server_need(&server);
}

static struct kvc_key key_of(char *buf, size_t cap, const char *test, uint64_t n)
{
	int len = snprintf(buf, cap, "%s/%llu", test, (unsigned long long)n);
	return (struct kvc_key){buf, (size_t)len};
}

#define KEY(n) key_of((char[64]){0}, 64, __func__, n)

static uint8_t *memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

/* ---- bytes of every size ---- */

static const size_t sizes[] = {1,       2,    7,     8,     9,     3071,    3072,          3073,     4095,
			       4096,    4097, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, 16 << 20, (16 << 20) + 1,
			       17 << 20};

static void plain_memory_round_trips(void **state)
{
	uint8_t *put = memory(17 * MIB), *got = memory(17 * MIB + 1);
	(void)state;
	need_server();
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		size_t len = sizes[i];
		test_fill(put, len, i);
		memset(got, 0xEE, len + 1);
		assert_int_equal(kvc_put(pool, KEY(i), put, len, NULL), 0);
		assert_int_equal(kvc_get(pool, KEY(i), got, len, NULL), len);
		assert_true(test_same(got, len, i));
		assert_int_equal(got[len], 0xEE);
		assert_int_equal(kvc_delete(pool, KEY(i), NULL), 0);
	}
	munmap(put, 17 * MIB);
	munmap(got, 17 * MIB + 1);
}

static void a_larger_destination_is_fine_and_a_smaller_one_is_too_big(void **state)
{
	uint8_t *buf = memory(18 * MIB);
	(void)state;
	need_server();
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		size_t len = sizes[i];
		test_fill(buf, len, i);
		assert_int_equal(kvc_put(pool, KEY(i), buf, len, NULL), 0);
		memset(buf, 0, len);
		assert_int_equal(kvc_get(pool, KEY(i), buf, 18 * MIB, NULL), len);
		assert_true(test_same(buf, len, i));
		if (len > 1)
			assert_int_equal(kvc_get(pool, KEY(i), buf, len - 1, NULL), -KV_ETOOBIG);
		assert_int_equal(kvc_delete(pool, KEY(i), NULL), 0);
	}
	munmap(buf, 18 * MIB);
}

static void registered_memory_round_trips(void **state)
{
	size_t room = 40 * MIB;
	uint8_t *buf = memory(room);
	struct kvc_mem *mem;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(pool, buf, room, &mem, &err), 0);
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		size_t len = sizes[i], at = 20 * MIB + i * 13;
		test_fill(buf, len, i);
		memset(buf + at, 0xEE, len + 1);
		assert_int_equal(kvc_put(pool, KEY(i), buf, len, NULL), 0);
		assert_int_equal(kvc_get(pool, KEY(i), buf + at, len, NULL), len);
		assert_true(test_same(buf + at, len, i));
		assert_int_equal(buf[at + len], 0xEE);
		assert_int_equal(kvc_delete(pool, KEY(i), NULL), 0);
	}
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	assert_null(mem);
	munmap(buf, room);
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
	assert_int_equal(kvc_put(pool, KEY(0), put, len, NULL), 0);
	assert_int_equal(kvc_get(pool, KEY(0), got, len, NULL), len);
	assert_memory_equal(got, put, len);
	memset(got, 0, len);
	assert_int_equal(kvc_register(pool, got, len, &mem, &err), 0);
	assert_int_equal(kvc_get(pool, KEY(0), got, len, NULL), len);
	assert_memory_equal(got, put, len);
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	assert_int_equal(kvc_delete(pool, KEY(0), NULL), 0);
	munmap(put, len);
	munmap(got, len);
}

static void overlapping_registrations_are_refused(void **state)
{
	uint8_t *buf = memory(4 * MIB);
	struct kvc_mem *mem, *other;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(pool, buf, 2 * MIB, &mem, &err), 0);
	assert_int_equal(kvc_register(pool, buf + 2 * MIB - 1, MIB, &other, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "overlaps"));
	assert_int_equal(kvc_register(pool, buf + 2 * MIB, MIB, &other, &err), 0);
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	assert_int_equal(kvc_unregister(pool, &other), 0);
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
	assert_int_equal(kvc_register(pool, at, len, &mem, &err), 0);
	test_fill(at, len, 5);
	assert_int_equal(kvc_put(pool, KEY(0), at, len, NULL), 0);
	memset(buf, 0xEE, 4 * MIB);
	assert_int_equal(kvc_get(pool, KEY(0), at, len, NULL), len);
	assert_true(test_same(at, len, 5));
	assert_int_equal(at[-1], 0xEE);
	assert_int_equal(at[len], 0xEE);
	assert_int_equal(kvc_delete(pool, KEY(0), NULL), 0);
	assert_int_equal(kvc_unregister(pool, &mem), 0);
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
	assert_int_equal(kvc_register(pool, buf, 4 * MIB, &mem, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "is not writable"));
	assert_int_equal(munmap(buf + 2 * MIB, MIB), 0);
	assert_int_equal(kvc_register(pool, buf, 4 * MIB, &mem, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "is not all mapped"));
	assert_non_null(strstr(err.text, "2097152 bytes behind its start"));
	assert_null(mem);
	/* What is left of it is good. */
	assert_int_equal(kvc_register(pool, buf, 2 * MIB, &mem, &err), 0);
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	munmap(buf, 4 * MIB);
}

static void what_buffers_consist_of_is_told(void **state)
{
	struct kvc_info i = {.size = sizeof(i)};
	(void)state;
	need_server();
	assert_int_equal(kvc_info(pool, &i), 0);
	assert_non_null(strstr(i.memory, " pages"));
	assert_true(i.numa[0] != 0);
}

/* ---- parts ---- */

static void parts_of_a_value_can_be_read(void **state)
{
	size_t len = 17 * MIB + 5;
	uint8_t *put = memory(len), *got = memory(len);
	static const struct {
		uint64_t offset, length;
	} parts[] = {{0, 1},
		     {1, 100},
		     {4095, 8193},
		     {0, 16 << 20},
		     {100, (16 << 20) + 50},
		     {17 << 20, 0},
		     {(17 << 20) + 4, 1},
		     {(17 << 20) + 4, 100}};
	(void)state;
	need_server();
	test_fill(put, len, 3);
	assert_int_equal(kvc_put(pool, KEY(0), put, len, NULL), 0);
	for (unsigned i = 0; i < KV_COUNT(parts); i++) {
		struct kvc_call call = {.size = sizeof(call), .offset = parts[i].offset, .length = parts[i].length};
		uint64_t there = len - parts[i].offset, want = parts[i].length ? KV_MIN(parts[i].length, there) : there;
		assert_int_equal(kvc_get(pool, KEY(0), got, len, &call), want);
		assert_memory_equal(got, put + parts[i].offset, want);
	}
	assert_int_equal(
		kvc_get(pool, KEY(0), got, len, &(struct kvc_call){.size = sizeof(struct kvc_call), .offset = len + 1}),
		-KV_EINVAL);
	assert_int_equal(kvc_delete(pool, KEY(0), NULL), 0);
	munmap(put, len);
	munmap(got, len);
}

/* ---- slices: one block into many layers ---- */

static void slices_check(const uint8_t *at, const uint8_t *value, uint64_t len, uint64_t slice, uint64_t stride)
{
	for (uint64_t pos = 0; pos < len; pos += slice) {
		uint64_t n = KV_MIN(slice, len - pos);
		const uint8_t *s = at + pos / slice * stride;
		assert_memory_equal(s, value + pos, n);
		/* The gap is untouched. */
		for (uint64_t i = n; i < stride && pos + n < len; i++)
			assert_int_equal(s[i], 0xEE);
	}
}

static void slices_round(bool registered, const char *name)
{
	static const struct {
		uint64_t len, slice, stride;
	} cases[] = {{1000, 100, 150},        {65536, 4096, 8192},           {65536 + 100, 4096, 4096},
		     {MIB + 1, 65536, 65537}, {18 * MIB + 3, MIB, MIB + 64}, {40, 7, 9}};
	uint8_t *value = memory(20 * MIB), *buf = memory(40 * MIB);
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	if (registered)
		assert_int_equal(kvc_register(pool, buf, 40 * MIB, &mem, &err), 0);
	for (unsigned i = 0; i < KV_COUNT(cases); i++) {
		char text[64];
		struct kvc_item item = {.key = key_of(text, sizeof(text), name, i),
					.data = buf,
					.len = cases[i].len,
					.slice = cases[i].slice,
					.stride = cases[i].stride};
		test_fill(value, cases[i].len, i);
		memset(buf, 0xEE, 40 * MIB);
		assert_int_equal(kvc_put(pool, item.key, value, cases[i].len, NULL), 0);
		assert_int_equal(kvc_get_batch(pool, &item, 1, NULL), 0);
		assert_int_equal(item.result, cases[i].len);
		slices_check(buf, value, cases[i].len, cases[i].slice, cases[i].stride);
		assert_int_equal(kvc_delete(pool, item.key, NULL), 0);
	}
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	munmap(value, 20 * MIB);
	munmap(buf, 40 * MIB);
}

static void a_value_goes_to_slices_of_registered_memory(void **state)
{
	(void)state;
	need_server();
	slices_round(true, __func__);
}

static void a_value_goes_to_slices_of_plain_memory(void **state)
{
	(void)state;
	need_server();
	slices_round(false, __func__);
}

static void slices_that_overlap_are_refused(void **state)
{
	uint8_t buf[100];
	struct kvc_item item = {.key = KEY(0), .data = buf, .len = 100, .slice = 10, .stride = 9};
	(void)state;
	need_server();
	assert_int_equal(kvc_get_batch(pool, &item, 1, NULL), -KV_EINVAL);
	assert_int_equal(item.result, -KV_EINVAL);
}

/* ---- small calls ---- */

static void arguments_are_checked(void **state)
{
	uint8_t b[1] = {1}, long_key[129] = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_get(pool, (struct kvc_key){"", 0}, b, 1, NULL), -KV_EINVAL);
	assert_int_equal(kvc_get(pool, (struct kvc_key){long_key, 129}, b, 1, NULL), -KV_EINVAL);
	assert_int_equal(kvc_get(pool, (struct kvc_key){"k", 1}, NULL, 1, NULL), -KV_EINVAL);
	assert_int_equal(kvc_put(pool, (struct kvc_key){"k", 1}, b, 0, NULL), -KV_EINVAL);
	assert_int_equal(kvc_put(pool, (struct kvc_key){"k", 1}, b, ((uint64_t)1 << 30) + 1, NULL), -KV_ETOOBIG);
	assert_int_equal(kvc_get(NULL, (struct kvc_key){"k", 1}, b, 1, NULL), -KV_EINVAL);
}

static void keys_have_1_to_128_bytes(void **state)
{
	uint8_t key[128], got[8];
	(void)state;
	need_server();
	for (size_t len = 1; len <= sizeof(key); len++) {
		struct kvc_key k = {key, len};
		memset(key, (int)len, sizeof(key));
		assert_int_equal(kvc_put(pool, k, key, 1 + len % 8, NULL), 0);
		assert_int_equal(kvc_get(pool, k, got, 8, NULL), 1 + len % 8);
		assert_int_equal(kvc_delete(pool, k, NULL), 0);
	}
}

static void a_miss_is_not_found(void **state)
{
	char b[8];
	(void)state;
	need_server();
	assert_int_equal(kvc_get(pool, KEY(0), b, 8, NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_delete(pool, KEY(0), NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_touch(pool, KEY(0), NULL), -KV_ENOTFOUND);
}

static void the_same_value_again_succeeds_and_another_is_refused(void **state)
{
	uint8_t *a = memory(MIB), *b = memory(MIB);
	(void)state;
	need_server();
	test_fill(a, MIB, 1);
	test_fill(b, MIB, 2);
	for (size_t len = 10; len <= MIB; len = len * 100 + 76) {
		assert_int_equal(kvc_put(pool, KEY(len), a, len, NULL), 0);
		assert_int_equal(kvc_put(pool, KEY(len), a, len, NULL), 0);
		assert_int_equal(kvc_put(pool, KEY(len), b, len, NULL), -KV_EEXIST);
		assert_int_equal(kvc_put(pool, KEY(len), a, len - 1, NULL), -KV_EEXIST);
		assert_int_equal(kvc_get(pool, KEY(len), b, len, NULL), len);
		assert_true(test_same(b, len, 1));
		test_fill(b, MIB, 2);
		assert_int_equal(kvc_delete(pool, KEY(len), NULL), 0);
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
	assert_int_equal(kvc_put(pool, KEY(0), "abc", 4, &call), 0);
	until = now_ns() + 10000000000ull;
	while ((rc = kvc_get(pool, KEY(0), b, 4, NULL)) == 4 && now_ns() < until)
		usleep(50000);
	assert_int_equal(rc, -KV_ENOTFOUND);
}

static void exists_tells_each_key_and_the_prefix(void **state)
{
	enum { N = 1500 };
	static char text[N][100];
	static struct kvc_key keys[N];
	static uint8_t found[N];
	unsigned prefix = 0;
	(void)state;
	need_server();
	for (unsigned i = 0; i < N; i++) {
		/* Long keys: several records per shard. */
		keys[i] = (struct kvc_key){text[i], (size_t)snprintf(text[i], sizeof(text[i]), "exists/%080u", i)};
		if (i < 700 || i % 3 == 0)
			assert_int_equal(kvc_put(pool, keys[i], text[i], 10, NULL), 0);
	}
	assert_int_equal(kvc_exists(pool, keys, N, found, &prefix, NULL), 0);
	assert_int_equal(prefix, 700);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(found[i], i < 700 || i % 3 == 0);
	/* The same key more than once. */
	keys[1] = keys[2] = keys[0];
	assert_int_equal(kvc_exists(pool, keys, 4, found, &prefix, NULL), 0);
	assert_int_equal(prefix, 4);
	assert_int_equal(kvc_exists(pool, keys, 0, NULL, &prefix, NULL), 0);
	assert_int_equal(prefix, 0);
	keys[1].len = 0;
	assert_int_equal(kvc_exists(pool, keys, 4, found, &prefix, NULL), -KV_EINVAL);
	for (unsigned i = 0; i < N; i++)
		kvc_delete(pool, (struct kvc_key){text[i], strlen(text[i])}, NULL);
}

static void ping_and_stat_reach_every_shard(void **state)
{
	struct kvc_stat_item items[64];
	uint64_t gets = 0;
	char b[1];
	int n;
	(void)state;
	need_server();
	assert_int_equal(kvc_ping(pool, NULL), 0);
	assert_int_equal(kvc_ping(pool, &(struct kvc_call){.size = sizeof(struct kvc_call), .server = 1}), -KV_EINVAL);
	for (int round = 0; round < 2; round++) {
		uint64_t before = gets;
		n = kvc_stat(pool, items, KV_COUNT(items), NULL);
		assert_true(n > 10);
		for (int i = 0; i < n; i++)
			if (strcmp(items[i].name, "gets") == 0)
				gets = items[i].value;
		if (round == 1)
			assert_int_equal(gets, before + 100);
		for (unsigned i = 0; i < 100; i++)
			kvc_get(pool, KEY(i), b, 1, NULL);
	}
}

/* ---- batches ---- */

static void batches_have_a_result_per_item(void **state)
{
	enum { N = 500, LEN = 70000 };
	static char text[N][32];
	static struct kvc_item items[N];
	uint8_t *buf = memory((size_t)N * LEN);
	(void)state;
	need_server();
	for (unsigned i = 0; i < N; i++) {
		items[i] = (struct kvc_item){.key = key_of(text[i], sizeof(text[i]), "batch", i),
					     .data = buf + (size_t)i * LEN,
					     .len = 1 + (i * 997) % LEN};
		test_fill(items[i].data, items[i].len, i);
	}
	assert_int_equal(kvc_put_batch(pool, items, N, NULL), 0);
	memset(buf, 0, (size_t)N * LEN);
	for (unsigned i = 0; i < N; i += 5)
		assert_int_equal(kvc_delete(pool, items[i].key, NULL), 0);
	for (unsigned i = 0; i < N; i++)
		items[i].len = LEN;
	assert_int_equal(kvc_get_batch(pool, items, N, NULL), -KV_ENOTFOUND);
	for (unsigned i = 0; i < N; i++) {
		if (i % 5 == 0) {
			assert_int_equal(items[i].result, -KV_ENOTFOUND);
			continue;
		}
		assert_int_equal(items[i].result, 1 + (i * 997) % LEN);
		assert_true(test_same(items[i].data, (size_t)items[i].result, i));
		assert_int_equal(kvc_delete(pool, items[i].key, NULL), 0);
	}
	munmap(buf, (size_t)N * LEN);
}

static uint64_t server_writes(void)
{
	struct kvc_stat_item items[256];
	int n = kvc_stat(pool, items, KV_COUNT(items), NULL);
	for (int i = 0; i < n; i++)
		if (strcmp(items[i].name, "writes") == 0)
			return items[i].value;
	fail_msg("the server does not count its writes");
	return 0;
}

/* Small items are asked for side by side, whatever their places with the caller, and come several in a write where
 * the fabric allows it. */
static void small_items_of_a_batch_share_writes(void **state)
{
	enum { N = 64, LEN = 4096, GAP = 512 };
	static char text[N][32];
	static struct kvc_item items[N];
	uint8_t *buf = memory((size_t)N * (LEN + GAP));
	struct kvc_info info = {.size = sizeof(info)};
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	uint64_t before, writes;
	(void)state;
	need_server();
	assert_int_equal(kvc_info(pool, &info), 0);
	for (unsigned i = 0; i < N; i++) {
		items[i] = (struct kvc_item){.key = key_of(text[i], sizeof(text[i]), "small", i),
					     .data = buf + (size_t)i * (LEN + GAP),
					     .len = i % 8 == 7 ? 1000 : LEN};
		test_fill(items[i].data, items[i].len, i);
	}
	assert_int_equal(kvc_put_batch(pool, items, N, NULL), 0);
	for (unsigned round = 0; round < 2; round++) { /* to memory of the caller's, then registered */
		if (round == 1)
			assert_int_equal(kvc_register(pool, buf, (size_t)N * (LEN + GAP), &mem, &err), 0);
		memset(buf, 0xAA, (size_t)N * (LEN + GAP));
		before = server_writes();
		assert_int_equal(kvc_get_batch(pool, items, N, NULL), 0);
		writes = server_writes() - before;
		for (unsigned i = 0; i < N; i++) {
			const uint8_t *end = (uint8_t *)items[i].data + items[i].len;
			assert_int_equal(items[i].result, items[i].len);
			assert_true(test_same(items[i].data, items[i].len, i));
			for (unsigned k = 0; k < GAP; k++)
				assert_int_equal(end[k], 0xAA);
		}
		if (strcmp(info.provider, "tcp;ofi_rxm") == 0)
			assert_true(writes <= N / 4);
	}
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_delete(pool, items[i].key, NULL), 0);
	munmap(buf, (size_t)N * (LEN + GAP));
}

static void a_batch_larger_than_the_buffer_goes_through(void **state)
{
	enum { N = 40 };
	static char text[N][32];
	static struct kvc_item items[N];
	size_t len = 3 * MIB + 17;
	uint8_t *buf = memory(N * len);
	(void)state;
	need_server();
	for (unsigned i = 0; i < N; i++) {
		items[i] = (struct kvc_item){
			.key = key_of(text[i], sizeof(text[i]), "large", i), .data = buf + i * len, .len = len};
		test_fill(items[i].data, len, i);
	}
	assert_int_equal(kvc_put_batch(pool, items, N, NULL), 0);
	memset(buf, 0, N * len);
	assert_int_equal(kvc_get_batch(pool, items, N, NULL), 0);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(items[i].result, len);
		assert_true(test_same(items[i].data, len, i));
		assert_int_equal(kvc_delete(pool, items[i].key, NULL), 0);
	}
	munmap(buf, N * len);
}

/* ---- workers: views, pins, coroutines ---- */

struct workers {
	const char *name;
	_Atomic unsigned failed, ran;
};

#define EXPECT(cond)                                                                                                   \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			print_message("worker %u: %s is false (line %d)\n", w, #cond, __LINE__);                       \
			job->failed++;                                                                                 \
			return;                                                                                        \
		}                                                                                                      \
	} while (0)

static void view_worker(struct kvc_client *c, unsigned w, void *arg)
{
	static const size_t lens[] = {1, 3000, 4096, 65536, 300001, 5 << 20, 17 << 20};
	struct workers *job = arg;
	struct kvc_view view, got;
	char text[64];
	job->ran++;
	for (unsigned i = 0; i < KV_COUNT(lens); i++) {
		struct kvc_key key = key_of(text, sizeof(text), "view", w * 100 + i);
		EXPECT(kvc_view_acquire_await(c, lens[i], 0, &view) == 0);
		test_fill(view.data, lens[i], i);
		EXPECT(kvc_put_await(c, key, view.data, lens[i], NULL) == 0);
		kvc_view_release(c, &view);
		/* Right, unknown, and wrong expectations. */
		for (uint64_t expect = 0; expect <= 2 * lens[i]; expect += lens[i]) {
			EXPECT(kvc_get_view_await(c, key, expect, NULL, &got) == (int64_t)lens[i]);
			EXPECT(got.len == lens[i] && got.value_len == lens[i]);
			EXPECT(test_same(got.data, lens[i], i));
			kvc_view_release(c, &got);
		}
		EXPECT(kvc_get_view_await(c, key, 1, NULL, &got) == (int64_t)lens[i]);
		EXPECT(test_same(got.data, lens[i], i));
		kvc_view_release(c, &got);
		EXPECT(kvc_delete_await(c, key, NULL) == 0);
	}
	EXPECT(kvc_get_view_await(c, (struct kvc_key){"view/none", 9}, 10, NULL, &got) == -KV_ENOTFOUND);
	EXPECT(kvc_view_acquire_await(c, (uint64_t)1 << 40, 0, &view) == -KV_ETOOBIG);
	kvc_view_release(c, &view);
}

/* All parts of batches together leave a loop most of its coroutines, however many clients share it. */
static void clients_of_one_loop_share_its_coroutines(void **state)
{
	struct kvc_pool *p;
	(void)state;
	need_server();
	assert_int_equal(kvc_pool_client(pool, 0)->parts_max, KVC_PARTS_MAX);
	p = test_pool(one, 1, 5); /* on two loops */
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(kvc_pool_client(p, i)->parts_max, KVC_PARTS_MAX / 3);
	kvc_pool_close(&p);
}

static void views_lend_the_clients_buffer(void **state)
{
	struct workers job = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_run(pool, 2, view_worker, &job), 0);
	assert_int_equal(job.ran, 2);
	assert_int_equal(job.failed, 0);
}

static void holding_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	struct kvc_view view;
	char text[64];
	job->ran++;
	for (unsigned i = 0; i < 20; i++) {
		struct kvc_key key = key_of(text, sizeof(text), "holding", w * 100 + i);
		EXPECT(kvc_view_acquire_await(c, MIB / 2, 0, &view) == 0);
		test_fill(view.data, MIB / 2, w);
		/* The others wait for what this one holds; its PUT must not wait behind them. */
		EXPECT(kvc_put_await(c, key, view.data, MIB / 2, NULL) == 0);
		kvc_view_release(c, &view);
		EXPECT(kvc_get_view_await(c, key, MIB / 2, NULL, &view) == MIB / 2);
		EXPECT(test_same(view.data, MIB / 2, w));
		EXPECT(kvc_delete_await(c, key, NULL) == 0);
		kvc_view_release(c, &view);
	}
}

static void workers_that_hold_views_do_not_block_each_other(void **state)
{
	struct kvc_options o = test_options(one, 1, 1);
	struct workers job = {0};
	struct kvc_pool *p = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	o.buffer_bytes = MIB;
	o.timeout_ns = 10000000000ull;
	assert_int_equal(kvc_pool_open(&o, &p, &err), 0);
	assert_int_equal(kvc_run(p, 8, holding_worker, &job), 0);
	assert_int_equal(job.ran, 8);
	assert_int_equal(job.failed, 0);
	kvc_pool_close(&p);
}

static void pin_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	struct kvc_key key = {"pin/a", 5}, none = {"pin/none", 8};
	char b[1];
	job->ran++;
	EXPECT(kvc_put_await(c, key, "12345", 5, NULL) == 0);
	EXPECT(kvc_pin_await(c, key, NULL) == 0);
	EXPECT(kvc_pin_await(c, key, NULL) == 0);
	EXPECT(kvc_unpin_await(c, key, NULL) == 0);
	EXPECT(kvc_pin_await(c, none, NULL) == -KV_ENOTFOUND);
	EXPECT(kvc_touch_await(c, key, NULL) == 0);
	EXPECT(kvc_delete_await(c, key, NULL) == 0);
	/* A blocking call would block the loop that is to serve it. */
	EXPECT(kvc_get(kvc_client_pool(c), key, b, 1, NULL) == -KV_EINVAL);
}

static void pins_and_touches_work(void **state)
{
	struct workers job = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_run(pool, 1, pin_worker, &job), 0);
	assert_int_equal(job.ran, 1);
	assert_int_equal(job.failed, 0);
}

static void raw_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	struct kvc_view view;
	char text[64];
	job->ran++;
	EXPECT(kvc_view_acquire_await(c, MIB, 0, &view) == 0);
	for (unsigned i = 0; i < 50; i++)
		EXPECT(kvc_put_await(c, key_of(text, sizeof(text), "raw", i), view.data, 65536, NULL) == 0);
	EXPECT(kvc_raw_await(c, w, &view, 65536, 1000, 4, 1, NULL) == 0);
	EXPECT(kvc_raw_await(c, w, &view, 2 * MIB, 10, 4, 1, NULL) == -KV_EINVAL);
	kvc_view_release(c, &view);
}

static void raw_writes_all_arrive(void **state)
{
	struct workers job = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_run(pool, 2, raw_worker, &job), 0);
	assert_int_equal(job.ran, 2);
	assert_int_equal(job.failed, 0);
	for (unsigned i = 0; i < 50; i++) {
		char text[64];
		assert_int_equal(kvc_delete(pool, key_of(text, sizeof(text), "raw", i), NULL), 0);
	}
}

static void mixed_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	uint8_t *buf = malloc(200000);
	char text[64];
	job->ran++;
	for (unsigned i = 0; i < 60; i++) {
		size_t len = 1 + (w * 7919 + i * 104729) % 200000;
		struct kvc_key key = key_of(text, sizeof(text), "mixed", w * 1000 + i);
		test_fill(buf, len, w * 1000 + i);
		EXPECT(kvc_put_await(c, key, buf, len, NULL) == 0);
		memset(buf, 0, len);
		EXPECT(kvc_get_await(c, key, buf, 200000, NULL) == (int64_t)len);
		EXPECT(test_same(buf, len, w * 1000 + i));
		EXPECT(kvc_delete_await(c, key, NULL) == 0);
	}
	free(buf);
}

static void sixty_four_workers_share_four_clients(void **state)
{
	struct kvc_counters n = {.size = sizeof(n)};
	struct kvc_info info = {.size = sizeof(info)};
	struct workers job = {0};
	struct kvc_pool *p;
	(void)state;
	need_server();
	p = test_pool(one, 1, 4);
	assert_int_equal(kvc_run(p, 64, mixed_worker, &job), 0);
	assert_int_equal(job.ran, 64);
	assert_int_equal(job.failed, 0);
	assert_int_equal(kvc_counters(p, &n), 0);
	assert_int_equal(n.gets, 64 * 60);
	assert_int_equal(n.hits, 64 * 60);
	assert_int_equal(n.errors, 0);
	assert_int_equal(n.bad_frames, 0);
	assert_int_equal(n.stale_immediates, 0);
	assert_int_equal(n.quarantined_bytes, 0);
	assert_int_equal(kvc_info(p, &info), 0);
	assert_int_equal(info.num_clients, 4);
	assert_int_equal(info.os_threads, 2);
	assert_int_equal(info.links, 4 * 2); /* two shards */
	assert_int_equal(info.buffer_bytes, 4 * 64 * MIB);
	kvc_pool_close(&p);
	assert_null(p);
}

static void spawned(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	(void)c;
	(void)w;
	job->ran++;
}

static void spawned_coroutines_run(void **state)
{
	struct workers job = {0};
	uint64_t until = now_ns() + 10000000000ull;
	(void)state;
	need_server();
	for (unsigned w = 0; w < 10; w++)
		assert_int_equal(kvc_spawn(pool, w, spawned, &job), 0);
	while (job.ran < 10 && now_ns() < until)
		usleep(1000);
	assert_int_equal(job.ran, 10);
}

/* ---- threads ---- */

struct thread_job {
	pthread_t thread;
	unsigned w, failed;
};

static void *thread_main(void *arg)
{
	struct thread_job *job = arg;
	uint8_t *buf = malloc(100000);
	char text[64];
	for (unsigned i = 0; i < 100 && !job->failed; i++) {
		size_t len = 1 + (job->w * 7919 + i * 104729) % 100000;
		struct kvc_key key = key_of(text, sizeof(text), "thread", job->w * 1000 + i);
		test_fill(buf, len, i);
		job->failed += kvc_put(pool, key, buf, len, NULL) != 0;
		memset(buf, 0, len);
		job->failed += kvc_get(pool, key, buf, 100000, NULL) != (int64_t)len || !test_same(buf, len, i);
		job->failed += kvc_delete(pool, key, NULL) != 0;
	}
	free(buf);
	return NULL;
}

static void blocking_calls_come_from_four_threads(void **state)
{
	static struct thread_job job[4]; /* a failing assertion may leave threads behind */
	(void)state;
	need_server();
	for (unsigned w = 0; w < 4; w++) {
		job[w].w = w;
		assert_int_equal(pthread_create(&job[w].thread, NULL, thread_main, &job[w]), 0);
	}
	for (unsigned w = 0; w < 4; w++) {
		pthread_join(job[w].thread, NULL);
		assert_int_equal(job[w].failed, 0);
	}
}

/* ---- several servers, and their deaths ---- */

static void keys_are_spread_over_two_servers(void **state)
{
	enum { N = 200 };
	static char text[N][32];
	static struct kvc_key keys[N];
	struct kvc_stat_item items[64];
	struct kvc_pool *p;
	unsigned prefix;
	char b[8];
	(void)state;
	need_server();
	test_server_start(&second, "two");
	p = test_pool(two, 2, 2);
	for (unsigned i = 0; i < N; i++) {
		keys[i] = key_of(text[i], sizeof(text[i]), "spread", i);
		assert_int_equal(kvc_put(p, keys[i], "12345678", 8, NULL), 0);
	}
	assert_int_equal(kvc_exists(p, keys, N, NULL, &prefix, NULL), 0);
	assert_int_equal(prefix, N);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_get(p, keys[i], b, 8, NULL), 8);
	/* The second server has its share. */
	for (int i = 0, n = kvc_stat(p, items, KV_COUNT(items),
				     &(struct kvc_call){.size = sizeof(struct kvc_call), .server = 1});
	     i < n; i++)
		if (strcmp(items[i].name, "blocks") == 0)
			assert_true(items[i].value > N / 4 && items[i].value < 3 * N / 4);
	kvc_pool_close(&p);
}

static void a_killed_server_is_peer_down_and_the_other_goes_on(void **state)
{
	enum { N = 60 };
	struct kvc_options o;
	struct kvc_pool *p = NULL, *lenient = NULL;
	struct kv_error err;
	unsigned up = 0, down = 0, back = 0;
	uint64_t begun, until;
	char b[8];
	(void)state;
	need_server();
	o = test_options(two, 2, 2);
	o.timeout_ns = 5000000000ull;
	assert_int_equal(kvc_pool_open(&o, &p, &err), 0);
	o.flags |= KVC_DOWN_IS_MISS;
	assert_int_equal(kvc_pool_open(&o, &lenient, &err), 0);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_put(p, KEY(i), "12345678", 8, NULL), 0);
	test_server_kill(&second);
	begun = now_ns();
	for (unsigned i = 0; i < N; i++) {
		int64_t rc = kvc_get(p, KEY(i), b, 8, NULL);
		assert_true(rc == 8 || rc == -KV_EPEERDOWN);
		assert_int_equal(kvc_get(lenient, KEY(i), b, 8, NULL), rc == 8 ? 8 : -KV_ENOTFOUND);
		up += rc == 8;
		down += rc != 8;
	}
	assert_true(up > 0 && down > 0);
	/* Not one of them waited for its deadline after the first ones. */
	assert_true(now_ns() - begun < 4 * 5000000000ull);
	test_server_start(&second, "two");
	until = now_ns() + 20000000000ull;
	while (back < down && now_ns() < until) {
		back = 0;
		for (unsigned i = 0; i < N; i++)
			back += kvc_get(p, KEY(i), b, 8, NULL) == -KV_ENOTFOUND; /* it came back empty */
		usleep(20000);
	}
	assert_int_equal(back, down);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_put(p, KEY(i), "12345678", 8, NULL), 0);
	kvc_pool_close(&p);
	kvc_pool_close(&lenient);
}

static void *kill_later(void *arg)
{
	usleep(200000);
	test_server_kill(arg);
	return NULL;
}

static void storm_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	uint8_t *buf = malloc(MIB);
	char text[64];
	uint64_t until = now_ns() + 1500000000ull;
	job->ran++;
	for (unsigned i = 0; now_ns() < until; i++) {
		struct kvc_key key = key_of(text, sizeof(text), "storm", w * 100000 + i % 20);
		int64_t rc = kvc_put_await(c, key, buf, 300000, NULL);
		EXPECT(rc == 0 || rc == -KV_EPEERDOWN || rc == -KV_ENOMEM);
		rc = kvc_get_await(c, key, buf, MIB, NULL);
		EXPECT(rc == 300000 || rc == -KV_EPEERDOWN || rc == -KV_ENOTFOUND);
	}
	free(buf);
}

static void a_server_killed_under_load_ends_every_call(void **state)
{
	struct workers job = {0};
	pthread_t killer;
	struct kvc_pool *p;
	(void)state;
	need_server();
	if (test_provider_is("shm")) {
		print_message("over shm who is killed under load may leave a lock taken, for which everybody spins "
			      "(docs/internals/providers.md)\n");
		test_server_kill(&second); /* the next test starts it */
		skip();
	}
	p = test_pool(two, 2, 2);
	assert_int_equal(pthread_create(&killer, NULL, kill_later, &second), 0);
	assert_int_equal(kvc_run(p, 32, storm_worker, &job), 0);
	pthread_join(killer, NULL);
	assert_int_equal(job.ran, 32);
	assert_int_equal(job.failed, 0);
	kvc_pool_close(&p);
}

static void a_server_that_stands_still_is_a_timeout_by_the_deadline(void **state)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 300000000ull};
	uint8_t *buf = memory(MIB);
	struct kvc_counters n = {.size = sizeof(n)};
	struct kvc_mem *mem;
	struct kv_error err;
	struct kvc_pool *p;
	uint64_t until;
	int64_t rc;
	(void)state;
	need_server();
	test_server_start(&second, "two");
	p = test_pool(&two[1], 1, 1);
	assert_int_equal(kvc_register(p, buf, MIB, &mem, &err), 0);
	test_fill(buf, MIB, 9);
	assert_int_equal(kvc_put(p, KEY(0), buf, MIB, NULL), 0);
	test_server_stop(&second);
	/* Into the caller's registered memory: it is fenced before the call returns. */
	rc = kvc_get(p, KEY(0), buf, MIB, &call);
	assert_true(rc == -KV_ETIMEOUT || rc == -KV_EPEERDOWN);
	memset(buf, 0xAB, MIB);
	test_server_cont(&second);
	until = now_ns() + 20000000000ull;
	while ((rc = kvc_get(p, (struct kvc_key){"still/none", 10}, buf, MIB, NULL)) != -KV_ENOTFOUND &&
	       now_ns() < until)
		usleep(20000);
	assert_int_equal(rc, -KV_ENOTFOUND);
	for (size_t i = 0; i < MIB; i++)
		assert_int_equal(buf[i], 0xAB);
	assert_int_equal(kvc_get(p, KEY(0), buf, MIB, NULL), MIB);
	assert_true(test_same(buf, MIB, 9));
	assert_int_equal(kvc_counters(p, &n), 0);
	assert_true(n.fences >= 1);
	assert_int_equal(kvc_unregister(p, &mem), 0);
	kvc_pool_close(&p);
	munmap(buf, MIB);
}

static void the_server_ends_in_order(void **state)
{
	(void)state;
	need_server();
	kvc_pool_close(&pool);
	assert_int_equal(test_server_end(&server), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_memory_round_trips),
		cmocka_unit_test(a_larger_destination_is_fine_and_a_smaller_one_is_too_big),
		cmocka_unit_test(registered_memory_round_trips),
		cmocka_unit_test(memory_at_any_address_is_registered),
		cmocka_unit_test(memory_that_is_not_there_or_not_writable_is_refused),
		cmocka_unit_test(what_buffers_consist_of_is_told),
		cmocka_unit_test(a_value_of_100_mib_round_trips),
		cmocka_unit_test(overlapping_registrations_are_refused),
		cmocka_unit_test(parts_of_a_value_can_be_read),
		cmocka_unit_test(a_value_goes_to_slices_of_registered_memory),
		cmocka_unit_test(a_value_goes_to_slices_of_plain_memory),
		cmocka_unit_test(slices_that_overlap_are_refused),
		cmocka_unit_test(arguments_are_checked),
		cmocka_unit_test(keys_have_1_to_128_bytes),
		cmocka_unit_test(a_miss_is_not_found),
		cmocka_unit_test(the_same_value_again_succeeds_and_another_is_refused),
		cmocka_unit_test(a_value_expires_after_its_ttl),
		cmocka_unit_test(exists_tells_each_key_and_the_prefix),
		cmocka_unit_test(ping_and_stat_reach_every_shard),
		cmocka_unit_test(batches_have_a_result_per_item),
		cmocka_unit_test(small_items_of_a_batch_share_writes),
		cmocka_unit_test(a_batch_larger_than_the_buffer_goes_through),
		cmocka_unit_test(clients_of_one_loop_share_its_coroutines),
		cmocka_unit_test(views_lend_the_clients_buffer),
		cmocka_unit_test(workers_that_hold_views_do_not_block_each_other),
		cmocka_unit_test(pins_and_touches_work),
		cmocka_unit_test(raw_writes_all_arrive),
		cmocka_unit_test(sixty_four_workers_share_four_clients),
		cmocka_unit_test(spawned_coroutines_run),
		cmocka_unit_test(blocking_calls_come_from_four_threads),
		cmocka_unit_test(keys_are_spread_over_two_servers),
		cmocka_unit_test(a_killed_server_is_peer_down_and_the_other_goes_on),
		cmocka_unit_test(a_server_killed_under_load_ends_every_call),
		cmocka_unit_test(a_server_that_stands_still_is_a_timeout_by_the_deadline),
		cmocka_unit_test(the_server_ends_in_order),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
