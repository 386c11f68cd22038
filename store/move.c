/* SPDX-License-Identifier: Apache-2.0 */
/* move.c -- see move.h.
 *
 * Each former store has an order of eviction. They are merged by their relative places: the middle one of each is a
 * neighbour of the middle ones of the others. The first walk of a plan counts the values that belong here, the second
 * leaves out as many of the next victims as do not fit. Invariant: after all plans the offset of each live block of the
 * former stores is a place in an order, or NOWHERE; mem->offset is its own. Tombstones stay behind, because they do not
 * say which shard their keys have. */
#include "store/store.h"

#include <stdlib.h>

enum { FROM_MAX = 64, PLACE_BITS = 40 };

#define NOWHERE UINT64_MAX

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

void move_from_end(struct move_from *f)
{
	free(f->order);
	f->order = NULL;
	f->count = 0;
}

/* ---- plan ---- */

static bool before(const struct merge *m, unsigned a, unsigned b)
{
	return (kv_u128)(2 * m->at[a] + 1) * m->from[b].count < (kv_u128)(2 * m->at[b] + 1) * m->from[a].count;
}

static struct block *merge_next(struct merge *m, const struct store **out_store)
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
static struct block *merge_next_of(struct merge *m, const struct move_to *to, const struct store **out_store)
{
	struct block *b;
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

/* Its namespace there; NULL: the value has ended, or was cleared. */
static struct space *space_there(const struct move_to *to, const struct store *from, const struct block *b)
{
	const struct space *was = from->spaces.at[b->space];
	struct space *sp = space_find(&to->store->spaces, was->name);
	bool ended = b->expire.when_ns <= kv_deadline(to->now_ns, to->passed_ns) && b->expire.when_ns != KV_NEVER;
	return sp && sp->generation == was->generation && block_current(from, b) && !ended ? sp : NULL;
}

int move_plan(struct move_to *to, const struct move_from *from, unsigned count)
{
	struct merge all = {.from = from, .count = count}, again = all;
	const struct store *store;
	struct block *b;
	uint64_t bytes = 0, values = 0;
	KV_ASSERT(count <= FROM_MAX);
	for (unsigned i = 0; i < count; i++)
		spaces_move(to, &from[i].store.spaces);
	while ((b = merge_next_of(&all, to, &store)) != NULL) {
		bool goes = space_there(to, store, b) != NULL;
		b->offset = goes ? 0 : NOWHERE;
		bytes += goes ? b->mem->size : 0;
		values += goes;
		to->dropped += !goes;
	}
	to->order = calloc(KV_MIN(values, (uint64_t)to->store->blocks_max) + 1, sizeof(struct block *));
	if (!to->order)
		return -KV_ENOMEM;
	while ((b = merge_next_of(&again, to, &store)) != NULL) {
		bool fits = bytes <= to->store->arena.limit && values <= to->store->blocks_max;
		if (b->offset == NOWHERE)
			continue;
		b->offset = fits ? (uint64_t)to->shard << PLACE_BITS | to->count++ : NOWHERE;
		to->dropped += !fits;
		bytes -= b->mem->size;
		values--;
	}
	return 0;
}

/* ---- copy ---- */

static struct block *value_move(struct move_to *to, const struct store *from, const struct block *b)
{
	struct space *sp = space_there(to, from, b);
	struct block *n, *holder;
	bool moved;
	KV_ASSERT(sp);
	store_enter(to->store, sp);
	if (store_stage_spare(to->store, b->item.key, b->item.key_len, b->len, ARENA_LOW, &n))
		return NULL;
	moved = !to->room || to->room(to->arg, n->offset + n->len);
	if (moved) {
		memcpy(store_data(to->store, n), from->base + b->mem->offset, b->len);
		moved = store_commit_born(to->store, n, b->checksum, b->expire.when_ns, block_born_ns(b), to->now_ns,
					  &holder) == 0;
	}
	if (!moved)
		store_drop(to->store, n);
	else if (b->evict.hits)
		store_use(to->store, n);
	block_unref(to->store, n);
	return moved ? n : NULL;
}

void move_part(struct move_to *to, const struct move_from *from, const struct arena_block **at, uint64_t end)
{
	for (; *at && (*at)->offset < end; *at = (*at)->next) {
		const struct block *b = (*at)->owner;
		uint64_t place = b ? b->offset : NOWHERE;
		struct block *n;
		if (!b || b->state != BLOCK_LIVE || place == NOWHERE || place >> PLACE_BITS != to->shard)
			continue;
		n = value_move(to, &from->store, b);
		*(n ? &to->moved : &to->dropped) += 1;
		to->order[place & ((1ull << PLACE_BITS) - 1)] = n;
	}
}

void move_finish(struct move_to *to)
{
	for (uint64_t i = 0; i < to->count; i++) {
		struct block *b = to->order[i];
		struct evict *e = b ? store_evict_of(to->store, b) : NULL;
		bool hit = b && b->evict.hits;
		if (!b)
			continue;
		evict_remove(e, &b->evict);
		b->evict = (struct evict_node){.hits = 0};
		evict_return(e, &b->evict);
		if (hit)
			evict_access(e, &b->evict);
	}
	store_enter(to->store, store_space_default(to->store));
}

void move_end(struct move_to *to)
{
	free(to->order);
	to->order = NULL;
	to->count = 0;
}
