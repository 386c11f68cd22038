/* SPDX-License-Identifier: Apache-2.0 */
/* test_heat.c -- keys that are asked for often are called hot, soon and not for long; others are not. */
#include "tests/check.h"

#include "store/heat.h"

enum { MANY = 100000 };

#define WINDOW ((uint64_t)HEAT_WINDOW_NS)
#define NOON   (12 * 3600 * WINDOW + 5)

static struct heat heat;
static struct kv_prng prng;

static int fresh(void **state)
{
	(void)state;
	prng = check_seed();
	heat = (struct heat){.began_ns = 0};
	return 0;
}

/* The digest of the i-th key: as random as those of a store. */
static uint64_t digest(uint64_t i)
{
	return kv_hash_block(&i, sizeof(i));
}

/* The digest of the i-th key of one slot. */
static uint64_t neighbour(uint32_t i)
{
	return (uint64_t)77 << (64 - HEAT_SLOTS_LOG2) | (i + 1);
}

static unsigned asked(uint64_t key, unsigned times, uint64_t now_ns)
{
	unsigned hot = 0;
	for (unsigned i = 0; i < times; i++)
		hot += heat_asked(&heat, key, now_ns);
	return hot;
}

/* So many GETs in one window: every `often`-th of key 0, the others of keys that are all alike. How many of key 0 and
 * of the others were called hot. */
static void load(unsigned gets, unsigned often, uint64_t now_ns, unsigned *out_hot, unsigned *out_others)
{
	*out_hot = *out_others = 0;
	for (unsigned i = 0; i < gets; i++) {
		bool first = often && i % often == 0;
		bool hot = heat_asked(&heat, digest(first ? 0 : 1 + kv_prng_below(&prng, MANY)),
				      now_ns + i * (WINDOW / gets));
		*(first ? out_hot : out_others) += hot;
	}
}

/* Each key has 1/MANY of the load. That is enough GETs for 64 of each, and not a share. */
static void nothing_is_hot_where_all_keys_are_alike(void **state)
{
	unsigned hot, others;
	(void)state;
	for (unsigned w = 0; w < 3; w++) {
		load(1000000, 0, w * WINDOW, &hot, &others);
		assert_int_equal(others, 0);
	}
	for (unsigned i = 0; i < 130 * 100; i++) /* 100 keys in turn, 130 times each in one window */
		assert_false(heat_asked(&heat, digest(i % 100), 10 * WINDOW));
}

static void a_key_with_a_tenth_of_the_load_is_hot_within_the_window(void **state)
{
	unsigned hot, others;
	(void)state;
	load(20000, 10, NOON, &hot, &others);
	/* It is the 64th ask on at the earliest. Before, another key of its slot may have kept it from the slot. */
	assert_in_range(hot, 2000 - 3 * HEAT_GETS_MIN, 2000 - HEAT_GETS_MIN + 1);
	assert_int_equal(others, 0);
	load(20000, 10, NOON + WINDOW, &hot, &others);
	assert_in_range(hot, 2000 - 3 * HEAT_GETS_MIN, 2000);
	assert_int_equal(others, 0);
}

/* While the load goes on, and where nobody else asks. */
static void a_key_is_cold_two_windows_later(void **state)
{
	uint64_t now = 0;
	unsigned hot, others;
	(void)state;
	assert_int_equal(asked(digest(0), 64, now), 1);
	assert_int_equal(asked(digest(0), 1, now + WINDOW), 1); /* the window before counts */
	assert_int_equal(asked(digest(0), 63, now + 2 * WINDOW), 0);
	assert_int_equal(asked(digest(0), 1, now + 2 * WINDOW), 1);
	assert_int_equal(asked(digest(0), 1, now + 4 * WINDOW), 0); /* a window without a GET */
	now = NOON;
	load(20000, 10, now, &hot, &others);
	assert_true(hot > 1000);
	load(20000, 0, now + WINDOW, &hot, &others);
	assert_int_equal(asked(digest(0), 1, now + 2 * WINDOW), 0);
}

/* A key that is asked for in a window is hot from its first GET in the next one on. */
static void a_hot_key_stays_hot_across_the_border_of_windows(void **state)
{
	(void)state;
	for (unsigned w = 0; w < 100; w++)
		assert_int_equal(asked(digest(0), 70, w * WINDOW), w ? 70 : 70 - 63);
}

static void sixty_three_gets_are_not_enough(void **state)
{
	(void)state;
	assert_int_equal(asked(digest(0), 63, WINDOW - 1), 0);
	assert_int_equal(asked(digest(0), 63, WINDOW), 0);
	assert_int_equal(asked(digest(0), 63, 7 * WINDOW), 0);
	assert_int_equal(asked(digest(0), 1, 8 * WINDOW - 1), 1);
}

/* 64 keys that are asked for in turn have 1/64 each, and no slot in common: all are hot, each from its 64th GET on.
 * With 65 of them the first one is hot for a moment, when it is one GET ahead of the others. */
static void a_share_of_a_64th_is_enough_and_less_is_not(void **state)
{
	(void)state;
	for (unsigned keys = 64; keys <= 65; keys++) {
		fresh(state);
		for (unsigned i = 0; i < 200 * keys; i++) {
			bool hot = heat_asked(&heat, (uint64_t)(i % keys) << (64 - HEAT_SLOTS_LOG2) | 1, 5);
			assert_int_equal(hot, keys == 64 ? i / keys >= 63 : i == 63 * keys);
		}
	}
}

