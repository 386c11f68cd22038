/* SPDX-License-Identifier: Apache-2.0 */
/* test_seal.c -- sealed values at a real server, over the fabric and on its host: ranges, layouts and parts of any
 * shape, keys and names, and the server's own memory, which has no byte of plaintext. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kvclient/calls.h"

/* A piece of a value, and as it is stored. */
enum { MOST = 3 << 20, SLICES_MOST = 300, PATTERN = 64, PIECE = 65536, PIECE_STORED = 65600 };

#define FIRST  "0a0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define SECOND "2a2122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
#define NAMES  "names:4a4142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f\n"

static const enum kvc_local ways[] = {KVC_LOCAL_OFF, KVC_LOCAL_AUTO};

/* Of pools. */
static const char *space;
static const struct test_server *const *where = one;
static uint64_t buffer_bytes;

/* A pool whose keys are these lines; NULL: it does not seal. */
static struct kvc_pool *sealing(enum kvc_local local, const char *lines, unsigned flags)
{
	struct kvc_options o;
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	char path[] = "/tmp/kvrail-test-seal-XXXXXX";
	int fd = mkstemp(path), rc;
	assert_true(fd >= 0);
	test_local = local;
	o = test_options(where, 1, 2);
	o.buffer_bytes = buffer_bytes;
	o.seal_key_file = lines ? path : NULL;
	o.flags = KVC_OPEN_WAIT | flags;
	o.namespace_name = space;
	assert_int_equal(write(fd, lines ? lines : "", lines ? strlen(lines) : 0), lines ? strlen(lines) : 0);
	close(fd);
	rc = kvc_pool_open(&o, &pool, &err);
	unlink(path);
	if (rc < 0)
		fail_msg("%s", err.text);
	return pool;
}

static void check_value(struct kvc_pool *pool, struct kvc_key key, const uint8_t *value, uint64_t len)
{
	uint8_t *got = malloc(len + 1);
	uint64_t value_len = 0;
	struct kvc_call call = {.size = sizeof(call), .out_value_len = &value_len};
	got[len] = 0xEE;
	assert_int_equal(kvc_get(pool, key, got, len, &call), len);
	assert_int_equal(value_len, len);
	assert_memory_equal(got, value, len);
	assert_int_equal(got[len], 0xEE);
	if (len > 1) {
		value_len = 0;
		assert_int_equal(kvc_get(pool, key, got, len - 1, &call), -KV_ETOOBIG);
		assert_int_equal(value_len, len);
	}
	free(got);
}

static void values_of_every_length(void **state)
{
	static const uint64_t lengths[] = LENGTHS;
	uint8_t *value = memory(17 << 20);
	(void)state;
	need_server();
	test_fill(value, 17 << 20, 3);
	for (unsigned w = 0; w < KV_COUNT(ways); w++) {
		struct kvc_pool *pool = sealing(ways[w], "a:" FIRST "\n" NAMES, w ? KVC_SEAL_NAMES : 0);
		for (unsigned i = 0; i < KV_COUNT(lengths); i++) {
			struct kvc_key key = KEY(i);
			assert_int_equal(kvc_put(pool, key, value, lengths[i], NULL), 0);
			assert_int_equal(kvc_put(pool, key, value, lengths[i], NULL), 0); /* the same bytes */
			check_value(pool, key, value, lengths[i]);
			value[0] ^= 1;
			assert_int_equal(kvc_put(pool, key, value, lengths[i], NULL), -KV_EEXIST);
			value[0] ^= 1;
			assert_int_equal(kvc_delete(pool, key, NULL), 0);
		}
		kvc_pool_close(&pool);
	}
	munmap(value, 17 << 20);
}

