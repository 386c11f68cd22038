/* SPDX-License-Identifier: Apache-2.0 */
/* place.h -- which server holds a key, and which of its shards. */
#ifndef KVRAIL_KVCLIENT_PLACE_H
#define KVRAIL_KVCLIENT_PLACE_H

#include "base/base.h"

/* kvc_place_seed -- the number that stands for a server in rendezvous hashing, from its name in the client's list: nothing that
 * is learnt later may have a say, or clients that learnt different things would look for a key in different places. */
uint64_t kvc_place_seed(const char *name);

/* kvc_place_node -- the index of the server that holds the key, among n > 0 with these seeds. Taking one server away
 * moves only its own keys; the order of the list does not matter. Equal seeds: the lower index. */
unsigned kvc_place_node(const uint64_t *seeds, unsigned n, const void *key, size_t len);

/* kvc_place_shard -- the shard of a server with `shards` > 0 shards and this hash seed (both from its WELCOME). */
static inline unsigned kvc_place_shard(uint64_t shard_seed, unsigned shards, const void *key, size_t len)
{
	return (unsigned)((kv_hash_key(key, len, shard_seed) >> 32) * shards >> 32);
}

#endif
