/* SPDX-License-Identifier: Apache-2.0 */
/* table.c -- the namespaces and their generations on a device: what was cleared stays away after a crash.
 *
 * The table is written as a whole, in turn to two places, with a rising version: the last complete one counts. It is
 * written soon after any change. A clear waits for it, and so does each footer: a found record has its namespace in the
 * table, and if it is of another generation than the table says, it is void.
 *
 * The table also says since when a doubt waits for its verdicts: if the server ends before, the next one asks for all
 * deletions since then.
 *
 * At the start the store's namespaces get at least the generations of the tables. */
#include "store/tier/private.h"

#include <stdlib.h>

/* ---- write ---- */

/* A time of the shard's clock as the wall clock had it, and back; 0: never. */
static uint64_t wall_us_of(const struct tier *t, uint64_t ns)
{
	return ns ? tier_wall_us(t) - (t->now_ns - KV_MIN(t->now_ns, ns)) / 1000 : 0;
}

static uint64_t ns_of(const struct tier *t, uint64_t wall_us)
{
	uint64_t age_us = tier_wall_us(t) - KV_MIN(tier_wall_us(t), wall_us);
	return wall_us ? KV_MAX(t->now_ns - KV_MIN(t->now_ns, age_us * 1000), (uint64_t)1) : 0;
}

/* Returns the bytes of the table. */
static uint32_t table_fill(const struct tier_drive *d, uint8_t *to, uint64_t version)
{
	const struct spaces *all = &d->t->store->spaces;
	for (uint32_t i = 0; i < all->count; i++) {
		const struct space *sp = all->at[i];
		struct tier_note n = {.generation = sp->generation, .cleared_us = wall_us_of(d->t, sp->cleared_ns)};
		memcpy(n.name, sp->name, strlen(sp->name));
		memcpy(to + sizeof(struct tier_table) + i * sizeof(n), &n, sizeof(n));
	}
	return tier_table_put(to, d->super.id[0], version, all->floor, all->count, d->t->doubt_s) * TIER_PAGE;
}

static void table_done(struct tier_io *io, int64_t result);

static void table_send(struct tier_drive *d)
{
	uint64_t place = TIER_PAGE * (1 + (d->names.version + 1) % 2 * TIER_TABLE_PAGES);
	d->names.io.durable = true;
	drive_begin(d, &d->names.io, table_done, place + d->names.sent, d->names.mem + d->names.sent,
		    d->names.bytes - d->names.sent, true);
}

void table_pump(struct tier_drive *d)
{
	if (d->state != TIER_UP || d->t->stopped || d->names.flying)
		return;
	if (table_clean(d)) {
		d->names.mark = 0;
		return;
	}
	d->names.flying = true;
	d->names.flying_changes = d->t->store->spaces.changes;
	d->names.flying_mark = d->names.mark;
	d->names.mark = 0;
	d->names.sent = 0;
	d->names.bytes = table_fill(d, d->names.mem, d->names.version + 1);
	table_send(d);
}

static void table_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	result = drive_ended(d, io, result);
	if (result > 0)
		d->names.sent += (uint32_t)result / TIER_PAGE * TIER_PAGE;
	if (result >= TIER_PAGE && d->names.sent < d->names.bytes) {
		table_send(d);
		return;
	}
	d->names.flying = false;
	if (d->names.sent >= d->names.bytes) {
		d->names.version++;
		d->names.saved = d->names.flying_changes;
	} else if (d->names.flying_mark) {
		d->names.mark = d->names.flying_mark;
	}
	table_pump(d);
	writer_pump(d);
	heads_settle(d->t);
}

void table_mark(struct tier_drive *d, uint64_t mark)
{
	if (table_clean(d))
		return;
	if (!d->names.mark)
		d->names.mark = mark;
	table_down(d);
	table_pump(d);
}

void table_down(struct tier_drive *d)
{
	if (d->state == TIER_DOWN && (d->names.mark || (d->names.flying && d->names.flying_mark)))
		heads_unsaved_log(d);
}

uint32_t table_make(struct tier_drive *d, uint8_t *front)
{
	memset(front, 0, TIER_PAGE);
	memcpy(front, &d->super, sizeof(d->super));
	d->names.count = 0;
	d->names.version = 2; /* in the first place */
	d->names.saved = d->t->store->spaces.changes;
	return TIER_PAGE + table_fill(d, front + TIER_PAGE, d->names.version);
}

/* ---- read ---- */

