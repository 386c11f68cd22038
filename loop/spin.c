/* SPDX-License-Identifier: Apache-2.0 */
/* spin.c -- spin or sleep, learnt from the last rests.
 *
 * A sleep costs some ten system calls and 5 to 27 us; a look one system call and a yield. Each rest raises or lowers a
 * score by how soon it ended, and a loop spins while most of its last rests were short. If another process took the
 * processor for long, spinning is banned for a while, each time for twice as long. */
#include "loop/spin.h"

void spin_init(struct spin *s, uint64_t limit_ns)
{
	*s = (struct spin){.limit_ns = limit_ns, .penalty_ns = SPIN_PENALTY_MIN_NS};
}

/* Back from a yield, if there was one. */
static void back(struct spin *s, uint64_t now)
{
	if (!s->away)
		return;
	s->away = false;
	if (now - s->left_ns < SPIN_AWAY_NS)
		return;
	/* Undisturbed spinning for the last ban's time makes the next ban short again. */
	if (now - s->banned_ns > s->penalty_ns)
		s->penalty_ns = SPIN_PENALTY_MIN_NS;
	else
		s->penalty_ns = KV_MIN(2 * s->penalty_ns, SPIN_PENALTY_MAX_NS);
	s->banned_ns = now + s->penalty_ns;
}

bool spin_again(struct spin *s, uint64_t now, bool surely)
{
	back(s, now);
	if (!s->resting) {
		s->resting = true;
		s->since_ns = now;
	}
	if (now - s->since_ns >= s->limit_ns)
		return false;
	if (!surely && (s->score < SPIN_SCORE_ENOUGH || now < s->banned_ns))
		return false;
	s->away = true;
	s->left_ns = now;
	return true;
}

void spin_found(struct spin *s, uint64_t now)
{
	back(s, now);
	if (!s->resting)
		return;
	s->resting = false;
	if (now - s->since_ns <= s->limit_ns + SPIN_WAKE_NS)
		s->score = (uint8_t)KV_MIN(s->score + SPIN_SCORE_STEP, SPIN_SCORE_MAX);
	else
		s->score = (uint8_t)KV_MAX(s->score - SPIN_SCORE_STEP, 0);
}
