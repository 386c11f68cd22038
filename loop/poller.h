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
	struct kv_list watches;     /* all, also of deleted pollers, until their requests end */
	struct kv_list *cursor;     /* the next one to visit; a deletion moves it on */
	struct loop_poller *polled; /* whose poll() runs; NULL after its deletion */
	bool refused;               /* arm() refused the last sleep, and no event was found since */
	uint64_t step_ns;           /* next sleep while a poller has no wait_fd */
};

void poller_set_init(struct poller_set *set);
void poller_set_fini(struct poller_set *set); /* after ring_destroy */

/* poller_poll_all -- Returns the number of events handled. */
int poller_poll_all(struct poller_set *set);

/* poller_any_active -- whether spinning is worth it. *out_blind: an active poller cannot wake the loop. */
bool poller_any_active(struct poller_set *set, bool *out_blind);

/* poller_arm_all -- before a sleep: lower *wait_ns to the pollers' limit. False: one has work. */
bool poller_arm_all(struct poller_set *set, struct ring *ring, uint64_t *wait_ns);

#endif
