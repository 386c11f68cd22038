/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h -- XXH3-64 (libxxhash): seeded for keys, unseeded for blocks. */
#ifndef KVRAIL_BASE_HASH_H
#define KVRAIL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* kv_hash_key -- hash of a key, for placement and index. */
uint64_t kv_hash_key(const void *key, size_t len, uint64_t seed);

/* kv_hash_block -- the checksum of a block. */
uint64_t kv_hash_block(const void *data, uint64_t len_bytes);

/* struct kv_hasher -- the same checksum, piece by piece. 64-byte aligned, no destructor. */
struct kv_hasher {
	_Alignas(64) uint8_t state[640];
};

void kv_hasher_init(struct kv_hasher *h);
void kv_hasher_update(struct kv_hasher *h, const void *data, uint64_t len_bytes);
uint64_t kv_hasher_digest(const struct kv_hasher *h);

#endif
