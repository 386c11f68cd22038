/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c -- records by their keys: find, drop, and what is to be remembered while footers are read. */
#include "store/tier/private.h"

#include <stdlib.h>

void tier_key_mark(struct tier *t, uint32_t item)
{
	struct tier_drive *d = tier_drive_of(t, item);
	const struct tier_item *i = &t->records.item[item];
	heads_mark(d, i->segment - d->fifo.opt.base, i->page);
	heads_pump(d);
}

void tier_key_drop(struct tier *t, uint32_t item, bool marked)
{
	tier_fifo_drop(&tier_drive_of(t, item)->fifo, item);
	if (marked)
		tier_key_mark(t, item);
}

uint32_t tier_key_find(struct tier *t, const struct tier_id *id)
{
	uint32_t item = tier_records_find(&t->records, id);
	if (item && tier_item_over(&t->records.item[item], tier_wall_s(t))) {
		tier_key_drop(t, item, false);
		return 0;
	}
	return item;
}

void tier_key_void(struct tier_drive *d)
{
	for (uint32_t i = 0; i < d->fifo.opt.segments; i++) {
		struct tier_segment *s = &d->fifo.segment[i];
		for (uint32_t n = s->first, next; n; n = next) {
			next = d->t->records.item[n].next;
			if (!d->t->records.item[n].dead)
				tier_records_drop(&d->t->records, n);
			tier_records_free(&d->t->records, n);
		}
		free(s->dead);
		*s = (struct tier_segment){0};
	}
	d->fifo.open = d->fifo.opt.segments;
	d->fifo.next = 0;
	d->fifo.used = 0;
	d->h.waiting = 0;
	d->h.next = HEAD_NONE;
}

bool tier_key_reading(const struct tier *t)
{
	bool reading = false;
	for (unsigned i = 0; i < t->drives; i++)
		reading |= !t->drive[i]->known;
	return reading;
}

/* In whatever generation: that of its space may rise until the records are read. */
static struct tier_id gone_id(const struct tier *t, const struct space *sp, const void *key, size_t len)
{
	uint64_t seed = kv_hash_key(sp->name, strlen(sp->name), t->store->spaces.secret);
	return (struct tier_id){kv_hash_key(key, len, seed), tier_more(key, len)};
}

void tier_key_remember(struct tier *t, const struct space *sp, const void *key, size_t len)
{
	const struct tier_id id = gone_id(t, sp, key, len);
	if (!tier_key_reading(t) || tier_records_find(&t->gone, &id))
		return;
	t->marks++;
	if (!t->unsaved_first)
		t->unsaved_first = t->marks;
	if (!tier_records_add(&t->gone, &id, 0, 0))
		t->gone_full = true;
}

bool tier_key_gone(const struct tier *t, const struct space *sp, const void *key, size_t len)
{
	struct tier_id id;
	if (t->gone_full || t->gone.live == 0) /* the usual start: no hash for each of millions of records */
		return t->gone_full;
	id = gone_id(t, sp, key, len);
	return tier_records_find(&t->gone, &id) != 0;
}

void tier_key_read(struct tier *t)
{
	t->unsaved_first = 0; /* what was deleted in the meantime has marks of its own now */
	tier_records_fini(&t->gone);
	t->gone_full = false;
	memset(t->cleared, 0, sizeof(t->cleared));
}
