/* SPDX-License-Identifier: Apache-2.0 */
/* move.c -- see move.h.
 *
 * Each former store has an order of eviction. They are merged by their relative places: the middle one of each is a
 * neighbour of the middle ones of the others. The first walk counts what belongs here, the second leaves out as many of
 * the next victims as do not fit, and copies the rest. */
#include "store/store.h"

#include <stdlib.h>

enum { FROM_MAX = 64 };

struct merge {
	const struct move_from *from;
	unsigned count;
	uint64_t at[FROM_MAX];
};

int move_begin(struct move_from *f)
{
	struct evict_walk w;
	struct evict_node *n;
	f->order = calloc(f->store.evict.count + 1, sizeof(f->order[0]));
	if (!f->order)
		return -KV_ENOMEM;
	evict_walk_begin(&f->store.evict, &w);
	while ((n = evict_walk_next(&f->store.evict, &w)) != NULL)
		f->order[f->count++] = KV_CONTAINER(n, struct block, evict);
	return 0;
}

void move_end(struct move_from *f)
{
	free(f->order);
	f->order = NULL;
	f->count = 0;
}

static bool before(const struct merge *m, unsigned a, unsigned b)
{
	return (kv_u128)(2 * m->at[a] + 1) * m->from[b].count < (kv_u128)(2 * m->at[b] + 1) * m->from[a].count;
}

static const struct block *merge_next(struct merge *m, const struct store **out_store)
{
	unsigned next = m->count;
	for (unsigned i = 0; i < m->count; i++)
		if (m->at[i] < m->from[i].count && (next == m->count || before(m, i, next)))
			next = i;
	if (next == m->count)
		return NULL;
	*out_store = &m->from[next].store;
	return m->from[next].order[m->at[next]++];
}

/* The next value of this shard (docs/reference/protocol.md 1). */
static const struct block *merge_next_of(struct merge *m, const struct move_to *to, const struct store **out_store)
{
	const struct block *b;
	do
		b = merge_next(m, out_store);
	while (b &&
	       (kv_hash_key(b->item.key, b->item.key_len, to->store->index.digest_seed) >> 32) * to->shards >> 32 !=
		       to->shard);
	return b;
}

/* Each namespace has the highest generation that a former store knew. */
static void spaces_move(struct move_to *to, const struct spaces *from)
{
	space_floor(&to->store->spaces, from->floor);
	for (uint32_t i = 0; i < from->count; i++) {
		struct space *sp;
		if (space_take(&to->store->spaces, from->at[i]->name, to->now_ns, &sp) == 0)
			store_space_advance(to->store, sp, from->at[i]->generation, to->now_ns);
	}
}

static bool value_move(struct move_to *to, const struct store *from, const struct block *b)
{
	const struct space *was = from->spaces.at[b->space];
	struct space *sp = space_find(&to->store->spaces, was->name);
	struct block *n, *holder;
	bool moved;
	if (!sp || sp->generation != was->generation || !block_current(from, b))
		return false;
	store_enter(to->store, sp);
	if (store_stage_spare(to->store, b->item.key, b->item.key_len, b->len, ARENA_LOW, &n))
		return false;
	if (to->area)
		kv_area_ready(to->area, n->offset, n->len);
	memcpy(store_data(to->store, n), store_data(from, b), b->len);
	moved = store_commit_born(to->store, n, b->checksum, b->expire.when_ns, block_born_ns(b), to->now_ns,
				  &holder) == 0;
	if (!moved)
		store_drop(to->store, n);
	else if (b->evict.hits)
		store_use(to->store, n);
	block_unref(to->store, n);
	return moved;
}

void move_values(struct move_to *to, const struct move_from *from, unsigned count)
{
	struct merge all = {.from = from, .count = count}, again = all;
	const struct store *store;
	const struct block *b;
	uint64_t bytes = 0, values = 0;
	KV_ASSERT(count <= FROM_MAX);
	for (unsigned i = 0; i < count; i++)
		spaces_move(to, &from[i].store.spaces);
	while ((b = merge_next_of(&all, to, &store)) != NULL) {
		bytes += b->mem->size;
		values++;
	}
	while ((b = merge_next_of(&again, to, &store)) != NULL) {
		bool fits = bytes <= to->store->arena.limit && values <= to->store->blocks_max;
		*(fits && value_move(to, store, b) ? &to->moved : &to->dropped) += 1;
		bytes -= b->mem->size;
		values--;
	}
	store_enter(to->store, store_space_default(to->store));
}
