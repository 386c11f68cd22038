/* SPDX-License-Identifier: Apache-2.0 */
/* test_index.c -- the index against an array that is searched from end to end. */
#include "tests/check.h"

#include "store/index.h"

enum { ITEMS = 3000, STEPS = 200000 };

static struct index ix;
static struct index_item item[ITEMS];
static bool in[ITEMS];

/* Key i: its number, and a tail so that all lengths from 4 to 128 occur. */
static void make_items(struct kv_prng *p, bool collide)
{
	for (uint32_t i = 0; i < ITEMS; i++) {
		item[i].key_len = (uint8_t)(4 + kv_prng_below(p, KV_KEY_MAX - 3));
		memset(item[i].key, 'k', sizeof(item[i].key));
		memcpy(item[i].key, &i, sizeof(i));
		item[i].hash = index_hash(&ix, item[i].key, item[i].key_len);
		if (collide) /* 16 hashes in all, near the table's end: long runs that wrap round */
			item[i].hash = UINT64_MAX - item[i].hash % 16;
		in[i] = false;
	}
}

static void random_use(bool collide, unsigned items, unsigned steps)
{
	struct kv_prng p = check_seed();
	uint64_t count = 0;
	assert_int_equal(index_init(&ix, kv_prng_next(&p), 2), 0);
	make_items(&p, collide);
	for (unsigned step = 0; step < steps; step++) {
		/* Grow in the first half, shrink in the second. */
		unsigned i = (unsigned)kv_prng_below(&p, items);
		bool want_in = kv_prng_below(&p, 100) < (step < steps / 2 ? 70 : 30);
		struct index_item *found = index_find(&ix, item[i].hash, item[i].key, item[i].key_len);
		assert_ptr_equal(found, in[i] ? &item[i] : NULL);
		if (in[i] && !want_in) {
			index_remove(&ix, &item[i]);
			in[i] = false;
			count--;
		} else if (!in[i] && want_in) {
			assert_int_equal(index_insert(&ix, &item[i]), 0);
			in[i] = true;
			count++;
		}
		assert_int_equal(index_count(&ix), count);
	}
	for (unsigned i = 0; i < items; i++)
		assert_ptr_equal(index_find(&ix, item[i].hash, item[i].key, item[i].key_len), in[i] ? &item[i] : NULL);
	index_fini(&ix);
}

static void random_use_agrees_with_an_array(void **state)
{
	(void)state;
	random_use(false, ITEMS, STEPS);
}

static void colliding_hashes_agree_too(void **state)
{
	(void)state;
	random_use(true, 1200, 60000);
}

static void equal_hashes_are_told_apart_by_key(void **state)
{
	(void)state;
	struct index_item a = {.hash = 7, .key_len = 3, .key = "abc"}, b = {.hash = 7, .key_len = 2, .key = "abc"};
	assert_int_equal(index_init(&ix, 1, 2), 0);
	assert_int_equal(index_insert(&ix, &a), 0);
	assert_null(index_find(&ix, 7, "ab", 2));
	assert_null(index_find(&ix, 7, "abd", 3));
	assert_int_equal(index_insert(&ix, &b), 0);
	assert_ptr_equal(index_find(&ix, 7, "ab", 2), &b);
	assert_ptr_equal(index_find(&ix, 7, "abc", 3), &a);
	index_fini(&ix);
}

/* While it grows, every item stays findable and no insert moves more than a few. */
static void growth_is_incremental(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	bool saw_both = false;
	assert_int_equal(index_init(&ix, 5, 2), 0);
	make_items(&p, false);
	for (unsigned i = 0; i < ITEMS; i++) {
		uint64_t before = ix.old.count;
		assert_int_equal(index_insert(&ix, &item[i]), 0);
		assert_true(ix.old.count >= before || before - ix.old.count <= 16);
		saw_both |= ix.old.count > 0;
		for (unsigned j = 0; j <= i; j += 37)
			assert_ptr_equal(index_find(&ix, item[j].hash, item[j].key, item[j].key_len), &item[j]);
	}
	assert_true(saw_both);
	index_fini(&ix);
}

/* Its slots then lie in pages of their own, not in the heap. */
static void a_large_index_agrees_too(void **state)
{
	enum { LARGE = 250000 };
	struct index_item *all = calloc(LARGE, sizeof(*all));
	(void)state;
	assert_non_null(all);
	assert_int_equal(index_init(&ix, 5, 2), 0);
	for (unsigned i = 0; i < LARGE; i++) {
		all[i].key_len = 4;
		memcpy(all[i].key, &i, 4);
		all[i].hash = index_hash(&ix, all[i].key, 4);
		assert_int_equal(index_insert(&ix, &all[i]), 0);
	}
	for (unsigned i = 0; i < LARGE; i++)
		assert_ptr_equal(index_find(&ix, all[i].hash, all[i].key, 4), &all[i]);
	assert_non_null(ix.now.area.base);
	for (unsigned i = 0; i < LARGE; i += 2)
		index_remove(&ix, &all[i]);
	for (unsigned i = 0; i < LARGE; i++)
		assert_ptr_equal(index_find(&ix, all[i].hash, all[i].key, 4), i % 2 ? &all[i] : NULL);
	assert_int_equal(index_count(&ix), LARGE / 2);
	index_fini(&ix);
	free(all);
}

static void near_finds_a_block(void **state)
{
	(void)state;
	struct index_item a = {.hash = 3, .key_len = 1, .key = "a"};
	assert_int_equal(index_init(&ix, 5, 2), 0);
	assert_null(index_near(&ix, 99));
	assert_int_equal(index_insert(&ix, &a), 0);
	assert_ptr_equal(index_near(&ix, 99), &a);
	assert_ptr_equal(index_near(&ix, 0), &a);
	index_fini(&ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_use_agrees_with_an_array),    cmocka_unit_test(colliding_hashes_agree_too),
		cmocka_unit_test(equal_hashes_are_told_apart_by_key), cmocka_unit_test(growth_is_incremental),
		cmocka_unit_test(a_large_index_agrees_too),           cmocka_unit_test(near_finds_a_block),
	};
	return cmocka_run_group_tests_name("store/index", tests, NULL, NULL);
}
