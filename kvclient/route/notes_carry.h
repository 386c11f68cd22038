/* SPDX-License-Identifier: Apache-2.0 */
/* notes_carry.h -- carries notes from one placement to the next. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_ROUTE_NOTES_CARRY_H
#define KVRAIL_KVCLIENT_ROUTE_NOTES_CARRY_H

#include "kvclient/core/notes.h"

struct kc_carry {
	struct kc_notes *from; /* NULL: nothing is carried */
	uint16_t *now;         /* per former server: 1 + its index now; 0: gone or reweighted */
	uint16_t *other;       /* present servers, new or reweighted */
	unsigned num_other, partition;
};

/* kc_carry_begin -- seeds and weights of `to` are set. Without memory nothing is carried. kc_carry_step --
 * KC_CARRY_STEP comparisons at most. False: done. kc_carry_end -- at any time, even before begin. */
enum { KC_CARRY_STEP = 4096 };
void kc_carry_begin(struct kc_carry *k, const struct kc_place *from, const struct kc_place *to);
bool kc_carry_step(struct kc_carry *k, struct kc_place *to);
void kc_carry_end(struct kc_carry *k);

#endif
