/* SPDX-License-Identifier: Apache-2.0 */
/* bell.h -- the descriptor of a queue: readable while completions wait, deadlines are due or parts were counted.
 * Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_QUEUE_BELL_H
#define KVRAIL_KVCLIENT_QUEUE_BELL_H

#include <stdatomic.h>

#include "base/base.h"

struct kc_bell {
	int fd, event_fd, timer_fd;
	_Atomic bool rung;
	_Atomic uint64_t watch_ns; /* when to look at deadlines; KV_NEVER: never */
};

/* kc_bell_open -- 0 or -KV_ELIMIT with *err. */
int kc_bell_open(struct kc_bell *b, struct kv_error *err);
void kc_bell_close(struct kc_bell *b);

/* kc_bell_ring -- a completion waits. Any thread. kc_bell_rung -- a hint: whether it is rung.
 * kc_bell_still -- clear it; the caller then looks at the list again. The reaping thread. */
void kc_bell_ring(struct kc_bell *b);
bool kc_bell_rung(const struct kc_bell *b);
void kc_bell_still(struct kc_bell *b);

/* kc_bell_watch -- make the descriptor readable at this time or before. Any thread.
 * kc_bell_due -- whether to look at all deadlines now; watch the future ones again, then call kc_bell_watched. The
 * reaping thread. */
void kc_bell_watch(struct kc_bell *b, uint64_t when_ns, const struct kv_clock *clock);
bool kc_bell_due(struct kc_bell *b, uint64_t now_ns);
void kc_bell_watched(struct kc_bell *b, const struct kv_clock *clock);

#endif
