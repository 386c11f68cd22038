/* SPDX-License-Identifier: Apache-2.0 */
/* heat.c -- a few hundred slots, each with the GETs of one key; a digest has one slot.
 *
 * A GET of another key takes a vote from the slot's holder, and the slot when none is left: so the holder is the key
 * with most of the slot's GETs. Votes are bounded and halved with each window. They only choose the holder; its GETs in
 * the window, as a share of the server's load, decide whether it is hot. HEAT_GETS_MIN keeps idle servers from calling
 * a key hot. A window ends with the next GET after its time; a slot remembers whether the holder was hot in the window
 * before. */
#include "store/heat.h"

enum { VOTES_MAX = 2 * HEAT_GETS_MIN };

_Static_assert(sizeof(struct heat_slot) == 16, "a slot lies in one cache line, aligned as it is");
_Static_assert(HEAT_SLOTS_LOG2 <= 32 && VOTES_MAX <= UINT8_MAX, "slot and tag are of different bits; votes fit");

static inline bool often(uint32_t gets, uint32_t all)
{
	return gets >= HEAT_GETS_MIN && (uint64_t)gets * HEAT_SHARE >= all;
}

static void window_next(struct heat *h, uint64_t now_ns)
{
	uint64_t over = (now_ns - h->began_ns) / HEAT_WINDOW_NS;
	h->began_ns += over * HEAT_WINDOW_NS;
	h->window += (uint32_t)over;
	h->gets_before = over == 1 ? h->gets : 0;
	h->gets = 0;
}

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
