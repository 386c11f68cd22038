/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.h -- blocks that other servers may have deleted: hidden until the answers are here. */
#ifndef KVRAIL_STORE_DOUBT_H
#define KVRAIL_STORE_DOUBT_H

#include "base/base.h"

/* The answer of another server: the key with this number (store_id) was deleted or touched at this time or earlier. A
 * value born before is dropped in both cases. Only a DELETE is remembered here. */
struct verdict {
	uint64_t id, time_ns;
	uint64_t deleted_ns; /* the last DELETE, or 0 */
};

static inline struct verdict verdict_of(uint64_t id, uint64_t time_ns, bool touched)
{
	return (struct verdict){id, time_ns, touched ? 0 : time_ns};
}

/* DOUBT_WAIT: blocks in doubt are hidden. DOUBT_JUDGE: a block with a verdict no older than itself is dropped when it
 * is asked for; the others are visible again. */
enum doubt_how { DOUBT_NONE, DOUBT_WAIT, DOUBT_JUDGE };

enum {
	DOUBT_ROUNDS = 15,           /* numbers that fit a block */
	DOUBT_ARRIVAL = 1,           /* the round of a first arrival, which spares values of store_put_here */
	DOUBT_VERDICTS_MAX = 1 << 20 /* 24 MiB per doubt */
};

struct doubt {
	uint64_t before_ns; /* blocks born before are in doubt; 0: none */
	enum doubt_how how;
	unsigned round;                /* 1 .. DOUBT_ROUNDS; 0: there was no doubt yet */
	bool copies;                   /* DOUBT_WAIT: only copies are in doubt */
	uint64_t dead_ns;              /* blocks born before are dropped ... */
	unsigned dead_round;           /* ... unless they came in this round or later */
	uint64_t all_dead_ns;          /* blocks born before are always dropped: round numbers began anew */
	const struct verdict *verdict; /* DOUBT_JUDGE: sorted by id */
	uint32_t count;
	uint64_t dropped; /* blocks */
	uint32_t left;    /* DOUBT_JUDGE: where store_judge_some is (store_walk) */
};

/* verdicts_sort -- sort by id, and keep one per key, with the latest times. Returns the number that remains. */
uint32_t verdicts_sort(struct verdict *v, uint32_t count);

/* verdict_find -- the verdict about a key, or NULL. */
const struct verdict *verdict_find(const struct doubt *d, uint64_t id);

#endif
