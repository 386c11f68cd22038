/* SPDX-License-Identifier: Apache-2.0 */
/* records.h -- the tier's index: where each value lies on a device, at most 40 bytes each. Pure: no I/O, one thread. */
#ifndef KVRAIL_STORE_TIER_RECORDS_H
#define KVRAIL_STORE_TIER_RECORDS_H

#include "base/base.h"
#include "host/host.h"

/* A key as the index keeps it: 96 bits of hash. hash: the one of store/index.h, so that digests find records. A read
 * compares the whole key. */
struct tier_id {
	uint64_t hash;
	uint32_t more; /* tier_more: of the same key, another function */
};

enum {
	TIER_PAGE = 4096,                 /* unit of places and of I/O */
	TIER_SEGMENTS_MAX = 1 << 24,      /* of all devices of a shard */
	TIER_SEGMENT_PAGES_MAX = 1 << 16, /* 256 MiB */
	TIER_RECORD_BYTES = 40,           /* index memory per record, at most */
	TIER_EXPIRES_MAX_S = INT32_MAX
};

/* One record; 36 bytes. Links are item numbers; 0: none. */
struct tier_item {
	uint32_t hash_low, hash_high, more;
	uint32_t segment : 24; /* of all devices (tier_fifo.base) */
	uint32_t hit : 1;      /* read since it was written */
	uint32_t dead : 1;     /* deleted, expired or replaced: in no chain; freed with its segment */
	uint32_t pending : 1;  /* its bytes are not on the device yet */
	uint32_t page : 16;    /* of its segment */
	uint32_t space : 12;   /* the number of its namespace; set by the adder */
	uint32_t age : 4;      /* of its generation, the last bits: of an earlier one if they differ */
	uint32_t len;          /* of the value, bytes */
	uint32_t expires_s;    /* wall clock, seconds since 1970; 0: never */
	uint32_t chain;        /* the next one with the same head */
	uint32_t next;         /* the next one of its segment */
};

/* Linear hashing: heads grow by one, and split one chain, with each record; nothing is ever moved at once. */
struct tier_records {
	struct kv_area items_area, heads_area; /* address space for records_max, touched on use */
	struct tier_item *item;                /* [0] is unused */
	uint32_t *head;
	uint32_t heads;       /* in use; never shrinks */
	uint32_t records_max; /* items, numbers 1 .. records_max */
	uint32_t made, free;  /* items ever used; the first free one, linked by chain */
	uint32_t live;        /* in chains */
	uint32_t used;        /* live and dead */
	/* dropped -- a live record becomes dead. NULL: nobody asks. */
	void (*dropped)(void *arg, const struct tier_item *i);
	void *arg;
};

/* tier_records_init -- an empty index for at most records_max records. 0 or -KV_ENOMEM. tier_records_fini -- harmless
 * on a zeroed struct. */
int tier_records_init(struct tier_records *t, uint32_t records_max);
void tier_records_fini(struct tier_records *t);

/* tier_more -- the second hash of a key: a part of its number at all servers (tombs_id). */
uint32_t tier_more(const void *key, size_t len);

/* tier_records_find -- the live record of a key, or 0. tier_records_find_hash -- by the first hash alone: probably of
 * this key. Records whose time is over are still found: see tier_item_over. */
uint32_t tier_records_find(const struct tier_records *t, const struct tier_id *id);
uint32_t tier_records_find_hash(const struct tier_records *t, uint64_t hash);

/* tier_records_add -- a live record without a place (tier_fifo_add sets it), whose key has none. 0: the index is full.
 */
uint32_t tier_records_add(struct tier_records *t, const struct tier_id *id, uint32_t len, uint32_t expires_s);

/* tier_records_full -- whether tier_records_add has no place. Dead records have theirs until they are freed. */
static inline bool tier_records_full(const struct tier_records *t)
{
	return t->free == 0 && t->made == t->records_max;
}

/* tier_records_drop -- a live record becomes dead. tier_records_free -- forget a dead one, out of its segment's list.
 */
void tier_records_drop(struct tier_records *t, uint32_t number);
void tier_records_free(struct tier_records *t, uint32_t number);

/* tier_records_bytes -- memory in use, for statistics. */
uint64_t tier_records_bytes(const struct tier_records *t);

static inline uint64_t tier_item_hash(const struct tier_item *i)
{
	return (uint64_t)i->hash_high << 32 | i->hash_low;
}

static inline bool tier_item_over(const struct tier_item *i, uint64_t wall_s)
{
	return i->expires_s != 0 && i->expires_s <= wall_s;
}

#endif
