/* SPDX-License-Identifier: Apache-2.0 */
/* room.c -- make room for one value: find a stretch that can be cleared, then clear it. Nothing is evicted before
 * (docs/internals/decisions/001-room-before-eviction.md).
 *
 * SEARCH walks over the arena by address, from one of the next victims all the way round, for a stretch of holes and
 * blocks that may go; a second round also accepts small pinned blocks. The stretch with the least early evictions among
 * several victims wins. If blocks being written are in the way, the search is repeated later; for leased blocks, which
 * a client may hold for long, ROOM_SEARCHES times.
 *
 * CLAIM takes the stretch piece by piece: a hole or evicted block joins the piece before it, as memory of the room's
 * block. Then pinned blocks in between move, and blocks in use are waited for. A room can pause between any two steps.
 *
 * Invariants: stretches of rooms in `clearing` never overlap. At most ROOMS_AT_ONCE rooms search or clear; others hold
 * nothing. After ROOM_PATIENCE steps of waiting a room gives all back. */
#include "store/room.h"

#include <errno.h>

#include "store/store.h"

/* ---- rooms beside each other ---- */

static const struct room *reserved_by(const struct store *s, uint64_t offset, uint64_t size)
{
	KV_LIST_EACH (n, &s->clearing) {
		const struct room *r = KV_LIST_ENTRY(n, struct room, node);
		if (offset < r->end && offset + size > r->mem->offset)
			return r;
	}
	return NULL;
}

static void budget_spend(unsigned *budget, uint64_t steps)
{
	*budget -= (unsigned)KV_MIN(steps, (uint64_t)*budget);
}

/* ---- search ---- */

void room_begin(struct room *r, uint64_t size, struct block *b)
{
	*r = (struct room){.size = size, .block = b};
}

static bool block_movable(const struct block *b)
{
	return b->state == BLOCK_LIVE && b->refs == 0 && b->mem->size <= ROOM_MOVE_MAX;
}

/* The tenant of the room's block. */
static struct tenant *payer(const struct store *s, const struct room *r)
{
	return s->spaces.at[r->block->space]->tenant;
}

/* It may be evicted soon, when it is stored. */
static bool being_written(const struct block *b)
{
	return b->state == BLOCK_STAGED;
}

/* Blocks of tenants within their shares stay, and may move as pinned ones do. */
static bool block_clearable(const struct store *s, const struct room *r, const struct arena_block *m)
{
	return !m->owner || (block_evictable(m->owner) && store_may_evict(s, payer(s, r), m->owner));
}

/* ---- where it begins ---- */

static struct arena_block *memory_of(const struct evict_node *n)
{
	return KV_CONTAINER(n, struct block, evict)->mem;
}

/* The hole before m, or NULL: m would leave a hole that includes it. */
static struct arena_block *hole_before(struct arena_block *m)
{
	return m->prev && !m->prev->owner ? m->prev : m;
}

/* *out: how far the bytes of the stretch from m are evicted ahead of their turn, on average over the first
 * ROOM_LOOKS_EACH blocks. False: it cannot be cleared. */
static bool stretch_cost(const struct store *s, const struct room *r, const struct arena_block *m, uint64_t oldest,
			 unsigned *looks, uint64_t *out)
{
	uint64_t len = 0, cost = 0;
	for (unsigned i = 0; len < r->size && i < ROOM_LOOKS_EACH && *looks > 0; i++, m = m->next) {
		const struct block *b;
		if (!m || !block_clearable(s, r, m) || reserved_by(s, m->offset, m->size))
			return false;
		(*looks)--;
		len += m->size;
		b = m->owner;
		if (b)
			cost += m->size / ARENA_GRANULE * evict_worth(store_evict_of(s, b), &b->evict, oldest);
	}
	*out = cost / (len / ARENA_GRANULE);
	return true;
}

