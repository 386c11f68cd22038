/* SPDX-License-Identifier: Apache-2.0 */
/* gets.c -- reads from the tier into memory.
 *
 *   tier_get --> PENDING -- on the device --> ROOM -- memory is cleared --> PIECES -- all are taken --> end
 *
 * States may be skipped. Pieces of 256 KiB are read in any order, up to TIER_READS at a time of all gets of the drive,
 * and taken in order: head and key are compared, bytes are copied and summed. Only then the block is committed. A get
 * counts as a reader of its segment, so the segment is not written to. A void one (deleted, cleared) ends as a miss. */
#include "store/tier/private.h"

#include <errno.h>

enum { MEMORY_SHARE = 8 }; /* of the memory, at most, for values being read */

static struct kv_list *chain_of(struct tier *t, const struct tier_id *id)
{
	return &t->gets[id->hash % GET_CHAINS];
}

static struct tier_get *get_find(struct tier *t, const struct tier_id *id)
{
	KV_LIST_EACH (n, chain_of(t, id)) {
		struct tier_get *g = KV_LIST_ENTRY(n, struct tier_get, node);
		if (g->id.hash == id->hash && g->id.more == id->more && !g->gone)
			return g;
	}
	return NULL;
}

static void slot_release(struct tier_drive *d, struct tier_slot *s)
{
	s->get = NULL;
	if (s->state == SLOT_FLYING)
		return;
	s->state = SLOT_FREE;
	kv_list_add_tail(&d->slots_free, &s->node);
}

/* ---- the end ---- */

static void memory_release(struct tier *t, struct tier_get *g)
{
	struct block *b = g->block;
	t->reading_bytes -= g->len;
	if (g->room)
		store_stage_end(t->store, g->room);
	if (!b || g->room)
		return;
	if (b->state == BLOCK_STAGED)
		store_drop(t->store, b);
	block_unref(t->store, b);
}

static void get_end(struct tier *t, struct tier_get *g, enum tier_end how)
{
	struct kv_list waits, *n;
	kv_list_init(&waits);
	kv_list_splice_tail(&waits, &g->waits);
	while ((n = kv_list_pop(&g->read)) != NULL)
		slot_release(g->d, KV_LIST_ENTRY(n, struct tier_slot, node));
	kv_list_del(&g->node);
	kv_list_del(&g->queue);
	KV_ASSERT(g->d->fifo.segment[g->segment].readers > 0);
	g->d->fifo.segment[g->segment].readers--;
	g->d->pieces -= g->pieces - g->taken;
	memory_release(t, g);
	slab_put(&t->gets_slab, g);
	t->totals.failed += how == TIER_GONE && !kv_list_empty(&waits);
	while ((n = kv_list_pop(&waits)) != NULL) {
		struct tier_wait *w = KV_LIST_ENTRY(n, struct tier_wait, node);
		w->get = NULL;
		w->end(w, how);
	}
}

/* At most one line a second of each drive: it may be that no byte there is right. */
static void damaged_log(struct tier_drive *d)
{
	uint64_t more;
	if (!kv_rate_take(&d->damaged_lines, d->t->now_ns, 1, &more))
		return;
	kv_event(d->t->opt.log, KV_LOG_WARN,
		 KV_EVENT("tier_damaged", KV_NUMBER("shard", d->t->opt.shard), KV_FIELD("device", d->dev->name),
			  KV_NUMBER("more", more)),
		 "shard %u: a value on %s is damaged or was overwritten; it is dropped (%llu more since the last line)",
		 d->t->opt.shard, d->dev->name, (unsigned long long)more);
}

static void get_damaged(struct tier *t, struct tier_get *g)
{
	g->d->stats.damaged++;
	if (tier_records_find(&t->records, &g->id) == g->item)
		tier_key_drop(t, g->item, true);
	damaged_log(g->d);
	get_end(t, g, TIER_GONE);
}

static uint64_t born_ns(const struct tier *t, const struct tier_get *g)
{
	uint64_t wall_us = tier_wall_us(t), age_us = wall_us - KV_MIN(wall_us, tier_born_us(g->d, &g->entry));
	return t->now_ns - KV_MIN(t->now_ns, age_us * 1000);
}

/* When the value's life ends, on the shard's clock: by the index, whose whole seconds are never later than what was
 * written or said by a TOUCH since. */
static uint64_t expires_ns(const struct tier *t, const struct tier_get *g)
{
	uint64_t us = g->expires_s * 1000000ull, wall_us = tier_wall_us(t);
	if (us == 0)
		return KV_NEVER;
	return t->now_ns + (us > wall_us ? us - wall_us : 0) * 1000;
}

