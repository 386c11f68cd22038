/* SPDX-License-Identifier: Apache-2.0 */
/* fifo.c -- the ring of segments of a device, and the choice of written values.
 *
 * When a segment is opened, the next one, the oldest, is cleared at once: so there is always a free one, and records
 * written again meet an open segment with room. At most half of a segment is written again.
 *
 * Invariants: at most one segment is OPEN and at most one CLEARING, the one behind it. Sequences of used segments rise
 * in ring order from the one behind the open segment to the open one. */
#include "store/tier/fifo.h"
#include "store/tier/format.h"

#include <stdlib.h>

_Static_assert(TIER_HEAD_BYTES == 256, "tier_pages counts it");

const char *const tier_admit_names[] = {
#define NAME(name) #name,
	TIER_ADMISSIONS(NAME) NULL};

int tier_fifo_init(struct tier_fifo *f, const struct tier_fifo_options *o, struct tier_records *records)
{
	*f = (struct tier_fifo){.opt = *o, .records = records, .open = o->segments};
	f->segment = calloc(o->segments, sizeof(f->segment[0]));
	return f->segment ? 0 : -KV_ENOMEM;
}

void tier_fifo_fini(struct tier_fifo *f)
{
	for (uint32_t i = 0; f->segment && i < f->opt.segments; i++)
		free(f->segment[i].dead);
	free(f->segment);
	f->segment = NULL;
}

bool tier_fifo_fits(const struct tier_fifo *f, uint32_t pages, uint32_t foot_bytes)
{
	if (f->open == f->opt.segments)
		return false;
	return f->segment[f->open].pages + pages + tier_foot_pages(f->foot_bytes + (uint64_t)foot_bytes) <=
	       f->opt.segment_pages;
}

void tier_fifo_seal(struct tier_fifo *f)
{
	if (f->open == f->opt.segments)
		return;
	f->segment[f->open].state = TIER_SEGMENT_SEALED;
	f->open = f->opt.segments;
}

void tier_fifo_open(struct tier_fifo *f)
{
	struct tier_segment *s = &f->segment[f->next];
	KV_ASSERT(f->open == f->opt.segments && s->state == TIER_SEGMENT_FREE && s->first == 0);
	f->open = f->next;
	f->used++;
	f->next = (f->next + 1) % f->opt.segments;
	f->sequence = f->reserved ? f->reserved : f->sequence + 1;
	f->reserved = 0;
	*s = (struct tier_segment){.sequence = f->sequence, .pages = f->opt.head_pages, .state = TIER_SEGMENT_OPEN};
	f->foot_bytes = 0;
	f->kept_pages = 0;
}

static void segment_append(struct tier_fifo *f, struct tier_segment *s, uint32_t number)
{
	f->records->item[number].next = 0;
	if (s->last)
		f->records->item[s->last].next = number;
	else
		s->first = number;
	s->last = number;
	s->live++;
}

uint32_t tier_fifo_add(struct tier_fifo *f, uint32_t number, uint32_t pages, uint32_t foot_bytes)
{
	struct tier_segment *s = &f->segment[f->open];
	struct tier_item *item = &f->records->item[number];
	KV_ASSERT(tier_fifo_fits(f, pages, foot_bytes));
	item->segment = f->opt.base + f->open;
	item->page = s->pages & 0xFFFF;
	s->pages += pages;
	f->foot_bytes += foot_bytes;
	f->placed_pages += pages;
	segment_append(f, s, number);
	return item->page;
}

void tier_fifo_found(struct tier_fifo *f, uint32_t segment, uint32_t number, uint32_t page)
{
	struct tier_item *item = &f->records->item[number];
	item->segment = f->opt.base + segment;
	item->page = page & 0xFFFF;
	segment_append(f, &f->segment[segment], number);
}

void tier_fifo_drop(struct tier_fifo *f, uint32_t number)
{
	tier_fifo_segment(f, &f->records->item[number])->live--;
	tier_records_drop(f->records, number);
}

static void segment_pop(struct tier_fifo *f, struct tier_segment *s)
{
	uint32_t number = s->first;
	s->first = f->records->item[number].next;
	if (!s->first)
		s->last = 0;
	tier_records_free(f->records, number);
}

