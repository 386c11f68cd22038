/* SPDX-License-Identifier: Apache-2.0 */
/* random.h -- a seeded PRNG (xoshiro256**, Blackman & Vigna, public domain) for everything that must replay, and the
 * kernel's entropy for secrets. Never use the PRNG for a token or a key. */
#ifndef KVRAIL_BASE_RANDOM_H
#define KVRAIL_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct kv_prng {
	uint64_t s[4];
};

/* kv_prng_seed -- seed with any 64-bit number, expanded with splitmix64. */
void kv_prng_seed(struct kv_prng *p, uint64_t seed);
uint64_t kv_prng_next(struct kv_prng *p);

/* kv_prng_below -- a uniform number in [0, n), without modulo bias; n > 0. */
uint64_t kv_prng_below(struct kv_prng *p, uint64_t n);

/* kv_prng_fill -- n bytes. */
void kv_prng_fill(struct kv_prng *p, void *out, size_t n);

/* struct kv_entropy -- the source of secrets: the kernel, or a seeded source in a simulation. */
struct kv_entropy {
	int (*fill)(const struct kv_entropy *e, void *out, size_t n); /* 0 or -errno */
};

extern const struct kv_entropy kv_entropy_kernel; /* getrandom(2) */

static inline int kv_entropy_fill(const struct kv_entropy *e, void *out, size_t n)
{
	return e->fill(e, out, n);
}

/* kv_seed_from_env -- the number in environment variable `name` (decimal or 0x), or else one from the kernel. For
 * tests, which print it. */
uint64_t kv_seed_from_env(const char *name);

#endif
