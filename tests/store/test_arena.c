/* SPDX-License-Identifier: Apache-2.0 */
/* test_arena.c -- the allocator against a map with one byte per granule. */
#include "tests/check.h"

#include "store/arena.h"

enum { GRANULES = 1000, LIMIT = GRANULES * ARENA_GRANULE, BLOCKS = 400, STEPS = 40000 };

static struct arena arena;

/* The stupid model: the owner of each granule; 0 is free. */
static uint16_t map[GRANULES];

static void map_fill(const struct arena_block *b, uint16_t was, uint16_t now)
{
	for (uint64_t i = b->offset / ARENA_GRANULE; i < (b->offset + b->size) / ARENA_GRANULE; i++) {
		assert_int_equal(map[i], was);
		map[i] = now;
	}
}

static unsigned map_longest_hole(unsigned *out_holes, unsigned *out_used)
{
	unsigned longest = 0, run = 0;
	*out_holes = *out_used = 0;
	for (unsigned i = 0; i < GRANULES; i++) {
		run = map[i] ? 0 : run + 1;
		*out_holes += run == 1;
		*out_used += map[i] != 0;
		longest = KV_MAX(longest, run);
	}
	return longest;
}

/* The blocks tile the arena, holes do not touch, and the sums agree with the map. */
static void check_whole(void)
{
	uint64_t at = 0, used = 0;
	unsigned holes = 0, want_holes, want_used;
	const struct arena_block *prev = NULL;
	for (const struct arena_block *b = arena.first; b; prev = b, b = b->next) {
		assert_true(b->prev == prev);
		assert_int_equal(b->offset, at);
		assert_true(b->size > 0 && b->size % ARENA_GRANULE == 0);
		assert_false(prev && !prev->owner && !b->owner);
		at += b->size;
		used += b->owner ? b->size : 0;
		holes += !b->owner;
	}
	assert_int_equal(at, LIMIT);
	assert_int_equal(used, arena.used);
	map_longest_hole(&want_holes, &want_used);
	assert_int_equal(holes, want_holes);
	assert_int_equal(used, want_used * ARENA_GRANULE);
}

static void random_use_agrees_with_a_map(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	struct arena_block *live[BLOCKS] = {0};
	memset(map, 0, sizeof(map));
	assert_int_equal(arena_init(&arena, LIMIT + 63, BLOCKS), 0);
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)kv_prng_below(&p, BLOCKS), holes, used;
		if (live[i]) {
			struct arena_block *hole;
			map_fill(live[i], (uint16_t)(i + 1), 0);
			hole = arena_free(&arena, live[i]);
			live[i] = NULL;
			assert_null(hole->owner);
		} else {
			uint64_t size =
				1 + kv_prng_below(&p, kv_prng_below(&p, 4) ? 5 * ARENA_GRANULE : 100 * ARENA_GRANULE);
			live[i] = arena_alloc(&arena, size, &live[i], size % 128 ? ARENA_LOW : ARENA_HIGH);
			if (live[i]) {
				assert_int_equal(live[i]->size, arena_round(size));
				assert_ptr_equal(live[i]->owner, &live[i]);
				map_fill(live[i], 0, (uint16_t)(i + 1));
			} else {
				/* Good fit may miss a hole of the request's own class, never one a whole class larger.
				 */
				uint64_t granules = arena_round(size) / ARENA_GRANULE;
				assert_true(map_longest_hole(&holes, &used) <
					    granules + KV_MAX(granules / 16, (uint64_t)1));
			}
		}
		if (step % 64 == 0)
			check_whole();
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		if (live[i]) {
			map_fill(live[i], (uint16_t)(i + 1), 0);
			arena_free(&arena, live[i]);
		}
	check_whole();
	assert_null(arena.first->next);
	assert_int_equal(arena.blocks.used, 1);
	arena_fini(&arena);
}

static void the_whole_arena_can_be_one_block(void **state)
{
	(void)state;
	struct arena_block *b;
	assert_int_equal(arena_init(&arena, LIMIT, 4), 0);
	assert_null(arena_alloc(&arena, LIMIT + 1, map, ARENA_LOW));
	b = arena_alloc(&arena, LIMIT, map, ARENA_LOW);
	assert_non_null(b);
	assert_int_equal(arena_free_bytes(&arena), 0);
	assert_null(arena_alloc(&arena, 1, map, ARENA_LOW));
	arena_free(&arena, b);
	assert_int_equal(arena.used, 0);
	arena_fini(&arena);
}

/* Blocks of one size fill the arena to the last one, whatever order they are freed in: what a cache of one model's
 * blocks does. */
static void equal_sizes_fill_exactly(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	struct arena_block *b[100];
	assert_int_equal(arena_init(&arena, 100 * 640, 100), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_non_null(b[i] = arena_alloc(&arena, 640, &b[i], ARENA_LOW));
	assert_int_equal(arena.used, arena.limit);
	for (unsigned step = 0; step < 10000; step++) {
		unsigned i = (unsigned)kv_prng_below(&p, 100);
		arena_free(&arena, b[i]);
		assert_non_null(b[i] = arena_alloc(&arena, 640, &b[i], ARENA_LOW));
	}
	arena_fini(&arena);
}

static void a_hole_is_taken_from_its_start(void **state)
{
	(void)state;
	struct arena_block *a, *b, *hole;
	assert_int_equal(arena_init(&arena, 10 * 64, 8), 0);
	assert_non_null(a = arena_alloc(&arena, 6 * 64, map, ARENA_LOW));
	assert_non_null(b = arena_alloc(&arena, 4 * 64, map, ARENA_LOW));
	hole = arena_free(&arena, a);
	assert_int_equal(hole->size, 6 * 64);
	a = arena_take(&arena, hole, 5 * 64 - 7, map, ARENA_LOW);
	assert_int_equal(a->offset, 0);
	assert_int_equal(a->size, 5 * 64);
	assert_null(a->next->owner);
	assert_int_equal(a->next->size, 64);
	assert_ptr_equal(a->next->next, b);
	arena_fini(&arena);
}

static void nothing_and_less_than_a_granule_are_refused(void **state)
{
	(void)state;
	assert_int_equal(arena_init(&arena, 63, 1), -KV_EINVAL);
	assert_int_equal(arena_init(&arena, 64, 1), 0);
	assert_null(arena_alloc(&arena, 0, map, ARENA_LOW));
	assert_null(arena_alloc(&arena, UINT64_MAX, map, ARENA_LOW));
	arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_use_agrees_with_a_map),
		cmocka_unit_test(the_whole_arena_can_be_one_block),
		cmocka_unit_test(equal_sizes_fill_exactly),
		cmocka_unit_test(a_hole_is_taken_from_its_start),
		cmocka_unit_test(nothing_and_less_than_a_granule_are_refused),
	};
	return cmocka_run_group_tests_name("store/arena", tests, NULL, NULL);
}
