/* SPDX-License-Identifier: Apache-2.0 */
/* heat.c -- a few hundred slots, each with the counts of one key; a key has one slot, by its digest.
 *
 * A key that is not the holder of its slot takes one of the holder's votes, and the slot when there is none left. So
 * the holder is the key with more than half of the slot's GETs, if there is one. A slot has 1/512 of the load that is
 * spread over many keys, and a key that is hot eight times as much or more. Votes are bounded, and halved with each
 * window, so that a holder that cools down loses its slot soon.
 *
 * The votes only choose the holder. What is compared is the number of its GETs in the window: what it was asked for
 * while others held its slot is missing, nothing is added. So no key is called hot that is not, but for two that agree
 * in slot and tag (41 bits). Of two hot keys in one slot the one that is asked for more is told, or both in turns.
 *
 * Windows end when the next GET after them comes; a slot learns of it with its own next GET. Of the window before a bit
 * is left: whether the holder was hot in it. After a window without a GET of the slot nothing is.
 *
 * A GET touches the head and one slot, which lies in one cache line.
 *
 * Rejected: a count in each block. The policies (evict.h) have bits there, and forget them at their own time, by what
 * comes in, not by the clock; and a count of our own costs memory for every value that was never hot. A sketch (count
 * min): it adds up keys, so that cold ones are called hot, and touches a line for each of its rows. A rate that an
 * option sets: what is a lot depends on the machine and the load; a share of the load that one server has needs no
 * tuning, and HEAT_GETS_MIN keeps a server with little to do from calling anything hot. */
#include "store/heat.h"

enum { VOTES_MAX = 2 * HEAT_GETS_MIN };

_Static_assert(sizeof(struct heat_slot) == 16, "a slot lies in one cache line, aligned as it is");
_Static_assert(HEAT_SLOTS_LOG2 <= 32 && VOTES_MAX <= UINT8_MAX, "slot and tag are of different bits; votes fit");

static inline bool often(uint32_t gets, uint32_t all)
{
	return gets >= HEAT_GETS_MIN && (uint64_t)gets * HEAT_SHARE >= all;
}

/* The window is over, and perhaps others after it. */
static void window_next(struct heat *h, uint64_t now_ns)
{
	uint64_t over = (now_ns - h->began_ns) / HEAT_WINDOW_NS;

	h->began_ns += over * HEAT_WINDOW_NS;
	h->window += (uint32_t)over;
	h->gets_before = over == 1 ? h->gets : 0;
	h->gets = 0;
}

/* The slot's first GET in this window. */
static void slot_next(const struct heat *h, struct heat_slot *s)
{
	bool before = h->window - s->window == 1;

	s->was_hot = before && often(s->gets, h->gets_before);
	s->votes = before ? s->votes / 2 : 0;
	s->gets = 0;
	s->window = h->window;
}

bool heat_asked(struct heat *h, uint64_t digest, uint64_t now_ns)
{
	struct heat_slot *s = &h->slot[digest >> (64 - HEAT_SLOTS_LOG2)];
	uint32_t tag = (uint32_t)digest;

	if (KV_UNLIKELY(now_ns > h->began_ns && now_ns - h->began_ns >= HEAT_WINDOW_NS))
		window_next(h, now_ns);
	h->gets++;
	if (s->window != h->window)
		slot_next(h, s);
	if (s->tag != tag) {
		if (s->votes > 0) {
			s->votes--;
			return false;
		}
		s->tag = tag;
		s->gets = 0;
		s->was_hot = false;
	}
	s->votes += s->votes < VOTES_MAX;
	s->gets++;
	return s->was_hot || often(s->gets, h->gets);
}
