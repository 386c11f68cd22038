/* SPDX-License-Identifier: Apache-2.0 */
/* place.c -- rendezvous (highest random weight) hashing: every server gets a weight for a key, the highest wins.
 *
 * The key is hashed once; a server's weight is a strong mix of that hash and the server's seed (the finaliser of
 * splitmix64, which is a bijection with good avalanche), so n servers cost one hash and n multiplications. Rejected: a
 * ring with virtual nodes, which needs a table and balances worse for the few servers a pool has. */
#include "kvclient/place.h"

uint64_t kvc_place_seed(const char *name)
{
	return kv_hash_key(name, strlen(name), 0);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

unsigned kvc_place_node(const uint64_t *seeds, unsigned n, const void *key, size_t len)
{
	uint64_t hash, best_weight = 0;
	unsigned best = 0;
	if (n == 1)
		return 0;
	hash = kv_hash_key(key, len, 0);
	for (unsigned i = 0; i < n; i++) {
		uint64_t weight = mix(hash ^ seeds[i]);
		if (i == 0 || weight > best_weight) {
			best = i;
			best_weight = weight;
		}
	}
	return best;
}
