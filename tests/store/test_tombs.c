/* SPDX-License-Identifier: Apache-2.0 */
/* test_tombs.c -- tombstones: against an array, when the ring is full, and what copies they refuse. */
#include "tests/store/rig.h"

enum { KEYS = 3000, STEPS = 40000 };

#define SEC SECOND

static struct tombs tombs;

static void open_tombs(void)
{
	assert_int_equal(tombs_init(&tombs, 1), 0);
	assert_int_equal(tombs.count_max, TOMBS_MIN);
}

/* With fewer keys than places: every DELETE is remembered until its time is over, the latest of a key. */
static void random_deletes_agree_with_an_array(void **state)
{
	struct kv_prng p = check_seed();
	uint64_t deleted[TOMBS_MIN / 2] = {0}, now = SEC;
	(void)state;
	open_tombs();
	for (unsigned i = 0; i < STEPS; i++) {
		unsigned k = (unsigned)kv_prng_below(&p, KV_COUNT(deleted));
		uint64_t hash = k * 0x9E3779B97F4A7C15u;
		bool fresh = deleted[k] && now - deleted[k] <= TOMBS_KEEP_NS;
		const struct tomb *d = tombs_find(&tombs, hash, now);
		assert_int_equal(d != NULL, fresh);
		if (d)
			assert_int_equal(d->time_ns, deleted[k]);
		if (kv_prng_below(&p, 2)) {
			uint64_t age = kv_prng_below(&p, 4) ? 0 : kv_prng_below(&p, SEC);
			tombs_put(&tombs, hash, k, now - age, 0, now);
			deleted[k] = KV_MAX(deleted[k], now - age);
		}
		now += kv_prng_below(&p, SEC);
	}
	assert_true(tombs.used <= KV_COUNT(deleted));
	assert_int_equal(tombs.dropped, 0);
	tombs_fini(&tombs);
}

static void the_oldest_go_when_there_are_too_many(void **state)
{
	(void)state;
	open_tombs();
	for (unsigned i = 0; i < KEYS; i++)
		tombs_put(&tombs, i + 1, i, SEC + i, 0, SEC + i);
	assert_int_equal(tombs.used, TOMBS_MIN);
	assert_int_equal(tombs.dropped, KEYS - TOMBS_MIN);
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(tombs_find(&tombs, i + 1, SEC + KEYS) != NULL, i >= KEYS - TOMBS_MIN);
	tombs_put(&tombs, KEYS + 1, 0, SEC + TOMBS_KEEP_NS * 2, 0, SEC + TOMBS_KEEP_NS * 2);
	assert_int_equal(tombs.dropped, KEYS - TOMBS_MIN); /* that one's time was over */
	tombs_fini(&tombs);
}

static void a_touch_after_a_delete_changes_nothing(void **state)
{
	(void)state;
	open_tombs();
	tombs_put(&tombs, 7, 7, 10 * SEC, 0, 10 * SEC);
	tombs_put(&tombs, 7, 7, 11 * SEC, 20 * SEC, 11 * SEC);
	assert_int_equal(tombs_find(&tombs, 7, 11 * SEC)->time_ns, 10 * SEC);
	assert_true(tombs_deleted(&tombs, 7, 11 * SEC));
	tombs_put(&tombs, 7, 7, 12 * SEC, 0, 12 * SEC);
	assert_int_equal(tombs_find(&tombs, 7, 12 * SEC)->time_ns, 12 * SEC);
	assert_int_equal(tombs.used, 1);
	tombs_fini(&tombs);
}

/* ---- in the store ---- */

static int copy(const char *key, uint8_t fill, uint64_t born, uint64_t now)
{
	struct block *b, *holder;
	uint64_t expires = KV_NEVER;
	int rc = store_copy_allowed(&store, store.space, store_hash(&store, key, strlen(key)), born, now, &expires);
	if (rc)
		return rc;
	assert_int_equal(stage(key, strlen(key), SMALL, &b), 0);
	memset(store_data(&store, b), fill, SMALL);
	rc = store_commit_born(&store, b, fill, expires, born, now, &holder);
	if (rc)
		store_drop(&store, b);
	block_unref(&store, b);
	return rc;
}

static void a_copy_does_not_undo_a_delete(void **state)
{
	uint64_t at;
	(void)state;
	open_small(0);
	assert_non_null(put("k", SMALL, 1, 10 * SEC));
	assert_true(store_delete(&store, "k", 1, 12 * SEC, 12 * SEC));
	assert_null(get("k", 12 * SEC));
	assert_true(store_key_deleted(&store, store_hash(&store, "k", 1), 12 * SEC, &at));
	assert_int_equal(at, 12 * SEC);
	assert_int_equal(copy("k", 1, 10 * SEC, 13 * SEC), -KV_EDELETED);
	assert_int_equal(copy("k", 1, 12 * SEC - 1, 13 * SEC), -KV_ECANCELED); /* too close to be sure */
	assert_null(get("k", 13 * SEC));
	assert_int_equal(copy("k", 2, 12 * SEC, 13 * SEC), 0); /* it was put after that */
	assert_int_equal(block_born_ns(get("k", 13 * SEC)), 12 * SEC);
	assert_true(store_key_deleted(&store, store_hash(&store, "k", 1), 13 * SEC,
				      &at));            /* older copies elsewhere still are */
	assert_int_equal(copy("x", 1, 1, 13 * SEC), 0); /* nobody has deleted that */
	check_store();
	close_store();
}

