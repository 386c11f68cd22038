/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h -- the server and shard of a key. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_PLACEMENT_H
#define KVRAIL_KVCLIENT_CORE_PLACEMENT_H

#include <stdatomic.h>

#include "base/base.h"

enum { KC_PLACE_MAX = 1024 };
struct kc_place_set {
	uint64_t bit[KC_PLACE_MAX / 64];
	unsigned count;
};

enum {
	KC_PLACE_BITS = 18, /* bits of a key's hash for its partition: part of the protocol */
	KC_PLACE_PARTITIONS = 1 << KC_PLACE_BITS,
	KC_PLACE_DIRECT = 8 /* up to this many servers, compare numbers for each key */
};

/* Results of look-ups; equal placements may share them (notes.h). */
struct kc_notes {
	struct kc_notes_home *home; /* NULL: not shared */
	struct kv_list node;
	unsigned users;
	unsigned n; /* if shared: n, seed and weight of its placements */
	uint64_t *seed;
	uint16_t *weight;
	_Atomic uint16_t holder[KC_PLACE_PARTITIONS]; /* 1 + the server's index; 0: unknown */
};

/* The placement of a pool or a view, constant once made. */
struct kc_place {
	unsigned n;
	uint64_t *seed;   /* of each server */
	uint16_t *node;   /* index of each server's node; NULL: its own */
	uint16_t *weight; /* NULL: all equal */
	unsigned heavy;
	struct kc_notes *notes; /* NULL with few servers */
};

/* kc_place_init -- 1 to 65,535 servers, whose seeds the caller then sets. 0 or -KV_ENOMEM. kc_place_fini -- also of a
 * zeroed one. */
int kc_place_init(struct kc_place *p, unsigned n);

/* kc_place_weigh -- before the first look-up: shares of keys in proportion to weights, 1 to 65,535. A rising weight
 * takes keys from others; no other keys move. 0 or -KV_ENOMEM. */
int kc_place_weigh(struct kc_place *p, const uint16_t *weight);
void kc_place_fini(struct kc_place *p);

/* kc_place_seed -- from a server's name in the client's list alone: clients that know different facts must agree. */
uint64_t kc_place_seed(const char *name);

/* kc_place_node -- the node index of the key's server. Any thread. Independent of the list's order; of equal seeds the
 * lower index wins. */
unsigned kc_place_node(const struct kc_place *p, const void *key, size_t len);

/* kc_place_among -- the same without `avoided` servers; all avoided: kc_place_node. Clients that avoid the same
 * servers agree. Cost: linear in servers. */
unsigned kc_place_among(const struct kc_place *p, const void *key, size_t len, const struct kc_place_set *avoided);

/* kc_place_find -- the server index of a partition, without notes. kc_place_note -- `best` can lose to the n others
 * alone: note the winner. */
unsigned kc_place_find(const struct kc_place *p, uint64_t partition);
void kc_place_note(struct kc_place *p, uint64_t partition, unsigned best, const uint16_t *other, unsigned n);

/* kc_notes_make -- with one user; or NULL. kc_notes_drop -- remove a user; sets *notes to NULL. */
struct kc_notes *kc_notes_make(void);
void kc_notes_drop(struct kc_notes **notes);

/* kc_place_set_put -- add or remove server i < KC_PLACE_MAX; false: no change. */
static inline bool kc_place_set_has(const struct kc_place_set *s, unsigned i)
{
	return s->bit[i / 64] >> (i % 64) & 1;
}

static inline bool kc_place_set_put(struct kc_place_set *s, unsigned i, bool in)
{
	if (kc_place_set_has(s, i) == in)
		return false;
	s->bit[i / 64] ^= (uint64_t)1 << (i % 64);
	s->count += in ? 1u : -1u;
	return true;
}

/* kc_place_shard -- `shards` > 0 and the seed are the WELCOME's. kc_digest_shard -- the same for the key's hash. */
static inline unsigned kc_digest_shard(uint64_t digest, unsigned shards)
{
	return (unsigned)((digest >> 32) * shards >> 32);
}

static inline unsigned kc_place_shard(uint64_t shard_seed, unsigned shards, const void *key, size_t len)
{
	return kc_digest_shard(kv_hash_key(key, len, shard_seed), shards);
}

#endif
