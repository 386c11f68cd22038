/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h -- little-endian loads and stores, alignment, common macros. Inline. */
#ifndef KVRAIL_BASE_BYTES_H
#define KVRAIL_BASE_BYTES_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* KV_MIN, KV_MAX -- evaluate each argument once; nested uses do not shadow. Not for constant expressions. */
#define KV_JOIN_(a, b) a##b
#define KV_JOIN(a, b)  KV_JOIN_(a, b)
#define KV_PICK_(a, op, b, x, y)                                                                                       \
	__extension__({                                                                                                \
		__auto_type x = (a);                                                                                   \
		__auto_type y = (b);                                                                                   \
		x op y ? x : y;                                                                                        \
	})
#define KV_MIN(a, b)                  KV_PICK_(a, <, b, KV_JOIN(kv_a_, __COUNTER__), KV_JOIN(kv_b_, __COUNTER__))
#define KV_MAX(a, b)                  KV_PICK_(a, >, b, KV_JOIN(kv_a_, __COUNTER__), KV_JOIN(kv_b_, __COUNTER__))
#define KV_COUNT(a)                   (sizeof(a) / sizeof((a)[0]))
#define KV_CONTAINER(p, type, member) ((type *)(void *)((char *)(p) - offsetof(type, member)))
#define KV_LIKELY(x)                  __builtin_expect(!!(x), 1)
#define KV_UNLIKELY(x)                __builtin_expect(!!(x), 0)
#define KV_CACHELINE                  64
#define KV_LINES                      128 /* bytes between data of different threads: lines are fetched in pairs */

static inline uint16_t kv_get16(const void *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static inline uint32_t kv_get32(const void *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline uint64_t kv_get64(const void *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static inline void kv_put16(void *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void kv_put32(void *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void kv_put64(void *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

/* kv_align_up, kv_align_down -- to a multiple of a, a power of two. */
static inline uint64_t kv_align_up(uint64_t v, uint64_t a)
{
	return (v + a - 1) & ~(a - 1);
}

static inline uint64_t kv_align_down(uint64_t v, uint64_t a)
{
	return v & ~(a - 1);
}

/* kv_equal_secret -- compare n bytes in a time that depends on n only. */
static inline int kv_equal_secret(const void *a, const void *b, size_t n)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t diff = 0;
	for (size_t i = 0; i < n; i++)
		diff |= (uint8_t)(x[i] ^ y[i]);
	return diff == 0;
}

#endif
