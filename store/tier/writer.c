/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c -- records into buffers, buffers to the device, front to back; then the footer.
 *
 * A record gets its place in the open segment and its entry in the index at once, and is pending until its last byte is
 * on the device. If a write fails, the records it touches are dropped. When a record does not fit, the segment is
 * sealed: its footer, without dropped records, is written when all its bytes are on the device; the next segment opens
 * at once, if it is free and has its head. Only one footer at a time; it follows the table that has its namespaces.
 *
 * Invariants: buffers of the open segment follow each other without gaps; only the last one is being filled. */
#include "store/tier/private.h"

#include <errno.h>
#include <stdlib.h>

enum { FOOT_ROOM_FIRST = 256 << 10 };

static struct tier_segment *segment_of(const struct tier_drive *d, uint32_t n)
{
	return &d->fifo.segment[n];
}

/* ---- records become readable ---- */

static uint32_t written_up_to(const struct tier_drive *d, uint32_t segment)
{
	uint32_t page = segment_of(d, segment)->pages;
	for (unsigned i = 0; i < TIER_WRITES; i++) {
		const struct tier_buffer *b = &d->w.buffer[i];
		if ((b->flying || b == d->w.filling) && b->segment == segment)
			page = KV_MIN(page, b->page);
	}
	return page;
}

/* Returns the first item of the list from `item` on that is still pending. */
static uint32_t settle(struct tier_drive *d, uint32_t segment, uint32_t item)
{
	uint32_t page = written_up_to(d, segment);
	while (item) {
		struct tier_item *i = &d->t->records.item[item];
		if (item == d->w.record || i->page + tier_pages(i->len) > page)
			return item;
		i->pending = 0;
		item = i->next;
	}
	return 0;
}

static void settle_all(struct tier_drive *d)
{
	if (d->fifo.open != d->fifo.opt.segments)
		d->w.pending = settle(d, d->fifo.open, d->w.pending);
	if (d->w.seal.busy)
		d->w.seal.pending = settle(d, d->w.seal.segment, d->w.seal.pending);
	d->t->hooks->settled(d->t);
}

static void lost(struct tier_drive *d, uint32_t item, uint32_t page, uint32_t pages)
{
	for (; item; item = d->t->records.item[item].next) {
		const struct tier_item *i = &d->t->records.item[item];
		if (!i->dead && i->page < page + pages && i->page + tier_pages(i->len) > page)
			tier_fifo_drop(&d->fifo, item);
	}
}

static void buffer_lost(struct tier_drive *d, const struct tier_buffer *b)
{
	uint32_t pages = (b->bytes + TIER_PAGE - 1) / TIER_PAGE;
	if (b->segment == d->fifo.open)
		lost(d, d->w.pending, b->page, pages);
	if (d->w.seal.busy && b->segment == d->w.seal.segment)
		lost(d, d->w.seal.pending, b->page, pages);
}

/* ---- buffers ---- */

static void buffer_send(struct tier_drive *d, struct tier_buffer *b);

static void buffer_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	struct tier_buffer *b = KV_CONTAINER(io, struct tier_buffer, io);
	result = drive_ended(d, io, result);
	if (result > 0) {
		b->sent += (uint32_t)KV_MIN(result, (int64_t)io->len) / TIER_PAGE * TIER_PAGE;
		if (b->sent < b->bytes && result >= TIER_PAGE) {
			buffer_send(d, b);
			return;
		}
	}
	b->flying = false;
	if (b->sent < b->bytes)
		buffer_lost(d, b);
	settle_all(d);
	writer_pump(d);
}

static void buffer_send(struct tier_drive *d, struct tier_buffer *b)
{
	b->flying = true;
	drive_begin(d, &b->io, buffer_done, tier_place(d, b->segment, b->page) + b->sent, b->mem + b->sent,
		    b->bytes - b->sent, true);
}

static struct tier_buffer *buffer_free(struct tier_drive *d)
{
	for (unsigned i = 0; i < TIER_WRITES; i++)
		if (!d->w.buffer[i].flying && &d->w.buffer[i] != d->w.filling)
			return &d->w.buffer[i];
	return NULL;
}

static bool buffer_begin(struct tier_drive *d, uint32_t page)
{
	struct tier_buffer *b = buffer_free(d);
	if (!b)
		return false;
	b->segment = d->fifo.open;
	b->page = page;
	b->bytes = b->sent = 0;
	d->w.filling = b;
	return true;
}

static void filling_send(struct tier_drive *d)
{
	struct tier_buffer *b = d->w.filling;
	d->w.filling = NULL;
	if (b && b->bytes)
		buffer_send(d, b);
}

/* Copy bytes (NULL: zeros) behind those that the buffers have; returns how many found room. */
static uint32_t put(struct tier_drive *d, const uint8_t *from, uint32_t len)
{
	uint32_t done = 0;
	while (done < len) {
		struct tier_buffer *b = d->w.filling;
		uint32_t n;
		if (!b)
			break;
		n = KV_MIN(len - done, (uint32_t)TIER_BUFFER - b->bytes);
		if (from)
			memcpy(b->mem + b->bytes, from + done, n);
		else
			memset(b->mem + b->bytes, 0, n);
		b->bytes += n;
		done += n;
		if (b->bytes == TIER_BUFFER) {
			uint32_t page = b->page + TIER_BUFFER / TIER_PAGE;
			filling_send(d);
			if (page < segment_of(d, d->fifo.open)->pages && !buffer_begin(d, page))
				d->w.next_page = page;
		}
	}
	return done;
}

