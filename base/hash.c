/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c -- XXH3-64 behind a state of fixed size, so that no header of ours includes xxhash.h.
 *
 * The state lives in the caller's memory. xxhash.h declares XXH3_state_t only for static linking, but its size has been
 * 576 bytes since XXH3 became stable (0.8.0). The assertion below checks the header of this build, and 64 spare bytes
 * cover a newer library under an old build.
 *
 * A distribution compiles XXH3_64bits() for the oldest processor, which means SSE2 on x86-64. Most such libraries
 * (Debian, Ubuntu) also have XXH3_64bits_dispatch(), which uses AVX2 or AVX-512 where the processor has it: 2.7 times
 * as fast in cache. The reference is weak, so a library without it works, too. Its first call detects the processor
 * without a lock. So we make that call, once, and other threads call it only after that. Rejected: compiling the
 * implementations of xxhash.h here, one per instruction set. They are no faster than the library's (measured with gcc
 * and clang), and we would have to maintain them. Keys are too short for vectors. */
#define XXH_STATIC_LINKING_ONLY
#include "base/hash.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <xxhash.h>

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#define HASH_DISPATCH                1
#define XXH_DISPATCH_DISABLE_REPLACE /* leave the name XXH3_64bits alone */
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

/* The functions to call. Each first points to the function that chooses. Each is written once, with release, after the
 * library is ready. */
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
	/* Cannot fail: the state is not NULL. XXH3_64bits_reset does not need a cleared state. */
	(void)XXH3_64bits_reset(state_of(h));
}

void kv_hasher_update(struct kv_hasher *h, const void *data, uint64_t len_bytes)
{
	/* For NULL, XXH3 reports an error even for 0 bytes and does nothing, as we want it. */
	(void)atomic_load_explicit(&update_chosen, memory_order_acquire)(state_of(h), data, len_bytes);
}

uint64_t kv_hasher_digest(const struct kv_hasher *h)
{
	return XXH3_64bits_digest((const XXH3_state_t *)(const void *)h->state);
}
