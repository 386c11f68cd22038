/* SPDX-License-Identifier: Apache-2.0 */
/* spin.h -- whether a loop with nothing to do should look again or go to sleep. Internal to loop/. No clock of its
 * own: the caller passes the time of its pass. */
#ifndef KVRAIL_LOOP_SPIN_H
#define KVRAIL_LOOP_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* A sleep that ended so soon after its spin would have ended would have been a spin that paid: a wake-up takes time. */
#define SPIN_WAKE_NS 50000ull
/* A yield that took longer went to a process that computes, not to a loop that waits as ours does. */
#define SPIN_AWAY_NS        500000ull
#define SPIN_PENALTY_MIN_NS 5000000ull
#define SPIN_PENALTY_MAX_NS 320000000ull

enum { SPIN_SCORE_MAX = 16, SPIN_SCORE_ENOUGH = 8, SPIN_SCORE_STEP = 2 };

struct spin {
	uint64_t limit_ns;   /* spin at most so long before a sleep; 0: never */
	uint64_t since_ns;   /* the start of this rest */
	uint64_t left_ns;    /* when the processor was last given away */
	uint64_t banned_ns;  /* no spinning until then ... */
	uint64_t penalty_ns; /* ... for so long, next time */
	uint8_t score;       /* of the last rests: how many ended soon */
	bool resting;        /* the last pass found nothing */
	bool away;           /* the processor was given away since the last pass */
};

void spin_init(struct spin *s, uint64_t limit_ns);

/* spin_again -- a pass at `now` found nothing. Returns whether to yield and look again; false: sleep. `surely`: the
 * awaited event cannot wake us, so spin however rarely it pays. */
bool spin_again(struct spin *s, uint64_t now, bool surely);

/* spin_found -- a pass at `now` found an event. */
void spin_found(struct spin *s, uint64_t now);

#endif
