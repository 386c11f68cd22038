/* SPDX-License-Identifier: Apache-2.0 */
/* room.c -- making room for one value: first find a stretch that can be cleared, then clear it.
 *
 * SEARCH walks over the arena by address, from the policy's first victim to the end and round to where it began, for a
 * stretch of holes and of blocks that may go. Nothing is evicted before one is found: a value that cannot fit costs nobody anything. If there
 * is none without pinned blocks a second round lets small pinned blocks be part of it, which are then moved elsewhere: their
 * bytes are not in use (no request, no lease holds them), so they are copied and their clients notice nothing. So pins that are
 * scattered over the arena keep large values out of their own bytes alone.
 *
 * CLAIM takes the stretch piece by piece: a hole or an evicted block becomes memory in use, of the block that the room is for, and
 * joins the piece before it. Nobody else can take what was cleared, although it takes many turns of the shard. First all
 * that may go goes; then, from the left, what stands between the pieces: pinned blocks move, and a block that somebody began to
 * use meanwhile is waited for (its use has an end, and the one who waits has a deadline). Two rooms whose stretches overlap would wait for each other: the
 * younger gives back what it claimed and searches anew, the older waits for that.
 *
 * Blocks that are evicted here lie beside each other; only the first of them is the policy's choice. With values of one size it is the
 * only one. (Rejected: evicting by policy until as many bytes are free, then widening a hole. It evicts twice as much, and
 * everything where pinned blocks lie between the holes.)
 *
 * Each step looks at one block or evicts one, and a room can be left between any two of them: the walk follows blocks that join
 * (arena.h), and a claimed piece is in use, so nobody else frees it. Moving a block costs as many steps as take about as long. */
#include "kvserver/room.h"

#include <errno.h>

#include "kvserver/store.h"

static void search_from_victim(struct store *s, struct room *r)
{
	struct evict_node *n = evict_victim(&s->evict, store_may_go);
	struct arena_block *m = n ? KV_CONTAINER(n, struct block, evict)->mem : s->arena.first;

	if (m->prev && !m->prev->owner)
		m = m->prev;
	arena_walk_end(&r->walk);
	arena_walk_begin(&s->arena, &r->walk, m);
	r->start = m->offset;
	r->wrapped = false;
	r->pinned = 0;
}

void room_begin(struct store *s, struct room *r, uint64_t size, struct block *b)
{
	*r = (struct room){.size = size, .block = b};
	search_from_victim(s, r);
}

static bool movable(const struct block *b)
{
	return b->state == BLOCK_LIVE && b->refs == 0 && b->mem->size <= ROOM_MOVE_MAX;
}

/* Whether the stretch may go on over this block. It never begins with one that has to be moved. */
static bool passable(const struct room *r, const struct arena_block *m)
{
	if (!m->owner || block_evictable(m->owner))
		return true;
	return r->pinned_too && m != r->walk.from && movable(m->owner) && r->pinned + m->size <= r->size / ROOM_MOVE_SHARE;
}

static void walk_restart(struct room *r, struct arena_block *from)
{
	r->walk.from = r->walk.at = from;
	r->pinned = 0;
}

/* All was looked at: once more with pinned blocks, if there are any. */
static int search_over(struct store *s, struct room *r)
{
	if (r->pinned_too || s->pinned_bytes == 0)
		return -KV_ENOMEM;
	r->pinned_too = true;
	search_from_victim(s, r);
	return -EAGAIN;
}

static int search_step(struct store *s, struct room *r)
{
	struct arena_block *m = r->walk.at;

	if (!m) {
		if (r->wrapped)
			return search_over(s, r);
		r->wrapped = true;
		walk_restart(r, s->arena.first);
		return -EAGAIN;
	}
	if (!passable(r, m)) {
		walk_restart(r, m->next);
		return r->wrapped && m->offset + m->size > r->start ? search_over(s, r) : -EAGAIN;
	}
	if (m->owner && !block_evictable(m->owner))
		r->pinned += m->size;
	r->walk.at = m->next;
	return m->offset + m->size - r->walk.from->offset >= r->size ? 0 : -EAGAIN;
}

/* What is there becomes a hole. NULL: it may not go. */
static struct arena_block *clear(struct store *s, struct arena_block *m)
{
	if (!m->owner)
		return m;
	return block_evictable(m->owner) ? store_evict(s, m->owner) : NULL;
}

static struct arena_block *take_piece(struct store *s, const struct room *r, struct arena_block *hole)
{
	uint64_t size = r->mem ? r->end - hole->offset : r->size;

	return arena_take(&s->arena, hole, KV_MIN(hole->size, size), r->block, ARENA_LOW);
}

static int claim_first(struct store *s, struct room *r)
{
	struct arena_block *hole = clear(s, r->walk.from);

	if (!hole) { /* somebody uses it since it was passed */
		r->found = false;
		search_from_victim(s, r);
		return -EAGAIN;
	}
	arena_walk_end(&r->walk);
	r->mem = r->last = take_piece(s, r, hole);
	if (!r->mem)
		return -KV_ENOMEM;
	r->end = r->mem->offset + r->size;
	arena_walk_begin(&s->arena, &r->walk, r->mem);
	return -EAGAIN;
}

