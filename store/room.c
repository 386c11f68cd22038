/* SPDX-License-Identifier: Apache-2.0 */
/* room.c -- making room for one value: first find a stretch that can be cleared, then clear it.
 *
 * SEARCH walks over the arena by address, from one of the policy's next victims to the end and round to where it began,
 * for a stretch of holes and of blocks that may go. Nothing is evicted before one is found: a value that cannot fit
 * costs nobody anything. If there is none without pinned blocks a second round lets small pinned blocks be part of it,
 * which are then moved elsewhere: their bytes are not in use (no request, no lease holds them), so they are copied and
 * their clients notice nothing. So pins that are scattered over the arena keep large values out of their own bytes
 * alone. If there is none either, but values that are being written lie in the way, the search is made again later:
 * they can be evicted when they have been stored.
 *
 * CLAIM takes the stretch piece by piece: a hole or an evicted block becomes memory in use, of the block that the room
 * is for, and joins the piece before it. Nobody else can take what was cleared, although it takes many turns of the
 * shard. First, from the left, all that may go goes; then, from the left again, what stands between the pieces: pinned
 * blocks move, and a block that somebody began to use meanwhile is waited for (its use has an end, and the one who
 * waits has a deadline).
 *
 * Stretches of two rooms never overlap. From its first piece on a room is in the store's list `clearing`, and no search
 * passes a block in a stretch of that list. Else two rooms could each have pieces in the other's way, and wait for each
 * other. At most ROOMS_AT_ONCE rooms search or clear over several turns, since a step of a search looks at that list,
 * and a block that joins another at all walks; the others wait, and hold nothing. What is done in one step does not
 * depend on them. A room that has waited for a block in its way for ROOM_PATIENCE steps gives back what it has cleared
 * and looks elsewhere: nobody who reads for long, or reads what others are about to clear, keeps the few places for
 * himself.
 *
 * Blocks that are evicted here lie beside each other; only the first of them is the policy's choice. With values of one
 * size it is the only one. Else it matters which of the next victims is begun with: its neighbours go before their
 * time. So some are looked at, and the stretch taken whose bytes go the least too early. With 2 and 8 KiB mixed an hour
 * of conversations has 0.145 hits so, 0.101 with the first victim's stretch, and 0.147 if bytes had no place (memory of
 * 5,859 mean blocks). It helps where a value takes the place of a few dozen at most: with 256 KiB between 1 KiB 0.131,
 * 0.132 and 0.145. Among a million values of 1 KiB the looks cost a PUT of 4 KiB 3 us, one of 64 KiB 9 us, and one of 1
 * KiB none. (Rejected: evicting by policy until as many bytes are free, then widening a hole. It evicts twice as much,
 * and everything where pinned blocks lie between the holes.)
 *
 * Each step looks at one block or evicts one; copying a block counts as many steps as take that long. A room can be
 * left between any two of them: the walk follows blocks that join (arena.h), and a claimed piece is in use, so nobody
 * else frees it. */
#include "store/room.h"

#include <errno.h>

#include "store/store.h"

/* ---- rooms beside each other ---- */

/* Whose stretch has bytes of [offset, offset + size), or NULL. */
static const struct room *reserved_by(const struct store *s, uint64_t offset, uint64_t size)
{
	KV_LIST_EACH (n, &s->clearing) {
		const struct room *r = KV_LIST_ENTRY(n, struct room, node);
		if (offset < r->end && offset + size > r->mem->offset)
			return r;
	}
	return NULL;
}

static void spend(unsigned *budget, uint64_t steps)
{
	*budget -= (unsigned)KV_MIN(steps, (uint64_t)*budget);
}

/* ---- search ---- */

void room_begin(struct room *r, uint64_t size, struct block *b)
{
	*r = (struct room){.size = size, .block = b};
}

static bool movable(const struct block *b)
{
	return b->state == BLOCK_LIVE && b->refs == 0 && b->mem->size <= ROOM_MOVE_MAX;
}

/* It may go some day soon, when it has been stored. */
static bool being_written(const struct block *b)
{
	return b->state == BLOCK_STAGED;
}

static bool clearable(const struct arena_block *m)
{
	return !m->owner || block_evictable(m->owner);
}

/* ---- where it begins ---- */

static struct arena_block *memory_of(const struct evict_node *n)
{
	return KV_CONTAINER(n, struct block, evict)->mem;
}

/* The hole before m, if there is one, is a part of what it would leave. */
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
		if (!m || !clearable(m) || reserved_by(s, m->offset, m->size))
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
static struct arena_block *cheapest(struct store *s, const struct room *r, unsigned *budget)
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
	spend(budget, ROOM_LOOKS - looks);
	return best;
}

static void search_from(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = hole_before(cheapest(s, r, budget));

	arena_walk_end(&r->walk);
	arena_walk_begin(&s->arena, &r->walk, m);
	r->start = m->offset;
	r->wrapped = false;
	r->pinned = 0;
}

