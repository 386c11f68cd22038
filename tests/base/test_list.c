/* SPDX-License-Identifier: Apache-2.0 */
/* test_list.c -- the intrusive list against an array. */
#include "tests/check.h"

enum { NODES = 16 };

struct item {
	unsigned value;
	struct kv_list node;
};

static struct item items[NODES];

/* check_order -- the list holds exactly these items, in this order, in both directions. */
static void check_order(struct kv_list *l, const unsigned *order, unsigned count)
{
	unsigned n = 0;
	KV_LIST_EACH (at, l) {
		assert_in_range(n, 0, count - 1);
		assert_int_equal(KV_LIST_ENTRY(at, struct item, node)->value, order[n++]);
	}
	assert_int_equal(n, count);
	for (struct kv_list *at = l->prev; at != l; at = at->prev)
		assert_int_equal(KV_LIST_ENTRY(at, struct item, node)->value, order[--n]);
	assert_int_equal(kv_list_empty(l), count == 0);
}

static void items_reset(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		items[i].value = i;
		kv_list_init(&items[i].node);
	}
}

static unsigned index_of(const unsigned *order, unsigned count, unsigned value)
{
	unsigned i = 0;
	while (i < count && order[i] != value)
		i++;
	return i;
}

static void a_list_equals_an_array(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	struct kv_list l;
	unsigned order[NODES], count = 0;
	items_reset();
	kv_list_init(&l);
	for (int step = 0; step < 20000; step++) {
		unsigned value = (unsigned)kv_prng_below(&p, NODES), at = index_of(order, count, value);
		if (at < count) {
			kv_list_del(&items[value].node);
			memmove(order + at, order + at + 1, (--count - at) * sizeof(order[0]));
		} else if (kv_prng_next(&p) & 1) {
			kv_list_add_tail(&l, &items[value].node);
			order[count++] = value;
		} else {
			kv_list_add_head(&l, &items[value].node);
			memmove(order + 1, order, count++ * sizeof(order[0]));
			order[0] = value;
		}
		check_order(&l, order, count);
	}
}

static void pop_takes_the_first(void **state)
{
	(void)state;
	struct kv_list l;
	items_reset();
	kv_list_init(&l);
	kv_list_add_tail(&l, &items[3].node);
	kv_list_add_tail(&l, &items[5].node);
	assert_ptr_equal(kv_list_pop(&l), &items[3].node);
	assert_true(kv_list_empty(&items[3].node));
	assert_ptr_equal(kv_list_pop(&l), &items[5].node);
	assert_null(kv_list_pop(&l));
}

static void deleting_an_unlinked_node_is_harmless(void **state)
{
	(void)state;
	items_reset();
	kv_list_del(&items[0].node);
	kv_list_del(&items[0].node);
	assert_true(kv_list_empty(&items[0].node));
}

static void splicing_moves_all_to_the_end(void **state)
{
	(void)state;
	struct kv_list a, b;
	items_reset();
	kv_list_init(&a);
	kv_list_init(&b);
	kv_list_splice_tail(&a, &b);
	check_order(&a, NULL, 0);
	kv_list_add_tail(&b, &items[0].node);
	kv_list_splice_tail(&a, &b);
	kv_list_add_tail(&b, &items[1].node);
	kv_list_add_tail(&b, &items[2].node);
	kv_list_splice_tail(&a, &b);
	check_order(&a, (const unsigned[]){0, 1, 2}, 3);
	check_order(&b, NULL, 0);
}

static void the_safe_walk_may_unlink(void **state)
{
	(void)state;
	struct kv_list l;
	items_reset();
	kv_list_init(&l);
	for (unsigned i = 0; i < 6; i++)
		kv_list_add_tail(&l, &items[i].node);
	KV_LIST_EACH_SAFE (at, &l) {
		if (KV_LIST_ENTRY(at, struct item, node)->value % 2)
			kv_list_del(at);
	}
	check_order(&l, (const unsigned[]){0, 2, 4}, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_equals_an_array),
		cmocka_unit_test(pop_takes_the_first),
		cmocka_unit_test(deleting_an_unlinked_node_is_harmless),
		cmocka_unit_test(splicing_moves_all_to_the_end),
		cmocka_unit_test(the_safe_walk_may_unlink),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
