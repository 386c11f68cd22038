/* SPDX-License-Identifier: Apache-2.0 */
/* tombs.h -- tombstones of lately deleted or touched keys. No copy older than its key's tombstone is stored.
 */
#ifndef KVRAIL_STORE_TOMBS_H
#define KVRAIL_STORE_TOMBS_H

#include "base/base.h"

enum {
	TOMBS_MIN = 1 << 10,
	TOMBS_MAX = 1 << 18,
	TOMBS_BYTES_EACH = 16 << 10 /* bytes of the arena for each tombstone, within these bounds */
};

#define TOMBS_KEEP_NS 660000000000ull /* a minute longer than the default of kvc_options.settle_ns */

/* The last DELETE or TOUCH of a key. */
struct tomb {
	uint64_t hash;       /* the index's; 0: a free place */
	uint64_t id;         /* store_id of the key */
	uint64_t time_ns;    /* concerns values born before */
	uint64_t expires_ns; /* 0: deleted; else they expire then at the latest */
	bool reborn;         /* a younger value was stored since */
	bool yielded;        /* another server had deleted it (tombs_yielded) */
	bool former;         /* of an earlier process (tombs_former) */
};

struct tombs {
	struct tomb *ring;      /* by arrival */
	uint32_t *next, *chain; /* index + 1 of the next tombstone in a chain, and of each chain's first */
	uint32_t count_max, mask;
	uint32_t used;    /* places */
	uint64_t put;     /* tombstones ever put; gives the next place */
	uint64_t dropped; /* tombstones before their time */
	int64_t since_ns; /* everything later than this is here; set by the owner; may be before the clock's zero */
};

/* tombs_init -- an empty ring for an arena of this size. 0 or -KV_ENOMEM. */
int tombs_init(struct tombs *t, uint64_t limit_bytes);
void tombs_fini(struct tombs *t);

/* tombs_id -- the number of a key, equal at all servers; store_id mixes its space and generation in. */
uint64_t tombs_id(const void *key, size_t len);

/* tombs_put -- values of this key born before time_ns are deleted (expires_ns 0) or live until expires_ns at most.
 * Replaces the key's older tombstone, unless that one includes it. If the ring is full, the oldest is dropped. */
void tombs_put(struct tombs *t, uint64_t hash, uint64_t id, uint64_t time_ns, uint64_t expires_ns, uint64_t now_ns);

/* tombs_former -- a key's tombstone of an earlier process, which had other hashes. It is found by tombs_next alone. */
void tombs_former(struct tombs *t, uint64_t id, uint64_t time_ns, bool touched, uint64_t now_ns);

/* tombs_find -- a key's tombstone, or NULL: none within TOMBS_KEEP_NS. */
const struct tomb *tombs_seek(const struct tombs *t, uint64_t hash, uint64_t now_ns);
static inline const struct tomb *tombs_find(const struct tombs *t, uint64_t hash, uint64_t now_ns)
{
	return KV_LIKELY(t->used == 0) ? NULL : tombs_seek(t, hash, now_ns);
}

/* tombs_deleted -- whether the key was deleted lately. For older copies elsewhere this holds even if the key was stored
 * and lost again since. (A TOUCH proves less: a later one may be missing here.) tombs_reborn -- a value of the key,
 * born then, is stored. */
static inline bool tombs_deleted(const struct tombs *t, uint64_t hash, uint64_t now_ns)
{
	const struct tomb *d = tombs_find(t, hash, now_ns);
	return KV_UNLIKELY(d != NULL) && d->expires_ns == 0;
}
void tombs_reborn(struct tombs *t, uint64_t hash, uint64_t born_ns);

/* tombs_yielded -- mark the key's tombstone: another server's DELETE, which may arrive here as well. tombs_yielded_take
 * -- whether it is marked and no value was stored since; clears the mark. */
void tombs_yielded(struct tombs *t, uint64_t hash);
bool tombs_yielded_take(struct tombs *t, uint64_t hash, uint64_t now_ns);

/* tombs_next -- walk over all, from number *at, first 0. Examines at most *budget places, and lowers it. NULL: none
 * there; the walk is over when *at is t->put. Tombstones put during the walk are found. */
const struct tomb *tombs_next(const struct tombs *t, uint64_t *at, uint32_t *budget);

#endif
