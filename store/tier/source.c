/* SPDX-License-Identifier: Apache-2.0 */
/* source.c -- chooses values, and copies them to a writer, ahead of their eviction.
 *
 * A look at the policy's next victims gives up to AHEAD_MAX hints; they are followed one by one, if the block is still
 * the same. A value that has to leave before is copied at once, if a buffer has room for all of it; else it is lost.
 * The block being copied has a reference. */
#include "store/tier/private.h"

#include <errno.h>

enum {
	BLOCKS_SHARE = 16,
	AHEAD_SHARE = 16,
	AHEAD_MIN = 8, /* victims, however large: room for one value may take several */
	LOOK_SHARE = 8 /* all were written: look again when an eighth of them may have left */
};

static struct tier_id id_of(const struct block *b)
{
	return (struct tier_id){b->item.hash, tier_more(b->item.key, b->item.key_len)};
}

/* Whether its tenant has no room on the tier for one more value. */
static bool tenant_full(const struct tier *t, const struct tenant *of, uint64_t len)
{
	uint64_t cap = of->limit.tier, charge = tier_charge(t, len);
	return cap != UINT64_MAX && (of->tier_charged > cap || charge > cap - of->tier_charged);
}

/* Not to be written: the tier has it, its tenant has no room there, it is of an earlier generation, or others may have
 * deleted it: the tier judges its records once. (A clear leaves the highest generation as it is.) */
static bool needless(struct tier *t, const struct block *b)
{
	const struct space *sp = t->store->spaces.at[b->space];
	const struct tenant *of = sp->tenant;
	struct tier_id id = id_of(b);
	return !block_current(t->store, b) || sp->generation == UINT64_MAX || tenant_full(t, of, b->len) ||
	       !store_good(t->store, b) || tier_key_find(t, &id) != 0;
}

/* ---- hints ---- */

static struct block *hinted(const struct tier *t, const struct tier_hint *h)
{
	struct index_item *item = index_peek(&t->store->index, h->hash);
	struct block *b = item ? KV_CONTAINER(item, struct block, item) : NULL;
	return b && b->generation == h->generation && !expire_over(&b->expire, t->now_ns) ? b : NULL;
}

static struct tier_hint hint_of(const struct block *b)
{
	return (struct tier_hint){b->item.hash, b->generation};
}

static bool memory_short(const struct tier *t, uint64_t ahead)
{
	const struct store *s = t->store;
	return arena_free_bytes(&s->arena) < ahead || s->blocks.used > s->blocks_max - s->blocks_max / BLOCKS_SHARE;
}

static void look_ahead(struct tier *t)
{
	struct store *s = t->store;
	uint64_t ahead = t->opt.ahead_bytes ? t->opt.ahead_bytes : s->arena.limit / AHEAD_SHARE, bytes = 0;
	unsigned looked = 0;
	struct evict *e = store_evict_next(s);
	struct evict_peek peek;
	struct evict_node *n;
	t->source.ahead_first = t->source.ahead_count = 0;
	if (*s->evict.time - t->source.looked_time < t->source.look_again || !memory_short(t, ahead))
		return;
	evict_peek_begin(e, &peek);
	while (t->source.ahead_count < AHEAD_MAX && (bytes < ahead || looked++ < AHEAD_MIN) &&
	       (n = evict_peek_next(e, &peek, block_may_go)) != NULL) {
		struct block *b = KV_CONTAINER(n, struct block, evict);
		bytes += b->mem->size;
		if (!needless(t, b) && tier_admits(&t->admission, b->item.hash))
			t->source.ahead[t->source.ahead_count++] = hint_of(b);
	}
	t->source.looked_time = *s->evict.time;
	t->source.look_again = t->source.ahead_count ? 0 : KV_MAX(peek.looked / LOOK_SHARE, 1u);
}

/* The same one again until it is taken: the walk does not come back to it. */
static struct block *flush_next(struct tier *t)
{
	unsigned budget = STORE_STEPS_AT_ONCE;
	struct block *b;
	if (!t->source.flushing || t->source.flushed)
		return NULL;
	b = hinted(t, &t->source.flush);
	if (b && b->refs == 0 && !needless(t, b))
		return b;
	b = NULL;
	while (budget && !t->source.ranking.over && (b = ranking_next(t->store, &t->source.ranking, &budget)) != NULL &&
	       (needless(t, b) || b->refs > 0))
		ranking_done(t->store, b);
	if (t->source.ranking.over || (b && rank_of(&t->source.ranking, b) < RANK_HIT)) {
		ranking_end(&t->source.ranking);
		t->source.flushed = true;
		return NULL;
	}
	if (b)
		t->source.flush = hint_of(b);
	return b;
}

/* The next value to be written; NULL: none now. The caller takes it, or asks again. */
static struct block *source_next(struct tier *t, struct tier_hint **out_hint)
{
	for (; t->source.put_count > 0;
	     t->source.put_first = (t->source.put_first + 1) % PUTS_MAX, t->source.put_count--) {
		struct block *b = hinted(t, &t->source.put[t->source.put_first]);
		*out_hint = &t->source.put[t->source.put_first];
		if (b && !needless(t, b))
			return b;
	}
	if (t->source.ahead_count == 0)
		look_ahead(t);
	for (; t->source.ahead_count > 0; t->source.ahead_first++, t->source.ahead_count--) {
		struct block *b = hinted(t, &t->source.ahead[t->source.ahead_first]);
		*out_hint = &t->source.ahead[t->source.ahead_first];
		if (b && b->refs == 0 && !needless(t, b))
			return b;
	}
	*out_hint = NULL;
	return flush_next(t);
}