/* The victim to begin with: the first with a cheap stretch, or the cheapest, among ROOM_LOOKS blocks. */
static struct arena_block *victim_cheapest(struct store *s, const struct room *r, unsigned *budget)
{
	struct evict_node *first = store_victim(s, payer(s, r)), *n = first;
	struct arena_block *best = n ? memory_of(n) : s->arena.first;
	struct evict *e = n ? store_evict_of(s, best->owner) : &s->evict;
	uint64_t oldest = n ? evict_age(e, n) : 0, cost, least = UINT64_MAX;
	unsigned looks = ROOM_LOOKS;
	struct evict_peek peek;
	evict_peek_begin(e, &peek);
	while (n && looks > 0 && least > oldest / ROOM_CHEAP_SHARE) {
		if (stretch_cost(s, r, hole_before(memory_of(n)), oldest, &looks, &cost) && cost < least) {
			least = cost;
			best = memory_of(n);
		}
		do
			n = evict_peek_next(e, &peek, block_may_go);
		while (n == first && n);
	}
	budget_spend(budget, ROOM_LOOKS - looks);
	return best;
}

static void search_from(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = hole_before(victim_cheapest(s, r, budget));
	arena_walk_end(&r->walk);
	arena_walk_begin(&s->arena, &r->walk, m);
	r->start = m->offset;
	r->wrapped = false;
	r->pinned = 0;
}

/* The whole arena was searched. Search again with pinned blocks, if there are any, or later, if there may be a stretch
 * then. */
static int search_over(struct store *s, struct room *r, unsigned *budget)
{
	if (!r->pinned_too && (s->pinned_bytes > 0 || s->tenancy.count > 1)) {
		r->pinned_too = true;
		search_from(s, r, budget);
		return -EAGAIN;
	}
	r->waits = r->met || (r->leased && r->futile < ROOM_SEARCHES);
	if (r->waits && !r->met)
		r->rests = 1u << r->futile++;
	return r->waits ? -EAGAIN : -KV_ENOMEM;
}

static int search_anew(struct store *s, struct room *r, struct arena_block *from, unsigned *budget)
{
	r->walk.from = r->walk.at = from;
	r->pinned = 0;
	if (!r->wrapped || (from && from->offset <= r->start))
		return -EAGAIN;
	return search_over(s, r, budget);
}

/* The block behind the stretch of `other`, which has m, in one step: it may have a million blocks. */
static struct arena_block *stretch_behind(const struct room *other, const struct arena_block *m)
{
	struct arena_block *at = other->walk.at;
	return !at || at->offset > m->offset ? at : m->next;
}

static int search_drop_first(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = r->walk.from;
	if (!block_clearable(s, r, m))
		r->pinned -= KV_MIN(r->pinned, m->size);
	r->walk.from = m->next;
	return r->wrapped && m->next->offset > r->start ? search_anew(s, r, m->next, budget) : -EAGAIN;
}

static int search_step(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = r->walk.at;
	const struct room *other;
	if (!m && r->wrapped)
		return search_anew(s, r, NULL, budget);
	if (!m) {
		r->wrapped = true;
		r->walk.from = r->walk.at = s->arena.first;
		r->pinned = 0;
		return -EAGAIN;
	}
	other = reserved_by(s, m->offset, m->size);
	if (other) {
		r->met = true;
		return search_anew(s, r, stretch_behind(other, m), budget);
	}
	/* A stretch never begins with a block to be moved. */
	if (r->walk.from != m && !block_clearable(s, r, r->walk.from))
		return search_drop_first(s, r, budget);
	if (!block_clearable(s, r, m)) {
		r->met |= being_written(m->owner) || pins_leaving(s);
		r->leased |= m->leases > 0;
		if (!r->pinned_too || m == r->walk.from || !block_movable(m->owner) ||
		    m->size > r->size / ROOM_MOVE_SHARE)
			return search_anew(s, r, m->next, budget);
		if (r->pinned + m->size > r->size / ROOM_MOVE_SHARE)
			return search_drop_first(s, r, budget);
		r->pinned += m->size;
	}
	r->walk.at = m->next;
	r->found = m->offset + m->size - r->walk.from->offset >= r->size;
	return -EAGAIN;
}