/* All was looked at: once more with pinned blocks, if there are any; or later, if there may be a stretch then. */
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

/* Behind the stretch that m is in, in one step: it may have a million blocks. */
static struct arena_block *behind(const struct room *other, const struct arena_block *m)
{
	struct arena_block *at = other->walk.at;

	return !at || at->offset > m->offset ? at : m->next;
}

/* The stretch loses its first block, which is not its last. */
static int search_drop_first(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = r->walk.from;

	if (!clearable(m))
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
		return search_anew(s, r, behind(other, m), budget);
	}
	/* It never begins with a block that has to be moved. */
	if (r->walk.from != m && !clearable(r->walk.from))
		return search_drop_first(s, r, budget);
	if (!clearable(m)) {
		r->met |= being_written(m->owner);
		if (!r->pinned_too || m == r->walk.from || !movable(m->owner) || m->size > r->size / ROOM_MOVE_SHARE)
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

/* What is there becomes a hole. NULL: it may not go. */
static struct arena_block *clear(struct store *s, struct arena_block *m)
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

/* From here on walk.from is the next block to be cleared, and walk.at what was behind the stretch when it was found. */
static int claim_first(struct store *s, struct room *r, unsigned *budget)
{
	struct arena_block *m = r->walk.from, *hole = NULL;
	uint64_t start = m->owner && m->prev && !m->prev->owner ? m->prev->offset : m->offset;

	if (!reserved_by(s, start, r->size))
		hole = clear(s, m);
	if (!hole) { /* since it was passed somebody uses it, or clears here */
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

/* The next one in the stretch; what may not go is left for later. */
static int claim_next(struct store *s, struct room *r)
{
	struct arena_block *m = r->walk.from, *hole, *piece;

	if (!m || m->offset >= r->end) {
		r->swept = true;
		return -EAGAIN;
	}
	hole = clear(s, m);
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

/* The hole that the policy's next victim leaves, made larger at its sides until it has `size` bytes. NULL: nobody may
 * go, or it cannot be as large. */
static struct arena_block *hole_for_move(struct store *s, uint64_t size, unsigned *budget)
{
	struct evict_node *n = evict_victim(&s->evict, block_may_go);
	struct arena_block *hole, *side;

	if (!n)
		return NULL;
	spend(budget, 1);
	hole = block_evict(s, KV_CONTAINER(n, struct block, evict));
	for (unsigned i = 0; hole->size < size && i < ROOM_MOVE_EVICTS; i++) {
		side = hole->next && block_evictable(hole->next->owner) ? hole->next : hole->prev;
		if (!side || !block_evictable(side->owner))
			return NULL;
		spend(budget, 1);
		hole = block_evict(s, side->owner);
	}
	return hole->size >= size ? hole : NULL;
}

/* Copy a pinned block elsewhere. The hole that it leaves; NULL: there is no place, or with an empty budget none yet. */
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
	spend(budget, m->size / ROOM_MOVE_STEP);
	memcpy(s->base + mem->offset, s->base + m->offset, b->len);
	b->mem = mem;
	b->offset = mem->offset;
	return arena_free(&s->arena, m);
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
	if (!hole && !movable(m->owner)) {
		const struct block *b = m->owner;
		r->waits = b->refs > 0;
		return r->waits ? -EAGAIN : -KV_ENOMEM;
	}
	hole = hole ? hole : move_away(s, r, m, budget);
	if (!hole)
		return r->tries < ROOM_MOVE_TRIES ? -EAGAIN : -KV_ENOMEM;
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

/* It searches and clears no more, and gives back what it has. */
static void leave(struct store *s, struct room *r)
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

/* It has what it wants. */
static void complete(struct store *s, struct room *r)
{
	arena_walk_end(&r->walk);
	kv_list_del(&r->node);
	s->rooms_begun--;
	r->begun = false;
}

/* It begins anew when its turn comes again. */
static void retreat(struct store *s, struct room *r)
{
	leave(s, r);
	*r = (struct room){.size = r->size, .block = r->block, .waits = true, .tried = true};
}

/* One that may be done at once tries, however many others are at work; else it waits until there are fewer. */
static bool began(struct store *s, struct room *r, unsigned *budget)
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

	r->waits = !began(s, r, budget);
	while (*budget > 0 && rc == -EAGAIN && !r->waits) {
		(*budget)--;
		rc = r->found ? claim_step(s, r, budget) : search_step(s, r, budget);
	}
	if (rc == 0)
		complete(s, r);
	else if (rc == -EAGAIN && r->begun &&
		 ((r->waits && (!r->mem || ++r->waited == ROOM_PATIENCE)) || s->rooms_begun > ROOMS_AT_ONCE))
		retreat(s, r);
	return rc;
}

void room_end(struct store *s, struct room *r)
{
	leave(s, r);
}
