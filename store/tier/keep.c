/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c -- clears the next segment, and writes its records with hits again.
 *
 * The record is read in pieces, one after the other, and copied to the writer, which begins a new record for it once
 * the first piece is here: from then on the index has the new one. The bytes are not checked here, but when they are
 * read for somebody; only the head is. */
#include "store/tier/private.h"

#include <errno.h>

static void keep_end(struct tier_drive *d)
{
	tier_fifo_moved(&d->fifo, d->k.item);
	d->k.item = 0;
}

static void piece_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	result = drive_ended(d, io, result);
	d->k.flying = false;
	d->k.at = 0;
	d->k.have = result > 0 ? (uint32_t)result / TIER_PAGE * TIER_PAGE : 0;
	d->k.page += d->k.have / TIER_PAGE;
	d->k.failed |= d->k.have == 0;
}

static void piece_read(struct tier_drive *d, const struct tier_item *i)
{
	uint32_t left = (tier_pages(i->len) - d->k.page) * TIER_PAGE;
	d->k.flying = true;
	drive_begin(d, &d->k.io, piece_done, tier_place(d, i->segment - d->fifo.opt.base, i->page + d->k.page),
		    d->k.mem, KV_MIN(left, (uint32_t)TIER_READ), false);
}

/* False: not now, or it is over. */
static bool record_begin(struct tier_drive *d, const struct tier_item *i)
{
	struct tier_id id = {tier_item_hash(i), i->more};
	struct tier_entry e;
	struct space *sp = d->t->store->spaces.at[i->space];
	const uint8_t *key;
	int rc;
	if (i->dead || d->k.failed || tier_entry_get(d->k.mem, TIER_HEAD_BYTES, &e, &key) != 0 ||
	    e.id != d->super.id[0] || e.page != i->page || e.len != i->len ||
	    e.sequence != tier_fifo_segment(&d->fifo, i)->sequence || !table_current(d, sp, &e)) {
		keep_end(d);
		return false;
	}
	rc = writer_ready(d, e.len, e.key_len);
	if (rc == -EAGAIN)
		return false;
	if (i->expires_s != e.expires_us / 1000000) /* a TOUCH since */
		e.expires_us = i->expires_s * 1000000ull;
	e.born_us = tier_born_us(d, &e);
	tier_fifo_drop(&d->fifo, d->k.item);
	if (rc != 0 || !writer_begin(d, &id, sp, &e, key)) {
		keep_end(d);
		return false;
	}
	d->k.begun = true;
	d->k.at = TIER_HEAD_BYTES;
	return true;
}

/* Copy from the piece. A record that cannot be read is filled with zeros, and dropped. */
static uint32_t piece_copy(struct tier_drive *d, uint32_t budget)
{
	uint32_t n;
	if (d->k.failed) {
		if (!d->t->records.item[d->w.record].dead)
			tier_fifo_drop(&d->fifo, d->w.record);
		n = writer_copy(d, NULL, budget);
	} else {
		n = writer_copy(d, d->k.mem + d->k.at, KV_MIN(budget, d->k.have - d->k.at));
		d->k.at += n;
	}
	if (d->w.record == 0) {
		d->fifo.kept++;
		d->stats.values_kept++;
		keep_end(d);
	}
	return n;
}

/* The next record with a hit. */
static bool record_next(struct tier_drive *d)
{
	enum { LOOKS = 1024 };
	unsigned looks = LOOKS;
	uint32_t item;
	if (d->h.next != HEAD_DONE || tier_fifo_free(&d->fifo))
		return false;
	while ((item = tier_fifo_clear(&d->fifo, tier_wall_s(d->t), &looks)) != 0) {
		d->k = (struct tier_keep){.mem = d->k.mem, .item = item};
		if (d->fifo.open != d->fifo.opt.segments)
			return true;
		keep_end(d); /* there is no place for it */
	}
	return false;
}

uint32_t keep_step(struct tier_drive *d, uint32_t budget)
{
	uint32_t done = 0;
	while (d->state == TIER_UP && done < budget && (d->k.item || record_next(d)) && !d->k.flying) {
		const struct tier_item *i = &d->t->records.item[d->k.item];
		uint32_t n;
		if (!d->k.begun && d->k.have == 0 && !d->k.failed) {
			piece_read(d, i);
			break;
		}
		if (!d->k.begun) {
			if (!record_begin(d, i) && d->k.item)
				break;
			continue;
		}
		if (!d->k.failed && d->k.at == d->k.have) {
			piece_read(d, i);
			break;
		}
		n = piece_copy(d, budget - done);
		if (n == 0)
			break;
		done += n;
	}
	return done;
}

void keep_down(struct tier_drive *d)
{
	if (d->k.item)
		keep_end(d);
}
