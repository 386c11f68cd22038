/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c -- XXH3-64 behind a state of fixed size, so that our headers do not include xxhash.h. 64 spare bytes cover
 * newer libraries.
 *
 * XXH3_64bits_dispatch(), a weak reference, uses AVX2 or AVX-512. Its first call detects the processor without a lock,
 * so this file makes that call, once, before other threads do. */
#define XXH_STATIC_LINKING_ONLY
#include "base/hash.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <xxhash.h>

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#define HASH_DISPATCH                1
#define XXH_DISPATCH_DISABLE_REPLACE /* keep the name XXH3_64bits */
#include <xxh_x86dispatch.h>
#pragma weak XXH3_64bits_dispatch
#pragma weak XXH3_64bits_update_dispatch
#else
#define HASH_DISPATCH 0
#endif

_Static_assert(sizeof(XXH3_state_t) <= sizeof(((struct kv_hasher *)0)->state), "kv_hasher.state is too small for XXH3");
_Static_assert(alignof(XXH3_state_t) <= alignof(struct kv_hasher), "kv_hasher is not aligned enough for XXH3");
_Static_assert(XXH_VERSION_NUMBER >= 800, "XXH3 is stable since xxHash 0.8.0; an older one gives other checksums");

typedef XXH64_hash_t block_fn(const void *, size_t);
typedef XXH_errorcode update_fn(XXH3_state_t *, const void *, size_t);

static block_fn block_first;
static update_fn update_first;

/* Each first points to the function that chooses, and is written once, with release, when the library is ready. */
static block_fn *_Atomic block_chosen = block_first;
static update_fn *_Atomic update_chosen = update_first;
static pthread_once_t choose_once = PTHREAD_ONCE_INIT;

static XXH3_state_t *state_of(struct kv_hasher *h)
{
	return (XXH3_state_t *)(void *)h->state;
}

static void choose(void)
{
	block_fn *block = XXH3_64bits;
	update_fn *update = XXH3_64bits_update;
#if HASH_DISPATCH
	static const uint8_t sample[1024]; /* long enough for vectors */
	struct kv_hasher h;
	if (XXH3_64bits_dispatch && XXH3_64bits_update_dispatch) {
		block = XXH3_64bits_dispatch;
		update = XXH3_64bits_update_dispatch;
		(void)XXH3_64bits_reset(state_of(&h));
		(void)update(state_of(&h), sample, sizeof(sample));
		(void)block(sample, sizeof(sample));
	}
#endif
	atomic_store_explicit(&block_chosen, block, memory_order_release);
	atomic_store_explicit(&update_chosen, update, memory_order_release);
}

static XXH64_hash_t block_first(const void *data, size_t len)
{
	(void)pthread_once(&choose_once, choose);
	return atomic_load_explicit(&block_chosen, memory_order_acquire)(data, len);
}

static XXH_errorcode update_first(XXH3_state_t *state, const void *data, size_t len)
{
	(void)pthread_once(&choose_once, choose);
	return atomic_load_explicit(&update_chosen, memory_order_acquire)(state, data, len);
}

uint64_t kv_hash_key(const void *key, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(key, len, seed);
}

uint64_t kv_hash_block(const void *data, uint64_t len_bytes)
{
	return atomic_load_explicit(&block_chosen, memory_order_acquire)(data, len_bytes);
}

void kv_hasher_init(struct kv_hasher *h)
{
	/* Cannot fail; needs no cleared state. */
	(void)XXH3_64bits_reset(state_of(h));
}

void kv_hasher_update(struct kv_hasher *h, const void *data, uint64_t len_bytes)
{
	/* For NULL and 0 bytes it reports an error and does nothing, as intended. */
	(void)atomic_load_explicit(&update_chosen, memory_order_acquire)(state_of(h), data, len_bytes);
}

uint64_t kv_hasher_digest(const struct kv_hasher *h)
{
	return XXH3_64bits_digest((const XXH3_state_t *)(const void *)h->state);
}
