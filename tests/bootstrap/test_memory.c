/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c -- where a pre-shared key lies in this process, which searches all of its own memory. While contexts
 * exist, the key is once in each, and only in pages that core dumps leave out. When they are gone, it is nowhere.
 *
 * The test itself keeps the key in disguise, so that it does not find its own copy. */
#include "rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { KEY = 32, MASK = 0x5A, STEP = 1 << 20 };

#define MAP_MAX (1ull << 30) /* larger ones are shadow memory of sanitizers */

static uint8_t disguised[KEY], disguised_hex[2 * KEY];

static struct found {
	unsigned raw, raw_dumped, hex;
} found;

static bool is_at(const uint8_t *at, const uint8_t *want, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((at[i] ^ MASK) != want[i])
			return false;
	return true;
}

/* Count how often it begins in the first `n` of `len` bytes at `x`, outside the piece that we read into. memchr,
 * because a look at every single byte takes half a minute under ThreadSanitizer. */
static unsigned count_in(const uint8_t *piece, size_t n, size_t len, uint64_t x, const uint8_t *want, size_t want_len)
{
	uint64_t own = (uint64_t)(uintptr_t)piece;
	unsigned count = 0;
	const uint8_t *at = piece;
	while ((at = memchr(at, want[0] ^ MASK, n - (size_t)(at - piece)))) {
		size_t i = (size_t)(at - piece);
		bool ours = x + i >= own && x + i < own + STEP + 2 * KEY;
		count += !ours && len - i >= want_len && is_at(at, want, want_len);
		if (++at == piece + n)
			break;
	}
	return count;
}

static void search_between(int mem, uint64_t from, uint64_t to, bool dumped)
{
	static uint8_t piece[STEP + 2 * KEY];
	for (uint64_t x = from; x < to; x += STEP) {
		ssize_t n = pread(mem, piece, KV_MIN((uint64_t)sizeof(piece), to - x), (off_t)x);
		if (n <= 0)
			continue;
		size_t first = KV_MIN((size_t)n, (size_t)STEP);
		unsigned raw = count_in(piece, first, (size_t)n, x, disguised, KEY);
		found.raw += raw;
		found.raw_dumped += dumped ? raw : 0;
		found.hex += count_in(piece, first, (size_t)n, x, disguised_hex, 2 * KEY);
	}
	explicit_bzero(piece, sizeof(piece));
}

/* Visits every writable mapping, and notes whether core dumps contain it. */
static void search(void)
{
	char line[512];
	unsigned long long from = 0, to = 0, a, b;
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	FILE *f = fopen("/proc/self/smaps", "re");
	bool writable = false;
	found = (struct found){0};
	assert_true(mem >= 0);
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx-%llx", &a, &b) == 2 && strchr(line, '-')) {
			from = a;
			to = b;
			writable = strstr(line, " rw") != NULL;
		} else if (strncmp(line, "VmFlags:", 8) == 0 && writable && to - from <= MAP_MAX) {
			search_between(mem, from, to, strstr(line, " dd") == NULL);
		}
	}
	fclose(f);
	close(mem);
}

static void a_key_lies_in_its_context_only_and_goes_with_it(void **state)
{
	struct boot_security security = {0};
	char text[16 + 2 * KEY];
	uint8_t key[KEY];
	struct rig r;
	int n = snprintf(text, sizeof(text), "bench:");
	(void)state;
	assert_int_equal(kv_entropy_fill(&kv_entropy_kernel, key, KEY), 0);
	for (unsigned i = 0; i < KEY; i++) {
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%02x", key[i]);
		disguised[i] = key[i] ^ MASK;
	}
	for (unsigned i = 0; i < 2 * KEY; i++)
		disguised_hex[i] = (uint8_t)text[6 + i] ^ MASK;
	search();
	assert_true(found.raw >= 1 && found.hex >= 1); /* the search finds a key that is there */
	explicit_bzero(key, sizeof(key));
	security.psk = text;
	rig_init(&r, &security, &security);
	explicit_bzero(text, sizeof(text));
	search();
	assert_int_equal(found.hex, 0);
	assert_int_equal(found.raw, 2); /* one of the server and one of the client */
	assert_int_equal(found.raw_dumped, 0);
	rig_open_ok(&r);
	rig_fini(&r);
	search();
	assert_int_equal(found.raw, 0);
	assert_int_equal(found.hex, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_lies_in_its_context_only_and_goes_with_it),
	};
	return cmocka_run_group_tests_name("bootstrap/memory", tests, NULL, NULL);
}
