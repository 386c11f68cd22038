/* SPDX-License-Identifier: Apache-2.0 */
/* notes.c -- the notes of placements, shared by a pool's clients with the same placement. The count of users is under
 * the home's lock; notes need none (placement.c). */
#include "kvclient/core/notes.h"

#include <stdlib.h>

struct kc_notes *kc_notes_make(void)
{
	struct kc_notes *t = calloc(1, sizeof(*t));
	if (t)
		t->users = 1;
	return t;
}

static void notes_free(struct kc_notes *t)
{
	free(t->seed);
	free(t->weight);
	free(t);
}

struct kc_notes *kc_notes_hold(struct kc_notes *t)
{
	struct kc_notes_home *h = t->home;
	if (h)
		pthread_mutex_lock(&h->lock);
	t->users++;
	if (h)
		pthread_mutex_unlock(&h->lock);
	return t;
}

void kc_notes_drop(struct kc_notes **notes)
{
	struct kc_notes *t = *notes;
	struct kc_notes_home *h = t ? t->home : NULL;
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

void kc_notes_home_init(struct kc_notes_home *h)
{
	pthread_mutex_init(&h->lock, NULL);
	kv_list_init(&h->all);
}

void kc_notes_home_fini(struct kc_notes_home *h)
{
	pthread_mutex_destroy(&h->lock);
}

static bool is_of(const struct kc_notes *t, const struct kc_place *p)
{
	return t->n == p->n && !t->weight == !p->weight && memcmp(t->seed, p->seed, p->n * sizeof(*p->seed)) == 0 &&
	       (!p->weight || memcmp(t->weight, p->weight, p->n * sizeof(*p->weight)) == 0);
}

static struct kc_notes *notes_find(const struct kc_notes_home *h, const struct kc_place *p)
{
	KV_LIST_EACH (e, &h->all) {
		struct kc_notes *t = KV_LIST_ENTRY(e, struct kc_notes, node);
		if (is_of(t, p))
			return t;
	}
	return NULL;
}

/* Record the placement the notes belong to. */
static bool notes_name(struct kc_notes *t, const struct kc_place *p)
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

bool kc_notes_share(struct kc_place *p, struct kc_notes_home *h)
{
	struct kc_notes *own = p->notes, *other;
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
