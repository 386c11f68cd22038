/* SPDX-License-Identifier: Apache-2.0 */
/* service.c -- the record of service: until when this server served, with which members, and since when its log of
 * deletions is complete. It is written every few seconds; an old one is harmless: the absence seems longer.
 *
 * The newest record of all drives counts, if every drive that it names is here with its log. Then the log's claim is
 * that of the store's tombstones: to others it seems that this server was never restarted. */
#include "store/tier/private.h"

#include <stdlib.h>

#define EVERY_NS 5000000000ull

void service_read(struct tier_drive *d, const uint8_t *front)
{
	(void)tier_service_get(front + (size_t)TIER_SERVICE_PAGE * TIER_PAGE, d->super.id[0], &d->service.last);
	d->service.version = d->service.last.version;
}

/* ---- what earlier processes knew ---- */

static bool drive_here(const struct tier *t, uint64_t id)
{
	bool here = false;
	for (unsigned i = 0; i < t->drives; i++)
		here |= t->drive[i]->super.id[0] == id && log_ready(t->drive[i]);
	return here;
}

/* The drive with the newest record; NULL: none, or another drive has a newer log. */
static const struct tier_drive *newest(const struct tier *t)
{
	const struct tier_drive *best = NULL;
	for (unsigned i = 0; i < t->drives; i++) {
		const struct tier_drive *d = t->drive[i];
		if (log_ready(d) && d->service.last.version &&
		    (!best || d->service.last.served_us > best->service.last.served_us))
			best = d;
	}
	for (uint32_t i = 0; best && i < best->service.last.drives; i++)
		if (!drive_here(t, best->service.last.drive[i]))
			return NULL;
	return best;
}

void service_settle(struct tier *t)
{
	const struct tier_drive *best;
	if (t->remembers)
		return;
	for (unsigned i = 0; i < t->drives; i++)
		if (!log_ready(t->drive[i]) && t->drive[i]->state != TIER_DOWN)
			return;
	t->remembers = true;
	best = newest(t);
	if (best)
		t->store->tombs.since_ns = KV_MIN(t->store->tombs.since_ns, best->log.since_ns);
	log_give(t);
}

bool tier_remembers(const struct tier *t)
{
	return t->remembers;
}

/* ---- the record of this process ---- */

void tier_members(struct tier *t, const uint64_t *names, uint32_t count)
{
	uint64_t *copy = malloc((count + 1) * sizeof(*copy));
	if (!copy) /* the record has the former ones: more members than needed have to answer then */
		return;
	memcpy(copy, names, count * sizeof(*copy));
	free(t->member);
	t->member = copy;
	t->members = KV_MIN(count, (uint32_t)TIER_MEMBERS_MAX);
	for (unsigned i = 0; i < t->drives; i++) {
		t->drive[i]->service.due_ns = 0;
		service_pump(t->drive[i]);
	}
}

static uint64_t since_us(const struct tier_drive *d)
{
	const struct tier *t = d->t;
	int64_t since_ns = KV_MAX(t->store->tombs.since_ns, d->log.since_ns);
	int64_t age_us = KV_MAX(((int64_t)t->now_ns - since_ns) / 1000, (int64_t)0);
	return t->opt.members ? tier_wall_us(t) - KV_MIN(tier_wall_us(t), (uint64_t)age_us) : tier_wall_us(t);
}

static uint32_t record_fill(struct tier_drive *d)
{
	struct tier *t = d->t;
	struct tier_service s = {.id = d->super.id[0],
				 .version = d->service.version + 1,
				 .served_us = tier_wall_us(t),
				 .clock_ns = t->now_ns,
				 .since_us = since_us(d),
				 .members = t->members};
	for (unsigned i = 0; i < t->drives; i++)
		if (t->drive[i]->state == TIER_UP && log_ready(t->drive[i]))
			s.drive[s.drives++] = t->drive[i]->super.id[0];
	memset(d->service.mem, 0, (size_t)TIER_SERVICE_PAGES * TIER_PAGE);
	memcpy(d->service.mem, &s, sizeof(s));
	if (t->members)
		memcpy(d->service.mem + sizeof(s), t->member, t->members * sizeof(*t->member));
	return tier_service_put(d->service.mem) * TIER_PAGE;
}

static void record_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	result = drive_ended(d, io, result);
	d->service.flying = false;
	if (result == io->len) {
		d->service.version++;
		d->service.late = false;
	}
	log_pump(d);
}

void service_pump(struct tier_drive *d)
{
	const struct tier *t = d->t;
	uint64_t place = TIER_SERVICE_PAGE + (d->service.version + 1) % 2 * TIER_SERVICE_PAGES;
	if (d->state != TIER_UP || t->stopped || d->service.flying || !log_ready(d) || !t->remembers ||
	    (!d->service.late && t->now_ns < d->service.due_ns))
		return;
	d->service.due_ns = t->now_ns + EVERY_NS;
	d->service.flying = true;
	d->service.io.durable = d->service.late;
	drive_begin(d, &d->service.io, record_done, place * TIER_PAGE, d->service.mem, record_fill(d), true);
}
