/* SPDX-License-Identifier: Apache-2.0 */
/* notes.h -- the servers that partitions were found to belong to. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_NOTES_H
#define KVRAIL_KVCLIENT_CORE_NOTES_H

#include <pthread.h>

#include "kvclient/core/placement.h"

/* The notes that clients of a pool share. Any thread. */
struct kvc_notes_home {
	pthread_mutex_t lock;
	struct kv_list all;
};

void kvc_notes_home_init(struct kvc_notes_home *h);
void kvc_notes_home_fini(struct kvc_notes_home *h);

/* kvc_notes_share -- use the notes that another placement of this home has, if it places every key alike; else offer
 * those of this one to others. True: they are the other's. Without memory, or for a placement without notes, nothing
 * changes. Before the first look-up. */
bool kvc_notes_share(struct kvc_place *p, struct kvc_notes_home *h);

/* Notes of a former placement that are still right, on their way to the placement that follows it. */
struct kvc_carry {
	struct kvc_notes *from; /* NULL: nothing is carried */
	uint16_t *now;          /* of each former server: 1 + its index now; 0: it is gone, or has another weight */
	uint16_t *other;        /* the servers of now that are new, or have another weight */
	unsigned num_other, partition;
};

/* kvc_carry_begin -- from a placement to the one that follows it, whose seeds and weights are set. If nothing can be
 * carried, or there is no memory, the next step has nothing to do.
 * kvc_carry_step -- carry some of them, KVC_CARRY_STEP comparisons at most. False: that was all.
 * kvc_carry_end -- at any time, also when none has begun. */
enum { KVC_CARRY_STEP = 4096 };
void kvc_carry_begin(struct kvc_carry *k, const struct kvc_place *from, const struct kvc_place *to);
bool kvc_carry_step(struct kvc_carry *k, struct kvc_place *to);
void kvc_carry_end(struct kvc_carry *k);

#endif