/* Without a landing area the ranges of a PUT may be shorter than a sealed piece. */
static void pieces_may_be_cut(void **state)
{
	enum { LEN = 300000 };
	uint8_t *value = memory(LEN);
	struct kvc_pool *pool;
	(void)state;
	need_server();
	test_server_start_with(&test_second, "second", (const char *const[]){"--landing-mb", "0", NULL});
	where = two + 1;
	pool = sealing(KVC_LOCAL_OFF, "a:" FIRST "\n", 0);
	where = one;
	test_fill(value, LEN, 5);
	assert_int_equal(kvc_put(pool, KEY(0), value, LEN, NULL), 0);
	check_value(pool, KEY(0), value, LEN);
	assert_int_equal(kvc_put(pool, KEY(0), value, LEN, NULL), 0);
	value[LEN - 1] ^= 1;
	assert_int_equal(kvc_put(pool, KEY(0), value, LEN, NULL), -KV_EEXIST);
	kvc_pool_close(&pool);
	test_server_kill(&test_second);
	munmap(value, LEN);
}

static uint64_t status_mib(const char *name)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[256];
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) &&
	       (strncmp(line, name, strlen(name)) != 0 || sscanf(line + strlen(name), ": %llu", &kib) != 1))
		;
	fclose(f);
	return kib >> 10;
}

/* A large value is sealed as it leaves, never as a whole. */
static void a_large_put_needs_little_memory(void **state)
{
	enum { LEN = 128 << 20 };
	uint8_t *value = memory(LEN);
	struct kvc_pool *pool;
	uint64_t before;
	int fd;
	(void)state;
	need_server();
	memset(value, 7, LEN);
	buffer_bytes = 8 << 20;
	pool = sealing(KVC_LOCAL_OFF, "a:" FIRST "\n", 0);
	buffer_bytes = 0;
	fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "5", 1) != 1) {
		print_message("cannot reset the peak of resident memory: %s\n", strerror(errno));
		skip();
	}
	close(fd);
	before = status_mib("VmRSS");
	assert_int_equal(kvc_put(pool, KEY(0), value, LEN, NULL), 0);
	assert_true(status_mib("VmHWM") < before + test_memory_bound(64));
	assert_int_equal(kvc_delete(pool, KEY(0), NULL), 0);
	kvc_pool_close(&pool);
	munmap(value, LEN);
}

/* Parts of a value, into slices or one place. */
static void any_range_is_read(void **state)
{
	struct kv_prng prng = check_seed();
	uint8_t *value = memory(MOST), *got = memory((size_t)2 * MOST);
	(void)state;
	need_server();
	for (unsigned w = 0; w < KV_COUNT(ways); w++) {
		struct kvc_pool *pool = sealing(ways[w], "a:" FIRST "\n", 0);
		for (unsigned i = 0; i < 12; i++) {
			uint64_t len = 1 + kv_prng_below(&prng, 1ull << kv_prng_below(&prng, 22)) % MOST;
			struct kvc_key key = KEY(i);
			test_fill(value, len, i);
			assert_int_equal(kvc_put(pool, key, value, len, NULL), 0);
			for (unsigned k = 0; k < 20; k++) {
				uint64_t from = kv_prng_below(&prng, len + 1), n = 1 + kv_prng_below(&prng, len);
				uint64_t there = KV_MIN(n, len - from), slice = 1 + kv_prng_below(&prng, n);
				struct kvc_call call = {.size = sizeof(call), .offset = from, .length = n};
				struct kvc_item item = {.key = key, .data = got, .len = n};
				if (k % 2 && n / slice < SLICES_MOST) {
					item.slice = slice;
					item.stride = slice + 1;
				}
				memset(got, 0xEE, (size_t)2 * MOST);
				(void)kvc_get_batch(pool, &item, 1, &call);
				assert_int_equal(item.result, there);
				for (uint64_t b = 0; b < there; b++) {
					uint64_t at = item.slice ? b / slice * item.stride + b % slice : b;
					if (got[at] != value[from + b])
						fail_msg("byte %llu of %llu from %llu is wrong", (unsigned long long)b,
							 (unsigned long long)there, (unsigned long long)from);
				}
			}
			assert_int_equal(kvc_delete(pool, key, NULL), 0);
		}
		kvc_pool_close(&pool);
	}
	munmap(value, MOST);
	munmap(got, (size_t)2 * MOST);
}

