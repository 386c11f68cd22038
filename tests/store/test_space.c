/* SPDX-License-Identifier: Apache-2.0 */
/* test_space.c -- namespaces of a store: their keys, clears, bounded sweeps, tombstones, and the table's limits. */
#include "tests/store/rig.h"

#include <errno.h>

static struct space *space(const char *name)
{
	struct space *sp;
	assert_int_equal(space_take(&store.spaces, name, SECOND, &sp), 0);
	return sp;
}

static void enter(const char *name)
{
	store_enter(&store, space(name));
}

static void clear(const char *name)
{
	store_space_clear(&store, space(name), 0, SECOND);
}

static unsigned sweeps(unsigned budget)
{
	unsigned n = 1;
	while (store_cleared_sweep(&store, budget))
		n++;
	return n;
}

static bool exists(const char *key)
{
	uint8_t digests[8], found[1] = {0};
	kv_put64(digests, kv_hash_key(key, strlen(key), 0));
	store_digests_find(&store, digests, 1, SECOND, found);
	return found[0];
}

static void equal_keys_of_two_spaces_are_two_keys(void **state)
{
	(void)state;
	open_store(1 << 16, 1);
	assert_non_null(put("k", SMALL, 1, SECOND));
	enter("a");
	assert_null(get("k", SECOND));
	assert_false(exists("k"));
	assert_non_null(put("k", SMALL, 2, SECOND));
	check_bytes(get("k", SECOND), SMALL, 2);
	enter("b");
	assert_null(get("k", SECOND));
	assert_false(store_delete(&store, "k", 1, SECOND, SECOND));
	enter("a");
	assert_true(exists("k"));
	assert_true(store_delete(&store, "k", 1, SECOND, SECOND));
	assert_null(get("k", SECOND));
	enter("");
	check_bytes(get("k", SECOND), SMALL, 1);
	check_store();
	close_store();
}

static void a_cleared_space_has_no_keys_and_its_memory_comes_back(void **state)
{
	(void)state;
	open_small(MANY);
	enter("a");
	for (unsigned i = 0; i < 1000; i++)
		assert_non_null(put_nth(i, SMALL));
	enter("b");
	for (unsigned i = 0; i < 1000; i++)
		assert_non_null(put_nth(i, SMALL));
	clear("a");
	enter("a");
	assert_int_equal(store.space->generation, 1);
	for (unsigned i = 0; i < 1000; i++)
		assert_null(small(i));
	assert_int_equal(store.space->blocks, 1000); /* not freed yet */
	check_bytes(put("s7", SMALL, 77, SECOND), SMALL, 77);
	assert_true(sweeps(64) >= 2000 / 64); /* in bounded steps */
	assert_int_equal(store.space->blocks, 1);
	assert_int_equal(store.arena.used, 1001 * SMALL);
	check_bytes(get("s7", SECOND), SMALL, 77);
	enter("b");
	for (unsigned i = 0; i < 1000; i++)
		check_bytes(small(i), SMALL, (uint8_t)i);
	check_store();
	close_store();
}

static void a_clear_during_a_sweep_is_swept_as_well(void **state)
{
	(void)state;
	open_small(MANY);
	enter("a");
	for (unsigned i = 0; i < 500; i++)
		assert_non_null(put_nth(i, SMALL));
	clear("a");
	assert_true(store_cleared_sweep(&store, 300));
	for (unsigned i = 0; i < 400; i++)
		assert_non_null(put_nth(i, SMALL)); /* before and behind the walk */
	clear("a");
	(void)sweeps(100);
	assert_int_equal(store.space->blocks, 0);
	assert_int_equal(store.arena.used, 0);
	check_store();
	close_store();
}

static void a_value_being_written_does_not_outlive_a_clear(void **state)
{
	struct block *b, *holder;
	(void)state;
	open_store(1 << 16, 1);
	enter("a");
	assert_int_equal(stage("k", 1, SMALL, &b), 0);
	clear("a");
	(void)sweeps(100);
	assert_int_equal(store_commit(&store, b, 1, KV_NEVER, SECOND, &holder), -KV_ESTALE);
	store_drop(&store, b);
	block_unref(&store, b);
	assert_null(get("k", SECOND));
	assert_non_null(put("k", SMALL, 2, SECOND));
	assert_int_equal(store.space->refs, 1);
	check_store();
	close_store();
}

