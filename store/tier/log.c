/* SPDX-License-Identifier: Apache-2.0 */
/* log.c -- the keys deleted or touched here, on the device.
 *
 *   not read --> all of it is read --> its entries are given to the store --> new tombstones are appended
 *
 * The log is a ring of entries, written a page at a time, durably; the next write takes all tombstones that came in the
 * meantime. A reply to a DELETE waits for it. Each entry has its own check: a torn write leaves older ones, and some of
 * the new ones, for which nobody has an answer yet. So a hole in the numbers counts as a loss only in front of the last
 * write. */
#include "store/tier/private.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t places(const struct tier_drive *d)
{
	return (uint64_t)d->log.pages * TIER_TOMBS_PAGE;
}

/* ---- read ---- */

static bool entry_of(const struct tier_drive *d, uint64_t number, struct tier_tomb *out)
{
	const uint8_t *at = d->log.all + (number - 1) % places(d) * sizeof(*out);
	return tier_tomb_get(at, d->super.id[0], out) && out->number == number;
}

static uint64_t newest_of(const struct tier_drive *d)
{
	uint64_t newest = 0;
	struct tier_tomb e;
	for (uint64_t i = 0; i < places(d); i++)
		if (tier_tomb_get(d->log.all + i * sizeof(e), d->super.id[0], &e) && (e.number - 1) % places(d) == i)
			newest = KV_MAX(newest, e.number);
	return newest;
}

/* The oldest entry from which on none is missing, but for those of the last write. */
static uint64_t oldest_of(const struct tier_drive *d, uint64_t newest)
{
	uint64_t oldest = newest;
	struct tier_tomb e;
	if (entry_of(d, newest, &e))
		oldest -= KV_MIN(e.when & TIER_TOMB_BACK, newest - 1);
	while (oldest > 1 && newest - oldest + 1 < places(d) && entry_of(d, oldest - 1, &e))
		oldest--;
	return oldest;
}

static uint64_t age_ns(const struct tier_drive *d, uint64_t wall_us)
{
	const struct tier_service *s = &d->service.last;
	const struct tier *t = d->t;
	uint64_t wall_ns = (tier_wall_us(t) - KV_MIN(tier_wall_us(t), s->served_us)) * 1000, ns = wall_ns;
	if (t->now_ns >= s->clock_ns) /* probably no reboot: the clock that says less */
		ns = KV_MIN(wall_ns, t->now_ns - s->clock_ns);
	if (wall_us <= s->served_us)
		return ns + (s->served_us - wall_us) * 1000;
	return ns - KV_MIN(ns, (wall_us - s->served_us) * 1000);
}

/* Entries become tombstones of the store. */
static void entries_give(struct tier_drive *d)
{
	struct tier *t = d->t;
	struct tier_tomb e;
	for (uint64_t n = d->log.oldest; n && n < d->log.number; n++) {
		uint64_t ns;
		if (!entry_of(d, n, &e))
			continue;
		ns = age_ns(d, (e.when >> TIER_TOMB_MS) * 1000);
		tombs_former(&t->store->tombs, e.id, t->now_ns > ns ? t->now_ns - ns : 1, e.when & TIER_TOMB_TOUCHED,
			     t->now_ns);
	}
	free(d->log.all);
	d->log.all = NULL;
}

/* All of it is read. */
static void log_take(struct tier_drive *d)
{
	uint64_t newest = newest_of(d), page, since_us = d->service.last.since_us;
	struct tier_tomb e;
	d->log.oldest = newest ? oldest_of(d, newest) : 0;
	d->log.number = newest + 1;
	page = newest / TIER_TOMBS_PAGE % d->log.pages;
	memcpy(d->log.mem, d->log.all + page * TIER_PAGE, TIER_PAGE);
	if (d->log.oldest > 1) { /* older ones are gone; each has its time of arrival */
		for (page = d->log.oldest; !entry_of(d, page, &e); page++)
			;
		since_us = KV_MAX(since_us, (e.when >> TIER_TOMB_MS) * 1000);
	}
	d->log.since_ns = d->service.last.version ? (int64_t)(d->t->now_ns - age_ns(d, since_us)) : INT64_MAX;
	/* A process that logged nothing says so: it knew of all deletions only while it served. */
	d->log.taken = d->service.last.since_us < d->service.last.served_us ? d->t->noted : 0;
	d->t->hooks->logged(d->t);
	if (d->t->remembers && d->log.all)
		entries_give(d);
	log_pump(d);
}

static void read_done(struct tier_io *io, int64_t result);

static void read_go(struct tier_drive *d)
{
	uint32_t left = d->log.pages * TIER_PAGE - d->log.got;
	d->log.flying = true;
	drive_begin(d, &d->log.io, read_done, TIER_FRONT_BYTES + d->log.got, d->log.all + d->log.got,
		    KV_MIN(left, (uint32_t)TIER_BUFFER), false);
}