/* Its space was cleared since it began. */
static bool cleared(const struct tier *t, const struct tier_get *g)
{
	return tier_id_in(t, t->store->spaces.at[g->space], g->key, g->key_len).hash != g->id.hash;
}

static void get_commit(struct tier *t, struct tier_get *g)
{
	const struct space *sp = t->store->spaces.at[g->space];
	uint64_t born = KV_MAX(born_ns(t, g), sp->cleared_ns), expires = expires_ns(t, g); /* of this generation */
	struct block *holder;
	int rc = g->gone || store_dead(t->store, born) || cleared(t, g) || expires <= t->now_ns ? -KV_EDELETED : 0;
	if (rc == 0) {
		rc = store_copy_allowed(t->store, sp, g->block->item.hash, born, t->now_ns, &expires);
		if (rc && tier_records_find(&t->records, &g->id) == g->item) /* deleted without a word to the tier */
			tier_key_drop(t, g->item, true);
	}
	if (rc == 0)
		rc = store_commit_born(t->store, g->block, g->entry.sum, expires, born, t->now_ns, &holder);
	get_end(t, g, rc == 0 || rc == -KV_EEXIST ? TIER_HERE : TIER_GONE);
}

/* ---- pieces ---- */

static uint32_t piece_bytes(const struct tier_get *g, uint32_t piece)
{
	uint32_t all = tier_pages(g->len) * TIER_PAGE;
	return KV_MIN(all - piece * (uint32_t)TIER_READ, (uint32_t)TIER_READ);
}

static void slot_done(struct tier_io *io, int64_t result);

static void slot_read(struct tier_drive *d, struct tier_slot *s)
{
	const struct tier_get *g = s->get;
	s->state = SLOT_FLYING;
	drive_begin(d, &s->io, slot_done, tier_place(d, g->segment, g->page) + (uint64_t)s->piece * TIER_READ + s->got,
		    s->mem + s->got, piece_bytes(g, s->piece) - s->got, false);
}

void gets_pump(struct tier_drive *d)
{
	while (d->state == TIER_UP && !kv_list_empty(&d->gets) && !kv_list_empty(&d->slots_free)) {
		struct tier_get *g = KV_LIST_ENTRY(d->gets.next, struct tier_get, queue);
		struct tier_slot *s = KV_LIST_ENTRY(kv_list_pop(&d->slots_free), struct tier_slot, node);
		s->get = g;
		s->piece = g->asked++;
		s->got = 0;
		kv_list_add_tail(&g->read, &s->node);
		if (g->asked == g->pieces) {
			kv_list_del(&g->queue);
			kv_list_init(&g->queue);
		}
		slot_read(d, s);
	}
}

static void slot_done(struct tier_io *io, int64_t result)
{
	struct tier_drive *d = io->arg;
	struct tier_slot *s = KV_CONTAINER(io, struct tier_slot, io);
	uint64_t ns;
	result = drive_ended(d, io, result); /* ends the gets if the drive is down then */
	ns = d->t->now_ns - io->begun_ns;
	s->state = SLOT_READ;
	if (!s->get) {
		slot_release(d, s);
		gets_pump(d);
		return;
	}
	d->piece_ns = d->piece_ns ? (7 * d->piece_ns + ns) / 8 : ns;
	if (result > 0)
		s->got += (uint32_t)result / TIER_PAGE * TIER_PAGE;
	if (result >= TIER_PAGE && s->got < piece_bytes(s->get, s->piece))
		slot_read(d, s);
	else if (s->got < piece_bytes(s->get, s->piece))
		get_end(d->t, s->get, TIER_GONE);
	gets_pump(d);
}

static bool head_right(const struct tier *t, struct tier_get *g, const uint8_t *head)
{
	const uint8_t *key;
	if (tier_entry_get(head, TIER_HEAD_BYTES, &g->entry, &key) != 0)
		return false;
	if (g->entry.id != g->d->super.id[0] || g->entry.page != g->page || g->entry.len != g->len ||
	    g->entry.sequence != g->d->fifo.segment[g->segment].sequence)
		return false;
	if (g->entry.key_len != g->key_len || memcmp(key, g->key, g->key_len) != 0)
		return false;
	return table_current(g->d, t->store->spaces.at[g->space], &g->entry);
}