static void readers_and_pins_of_a_cleared_space(void **state)
{
	struct pins pins;
	struct block *read, *pinned;
	(void)state;
	open_store(1 << 16, 1);
	pins_init(&pins);
	enter("a");
	read = put("read", SMALL, 3, SECOND);
	pinned = put("pinned", SMALL, 4, SECOND);
	block_ref(read);
	assert_int_equal(pins_add(&store, &pins, pinned, UINT64_MAX, UINT64_MAX), 0);
	clear("a");
	(void)sweeps(100);
	assert_int_equal(store.pinned_bytes, 0); /* a clear takes pins along, as DELETE does */
	check_bytes(read, SMALL, 3);             /* a reader keeps the bytes */
	assert_int_equal(read->state, BLOCK_GONE);
	block_unref(&store, read);
	assert_int_equal(store.arena.used, 0);
	pins_clear(&store, &pins);
	check_store();
	close_store();
}

static void tombstones_are_of_a_space_and_a_generation(void **state)
{
	uint64_t never = KV_NEVER, hash, id;
	(void)state;
	open_store(1 << 16, 1);
	enter("a");
	assert_non_null(put("k", SMALL, 1, SECOND));
	assert_true(store_delete(&store, "k", 1, 10 * SECOND, 10 * SECOND));
	id = store_id(&store, "k", 1);
	hash = store_hash(&store, "k", 1);
	assert_int_equal(store_copy_allowed(&store, store.space, hash, SECOND, 11 * SECOND, &never), -KV_EDELETED);
	enter("b");
	assert_int_not_equal(store_id(&store, "k", 1), id);
	hash = store_hash(&store, "k", 1);
	assert_int_equal(store_copy_allowed(&store, store.space, hash, SECOND, 11 * SECOND, &never), 0);
	enter("a");
	assert_int_equal(store_id(&store, "k", 1), id);
	clear("a");
	assert_int_not_equal(store_id(&store, "k", 1), id);
	hash = store_hash(&store, "k", 1);
	assert_int_equal(store_copy_allowed(&store, store.space, hash, SECOND, 11 * SECOND, &never), 0);
	close_store();
	open_store(1 << 16, 99); /* another server */
	enter("a");
	assert_int_equal(store_id(&store, "k", 1), id);
	close_store();
}

static void a_copy_that_is_older_than_the_clear_is_refused(void **state)
{
	uint64_t never = KV_NEVER, hash;
	struct space *a;
	(void)state;
	open_store(1 << 16, 1);
	enter("a");
	a = store.space;
	store_space_clear(&store, a, 0, 20 * SECOND);
	hash = store_hash(&store, "k", 1);
	assert_int_equal(store_copy_allowed(&store, a, hash, 10 * SECOND, 21 * SECOND, &never), -KV_EDELETED);
	assert_int_equal(store_copy_allowed(&store, a, hash, 20 * SECOND - 1, 21 * SECOND, &never), -KV_ECANCELED);
	assert_int_equal(store_copy_allowed(&store, a, hash, 20 * SECOND, 21 * SECOND, &never), 0);
	assert_int_equal(store_copy_allowed(&store, space("b"), hash, SECOND, 21 * SECOND, &never), 0);
	close_store();
}

static void verdicts_are_of_a_space_and_a_generation(void **state)
{
	struct verdict v[1];
	(void)state;
	open_store(1 << 16, 1);
	enter("b");
	assert_non_null(put("k", SMALL, 1, 10 * SECOND));
	enter("a");
	assert_non_null(put("k", SMALL, 2, 10 * SECOND));
	v[0] = verdict_of(store_id(&store, "k", 1), 15 * SECOND, false);
	store_doubt(&store, 20 * SECOND);
	store_judge(&store, v, 1);
	assert_null(get("k", 21 * SECOND));
	enter("b");
	assert_non_null(get("k", 21 * SECOND));
	close_store();
}