/* Its hint is used up. */
static void source_taken(struct tier *t, const struct tier_hint *hint)
{
	if (!hint)
		return;
	if (hint == &t->source.put[t->source.put_first] && t->source.put_count) {
		t->source.put_first = (t->source.put_first + 1) % PUTS_MAX;
		t->source.put_count--;
	} else {
		t->source.ahead_first++;
		t->source.ahead_count--;
	}
}

/* ---- a value to a drive ---- */

static struct tier_entry entry_of(const struct tier *t, const struct block *b)
{
	uint64_t wall_us = tier_wall_us(t), age_ns = t->now_ns - KV_MIN(t->now_ns, block_born_ns(b));
	struct tier_entry e = {.sum = b->checksum,
			       .generation = b->generation,
			       .born_us = wall_us - KV_MIN(wall_us, age_ns / 1000),
			       .len = (uint32_t)b->len,
			       .key_len = b->item.key_len};
	if (b->expire.when_ns != KV_NEVER)
		e.expires_us = wall_us + (b->expire.when_ns - KV_MIN(t->now_ns, b->expire.when_ns)) / 1000;
	return e;
}

/* A drive that takes a value of this size now. NULL: none; *out_never: none ever. */
static struct tier_drive *drive_for(struct tier *t, const struct block *b, uint64_t room, bool *out_never)
{
	*out_never = true;
	for (unsigned i = 0; i < t->drives; i++) {
		struct tier_drive *d = t->drive[(t->source.turn + i) % t->drives];
		int rc = -EAGAIN;
		if (d->k.item == 0)
			rc = writer_ready(d, (uint32_t)b->len, b->item.key_len);
		if (rc == 0 && writer_room(d) < room)
			rc = -EAGAIN;
		*out_never = *out_never && rc == -KV_ETOOBIG;
		if (rc == 0) {
			t->source.turn = (d->index + 1) % t->drives;
			return d;
		}
	}
	return NULL;
}

static bool begin(struct tier *t, struct tier_drive *d, const struct block *b)
{
	struct tier_id id = id_of(b);
	struct tier_entry e = entry_of(t, b);
	if (!writer_begin(d, &id, t->store->spaces.at[b->space], &e, b->item.key))
		return false;
	tier_written(&t->admission, b->item.hash);
	d->stats.values_written++;
	d->stats.value_bytes += b->len;
	return true;
}

static bool choose(struct tier *t)
{
	struct tier_hint *hint;
	struct block *b;
	bool never;
	while ((b = source_next(t, &hint)) != NULL) {
		uint64_t room = KV_MIN((uint64_t)tier_pages(b->len) * TIER_PAGE, (uint64_t)TIER_BUFFER);
		struct tier_drive *d = drive_for(t, b, room, &never);
		if (!d && !never)
			return false;
		if (!hint) {
			ranking_done(t->store, b);
			t->source.flush = (struct tier_hint){0, 0};
		}
		source_taken(t, hint);
		if (!d)
			continue;
		if (!begin(t, d, b))
			return false;
		block_ref(b);
		t->source.block = b;
		t->source.copied = 0;
		t->source.to = d;
		return true;
	}
	return false;
}

static void block_end(struct tier *t)
{
	struct block *b = t->source.block;
	t->source.block = NULL;
	block_unref(t->store, b);
}

uint32_t source_step(struct tier *t, uint32_t budget)
{
	uint32_t done = 0;
	while (done < budget && (t->source.block || choose(t))) {
		uint32_t left = (uint32_t)(t->source.block->len - t->source.copied);
		uint32_t n = writer_copy(t->source.to, store_data(t->store, t->source.block) + t->source.copied,
					 KV_MIN(left, budget - done));
		t->source.copied += n;
		done += n;
		if (n == left)
			block_end(t);
		else if (n == 0)
			break;
	}
	return done;
}

void source_down(struct tier_drive *d)
{
	if (d->t->source.block && d->t->source.to == d)
		block_end(d->t);
}

void source_stop(struct tier *t)
{
	if (t->source.block)
		block_end(t);
	ranking_end(&t->source.ranking);
	t->source.put_count = t->source.ahead_count = 0;
}

/* ---- values come and leave ---- */

void tier_stored(struct tier *t, const struct block *b, uint64_t now_ns)
{
	struct tier_id id = id_of(b);
	uint32_t item = tier_records_find(&t->records, &id);
	tier_time(t, now_ns);
	gets_void(t, &id);
	if (item) {
		tier_key_drop(t, item, true);
		t->totals.deletes++;
	} else {
		tier_key_remember(t, t->store->spaces.at[b->space], b->item.key, b->item.key_len);
	}
	if (t->admission.how == TIER_ADMIT_PUT && t->source.put_count < PUTS_MAX)
		t->source.put[(t->source.put_first + t->source.put_count++) % PUTS_MAX] = hint_of(b);
}

static bool write_at_once(struct tier *t, const struct block *b)
{
	bool never;
	struct tier_drive *d = drive_for(t, b, (uint64_t)tier_pages(b->len) * TIER_PAGE, &never);
	if (!d || !begin(t, d, b))
		return false;
	KV_ASSERT(d->w.left == b->len);
	return writer_copy(d, store_data(t->store, b), (uint32_t)b->len) == b->len;
}

void tier_evicted(void *tier, const struct block *b)
{
	struct tier *t = tier;
	if (t->stopped || needless(t, b))
		return;
	if (!tier_admits(&t->admission, b->item.hash)) {
		t->totals.refused++;
		tier_left(&t->admission, b->item.hash);
	} else if (!write_at_once(t, b)) {
		t->totals.lost++;
	}
}
