/* SPDX-License-Identifier: Apache-2.0 */
/* carry.h -- what was found by a placement, for the one that follows it. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_CARRY_H
#define KVRAIL_KVCLIENT_CORE_CARRY_H

#include "kvclient/core/notes.h"

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
