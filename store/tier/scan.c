/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c -- the start of a device: its superblock, then the heads and footers of its segments, several at a time.
 *
 *   superblock, table of namespaces, record of service --> ours: log; heads, then footers --> up
 *              --> none, or of another shape: a new one is written, with a new id --> up, empty
 *
 * All tables are read before any segment: records of cleared namespaces are never found. A segment counts if head and
 * footer have the same sequence. Of two records of one key the one with the higher sequence counts. Keys deleted during
 * the scan (t->gone) are dropped, and their deletion is written. */
#include "store/tier/private.h"

#include <errno.h>
#include <stdlib.h>

enum scan_step { SCAN_HEAD, SCAN_LAST, SCAN_FOOT };

enum { HEAD_ROOM = 16 << 10 }; /* of a slot's memory: the head stays there while the footer is read */

/* ---- one segment ---- */

static uint8_t *foot_memory(struct tier_slot *s)
{
	return s->large ? s->large : s->mem + HEAD_ROOM;
}

static uint64_t sequence_of(const struct tier *t, uint32_t item)
{
	return tier_fifo_segment(&tier_drive_of(t, item)->fifo, &t->records.item[item])->sequence;
}

/* Written since this process began. */
static bool is_new(const struct tier *t, uint32_t item)
{
	return sequence_of(t, item) > tier_drive_of(t, item)->old_sequence;
}

/* Whether the record counts: of two of one key the younger one. The other one is void for good. */
static bool counts(struct tier_drive *d, const struct tier_slot *s, const struct tier_entry *e,
		   const struct tier_id *id)
{
	struct tier *t = d->t;
	uint32_t item = tier_records_find(&t->records, id);
	if (e->expires_us && (e->expires_us <= tier_wall_us(t) || e->born_us > tier_wall_us(t)))
		return false; /* born later than now: the clock was set back, by an unknown time */
	if (!item)
		return true;
	if (sequence_of(t, item) > e->sequence || is_new(t, item)) {
		heads_mark(d, s->segment, e->page);
		return false;
	}
	tier_key_drop(t, item, true);
	return true;
}

static bool entry_right(const struct tier_drive *d, const struct tier_slot *s, const struct tier_entry *e)
{
	return e->id == d->super.id[0] && e->sequence == s->sequence && e->page >= d->fifo.opt.head_pages &&
	       e->page + tier_pages(e->len) <= d->fifo.opt.segment_pages - s->foot_pages;
}

static void record_found(struct tier_drive *d, struct tier_slot *s, const struct tier_entry *e, const uint8_t *key)
{
	struct tier *t = d->t;
	struct space *sp = table_space(d, e);
	struct tier_id id;
	uint32_t item;
	if (!sp || tier_head_dead(s->mem, e->page))
		return;
	id = tier_id_in(t, sp, key, e->key_len);
	if (!counts(d, s, e, &id))
		return;
	item = tier_records_add(&t->records, &id, e->len,
				(uint32_t)KV_MIN(e->expires_us / 1000000, (uint64_t)UINT32_MAX));
	if (!item)
		return;
	tier_item_space(t, &t->records.item[item], sp);
	tier_fifo_found(&d->fifo, s->segment, item, e->page);
	d->scan.found++;
	if (tier_key_gone(t, sp, key, e->key_len) || judged(t, &t->records.item[item]))
		tier_key_drop(t, item, true);
}

/* The device's bits of deletions are kept. False: no memory. */
static bool bits_keep(struct tier_drive *d, const struct tier_slot *s)
{
	struct tier_segment *g = &d->fifo.segment[s->segment];
	bool any = false;
	for (uint32_t page = 0; page < d->fifo.opt.segment_pages && !any; page++)
		any = tier_head_dead(s->mem, page);
	if (!any)
		return true;
	g->dead = calloc(1, d->fifo.opt.segment_pages / 8 + 1);
	for (uint32_t page = 0; g->dead && page < d->fifo.opt.segment_pages; page++)
		if (tier_head_dead(s->mem, page))
			g->dead[page / 8] |= (uint8_t)(1u << page % 8);
	return g->dead != NULL;
}