/* A seed of its own for each generation: the index tells equal keys apart by their hashes alone. */
static void each_generation_hashes_keys_in_its_own_way(void **state)
{
	enum { N = 3000 };
	static uint64_t hash[N];
	(void)state;
	open_store(1 << 16, 1);
	for (unsigned i = 0; i < N; i++) {
		const char *name = (const char *[]){"", "a", "b"}[i % 3];
		clear(name);
		enter(name);
		hash[i] = store_hash(&store, "k", 1);
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(hash[i], hash[k]);
	}
	close_store();
}

static void the_newer_generation_wins(void **state)
{
	struct space *a;
	(void)state;
	open_store(1 << 16, 1);
	enter("a");
	a = store.space;
	assert_non_null(put("k", SMALL, 1, SECOND));
	store_space_advance(&store, a, 0, SECOND);
	assert_non_null(get("k", SECOND));
	store_space_advance(&store, a, 7, SECOND);
	assert_null(get("k", SECOND));
	assert_int_equal(a->generation, 7);
	store_space_advance(&store, a, 6, SECOND);
	assert_int_equal(a->generation, 7);
	store_space_clear(&store, a, 3, SECOND);
	assert_int_equal(a->generation, 8);
	store_space_clear(&store, a, 20, SECOND);
	assert_int_equal(a->generation, 20);
	store_space_advance(&store, a, UINT64_MAX, SECOND);
	assert_non_null(put("k", SMALL, 1, SECOND));
	store_space_clear(&store, a, 0, SECOND); /* no number is left, and the value goes all the same */
	assert_int_equal(a->generation, UINT64_MAX);
	assert_null(get("k", SECOND));
	close_store();
}

static void a_full_table_forgets_what_is_unused(void **state)
{
	struct space *sp, *used;
	char name[16];
	(void)state;
	open_store(1 << 20, 1);
	enter("value");
	assert_non_null(put("k", SMALL, 1, SECOND));
	used = space("used");
	used->users++;
	store_space_advance(&store, space("cleared"), 5, SECOND);
	for (unsigned i = 0; store.spaces.count < SPACES_MAX; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		space(name)->used_ns = (i + 2) * SECOND;
	}
	space("cleared")->used_ns = 0;
	space("new"); /* takes the place of the space that was unused for longest */
	assert_null(space_find(&store.spaces, "cleared"));
	assert_non_null(space_find(&store.spaces, "value"));
	assert_ptr_equal(space_find(&store.spaces, "used"), used);
	assert_true(space("cleared")->generation > 5); /* so nothing of it can return */
	for (uint32_t i = 1; i < SPACES_MAX; i++)
		store.spaces.at[i]->users++;
	assert_int_equal(space_take(&store.spaces, "more", SECOND, &sp), -KV_EFULL);
	store_space_learn(&store, "more", 40, SECOND); /* without a place for its name, all that begin are as new */
	assert_int_equal(store.spaces.floor, 40);
	for (uint32_t i = 1; i < SPACES_MAX; i++)
		store.spaces.at[i]->users--;
	assert_int_equal(space("more")->generation, 40);
	enter("value");
	assert_non_null(get("k", SECOND));
	check_store();
	close_store();
}

static void what_other_servers_know_is_learned(void **state)
{
	(void)state;
	open_store(1 << 16, 1);
	enter("a");
	assert_non_null(put("k", SMALL, 1, SECOND));
	store_space_learn(&store, "b", 3, SECOND);
	assert_int_equal(space("b")->generation, 3);
	store_space_learn(&store, "c", 0, SECOND);
	assert_null(space_find(&store.spaces, "c"));
	assert_non_null(get("k", SECOND));
	store_space_learn(&store, "a", 1, SECOND);
	assert_null(get("k", SECOND));
	store_floor_learn(&store, 2, SECOND);
	assert_int_equal(space("a")->generation, 2);
	assert_int_equal(space("b")->generation, 3);
	assert_int_equal(space("c")->generation, 2);
	close_store();
}