/* A key that is not here is deleted all the same: its value may be on the way. */
static void a_delete_that_finds_nothing_is_remembered(void **state)
{
	(void)state;
	open_small(0);
	assert_false(store_delete(&store, "k", 1, 12 * SEC, 12 * SEC));
	assert_int_equal(copy("k", 1, 10 * SEC, 13 * SEC), -KV_EDELETED);
	assert_non_null(put("k", SMALL, 2, 13 * SEC)); /* a client's own PUT is another matter */
	assert_int_equal(copy("k", 1, 10 * SEC, 13 * SEC), -KV_EDELETED);
	close_store();
}

/* Another server has deleted the key, so the value went here. The DELETE itself comes later. */
static void a_delete_counts_the_value_that_went_before_it(void **state)
{
	(void)state;
	open_small(0);
	store_yield(&store, put("k", SMALL, 1, 10 * SEC), 12 * SEC);
	assert_null(get("k", 12 * SEC));
	assert_int_equal(copy("k", 1, 10 * SEC, 13 * SEC), -KV_ECANCELED);
	assert_true(store_delete(&store, "k", 1, 12 * SEC, 13 * SEC));
	assert_false(store_delete(&store, "k", 1, 13 * SEC, 13 * SEC)); /* once */
	store_yield(&store, put("k", SMALL, 1, 20 * SEC), 21 * SEC);
	assert_non_null(put("k", SMALL, 2, 22 * SEC));
	assert_false(store_delete(&store, "k", 1, 21 * SEC, 23 * SEC)); /* there is another value by now */
	assert_non_null(get("k", 23 * SEC));
	close_store();
}

static void a_delete_of_the_past_spares_what_was_put_since(void **state)
{
	uint64_t at;
	(void)state;
	open_small(0);
	assert_non_null(put("old", SMALL, 1, 10 * SEC));
	assert_non_null(put("new", SMALL, 1, 20 * SEC));
	assert_true(store_delete(&store, "old", 3, 15 * SEC, 30 * SEC));
	assert_false(store_delete(&store, "new", 3, 15 * SEC, 30 * SEC));
	assert_null(get("old", 30 * SEC));
	assert_non_null(get("new", 30 * SEC));
	assert_int_equal(copy("old", 1, 14 * SEC, 30 * SEC), -KV_EDELETED);
	store_drop(&store, get("new", 30 * SEC));
	assert_true(store_key_deleted(&store, store_hash(&store, "new", 3), 30 * SEC,
				      &at)); /* evicted, say: older copies stay deleted */
	assert_int_equal(at, 15 * SEC);
	close_store();
}

/* What TOUCH says of the time to live is true of copies that come later, and of those that others have. */
static void a_copy_does_not_undo_a_touch(void **state)
{
	struct block *b;
	uint64_t at;
	(void)state;
	open_small(0);
	store_touch(&store, "k", 1, NULL, 15 * SEC, 12 * SEC, 12 * SEC);
	assert_int_equal(copy("k", 1, 10 * SEC, 13 * SEC), 0);
	assert_int_equal(get("k", 13 * SEC)->expire.when_ns, 15 * SEC);
	assert_null(get("k", 15 * SEC));
	assert_false(store_key_deleted(&store, store_hash(&store, "k", 1), 15 * SEC,
				       &at)); /* another TOUCH may have gone elsewhere */
	assert_int_equal(copy("k", 1, 10 * SEC, 16 * SEC), -KV_ECANCELED);
	b = put("s", SMALL, 1, 20 * SEC);
	store_touch(&store, "s", 1, b, 25 * SEC, 21 * SEC, 21 * SEC); /* shorter: it lived for ever */
	assert_null(get("s", 25 * SEC));
	assert_int_equal(copy("s", 1, 20 * SEC, 26 * SEC), -KV_ECANCELED);
	b = put("l", SMALL, 1, 30 * SEC);
	store_touch(&store, "l", 1, b, 35 * SEC, 31 * SEC, 31 * SEC);
	store_touch(&store, "l", 1, b, 50 * SEC, 32 * SEC, 32 * SEC); /* longer again */
	assert_int_equal(get("l", 40 * SEC)->expire.when_ns, 50 * SEC);
	store_drop(&store, b);
	assert_int_equal(copy("l", 1, 30 * SEC, 40 * SEC), 0);
	assert_int_equal(get("l", 40 * SEC)->expire.when_ns, 50 * SEC);
	close_store();
}

static void lookups_say_which_keys_were_deleted(void **state)
{
	static const char *const keys[] = {"here", "gone", "none"};
	uint8_t digests[3 * 8], found[1] = {0}, deleted[1] = {0};
	(void)state;
	open_small(0);
	for (unsigned i = 0; i < 3; i++)
		kv_put64(digests + 8 * i, kv_hash_key(keys[i], 4, 0));
	assert_false(store_digests_deleted(&store, digests, 3, SEC, found, deleted));
	assert_non_null(put("here", SMALL, 1, SEC));
	store_delete(&store, "here", 4, SEC / 2, SEC);
	store_delete(&store, "gone", 4, SEC, SEC);
	store_digests_find(&store, digests, 3, SEC, found);
	assert_int_equal(found[0], 1);
	assert_true(store_digests_deleted(&store, digests, 3, SEC, found, deleted));
	assert_int_equal(deleted[0], 2);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_deletes_agree_with_an_array),
		cmocka_unit_test(the_oldest_go_when_there_are_too_many),
		cmocka_unit_test(a_touch_after_a_delete_changes_nothing),
		cmocka_unit_test(a_copy_does_not_undo_a_delete),
		cmocka_unit_test(a_delete_that_finds_nothing_is_remembered),
		cmocka_unit_test(a_delete_counts_the_value_that_went_before_it),
		cmocka_unit_test(a_delete_of_the_past_spares_what_was_put_since),
		cmocka_unit_test(a_copy_does_not_undo_a_touch),
		cmocka_unit_test(lookups_say_which_keys_were_deleted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
