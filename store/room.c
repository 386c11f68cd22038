/* SPDX-License-Identifier: Apache-2.0 */
/* room.c -- making room for one value: first find a stretch that can be cleared, then clear it.
 *
 * SEARCH walks over the arena by address, from one of the policy's next victims to the end and round to where it began,
 * for a stretch of holes and of blocks that may go. Nothing is evicted before such a stretch is found: a value that
 * cannot fit costs no other value its place. If there is none without pinned blocks, a second round lets small pinned
 * blocks be part of it, which are then moved elsewhere. Their bytes are not in use (no request and no lease holds
 * them), so they are copied, and their clients notice nothing. So pins that are scattered over the arena keep large
 * values out of the pinned bytes alone. If there is no stretch either, but values that are being written lie in the
 * way, the search is made again later: they can be evicted when they have been stored. So it is while pins of a session
 * that has ended are dropped (pins.c).
 *
 * CLAIM takes the stretch piece by piece: a hole or an evicted block becomes memory in use, of the block that the room
 * is for, and joins the piece before it. So no other value can take what was cleared, although clearing takes many
 * turns of the shard. First, from the left, every block that may go goes. Then, from the left again, the blocks between
 * the pieces: pinned ones move, and one that came into use meanwhile is waited for (its use has an end, and the PUT
 * that waits has a deadline).
 *
 * Stretches of two rooms never overlap. From its first piece on a room is in the store's list `clearing`, and no search
 * passes a block in a stretch of that list. Otherwise two rooms could each have pieces in the other's way, and wait for
 * each other. At most ROOMS_AT_ONCE rooms search or clear over several turns, because each step of a search looks at
 * that list, and each block that joins another looks at all walks. The others wait and hold nothing. A room that is
 * done in one step does not wait for them. A room that has waited for a block in its way for ROOM_PATIENCE steps gives
 * back what it has cleared and looks elsewhere. So a client that reads for long, or reads what others are about to
 * clear, does not keep the few places from them.
 *
 * Blocks that are evicted here lie beside each other; only the first of them is the policy's choice. With values of one
 * size that one is enough. With values of several sizes its neighbours go before their time, so it matters with which
 * of the next victims the stretch begins. Some are looked at, and the stretch is taken whose bytes go the least too
 * early. With 2 and 8 KiB mixed an hour of conversations has 0.145 hits so, 0.101 with the first victim's stretch, and
 * 0.147 if bytes had no place (memory of 5,859 mean blocks). It helps where a value takes the place of a few dozen at
 * most: with 256 KiB between 1 KiB 0.131, 0.132 and 0.145. Among a million values of 1 KiB the looks cost a PUT of 4
 * KiB 3 us, one of 64 KiB 9 us, and one of 1 KiB none. (Rejected: evicting by policy until as many bytes are free, then
 * widening a hole. It evicts twice as much, and everything where pinned blocks lie between the holes.)
 *
 * Each step looks at one block or evicts one; copying a block counts as many steps as take that long. A room can be
 * left between any two steps: the walk follows blocks that join (arena.h), and a claimed piece is in use, so nothing
 * else frees it. */
#include "store/room.h"

#include <errno.h>

#include "store/store.h"

/* ---- rooms beside each other ---- */

/* The room whose stretch has bytes of [offset, offset + size), or NULL. */
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

/* It may go some day soon, when it has been stored. */
static bool being_written(const struct block *b)
{
	return b->state == BLOCK_STAGED;
}

static bool block_clearable(const struct arena_block *m)
{
	return !m->owner || block_evictable(m->owner);
}

/* ---- where it begins ---- */

static struct arena_block *memory_of(const struct evict_node *n)
{
	return KV_CONTAINER(n, struct block, evict)->mem;
}

/* The hole before m, if there is one: m would leave a hole that includes it. */
static struct arena_block *hole_before(struct arena_block *m)
{
	return m->prev && !m->prev->owner ? m->prev : m;
}

/* How much too early the bytes of the stretch from m on would go, on average, in *out: by the first ROOM_LOOKS_EACH
 * blocks. False: it cannot be cleared. */
static bool stretch_cost(const struct store *s, const struct room *r, const struct arena_block *m, uint64_t oldest,
			 unsigned *looks, uint64_t *out)
{
	uint64_t len = 0, cost = 0;

	for (unsigned i = 0; len < r->size && i < ROOM_LOOKS_EACH && *looks > 0; i++, m = m->next) {
		const struct block *b;
		if (!m || !block_clearable(m) || reserved_by(s, m->offset, m->size))
			return false;
		(*looks)--;
		len += m->size;
		b = m->owner;
		if (b)
			cost += m->size / ARENA_GRANULE * evict_worth(&s->evict, &b->evict, oldest);
	}
	*out = cost / (len / ARENA_GRANULE);
	return true;
}

/* The victim to begin with: of those that ROOM_LOOKS looks are enough for, the first whose stretch is cheap, or the one
 * with the cheapest. */
static struct arena_block *victim_cheapest(struct store *s, const struct room *r, unsigned *budget)
{
	struct evict_node *first = evict_victim(&s->evict, block_may_go), *n = first;
	struct arena_block *best = n ? memory_of(n) : s->arena.first;
	uint64_t oldest = n ? evict_age(&s->evict, n) : 0, cost, least = UINT64_MAX;
	unsigned looks = ROOM_LOOKS;
	struct evict_peek peek;

