/* SPDX-License-Identifier: Apache-2.0 */
/* carry.h -- carries notes from one placement to the next. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_CARRY_H
#define KVRAIL_KVCLIENT_CORE_CARRY_H

#include "kvclient/core/notes.h"

struct kvc_carry {
	struct kvc_notes *from; /* NULL: nothing is carried */
	uint16_t *now;          /* per former server: 1 + its index now; 0: gone or reweighted */
	uint16_t *other;        /* present servers, new or reweighted */
	unsigned num_other, partition;
};

/* kvc_carry_begin -- seeds and weights of `to` are set. Without memory nothing is carried. kvc_carry_step --
 * KVC_CARRY_STEP comparisons at most. False: done. kvc_carry_end -- at any time, even before begin. */
enum { KVC_CARRY_STEP = 4096 };
void kvc_carry_begin(struct kvc_carry *k, const struct kvc_place *from, const struct kvc_place *to);
bool kvc_carry_step(struct kvc_carry *k, struct kvc_place *to);
void kvc_carry_end(struct kvc_carry *k);

#endif
