/* SPDX-License-Identifier: Apache-2.0 */
/* records.h -- a table beside the arena that says at any time which live block lies where, and which generation each
 * namespace has: after a crash its values can
 * be found again (recover.h). Only stores that ask for it have one. */
#ifndef KVRAIL_STORE_RECORDS_H
#define KVRAIL_STORE_RECORDS_H

#include "base/base.h"
#include "store/space.h"

struct block;

/* A live block. All bytes are set. */
struct record {
	uint64_t sum; /* of the rest, with the table's seed; 0: a free place */
	uint64_t offset, len, checksum, generation, born_ns, expires_ns;
	uint64_t space_mark; /* of its namespace with the generation of then */
	uint32_t space;      /* its number */
	uint8_t key_len, zero[3];
	uint8_t key[KV_KEY_MAX];
};

_Static_assert(sizeof(struct record) == 8 * 8 + 8 + KV_KEY_MAX, "no padding: all bytes are summed");

struct records {
	struct space_note *notes; /* the owner's memory, which outlives the process */
	struct record *at;        /* behind them */
	uint64_t places;          /* 0: no table */
	uint64_t seed;
	uint64_t reach;
};

/* records_places -- of a table for so many live blocks. */
static inline uint64_t records_places(uint64_t blocks_max)
{
	return blocks_max + blocks_max / 3 + 64;
}

/* records_bytes -- of the memory of a table. */
static inline uint64_t records_bytes(uint64_t places)
{
	return SPACE_NOTES * sizeof(struct space_note) + places * sizeof(struct record);
}

/* records_put -- a block has become live, and its space has this mark. records_drop -- it is no longer live, before its
 * bytes may change. records_change -- its place or its expiry has changed. */
void records_put(struct records *t, const struct block *b, uint64_t space_mark);
void records_drop(struct records *t, const struct block *b);
void records_change(struct records *t, const struct block *b);

/* records_open -- a table in this memory, which has the records of a former owner with the same seed, or is zeroed. */
void records_open(struct records *t, void *memory, uint64_t places, uint64_t seed);

/* records_good -- whether the place has a record that was written completely. records_clear -- free the place. */
bool records_good(const struct records *t, const struct record *r);
static inline void records_clear(struct record *r)
{
	__atomic_store_n(&r->sum, 0, __ATOMIC_RELEASE);
}

#endif
