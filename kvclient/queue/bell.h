/* SPDX-License-Identifier: Apache-2.0 */
/* bell.h -- the descriptor of a queue: readable while completions wait or deadlines are due. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_QUEUE_BELL_H
#define KVRAIL_KVCLIENT_QUEUE_BELL_H

#include <stdatomic.h>

#include "base/base.h"

struct kvc_bell {
	int fd, event_fd, timer_fd; /* fd: the other two together */
	_Atomic bool rung;
	_Atomic uint64_t watch_ns; /* when to look at deadlines; KV_NEVER: never */
};

/* kvc_bell_open -- 0 or -KV_ELIMIT with *err. */
int kvc_bell_open(struct kvc_bell *b, struct kv_error *err);
void kvc_bell_close(struct kvc_bell *b);

/* kvc_bell_ring -- a completion waits. Any thread. kvc_bell_rung -- a hint: whether it is rung.
 * kvc_bell_still -- clear it; the caller then looks at the list again. The reaping thread. */
void kvc_bell_ring(struct kvc_bell *b);
bool kvc_bell_rung(const struct kvc_bell *b);
void kvc_bell_still(struct kvc_bell *b);

/* kvc_bell_watch -- make the descriptor readable at this time or before. Any thread.
 * kvc_bell_due -- whether to look at all deadlines now; watch the future ones again, then call kvc_bell_watched. The
 * reaping thread. */
void kvc_bell_watch(struct kvc_bell *b, uint64_t when_ns, const struct kv_clock *clock);
bool kvc_bell_due(struct kvc_bell *b, uint64_t now_ns);
void kvc_bell_watched(struct kvc_bell *b, const struct kv_clock *clock);

#endif
