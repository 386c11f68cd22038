/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_fifo.c -- the tier's index against a plain table, and its segments. */
#include <stdlib.h>

#include "store/store.h"
#include "tests/check.h"

static struct tier_id id_of(uint64_t key)
{
	return (struct tier_id){kv_hash_key(&key, sizeof(key), 7), tier_more(&key, sizeof(key))};
}

enum { KEYS = 5000, STEPS = 60000 };

/* Random adds and drops; every key is looked up in the end. */
static void the_index_agrees_with_a_plain_table(void **state)
{
	struct tier_records t;
	struct kv_prng prng = check_seed();
	static uint32_t number[KEYS];
	uint32_t live = 0;
	(void)state;
	memset(number, 0, sizeof(number));
	assert_int_equal(tier_records_init(&t, KEYS), 0);
	for (unsigned i = 0; i < STEPS; i++) {
		uint64_t key = kv_prng_below(&prng, KEYS);
		struct tier_id id = id_of(key);
		assert_int_equal(tier_records_find(&t, &id), number[key]);
		if (number[key]) {
			tier_records_drop(&t, number[key]);
			tier_records_free(&t, number[key]);
			number[key] = 0;
			live--;
		} else {
			number[key] = tier_records_add(&t, &id, (uint32_t)key, 0);
			assert_int_not_equal(number[key], 0);
			live++;
		}
		assert_int_equal(t.live, live);
	}
	for (uint64_t key = 0; key < KEYS; key++) {
		struct tier_id id = id_of(key);
		assert_int_equal(tier_records_find(&t, &id), number[key]);
		assert_int_equal(tier_records_find_hash(&t, id.hash), number[key]);
		if (number[key])
			assert_int_equal(t.item[number[key]].len, key);
	}
	assert_true(tier_records_bytes(&t) <= (uint64_t)(KEYS + 512) * TIER_RECORD_BYTES);
	tier_records_fini(&t);
}

static void a_full_index_takes_no_more(void **state)
{
	struct tier_records t;
	struct tier_id id = id_of(0);
	(void)state;
	assert_int_equal(tier_records_init(&t, 2), 0);
	assert_int_not_equal(tier_records_add(&t, &id, 1, 0), 0);
	id = id_of(1);
	assert_int_not_equal(tier_records_add(&t, &id, 1, 0), 0);
	id = id_of(2);
	assert_int_equal(tier_records_add(&t, &id, 1, 0), 0);
	tier_records_fini(&t);
}

enum { SEGMENTS = 4, SEGMENT_PAGES = 256, LEN = 16 * TIER_PAGE - TIER_HEAD_BYTES, EACH = 15 };

static void rig_open(struct tier_records *t, struct tier_fifo *f)
{
	struct tier_fifo_options o = {.segments = SEGMENTS, .segment_pages = SEGMENT_PAGES, .head_pages = 1};
	assert_int_equal(tier_records_init(t, 1000), 0);
	assert_int_equal(tier_fifo_init(f, &o, t), 0);
}

static void rig_close(struct tier_records *t, struct tier_fifo *f)
{
	tier_fifo_fini(f);
	tier_records_fini(t);
}

/* The oldest values leave first, except those with a hit, which are written again and lose it. */
static void hits_are_written_again_once(void **state)
{
	struct tier_records t;
	struct tier_fifo f;
	struct tier_id first = id_of(0), second = id_of(1);
	uint32_t written = 0, n;
	(void)state;
	rig_open(&t, &f);
	for (uint64_t key = 0; key < EACH * (SEGMENTS - 1); key++) {
		struct tier_id id = id_of(key);
		written += tier_fifo_write(&f, &id, LEN);
	}
	assert_int_equal(written, EACH * (SEGMENTS - 1));
	n = tier_records_find(&t, &first);
	assert_int_not_equal(n, 0);
	tier_fifo_use(&t, n);
	for (uint64_t key = 100; key < 100 + EACH; key++) {
		struct tier_id id = id_of(key);
		written += tier_fifo_write(&f, &id, LEN);
	}
	assert_int_equal(f.kept, 1);
	assert_int_equal(written, EACH * SEGMENTS + 1);
	assert_int_equal(tier_records_find(&t, &second), 0);
	n = tier_records_find(&t, &first);
	assert_int_not_equal(n, 0);
	assert_int_equal(t.item[n].hit, 0);
	rig_close(&t, &f);
}

/* However many have hits, new values find room. */
static void a_segment_full_of_hits_gives_way(void **state)
{
	struct tier_records t;
	struct tier_fifo f;
	(void)state;
	rig_open(&t, &f);
	for (uint64_t key = 0; key < 500; key++) {
		struct tier_id id = id_of(key);
		assert_true(tier_fifo_write(&f, &id, LEN) > 0);
		for (uint32_t n = 1; n <= t.made; n++)
			tier_fifo_use(&t, n);
		assert_int_not_equal(tier_records_find(&t, &id), 0);
	}
	assert_true(t.live <= EACH * SEGMENTS);
	assert_true(f.kept > 0 && f.dropped > 0);
	rig_close(&t, &f);
}

static void a_segment_with_readers_is_not_free(void **state)
{
	struct tier_records t;
	struct tier_fifo f;
	unsigned budget = 1000;
	(void)state;
	rig_open(&t, &f);
	for (uint64_t key = 0; key < EACH * SEGMENTS - 1; key++) {
		struct tier_id id = id_of(key);
		if (key == EACH * (SEGMENTS - 1))
			f.segment[0].readers = 1;
		assert_true(tier_fifo_write(&f, &id, LEN) > 0);
	}
	assert_int_equal(f.segment[0].state, TIER_SEGMENT_CLEARING);
	assert_false(tier_fifo_free(&f));
	f.segment[0].readers = 0;
	assert_int_equal(tier_fifo_clear(&f, 0, &budget), 0);
	assert_true(tier_fifo_free(&f));
	rig_close(&t, &f);
}

static void second_admits_what_left_before(void **state)
{
	struct tier_admission a;
	(void)state;
	assert_int_equal(tier_admission_init(&a, TIER_ADMIT_SECOND, 1000), 0);
	assert_false(tier_admits(&a, 0x123456789abcdefull));
	tier_left(&a, 0x123456789abcdefull);
	assert_true(tier_admits(&a, 0x123456789abcdefull));
	assert_true(tier_admits(&a, 0x123456789abcdefull)); /* asking does not use it up */
	tier_written(&a, 0x123456789abcdefull);
	assert_false(tier_admits(&a, 0x123456789abcdefull));
	tier_admission_fini(&a);
	assert_int_equal(tier_admission_init(&a, TIER_ADMIT_EVICTION, 1000), 0);
	assert_true(tier_admits(&a, 1));
	tier_admission_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_index_agrees_with_a_plain_table),
		cmocka_unit_test(a_full_index_takes_no_more),
		cmocka_unit_test(hits_are_written_again_once),
		cmocka_unit_test(a_segment_full_of_hits_gives_way),
		cmocka_unit_test(a_segment_with_readers_is_not_free),
		cmocka_unit_test(second_admits_what_left_before),
	};
	return cmocka_run_group_tests_name("store/tier_fifo", tests, NULL, NULL);
}
