/* SPDX-License-Identifier: Apache-2.0 */
/* hot.c -- walk over the arena once for each class, from the hottest to the coldest but one.
 *
 * The policies know for each block how often it was hit since they last looked, and the time of its place in their
 * order. That makes the classes: hit twice or more, or pinned; hit once; not hit, but in the newer half of that order.
 * Under LRU, which counts no hits, the newer half is what was used last. Within a class the order is that of memory.
 *
 * A walk of the arena stays right while blocks come, go and join (arena.h), so it may last as long as a server takes to
 * hand its blocks to others. Rejected: a sorted list of all blocks. It takes memory when a store is full, and holds
 * pointers to blocks that go meanwhile. */
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

static enum hot_class class_of(const struct store *s, const struct hot *h, const struct block *b)
{
	if (!kv_list_empty(&b->pins) || b->evict.hits > 1)
		return HOT_OFTEN;
	if (b->evict.hits > 0)
		return HOT_HIT;
	return b->evict.parked || evict_age(&s->evict, &b->evict) <= h->half ? HOT_NEWER : HOT_COLD;
}

static void begin(struct store *s, struct hot *h)
{
	struct evict_node *oldest = oldest_of(&s->evict);
	h->half = oldest ? evict_age(&s->evict, oldest) / 2 : 0;
	h->class = HOT_OFTEN;
	h->begun = true;
	arena_walk_begin(&s->arena, &h->walk, s->arena.first);
}

/* The pass is at its end: the next one begins. False: there is none. */
static bool pass_next(struct store *s, struct hot *h)
{
	if (--h->class == HOT_COLD) {
		hot_end(h);
		h->over = true;
		return false;
	}
	h->walk.from = h->walk.at = s->arena.first;
	return true;
}

struct block *hot_next(struct store *s, struct hot *h, unsigned *budget)
{
	if (h->over)
		return NULL;
	if (!h->begun)
		begin(s, h);
	while (*budget > 0) {
		struct arena_block *m = h->walk.at;
		struct block *b;
		if (!m) {
			if (!pass_next(s, h))
				return NULL;
			continue;
		}
		--*budget;
		h->walk.from = h->walk.at = m->next;
		b = m->owner;
		if (b && b->state == BLOCK_LIVE && b->mem == m && class_of(s, h, b) == h->class)
			return b;
	}
	return NULL;
}

void hot_end(struct hot *h)
{
	if (h->begun && !h->over)
		arena_walk_end(&h->walk);
	h->begun = false;
}
