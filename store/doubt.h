/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.h -- blocks that may have been deleted without this server: hidden until it is known which were. */
#ifndef KVRAIL_STORE_DOUBT_H
#define KVRAIL_STORE_DOUBT_H

#include "base/base.h"

/* What other servers remember: the key of this number (tombs_id) was deleted or touched then, or earlier. A value that
 * was born before goes in both cases: how long it is to live is not known. Only a DELETE is remembered here. */
struct verdict {
	uint64_t id, time_ns;
	uint64_t deleted_ns; /* the last DELETE; 0: there was none */
};

static inline struct verdict verdict_of(uint64_t id, uint64_t time_ns, bool touched)
{
	return (struct verdict){id, time_ns, touched ? 0 : time_ns};
}

/* DOUBT_WAIT: blocks in doubt are hidden. DOUBT_JUDGE: those that have a verdict that is not older than they are go
 * when somebody asks for them; the others are back. */
enum doubt_how { DOUBT_NONE, DOUBT_WAIT, DOUBT_JUDGE };

enum {
	DOUBT_ROUNDS = 15,           /* a block remembers the last round in which it came or was found good */
	DOUBT_VERDICTS_MAX = 1 << 20 /* of a doubt: 24 MiB */
};

struct doubt {
	uint64_t before_ns; /* blocks that were born before are meant; 0: none */
	enum doubt_how how;
	unsigned round;                /* 1 .. DOUBT_ROUNDS; 0: there was no doubt */
	uint64_t dead_ns;              /* blocks that were born before this go, whatever is said later ... */
	unsigned dead_round;           /* ... unless they came in this round or a later one */
	uint64_t all_dead_ns;          /* blocks that were born before this go in any case: the rounds began anew */
	const struct verdict *verdict; /* DOUBT_JUDGE: sorted by id */
	uint32_t count;
	uint64_t dropped; /* blocks, since the start */
};

/* verdicts_sort -- by id; of one key there is one, with the latest times. Returns how many are left. */
uint32_t verdicts_sort(struct verdict *v, uint32_t count);

/* verdict_find -- about the key; NULL: none. */
const struct verdict *verdict_find(const struct doubt *d, uint64_t id);

#endif
