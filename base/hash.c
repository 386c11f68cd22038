/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c -- XXH3-64 behind a fixed-size state, so that no header of ours includes xxhash.h.
 *
 * The state lives in the caller's memory. XXH3_state_t is declared only for static linking, but its size has been
 * 576 bytes since XXH3 became stable (0.8.0); the assertion below holds whatever header we are built with, and 64
 * spare bytes cover a newer library under an old build. */
#define XXH_STATIC_LINKING_ONLY
#include "base/hash.h"

#include <stdalign.h>
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(((struct kv_hasher *)0)->state), "kv_hasher.state is too small for XXH3");
_Static_assert(alignof(XXH3_state_t) <= alignof(struct kv_hasher), "kv_hasher is not aligned enough for XXH3");
_Static_assert(XXH_VERSION_NUMBER >= 800, "XXH3 is stable since xxHash 0.8.0; an older one gives other checksums");

static XXH3_state_t *state_of(struct kv_hasher *h)
{
	return (XXH3_state_t *)(void *)h->state;
}

uint64_t kv_hash_key(const void *key, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(key, len, seed);
}

uint64_t kv_hash_block(const void *data, uint64_t len_bytes)
{
	return XXH3_64bits(data, len_bytes);
}

void kv_hasher_init(struct kv_hasher *h)
{
	/* Cannot fail: the state is not NULL. XXH3_64bits_reset needs no cleared state before it. */
	(void)XXH3_64bits_reset(state_of(h));
}

void kv_hasher_update(struct kv_hasher *h, const void *data, uint64_t len_bytes)
{
	/* XXH3 reports NULL as an error even for no bytes at all, and does nothing then, which is what we want. */
	(void)XXH3_64bits_update(state_of(h), data, len_bytes);
}

uint64_t kv_hasher_digest(const struct kv_hasher *h)
{
	return XXH3_64bits_digest((const XXH3_state_t *)(const void *)h->state);
}