static void footer_take(struct tier_drive *d, struct tier_slot *s)
{
	struct tier_segment *g = &d->fifo.segment[s->segment];
	const uint8_t *foot = foot_memory(s), *key;
	struct tier_entry e;
	struct tier_foot f;
	if (tier_foot_get(foot + (size_t)(s->foot_pages - 1) * TIER_PAGE, d->fifo.opt.segment_pages, &f) != 0 ||
	    f.id != d->super.id[0] || f.sequence != s->sequence || tier_foot_pages(f.bytes) != s->foot_pages ||
	    !tier_foot_check(&f, foot) || !bits_keep(d, s))
		return;
	g->sequence = s->sequence;
	g->pages = d->fifo.opt.segment_pages;
	g->state = TIER_SEGMENT_SEALED;
	d->fifo.used++;
	for (uint32_t at = 0, n = 0; n < f.count && at < f.bytes; n++, at += tier_entry_bytes(e.key_len)) {
		if (tier_entry_get(foot + at, f.bytes - at, &e, &key) != 0)
			return;
		if (entry_right(d, s, &e))
			record_found(d, s, &e, key);
	}
}

/* ---- the end ---- */

static void drive_up(struct tier_drive *d)
{
	struct tier *t = d->t;
	bool first = !d->known;
	d->state = TIER_UP;
	d->known = true;
	d->errors = 0;
	if (!tier_key_reading(t))
		tier_key_read(t);
	if (d->h.next == HEAD_NONE)
		heads_want_next(d);
	table_pump(d);
	log_pump(d);
	heads_pump(d);
	heads_settle(t);
	kv_event(t->opt.log, KV_LOG_INFO,
		 KV_EVENT("tier_up", KV_NUMBER("shard", t->opt.shard), KV_FIELD("device", d->dev->name),
			  KV_NUMBER("values", d->scan.found),
			  KV_NUMBER("ms", (t->now_ns - d->scan.began_ns) / 1000000)),
		 first ? "shard %u: the tier on %s is ready, with %llu values"
		       : "shard %u: the tier on %s works again; %llu values were found at its start",
		 t->opt.shard, d->dev->name, (unsigned long long)d->scan.found);
}

/* ---- all segments ---- */

static void scan_go(struct tier_drive *d);

static void scan_slot_free(struct tier_drive *d, struct tier_slot *s)
{
	free(s->large);
	s->large = NULL;
	s->state = SLOT_FREE;
	kv_list_add_tail(&d->slots_free, &s->node);
}

static void slot_done(struct tier_io *io, int64_t result);

static void slot_read(struct tier_drive *d, struct tier_slot *s, uint8_t *to)
{
	s->state = SLOT_FLYING;
	drive_begin(d, &s->io, slot_done, s->from + s->got, to + s->got, s->want - s->got, false);
}

static void slot_next(struct tier_drive *d, struct tier_slot *s, enum scan_step step, uint32_t page, uint32_t pages)
{
	s->step = (uint8_t)step;
	s->got = 0;
	s->want = pages * TIER_PAGE;
	s->from = tier_place(d, s->segment, page);
	slot_read(d, s, step == SCAN_HEAD ? s->mem : foot_memory(s));
}

static bool head_take(struct tier_drive *d, struct tier_slot *s)
{
	if (tier_head_get(s->mem, d->fifo.opt.segment_pages, d->super.id[0], &s->sequence) != 0)
		return false;
	if (s->sequence > d->scan.newest) {
		d->scan.newest = s->sequence;
		d->scan.newest_segment = s->segment;
	}
	return true;
}

/* Its last page was read: read all of the footer, if there is one. */
static bool last_take(struct tier_drive *d, struct tier_slot *s)
{
	struct tier_foot f;
	if (tier_foot_get(foot_memory(s), d->fifo.opt.segment_pages, &f) != 0 || f.id != d->super.id[0] ||
	    f.sequence != s->sequence)
		return false;
	s->foot_pages = tier_foot_pages(f.bytes);
	if (s->foot_pages * TIER_PAGE > TIER_READ - HEAD_ROOM)
		s->large = aligned_alloc(TIER_PAGE, (size_t)s->foot_pages * TIER_PAGE);
	return s->large || s->foot_pages * TIER_PAGE <= TIER_READ - HEAD_ROOM;
}