	evict_peek_begin(&s->evict, &peek);
	while (n && looks > 0 && least > oldest / ROOM_CHEAP_SHARE) {
		if (stretch_cost(s, r, hole_before(memory_of(n)), oldest, &looks, &cost) && cost < least) {
			least = cost;
			best = memory_of(n);
		}
		do
			n = evict_peek_next(&s->evict, &peek, block_may_go);
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

/* The whole arena was looked at. Look once more with pinned blocks, if there are any; or later, if there may be a
 * stretch then. */
static int search_over(struct store *s, struct room *r, unsigned *budget)
{
	if (!r->pinned_too && s->pinned_bytes > 0) {
		r->pinned_too = true;
		search_from(s, r, budget);
		return -EAGAIN;
	}
	r->waits = r->met;
	return r->met ? -EAGAIN : -KV_ENOMEM;
}

/* A new stretch begins there. NULL: at the end of the arena. */
static int search_anew(struct store *s, struct room *r, struct arena_block *from, unsigned *budget)
{
	r->walk.from = r->walk.at = from;
	r->pinned = 0;
	if (!r->wrapped || (from && from->offset <= r->start))
		return -EAGAIN;
	return search_over(s, r, budget);
}

/* The block behind the stretch of `other`, which m is in: one step, where the stretch may have a million blocks. */
static struct arena_block *stretch_behind(const struct room *other, const struct arena_block *m)
{
	struct arena_block *at = other->walk.at;

	return !at || at->offset > m->offset ? at : m->next;
}

/* The stretch loses its first block, which is not its last. */
static int search_drop_first(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = r->walk.from;

	if (!block_clearable(m))
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
	/* A stretch never begins with a block that has to be moved. */
	if (r->walk.from != m && !block_clearable(r->walk.from))
		return search_drop_first(s, r, budget);
	if (!block_clearable(m)) {
		r->met |= being_written(m->owner) || pins_leaving(s);
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

/* Make the block a hole. NULL: it may not go. */
static struct arena_block *block_clear(struct store *s, struct arena_block *m)
{
	if (!m->owner)
		return m;
	return block_evictable(m->owner) ? block_evict(s, m->owner) : NULL;
}

static struct arena_block *take_piece(struct store *s, const struct room *r, struct arena_block *hole)
{
	uint64_t size = r->mem ? r->end - hole->offset : r->size;

	return arena_take(&s->arena, hole, KV_MIN(hole->size, size), r->block, ARENA_LOW);
}

/* From here on walk.from is the next block to be cleared, and walk.at the block behind the stretch when it was found.
 */
static int claim_first(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = r->walk.from, *hole = NULL;
	uint64_t start = m->owner && m->prev && !m->prev->owner ? m->prev->offset : m->offset;

	if (!reserved_by(s, start, r->size))
		hole = block_clear(s, m);
	if (!hole) { /* since the search passed it, it came into use, or another room clears here */
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

/* Claim the next block of the stretch; one that may not go is left for later. */
static int claim_next(struct store *s, struct room *r)
{
	struct arena_block *m = r->walk.from, *hole, *piece;

	if (!m || m->offset >= r->end) {
		r->swept = true;
		return -EAGAIN;
	}
	hole = block_clear(s, m);
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

/* The hole that the policy's next victim leaves, made larger at its sides until it has `size` bytes. NULL: no block may
 * go, or the hole cannot be as large. */
static struct arena_block *hole_for_move(struct store *s, uint64_t size, unsigned *budget)
{
	struct evict_node *n = evict_victim(&s->evict, block_may_go);
	struct arena_block *hole, *side;

	if (!n)
		return NULL;
	budget_spend(budget, 1);
	hole = block_evict(s, KV_CONTAINER(n, struct block, evict));
	for (unsigned i = 0; hole->size < size && i < ROOM_MOVE_EVICTS; i++) {
		side = hole->next && block_evictable(hole->next->owner) ? hole->next : hole->prev;
		if (!side || !block_evictable(side->owner))
			return NULL;
		budget_spend(budget, 1);
		hole = block_evict(s, side->owner);
	}
	return hole->size >= size ? hole : NULL;
}

/* Copy a pinned block elsewhere. Returns the hole that it leaves. NULL: there is no place; with an empty budget, not
 * yet. */
static struct arena_block *move_away(struct store *s, struct room *r, struct arena_block *m, unsigned *budget)
{
	struct block *b = m->owner;
	struct arena_block *mem = arena_alloc(&s->arena, m->size, b, ARENA_LOW), *hole;

	while (!mem && r->tries < ROOM_MOVE_TRIES) {
		r->tries++;
		hole = hole_for_move(s, m->size, budget);
		mem = hole ? arena_take(&s->arena, hole, m->size, b, ARENA_LOW) : NULL;
		if (*budget == 0)
			break;
	}
	if (!mem)
		return NULL;
	r->tries = 0;
	budget_spend(budget, m->size / ROOM_MOVE_STEP);
	memcpy(s->base + mem->offset, s->base + m->offset, b->len);
	mem->told = m->told;
	b->mem = mem;
	b->offset = mem->offset;
	return arena_free(&s->arena, m);
}

/* Clear the blocks between the first piece and the others. */
static int claim_between(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = r->mem->next, *hole;

	if (m->owner == r->block) {
		if (m == r->last)
			r->last = r->mem;
		arena_join(&s->arena, r->mem);
		return -EAGAIN;
	}
	hole = block_clear(s, m);
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

/* The room searches and clears no more, and gives back its pieces. */
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

/* The room begins anew when its turn comes again. */
static void room_retreat(struct store *s, struct room *r)
{
	room_leave(s, r);
	*r = (struct room){.size = r->size, .block = r->block, .waits = true, .tried = true};
}

/* A room that was never tried may be done in one step, so it begins however many others are at work; later it waits
 * until there are fewer. */
static bool room_began(struct store *s, struct room *r, unsigned *budget)
{
	if (r->begun || (r->tried && s->rooms_begun >= ROOMS_AT_ONCE))
		return r->begun;
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
