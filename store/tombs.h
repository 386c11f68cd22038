/* SPDX-License-Identifier: Apache-2.0 */
/* tombs.h -- tombstones: which keys were deleted, or touched, lately. A copy of a value that is older than its key's
 * tombstone is not stored. */
#ifndef KVRAIL_STORE_TOMBS_H
#define KVRAIL_STORE_TOMBS_H

#include "base/base.h"

enum {
	TOMBS_MIN = 1 << 10,
	TOMBS_MAX = 1 << 18,
	TOMBS_BYTES_EACH = 16 << 10 /* one tombstone for so many bytes of the arena, within these bounds */
};

#define TOMBS_KEEP_NS 660000000000ull /* a minute longer than kvc_options.settle_ns is by default */

/* What was said about a key. */
struct tomb {
	uint64_t hash;       /* of the index; 0: the place is free */
	uint64_t id;         /* tombs_id of the key */
	uint64_t time_ns;    /* values that were born before are meant */
	uint64_t expires_ns; /* 0: they were deleted; else they live no longer than until then */
	bool reborn;         /* a younger value was stored since */
	bool yielded;        /* the value went since another server had deleted it (tombs_yielded) */
};

struct tombs {
	struct tomb *ring;      /* in the order in which they came */
	uint32_t *next, *chain; /* index + 1 of the next tombstone of a chain, and of the first one of each */
	uint32_t count_max, mask;
	uint32_t used;     /* places that are not free */
	uint64_t put;      /* tombstones ever put: the next one's number, from which its place follows */
	uint64_t dropped;  /* tombstones that had to go before their time */
	uint64_t since_ns; /* all that was said of keys later than this is here; the owner sets it at its start */
};

/* tombs_init -- none yet, of an arena of this size. 0 or -KV_ENOMEM. */
int tombs_init(struct tombs *t, uint64_t limit_bytes);
void tombs_fini(struct tombs *t);

/* tombs_id -- the number of a key that is the same at every server. */
uint64_t tombs_id(const void *key, size_t len);

/* tombs_put -- values of this key that were born before time_ns are deleted (expires_ns 0), or live until expires_ns at
 * most. An older tombstone of the key goes; one that says more stays. If all places are taken, the oldest goes. */
void tombs_put(struct tombs *t, uint64_t hash, uint64_t id, uint64_t time_ns, uint64_t expires_ns, uint64_t now_ns);

/* tombs_find -- the tombstone of a key, or NULL: there is none, or it is older than TOMBS_KEEP_NS. */
const struct tomb *tombs_seek(const struct tombs *t, uint64_t hash, uint64_t now_ns);
static inline const struct tomb *tombs_find(const struct tombs *t, uint64_t hash, uint64_t now_ns)
{
	return KV_LIKELY(t->used == 0) ? NULL : tombs_seek(t, hash, now_ns);
}

/* tombs_deleted -- whether the key was deleted lately. That holds for older copies elsewhere even if the key was stored
 * again since, and is gone again. (A TOUCH says less: a later one may have lengthened the life of the value elsewhere.)
 * tombs_reborn -- a value of the key is stored that was born then. */
static inline bool tombs_deleted(const struct tombs *t, uint64_t hash, uint64_t now_ns)
{
	const struct tomb *d = tombs_find(t, hash, now_ns);

	return KV_UNLIKELY(d != NULL) && d->expires_ns == 0;
}
void tombs_reborn(struct tombs *t, uint64_t hash, uint64_t born_ns);

/* tombs_yielded -- the tombstone of this key was made since another server has deleted the key, by a DELETE that may
 * come here, too. tombs_yielded_take -- whether that was said and no value was stored since; once. */
void tombs_yielded(struct tombs *t, uint64_t hash);
bool tombs_yielded_take(struct tombs *t, uint64_t hash, uint64_t now_ns);

/* tombs_next -- a walk over all, from number *at on, which begins as 0. Looks at *budget places at most
 * and lowers it. NULL: there is none there; the walk is over if *at is t->put. What is put during the walk is found,
 * also if the key had another tombstone before. */
const struct tomb *tombs_next(const struct tombs *t, uint64_t *at, uint32_t *budget);

#endif
