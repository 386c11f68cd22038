/* SPDX-License-Identifier: Apache-2.0 */
/* block.c -- the states of a block.
 *
 *   store_stage --> STAGED -- store_commit --> LIVE -- dropped, evicted, expired --> GONE -- last reference --> freed
 *                      |                                                              ^
 *                      +-- dropped ---------------------------------------------------+
 *
 * Invariants: a block is in the index if and only if it is LIVE, and in the eviction policy if and only if it is LIVE,
 * unpinned and not parked (evict.h). Memory and struct are freed when it is GONE and refs is 0: until then a NIC may
 * read the bytes. Memory of all blocks, GONE ones included, counts against the limit. */
#include "store/store.h"

bool block_may_go(const struct evict_node *n)
{
	return KV_CONTAINER(n, struct block, evict)->refs == 0;
}

uint64_t block_hash_now(const struct store *s, const struct block *b)
{
	const struct index ix = {.seed = s->spaces.at[b->space]->seed, .digest_seed = s->index.digest_seed};
	return index_hash(&ix, b->item.key, b->item.key_len);
}

bool block_current(const struct store *s, const struct block *b)
{
	return KV_LIKELY(s->spaces.at[b->space]->cleared_ns == 0) || b->item.hash == block_hash_now(s, b);
}

bool block_again(const struct store *s, const struct block *b)
{
	return index_find(&s->index, block_hash_now(s, b), b->item.key, b->item.key_len) != NULL;
}

void block_retire(struct store *s, struct block *b)
{
	KV_ASSERT_HOT(b->state != BLOCK_GONE);
	if (b->state == BLOCK_LIVE) {
		struct space *sp = s->spaces.at[b->space];
		sp->blocks--;
		sp->bytes -= b->mem->size;
		if (KV_LIKELY(!s->journal) || block_current(s, b) || !block_again(s, b))
			store_note(s, JOURNAL_REMOVED, b);
		if (KV_UNLIKELY(s->records.places))
			records_drop(&s->records, b);
		index_remove(&s->index, &b->item);
		expire_set(&s->expire, &b->expire, KV_NEVER);
		s->ranking_done_count -= b->mem->walked == RANKING_DONE;
		if (kv_list_empty(&b->pins))
			evict_remove(sp->evict, &b->evict);
		else
			pins_release_block(s, b);
	} else if (b->state == BLOCK_STAGED) {
		s->staged_bytes -= arena_round(b->len);
	}
	b->state = BLOCK_GONE;
	s->gone_bytes += b->mem->size;
}

struct arena_block *block_free(struct store *s, struct block *b)
{
	struct arena_block *hole;
	struct space *sp = s->spaces.at[b->space];
	KV_ASSERT(b->state == BLOCK_GONE && b->refs == 0 && kv_list_empty(&b->pins)); /* rule 17 */
	KV_ASSERT(b->mem->leases == 0);                                               /* rule 58 */
	store_poison(s, b->mem);
	s->gone_bytes -= b->mem->size;
	tenant_sub(s, sp->tenant, store_charge(s, b->mem->size));
	hole = arena_free(&s->arena, b->mem);
	sp->refs--;
	slab_put(&s->blocks, b);
	return hole;
}

void block_unref(struct store *s, struct block *b)
{
	KV_ASSERT_HOT(b->refs > 0);
	if (--b->refs > 0)
		return;
	if (b->state == BLOCK_GONE)
		block_free(s, b);
	else
		evict_unpark(store_evict_of(s, b), &b->evict);
}

struct arena_block *block_evict(struct store *s, struct block *b)
{
	struct space *sp = s->spaces.at[b->space];
	evict_remember(sp->evict, &b->evict, b->item.hash);
	sp->tenant->evicted++;
	if (KV_UNLIKELY(s->evicted != NULL))
		s->evicted(s->evicted_arg, b);
	block_retire(s, b);
	s->events[STORE_EVICTED]++;
	return block_free(s, b);
}
