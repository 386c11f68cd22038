/* SPDX-License-Identifier: Apache-2.0 */
/* spin.c -- spin or sleep, learnt from how the last rests ended.
 *
 * A sleep and its wake-up cost a loop some ten system calls, and 5 to 27 us before it runs again. Looking again costs
 * one system call and a yield. So spinning pays when the next event comes soon, and not otherwise. Each rest, spun or
 * slept, tells how soon it was: it raises or lowers a score, and a loop spins while most of the last rests were short.
 * An idle loop is therefore asleep, and one that gets a request every few microseconds does not sleep between them. It
 * takes a handful of rests to go from one to the other.
 *
 * Every look is followed by a yield. Without it loops that spin, when there are more of them than processors, stop each
 * other for a scheduler's slice; with it they hand each other the processor. But a yield also hands it to any process
 * that computes, for a whole slice, whereas a loop that sleeps is woken ahead of that process. So a yield that took
 * longer than loops take bans spinning for a while, and again for twice as long while it goes on. (Rejected: comparing
 * the number of loops with that of the processors. It knows neither which loops are busy nor what else runs on the
 * machine: one worker of a default client never spun, on two idle cores.) */
#include "loop/spin.h"

void spin_init(struct spin *s, uint64_t limit_ns)
{
	*s = (struct spin){.limit_ns = limit_ns, .penalty_ns = SPIN_PENALTY_MIN_NS};
}

/* We are back from a yield, if we made one. */
static void back(struct spin *s, uint64_t now)
{
	if (!s->away)
		return;
	s->away = false;
	if (now - s->left_ns < SPIN_AWAY_NS)
		return;
	/* Spinning in peace for as long as the last ban lasted makes the next one short again. */
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
