/* SPDX-License-Identifier: Apache-2.0 */
/* window.h -- which of ascending numbers (request ids, frame counters) have been seen: delivery is unordered, and
 * nothing may be done twice. */
#ifndef KVRAIL_BASE_WINDOW_H
#define KVRAIL_BASE_WINDOW_H

#include <stdint.h>

enum {
	KV_WINDOW_WIDTH = 4096, /* of a window, ... */
	KV_WINDOW_LEAST = 1024, /* ... and of one of many */
	KV_WINDOW_SHARE = 8     /* so many may have the whole width */
};

struct kv_window {
	uint64_t top;   /* one above the highest id seen; ids below top - width are forgotten */
	uint64_t *seen; /* bit id % width */
	uint32_t width; /* a power of two, 64 at least */
};

/* kv_window_width -- of each of so many windows that belong together, KV_WINDOW_LEAST at least: numbers that are shared
 * out ascend the slower. */
static inline uint32_t kv_window_width(unsigned windows)
{
	uint32_t width = KV_WINDOW_WIDTH;

	while (width > KV_WINDOW_LEAST && windows * width > (unsigned)KV_WINDOW_SHARE * KV_WINDOW_WIDTH)
		width /= 2;
	return width;
}

/* kv_window_words -- that `seen` of a window of this width has. */
static inline uint32_t kv_window_words(uint32_t width)
{
	return width / 64;
}

/* kv_window_init -- nothing was seen. seen: of kv_window_words(width), the caller's as long as the window is used. */
void kv_window_init(struct kv_window *w, uint64_t *seen, uint32_t width);

enum kv_window_verdict { KV_WINDOW_NEW, KV_WINDOW_SEEN, KV_WINDOW_BELOW };

/* kv_window_mark -- judge an id and remember it. KV_WINDOW_BELOW: too old to know; to be treated as seen. UINT64_MAX is
 * always below. */
enum kv_window_verdict kv_window_mark(struct kv_window *w, uint64_t id);

/* kv_window_look -- judge without remembering. */
enum kv_window_verdict kv_window_look(const struct kv_window *w, uint64_t id);

#endif
