/* SPDX-License-Identifier: Apache-2.0 */
/* recover.c -- see recover.h.
 *
 * recover_begin gives each recorded block its memory, as a staged block, so that new values take other memory; two
 * records that overlap cannot both be true, and the older one goes. recover_step hashes the blocks one by one, a
 * bounded part at a time, and commits them. What happens to a key meanwhile counts for its pending block and the record
 * (store.c: waiting_until), also if the process dies again. Invariant: a record in the table is of a live block, or of
 * a pending one. */
#include "store/store.h"

#include <stdlib.h>

static int by_place(const void *a, const void *b)
{
	const struct record *x = *(const struct record *const *)a, *y = *(const struct record *const *)b;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->generation < y->generation ? -1 : x->generation > y->generation;
}

static bool fits(const struct recover *x, const struct store *s, const struct record *r)
{
	const struct space *sp = r->space < SPACES_MAX ? x->space[r->space] : NULL;
	return sp && r->space_mark == sp->mark && r->offset % ARENA_GRANULE == 0 && r->len > 0 &&
	       r->offset < s->arena.limit && r->len <= s->arena.limit - r->offset;
}

/* The complete records, by place. Others are cleared. */
static int64_t records_collect(const struct recover *x, struct store *s, struct record ***out)
{
	struct records *t = &s->records;
	struct record **all;
	uint64_t n = 0;
	for (uint64_t i = 0; i < t->places; i++)
		n += t->at[i].sum != 0;
	all = calloc(n + 1, sizeof(*all));
	if (!all)
		return -KV_ENOMEM;
	n = 0;
	for (uint64_t i = 0; i < t->places; i++) {
		struct record *r = &t->at[i];
		if (r->sum && records_good(t, r) && fits(x, s, r))
			all[n++] = r;
		else if (r->sum)
			records_clear(r);
	}
	qsort(all, n, sizeof(*all), by_place);
	*out = all;
	return (int64_t)n;
}

static uint64_t overlaps_drop(struct record **all, uint64_t n)
{
	uint64_t kept = 0;
	for (uint64_t i = 0; i < n; i++) {
		struct record *last = kept ? all[kept - 1] : NULL;
		if (last && all[i]->offset < last->offset + arena_round(last->len)) {
			bool newer = all[i]->generation > last->generation;
			records_clear(newer ? last : all[i]);
			all[kept - 1] = newer ? all[i] : last;
		} else {
			all[kept++] = all[i];
		}
	}
	return kept;
}

static struct block *pending_make(struct recover *x, struct store *s, const struct record *r, struct arena_block *hole)
{
	struct block *b = s->blocks.used < s->blocks_max ? slab_get(&s->blocks) : NULL;
	struct arena_block *m = b ? arena_place(&s->arena, hole, r->offset, r->len, b) : NULL;
	if (!m) {
		if (b)
			slab_put(&s->blocks, b);
		return NULL;
	}
	memset(b, 0, sizeof(*b));
	b->len = r->len;
	b->checksum = r->checksum;
	b->generation = r->generation;
	b->offset = r->offset;
	b->mem = m;
	b->refs = 1;
	b->state = BLOCK_STAGED;
	kv_list_init(&b->pins);
	b->item.key_len = r->key_len;
	memcpy(b->item.key, r->key, r->key_len);
	store_enter(s, x->space[r->space]);
	b->item.hash = store_hash(s, r->key, r->key_len);
	b->space = s->space->index;
	s->space->refs++;
	tenant_add(s, s->space->tenant, store_charge(s, m->size));
	block_born_at(b, keep_past(&x->clock, r->born_ns, x->clock.passed_max));
	b->expire.when_ns =
		r->expires_ns == KV_NEVER ? KV_NEVER : keep_time(&x->clock, r->expires_ns, x->clock.passed_max);
	s->staged_bytes += m->size;
	s->generation = KV_MAX(s->generation, r->generation + 1);
	return b;
}

/* The namespaces, as noted: x->space, by their former numbers. A note that a crash has cut is of none. */
static int spaces_find(struct recover *x, struct store *s, const struct space_note *notes)
{
	const struct space_note *floor = &notes[SPACES_MAX];
	struct spaces *t = &s->spaces;
	int rc;
	x->space = calloc(SPACES_MAX, sizeof(x->space[0]));
	if (!x->space)
		return -KV_ENOMEM;
	spaces_restore(t, t->secret, t->seeds, space_note_good(floor) ? floor->generation : 0);
	for (uint32_t i = 0; i < SPACES_MAX; i++) {
		const struct space_note *n = &notes[i];
		bool good = space_note_good(n) && kv_space_check(n->name, strlen(n->name)) && (i == 0) == !n->name[0];
		rc = good ? space_restore(t, n->name, n->generation, space_seed(t), 0) : -KV_EINVAL;
		if (rc == -KV_ENOMEM)
			return rc;
		x->space[i] = rc == 0 ? t->at[t->count - 1] : NULL;
	}
	return 0;
}

