/* SPDX-License-Identifier: Apache-2.0 */
/* poller.h -- the pollers of one loop. Internal to loop/. */
#ifndef KVRAIL_LOOP_POLLER_H
#define KVRAIL_LOOP_POLLER_H

#include "loop/loop.h"

struct ring;

#define POLLER_SLEEP_MAX_NS 10000000ull /* providers do housekeeping in their CQ read */
#define POLLER_STEP_MIN_NS  50000ull
#define POLLER_STEP_MAX_NS  1000000ull

struct poller_set {
	struct kv_list all;         /* loop_poller.node */
	struct kv_list watches;     /* every watch, those of deleted pollers included, until its request is over */
	struct kv_list *cursor;     /* the next one to visit, while they are visited: deleting one moves it on */
	struct loop_poller *polled; /* the one whose poll() runs; NULL once it was deleted */
	bool refused;               /* arm() forbade the last sleep, and no event was found since */
	uint64_t step_ns;           /* the next sleep while a poller can only be polled */
};

void poller_set_init(struct poller_set *set);
void poller_set_fini(struct poller_set *set); /* after ring_destroy */

/* poller_poll_all -- Returns the number of events handled. */
int poller_poll_all(struct poller_set *set);

/* poller_any_active -- whether a poller is worth spinning for. *out_blind: and one of them cannot wake us. */
bool poller_any_active(struct poller_set *set, bool *out_blind);

/* poller_arm_all -- before a sleep: *wait_ns is lowered to the time that the pollers allow. Returns false when one has
 * work. */
bool poller_arm_all(struct poller_set *set, struct ring *ring, uint64_t *wait_ns);

#endif