/* ---- claim ---- */

static struct arena_block *block_clear(struct store *s, const struct room *r, struct arena_block *m)
{
	if (!m->owner)
		return m;
	return block_clearable(s, r, m) ? block_evict(s, m->owner) : NULL;
}

static struct arena_block *take_piece(struct store *s, const struct room *r, struct arena_block *hole)
{
	uint64_t size = r->mem ? r->end - hole->offset : r->size;
	return arena_take(&s->arena, hole, KV_MIN(hole->size, size), r->block, ARENA_LOW);
}

/* From here walk.from is the next block to clear, and walk.at the block behind the stretch. */
static int claim_first(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = r->walk.from, *hole = NULL;
	uint64_t start = m->owner && m->prev && !m->prev->owner ? m->prev->offset : m->offset;
	if (!reserved_by(s, start, r->size))
		hole = block_clear(s, r, m);
	if (!hole) { /* it is in use since, or another room clears here */
		r->found = false;
		search_from(s, r, budget);
		return -EAGAIN;
	}
	r->mem = r->last = take_piece(s, r, hole);
	if (!r->mem)
		return -KV_ENOMEM;
	r->end = r->mem->offset + r->size;
	r->walk.from = r->mem->next;
	kv_list_add_tail(&s->clearing, &r->node);
	return -EAGAIN;
}

static int claim_next(struct store *s, struct room *r)
{
	struct arena_block *m = r->walk.from, *hole, *piece;
	if (!m || m->offset >= r->end) {
		r->swept = true;
		return -EAGAIN;
	}
	hole = block_clear(s, r, m);
	if (!hole) {
		r->walk.from = m->next;
		return -EAGAIN;
	}
	piece = take_piece(s, r, hole);
	if (!piece)
		return -KV_ENOMEM;
	if (r->last->next == piece)
		arena_join(&s->arena, r->last);
	else
		r->last = piece;
	r->walk.from = r->last->next;
	return -EAGAIN;
}

/* The hole of the policy's next victim, widened to `size` bytes. NULL: no block may go, or it cannot be that large. */
static struct arena_block *hole_for_move(struct store *s, const struct room *r, uint64_t size, unsigned *budget)
{
	struct evict_node *n = store_victim(s, payer(s, r));
	struct arena_block *hole, *side;
	if (!n)
		return NULL;
	budget_spend(budget, 1);
	hole = block_evict(s, KV_CONTAINER(n, struct block, evict));
	for (unsigned i = 0; hole->size < size && i < ROOM_MOVE_EVICTS; i++) {
		side = hole->next && block_clearable(s, r, hole->next) ? hole->next : hole->prev;
		if (!side || !block_clearable(s, r, side))
			return NULL;
		budget_spend(budget, 1);
		hole = block_evict(s, side->owner);
	}
	return hole->size >= size ? hole : NULL;
}

/* Copy a pinned block elsewhere. Returns its hole. NULL: there is no place; with an empty budget: not yet. */
static struct arena_block *move_away(struct store *s, struct room *r, struct arena_block *m, unsigned *budget)
{
	struct block *b = m->owner;
	struct arena_block *mem, *hole;
	KV_ASSERT(b->refs == 0 && m->leases == 0); /* rules 43 and 58 */
	if (KV_UNLIKELY(!block_current(s, b))) {   /* store_cleared_sweep may have passed the new place */
		block_retire(s, b);
		return block_free(s, b);
	}
	mem = arena_alloc(&s->arena, m->size, b, ARENA_LOW);
	while (!mem && r->tries < ROOM_MOVE_TRIES) {
		r->tries++;
		hole = hole_for_move(s, r, m->size, budget);
		mem = hole ? arena_take(&s->arena, hole, m->size, b, ARENA_LOW) : NULL;
		if (*budget == 0)
			break;
	}
	if (!mem)
		return NULL;
	r->tries = 0;
	budget_spend(budget, m->size / ROOM_MOVE_STEP);
	memcpy(s->base + mem->offset, s->base + m->offset, b->len);
	mem->walked = m->walked;
	b->mem = mem;
	b->offset = mem->offset;
	if (KV_UNLIKELY(s->records.places))
		records_change(&s->records, b);
	store_poison(s, m);
	return arena_free(&s->arena, m);
}