/* As many as there may be, on slots that they share: it is the load of the slot that counts. Each one that is called
 * hot is, and most of those that are alone in their slot are told. */
static void sixty_four_keys_of_a_busy_shard_are_mostly_told(void **state)
{
	enum { KEYS = 64, ROUNDS = 500 };
	unsigned gets[KEYS] = {0}, all = 0, told[KEYS] = {0}, most = 0;
	(void)state;
	for (unsigned i = 0; i < KEYS * ROUNDS; i++) {
		unsigned k = i % KEYS;
		bool hot = heat_asked(&heat, digest(1000 + k), NOON);
		all++;
		gets[k]++;
		told[k] += hot;
		if (hot)
			assert_true(gets[k] >= HEAT_GETS_MIN && gets[k] * 64 >= all);
	}
	for (unsigned k = 0; k < KEYS; k++)
		most += told[k] > ROUNDS / 2;
	print_message("# %u of %u keys with a 64th of the load each were told as hot\n", most, KEYS);
	assert_in_range(most, KEYS / 2, KEYS);
}

/* Two keys in one slot: the one that is asked for more has it, and its count has nothing of the other. */
static void of_two_keys_in_one_slot_the_hotter_is_told(void **state)
{
	unsigned hot = 0, less = 0;
	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		less += heat_asked(&heat, neighbour(0), NOON);
		hot += asked(neighbour(1), 2, NOON);
	}
	assert_in_range(hot, 6000 - 2 * HEAT_GETS_MIN, 6000);
	assert_int_equal(less, 0);
	for (unsigned i = 0; i < 63; i++) { /* in turns: neither has asked 64 times */
		assert_false(heat_asked(&heat, neighbour(2), NOON + 5 * WINDOW));
		assert_false(heat_asked(&heat, neighbour(3), NOON + 5 * WINDOW));
	}
	for (unsigned i = 0; i < 1000; i++) /* a thousand cold ones do not make a hot one */
		assert_false(heat_asked(&heat, neighbour(100 + i), NOON + 9 * WINDOW));
}

/* Who was hot does not keep the slot from who is: at most 128 GETs, and half as many after a window. */
static void a_slot_goes_to_who_is_hot_now(void **state)
{
	(void)state;
	asked(neighbour(0), 100000, NOON);
	assert_int_equal(asked(neighbour(1), 1000, NOON), 0); /* 1000 of 101,000 */
	assert_int_equal(asked(neighbour(1), 1000, NOON + WINDOW), 1000 - 63);
	asked(neighbour(0), 100000, NOON + 3 * WINDOW);
	assert_int_equal(asked(neighbour(1), 1000, NOON + 4 * WINDOW), 1000 - 64 - 63);
	asked(neighbour(0), 100000, NOON + 6 * WINDOW);
	assert_int_equal(asked(neighbour(1), 1000, NOON + 8 * WINDOW), 1000 - 63);
}

/* The key whose slot another takes leaves neither its count nor its heat to it. */
static void a_slot_that_is_taken_begins_anew(void **state)
{
	(void)state;
	asked(neighbour(0), 1000, NOON);
	asked(neighbour(0), 1, NOON + WINDOW);
	/* One key's worth of other GETs takes all of its votes, 64 + 1; the next one has the slot. */
	for (unsigned i = 0; i < 65; i++)
		assert_false(heat_asked(&heat, neighbour(10 + i), NOON + WINDOW));
	assert_int_equal(asked(neighbour(1), 63, NOON + WINDOW), 0);
	assert_int_equal(asked(neighbour(1), 1, NOON + WINDOW), 1);
}

static void time_may_jump(void **state)
{
	(void)state;
	assert_int_equal(asked(digest(0), 64, NOON), 1);
	assert_int_equal(asked(digest(0), 1, NOON - 5 * WINDOW), 1); /* back: as if it stood still */
	assert_int_equal(asked(digest(0), 1, 0), 1);
	assert_int_equal(asked(digest(0), 1, UINT64_MAX), 0); /* centuries later */
	assert_int_equal(asked(digest(0), 62, UINT64_MAX - 7), 0);
	assert_int_equal(asked(digest(0), 1, UINT64_MAX), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_hot_where_all_keys_are_alike, fresh),
		cmocka_unit_test_setup(a_key_with_a_tenth_of_the_load_is_hot_within_the_window, fresh),
		cmocka_unit_test_setup(a_key_is_cold_two_windows_later, fresh),
		cmocka_unit_test_setup(a_hot_key_stays_hot_across_the_border_of_windows, fresh),
		cmocka_unit_test_setup(sixty_three_gets_are_not_enough, fresh),
		cmocka_unit_test_setup(a_share_of_a_64th_is_enough_and_less_is_not, fresh),
		cmocka_unit_test_setup(sixty_four_keys_of_a_busy_shard_are_mostly_told, fresh),
		cmocka_unit_test_setup(of_two_keys_in_one_slot_the_hotter_is_told, fresh),
		cmocka_unit_test_setup(a_slot_goes_to_who_is_hot_now, fresh),
		cmocka_unit_test_setup(a_slot_that_is_taken_begins_anew, fresh),
		cmocka_unit_test_setup(time_may_jump, fresh),
	};
	return cmocka_run_group_tests_name("store/heat", tests, NULL, NULL);
}
