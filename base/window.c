/* SPDX-License-Identifier: Apache-2.0 */
/* window.c -- sliding window over ascending ids (RFC 6479). Bits of ids in [top - width, top) are exact; advancing top
 * clears newly covered bits. A peer that jumps ahead loses only its own older ids. */
#include "base/window.h"

#include <string.h>

#include "base/bytes.h"

void kv_window_init(struct kv_window *w, uint64_t *seen, uint32_t width)
{
	*w = (struct kv_window){.seen = seen, .width = width};
	memset(seen, 0, kv_window_words(width) * sizeof(*seen));
}

static inline uint64_t *word_of(const struct kv_window *w, uint64_t id)
{
	return &w->seen[(id & (w->width - 1)) / 64];
}

enum kv_window_verdict kv_window_look(const struct kv_window *w, uint64_t id)
{
	if (id == UINT64_MAX)
		return KV_WINDOW_BELOW;
	if (id >= w->top)
		return KV_WINDOW_NEW;
	if (w->top - id > w->width)
		return KV_WINDOW_BELOW;
	return *word_of(w, id) >> (id % 64) & 1 ? KV_WINDOW_SEEN : KV_WINDOW_NEW;
}

static void window_advance(struct kv_window *w, uint64_t id)
{
	if (id - w->top >= w->width) {
		memset(w->seen, 0, kv_window_words(w->width) * sizeof(*w->seen));
	} else {
		for (uint64_t i = w->top; i <= id; i++)
			*word_of(w, i) &= ~(1ull << (i % 64));
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
	*word_of(w, id) |= 1ull << (id % 64);
	return KV_WINDOW_NEW;
}
