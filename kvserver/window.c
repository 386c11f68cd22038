/* SPDX-License-Identifier: Apache-2.0 */
/* window.c -- sliding window over ascending ids (as IPsec's replay window, RFC 6479).
 *
 * The bits of ids in [top - WIDTH, top) are exact. Moving top on clears the bits that it newly covers: until then they
 * belong to ids one width below. A peer that jumps far ahead makes only its own older ids unknown. */
#include "kvserver/window.h"

void window_init(struct window *w)
{
	*w = (struct window){0};
}

static inline bool bit_get(const struct window *w, uint64_t id)
{
	return w->seen[id % WINDOW_WIDTH / 64] >> (id % 64) & 1;
}

enum window_verdict window_look(const struct window *w, uint64_t id)
{
	if (id == UINT64_MAX)
		return WINDOW_BELOW;
	if (id >= w->top)
		return WINDOW_NEW;
	if (w->top - id > WINDOW_WIDTH)
		return WINDOW_BELOW;
	return bit_get(w, id) ? WINDOW_SEEN : WINDOW_NEW;
}

static void window_advance(struct window *w, uint64_t id)
{
	if (id - w->top >= WINDOW_WIDTH) {
		memset(w->seen, 0, sizeof(w->seen));
	} else {
		for (uint64_t i = w->top; i <= id; i++)
			w->seen[i % WINDOW_WIDTH / 64] &= ~(1ull << (i % 64));
	}
	w->top = id + 1;
}

enum window_verdict window_mark(struct window *w, uint64_t id)
{
	enum window_verdict verdict = window_look(w, id);

	if (verdict != WINDOW_NEW)
		return verdict;
	if (id >= w->top)
		window_advance(w, id);
	w->seen[id % WINDOW_WIDTH / 64] |= 1ull << (id % 64);
	return WINDOW_NEW;
}
