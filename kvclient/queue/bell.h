/* SPDX-License-Identifier: Apache-2.0 */
/* bell.h -- the descriptor of a queue: readable while completions wait, and when a deadline is to be looked at. Private
 * to kvclient/. */
#ifndef KVRAIL_KVCLIENT_QUEUE_BELL_H
#define KVRAIL_KVCLIENT_QUEUE_BELL_H

#include <stdatomic.h>

#include "base/base.h"

struct kvc_bell {
	int fd, event_fd, timer_fd; /* fd: the other two together */
	_Atomic bool rung;
	_Atomic uint64_t watch_ns; /* when somebody is to look at deadlines; KV_NEVER: never */
};

/* kvc_bell_open -- 0 or -KV_ELIMIT with *err. kvc_bell_close -- of an opened one. */
int kvc_bell_open(struct kvc_bell *b, struct kv_error *err);
void kvc_bell_close(struct kvc_bell *b);

/* kvc_bell_ring -- something is there. Any thread. kvc_bell_rung -- whether it is readable for that, as far as can be
 * told. kvc_bell_still -- no more readable for that: look again whether something came meanwhile. The thread that
 * reaps.
 */
void kvc_bell_ring(struct kvc_bell *b);
bool kvc_bell_rung(const struct kvc_bell *b);
void kvc_bell_still(struct kvc_bell *b);

/* kvc_bell_watch -- the descriptor is to be readable at this time, or before. Any thread.
 * kvc_bell_due -- whether it is for that reason. Then all deadlines are to be looked at, and those that are still to
 * come to be watched again, before kvc_bell_watched. The thread that reaps. */
void kvc_bell_watch(struct kvc_bell *b, uint64_t when_ns, const struct kv_clock *clock);
bool kvc_bell_due(struct kvc_bell *b, uint64_t now_ns);
void kvc_bell_watched(struct kvc_bell *b, const struct kv_clock *clock);

#endif
