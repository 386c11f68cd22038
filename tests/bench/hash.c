/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c -- what the checksum costs: GB/s of the plain XXH3-64 of libxxhash and of kv_hash_block, from cache and from
 * memory; and of a copy with its checksum, in two passes and in one.
 *
 * What is compared runs in turn, ROUNDS times, and the best is printed: other programs here only make it slower.
 * Blocks out of cache are taken from 1 GiB in an order that the prefetcher does not foresee. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/base.h"
#include "host/host.h"

enum { ROUNDS = 25, CASES = 5 };
#define SPAN_BYTES ((uint64_t)1 << 30)
#define WORK_BYTES ((uint64_t)16 << 20)
#define STEP_BYTES ((uint64_t)8 << 10)

static uint8_t *copy_to;

static uint64_t plain(const uint8_t *p, uint64_t len)
{
	return XXH3_64bits(p, len);
}

static uint64_t chosen(const uint8_t *p, uint64_t len)
{
	return kv_hash_block(p, len);
}

static uint64_t copy_only(const uint8_t *p, uint64_t len)
{
	memcpy(copy_to, p, len);
	return copy_to[len / 2];
}

static uint64_t copy_after(const uint8_t *p, uint64_t len)
{
	uint64_t sum = kv_hash_block(p, len);
	memcpy(copy_to, p, len);
	return sum + copy_to[len / 2];
}

static uint64_t copy_along(const uint8_t *p, uint64_t len)
{
	struct kv_hasher h;
	kv_hasher_init(&h);
	for (uint64_t at = 0, n; at < len; at += n) {
		n = KV_MIN(len - at, STEP_BYTES);
		kv_hasher_update(&h, p + at, n);
		memcpy(copy_to + at, p + at, n);
	}
	return kv_hasher_digest(&h);
}

static const struct {
	const char *name;
	uint64_t (*run)(const uint8_t *, uint64_t);
} cases[CASES] = {
	{"plain", plain}, {"chosen", chosen}, {"copy", copy_only}, {"hash, copy", copy_after}, {"in one", copy_along},
};

static volatile uint64_t sink; /* what was computed is used */

static double measure(unsigned which, const uint8_t *base, uint64_t len, uint64_t span, struct kv_prng *p)
{
	uint64_t n = WORK_BYTES / len, sum = 0, at = kv_clock_now(&kv_clock_monotonic), took;
	for (uint64_t i = 0; i < n; i++)
		sum += cases[which].run(base + kv_prng_below(p, span / len) * len, len);
	took = kv_clock_now(&kv_clock_monotonic) - at;
	sink += sum;
	return (double)(n * len) / (double)KV_MAX(took, 1u);
}

static void row(const char *where, const uint8_t *base, uint64_t len, uint64_t span)
{
	double best[CASES] = {0};
	struct kv_prng p;
	kv_prng_seed(&p, 1);
	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned c = 0; c < CASES; c++) {
			double rate = measure(c, base, len, span, &p);
			best[c] = KV_MAX(best[c], rate);
		}
	printf("%5llu KiB %-7s", (unsigned long long)(len >> 10), where);
	for (unsigned c = 0; c < CASES; c++)
		printf("%12.1f", best[c]);
	printf("\n");
}

int main(void)
{
	static const uint64_t len[] = {4 << 10, 64 << 10, 256 << 10, 1 << 20};
	struct kv_area from, to;
	struct kv_error err;
	if (kv_area_map(SPAN_BYTES, &from, &err) < 0 || kv_area_map(len[KV_COUNT(len) - 1], &to, &err) < 0) {
		fprintf(stderr, "hash: %s\n", err.text);
		return 1;
	}
	copy_to = to.base;
	memset(to.base, 1, to.len_bytes);
	for (uint64_t i = 0; i < SPAN_BYTES; i += sizeof(i))
		memcpy((uint8_t *)from.base + i, &i, sizeof(i));
	printf("GB/s             ");
	for (unsigned c = 0; c < CASES; c++)
		printf("%12s", cases[c].name);
	printf("\n");
	for (unsigned i = 0; i < KV_COUNT(len); i++)
		row("cache", from.base, len[i], len[i]);
	for (unsigned i = 0; i < KV_COUNT(len); i++)
		row("memory", from.base, len[i], SPAN_BYTES);
	kv_area_unmap(&to);
	kv_area_unmap(&from);
	return 0;
}