static bool worth(const struct tier_fifo *f, const struct tier_item *i, uint64_t wall_s)
{
	uint32_t pages = tier_pages(i->len);
	return i->hit && !tier_item_over(i, wall_s) && f->kept_pages + pages <= f->opt.segment_pages / TIER_KEEP_SHARE;
}

uint32_t tier_fifo_clear(struct tier_fifo *f, uint64_t wall_s, unsigned *budget)
{
	struct tier_segment *s = &f->segment[f->next];
	if (s->state == TIER_SEGMENT_FREE)
		return 0;
	KV_ASSERT(s->state != TIER_SEGMENT_OPEN);
	s->state = TIER_SEGMENT_CLEARING;
	while (s->first && *budget) {
		uint32_t number = s->first;
		struct tier_item *i = &f->records->item[number];
		(*budget)--;
		if (!i->dead && worth(f, i, wall_s)) {
			f->kept_pages += tier_pages(i->len);
			return number;
		}
		if (!i->dead) {
			tier_fifo_drop(f, number);
			f->dropped++;
		}
		segment_pop(f, s);
	}
	if (!s->first && s->readers == 0) {
		free(s->dead);
		s->dead = NULL;
		s->state = TIER_SEGMENT_FREE;
		f->used--;
	}
	return 0;
}

void tier_fifo_moved(struct tier_fifo *f, uint32_t number)
{
	struct tier_segment *s = &f->segment[f->next];
	KV_ASSERT(s->state == TIER_SEGMENT_CLEARING && s->first == number);
	if (!f->records->item[number].dead) {
		tier_fifo_drop(f, number);
		f->dropped++;
	}
	segment_pop(f, s);
}

bool tier_fifo_free(const struct tier_fifo *f)
{
	return f->segment[f->next].state == TIER_SEGMENT_FREE;
}

/* ---- simulations ---- */

enum { SIMULATED_FOOT = 160 };

static bool write_one(struct tier_fifo *f, const struct tier_id *id, uint32_t len)
{
	uint32_t pages = tier_pages(len), n;
	if (!tier_fifo_fits(f, pages, SIMULATED_FOOT))
		return false;
	n = tier_records_add(f->records, id, len, 0);
	if (n)
		tier_fifo_add(f, n, pages, SIMULATED_FOOT);
	return n != 0;
}

uint32_t tier_fifo_write(struct tier_fifo *f, const struct tier_id *id, uint32_t len)
{
	uint32_t written = 0, n;
	if (!tier_fifo_fits(f, tier_pages(len), SIMULATED_FOOT)) {
		unsigned budget = UINT32_MAX;
		tier_fifo_seal(f);
		tier_fifo_open(f);
		while ((n = tier_fifo_clear(f, 0, &budget)) != 0) {
			const struct tier_item *i = &f->records->item[n];
			struct tier_id kept = {tier_item_hash(i), i->more};
			uint32_t kept_len = i->len;
			tier_fifo_drop(f, n);
			written += write_one(f, &kept, kept_len);
			tier_fifo_moved(f, n);
			f->kept++;
		}
	}
	return written + write_one(f, id, len);
}

/* ---- which values are written ---- */

int tier_admission_init(struct tier_admission *a, enum tier_admit how, uint64_t count_max)
{
	*a = (struct tier_admission){.how = how, .keep = count_max};
	return how == TIER_ADMIT_SECOND ? ghosts_init(&a->left, count_max) : 0;
}

void tier_admission_fini(struct tier_admission *a)
{
	ghosts_fini(&a->left);
}

bool tier_admits(const struct tier_admission *a, uint64_t hash)
{
	return a->how != TIER_ADMIT_SECOND || ghosts_know(&a->left, hash, a->keep);
}

void tier_written(struct tier_admission *a, uint64_t hash)
{
	if (a->how == TIER_ADMIT_SECOND)
		(void)ghosts_take(&a->left, hash, a->keep);
}

void tier_left(struct tier_admission *a, uint64_t hash)
{
	ghosts_add(&a->left, hash, a->keep);
}