int recover_begin(struct recover *x, struct store *s, const struct keep_clock *clock)
{
	struct record **all = NULL;
	struct arena_block *hole = s->arena.first;
	int64_t n = spaces_find(x, s, s->records.notes);
	if (n == 0)
		n = records_collect(x, s, &all);
	x->clock = *clock;
	if (n >= 0)
		n = (int64_t)overlaps_drop(all, (uint64_t)n);
	x->pending = n >= 0 ? calloc((size_t)n + 1, sizeof(x->pending[0])) : NULL;
	spaces_note(&s->spaces, s->records.notes);
	if (!x->pending || index_init(&x->waiting, 0, 0) != 0 || index_reserve(&x->waiting, (uint64_t)n) != 0 ||
	    index_reserve(&s->index, (uint64_t)n) != 0) {
		memset(s->records.at, 0, s->records.places * sizeof(s->records.at[0]));
		free(all);
		recover_end(x, s);
		return -KV_ENOMEM;
	}
	for (int64_t i = 0; i < n; i++) {
		struct block *b = hole ? pending_make(x, s, all[i], hole) : NULL;
		if (!b) {
			records_clear(all[i]);
			x->refused++;
			continue;
		}
		hole = b->mem->next;
		x->pending[x->count++] = b;
		if (index_peek(&x->waiting, b->item.hash) || index_insert(&x->waiting, &b->item) != 0)
			b->expire.when_ns = 0; /* a second one of its key: which is the younger? */
	}
	s->waiting = &x->waiting;
	store_enter(s, store_space_default(s));
	x->found = (uint64_t)n;
	free(all);
	kv_hasher_init(&x->hasher);
	return 0;
}

/* The block is verified, or not. */
static void settle(struct recover *x, struct store *s, struct block *b, bool good, uint64_t now_ns)
{
	uint64_t expires_ns = b->expire.when_ns;
	struct block *holder;
	records_drop(&s->records, b);
	if (index_peek(&x->waiting, b->item.hash) == &b->item)
		index_remove(&x->waiting, &b->item);
	b->expire = (struct expire_node){.when_ns = KV_NEVER};
	/* A key may have been stored since; if it was deleted, the block has expired. */
	good = good && !index_peek(&s->index, b->item.hash) && !store_dead(s, block_born_ns(b)) &&
	       store_commit_born(s, b, b->checksum, expires_ns, block_born_ns(b), now_ns, &holder) == 0;
	*(good ? &x->accepted : &x->refused) += 1;
	if (!good)
		store_drop(s, b);
	block_unref(s, b);
	x->at++;
	x->hashed = 0;
	kv_hasher_init(&x->hasher);
}

bool recover_step(struct recover *x, struct store *s, uint64_t bytes, uint64_t now_ns)
{
	while (x->at < x->count && bytes > 0) {
		struct block *b = x->pending[x->at];
		uint64_t n = KV_MIN(bytes, b->len - x->hashed);
		if (b->expire.when_ns <= now_ns) {
			settle(x, s, b, false, now_ns);
			bytes -= KV_MIN(bytes, (uint64_t)ARENA_GRANULE);
			continue;
		}
		kv_hasher_update(&x->hasher, store_data(s, b) + x->hashed, n);
		x->hashed += n;
		bytes -= n;
		if (x->hashed == b->len)
			settle(x, s, b, kv_hasher_digest(&x->hasher) == b->checksum, now_ns);
	}
	return x->at < x->count;
}

void recover_end(struct recover *x, struct store *s)
{
	for (; x->at < x->count; x->at++) {
		struct block *b = x->pending[x->at];
		b->expire = (struct expire_node){.when_ns = KV_NEVER};
		store_drop(s, b);
		block_unref(s, b);
	}
	if (s->waiting == &x->waiting)
		s->waiting = NULL;
	index_fini(&x->waiting);
	free(x->pending);
	free(x->space);
	x->pending = NULL;
	x->space = NULL;
	x->count = x->at = 0;
}
