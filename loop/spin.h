/* SPDX-License-Identifier: Apache-2.0 */
/* spin.h -- spin or sleep? Internal to loop/. The caller passes the time. */
#ifndef KVRAIL_LOOP_SPIN_H
#define KVRAIL_LOOP_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* A sleep that ended this soon after its spin's end counts as a spin that would have paid: waking takes time. */
#define SPIN_WAKE_NS 50000ull
/* A yield longer than this went to a computing process. */
#define SPIN_AWAY_NS        500000ull
#define SPIN_PENALTY_MIN_NS 5000000ull
#define SPIN_PENALTY_MAX_NS 320000000ull

enum { SPIN_SCORE_MAX = 16, SPIN_SCORE_ENOUGH = 8, SPIN_SCORE_STEP = 2 };

struct spin {
	uint64_t limit_ns;   /* before a sleep; 0: never */
	uint64_t since_ns;   /* the start of this rest */
	uint64_t left_ns;    /* the last yield */
	uint64_t banned_ns;  /* no spinning until then */
	uint64_t penalty_ns; /* length of the next ban */
	uint8_t score;       /* of the last rests: how many were short */
	bool resting;        /* the last pass found nothing */
	bool away;           /* yielded since the last pass */
};

void spin_init(struct spin *s, uint64_t limit_ns);

/* spin_again -- a pass at `now` found nothing. True: yield and look again; false: sleep. `surely`: spin in any case,
 * since the event cannot wake the loop. */
bool spin_again(struct spin *s, uint64_t now, bool surely);

/* spin_found -- a pass at `now` found an event. */
void spin_found(struct spin *s, uint64_t now);

#endif
