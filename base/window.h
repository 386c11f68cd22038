/* SPDX-License-Identifier: Apache-2.0 */
/* window.h -- remember which ascending numbers (request ids, frame counters) were seen: delivery is unordered, and
 * nothing may be done twice. */
#ifndef KVRAIL_BASE_WINDOW_H
#define KVRAIL_BASE_WINDOW_H

#include <stdint.h>

enum {
	KV_WINDOW_WIDTH = 4096, /* width of a lone window */
	KV_WINDOW_LEAST = 1024, /* least width of one window among many */
	KV_WINDOW_SHARE = 8     /* so many windows may have the whole width */
};

struct kv_window {
	uint64_t top;   /* one above the highest id seen; ids below top - width are forgotten */
	uint64_t *seen; /* bit id % width */
	uint32_t width; /* a power of two, 64 at least */
};

/* kv_window_width -- the width of each of `windows` windows that belong together, KV_WINDOW_LEAST at least. They share
 * the traffic, so the numbers of each ascend more slowly. */
static inline uint32_t kv_window_width(unsigned windows)
{
	uint32_t width = KV_WINDOW_WIDTH;

	while (width > KV_WINDOW_LEAST && windows * width > (unsigned)KV_WINDOW_SHARE * KV_WINDOW_WIDTH)
		width /= 2;
	return width;
}

/* kv_window_words -- the number of words that `seen` has in a window of this width. */
static inline uint32_t kv_window_words(uint32_t width)
{
	return width / 64;
}

/* kv_window_init -- begin with no id seen. seen has kv_window_words(width) words and belongs to the caller, who keeps
 * it as long as the window is used. */
void kv_window_init(struct kv_window *w, uint64_t *seen, uint32_t width);

enum kv_window_verdict { KV_WINDOW_NEW, KV_WINDOW_SEEN, KV_WINDOW_BELOW };

/* kv_window_mark -- judge an id and remember it. KV_WINDOW_BELOW means too old to know: treat it as seen. UINT64_MAX is
 * always below. */
enum kv_window_verdict kv_window_mark(struct kv_window *w, uint64_t id);

/* kv_window_look -- judge an id without remembering it. */
enum kv_window_verdict kv_window_look(const struct kv_window *w, uint64_t id);

#endif