/* The next block of the stretch goes, or is passed. All that may go has gone when the walk is over. */
static int claim_more(struct store *s, struct room *r)
{
	struct arena_block *m = r->walk.at->next, *hole, *piece;

	if (!m || m->offset >= r->end) {
		arena_walk_end(&r->walk);
		return -EAGAIN;
	}
	r->walk.at = m;
	hole = clear(s, m);
	if (!hole)
		return -EAGAIN;
	piece = take_piece(s, r, hole);
	if (!piece)
		return -KV_ENOMEM;
	r->walk.at = piece;
	if (r->last->next == piece)
		arena_join(&s->arena, r->last);
	else
		r->last = piece;
	return -EAGAIN;
}

static void spend(unsigned *budget, uint64_t steps)
{
	*budget -= (unsigned)KV_MIN((uint64_t)*budget, steps);
}

/* Whether evicting m and blocks beside it leaves a hole of this size. */
static bool can_widen(const struct arena_block *m, uint64_t size, unsigned *budget)
{
	uint64_t span = m->size;
	const struct arena_block *side;
	unsigned n = 0;

	for (side = m->next; span < size && side && (!side->owner || block_evictable(side->owner)); side = side->next, n++)
		span += side->size;
	for (side = m->prev; span < size && side && (!side->owner || block_evictable(side->owner)); side = side->prev, n++)
		span += side->size;
	spend(budget, n / ROOM_LOOK_STEP);
	return span >= size;
}

/* Evict b, and blocks beside it for as long as that helps. The hole. */
static struct arena_block *widen(struct store *s, struct block *b, uint64_t size, unsigned *budget)
{
	bool all = can_widen(b->mem, size, budget);
	struct arena_block *hole = store_evict(s, b);

	while (all && hole->size < size) {
		struct arena_block *side = hole->next && block_evictable(hole->next->owner) ? hole->next : hole->prev;
		hole = store_evict(s, side->owner);
		spend(budget, 1);
	}
	return hole;
}

/* Another place for a pinned block. */
static struct arena_block *other_place(struct store *s, uint64_t size, struct block *b, unsigned *budget)
{
	struct arena_block *mem = arena_alloc(&s->arena, size, b, ARENA_LOW);

	for (unsigned i = 0; !mem && i < ROOM_MOVE_TRIES; i++) {
		struct evict_node *n = evict_victim(&s->evict, store_may_go);
		struct arena_block *hole;
		if (!n)
			break;
		hole = widen(s, KV_CONTAINER(n, struct block, evict), size, budget);
		if (hole->size >= size)
			mem = arena_take(&s->arena, hole, size, b, ARENA_LOW);
	}
	return mem;
}

/* Copy a pinned block elsewhere. The hole that it leaves, or NULL. */
static struct arena_block *move_away(struct store *s, struct arena_block *m, unsigned *budget)
{
	struct block *b = m->owner;
	struct arena_block *mem = other_place(s, m->size, b, budget);

	if (!mem)
		return NULL;
	memcpy(s->base + mem->offset, s->base + m->offset, b->len);
	spend(budget, b->len / ROOM_COPY_STEP);
	b->mem = mem;
	b->offset = mem->offset;
	return arena_free(&s->arena, m);
}

/* It is a piece of another room. */
static bool others_piece(const struct block *b)
{
	return b->state == BLOCK_STAGED && !b->mem;
}

/* What was claimed becomes holes again. */
static void give_back(struct store *s, struct room *r)
{
	struct arena_block *m = r->mem, *next;

	arena_walk_end(&r->walk);
	for (bool last = false; m && !last; m = next) {
		last = m == r->last;
		next = m->owner == r->block ? arena_free(&s->arena, m)->next : m->next;
	}
	r->mem = r->last = NULL;
}

/* b stands in the way and is in use. */
static int in_the_way(struct store *s, struct room *r, const struct block *b)
{
	if (others_piece(b) && b->generation < r->block->generation) {
		give_back(s, r);
		r->found = false;
		search_from_victim(s, r);
		return -EAGAIN;
	}
	r->waits = b->refs > 0;
	return r->waits ? -EAGAIN : -KV_ENOMEM;
}

/* What stands between the first piece and the others. */
static int claim_between(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = r->mem->next, *hole;

	if (m->owner == r->block) {
		if (m == r->last)
			r->last = r->mem;
		arena_join(&s->arena, r->mem);
		return -EAGAIN;
	}
	hole = clear(s, m);
	if (!hole && !movable(m->owner))
		return in_the_way(s, r, m->owner);
	hole = hole ? hole : move_away(s, m, budget);
	if (!hole || !take_piece(s, r, hole))
		return -KV_ENOMEM;
	arena_join(&s->arena, r->mem);
	return -EAGAIN;
}

static int claim_step(struct store *s, struct room *r, unsigned *budget)
{
	int rc;

	if (!r->mem)
		rc = claim_first(s, r);
	else
		rc = r->walk.at ? claim_more(s, r) : claim_between(s, r, budget);
	if (rc != -EAGAIN || !r->mem || r->mem->size < r->size)
		return rc;
	arena_walk_end(&r->walk);
	return 0;
}

int room_step(struct store *s, struct room *r, unsigned *budget)
{
	int rc = -EAGAIN;

	r->waits = false;
	while (*budget > 0 && rc == -EAGAIN && !r->waits) {
		(*budget)--;
		if (r->found) {
			rc = claim_step(s, r, budget);
		} else {
			rc = search_step(s, r);
			r->found = rc == 0;
			rc = r->found ? -EAGAIN : rc;
		}
	}
	return rc;
}

void room_end(struct store *s, struct room *r)
{
	give_back(s, r);
}