static bool slot_continue(struct tier_drive *d, struct tier_slot *s)
{
	uint32_t pages = d->fifo.opt.segment_pages;
	if (s->step == SCAN_HEAD && head_take(d, s)) {
		slot_next(d, s, SCAN_LAST, pages - 1, 1);
		return true;
	}
	if (s->step == SCAN_LAST && last_take(d, s)) {
		slot_next(d, s, SCAN_FOOT, pages - s->foot_pages, s->foot_pages);
		return true;
	}
	if (s->step == SCAN_FOOT)
		footer_take(d, s);
	return false;
}

static void slot_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	struct tier_slot *s = KV_CONTAINER(io, struct tier_slot, io);
	result = drive_ended(d, io, result);
	if (result > 0)
		s->got += (uint32_t)result / TIER_PAGE * TIER_PAGE;
	if (result >= TIER_PAGE && s->got < s->want) {
		slot_read(d, s, s->step == SCAN_HEAD ? s->mem : foot_memory(s));
		return;
	}
	if (s->got >= s->want && slot_continue(d, s))
		return;
	d->scan.running--;
	scan_slot_free(d, s);
	if (d->state == TIER_READING && !d->t->stopped)
		scan_go(d);
}

/* Drives begin together to write: sequences of new segments exceed all others. */
static void scan_settle(struct tier *t)
{
	for (unsigned i = 0; i < t->drives; i++)
		if (t->drive[i]->state == TIER_READING && !t->drive[i]->scan.over)
			return;
	for (unsigned i = 0; i < t->drives; i++)
		if (t->drive[i]->state == TIER_READING)
			drive_up(t->drive[i]);
}

static void scan_over(struct tier_drive *d)
{
	d->scan.over = true;
	scan_settle(d->t);
}

static void scan_end(struct tier_drive *d)
{
	d->old_sequence = d->scan.newest;
	d->t->sequence = KV_MAX(d->t->sequence, d->scan.newest);
	if (d->scan.newest)
		d->fifo.next = (d->scan.newest_segment + 1) % d->fifo.opt.segments;
	d->t->totals.recovered += d->scan.found;
	scan_over(d);
}

static void scan_go(struct tier_drive *d)
{
	while (d->scan.next < d->fifo.opt.segments && !kv_list_empty(&d->slots_free)) {
		struct tier_slot *s = KV_LIST_ENTRY(kv_list_pop(&d->slots_free), struct tier_slot, node);
		s->get = NULL;
		s->segment = d->scan.next++;
		d->scan.running++;
		slot_next(d, s, SCAN_HEAD, 0, d->fifo.opt.head_pages);
	}
	if (d->scan.running == 0)
		scan_end(d);
}

static uint8_t *front_memory(struct tier_drive *d)
{
	return d->w.buffer[0].mem;
}

static void front_done(struct tier_io *io, int64_t result);

static void front_go(struct tier_drive *d)
{
	d->scan.super = true;
	drive_begin(d, &d->scan.io, front_done, d->scan.got, front_memory(d) + d->scan.got, d->scan.want - d->scan.got,
		    d->scan.fresh);
}

static void fronts_settle(struct tier *t)
{
	for (unsigned i = 0; i < t->drives; i++)
		if (t->drive[i]->state == TIER_READING && !t->drive[i]->scan.front)
			return;
	for (unsigned i = 0; i < t->drives; i++) {
		struct tier_drive *d = t->drive[i];
		if (d->state != TIER_READING || d->scan.running || d->scan.over)
			continue;
		if (d->scan.fresh)
			scan_over(d);
		else
			scan_go(d);
	}
}

static void front_here(struct tier_drive *d)
{
	d->scan.front = true;
	fronts_settle(d->t);
}

