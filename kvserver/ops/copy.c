/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c -- copy bytes to the arena and checksum them on the way.
 *
 * Each step of a large value is copied to the stack, summed there in the cache, and stored to the arena past the
 * caches, since ordinary stores read each line first. Meanwhile the next step is prefetched. Only the copy is summed,
 * whatever a client does to its landing area. Small values stay in the cache. */
#include "kvserver/ops/private.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { STEP = 8 << 10, SMALL = 16 << 10 };

/* next: the source of the next step, to be prefetched; or anything that is in the cache. */
static void store_past(uint8_t *to, const uint8_t *from, const uint8_t *next)
{
#ifdef __SSE2__
	for (unsigned at = 0; at < STEP; at += KV_CACHELINE) {
		__builtin_prefetch(next + at);
		for (unsigned i = at; i < at + KV_CACHELINE; i += sizeof(__m128i))
			_mm_stream_si128((__m128i *)(void *)(to + i),
					 _mm_load_si128((const __m128i *)(const void *)(from + i)));
	}
#else
	(void)next;
	memcpy(to, from, STEP);
#endif
}

/* Stores past the caches are unordered: another core may send the value next. */
static void store_fence(void)
{
#ifdef __SSE2__
	_mm_sfence();
#endif
}

void copy_sum(struct kv_hasher *h, uint8_t *to, const uint8_t *from, uint64_t len)
{
	_Alignas(KV_CACHELINE) uint8_t step[STEP];
	uint64_t at = 0;

	for (; len - at >= STEP; at += STEP) {
		memcpy(step, from + at, STEP);
		kv_hasher_update(h, step, STEP);
		store_past(to + at, step, len - at >= 2 * STEP ? from + at + STEP : step);
	}
	if (at > 0)
		store_fence();
	if (len > at) {
		memcpy(to + at, from + at, len - at);
		kv_hasher_update(h, to + at, len - at);
	}
}

uint64_t copy_digest(uint8_t *to, const uint8_t *from, uint64_t len)
{
	struct kv_hasher h;
	if (len <= SMALL) {
		memcpy(to, from, len);
		return kv_hash_block(to, len);
	}
	kv_hasher_init(&h);
	copy_sum(&h, to, from, len);
	return kv_hasher_digest(&h);
}