static void an_impossible_generation_of_others_is_told_apart(void **state)
{
	(void)state;
	open_store(1 << 16, 1);
	enter("a");
	store_space_learn(&store, "a", 7, SECOND);
	assert_true(store_space_believed(&store, "a", 3));
	assert_true(store_space_believed(&store, "a", 7 + KV_GENERATIONS_MAX));
	assert_false(store_space_believed(&store, "a", 8 + KV_GENERATIONS_MAX));
	assert_false(store_space_believed(&store, "a", UINT64_MAX));
	assert_true(store_space_believed(&store, "new", KV_GENERATIONS_MAX));
	assert_false(store_space_believed(&store, "new", KV_GENERATIONS_MAX + 1));
	close_store();
}

/* ---- against a table ---- */

enum { SPACES = 4, KEYS = 64 };

struct twin {
	uint8_t fill[SPACES][KEYS]; /* 0: none */
	uint8_t next;
};

static void twin_step(struct twin *t, struct kv_prng *p)
{
	static const char *const names[SPACES] = {"", "a", "b", "c"};
	unsigned s = (unsigned)kv_prng_below(p, SPACES), k = (unsigned)kv_prng_below(p, KEYS);
	struct block *b;
	char key[16];
	enter(names[s]);
	snprintf(key, sizeof(key), "k%u", k);
	switch (kv_prng_below(p, 100)) {
	case 0:
		clear(names[s]);
		memset(t->fill[s], 0, sizeof(t->fill[s]));
		break;
	case 1:
		store_space_advance(&store, store.space, store.space->generation + 3, SECOND);
		memset(t->fill[s], 0, sizeof(t->fill[s]));
		break;
	default:
		b = get(key, SECOND);
		if (b && !t->fill[s][k])
			fail_msg("%s of '%s' is there after a clear or a DELETE", key, names[s]);
		if (b)
			check_bytes(b, b->len, t->fill[s][k]);
		if (!b || kv_prng_below(p, 2) == 0) {
			(void)store_delete(&store, key, strlen(key), SECOND, SECOND);
			t->next = t->next == 255 ? 1 : t->next + 1;
			t->fill[s][k] = put(key, 1 + kv_prng_below(p, 2000), t->next, SECOND) ? t->next : 0;
		} else {
			assert_true(store_delete(&store, key, strlen(key), SECOND, SECOND));
			t->fill[s][k] = 0;
		}
	}
	if (kv_prng_below(p, 4) == 0)
		(void)store_cleared_sweep(&store, (unsigned)kv_prng_below(p, 20));
}

static void random_use_agrees_with_a_table(void **state)
{
	struct kv_prng prng = check_seed();
	struct twin t = {.next = 1};
	(void)state;
	open_store(100 << 10, kv_prng_next(&prng));
	for (unsigned i = 0; i < 40000; i++) {
		twin_step(&t, &prng);
		if (i % 500 == 0)
			check_store();
	}
	(void)sweeps(10);
	check_store();
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_keys_of_two_spaces_are_two_keys),
		cmocka_unit_test(a_cleared_space_has_no_keys_and_its_memory_comes_back),
		cmocka_unit_test(a_clear_during_a_sweep_is_swept_as_well),
		cmocka_unit_test(a_value_being_written_does_not_outlive_a_clear),
		cmocka_unit_test(readers_and_pins_of_a_cleared_space),
		cmocka_unit_test(tombstones_are_of_a_space_and_a_generation),
		cmocka_unit_test(a_copy_that_is_older_than_the_clear_is_refused),
		cmocka_unit_test(verdicts_are_of_a_space_and_a_generation),
		cmocka_unit_test(each_generation_hashes_keys_in_its_own_way),
		cmocka_unit_test(the_newer_generation_wins),
		cmocka_unit_test(a_full_table_forgets_what_is_unused),
		cmocka_unit_test(what_other_servers_know_is_learned),
		cmocka_unit_test(an_impossible_generation_of_others_is_told_apart),
		cmocka_unit_test(random_use_agrees_with_a_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
