/* SPDX-License-Identifier: Apache-2.0 */
/* shake.h -- for targets that fill a store from bytes: what must hold of it, and use that would trip over a value in
 * the wrong place. */
#ifndef KVRAIL_TESTS_FUZZ_SHAKE_H
#define KVRAIL_TESTS_FUZZ_SHAKE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

enum { SHAKE_LIMIT = 1 << 14, SHAKE_BLOCKS = 64, SHAKE_SEED = 7 };

#define SHAKE_NOW 5000000000ull

static inline void shake_check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

/* An empty store over `memory`, of SHAKE_LIMIT bytes. */
static inline void shake_open(struct store *s, void *memory, const struct evict_policy *policy)
{
	const struct store_options o = {.base = memory,
					.limit_bytes = SHAKE_LIMIT,
					.seed = 3,
					.digest_seed = SHAKE_SEED,
					.generation = 1,
					.now_ns = SHAKE_NOW,
					.policy = policy,
					.blocks_max = SHAKE_BLOCKS};
	shake_check(store_init(s, &o) == 0, "no memory for a store");
}

/* Values tile the memory, and the index has the live ones. */
static inline void shake_tiles(const struct store *s)
{
	uint64_t at = 0, live = 0;
	for (const struct arena_block *m = s->arena.first; m; m = m->next) {
		const struct block *b = m->owner;
		shake_check(m->offset == at && m->size > 0, "values overlap");
		at += m->size;
		if (!b)
			continue;
		shake_check(b->offset == m->offset && b->len > 0 && arena_round(b->len) == m->size,
			    "a value lies elsewhere");
		live += b->state == BLOCK_LIVE;
	}
	shake_check(at == s->arena.limit, "values lie outside of the memory");
	shake_check(index_count(&s->index) == live, "the index has other values");
}

static inline void shake_put(struct store *s, unsigned n)
{
	char key[16];
	struct block *b, *holder;
	struct room *room;
	int len = snprintf(key, sizeof(key), "%u", n), rc;
	rc = store_stage(s, key, (size_t)len, 1 + n * 100 % 2000, n % 2 ? ARENA_LOW : ARENA_HIGH, &b, &room);
	if (rc == -EAGAIN)
		store_stage_end(s, room);
	if (rc)
		return;
	memset(store_data(s, b), (int)n, b->len);
	if (store_commit(s, b, n, KV_NEVER, SHAKE_NOW, &holder))
		store_drop(s, b);
	block_unref(s, b);
}

/* Evict, store, expire and delete, with nobody who reads. */
static inline void shake(struct store *s)
{
	shake_tiles(s);
	for (unsigned n = 0; n < 100; n++)
		shake_put(s, n);
	(void)store_sweep(s, SHAKE_NOW + 1000000000ull, SHAKE_BLOCKS);
	for (struct evict_node *v; (v = evict_victim(&s->evict, block_may_go)) != NULL;)
		block_evict(s, KV_CONTAINER(v, struct block, evict));
	shake_check(s->evict.count == 0, "a value is never evicted");
	shake_tiles(s);
}

#endif
