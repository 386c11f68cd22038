/* SPDX-License-Identifier: Apache-2.0 */
/* window.h -- which of ascending numbers (request ids, frame counters) have been seen: delivery is unordered, and nothing may be done twice. */
#ifndef KVRAIL_BASE_WINDOW_H
#define KVRAIL_BASE_WINDOW_H

#include <stdint.h>

enum { KV_WINDOW_WIDTH = 4096 };

struct kv_window {
	uint64_t top; /* one above the highest id seen; ids below top - KV_WINDOW_WIDTH are forgotten */
	uint64_t seen[KV_WINDOW_WIDTH / 64]; /* bit id % KV_WINDOW_WIDTH */
};

enum kv_window_verdict { KV_WINDOW_NEW, KV_WINDOW_SEEN, KV_WINDOW_BELOW };

void kv_window_init(struct kv_window *w);

/* kv_window_mark -- judge an id and remember it. KV_WINDOW_BELOW: too old to know; to be treated as seen. UINT64_MAX is
 * always below. */
enum kv_window_verdict kv_window_mark(struct kv_window *w, uint64_t id);

/* kv_window_look -- judge without remembering. */
enum kv_window_verdict kv_window_look(const struct kv_window *w, uint64_t id);

#endif