static int claim_between(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = r->mem->next, *hole;
	if (m->owner == r->block) {
		if (m == r->last)
			r->last = r->mem;
		arena_join(&s->arena, r->mem);
		return -EAGAIN;
	}
	hole = block_clear(s, r, m);
	if (!hole && !block_movable(m->owner)) {
		const struct block *b = m->owner;
		r->waits = b->refs > 0;
		return r->waits ? -EAGAIN : -KV_ENOMEM;
	}
	hole = hole ? hole : move_away(s, r, m, budget);
	if (!hole) {
		r->waits = r->tries == ROOM_MOVE_TRIES && pins_leaving(s);
		return r->waits || r->tries < ROOM_MOVE_TRIES ? -EAGAIN : -KV_ENOMEM;
	}
	if (!take_piece(s, r, hole))
		return -KV_ENOMEM;
	arena_join(&s->arena, r->mem);
	return -EAGAIN;
}

static int claim_step(struct store *s, struct room *r, unsigned *budget)
{
	int rc;
	if (!r->mem)
		rc = claim_first(s, r, budget);
	else
		rc = r->swept ? claim_between(s, r, budget) : claim_next(s, r);
	return rc == -EAGAIN && r->mem && r->mem->size == r->size ? 0 : rc;
}

/* ---- a room's life ---- */

/* Stop, and give the pieces back. */
static void room_leave(struct store *s, struct room *r)
{
	struct arena_block *m = r->mem, *next;
	arena_walk_end(&r->walk);
	if (m)
		kv_list_del(&r->node);
	for (bool last = false; m && !last; m = next) {
		last = m == r->last;
		next = m->owner == r->block ? arena_free(&s->arena, m)->next : m->next;
	}
	s->rooms_begun -= r->begun;
	r->begun = false;
	r->mem = r->last = NULL;
}

/* The room has its memory. */
static void room_complete(struct store *s, struct room *r)
{
	arena_walk_end(&r->walk);
	kv_list_del(&r->node);
	s->rooms_begun--;
	r->begun = false;
}

/* Begin anew at its next turn. */
static void room_retreat(struct store *s, struct room *r)
{
	room_leave(s, r);
	*r = (struct room){.size = r->size,
			   .block = r->block,
			   .waits = true,
			   .leased = r->leased,
			   .tried = true,
			   .futile = r->futile,
			   .rests = r->rests,
			   .charged = true};
}

/* A new room may finish in one step, so it begins at once; later it waits for its turn. */
static bool room_began(struct store *s, struct room *r, unsigned *budget)
{
	if (r->begun || (r->tried && s->rooms_begun >= ROOMS_AT_ONCE))
		return r->begun;
	if (r->rests > 0 && --r->rests > 0)
		return false;
	r->leased = false;
	s->rooms_begun++;
	r->begun = r->tried = true;
	search_from(s, r, budget);
	return true;
}

int room_step(struct store *s, struct room *r, unsigned *budget)
{
	int rc = -EAGAIN;
	r->waits = !room_began(s, r, budget);
	while (*budget > 0 && rc == -EAGAIN && !r->waits) {
		(*budget)--;
		rc = r->found ? claim_step(s, r, budget) : search_step(s, r, budget);
	}
	if (rc == 0)
		room_complete(s, r);
	else if (rc == -EAGAIN && r->begun &&
		 ((r->waits && (!r->mem || ++r->waited == ROOM_PATIENCE)) || s->rooms_begun > ROOMS_AT_ONCE))
		room_retreat(s, r);
	return rc;
}

void room_end(struct store *s, struct room *r)
{
	room_leave(s, r);
}
