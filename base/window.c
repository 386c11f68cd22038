/* SPDX-License-Identifier: Apache-2.0 */
/* window.c -- sliding window over ascending ids (as IPsec's replay window, RFC 6479).
 *
 * The bits of ids in [top - WIDTH, top) are exact. Moving top on clears the bits that it newly covers: until then they
 * belong to ids one width below. A peer that jumps far ahead makes only its own older ids unknown. */
#include "base/window.h"

#include <stdbool.h>

#include "base/bytes.h"

void kv_window_init(struct kv_window *w)
{
	*w = (struct kv_window){0};
}

static inline bool bit_get(const struct kv_window *w, uint64_t id)
{
	return w->seen[id % KV_WINDOW_WIDTH / 64] >> (id % 64) & 1;
}

enum kv_window_verdict kv_window_look(const struct kv_window *w, uint64_t id)
{
	if (id == UINT64_MAX)
		return KV_WINDOW_BELOW;
	if (id >= w->top)
		return KV_WINDOW_NEW;
	if (w->top - id > KV_WINDOW_WIDTH)
		return KV_WINDOW_BELOW;
	return bit_get(w, id) ? KV_WINDOW_SEEN : KV_WINDOW_NEW;
}

static void window_advance(struct kv_window *w, uint64_t id)
{
	if (id - w->top >= KV_WINDOW_WIDTH) {
		memset(w->seen, 0, sizeof(w->seen));
	} else {
		for (uint64_t i = w->top; i <= id; i++)
			w->seen[i % KV_WINDOW_WIDTH / 64] &= ~(1ull << (i % 64));
	}
	w->top = id + 1;
}

enum kv_window_verdict kv_window_mark(struct kv_window *w, uint64_t id)
{
	enum kv_window_verdict verdict = kv_window_look(w, id);

	if (verdict != KV_WINDOW_NEW)
		return verdict;
	if (id >= w->top)
		window_advance(w, id);
	w->seen[id % KV_WINDOW_WIDTH / 64] |= 1ull << (id % 64);
	return KV_WINDOW_NEW;
}
