/* SPDX-License-Identifier: Apache-2.0 */
/* index.c -- the index: open addressing with linear probing, deletion by shifting back, growth a few slots at a time.
 *
 * Invariants: an item is in one of the two tables. Between its home slot (hash & mask) and its slot none is empty. A
 * table is at most 3/4 full. While `old` has slots, those below `cursor` are empty; each insert moves 4 items, so `old`
 * is empty before `now` must grow.
 *
 * A slot follows from the public digest and a secret seed. Of two keys with one digest the store keeps the first
 * (store_commit): nobody can create endless keys for one slot. */
#include "store/index.h"
#include "host/host.h"

#include <stdlib.h>

enum { SLOTS_FIRST = 1024, MOVES_PER_CHANGE = 16, AREA_BYTES_MIN = 2 << 20 };

static int table_make(struct index_table *t, uint64_t slots)
{
	uint64_t bytes = slots * sizeof(t->slots[0]);
	*t = (struct index_table){.mask = slots - 1};
	if (bytes < AREA_BYTES_MIN)
		t->slots = calloc(slots, sizeof(t->slots[0]));
	else if (kv_area_map_lazy(bytes, &t->area, NULL) == 0)
		t->slots = t->area.base;
	return t->slots ? 0 : -KV_ENOMEM;
}

static void table_free(struct index_table *t)
{
	if (t->area.base)
		kv_area_unmap(&t->area);
	else
		free(t->slots);
	*t = (struct index_table){0};
}

int index_init(struct index *ix, uint64_t seed, uint64_t digest_seed)
{
	*ix = (struct index){.seed = seed, .digest_seed = digest_seed};
	return table_make(&ix->now, SLOTS_FIRST);
}

int index_reserve(struct index *ix, uint64_t count)
{
	struct index_table bigger;
	uint64_t slots = SLOTS_FIRST;
	int rc;
	KV_ASSERT(index_count(ix) == 0);
	while (slots * 3 < count * 4)
		slots *= 2;
	rc = table_make(&bigger, slots);
	if (rc)
		return rc;
	table_free(&ix->now);
	ix->now = bigger;
	return 0;
}

void index_fini(struct index *ix)
{
	table_free(&ix->now);
	table_free(&ix->old);
	*ix = (struct index){0};
}

static void table_insert(struct index_table *t, struct index_item *item)
{
	uint64_t i = item->hash & t->mask;
	while (t->slots[i].item)
		i = (i + 1) & t->mask;
	t->slots[i] = (struct index_slot){item->hash, item};
	t->count++;
}

/* Fill the empty slot `hole`: move each item behind it that may come closer to its home. */
static void table_vacate(struct index_table *t, uint64_t hole)
{
	uint64_t i = hole;
	for (;;) {
		i = (i + 1) & t->mask;
		if (!t->slots[i].item)
			break;
		/* It may move if its home is not cyclically in (hole, i]. */
		if (((i - (t->slots[i].hash & t->mask)) & t->mask) < ((i - hole) & t->mask))
			continue;
		t->slots[hole] = t->slots[i];
		hole = i;
	}
	t->slots[hole].item = NULL;
	t->count--;
}

static struct index_item *table_find(const struct index_table *t, uint64_t hash, const void *key, size_t len)
{
	for (uint64_t i = hash & t->mask; t->slots[i].item; i = (i + 1) & t->mask) {
		struct index_item *item = t->slots[i].item;
		if (t->slots[i].hash == hash && item->key_len == len && memcmp(item->key, key, len) == 0)
			return item;
	}
	return NULL;
}

static bool table_remove(struct index_table *t, const struct index_item *item)
{
	for (uint64_t i = item->hash & t->mask; t->slots[i].item; i = (i + 1) & t->mask) {
		if (t->slots[i].item == item) {
			table_vacate(t, i);
			return true;
		}
	}
	return false;
}

/* Move a few items of the old table. The shift may refill a slot, so it is examined again. */
static void index_migrate(struct index *ix)
{
	struct index_table *old = &ix->old;
	if (KV_LIKELY(!old->slots))
		return;
	for (unsigned n = 0; n < MOVES_PER_CHANGE && old->count; n++) {
		struct index_item *item = old->slots[ix->cursor].item;
		if (!item) {
			ix->cursor++;
			continue;
		}
		table_insert(&ix->now, item);
		table_vacate(old, ix->cursor);
	}
	if (old->count == 0)
		table_free(old);
}

static int index_grow(struct index *ix)
{
	struct index_table bigger;
	int rc = table_make(&bigger, (ix->now.mask + 1) * 2);
	if (rc)
		return rc;
	ix->old = ix->now;
	ix->now = bigger;
	ix->cursor = 0;
	return 0;
}

struct index_item *index_find(const struct index *ix, uint64_t hash, const void *key, size_t len)
{
	struct index_item *item = table_find(&ix->now, hash, key, len);
	return item || !ix->old.slots ? item : table_find(&ix->old, hash, key, len);
}

int index_insert(struct index *ix, struct index_item *item)
{
	index_migrate(ix);
	/* Items left in `old` will move to `now`: they count. */
	if ((ix->now.count + ix->old.count + 1) * 4 > (ix->now.mask + 1) * 3) {
		int rc = ix->old.slots ? -KV_ENOMEM : index_grow(ix);
		if (rc)
			return rc;
	}
	table_insert(&ix->now, item);
	return 0;
}

void index_remove(struct index *ix, struct index_item *item)
{
	if (!table_remove(&ix->now, item) && ix->old.slots)
		table_remove(&ix->old, item);
	index_migrate(ix);
}

uint64_t index_count(const struct index *ix)
{
	return ix->now.count + ix->old.count;
}

struct index_item *index_near(const struct index *ix, uint64_t random)
{
	const struct index_table *t = ix->old.count > ix->now.count ? &ix->old : &ix->now;
	if (t->count == 0)
		return NULL;
	for (uint64_t i = random & t->mask;; i = (i + 1) & t->mask)
		if (t->slots[i].item)
			return t->slots[i].item;
}
