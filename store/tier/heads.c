/* SPDX-License-Identifier: Apache-2.0 */
/* heads.c -- the heads of segments: deletions that hold after a crash, and the end of a segment's old records.
 *
 * A deletion of a record whose segment has a footer sets a bit in memory, and the segment is queued: its head is
 * written with all bits. Each such deletion gets a mark, a rising number; those who wait end when no smaller mark is
 * unsaved. Until the footers are read, keys without a record may have one: their deletions are remembered (t->gone),
 * and unsaved until the end of the scan.
 *
 * Before a segment is cleared, it gets the head of its next use, with a new sequence: its old footer is void from then
 * on. So a record leaves the index only when it is off the device as well. */
#include "store/tier/private.h"

#include <errno.h>
#include <stdlib.h>

uint64_t heads_unsaved(const struct tier *t)
{
	uint64_t first = UINT64_MAX;
	for (unsigned i = 0; i < t->drives; i++) {
		const struct tier_drive *d = t->drive[i];
		uint32_t n = d->h.first;
		if (d->state == TIER_DOWN)
			continue;
		if (!d->known && t->unsaved_first)
			first = KV_MIN(first, t->unsaved_first);
		if (d->h.flying)
			first = KV_MIN(first, d->h.mark);
		if (d->names.mark)
			first = KV_MIN(first, d->names.mark);
		if (d->log.mark)
			first = KV_MIN(first, d->log.mark);
		if (d->log.flying && d->log.flying_mark)
			first = KV_MIN(first, d->log.flying_mark);
		if (d->names.flying && d->names.flying_mark)
			first = KV_MIN(first, d->names.flying_mark);
		for (uint32_t k = 0; k < d->h.waiting; k++, n = d->fifo.segment[n].queue_next)
			first = KV_MIN(first, d->fifo.segment[n].mark);
		if (d->h.next != HEAD_DONE && d->fifo.segment[d->fifo.next].mark)
			first = KV_MIN(first, d->fifo.segment[d->fifo.next].mark);
	}
	return first;
}

bool heads_unsafe(const struct tier *t)
{
	bool unsafe = t->stopped;
	for (unsigned i = 0; i < t->drives; i++) {
		const struct tier_drive *d = t->drive[i];
		unsafe |= d->state == TIER_DOWN &&
			  (d->h.waiting || d->h.flying || (!d->known && t->unsaved_first) ||
			   d->fifo.segment[d->fifo.next].mark || d->names.mark || d->log.mark ||
			   (d->log.flying && d->log.flying_mark) || (d->names.flying && d->names.flying_mark));
	}
	return unsafe;
}

void heads_settle(struct tier *t)
{
	uint64_t unsaved = heads_unsaved(t);
	while (!kv_list_empty(&t->safes)) {
		struct tier_safe *s = KV_LIST_ENTRY(t->safes.next, struct tier_safe, node);
		if (s->mark >= unsaved && !t->stopped)
			return;
		kv_list_del(&s->node);
		s->mark = 0;
		s->end(s, heads_unsafe(t) ? -EIO : 0);
	}
}

static void queue_add(struct tier_drive *d, uint32_t n)
{
	struct tier_segment *s = &d->fifo.segment[n];
	if (s->queued)
		return;
	s->queued = true;
	if (d->h.waiting)
		d->fifo.segment[d->h.last].queue_next = n;
	else
		d->h.first = n;
	d->h.last = n;
	d->h.waiting++;
}

static uint32_t queue_pop(struct tier_drive *d)
{
	uint32_t n = d->h.first;
	d->h.first = d->fifo.segment[n].queue_next;
	d->h.waiting--;
	d->fifo.segment[n].queued = false;
	return n;
}

static void queue_remove(struct tier_drive *d, uint32_t n)
{
	for (uint32_t k = d->h.waiting; k > 0; k--) {
		uint32_t first = queue_pop(d);
		if (first != n)
			queue_add(d, first);
	}
}

/* Whether a crash now would find the segment's records: it has a footer, or will have one with this record. */
static bool found_after_crash(const struct tier_drive *d, uint32_t n)
{
	const struct tier_segment *s = &d->fifo.segment[n];
	if (s->state == TIER_SEGMENT_OPEN || s->footless)
		return false;
	if (d->w.seal.busy && d->w.seal.segment == n && !d->w.seal.flying)
		return false;
	return !(n == d->fifo.next && d->h.next == HEAD_DONE);
}

