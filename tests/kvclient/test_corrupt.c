/* SPDX-License-Identifier: Apache-2.0 */
/* test_corrupt.c -- bytes that go bad in a server's memory. The test flips one bit inside the kv-server process,
 * through /proc/PID/mem, where the value lies. The client must see -KV_ECORRUPT and never the bytes; the server must
 * drop the value, count it, and take it anew. Skipped where the kernel does not let a parent write to its child. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "server.h"

enum {
	ARENA_MIN = 100 << 20,
	ARENA_MAX = 1 << 30,
	/* larger: shadow memory of sanitizers */ STEP = 1 << 20,
	ALIGN = 64,
	SAMPLE = 48
};

static uint8_t buf[5 << 20];

/* Flip a bit of the value that begins with `sample`, wherever it lies in [from, to). */
static bool flip_between(int mem, uint64_t from, uint64_t to, const uint8_t *sample, uint64_t at)
{
	static uint8_t piece[STEP + SAMPLE];
	for (uint64_t x = from; x < to; x += STEP) {
		ssize_t n = pread(mem, piece, KV_MIN((uint64_t)sizeof(piece), to - x), (off_t)x);
		for (ssize_t i = 0; i + SAMPLE <= n && i < STEP; i += ALIGN) {
			if (memcmp(piece + i, sample, SAMPLE) != 0)
				continue;
			uint8_t byte;
			assert_int_equal(pread(mem, &byte, 1, (off_t)(x + (uint64_t)i + at)), 1);
			byte ^= 4;
			return pwrite(mem, &byte, 1, (off_t)(x + (uint64_t)i + at)) == 1;
		}
	}
	return false;
}

/* In the arenas of the server: its large mappings. */
static void flip(const uint8_t *sample, uint64_t at)
{
	char path[64], line[512];
	bool done = false;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)test_first.pid);
	int mem = open(path, O_RDWR | O_CLOEXEC);
	if (mem < 0) {
		print_message("# the kernel does not let us write to the server's memory\n");
		skip();
	}
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)test_first.pid);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	while (!done && fgets(line, sizeof(line), f)) {
		unsigned long long from, to;
		if (sscanf(line, "%llx-%llx rw", &from, &to) == 2 && strstr(line, " rw") && to - from >= ARENA_MIN &&
		    to - from <= ARENA_MAX)
			done = flip_between(mem, from, to, sample, at);
	}
	fclose(f);
	close(mem);
	assert_true(done);
}

static struct kvc_counters counters(void)
{
	struct kvc_counters n = {.size = sizeof(n)};
	assert_int_equal(kvc_counters(test_one_pool, &n), 0);
	return n;
}

/* By a call of its own, or as an item of a batch. */
static int64_t get(struct kvc_key key, bool batch)
{
	struct kvc_item item = {.key = key, .data = buf, .len = sizeof(buf)};
	if (!batch)
		return kvc_get(test_one_pool, key, buf, sizeof(buf), NULL);
	kvc_get_batch(test_one_pool, &item, 1, NULL);
	return item.result;
}

static void corrupt_once(uint64_t id, uint64_t len, bool batch)
{
	struct kvc_key key = {&id, sizeof(id)};
	uint8_t sample[SAMPLE];
	uint64_t dropped = test_stat(test_one_pool, "corrupt_dropped"), seen = counters().corrupt;
	test_fill(buf, len, id);
	memcpy(sample, buf, SAMPLE);
	assert_int_equal(kvc_put(test_one_pool, key, buf, len, NULL), 0);
	flip(sample, len - 1);
	assert_int_equal(get(key, batch), -KV_ECORRUPT);
	assert_int_equal(counters().corrupt, seen + 1);
	assert_int_equal(test_stat(test_one_pool, "corrupt_dropped"), dropped + 1);
	assert_int_equal(kvc_get(test_one_pool, key, buf, sizeof(buf), NULL), -KV_ENOTFOUND);
	test_fill(buf, len, id);
	assert_int_equal(kvc_put(test_one_pool, key, buf, len, NULL), 0);
	memset(buf, 0, len);
	assert_int_equal(kvc_get(test_one_pool, key, buf, sizeof(buf), NULL), len);
	assert_true(test_same(buf, len, id));
}

static void a_value_that_went_bad_is_reported_and_dropped(void **state)
{
	static const uint64_t lengths[] = {1000, 60000, 200000, 5 << 20};
	(void)state;
	test_server_need(&test_first);
	for (unsigned i = 0; i < KV_COUNT(lengths); i++)
		for (unsigned batch = 0; batch < 2; batch++)
			corrupt_once(0xC0DE00 + 2 * i + batch, lengths[i], batch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_that_went_bad_is_reported_and_dropped),
	};
	return cmocka_run_group_tests_name("kvclient/corrupt", tests, test_one_up, test_one_down);
}
