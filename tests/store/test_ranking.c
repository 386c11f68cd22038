/* SPDX-License-Identifier: Apache-2.0 */
/* test_hot.c -- all blocks, the hottest first, each once in a round, and none that has gone while the store changes. */
#include "tests/store/rig.h"

#include "store/ranking.h"

enum { BLOCKS = 300, LEN = 1000 };

static struct block *next(struct ranking *h)
{
	struct block *b = NULL;
	while (!b && !h->over) {
		unsigned budget = 7;
		b = ranking_next(&store, h, &budget);
	}
	return b;
}

static unsigned number_of(const struct block *b)
{
	char key[16] = {0};
	memcpy(key, b->item.key, KV_MIN((size_t)b->item.key_len, sizeof(key) - 1));
	return (unsigned)strtoul(key + 4, NULL, 10);
}

static struct block *put_key(unsigned i)
{
	char key[16];
	snprintf(key, sizeof(key), "key-%u", i);
	return put(key, LEN, (uint8_t)i, 1);
}

/* The class of block i of BLOCKS, of which every third is hit once and every tenth often. */
static enum rank class_of(unsigned i)
{
	unsigned age = BLOCKS - 1 - i, oldest = BLOCKS - 1;
	if (i % 10 == 0)
		return RANK_OFTEN;
	if (i % 3 == 0)
		return RANK_HIT;
	return age <= oldest / 8   ? RANK_NEWEST
	       : age <= oldest / 4 ? RANK_NEW
	       : age <= oldest / 2 ? RANK_NEWER
				   : RANK_OLD;
}

static void put_and_hit(struct block *b[BLOCKS])
{
	for (unsigned i = 0; i < BLOCKS; i++)
		b[i] = put_key(i);
	for (unsigned i = 0; i < BLOCKS; i++)
		for (unsigned hits = i % 10 == 0 ? 3 : i % 3 == 0; hits > 0; hits--)
			store_use(&store, b[i]);
}

/* All of them, also those that nobody ever read. */
static void the_hottest_come_first_and_each_once(void **state)
{
	unsigned told[BLOCKS] = {0};
	enum rank last = RANK_OFTEN;
	struct block *b[BLOCKS];
	struct ranking h = {.begun = false};
	(void)state;
	open_store(BLOCKS * 2048, 1);
	put_and_hit(b);
	for (struct block *at; (at = next(&h)) && h.round == 0;) {
		unsigned i = number_of(at);
		assert_true(h.class <= last);
		last = h.class;
		told[i]++;
		assert_int_equal(h.class, class_of(i));
		assert_int_equal(rank_of(&h, at), class_of(i));
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_int_equal(told[i], 1);
	ranking_end(&h);
	close_store();
}

/* Some are settled with each round, some go, and one comes: the walk ends when no block is left that is not. */
static void what_is_not_settled_is_told_of_again(void **state)
{
	struct block *b[BLOCKS];
	struct ranking h = {.begun = false};
	unsigned rounds = 0, told = 0, live = BLOCKS;
	(void)state;
	open_store(BLOCKS * 2048, 1);
	put_and_hit(b);
	assert_int_equal(ranking_left(&store), BLOCKS);
	for (struct block *at; (at = next(&h)); told++) {
		if (h.round != rounds) {
			rounds++;
			assert_int_equal(told, live);
			told = 0;
			live = (unsigned)ranking_left(&store);
		}
		if (number_of(at) % 4 <= h.round)
			ranking_done(&store, at);
		ranking_done(&store, b[0]); /* once more */
		assert_true(ranking_left(&store) < BLOCKS);
	}
	assert_int_equal(rounds, 3);
	assert_int_equal(ranking_left(&store), 0);
	store_drop(&store, b[1]);
	assert_int_equal(ranking_left(&store), 0);
	b[1] = put_key(1); /* in the same place, perhaps */
	assert_int_equal(ranking_left(&store), 1);
	h = (struct ranking){.begun = false};
	assert_ptr_equal(next(&h), b[1]);
	store_drop(&store, b[1]);
	assert_null(next(&h));
	close_store();
}

/* Hit behind the walk's back, it is told of in a later pass. */
static void a_block_that_changes_its_class_is_told_of(void **state)
{
	struct block *b[BLOCKS];
	struct ranking h = {.begun = false};
	unsigned told = 0;
	(void)state;
	open_store(BLOCKS * 2048, 1);
	put_and_hit(b);
	for (struct block *at; (at = next(&h)) && h.round == 0; told++)
		if (told == BLOCKS / 2)
			for (unsigned i = 0; i < BLOCKS; i++)
				store_use(&store, b[i]);
	assert_int_equal(told, BLOCKS);
	ranking_end(&h);
	close_store();
}

/* Blocks come, go and are hit while the walk stands still: what it tells is live, and it has an end. */
static void a_walk_follows_a_store_that_changes(void **state)
{
	struct kv_prng p = check_seed();
	(void)state;
	for (unsigned round = 0; round < 40; round++) {
		struct ranking h = {.begun = false};
		unsigned told = 0;
		open_store(256 << 10, 1);
		for (unsigned i = 0; i < 400; i++)
			put_key(i);
		while (!h.over && told < 5000) {
			unsigned budget = 1 + (unsigned)kv_prng_below(&p, 50);
			struct block *b = ranking_next(&store, &h, &budget);
			char key[16];
			if (b) {
				assert_int_equal(b->state, BLOCK_LIVE);
				check_bytes(b, LEN, (uint8_t)number_of(b));
				if (kv_prng_below(&p, 4))
					ranking_done(&store, b);
				told++;
			}
			for (unsigned n = told < 1000 ? (unsigned)kv_prng_below(&p, 4) : 0; n > 0; n--) {
				unsigned i = (unsigned)kv_prng_below(&p, 500);
				snprintf(key, sizeof(key), "key-%u", i);
				b = get(key, 1);
				if (b && kv_prng_below(&p, 2))
					store_drop(&store, b);
				else if (b)
					store_use(&store, b);
				else
					put_key(i);
			}
		}
		assert_true(h.over);
		assert_int_equal(ranking_left(&store), 0);
		if (round % 2)
			ranking_end(&h);
		check_store();
		close_store();
	}
}

/* It may be ended in the middle: nothing of it is left in the arena. */
static void a_walk_may_end_anywhere(void **state)
{
	struct ranking h = {.begun = false};
	(void)state;
	open_store(256 << 10, 1);
	ranking_end(&h);
	assert_null(next(&h)); /* an empty store has nothing */
	h = (struct ranking){.begun = false};
	for (unsigned i = 0; i < 10; i++)
		store_use(&store, put_key(i));
	assert_non_null(next(&h));
	ranking_end(&h);
	assert_true(kv_list_empty(&store.arena.walks));
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hottest_come_first_and_each_once),
		cmocka_unit_test(what_is_not_settled_is_told_of_again),
		cmocka_unit_test(a_block_that_changes_its_class_is_told_of),
		cmocka_unit_test(a_walk_follows_a_store_that_changes),
		cmocka_unit_test(a_walk_may_end_anywhere),
	};
	return cmocka_run_group_tests_name("store/hot", tests, NULL, NULL);
}
