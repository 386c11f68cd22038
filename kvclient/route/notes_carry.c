/* SPDX-License-Identifier: Apache-2.0 */
/* notes_carry.c -- valid notes of a placement, copied to the next: where a partition's server remains with its weight,
 * only new or reweighted servers can win. The client that makes new notes carries them, some per turn of its loop;
 * earlier look-ups are computed. */
#include "kvclient/route/notes_carry.h"

#include <stdlib.h>

/* Hash table of servers by seed. */
enum { SLOTS = 4 * KC_PLACE_MAX };

static unsigned slot_of(const uint16_t *slot, const struct kc_place *p, uint64_t seed)
{
	unsigned s = (unsigned)(seed % SLOTS);
	while (slot[s] && p->seed[slot[s] - 1] != seed)
		s = (s + 1) % SLOTS;
	return s;
}

/* Fill k->now and k->other. */
static void servers_match(struct kc_carry *k, const struct kc_place *from, const struct kc_place *to, uint16_t *slot)
{
	for (unsigned i = from->n; i-- > 0;) /* of equal seeds the lower index wins */
		slot[slot_of(slot, from, from->seed[i])] = (uint16_t)(i + 1);
	for (unsigned i = 0; i < to->n; i++) {
		unsigned was = slot[slot_of(slot, from, to->seed[i])];
		if (was && !k->now[was - 1] && (!to->weight || from->weight[was - 1] == to->weight[i]))
			k->now[was - 1] = (uint16_t)(i + 1);
		else
			k->other[k->num_other++] = (uint16_t)i;
	}
}

/* Placements with and without weights compare numbers differently: carry nothing. */
void kc_carry_begin(struct kc_carry *k, const struct kc_place *from, const struct kc_place *to)
{
	uint16_t *slot;
	*k = (struct kc_carry){0};
	if (!from->notes || !to->notes || from->notes == to->notes || !from->weight != !to->weight ||
	    KV_MAX(from->n, to->n) > KC_PLACE_MAX)
		return;
	slot = calloc(SLOTS, sizeof(*slot));
	k->now = calloc(from->n, sizeof(*k->now));
	k->other = calloc(to->n, sizeof(*k->other));
	if (slot && k->now && k->other) {
		servers_match(k, from, to, slot);
		k->from = kc_notes_hold(from->notes);
	} else {
		kc_carry_end(k);
	}
	free(slot);
}

bool kc_carry_step(struct kc_carry *k, struct kc_place *to)
{
	unsigned steps = KV_MAX(KC_CARRY_STEP / (1 + k->num_other), 1u);
	for (; k->from && steps > 0 && k->partition < KC_PLACE_PARTITIONS; steps--, k->partition++) {
		unsigned noted = atomic_load_explicit(&k->from->holder[k->partition], memory_order_relaxed);
		if (noted && k->now[noted - 1])
			kc_place_note(to, k->partition, k->now[noted - 1] - 1u, k->other, k->num_other);
	}
	return k->from && k->partition < KC_PLACE_PARTITIONS;
}

void kc_carry_end(struct kc_carry *k)
{
	kc_notes_drop(&k->from);
	free(k->now);
	free(k->other);
	*k = (struct kc_carry){0};
}