static void piece_take(struct tier *t, struct tier_get *g, struct tier_slot *s)
{
	uint32_t skip = g->taken == 0 ? TIER_HEAD_BYTES : 0;
	uint64_t at = (uint64_t)g->taken * TIER_READ + skip - TIER_HEAD_BYTES;
	uint32_t n = (uint32_t)KV_MIN(g->len - at, (uint64_t)piece_bytes(g, g->taken) - skip);
	uint8_t *to = store_data(t->store, g->block) + at;
	if (g->gone || cleared(t, g)) {
		get_end(t, g, TIER_GONE);
		return;
	}
	if (g->taken == 0 && !head_right(t, g, s->mem)) {
		get_damaged(t, g);
		return;
	}
	memcpy(to, s->mem + skip, n);
	kv_hasher_update(&g->hasher, to, n);
	g->taken++;
	g->d->pieces--;
	kv_list_del(&s->node);
	slot_release(g->d, s);
	if (g->taken < g->pieces)
		return;
	if (kv_hasher_digest(&g->hasher) == g->entry.sum)
		get_commit(t, g);
	else
		get_damaged(t, g);
}

static struct tier_slot *piece_next(struct tier_drive *d)
{
	for (unsigned i = 0; i < TIER_READS; i++) {
		struct tier_slot *s = &d->slot[i];
		if (s->state == SLOT_READ && s->get && s->piece == s->get->taken)
			return s;
	}
	return NULL;
}

/* ---- memory ---- */

static void get_fill(struct tier *t, struct tier_get *g)
{
	struct tier_drive *d = g->d;
	if (t->opt.area)
		kv_area_ready(t->opt.area, g->block->offset, g->block->len);
	g->room = NULL;
	g->state = GET_PIECES;
	kv_list_del(&g->queue);
	kv_list_add_tail(&d->gets, &g->queue);
	gets_pump(d);
}

/* Find memory. 0: found, or being cleared; else there is none. */
static int get_stage(struct tier *t, struct tier_get *g)
{
	struct space *entered = t->store->space;
	int rc = -KV_ESTALE;
	store_enter(t->store, t->store->spaces.at[g->space]);
	if (!cleared(t, g))
		rc = store_stage(t->store, g->key, g->key_len, g->len, ARENA_LOW, &g->block, &g->room);
	store_enter(t->store, entered);
	if (rc == 0)
		get_fill(t, g);
	if (rc == -EAGAIN) {
		g->state = GET_ROOM;
		kv_list_del(&g->queue);
		kv_list_add_tail(&t->rooms, &g->queue);
	} else if (rc) {
		g->block = NULL;
		g->room = NULL;
	}
	return rc == -EAGAIN ? 0 : rc;
}

static uint32_t rooms_step(struct tier *t)
{
	unsigned budget = STORE_STEPS_AT_ONCE;
	uint32_t done = 0;
	for (unsigned tries = 16; budget && tries && !kv_list_empty(&t->rooms); tries--) {
		struct tier_get *g = KV_LIST_ENTRY(t->rooms.next, struct tier_get, queue);
		int rc = store_stage_step(t->store, g->room, &budget);
		kv_list_del(&g->queue);
		kv_list_add_tail(&t->rooms, &g->queue);
		if (rc == -EAGAIN && g->room->waits) {
			kv_list_del(&g->queue);
			kv_list_add_tail(&t->rooms_waiting, &g->queue);
		}
		if (rc == -EAGAIN)
			continue;
		done++;
		g->room = NULL;
		if (rc == 0) {
			get_fill(t, g);
		} else {
			g->block = NULL;
			get_end(t, g, TIER_GONE);
		}
	}
	return done;
}

uint32_t gets_step(struct tier *t, uint32_t budget)
{
	uint32_t done = rooms_step(t);
	for (unsigned i = 0; i < t->drives; i++) {
		struct tier_drive *d = t->drive[i];
		struct tier_slot *s;
		while (done < budget && d->pieces && (s = piece_next(d)) != NULL) {
			done += TIER_READ;
			piece_take(t, s->get, s);
		}
		gets_pump(d);
	}
	return done;
}

/* ---- begin ---- */

static bool too_late(const struct tier_drive *d, uint32_t pieces, uint64_t deadline_ns, uint64_t now_ns)
{
	uint64_t rounds = (d->pieces + pieces + TIER_READS - 1) / TIER_READS;
	return now_ns + rounds * d->piece_ns > deadline_ns;
}

static struct tier_get *get_new(struct tier *t, uint32_t item, const struct tier_id *id, const void *key,
				size_t key_len)
{
	struct tier_get *g = slab_get(&t->gets_slab);
	const struct tier_item *i = &t->records.item[item];
	struct tier_drive *d = tier_drive_of(t, item);
	if (!g)
		return NULL;
	g->d = d;
	g->item = item;
	g->segment = i->segment - d->fifo.opt.base;
	g->page = i->page;
	g->len = i->len;
	g->pieces = (tier_pages(i->len) * TIER_PAGE + TIER_READ - 1) / TIER_READ;
	g->asked = g->taken = 0;
	g->gone = false;
	g->space = t->store->space->index;
	g->expires_s = i->expires_s;
	g->block = NULL;
	g->room = NULL;
	g->id = *id;
	g->key_len = (uint8_t)key_len;
	memcpy(g->key, key, key_len);
	kv_hasher_init(&g->hasher);
	kv_list_init(&g->waits);
	kv_list_init(&g->read);
	kv_list_init(&g->queue);
	kv_list_add_tail(chain_of(t, id), &g->node);
	d->fifo.segment[g->segment].readers++;
	d->pieces += g->pieces;
	t->reading_bytes += g->len;
	return g;
}

