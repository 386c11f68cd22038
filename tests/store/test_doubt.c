/* SPDX-License-Identifier: Apache-2.0 */
/* test_doubt.c -- blocks that may have been deleted elsewhere: hidden, judged, dropped; and what is put meanwhile. */
#include "tests/store/rig.h"

static struct verdict dead(const char *key, uint64_t time_ns)
{
	return verdict_of(store_id(&store, key, strlen(key)), time_ns, false);
}

static void what_is_in_doubt_is_hidden_and_then_judged(void **state)
{
	struct verdict v[3];
	uint8_t digests[8], found[1] = {0};
	(void)state;
	open_small(0);
	put("old", SMALL, 1, 10 * SECOND);
	put("again", SMALL, 2, 10 * SECOND);
	put("good", SMALL, 3, 10 * SECOND);
	store_doubt(&store, 20 * SECOND);
	assert_null(get("good", 20 * SECOND));
	kv_put64(digests, kv_hash_key("good", 4, 0));
	store_digests_find(&store, digests, 1, 20 * SECOND, found);
	assert_int_equal(found[0], 0);
	assert_non_null(put("new", SMALL, 4, 20 * SECOND)); /* what is put from now on is there */
	assert_non_null(get("new", 20 * SECOND));
	v[0] = dead("old", 15 * SECOND);
	v[1] = dead("again", 9 * SECOND); /* deleted, and put after that */
	v[2] = dead("old", 14 * SECOND);
	assert_int_equal(verdicts_sort(v, 3), 2);
	store_judge(&store, v, 2);
	assert_null(get("old", 21 * SECOND));
	assert_non_null(get("again", 21 * SECOND));
	store_digests_find(&store, digests, 1, 21 * SECOND, found);
	assert_int_equal(found[0], 1);
	assert_int_equal(store.doubt.dropped, 1);
	check_store();
	close_store();
}

/* What a TOUCH says is not known here: the value goes, but nothing says that it was deleted. A DELETE that another
 * member remembers counts all the same. */
static void what_was_touched_goes_and_is_not_deleted(void **state)
{
	struct verdict v[4];
	uint64_t deleted_ns;
	(void)state;
	open_small(0);
	put("touched", SMALL, 1, 10 * SECOND);
	put("both", SMALL, 2, 10 * SECOND);
	put("young", SMALL, 3, 16 * SECOND);
	store_doubt(&store, 20 * SECOND);
	v[0] = verdict_of(store_id(&store, "touched", 7), 15 * SECOND, true);
	v[1] = verdict_of(store_id(&store, "both", 4), 15 * SECOND, true);
	v[2] = dead("both", 12 * SECOND);
	v[3] = verdict_of(store_id(&store, "young", 5), 15 * SECOND, true);
	assert_int_equal(verdicts_sort(v, 4), 3);
	store_judge(&store, v, 3);
	assert_null(get("touched", 21 * SECOND));
	assert_false(store_key_deleted(&store, store_hash(&store, "touched", 7), 21 * SECOND, &deleted_ns));
	assert_null(get("both", 21 * SECOND));
	assert_true(store_key_deleted(&store, store_hash(&store, "both", 4), 21 * SECOND, &deleted_ns));
	assert_in_range(deleted_ns, 12 * SECOND, 12 * SECOND + 1000);
	assert_non_null(get("young", 21 * SECOND));
	check_store();
	close_store();
}

static void a_value_may_be_put_over_a_hidden_one(void **state)
{
	struct verdict none = {0};
	(void)state;
	open_small(0);
	put("k", SMALL, 1, 10 * SECOND);
	store_doubt(&store, 20 * SECOND);
	assert_non_null(put("k", SMALL, 2, 20 * SECOND));
	store_judge(&store, &none, 0);
	check_bytes(get("k", 21 * SECOND), SMALL, 2);
	check_store();
	close_store();
}

static void without_an_answer_all_of_it_goes(void **state)
{
	struct verdict none = {0};
	(void)state;
	open_small(0);
	put("a", SMALL, 1, 10 * SECOND);
	put("b", SMALL, 2, 10 * SECOND);
	store_doubt(&store, 20 * SECOND);
	store_judge(&store, NULL, 0);
	assert_null(get("a", 21 * SECOND));
	put("a", SMALL, 3, 21 * SECOND);
	store_doubt(&store, 30 * SECOND);
	store_judge(&store, &none, 0);
	check_bytes(get("a", 31 * SECOND), SMALL, 3);
	assert_null(get("b", 31 * SECOND)); /* it comes back by no later answer */
	check_store();
	close_store();
}