/* Parts are counted in order, each with its bytes, wherever they end. */
static void parts_end_anywhere(void **state)
{
	enum { LEN = 300000 };
	static const uint64_t ends[] = {1, 2, 65535, 65536, 65537, 65538, 200000, 200001, LEN - 1, LEN};
	uint8_t *value = memory(LEN), *got = memory(LEN);
	struct kvc_arrival arrival;
	struct kvc_layout layout = {
		.size = sizeof(layout), .num_parts = KV_COUNT(ends), .part_ends = ends, .arrival = &arrival};
	(void)state;
	need_server();
	test_fill(value, LEN, 9);
	for (unsigned w = 0; w < KV_COUNT(ways); w++) {
		struct kvc_pool *pool = sealing(ways[w], "a:" FIRST "\n", 0);
		for (uint64_t len = LEN; len > 0; len = len / 3) { /* the value may be shorter */
			struct kvc_item item = {.key = KEY(len), .data = got, .len = LEN, .layout = &layout};
			unsigned whole = 0;
			assert_int_equal(kvc_put(pool, KEY(len), value, len, NULL), 0);
			memset(got, 0, LEN);
			(void)kvc_get_batch(pool, &item, 1, NULL);
			assert_int_equal(item.result, len);
			while (whole < KV_COUNT(ends) && ends[whole] <= len)
				whole++;
			assert_int_equal(kvc_arrival_parts(&arrival), whole);
			assert_memory_equal(got, value, len);
			assert_int_equal(kvc_delete(pool, KEY(len), NULL), 0);
		}
		kvc_pool_close(&pool);
	}
	munmap(value, LEN);
	munmap(got, LEN);
}

/* A server exchanges the second piece of a value for that of another one, which had the key before. */
static void parts_are_of_one_value(void **state)
{
	enum { LEN = 2 * PIECE, STORED = 2 * PIECE_STORED };
	static const uint64_t ends[] = {PIECE, LEN};
	uint8_t *value = memory(LEN), *got = memory(LEN), *mixed = memory(STORED), *stored = memory(STORED);
	struct kvc_arrival arrival;
	struct kvc_layout layout = {
		.size = sizeof(layout), .num_parts = KV_COUNT(ends), .part_ends = ends, .arrival = &arrival};
	struct kvc_item item = {.key = KEY(0), .data = got, .len = LEN, .layout = &layout};
	struct kvc_call second = {.size = sizeof(second), .offset = PIECE, .length = PIECE};
	struct kvc_pool *sealed, *raw;
	(void)state;
	need_server();
	sealed = sealing(KVC_LOCAL_OFF, "a:" FIRST "\n", 0);
	raw = sealing(KVC_LOCAL_OFF, NULL, 0);
	for (unsigned i = 0; i < 2; i++) {
		test_fill(value, LEN, i);
		assert_int_equal(kvc_put(sealed, KEY(0), value, LEN, NULL), 0);
		assert_int_equal(kvc_get(raw, KEY(0), stored, STORED, NULL), STORED);
		memcpy(mixed + (size_t)i * PIECE_STORED, stored + (size_t)i * PIECE_STORED, PIECE_STORED);
		assert_int_equal(kvc_get_batch(sealed, &item, 1, NULL), 0);
		assert_int_equal(item.result, LEN);
		assert_memory_equal(got, value, LEN);
		assert_int_equal(kvc_delete(sealed, KEY(0), NULL), 0);
	}
	assert_int_equal(kvc_put(raw, KEY(0), mixed, STORED, NULL), 0);
	assert_int_equal(kvc_get(sealed, KEY(0), got, LEN, NULL), -KV_ECORRUPT);
	(void)kvc_get_batch(sealed, &item, 1, NULL);
	assert_int_equal(item.result, -KV_ECORRUPT);
	assert_int_equal(kvc_arrival_parts(&arrival), 1);
	assert_int_equal(kvc_get(sealed, KEY(0), got, PIECE, &second), PIECE); /* a call of its own */
	assert_int_equal(kvc_delete(raw, KEY(0), NULL), 0);
	kvc_pool_close(&sealed);
	kvc_pool_close(&raw);
	munmap(value, LEN);
	munmap(got, LEN);
	munmap(mixed, STORED);
	munmap(stored, STORED);
}