uint64_t writer_room(const struct tier_drive *d)
{
	uint64_t room = 0;
	if (d->state != TIER_UP)
		return 0;
	for (unsigned i = 0; i < TIER_WRITES; i++) {
		const struct tier_buffer *b = &d->w.buffer[i];
		if (b == d->w.filling)
			room += TIER_BUFFER - b->bytes;
		else if (!b->flying)
			room += TIER_BUFFER;
	}
	return room;
}

/* ---- the footer ---- */

static void foot_touch(uint8_t *at, const struct tier_item *i)
{
	uint8_t key[KV_KEY_MAX];
	struct tier_entry e;
	memcpy(&e, at, sizeof(e));
	if (i->expires_s == e.expires_us / 1000000)
		return;
	e.expires_us = i->expires_s * 1000000ull;
	memcpy(key, at + sizeof(e), e.key_len);
	tier_entry_put(at, &e, key);
}

/* Returns the number of the others. */
static uint32_t foot_pack(struct tier_drive *d)
{
	uint8_t *foot = d->w.seal.foot;
	uint32_t from = 0, to = 0, count = 0;
	uint32_t item = segment_of(d, d->w.seal.segment)->first;
	for (; from < d->w.seal.foot_bytes; item = d->t->records.item[item].next) {
		const struct tier_entry *e = (const struct tier_entry *)(foot + from);
		uint32_t bytes = tier_entry_bytes(e->key_len);
		KV_ASSERT(item != 0);
		if (!d->t->records.item[item].dead) {
			foot_touch(foot + from, &d->t->records.item[item]);
			memmove(foot + to, foot + from, bytes);
			to += bytes;
			count++;
		}
		from += bytes;
	}
	d->w.seal.foot_bytes = to;
	return count;
}

static void foot_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	(void)drive_ended(d, io,
			  result); /* after a failure it may be there or not: deletions of its records are written */
	d->w.seal.flying = d->w.seal.busy = false;
	if (d->state == TIER_UP)
		heads_pump(d);
	heads_settle(d->t);
}

static void foot_send(struct tier_drive *d)
{
	uint32_t n = d->w.seal.segment, count = foot_pack(d), pages = tier_foot_pages(d->w.seal.foot_bytes);
	struct tier_segment *s = segment_of(d, n);
	KV_ASSERT(written_up_to(d, n) == s->pages && table_clean(d)); /* the footer comes after data and table */
	tier_foot_put(d->w.seal.foot, d->w.seal.foot_bytes, count, d->super.id[0], s->sequence);
	d->w.seal.flying = true;
	drive_begin(d, &d->w.seal.io, foot_done, tier_place(d, n, d->fifo.opt.segment_pages - pages), d->w.seal.foot,
		    pages * TIER_PAGE, true);
}

/* The footer's memory is in pages, with room for its foot. */
static bool foot_room(struct tier_drive *d, uint32_t more)
{
	uint64_t need = (uint64_t)tier_foot_pages(d->fifo.foot_bytes + (uint64_t)more) * TIER_PAGE;
	uint64_t room = d->w.foot_room ? d->w.foot_room : FOOT_ROOM_FIRST;
	uint8_t *grown;
	if (need <= d->w.foot_room)
		return true;
	while (room < need)
		room *= 2;
	grown = aligned_alloc(TIER_PAGE, room);
	if (!grown)
		return false;
	memcpy(grown, d->w.foot ? d->w.foot : grown, d->fifo.foot_bytes);
	free(d->w.foot);
	d->w.foot = grown;
	d->w.foot_room = (uint32_t)room;
	return true;
}

void writer_seal(struct tier_drive *d)
{
	uint8_t *foot = d->w.seal.foot;
	uint32_t room = d->w.seal.foot_room;
	if (d->fifo.open == d->fifo.opt.segments || d->w.seal.busy || d->w.record)
		return;
	filling_send(d);
	d->w.seal.busy = true;
	d->w.seal.segment = d->fifo.open;
	d->w.seal.pending = d->w.pending;
	d->w.seal.foot = d->w.foot;
	d->w.seal.foot_room = d->w.foot_room;
	d->w.seal.foot_bytes = d->fifo.foot_bytes;
	d->w.foot = foot;
	d->w.foot_room = room;
	d->w.pending = 0;
	tier_fifo_seal(&d->fifo);
}

/* ---- records ---- */

/* 0 or -EAGAIN. */
static int segment_ready(struct tier_drive *d, uint32_t pages, uint32_t foot_bytes)
{
	if (tier_fifo_fits(&d->fifo, pages, foot_bytes))
		return 0;
	writer_seal(d);
	if (d->fifo.open != d->fifo.opt.segments || d->h.next != HEAD_DONE || !tier_fifo_free(&d->fifo))
		return -EAGAIN;
	tier_fifo_open(&d->fifo);
	heads_want_next(d);
	return 0;
}

