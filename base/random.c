/* SPDX-License-Identifier: Apache-2.0 */
/* random.c -- xoshiro256** 1.0 (Blackman & Vigna, https://prng.di.unimi.it, public domain) and getrandom(2).
 *
 * Invariant: a seed gives the same numbers and bytes on every machine. The state is never all zero (splitmix64 is a
 * bijection). */
#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/units.h"

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

void kv_prng_seed(struct kv_prng *p, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		p->s[i] = splitmix64(&seed);
}

uint64_t kv_prng_next(struct kv_prng *p)
{
	uint64_t *s = p->s;
	uint64_t result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

uint64_t kv_prng_below(struct kv_prng *p, uint64_t n)
{
	/* Lemire's method: the high half of a product; numbers with a bias are drawn again. */
	unsigned __int128 m = (unsigned __int128)kv_prng_next(p) * n;
	if ((uint64_t)m < n) {
		uint64_t threshold = (0 - n) % n;
		while ((uint64_t)m < threshold)
			m = (unsigned __int128)kv_prng_next(p) * n;
	}
	return (uint64_t)(m >> 64);
}

void kv_prng_fill(struct kv_prng *p, void *out, size_t n)
{
	uint8_t *to = out;
	for (; n >= 8; to += 8, n -= 8)
		kv_put64(to, kv_prng_next(p));
	if (n > 0) {
		uint8_t last[8];
		kv_put64(last, kv_prng_next(p));
		memcpy(to, last, n);
	}
}

static int kernel_fill(const struct kv_entropy *e, void *out, size_t n)
{
	(void)e;
	uint8_t *to = out;
	while (n > 0) {
		ssize_t got = getrandom(to, n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		to += got;
		n -= (size_t)got;
	}
	return 0;
}

const struct kv_entropy kv_entropy_kernel = {.fill = kernel_fill};

uint64_t kv_seed_from_env(const char *name)
{
	uint64_t seed;
	const char *text = getenv(name);
	if (text && kv_u64_parse(text, &seed) == 0)
		return seed;
	/* Seeds are no secrets. Where seccomp forbids getrandom, time and process id suffice. */
	if (kv_entropy_fill(&kv_entropy_kernel, &seed, sizeof(seed)) != 0)
		seed = kv_clock_now(&kv_clock_monotonic) ^ ((uint64_t)getpid() << 40);
	return seed;
}