static void others_cannot_open_them(void **state)
{
	enum { LEN = 100000 };
	struct kvc_pool *pool = NULL, *other;
	uint8_t *value = memory(LEN), *got = memory(LEN + 1024);
	(void)state;
	need_server();
	pool = sealing(KVC_LOCAL_OFF, "a:" FIRST "\n", 0);
	test_fill(value, LEN, 4);
	assert_int_equal(kvc_put(pool, KEY(0), value, LEN, NULL), 0);
	other = sealing(KVC_LOCAL_OFF, "b:" SECOND "\n", 0);
	assert_int_equal(kvc_get(other, KEY(0), got, LEN, NULL), -KV_ECORRUPT);
	kvc_pool_close(&other);
	other = sealing(KVC_LOCAL_OFF, "b:" SECOND "\na:" FIRST "\n", 0); /* it seals with the second, and opens both */
	check_value(other, KEY(0), value, LEN);
	assert_int_equal(kvc_put(other, KEY(1), value, LEN, NULL), 0);
	assert_int_equal(kvc_get(pool, KEY(1), got, LEN, NULL), -KV_ECORRUPT);
	kvc_pool_close(&other);
	other = sealing(KVC_LOCAL_OFF, NULL, 0);
	assert_int_equal(kvc_get(other, KEY(0), got, LEN, NULL), -KV_ETOOBIG);
	assert_int_equal(kvc_get(other, KEY(0), got, LEN + 1024, NULL), LEN + 128);
	assert_memory_not_equal(got + 48, value, 1000);
	assert_int_equal(kvc_put(other, KEY(2), value, LEN, NULL), 0);
	assert_int_equal(kvc_get(pool, KEY(2), got, LEN + 1024, NULL), -KV_ECORRUPT); /* it is not sealed */
	/* The server gives the bytes of one key for another. */
	assert_int_equal(kvc_get(other, KEY(0), got, LEN + 1024, NULL), LEN + 128);
	assert_int_equal(kvc_put(other, KEY(3), got, LEN + 128, NULL), 0);
	assert_int_equal(kvc_get(pool, KEY(3), value, LEN, NULL), -KV_ECORRUPT);
	kvc_pool_close(&other);
	kvc_pool_close(&pool);
	munmap(value, LEN);
	munmap(got, LEN + 1024);
}

/* What a server that forgets a clear would do, and one that mixes up namespaces: the stored bytes come back. */
static void cleared_and_foreign_values_are_refused(void **state)
{
	enum { LEN = 1000, STORED = LEN + 64 };
	struct kvc_pool *sealed, *raw;
	uint8_t value[LEN], stored[STORED], found = 0;
	uint64_t generation = 0;
	(void)state;
	need_server();
	space = "seal-one";
	sealed = sealing(KVC_LOCAL_OFF, "a:" FIRST "\n", 0);
	raw = sealing(KVC_LOCAL_OFF, NULL, 0);
	test_fill(value, LEN, 6);
	assert_int_equal(kvc_put(sealed, NAMED("k"), value, LEN, NULL), 0);
	assert_int_equal(kvc_get(raw, NAMED("k"), stored, STORED, NULL), STORED);
	assert_int_equal(kvc_namespace_clear(sealed, &generation, NULL), 0);
	assert_int_equal(kvc_get(sealed, NAMED("k"), value, LEN, NULL), -KV_ENOTFOUND);
	/* Within a round trip of another client's clear, a PUT may count as one before it. */
	while (!found) {
		assert_int_equal(kvc_put(raw, NAMED("k"), stored, STORED, NULL), 0);
		assert_true(kvc_exists(raw, &NAMED("k"), 1, &found, NULL, NULL) >= 0);
	}
	assert_int_equal(kvc_get(sealed, NAMED("k"), value, LEN, NULL), -KV_ECORRUPT);
	assert_int_equal(kvc_delete(sealed, NAMED("k"), NULL), 0);
	test_fill(value, LEN, 6);
	assert_int_equal(kvc_put(sealed, NAMED("k"), value, LEN, NULL), 0);
	check_value(sealed, NAMED("k"), value, LEN);
	assert_int_equal(kvc_get(raw, NAMED("k"), stored, STORED, NULL), STORED);
	kvc_pool_close(&sealed);
	kvc_pool_close(&raw);
	space = "seal-two";
	sealed = sealing(KVC_LOCAL_OFF, "a:" FIRST "\n", 0);
	raw = sealing(KVC_LOCAL_OFF, NULL, 0);
	assert_int_equal(kvc_put(raw, NAMED("k"), stored, STORED, NULL), 0);
	assert_int_equal(kvc_get(sealed, NAMED("k"), value, LEN, NULL), -KV_ECORRUPT);
	kvc_pool_close(&sealed);
	kvc_pool_close(&raw);
	space = NULL;
}

