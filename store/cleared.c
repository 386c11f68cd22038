/* SPDX-License-Identifier: Apache-2.0 */
/* cleared.c -- a namespace gets another generation: its blocks are not found any more, and are freed a few at a time.
 *
 * The walk over the arena visits each stretch once. A block that moves behind it would be missed, so room.c frees one
 * of an earlier generation instead. Values being written are refused when they are committed. */
#include "store/store.h"

/* The space has another seed: enter it again, and walk over all blocks. */
static void space_changed(struct store *s, struct space *sp)
{
	tenant_tier_forget(sp);
	if (s->journal && sp->refs > 0 && sp->name[0]) /* of the default one it would mean all: its removals follow */
		journal_put(s->journal, JOURNAL_CLEARED, JOURNAL_MEMORY, sp->name, NULL, 0, sp->generation);
	if (s->space == sp)
		store_enter(s, sp);
	if (!s->cleared_on)
		arena_walk_begin(&s->arena, &s->cleared, s->arena.first);
	s->cleared_again = s->cleared_on;
	s->cleared_on = true;
}

void store_space_advance(struct store *s, struct space *sp, uint64_t generation, uint64_t now_ns)
{
	if (space_advance(&s->spaces, sp, generation, now_ns))
		space_changed(s, sp);
}

void store_space_clear(struct store *s, struct space *sp, uint64_t least, uint64_t now_ns)
{
	space_clear(&s->spaces, sp, least, now_ns);
	space_changed(s, sp);
}

static struct block *cleared_block(const struct store *s, const struct arena_block *m)
{
	struct block *b = m->owner;
	return b && b->state == BLOCK_LIVE && !block_current(s, b) ? b : NULL;
}

bool store_cleared_sweep(struct store *s, unsigned budget)
{
	struct arena_walk *w = &s->cleared;
	if (s->journal && journal_crowded(s->journal))
		return s->cleared_on;
	for (; s->cleared_on && budget > 0; budget--) {
		const struct arena_block *m = w->at;
		struct block *b;
		if (!m && !s->cleared_again) {
			arena_walk_end(w);
			s->cleared_on = false;
		} else if (!m) {
			w->from = w->at = s->arena.first;
			s->cleared_again = false;
		} else {
			w->from = w->at = m->next;
			b = cleared_block(s, m);
			if (b)
				store_drop(s, b);
		}
	}
	return s->cleared_on;
}

void store_space_learn(struct store *s, const char *name, uint64_t generation, uint64_t now_ns)
{
	struct space *sp = space_find(&s->spaces, name);
	if (!sp && generation <= s->spaces.floor)
		return;
	if (!sp && space_take(&s->spaces, name, now_ns, &sp) < 0)
		space_floor(&s->spaces, generation);
	else
		store_space_advance(s, sp, generation, now_ns);
}

bool store_space_believed(const struct store *s, const char *name, uint64_t generation)
{
	const struct space *sp = space_find(&s->spaces, name);
	uint64_t ours = sp ? sp->generation : s->spaces.floor;
	return generation <= ours || generation - ours <= KV_GENERATIONS_MAX;
}

void store_floor_learn(struct store *s, uint64_t floor, uint64_t now_ns)
{
	for (uint32_t i = 0; i < s->spaces.count && floor > s->spaces.floor; i++)
		store_space_advance(s, s->spaces.at[i], floor, now_ns);
	space_floor(&s->spaces, floor);
}