static void generation_least(struct tier *t, struct space *sp, uint64_t generation, uint64_t cleared_us)
{
	bool cleared = t->cleared[sp->index / 8] >> sp->index % 8 & 1;
	if (sp->generation > generation || (sp->generation == generation && !cleared))
		return;
	if (cleared) {
		store_space_clear(t->store, sp, generation + (generation < UINT64_MAX), t->now_ns);
	} else {
		store_space_advance(t->store, sp, generation, t->now_ns);
		sp->cleared_ns = KV_MAX(ns_of(t, cleared_us), (uint64_t)1);
	}
}

static int name_order(const void *a, const void *b)
{
	uint64_t x = ((const struct tier_name *)a)->hash, y = ((const struct tier_name *)b)->hash;
	return (x > y) - (x < y);
}

static void note_take(struct tier_drive *d, const struct tier_note *n, uint8_t *seen)
{
	struct tier *t = d->t;
	struct space *sp;
	if (space_take(&t->store->spaces, n->name, t->now_ns, &sp) != 0) {
		space_floor(&t->store->spaces, n->generation + (n->generation < UINT64_MAX));
		return;
	}
	generation_least(t, sp, n->generation, n->cleared_us);
	seen[sp->index / 8] |= (uint8_t)(1u << sp->index % 8);
	d->names.names[d->names.count++] = (struct tier_name){tier_space_hash(&d->super, n->name), sp->index};
}

static void table_take(struct tier_drive *d, const struct tier_table *table, const uint8_t *notes)
{
	struct spaces *all = &d->t->store->spaces;
	uint8_t seen[SPACES_MAX / 8] = {0};
	d->names.names = (struct tier_name *)(void *)d->names.mem;
	d->names.count = 0;
	for (uint32_t i = 0; i < table->count; i++) {
		struct tier_note n;
		memcpy(&n, notes + i * sizeof(n), sizeof(n));
		note_take(d, &n, seen);
	}
	for (uint32_t i = 0; i < all->count; i++)
		if (!(seen[i / 8] >> i % 8 & 1))
			generation_least(d->t, all->at[i], table->floor, 0);
	space_floor(all, table->floor);
	qsort(d->names.names, d->names.count, sizeof(d->names.names[0]), name_order);
	d->names.version = table->version;
	d->names.saved = UINT64_MAX; /* numbers differ here */
}

bool table_read(struct tier_drive *d, const uint8_t *front)
{
	struct tier_table table;
	const uint8_t *from = tier_table_newest(front, d->super.id[0], &table);
	if (!from)
		return false;
	table_take(d, &table, from + sizeof(table));
	if (table.doubt_s)
		d->t->doubt_s = d->t->doubt_s ? KV_MIN(d->t->doubt_s, table.doubt_s) : table.doubt_s;
	return true;
}

struct space *table_space(const struct tier_drive *d, const struct tier_entry *e)
{
	const struct tier_name key = {.hash = e->space_hash};
	const struct tier_name *n =
		bsearch(&key, d->names.names, d->names.count, sizeof(d->names.names[0]), name_order);
	struct space *sp = n ? d->t->store->spaces.at[n->space] : NULL;
	return sp && table_current(d, sp, e) ? sp : NULL;
}

/* ---- doubt ---- */

static void doubt_set(struct tier *t, uint64_t wall_us)
{
	t->doubt_s = (uint32_t)KV_MIN(wall_us / 1000000, (uint64_t)UINT32_MAX);
	t->store->spaces.changes++; /* so the tables are written */
}

void table_doubt(struct tier *t)
{
	if (t->store->doubt.how == DOUBT_WAIT) {
		uint64_t silent_us = t->started ? 0 : t->opt.silent_ns / 1000;
		if (!t->doubt_s)
			doubt_set(t, KV_MAX(tier_wall_us(t) - KV_MIN(tier_wall_us(t), silent_us), (uint64_t)1000000));
	} else if (t->doubt_s && !t->judge.busy && !tier_key_reading(t) && heads_unsaved(t) == UINT64_MAX) {
		doubt_set(t, 0);
	}
}

/* ---- records of earlier generations ---- */

static bool earlier(const struct tier *t, const struct tier_item *i)
{
	return i->age != (t->store->spaces.at[i->space]->generation & 15);
}

void table_sweep(struct tier *t, uint32_t budget)
{
	if (t->swept_clears != t->store->spaces.clears) {
		t->swept_clears = t->store->spaces.clears;
		t->sweep = t->records.made;
	}
	for (; t->sweep > 0 && budget > 0; t->sweep--, budget--)
		if (!t->records.item[t->sweep].dead && earlier(t, &t->records.item[t->sweep]))
			tier_key_drop(t, t->sweep, false);
}
