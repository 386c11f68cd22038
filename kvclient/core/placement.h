/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h -- which server holds a key, and which of its shards. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_PLACEMENT_H
#define KVRAIL_KVCLIENT_CORE_PLACEMENT_H

#include <stdatomic.h>

#include "base/base.h"

/* A set of servers, a bit for each: those that a client avoids. */
enum { KVC_PLACE_MAX = 1024 };
struct kvc_place_set {
	uint64_t bit[KVC_PLACE_MAX / 64];
	unsigned count; /* of bits that are set */
};

enum {
	KVC_PLACE_BITS = 18, /* so many bits of a key's hash are its partition: part of the protocol */
	KVC_PLACE_PARTITIONS = 1 << KVC_PLACE_BITS,
	KVC_PLACE_DIRECT = 8 /* up to so many servers, their weights are compared for each key */
};

/* What was found by a placement; placements that are the same may share it (notes.h). */
struct kvc_notes {
	struct kvc_notes_home *home; /* NULL: not shared */
	struct kv_list node;
	unsigned users;
	unsigned n; /* of a shared one: n, seed and weight of its placements */
	uint64_t *seed;
	uint16_t *weight;
	_Atomic uint16_t holder[KVC_PLACE_PARTITIONS]; /* 1 + the server's index, 0 before the first look-up */
};

/* The placement of a pool or a view: made once, and not changed. */
struct kvc_place {
	unsigned n;
	uint64_t *seed;          /* of each server */
	uint16_t *node;          /* the index of each server's node; NULL: its own index */
	uint16_t *weight;        /* of each server; NULL: all are alike */
	unsigned heavy;          /* the first of those with the largest weight */
	struct kvc_notes *notes; /* NULL with few servers */
};

/* kvc_place_init -- for n servers, 1 to 65,535. The caller fills in the seeds before the first look-up. 0 or
 * -KV_ENOMEM.
 * kvc_place_fini -- free it. One that was zeroed and never made is fine. */
int kvc_place_init(struct kvc_place *p, unsigned n);

/* kvc_place_weigh -- give the servers shares of the keys in proportion to these n weights, 1 to 65,535, before the
 * first look-up. Weights that are all the same are none. A server whose weight rises takes keys from the others, and no
 * others move. 0 or -KV_ENOMEM. */
int kvc_place_weigh(struct kvc_place *p, const uint16_t *weight);
void kvc_place_fini(struct kvc_place *p);

/* kvc_place_seed -- the number that stands for a server in rendezvous hashing, from its name in the client's list.
 * Nothing that is learnt later may have a say: clients that learnt different things would look for a key in different
 * places. */
uint64_t kvc_place_seed(const char *name);

/* kvc_place_node -- the index of the node of the server that holds the key. Any thread. Taking one server away moves
 * only its own keys, and the order of the list does not matter. Of equal seeds the lower index wins. */
unsigned kvc_place_node(const struct kvc_place *p, const void *key, size_t len);

/* kvc_place_among -- the same without the servers of `avoided`: the highest weight among the others. With all of them
 * avoided: kvc_place_node. It depends on the key, the seeds and the set alone, so clients that avoid the same servers
 * agree. What it costs grows with the number of servers. */
unsigned kvc_place_among(const struct kvc_place *p, const void *key, size_t len, const struct kvc_place_set *avoided);

/* kvc_place_find -- as kvc_place_node of a key of this partition, by its index among the servers, and not noted: for
 * tests. kvc_place_note -- server `best` of this partition wins against all but the n others, perhaps: note the one
 * that wins. */
unsigned kvc_place_find(const struct kvc_place *p, uint64_t partition);
void kvc_place_note(struct kvc_place *p, uint64_t partition, unsigned best, const uint16_t *other, unsigned n);

/* kvc_notes_make -- empty ones with one user, or NULL. kvc_notes_drop -- one user fewer, and *notes becomes NULL. */
struct kvc_notes *kvc_notes_make(void);
void kvc_notes_drop(struct kvc_notes **notes);

/* kvc_place_set_has -- whether server i is in the set. kvc_place_set_put -- put it in, or take it out; false: it was as
 * it is to be. i < KVC_PLACE_MAX. */
static inline bool kvc_place_set_has(const struct kvc_place_set *s, unsigned i)
{
	return s->bit[i / 64] >> (i % 64) & 1;
}

static inline bool kvc_place_set_put(struct kvc_place_set *s, unsigned i, bool in)
{
	if (kvc_place_set_has(s, i) == in)
		return false;
	s->bit[i / 64] ^= (uint64_t)1 << (i % 64);
	s->count += in ? 1u : -1u;
	return true;
}

/* kvc_place_shard -- the shard of a server with `shards` > 0 shards and this hash seed (both from its WELCOME).
 * kvc_digest_shard -- the same, of the key's hash with that seed. */
static inline unsigned kvc_digest_shard(uint64_t digest, unsigned shards)
{
	return (unsigned)((digest >> 32) * shards >> 32);
}

static inline unsigned kvc_place_shard(uint64_t shard_seed, unsigned shards, const void *key, size_t len)
{
	return kvc_digest_shard(kv_hash_key(key, len, shard_seed), shards);
}

#endif