static void sealed_names_are_other_keys(void **state)
{
	struct kvc_pool *named = NULL, *plain;
	struct kvc_key keys[3] = {NAMED("name/a"), NAMED("name/b"), NAMED("name/c")};
	struct kvc_item items[3];
	uint8_t value[100] = {1}, got[3][100], found[3];
	unsigned prefix = 0;
	uint64_t left = 0;
	(void)state;
	need_server();
	named = sealing(KVC_LOCAL_OFF, "a:" FIRST "\n" NAMES, KVC_SEAL_NAMES);
	plain = sealing(KVC_LOCAL_OFF, "a:" FIRST "\n" NAMES, 0);
	for (unsigned i = 0; i < 3; i++)
		items[i] = (struct kvc_item){.key = keys[i], .data = value, .len = sizeof(value)};
	assert_int_equal(kvc_put_batch(named, items, 2, NULL), 0);
	assert_ptr_equal(items[0].key.data, keys[0].data);
	assert_int_equal(kvc_exists(named, keys, 3, found, &prefix, NULL), 0);
	assert_int_equal(prefix, 2);
	assert_int_equal(kvc_exists(plain, keys, 3, found, &prefix, NULL), 0);
	assert_int_equal(prefix, 0);
	for (unsigned i = 0; i < 3; i++)
		items[i].data = got[i];
	assert_int_equal(kvc_get_batch(named, items, 3, NULL), -KV_ENOTFOUND);
	assert_int_equal(items[1].result, sizeof(value));
	assert_memory_equal(got[1], value, sizeof(value));
	assert_int_equal(kvc_touch(named, keys[0], NULL), 0);
	assert_int_equal(kvc_ttl(named, keys[0], &left, NULL), 0);
	assert_int_equal(kvc_delete(named, keys[0], NULL), 0);
	assert_int_equal(kvc_delete(named, keys[0], NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_delete(named, keys[1], NULL), 0);
	kvc_pool_close(&named);
	kvc_pool_close(&plain);
}

static void nothing_is_lent(void **state)
{
	struct kvc_pool *pool = NULL;
	struct kvc_borrowed b;
	struct kvc_layout layout = {.size = sizeof(layout), .borrowed = &b};
	struct kvc_item item = {.key = KEY(0), .layout = &layout};
	struct kv_error err = {0};
	struct kvc_mem *mem = NULL;
	uint8_t *value = memory(MIB), *got = memory(MIB);
	(void)state;
	need_server();
	pool = sealing(KVC_LOCAL_AUTO, "a:" FIRST "\n", 0);
	test_fill(value, MIB, 1);
	assert_int_equal(kvc_register(pool, value, MIB, &mem, &err), 0);
	assert_int_equal(kvc_put(pool, KEY(0), value, MIB, NULL), 0);
	assert_int_equal(kvc_get_borrowed(pool, KEY(0), MIB, NULL, &b), -KV_ENOTSUP);
	assert_int_equal(kvc_put_borrow(pool, KEY(0), MIB, 0, &b), -KV_ENOTSUP);
	assert_int_equal(kvc_get_batch(pool, &item, 1, NULL), -KV_ENOTSUP);
	check_value(pool, KEY(0), value, MIB);
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	assert_int_equal(kvc_delete(pool, KEY(0), NULL), 0);
	kvc_pool_close(&pool);
	munmap(value, MIB);
	munmap(got, MIB);
}

/* Whether a process has the bytes in writable memory. */
static bool memory_has(pid_t pid, const uint8_t *bytes, size_t len)
{
	char path[64], line[512];
	uint8_t *part = malloc(MIB + len);
	unsigned long long at, end;
	bool found = false;
	FILE *maps;
	int fd;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (!maps || fd < 0) {
		print_message("cannot read the memory of the server: %s\n", strerror(errno));
		skip();
	}
	while (!found && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx rw", &at, &end) != 2 || !strstr(line, " rw"))
			continue;
		if (end - at > 1ull << 40)
			continue; /* a sanitizer's shadow */
		for (; at < end && !found; at += MIB) {
			ssize_t n = pread(fd, part, KV_MIN(end - at, MIB + len), (off_t)at);
			found = n > 0 && memmem(part, (size_t)n, bytes, len);
		}
	}
	fclose(maps);
	close(fd);
	free(part);
	return found;
}

static void a_server_has_no_plaintext(void **state)
{
	enum { LEN = 200000, KEYS = 8 };
	uint8_t pattern[PATTERN], *value = memory(LEN);
	(void)state;
	if (KV_TSAN)
		skip(); /* TSan's shadow of the server is too large to be searched; release and ASan builds search */
	need_server();
	for (unsigned w = 0; w < KV_COUNT(ways); w++) {
		for (unsigned sealed = 0; sealed < 2; sealed++) {
			struct kvc_pool *pool = sealing(ways[w], sealed ? "a:" FIRST "\n" : NULL, 0);
			test_fill(pattern, PATTERN, 100 + 2 * w + sealed);
			for (unsigned at = 0; at + PATTERN <= LEN; at += PATTERN)
				memcpy(value + at, pattern, PATTERN);
			for (unsigned i = 0; i < KEYS; i++) {
				uint64_t len = i % 2 ? LEN : 2000;
				assert_int_equal(kvc_put(pool, KEY(i), value, len, NULL), 0);
				check_value(pool, KEY(i), value, len);
			}
			assert_int_equal(memory_has(test_first.pid, pattern, PATTERN), !sealed); /* the scan finds it */
			for (unsigned i = 0; i < KEYS; i++)
				assert_int_equal(kvc_delete(pool, KEY(i), NULL), 0);
			kvc_pool_close(&pool);
		}
	}
	munmap(value, LEN);
}

/* A value that is kept twice opens from either server. */
static void second_copies_are_sealed(void **state)
{
	enum { LEN = 70000 };
	uint8_t *value = memory(LEN);
	struct kvc_pool *pool;
	uint64_t until = now_ns() + WAIT_NS;
	(void)state;
	need_server();
	test_server_up(&test_second, "second");
	test_local = KVC_LOCAL_OFF;
	{
		char path[] = "/tmp/kvrail-test-seal-XXXXXX";
		int fd = mkstemp(path);
		struct kvc_options o = test_options(two, 2, 1);
		struct kv_error err = {0};
		assert_true(fd >= 0);
		assert_true(write(fd, "a:" FIRST "\n", 67) == 67);
		close(fd);
		o.seal_key_file = path;
		o.flags = KVC_OPEN_WAIT | KVC_TWO_COPIES;
		assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
		unlink(path);
	}
	test_fill(value, LEN, 8);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(kvc_put(pool, KEY(i), value, LEN, NULL), 0);
	while (counters(pool).copies < 4 && now_ns() < until)
		usleep(1000);
	assert_int_equal(counters(pool).copies, 4);
	test_server_kill(&test_first);
	for (unsigned i = 0; i < 4; i++)
		check_value(pool, KEY(i), value, LEN);
	kvc_pool_close(&pool);
	test_server_kill(&test_second);
	munmap(value, LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_every_length),
		cmocka_unit_test(pieces_may_be_cut),
		cmocka_unit_test(a_large_put_needs_little_memory),
		cmocka_unit_test(any_range_is_read),
		cmocka_unit_test(parts_end_anywhere),
		cmocka_unit_test(parts_are_of_one_value),
		cmocka_unit_test(others_cannot_open_them),
		cmocka_unit_test(sealed_names_are_other_keys),
		cmocka_unit_test(nothing_is_lent),
		cmocka_unit_test(cleared_and_foreign_values_are_refused),
		cmocka_unit_test(a_server_has_no_plaintext),
		cmocka_unit_test(second_copies_are_sealed),
	};
	return cmocka_run_group_tests_name("kvclient/seal", tests, calls_up, calls_down);
}
