/* SPDX-License-Identifier: Apache-2.0 */
/* ranking.c -- a walk over the arena for each class of blocks, from the hottest to the coldest: pinned, or hit twice or
 * more; hit once; the others by age. (LRU counts no hits; its age is the time since the last use.)
 *
 * A walk survives blocks that come, go and join (arena.h), for as long as a server pushes. A pass returns the
 * blocks of its class or a hotter one that this round has not returned yet. The next round returns new and unsettled
 * blocks. */
#include "store/ranking.h"

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
static uint64_t age_of(const struct ranking *h, const struct block *b)
{
	uint64_t age = (h->time - b->evict.stamp) & EVICT_TIME_MASK;
	return b->evict.parked || age > EVICT_TIME_MASK / 2 ? 0 : age;
}

enum rank rank_of(const struct ranking *h, const struct block *b)
{
	uint64_t age = age_of(h, b);
	if (!kv_list_empty(&b->pins) || b->evict.hits > 1)
		return RANK_OFTEN;
	if (b->evict.hits > 0)
		return RANK_HIT;
	if (age <= h->oldest / 4)
		return age <= h->oldest / 8 ? RANK_NEWEST : RANK_NEW;
	return age <= h->oldest / 2 ? RANK_NEWER : RANK_OLD;
}

static void round_begin(struct store *s, struct ranking *h)
{
	s->ranking_round = s->ranking_round + 1 == RANKING_DONE ? 1 : s->ranking_round + 1;
	h->mark = s->ranking_round;
	h->found = false;
}

static void begin(struct store *s, struct ranking *h)
{
	h->time = *s->evict.time;
	h->oldest = 0;
	for (unsigned i = 0; i < s->tenancy.count; i++) {
		const struct evict_node *oldest = oldest_of(tenant_evict(s, s->tenancy.at[i]));
		if (oldest)
			h->oldest = KV_MAX(h->oldest, evict_age(&s->evict, oldest));
	}
	h->class = RANK_OFTEN;
	h->begun = true;
	round_begin(s, h);
	arena_walk_begin(&s->arena, &h->walk, s->arena.first);
}

static bool pass_next(struct store *s, struct ranking *h)
{
	bool same = h->class > RANK_OLD;
	h->walk.from = h->walk.at = s->arena.first;
	if (same) {
		h->class --;
	} else if (h->round == 0 || h->found) {
		h->round++;
		round_begin(s, h);
	} else {
		ranking_end(h);
		h->over = true;
	}
	return same;
}

static bool due(const struct ranking *h, const struct arena_block *m)
{
	const struct block *b = m->owner;
	return b && b->state == BLOCK_LIVE && b->mem == m && m->walked != RANKING_DONE && m->walked != h->mark &&
	       rank_of(h, b) >= h->class;
}

struct block *ranking_next(struct store *s, struct ranking *h, unsigned *budget)
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
			m->walked = h->mark;
			h->found = true;
			return m->owner;
		}
	}
	return NULL;
}

void ranking_end(struct ranking *h)
{
	if (h->begun && !h->over)
		arena_walk_end(&h->walk);
	h->begun = false;
}

void ranking_done(struct store *s, struct block *b)
{
	s->ranking_done_count += b->mem->walked != RANKING_DONE;
	b->mem->walked = RANKING_DONE;
}

uint64_t ranking_left(const struct store *s)
{
	return index_count(&s->index) - s->ranking_done_count;
}