/* A new superblock: what the device had is void. */
static void make(struct tier_drive *d, enum kv_log_level level, const char *why)
{
	struct tier *t = d->t;
	struct tier_super *s = &d->super;
	gets_down(d); /* those that began since it is back */
	tier_key_void(d);
	*s = (struct tier_super){.shard = t->opt.shard,
				 .shards = t->opt.shards,
				 .segment_pages = d->fifo.opt.segment_pages,
				 .offset = d->dev->offset,
				 .bytes = d->dev->bytes,
				 .segments = d->fifo.opt.segments,
				 .made_s = tier_wall_s(t),
				 .key_seed = t->opt.key_seed,
				 .log_pages = d->log.pages};
	if (kv_entropy_fill(t->opt.entropy, s->id, sizeof(s->id)) != 0) {
		drive_down(d, "no random id");
		return;
	}
	tier_super_seal(s);
	kv_event(t->opt.log, level,
		 KV_EVENT("tier_made", KV_NUMBER("shard", t->opt.shard), KV_FIELD("device", d->dev->name),
			  KV_FIELD("reason", why)),
		 "shard %u: the tier on %s starts empty: %s", t->opt.shard, d->dev->name, why);
	d->scan.fresh = true;
	d->scan.got = 0;
	d->scan.want = table_make(d, front_memory(d));
	d->service.last.version = d->service.version = 0;
	log_read(d, true);
	front_go(d);
}

static const char *other(const struct tier_drive *d, int rc, const struct tier_super *s)
{
	if (rc == -KV_EVERSION)
		return "it was written by another version";
	if (rc)
		return d->known ? "another device, or a wiped one, is there now" : "it has no values yet";
	if (d->known && (s->id[0] != d->super.id[0] || s->id[1] != d->super.id[1]))
		return "another device is there now";
	if (s->shard != d->t->opt.shard || s->shards != d->t->opt.shards)
		return "it was written with another number of worker threads";
	if (s->segment_pages != d->fifo.opt.segment_pages || s->segments != d->fifo.opt.segments ||
	    s->offset != d->dev->offset || s->bytes != d->dev->bytes || s->log_pages != d->log.pages)
		return "it was written with another size or --tier-segment";
	return s->key_seed != d->t->opt.key_seed ? "it was written by another server" : NULL;
}

static void front_take(struct tier_drive *d)
{
	struct tier_super s = {0};
	int rc = tier_super_check(front_memory(d), &s);
	const char *why = other(d, rc, &s);
	if (why) {
		make(d, rc == -KV_EINVAL && !d->known ? KV_LOG_INFO : KV_LOG_WARN, why);
		return;
	}
	d->super = s;
	d->scan.fresh = d->known;
	if (!d->known && !table_read(d, front_memory(d))) {
		make(d, KV_LOG_WARN, "its table of namespaces is damaged");
		return;
	}
	if (!d->known)
		service_read(d, front_memory(d));
	log_read(d, false);
	if (d->state == TIER_READING)
		front_here(d);
}

static void front_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	result = drive_ended(d, io, result);
	d->scan.super = false;
	if (d->state != TIER_READING || d->t->stopped)
		return;
	if (result > 0)
		d->scan.got += (uint32_t)result / TIER_PAGE * TIER_PAGE;
	if (result >= TIER_PAGE && d->scan.got < d->scan.want)
		front_go(d);
	else if (d->scan.got < d->scan.want)
		drive_down(d, io->write ? "the superblock could not be written" : "the superblock could not be read");
	else if (io->write)
		front_here(d);
	else
		front_take(d);
}

void scan_begin(struct tier_drive *d)
{
	d->state = TIER_READING;
	if (!d->known)
		tier_key_void(d);
	d->scan.next = d->scan.running = d->scan.got = 0;
	d->scan.want = TIER_FRONT_BYTES;
	d->scan.over = d->scan.front = d->scan.fresh = false;
	d->scan.newest = d->scan.found = 0;
	d->scan.began_ns = d->t->now_ns;
	front_go(d);
}

void scan_down(struct tier *t)
{
	fronts_settle(t);
	scan_settle(t);
}
