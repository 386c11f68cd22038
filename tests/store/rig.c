/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c -- the store of rig.h. */
#include "tests/store/rig.h"

#include <errno.h>

#include "store/room.h"

struct store store;
static uint8_t *memory;

void open_store_with(struct store_options o)
{
	memory = o.base = malloc(o.limit_bytes);
	assert_non_null(memory);
	o.generation = 1;
	o.now_ns = o.now_ns ? o.now_ns : SECOND;
	o.policy = o.policy ? o.policy : &evict_clock2g;
	assert_int_equal(store_init(&store, &o), 0);
}

void open_store(uint64_t limit, uint64_t seed)
{
	open_store_with((struct store_options){.limit_bytes = limit, .seed = seed});
}

void open_small(uint64_t blocks_max)
{
	open_store_with((struct store_options){.limit_bytes = MANY * SMALL, .seed = 1, .blocks_max = blocks_max});
}

static void small_key(char key[16], unsigned i)
{
	snprintf(key, 16, "s%u", i);
}

void fill_with_small(uint64_t blocks_max)
{
	open_small(blocks_max);
	for (unsigned i = 0; i < MANY; i++)
		assert_non_null(put_nth(i, SMALL));
	assert_int_equal(index_count(&store.index), MANY);
}

void close_store(void)
{
	store_fini(&store);
	free(memory);
}

void pins_clear(struct store *s, struct pins *p)
{
	pins_leave(s, p);
	pins_drop_all(s);
}

int stage_at(const void *key, size_t key_len, uint64_t len, enum arena_end end, struct block **out)
{
	bool left = pins_leaving(&store); /* room waits until they were dropped */
	struct room *room;
	int rc = store_stage(&store, key, key_len, len, end, out, &room);
	while (rc == -EAGAIN) {
		unsigned budget = 1000;
		struct block *b = room->block;
		rc = store_stage_step(&store, room, &budget);
		/* Or it waits for a reader, which a test here would do for ever. */
		assert_true(rc != -EAGAIN || budget == 0 || left);
		left = pins_leaving(&store);
		(void)pins_sweep(&store, 3);
		if (rc == 0)
			*out = b;
	}
	return rc;
}

int stage(const void *key, size_t key_len, uint64_t len, struct block **out)
{
	return stage_at(key, key_len, len, ARENA_LOW, out);
}

struct block *put(const char *key, uint64_t len, uint8_t fill, uint64_t now)
{
	struct block *b, *holder;
	if (stage(key, strlen(key), len, &b) != 0)
		return NULL;
	memset(store_data(&store, b), fill, len);
	if (store_commit(&store, b, fill, KV_NEVER, now, &holder) != 0) {
		store_drop(&store, b);
		block_unref(&store, b);
		return NULL;
	}
	block_unref(&store, b);
	return b;
}

struct block *get(const char *key, uint64_t now)
{
	return store_find(&store, key, strlen(key), now);
}

struct block *put_nth(unsigned i, uint64_t len)
{
	char key[16];
	small_key(key, i);
	return put(key, len, (uint8_t)i, SECOND);
}

struct block *small(unsigned i)
{
	char key[16];
	small_key(key, i);
	return get(key, SECOND);
}

void check_bytes(const struct block *b, uint64_t len, uint8_t fill)
{
	const uint8_t *p = store_data(&store, b);
	assert_int_equal(b->len, len);
	for (uint64_t i = 0; i < len; i += 1 + i / 7)
		assert_int_equal(p[i], fill);
	assert_int_equal(p[len - 1], fill);
}

/* Each space counts its blocks. */
static void check_spaces(void)
{
	static uint64_t blocks[SPACES_MAX], bytes[SPACES_MAX];
	uint64_t refs = 0;
	memset(blocks, 0, sizeof(blocks));
	memset(bytes, 0, sizeof(bytes));
	for (struct arena_block *m = store.arena.first; m; m = m->next) {
		const struct block *b = m->owner;
		if (!b || b->mem != m || b->state != BLOCK_LIVE)
			continue;
		blocks[b->space]++;
		bytes[b->space] += m->size;
		assert_true(store.cleared_on || block_current(&store, b));
	}
	for (uint32_t i = 0; i < store.spaces.count; i++) {
		assert_int_equal(store.spaces.at[i]->blocks, blocks[i]);
		assert_int_equal(store.spaces.at[i]->bytes, bytes[i]);
		assert_true(store.spaces.at[i]->refs >= blocks[i]);
		refs += store.spaces.at[i]->refs;
	}
	assert_int_equal(refs, store.blocks.used);
}

void check_store(void)
{
	uint64_t at = 0, used = 0, staged = 0, gone = 0, pinned = 0, live = 0, evictable = 0;
	struct arena_block *before = NULL;
	for (struct arena_block *m = store.arena.first; m; before = m, m = m->next) {
		struct block *b = m->owner;
		assert_int_equal(m->offset, at);
		assert_ptr_equal(m->prev, before);
		assert_true(m->size > 0 && m->size % ARENA_GRANULE == 0);
		assert_false(before && !b && !before->owner);
		at += m->size;
		if (!b)
			continue;
		used += m->size;
		if (b->mem) {
			assert_ptr_equal(b->mem, m);
			assert_int_equal(b->offset, m->offset);
			assert_int_equal(m->size, arena_round(b->len));
			staged += b->state == BLOCK_STAGED ? m->size : 0;
		}
		gone += b->state == BLOCK_GONE ? m->size : 0;
		assert_true(b->state != BLOCK_GONE || b->refs > 0);
		if (b->state != BLOCK_LIVE)
			continue;
		live++;
		if (!kv_list_empty(&b->pins)) {
			const struct pin *first = KV_LIST_ENTRY(b->pins.next, const struct pin, of_block);
			pinned += b->pins.next == b->pins.prev && first->set->left ? 0 : m->size;
			assert_false(b->evict.parked);
		} else if (b->evict.parked) {
			assert_true(b->refs > 0);
		} else {
			evictable++;
		}
	}
	assert_int_equal(at, store.arena.limit);
	assert_int_equal(store.arena.used, used);
	assert_in_range(store.staged_bytes, staged, store.rooms.used ? UINT64_MAX : staged);
	assert_int_equal(store.gone_bytes, gone);
	assert_int_equal(store.pinned_bytes, pinned);
	assert_int_equal(index_count(&store.index), live);
	assert_int_equal(store.evict.count, evictable);
	assert_int_equal(store.evict.in[0] + store.evict.in[1], evictable);
	check_spaces();
}