static void record_place(struct tier_drive *d, uint32_t item, struct tier_entry *e, const void *key)
{
	uint8_t head[TIER_HEAD_BYTES] = {0};
	uint32_t bytes = tier_entry_bytes(e->key_len), foot_at = d->fifo.foot_bytes;
	d->t->records.item[item].pending = 1;
	e->page = (uint16_t)tier_fifo_add(&d->fifo, item, tier_pages(e->len), bytes);
	e->sequence = segment_of(d, d->fifo.open)->sequence;
	e->id = d->super.id[0];
	tier_entry_put(head, e, key);
	memcpy(d->w.foot + foot_at, head, bytes);
	if (!d->w.pending)
		d->w.pending = item;
	put(d, head, sizeof(head));
}

int writer_ready(struct tier_drive *d, uint32_t len, uint8_t key_len)
{
	uint32_t pages = tier_pages(len), bytes = tier_entry_bytes(key_len);
	if (d->fifo.opt.head_pages + pages + tier_foot_pages(bytes) > d->fifo.opt.segment_pages)
		return -KV_ETOOBIG;
	if (d->state != TIER_UP || d->w.record || !budget_has(&d->rate) || !budget_has(&d->day))
		return -EAGAIN;
	if (tier_records_full(&d->t->records)) { /* the next segment to be cleared gives its places back */
		(void)segment_ready(d, d->fifo.opt.segment_pages, 0);
		return -KV_ENOMEM;
	}
	if (segment_ready(d, pages, bytes) != 0 || !foot_room(d, bytes))
		return -EAGAIN;
	if (!d->w.filling && !buffer_begin(d, segment_of(d, d->fifo.open)->pages))
		return -EAGAIN;
	return 0;
}

bool writer_begin(struct tier_drive *d, const struct tier_id *id, struct space *sp, struct tier_entry *e,
		  const void *key)
{
	int64_t cost = (int64_t)tier_pages(e->len) * TIER_PAGE;
	uint32_t item = tier_records_add(&d->t->records, id, e->len,
					 (uint32_t)KV_MIN(e->expires_us / 1000000, (uint64_t)UINT32_MAX));
	if (!item)
		return false;
	tier_item_space(d->t, &d->t->records.item[item], sp);
	e->space_hash = tier_space_hash(&d->super, sp->name);
	e->space_generation = sp->generation;
	d->rate.left -= cost;
	d->day.left -= cost;
	d->w.record = item;
	d->w.left = e->len;
	record_place(d, item, e, key);
	return true;
}

static void record_end(struct tier_drive *d)
{
	struct tier_buffer *b = d->w.filling;
	uint32_t part = b ? b->bytes % TIER_PAGE : 0;
	if (part)
		put(d, NULL, TIER_PAGE - part);
	d->w.record = 0;
	d->w.filled_ns = d->t->now_ns;
	if (d->w.hurry)
		writer_pump(d);
}

uint32_t writer_copy(struct tier_drive *d, const uint8_t *from, uint32_t len)
{
	uint32_t n;
	if (!d->w.filling && (d->state != TIER_UP || !buffer_begin(d, d->w.next_page)))
		return 0;
	n = put(d, from, KV_MIN(len, d->w.left));
	d->w.left -= n;
	if (d->w.left == 0)
		record_end(d);
	return n;
}

void writer_pump(struct tier_drive *d)
{
	const struct tier_buffer *b = d->w.filling;
	if (d->state != TIER_UP || d->t->stopped)
		return;
	if (b && !d->w.record && b->bytes && (d->w.hurry || d->t->now_ns >= d->w.filled_ns + TIER_LINGER_NS)) {
		filling_send(d);
		d->w.hurry = false;
	}
	if (d->w.seal.busy && !d->w.seal.flying && table_clean(d) &&
	    written_up_to(d, d->w.seal.segment) == segment_of(d, d->w.seal.segment)->pages)
		foot_send(d);
}

bool writer_idle(const struct tier_drive *d)
{
	bool idle = !d->w.filling && !d->w.seal.busy && !d->w.record && d->fifo.open == d->fifo.opt.segments;
	for (unsigned i = 0; i < TIER_WRITES; i++)
		idle = idle && !d->w.buffer[i].flying;
	return idle;
}

void writer_down(struct tier_drive *d)
{
	uint32_t none = d->fifo.opt.segments;
	if (d->fifo.open != none) {
		lost(d, d->w.pending, 0, d->fifo.opt.segment_pages);
		segment_of(d, d->fifo.open)->footless = true;
		tier_fifo_seal(&d->fifo);
	}
	if (d->w.seal.busy && !d->w.seal.flying) {
		lost(d, d->w.seal.pending, 0, d->fifo.opt.segment_pages);
		segment_of(d, d->w.seal.segment)->footless = true;
		d->w.seal.busy = false;
	}
	d->w.filling = NULL;
	d->w.record = d->w.pending = d->w.seal.pending = 0;
	d->t->hooks->settled(d->t);
}
