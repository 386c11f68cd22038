/* SPDX-License-Identifier: Apache-2.0 */
/* recover.h -- after a crash: find the values of a store again by its records, and believe only those whose bytes have
 * the recorded checksum. The store serves meanwhile; values not yet verified are misses. */
#ifndef KVRAIL_STORE_RECOVER_H
#define KVRAIL_STORE_RECOVER_H

#include "base/base.h"

/* Zero it before. */
struct recover {
	struct space **space;   /* by their numbers in the records; from malloc. NULL: none */
	struct block **pending; /* STAGED, by address; from malloc */
	struct index waiting;   /* the same, by key: store.waiting */
	uint64_t count, at;
	uint64_t hashed;
	struct kv_hasher hasher;
	struct keep_clock clock;
	uint64_t found, accepted, refused; /* values */
};

/* recover_begin -- make a block of each complete record of an empty store's table (store.records), which has the place
 * but is not visible. 0 or -KV_ENOMEM: the store is as before, and the table empty. */
int recover_begin(struct recover *r, struct store *s, const struct keep_clock *clock);

/* recover_step -- verify at most `bytes` bytes, and make good values visible. False: it is over. recover_end -- at any
 * time: the rest is dropped. */
bool recover_step(struct recover *r, struct store *s, uint64_t bytes, uint64_t now_ns);
void recover_end(struct recover *r, struct store *s);

#endif
