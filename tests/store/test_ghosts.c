/* SPDX-License-Identifier: Apache-2.0 */
/* test_ghosts.c -- what was evicted is known for as long as it should be, in bounded memory. */
#include "tests/check.h"

#include "store/ghosts.h"

enum { MANY = 100000 };

static struct ghosts ghosts;

static uint64_t id_of(uint64_t i)
{
	return kv_hash_key(&i, sizeof(i), 7);
}

static void the_last_ghosts_are_known_and_older_ones_are_not(void **state)
{
	unsigned known = 0;
	(void)state;
	assert_int_equal(ghosts_init(&ghosts, MANY), 0);
	for (unsigned i = 0; i < 3 * MANY; i++)
		ghosts_add(&ghosts, id_of(i), MANY);
	for (unsigned i = 0; i < 2 * MANY; i++)
		assert_int_equal(ghosts_take(&ghosts, id_of(i), MANY), 0);
	for (unsigned i = 2 * MANY; i < 3 * MANY; i++)
		known += ghosts_take(&ghosts, id_of(i), MANY) == 3 * MANY - i;
	assert_in_range(known, MANY / 1000 * 998, MANY);
	for (unsigned i = 2 * MANY; i < 3 * MANY; i++)
		assert_int_equal(ghosts_take(&ghosts, id_of(i), MANY), 0); /* each once */
	ghosts_fini(&ghosts);
}

static void ghosts_use_no_more_memory_than_they_keep(void **state)
{
	(void)state;
	assert_int_equal(ghosts_init(&ghosts, MANY), 0);
	for (unsigned i = 0; i < MANY; i++)
		ghosts_add(&ghosts, id_of(i), 100);
	assert_in_range(ghosts.mask + 1, 100 * 4 / 8, 100 * 8 / 8);
	for (unsigned i = 0; i < MANY; i++)
		ghosts_add(&ghosts, id_of(i), 1000 * (uint64_t)MANY); /* more than was said: it does not grow beyond */
	assert_int_equal(ghosts.mask + 1, ghosts.buckets_max);
	ghosts_fini(&ghosts);
}

static void without_a_table_there_are_none(void **state)
{
	(void)state;
	ghosts = (struct ghosts){0};
	ghosts_add(&ghosts, 1, 1);
	assert_int_equal(ghosts_take(&ghosts, 1, 1), 0);
	ghosts_fini(&ghosts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_ghosts_are_known_and_older_ones_are_not),
		cmocka_unit_test(ghosts_use_no_more_memory_than_they_keep),
		cmocka_unit_test(without_a_table_there_are_none),
	};
	return cmocka_run_group_tests_name("store/ghosts", tests, NULL, NULL);
}
