/* SPDX-License-Identifier: Apache-2.0 */
/* test_hot.c -- the hottest blocks first, each once while the store rests, and none that has gone while it does not. */
#include "tests/store/rig.h"

#include "store/hot.h"

enum { BLOCKS = 300, LEN = 1000 };

static struct block *next(struct hot *h)
{
	struct block *b = NULL;
	while (!b && !h->over) {
		unsigned budget = 7;
		b = hot_next(&store, h, &budget);
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

/* Every third block is hit once, every tenth often; of the others the newer half is told. */
static void the_hottest_come_first_and_each_once(void **state)
{
	unsigned told[BLOCKS] = {0}, count[4] = {0};
	enum hot_class last = HOT_OFTEN;
	struct block *b[BLOCKS];
	struct hot h = {.begun = false};
	(void)state;
	open_store(BLOCKS * 2048, 1);
	for (unsigned i = 0; i < BLOCKS; i++)
		b[i] = put_key(i);
	for (unsigned i = 0; i < BLOCKS; i++)
		for (unsigned hits = i % 10 == 0 ? 3 : i % 3 == 0; hits > 0; hits--)
			store_use(&store, b[i]);
	for (struct block *at; (at = next(&h));) {
		unsigned i = number_of(at);
		assert_true(h.class <= last);
		last = h.class;
		told[i]++;
		count[h.class]++;
		assert_int_equal(h.class, i % 10 == 0 ? HOT_OFTEN : i % 3 == 0 ? HOT_HIT : HOT_NEWER);
	}
	assert_int_equal(count[HOT_OFTEN], BLOCKS / 10);
	assert_int_equal(count[HOT_HIT], BLOCKS / 3 - BLOCKS / 30);
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_int_equal(told[i], i % 10 == 0 || i % 3 == 0 || i >= BLOCKS / 2);
	hot_end(&h);
	close_store();
}

/* Blocks come, go and are hit while the walk stands still: what it tells is live, and it has an end. */
static void a_walk_follows_a_store_that_changes(void **state)
{
	struct kv_prng p = check_seed();
	(void)state;
	for (unsigned round = 0; round < 40; round++) {
		struct hot h = {.begun = false};
		unsigned told = 0;
		open_store(256 << 10, 1);
		for (unsigned i = 0; i < 400; i++)
			put_key(i);
		while (!h.over && told < 5000) {
			unsigned budget = 1 + (unsigned)kv_prng_below(&p, 50);
			struct block *b = hot_next(&store, &h, &budget);
			char key[16];
			if (b) {
				assert_int_equal(b->state, BLOCK_LIVE);
				check_bytes(b, LEN, (uint8_t)number_of(b));
				told++;
			}
			for (unsigned n = (unsigned)kv_prng_below(&p, 4); n > 0; n--) {
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
		if (round % 2)
			hot_end(&h);
		check_store();
		close_store();
	}
}

/* It may be ended in the middle: nothing of it is left in the arena. */
static void a_walk_may_end_anywhere(void **state)
{
	struct hot h = {.begun = false};
	(void)state;
	open_store(256 << 10, 1);
	hot_end(&h);
	assert_null(next(&h)); /* an empty store has nothing */
	h = (struct hot){.begun = false};
	for (unsigned i = 0; i < 10; i++)
		store_use(&store, put_key(i));
	assert_non_null(next(&h));
	hot_end(&h);
	assert_true(kv_list_empty(&store.arena.walks));
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hottest_come_first_and_each_once),
		cmocka_unit_test(a_walk_follows_a_store_that_changes),
		cmocka_unit_test(a_walk_may_end_anywhere),
	};
	return cmocka_run_group_tests_name("store/hot", tests, NULL, NULL);
}
