/* SPDX-License-Identifier: Apache-2.0 */
/* random.h -- a seeded PRNG (xoshiro256**) for replays, and the kernel's entropy for secrets. Never use the PRNG for a
 * token or key. */
#ifndef KVRAIL_BASE_RANDOM_H
#define KVRAIL_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct kv_prng {
	uint64_t s[4];
};

/* kv_prng_seed -- any 64-bit number, expanded with splitmix64. */
void kv_prng_seed(struct kv_prng *p, uint64_t seed);
uint64_t kv_prng_next(struct kv_prng *p);

/* kv_prng_below -- uniform in [0, n), n > 0. */
uint64_t kv_prng_below(struct kv_prng *p, uint64_t n);

/* kv_prng_fill -- n bytes. */
void kv_prng_fill(struct kv_prng *p, void *out, size_t n);

/* struct kv_entropy -- the kernel, or a simulation's seeded source. */
struct kv_entropy {
	int (*fill)(const struct kv_entropy *e, void *out, size_t n); /* 0 or -errno */
};

extern const struct kv_entropy kv_entropy_kernel; /* getrandom(2) */

static inline int kv_entropy_fill(const struct kv_entropy *e, void *out, size_t n)
{
	return e->fill(e, out, n);
}

/* kv_seed_from_env -- environment variable `name` (decimal or 0x), else one from the kernel. For tests. */
uint64_t kv_seed_from_env(const char *name);

#endif
