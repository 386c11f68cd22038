/* SPDX-License-Identifier: Apache-2.0 */
/* hot.c -- a walk over the arena for each class of blocks, from the hottest to the coldest: pinned, or hit twice or
 * more; hit once; the others by age. (LRU counts no hits; its age is the time since the last use.)
 *
 * A walk survives blocks that come, go and join (arena.h), for as long as a server pushes. Each pass returns the blocks
 * of its class or a hotter one that this round has not returned. The next round returns new and unsettled blocks. */
#include "store/hot.h"

#include "store/store.h"

static struct evict_node *oldest_of(const struct evict *e)
{
	struct evict_node *oldest = NULL;
	for (unsigned i = 0; i < EVICT_QUEUES; i++) {
		struct evict_node *n = evict_oldest(e, i);
		if (n && (!oldest || evict_age(e, n) > evict_age(e, oldest)))
			oldest = n;
	}
	return oldest;
}

/* The age of the block when the walk began; 0: it came, or got a new place, since. */
static uint64_t age_of(const struct hot *h, const struct block *b)
{
	uint64_t age = (h->time - b->evict.stamp) & EVICT_TIME_MASK;
	return b->evict.parked || age > EVICT_TIME_MASK / 2 ? 0 : age;
}

enum hot_class hot_class_of(const struct hot *h, const struct block *b)
{
	uint64_t age = age_of(h, b);
	if (!kv_list_empty(&b->pins) || b->evict.hits > 1)
		return HOT_OFTEN;
	if (b->evict.hits > 0)
		return HOT_HIT;
	if (age <= h->oldest / 4)
		return age <= h->oldest / 8 ? HOT_NEWEST : HOT_NEW;
	return age <= h->oldest / 2 ? HOT_NEWER : HOT_OLD;
}

static void round_begin(struct store *s, struct hot *h)
{
	s->hot_round = s->hot_round + 1 == HOT_SETTLED ? 1 : s->hot_round + 1;
	h->mark = s->hot_round;
	h->told = false;
}

static void begin(struct store *s, struct hot *h)
{
	struct evict_node *oldest = oldest_of(&s->evict);
	h->time = s->evict.time;
	h->oldest = oldest ? evict_age(&s->evict, oldest) : 0;
	h->class = HOT_OFTEN;
	h->begun = true;
	round_begin(s, h);
	arena_walk_begin(&s->arena, &h->walk, s->arena.first);
}

/* End a pass. True: the next one of the round begins. */
static bool pass_next(struct store *s, struct hot *h)
{
	bool same = h->class > HOT_OLD;
	h->walk.from = h->walk.at = s->arena.first;
	if (same) {
		h->class --;
	} else if (h->round == 0 || h->told) {
		h->round++;
		round_begin(s, h);
	} else {
		hot_end(h);
		h->over = true;
	}
	return same;
}

/* Whether the walk returns the block of this stretch. */
static bool due(const struct hot *h, const struct arena_block *m)
{
	const struct block *b = m->owner;
	return b && b->state == BLOCK_LIVE && b->mem == m && m->told != HOT_SETTLED && m->told != h->mark &&
	       hot_class_of(h, b) >= h->class;
}

struct block *hot_next(struct store *s, struct hot *h, unsigned *budget)
{
	if (h->over)
		return NULL;
	if (!h->begun)
		begin(s, h);
	while (*budget > 0) {
		struct arena_block *m = h->walk.at;
		if (!m) {
			if (!pass_next(s, h))
				return NULL;
			continue;
		}
		--*budget;
		h->walk.from = h->walk.at = m->next;
		if (due(h, m)) {
			m->told = h->mark;
			h->told = true;
			return m->owner;
		}
	}
	return NULL;
}

void hot_end(struct hot *h)
{
	if (h->begun && !h->over)
		arena_walk_end(&h->walk);
	h->begun = false;
}

void hot_settle(struct store *s, struct block *b)
{
	s->hot_settled += b->mem->told != HOT_SETTLED;
	b->mem->told = HOT_SETTLED;
}

uint64_t hot_left(const struct store *s)
{
	return index_count(&s->index) - s->hot_settled;
}