static void copy_in(const char *key, uint64_t born_ns, uint64_t now_ns)
{
	struct block *b, *holder;
	assert_int_equal(stage(key, strlen(key), SMALL, &b), 0);
	assert_int_equal(store_commit_born(&store, b, 0, KV_NEVER, born_ns, now_ns, &holder), 0);
}

/* Others send copies of values that are older than the doubt in which all was dropped. They are no part of it. */
static void an_old_copy_that_comes_later_is_kept(void **state)
{
	struct verdict none = {0}, v;
	(void)state;
	open_small(0);
	v = dead("k", 1000 * SECOND);
	put("gone", SMALL, 1, 10 * SECOND);
	store_doubt(&store, 20 * SECOND);
	store_judge(&store, NULL, 0);
	copy_in("k", 15 * SECOND, 21 * SECOND);
	assert_non_null(get("k", 21 * SECOND));
	assert_null(get("gone", 21 * SECOND));
	store_doubt(&store, 30 * SECOND); /* the next doubt is about the copy, too */
	assert_null(get("k", 30 * SECOND));
	copy_in("late", 16 * SECOND, 31 * SECOND);
	assert_null(get("late", 31 * SECOND));
	store_judge(&store, &none, 0);
	assert_non_null(get("k", 32 * SECOND));
	assert_non_null(get("late", 32 * SECOND));
	store_doubt(&store, 40 * SECOND);
	store_judge(&store, &v, 1);
	copy_in("later", 17 * SECOND, 41 * SECOND);
	assert_null(get("k", 41 * SECOND));
	assert_non_null(get("late", 41 * SECOND));
	assert_non_null(get("later", 41 * SECOND));
	check_store();
	close_store();
}

/* However many doubts there were: a block that was found good in one is judged again in the next. */
static void every_doubt_is_a_new_one(void **state)
{
	struct verdict none = {0}, v;
	(void)state;
	open_small(0);
	v = dead("k", 1000 * SECOND);
	for (uint64_t i = 1; i <= 3 * DOUBT_ROUNDS; i++) {
		uint64_t now = 10 * i * SECOND;
		struct block *b;
		if (!get("k", now))
			put("k", SMALL, 1, now);
		store_doubt(&store, now + SECOND);
		store_doubt(&store, now + 2 * SECOND); /* the same doubt */
		assert_null(get("k", now + 2 * SECOND));
		store_judge(&store, i % 2 ? &none : &v, i % 2 ? 0 : 1);
		b = get("k", now + 2 * SECOND);
		assert_true(i % 2 == 0 ? b == NULL : b != NULL || store.doubt.all_dead_ns == now + SECOND);
	}
	check_store();
	close_store();
}

/* The first doubt of a new member concerns copies alone. Each later one concerns all, also one that begins before that
 * has ended. */
static void what_was_put_before_a_first_arrival_stays(void **state)
{
	struct verdict none = {0};
	(void)state;
	for (unsigned early = 0; early < 2; early++) {
		open_small(0);
		put("copy", SMALL, 1, 10 * SECOND);
		store_put_here(&store, put("here", SMALL, 2, 10 * SECOND));
		store_doubt_copies(&store, 20 * SECOND);
		assert_null(get("copy", 20 * SECOND));
		assert_non_null(get("here", 20 * SECOND));
		if (!early)
			store_judge(&store, NULL, 0); /* no answer: the copies are dropped */
		assert_non_null(get("here", 21 * SECOND));
		store_doubt(&store, 30 * SECOND);
		assert_null(get("here", 30 * SECOND));
		store_judge(&store, &none, 0);
		assert_non_null(get("here", 31 * SECOND));
		assert_int_equal(get("copy", 31 * SECOND) != NULL, early);
		check_store();
		close_store();
	}
}

/* Where the first doubt is another one, values of clients are in doubt as well. */
static void what_was_put_before_another_doubt_is_hidden(void **state)
{
	(void)state;
	open_small(0);
	store_put_here(&store, put("here", SMALL, 2, 10 * SECOND));
	store_doubt(&store, 20 * SECOND);
	assert_null(get("here", 20 * SECOND));
	store_doubt_copies(&store, 30 * SECOND);
	assert_null(get("here", 30 * SECOND));
	check_store();
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_in_doubt_is_hidden_and_then_judged),
		cmocka_unit_test(what_was_touched_goes_and_is_not_deleted),
		cmocka_unit_test(a_value_may_be_put_over_a_hidden_one),
		cmocka_unit_test(without_an_answer_all_of_it_goes),
		cmocka_unit_test(an_old_copy_that_comes_later_is_kept),
		cmocka_unit_test(every_doubt_is_a_new_one),
		cmocka_unit_test(what_was_put_before_a_first_arrival_stays),
		cmocka_unit_test(what_was_put_before_another_doubt_is_hidden),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