static int get_begin(struct tier *t, uint32_t item, const struct tier_id *id, const void *key, size_t key_len,
		     struct tier_get **out)
{
	struct tier_get *g;
	if (t->reading_bytes && t->reading_bytes + t->records.item[item].len > t->store->arena.limit / MEMORY_SHARE)
		return -KV_EBUSY;
	g = get_new(t, item, id, key, key_len);
	if (!g)
		return -KV_EBUSY;
	*out = g;
	tier_fifo_use(&t->records, item);
	if (t->records.item[item].pending) {
		g->state = GET_PENDING;
		kv_list_add_tail(&t->pending, &g->queue);
		g->d->w.hurry = true;
		return 0;
	}
	if (get_stage(t, g) == 0)
		return 0;
	get_end(t, g, TIER_GONE);
	return -KV_EBUSY;
}

static int get_first(struct tier *t, const struct tier_id *id, const void *key, size_t key_len, uint64_t deadline_ns,
		     struct tier_get **out)
{
	uint32_t item = tier_hidden(t) ? 0 : tier_key_find(t, id), pages;
	struct tier_drive *d = item ? tier_drive_of(t, item) : NULL;
	int rc = -KV_ETIMEOUT;
	if (!d || d->state == TIER_DOWN) {
		t->totals.misses++;
		return -KV_ENOTFOUND;
	}
	pages = tier_pages(t->records.item[item].len);
	if (!too_late(d, (pages * TIER_PAGE + TIER_READ - 1) / TIER_READ, deadline_ns, t->now_ns))
		rc = get_begin(t, item, id, key, key_len, out);
	if (rc)
		t->totals.busy++;
	else
		t->totals.hits++;
	return rc;
}

int tier_get(struct tier *t, const void *key, size_t key_len, uint64_t deadline_ns, uint64_t now_ns,
	     struct tier_wait *w)
{
	struct tier_id id = tier_id_of(t, key, key_len);
	struct tier_get *g = get_find(t, &id);
	int rc = 0;
	tier_time(t, now_ns);
	if (g)
		t->totals.shared++;
	else
		rc = get_first(t, &id, key, key_len, deadline_ns, &g);
	if (rc)
		return rc;
	w->get = g;
	kv_list_add_tail(&g->waits, &w->node);
	return 0;
}

void tier_get_cancel(struct tier *t, struct tier_wait *w)
{
	(void)t; /* the value is read all the same: somebody asked for it */
	if (!w->get)
		return;
	kv_list_del(&w->node);
	w->get = NULL;
}

/* ---- from outside ---- */

void gets_void(struct tier *t, const struct tier_id *id)
{
	struct tier_get *g = get_find(t, id);
	if (g)
		g->gone = true;
}

void gets_touch(struct tier *t, const struct tier_id *id, uint32_t expires_s)
{
	struct tier_get *g = get_find(t, id);
	if (g)
		g->expires_s = expires_s;
}

/* (Of records whose write failed, the item is dead; it is not reused before its segment, which has a reader.) */
static struct tier_get *settled(struct tier *t)
{
	KV_LIST_EACH (n, &t->pending) {
		struct tier_get *g = KV_LIST_ENTRY(n, struct tier_get, queue);
		const struct tier_item *i = &t->records.item[g->item];
		if (i->dead || !i->pending)
			return g;
	}
	return NULL;
}

void gets_settle(struct tier *t)
{
	struct tier_get *g;
	while ((g = settled(t)) != NULL)
		if (t->records.item[g->item].dead || get_stage(t, g) != 0)
			get_end(t, g, TIER_GONE);
}

static void gets_end(struct tier *t, const struct tier_drive *d)
{
	for (unsigned i = 0; i < GET_CHAINS; i++) {
		struct kv_list *n = t->gets[i].next;
		while (n != &t->gets[i]) {
			struct tier_get *g = KV_LIST_ENTRY(n, struct tier_get, node);
			if (!d || g->d == d) {
				get_end(t, g, TIER_GONE);
				n = t->gets[i].next; /* its waiters may have begun others, elsewhere */
			} else {
				n = n->next;
			}
		}
	}
}

void gets_down(struct tier_drive *d)
{
	gets_end(d->t, d);
}

void gets_stop(struct tier *t)
{
	gets_end(t, NULL);
}
