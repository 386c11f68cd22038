/* SPDX-License-Identifier: Apache-2.0 */
/* test_slab.c -- equal objects: where they lie, how many there are, and what they cost before they are used. */
#include "tests/check.h"

#include <stdlib.h>

#include "store/slab.h"

enum { OBJECT = 200, SLOT = 256, MANY = 40000 }; /* 10 MiB: through every size of chunk */

static int by_address(const void *a, const void *b)
{
	const uint8_t *x = *(uint8_t *const *)a, *y = *(uint8_t *const *)b;
	return (x > y) - (x < y);
}

static void objects_are_apart_and_aligned(void **state)
{
	static uint8_t *object[MANY];
	struct slab s;
	(void)state;
	slab_init(&s, OBJECT, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		object[i] = slab_get(&s);
		assert_non_null(object[i]);
		assert_int_equal((uintptr_t)object[i] % KV_CACHELINE, 0);
		memset(object[i], (int)i, OBJECT);
	}
	for (unsigned i = 0; i < MANY; i++)
		for (unsigned k = 0; k < OBJECT; k++)
			assert_int_equal(object[i][k], (uint8_t)i);
	qsort(object, MANY, sizeof(object[0]), by_address);
	for (unsigned i = 1; i < MANY; i++)
		assert_true(object[i] - object[i - 1] >= SLOT);
	slab_fini(&s);
}

static void there_are_no_more_than_max(void **state)
{
	void *first[7];
	struct slab s;
	(void)state;
	slab_init(&s, OBJECT, 7);
	for (unsigned i = 0; i < 7; i++) {
		first[i] = slab_get(&s);
		assert_non_null(first[i]);
	}
	assert_null(slab_get(&s));
	assert_int_equal(s.used, 7);
	slab_put(&s, first[3]);
	assert_int_equal(s.used, 6);
	assert_ptr_equal(slab_get(&s), first[3]);
	assert_null(slab_get(&s));
	slab_fini(&s);
}

static void the_last_one_put_is_the_first_one_got(void **state)
{
	void *a, *b;
	struct slab s;
	(void)state;
	slab_init(&s, OBJECT, MANY);
	a = slab_get(&s);
	b = slab_get(&s);
	slab_put(&s, a);
	slab_put(&s, b);
	assert_ptr_equal(slab_get(&s), b);
	assert_ptr_equal(slab_get(&s), a);
	slab_fini(&s);
}

static void an_object_may_be_larger_than_a_chunk(void **state)
{
	enum { LARGE = 5 << 20 };
	void *object[5];
	struct slab s;
	(void)state;
	slab_init(&s, LARGE, 5);
	for (unsigned i = 0; i < 5; i++) {
		object[i] = slab_get(&s);
		assert_non_null(object[i]);
		memset(object[i], 1, LARGE);
	}
	assert_null(slab_get(&s));
	slab_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_apart_and_aligned),
		cmocka_unit_test(there_are_no_more_than_max),
		cmocka_unit_test(the_last_one_put_is_the_first_one_got),
		cmocka_unit_test(an_object_may_be_larger_than_a_chunk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
