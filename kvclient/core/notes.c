/* SPDX-License-Identifier: Apache-2.0 */
/* notes.c -- who shares the notes of placements, and how they outlive a change of the view.
 *
 * The first look-up of a partition compares all servers: 1.5 us for a thousand. There are 2^18 partitions, so a pool of
 * several clients that each began with no notes at each view would compute for seconds. Two things keep that small.
 * Clients of a pool whose placements are the same have the same notes: what one has found, the others load. And most
 * notes stay right when the view changes: where the server of a partition is still there, with the weight that it had,
 * only servers that are new or have another weight can win against it. The client that makes new notes carries those
 * over, a bounded number of comparisons in each turn of its loop; whatever is asked for before is computed.
 *
 * The count of users is under the lock of the home. Notes themselves need no lock (placement.c). */
#include "kvclient/core/notes.h"

#include <stdlib.h>

struct kvc_notes *kvc_notes_make(void)
{
	struct kvc_notes *t = calloc(1, sizeof(*t));
	if (t)
		t->users = 1;
	return t;
}

static void notes_free(struct kvc_notes *t)
{
	free(t->seed);
	free(t->weight);
	free(t);
}

static struct kvc_notes *notes_hold(struct kvc_notes *t)
{
	struct kvc_notes_home *h = t->home;
	if (h)
		pthread_mutex_lock(&h->lock);
	t->users++;
	if (h)
		pthread_mutex_unlock(&h->lock);
	return t;
}

void kvc_notes_drop(struct kvc_notes **notes)
{
	struct kvc_notes *t = *notes;
	struct kvc_notes_home *h = t ? t->home : NULL;
	unsigned left = 0;
	*notes = NULL;
	if (h)
		pthread_mutex_lock(&h->lock);
	if (t)
		left = --t->users;
	if (h && left == 0)
		kv_list_del(&t->node);
	if (h)
		pthread_mutex_unlock(&h->lock);
	if (t && left == 0)
		notes_free(t);
}

/* ---- sharing ---- */

void kvc_notes_home_init(struct kvc_notes_home *h)
{
	pthread_mutex_init(&h->lock, NULL);
	kv_list_init(&h->all);
}

void kvc_notes_home_fini(struct kvc_notes_home *h)
{
	pthread_mutex_destroy(&h->lock);
}

static bool is_of(const struct kvc_notes *t, const struct kvc_place *p)
{
	return t->n == p->n && !t->weight == !p->weight && memcmp(t->seed, p->seed, p->n * sizeof(*p->seed)) == 0 &&
	       (!p->weight || memcmp(t->weight, p->weight, p->n * sizeof(*p->weight)) == 0);
}

static struct kvc_notes *notes_find(const struct kvc_notes_home *h, const struct kvc_place *p)
{
	KV_LIST_EACH (e, &h->all) {
		struct kvc_notes *t = KV_LIST_ENTRY(e, struct kvc_notes, node);
		if (is_of(t, p))
			return t;
	}
	return NULL;
}

/* The notes say which placement they are of. False: there is no memory. */
static bool notes_name(struct kvc_notes *t, const struct kvc_place *p)
{
	t->n = p->n;
	t->seed = malloc(p->n * sizeof(*p->seed));
	t->weight = p->weight ? malloc(p->n * sizeof(*p->weight)) : NULL;
	if (!t->seed || (p->weight && !t->weight))
		return false;
	memcpy(t->seed, p->seed, p->n * sizeof(*p->seed));
	if (p->weight)
		memcpy(t->weight, p->weight, p->n * sizeof(*p->weight));
	return true;
}

bool kvc_notes_share(struct kvc_place *p, struct kvc_notes_home *h)
{
	struct kvc_notes *own = p->notes, *other;
	if (!own)
		return false;
	pthread_mutex_lock(&h->lock);
	other = notes_find(h, p);
	if (other) {
		other->users++;
		p->notes = other;
	} else if (notes_name(own, p)) {
		own->home = h;
		kv_list_add_tail(&h->all, &own->node);
	}
	pthread_mutex_unlock(&h->lock);
	if (other)
		notes_free(own);
	return other;
}

/* ---- carrying over ---- */

/* Servers by their seeds. */
enum { SLOTS = 4 * KVC_PLACE_MAX };

static unsigned slot_of(const uint16_t *slot, const struct kvc_place *p, uint64_t seed)
{
	unsigned s = (unsigned)(seed % SLOTS);
	while (slot[s] && p->seed[slot[s] - 1] != seed)
		s = (s + 1) % SLOTS;
	return s;
}

/* Fill k->now and k->other. */
static void servers_match(struct kvc_carry *k, const struct kvc_place *from, const struct kvc_place *to, uint16_t *slot)
{
	for (unsigned i = from->n; i-- > 0;) /* of equal seeds the lower index stays */
		slot[slot_of(slot, from, from->seed[i])] = (uint16_t)(i + 1);
	for (unsigned i = 0; i < to->n; i++) {
		unsigned was = slot[slot_of(slot, from, to->seed[i])];
		if (was && !k->now[was - 1] && (!to->weight || from->weight[was - 1] == to->weight[i]))
			k->now[was - 1] = (uint16_t)(i + 1);
		else
			k->other[k->num_other++] = (uint16_t)i;
	}
}

/* (Where one of them has weights and the other one has none, numbers are compared in another way.) */
void kvc_carry_begin(struct kvc_carry *k, const struct kvc_place *from, const struct kvc_place *to)
{
	uint16_t *slot;
	*k = (struct kvc_carry){0};
	if (!from->notes || !to->notes || from->notes == to->notes || !from->weight != !to->weight ||
	    KV_MAX(from->n, to->n) > KVC_PLACE_MAX)
		return;
	slot = calloc(SLOTS, sizeof(*slot));
	k->now = calloc(from->n, sizeof(*k->now));
	k->other = calloc(to->n, sizeof(*k->other));
	if (slot && k->now && k->other) {
		servers_match(k, from, to, slot);
		k->from = notes_hold(from->notes);
	} else {
		kvc_carry_end(k);
	}
	free(slot);
}

bool kvc_carry_step(struct kvc_carry *k, struct kvc_place *to)
{
	unsigned steps = KV_MAX(KVC_CARRY_STEP / (1 + k->num_other), 1u);
	for (; k->from && steps > 0 && k->partition < KVC_PLACE_PARTITIONS; steps--, k->partition++) {
		unsigned noted = atomic_load_explicit(&k->from->holder[k->partition], memory_order_relaxed);
		if (noted && k->now[noted - 1])
			kvc_place_note(to, k->partition, k->now[noted - 1] - 1u, k->other, k->num_other);
	}
	return k->from && k->partition < KVC_PLACE_PARTITIONS;
}

void kvc_carry_end(struct kvc_carry *k)
{
	kvc_notes_drop(&k->from);
	free(k->now);
	free(k->other);
	*k = (struct kvc_carry){0};
}
