/* SPDX-License-Identifier: Apache-2.0 */
/* window.h -- which request ids of a link have been seen: delivery is unordered, and nothing may be done twice. */
#ifndef KVRAIL_KVSERVER_WINDOW_H
#define KVRAIL_KVSERVER_WINDOW_H

#include "base/base.h"

enum { WINDOW_WIDTH = 4096 };

struct window {
	uint64_t top; /* one above the highest id seen; ids below top - WINDOW_WIDTH are forgotten */
	uint64_t seen[WINDOW_WIDTH / 64]; /* bit id % WINDOW_WIDTH */
};

enum window_verdict { WINDOW_NEW, WINDOW_SEEN, WINDOW_BELOW };

void window_init(struct window *w);

/* window_mark -- judge an id and remember it. WINDOW_BELOW: too old to know; to be treated as seen. UINT64_MAX is
 * always below. */
enum window_verdict window_mark(struct window *w, uint64_t id);

/* window_look -- judge without remembering. */
enum window_verdict window_look(const struct window *w, uint64_t id);

#endif
