/* SPDX-License-Identifier: Apache-2.0 */
/* belief.h -- a cluster in which one server announces what it likes, under calls. */
#ifndef KVRAIL_TESTS_SIM_BELIEF_H
#define KVRAIL_TESTS_SIM_BELIEF_H

#include <stdint.h>

/* What a server that is no source announces. */
enum belief_lie {
	LIE_DEAD,     /* members at addresses where nobody is */
	LIE_ALONE,    /* itself, and a member at an address of its choice */
	LIE_DRAINING, /* the true members, and all others drain */
	LIE_WEIGHT,   /* the true members, and it has the largest weight */
	LIE_NAMES,    /* the true names, all at its own address */
	LIE_NONE,     /* no view */
	LIE_STALE,    /* an older view of the source */
	LIES
};

/* belief_lie -- server `liar` (a number of the world's) announces this, by the source of the others or by another one.
 */
void belief_lie(unsigned liar, enum belief_lie lie, uint64_t source, uint64_t epoch);

/* belief_run -- one world: five servers, of which the last one lies or is stale, while the others change their views,
 * restart one at a time, and have their numbers begin anew. No call fails, no value that was deleted is found again, no
 * client follows what the liar alone announces, and each follows the others' view in the end. With every third seed
 * values are kept twice. */
void belief_run(uint64_t seed);

#endif