static void read_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	result = drive_ended(d, io, result);
	d->log.flying = false;
	if (d->t->stopped || d->state == TIER_DOWN)
		return;
	d->log.got += result > 0 ? (uint32_t)result / TIER_PAGE * TIER_PAGE : 0;
	if (d->log.got >= d->log.pages * TIER_PAGE)
		log_take(d);
	else if (result >= TIER_PAGE)
		read_go(d);
	else
		drive_down(d, "its log of deletions could not be read");
}

void log_read(struct tier_drive *d, bool fresh)
{
	if (log_ready(d) && !fresh)
		return;
	free(d->log.all);
	d->log =
		(struct tier_log){.mem = d->log.mem, .pages = d->log.pages, .mark = d->log.mark, .since_ns = INT64_MIN};
	if (fresh) {
		d->log.number = 1;
		d->t->hooks->logged(d->t);
		return;
	}
	d->log.all = aligned_alloc(TIER_PAGE, (size_t)d->log.pages * TIER_PAGE);
	if (d->log.all)
		read_go(d);
	else
		drive_down(d, "there is no memory to read its log of deletions");
}

void log_give(struct tier *t)
{
	for (unsigned i = 0; i < t->drives; i++)
		if (log_ready(t->drive[i]) && t->drive[i]->log.all)
			entries_give(t->drive[i]);
}

/* ---- write ---- */

/* Put new tombstones into the page, up to its end. Returns how many; *at: the next one. */
static uint32_t page_fill(struct tier_drive *d, uint64_t *at)
{
	const struct tombs *t = &d->t->store->tombs;
	uint32_t budget = UINT32_MAX, n = 0, first = (d->log.number - 1) % TIER_TOMBS_PAGE;
	uint64_t when_ms = tier_wall_us(d->t) / 1000 + 1;
	const struct tomb *from;
	if (first == 0)
		memset(d->log.mem, 0, TIER_PAGE);
	while (first + n < TIER_TOMBS_PAGE && (from = tombs_next(t, at, &budget)) != NULL) {
		struct tier_tomb e = {.number = d->log.number + n,
				      .id = from->id,
				      .when = when_ms << TIER_TOMB_MS | (from->expires_ns ? TIER_TOMB_TOUCHED : 0) | n};
		if (from->former)
			continue;
		tier_tomb_put(&e, d->super.id[0]);
		memcpy(d->log.mem + (first + n) * sizeof(e), &e, sizeof(e));
		n++;
	}
	return n;
}

static void write_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	result = drive_ended(d, io, result);
	d->log.flying = false;
	if (result == io->len) {
		d->log.number = d->log.flying_number;
		d->log.taken = d->log.flying_taken;
	} else if (d->log.flying_mark) {
		d->log.mark = d->log.flying_mark;
	}
	log_pump(d);
	heads_settle(d->t);
}

void log_pump(struct tier_drive *d)
{
	const struct tombs *t = &d->t->store->tombs;
	uint64_t at = d->log.taken, page;
	uint32_t n;
	if (!d->t->opt.members || d->state != TIER_UP || d->t->stopped || d->log.flying || !log_ready(d) ||
	    !d->t->remembers)
		return;
	if (t->put - at > t->count_max) { /* some are forgotten: first the record has to say so */
		d->service.late = true;
		at = t->put - t->count_max;
		d->log.taken = at;
	}
	if (d->service.late)
		return;
	n = page_fill(d, &at);
	if (n == 0) {
		d->log.taken = at;
		d->log.mark = 0;
		return;
	}
	page = (d->log.number - 1) / TIER_TOMBS_PAGE % d->log.pages;
	d->log.flying = true;
	d->log.flying_number = d->log.number + n;
	d->log.flying_taken = at;
	d->log.flying_mark = d->log.mark;
	d->log.mark = at < t->put ? d->log.mark : 0;
	d->log.io.durable = true;
	drive_begin(d, &d->log.io, write_done, TIER_FRONT_BYTES + page * TIER_PAGE, d->log.mem, TIER_PAGE, true);
}

void log_note(struct tier *t)
{
	if (!t->opt.members || t->noted == t->store->tombs.put)
		return;
	t->noted = t->store->tombs.put;
	t->marks++;
	for (unsigned i = 0; i < t->drives; i++) {
		if (!t->drive[i]->log.mark)
			t->drive[i]->log.mark = t->marks;
		log_down(t->drive[i]);
		log_pump(t->drive[i]);
	}
}

void log_down(struct tier_drive *d)
{
	if (d->state == TIER_DOWN && (d->log.mark || (d->log.flying && d->log.flying_mark)))
		heads_unsaved_log(d);
}