void heads_unsaved_log(struct tier_drive *d)
{
	if (d->unsaved_logged)
		return;
	d->unsaved_logged = true;
	kv_event(
		d->t->opt.log, KV_LOG_WARN,
		KV_EVENT("tier_deletes_unsaved", KV_NUMBER("shard", d->t->opt.shard), KV_FIELD("device", d->dev->name)),
		"shard %u: deletions could not be written to %s: if this server ends before the device works again, "
		"deleted values may return with it; empty it before you use it then",
		d->t->opt.shard, d->dev->name);
}

void heads_mark(struct tier_drive *d, uint32_t n, uint32_t page)
{
	struct tier_segment *s = &d->fifo.segment[n];
	if (!found_after_crash(d, n))
		return;
	if (!s->dead)
		s->dead = calloc(1, d->fifo.opt.segment_pages / 8 + 1);
	if (s->dead)
		s->dead[page / 8] |= (uint8_t)(1u << page % 8);
	d->t->marks++;
	if (!s->mark)
		s->mark = d->t->marks;
	if (n != d->fifo.next || d->h.next == HEAD_NONE)
		queue_add(d, n);
	if (d->state == TIER_DOWN)
		heads_unsaved_log(d);
}

/* Its bits could not be written. */
static void unsaved_again(struct tier_drive *d, uint32_t n, uint64_t mark)
{
	struct tier_segment *s = &d->fifo.segment[n];
	s->mark = s->mark ? KV_MIN(s->mark, mark) : mark;
	if (n != d->fifo.next || d->h.next == HEAD_NONE)
		queue_add(d, n);
}

static void head_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	uint64_t marked = d->h.mark;
	bool next = !d->h.flying;
	uint32_t n = d->h.segment;
	result = drive_ended(d, io, result);
	d->h.flying = false;
	if (d->h.next == HEAD_FLYING && next)
		d->h.next = result == io->len ? HEAD_DONE : HEAD_WANTED;
	else if (result != io->len && !d->t->stopped)
		unsaved_again(d, n, marked);
	if (next && d->h.next == HEAD_DONE)
		d->fifo.segment[n].mark = 0;
	if (d->state == TIER_UP)
		heads_pump(d);
	heads_settle(d->t);
}

static void head_write(struct tier_drive *d, uint32_t n, uint64_t sequence, const uint8_t *dead)
{
	uint32_t pages = d->fifo.opt.segment_pages;
	d->h.segment = n;
	tier_head_put(d->h.mem, pages, d->super.id[0], sequence, dead);
	d->h.io.durable = true;
	drive_begin(d, &d->h.io, head_done, tier_place(d, n, 0), d->h.mem, tier_head_pages(pages) * TIER_PAGE, true);
}

void heads_pump(struct tier_drive *d)
{
	if (d->state != TIER_UP || d->t->stopped || d->h.flying || d->h.next == HEAD_FLYING)
		return;
	if (d->h.next == HEAD_WANTED) {
		d->h.next = HEAD_FLYING;
		head_write(d, d->fifo.next, d->fifo.reserved, NULL);
	} else if (d->h.waiting) {
		uint32_t n = queue_pop(d);
		struct tier_segment *s = &d->fifo.segment[n];
		d->h.flying = true;
		d->h.mark = s->mark;
		s->mark = 0;
		head_write(d, n, s->dead ? s->sequence : 0, s->dead); /* without memory for bits all is void */
	}
}

void heads_want_next(struct tier_drive *d)
{
	KV_ASSERT(d->h.next == HEAD_NONE || d->h.next == HEAD_DONE);
	d->h.next = HEAD_WANTED;
	d->fifo.reserved = ++d->t->sequence;
	if (d->fifo.segment[d->fifo.next].queued)
		queue_remove(d, d->fifo.next);
	heads_pump(d);
}

void heads_down(struct tier_drive *d)
{
	if (d->h.waiting || d->h.flying)
		heads_unsaved_log(d);
}
