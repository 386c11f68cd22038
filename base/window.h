/* SPDX-License-Identifier: Apache-2.0 */
/* window.h -- which ascending numbers (request ids, frame counters) were seen, in any order. */
#ifndef KVRAIL_BASE_WINDOW_H
#define KVRAIL_BASE_WINDOW_H

#include <stdint.h>

enum {
	KV_WINDOW_WIDTH = 4096, /* of a single window */
	KV_WINDOW_LEAST = 1024, /* least width among many */
	KV_WINDOW_SHARE = 8     /* windows with the whole width */
};

struct kv_window {
	uint64_t top;   /* highest id seen + 1; ids below top - width are forgotten */
	uint64_t *seen; /* bit id % width */
	uint32_t width;
};

/* kv_window_width -- of each of `windows` windows that share traffic, KV_WINDOW_LEAST at least. */
static inline uint32_t kv_window_width(unsigned windows)
{
	uint32_t width = KV_WINDOW_WIDTH;
	while (width > KV_WINDOW_LEAST && windows * width > (unsigned)KV_WINDOW_SHARE * KV_WINDOW_WIDTH)
		width /= 2;
	return width;
}

/* kv_window_words -- words of `seen`. */
static inline uint32_t kv_window_words(uint32_t width)
{
	return width / 64;
}

/* kv_window_init -- no id seen. seen: kv_window_words(width) words of the caller, kept during use. */
void kv_window_init(struct kv_window *w, uint64_t *seen, uint32_t width);

enum kv_window_verdict { KV_WINDOW_NEW, KV_WINDOW_SEEN, KV_WINDOW_BELOW };

/* kv_window_mark -- judge and remember an id. KV_WINDOW_BELOW: too old to know, treat it as seen; UINT64_MAX always is.
 */
enum kv_window_verdict kv_window_mark(struct kv_window *w, uint64_t id);

/* kv_window_look -- judge without remembering. */
enum kv_window_verdict kv_window_look(const struct kv_window *w, uint64_t id);

#endif
