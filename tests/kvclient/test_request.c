/* SPDX-License-Identifier: Apache-2.0 */
/* test_request.c -- entries, generations of immediates, and the id map against a model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kvclient/core/request.h"

static void entries_are_bounded_and_come_back(void **state)
{
	struct kc_req *r[8];
	struct kc_reqs t;
	(void)state;
	assert_int_equal(kc_reqs_init(&t, 8), 0);
	for (int i = 0; i < 8; i++)
		assert_non_null(r[i] = kc_reqs_take(&t));
	assert_null(kc_reqs_take(&t));
	assert_int_equal(t.used, 8);
	kc_reqs_give(&t, r[3]);
	assert_ptr_equal(kc_reqs_take(&t), r[3]);
	kc_reqs_fini(&t);
}

static void sizes_out_of_range_are_refused(void **state)
{
	struct kc_reqs t;
	(void)state;
	assert_int_equal(kc_reqs_init(&t, 0), -KV_EINVAL);
	assert_int_equal(kc_reqs_init(&t, 65537), -KV_EINVAL);
}

static void immediates_before_the_reply_are_counted(void **state)
{
	struct kc_req *r;
	struct kc_reqs t;
	(void)state;
	assert_int_equal(kc_reqs_init(&t, 4), 0);
	r = kc_reqs_take(&t);
	assert_ptr_equal(kc_reqs_immediate(&t, kc_req_imm(r)), r);
	assert_ptr_equal(kc_reqs_immediate(&t, kc_req_imm(r)), r);
	assert_int_equal(r->mem.arrived, 2);
	assert_false(kc_req_quiet(r)); /* nobody has said how many there will be */
	r->said = KC_SAID_WRITES;
	r->mem.posted = 3;
	assert_false(kc_req_quiet(r));
	kc_reqs_immediate(&t, kc_req_imm(r));
	assert_true(kc_req_quiet(r));
	kc_reqs_fini(&t);
}

static void immediates_of_an_earlier_use_are_strays(void **state)
{
	struct kc_req *r;
	struct kc_reqs t;
	uint32_t old;
	(void)state;
	assert_int_equal(kc_reqs_init(&t, 1), 0);
	r = kc_reqs_take(&t);
	old = kc_req_imm(r);
	kc_reqs_give(&t, r);
	assert_null(kc_reqs_immediate(&t, old)); /* nobody's */
	r = kc_reqs_take(&t);
	assert_null(kc_reqs_immediate(&t, old));            /* somebody else's */
	assert_null(kc_reqs_immediate(&t, wire_imm(1, 1))); /* no such slot */
	assert_int_equal(r->mem.arrived, 0);
	assert_int_equal(t.stray_immediates, 3);
	kc_reqs_fini(&t);
}

static void generations_wrap_around(void **state)
{
	struct kc_reqs t;
	uint32_t first = 0, last = 0;
	(void)state;
	assert_int_equal(kc_reqs_init(&t, 1), 0);
	for (uint32_t i = 0; i <= 65536; i++) {
		struct kc_req *r = kc_reqs_take(&t);
		uint32_t imm = kc_req_imm(r);
		if (i == 0)
			first = imm;
		else
			assert_int_not_equal(imm, last);
		assert_ptr_equal(kc_reqs_immediate(&t, imm), r);
		assert_int_equal(r->mem.arrived, 1);
		last = imm;
		kc_reqs_give(&t, r);
	}
	assert_int_equal(last, first); /* 65536 uses later */
	kc_reqs_fini(&t);
}

/* ---- the map ---- */

enum { MAX = 100, STEPS = 300000 };

/* Or each removal would walk over all of them. */
static void consecutive_ids_do_not_lie_side_by_side(void **state)
{
	struct kc_req r;
	struct kc_map m;
	uint64_t first = (3ull << 48 | 2ull << 40) + 1;
	(void)state;
	for (uint32_t max = 8; max <= 1024; max *= 2) {
		unsigned run = 0, longest = 0;
		assert_int_equal(kc_map_init(&m, max), 0);
		for (uint64_t id = first; id < first + max; id++)
			kc_map_put(&m, id, &r);
		for (uint32_t i = 0; i <= m.mask; i++) {
			run = m.entry[i].id ? run + 1 : 0;
			longest = run > longest ? run : longest;
		}
		assert_in_range(longest, 1, 4);
		kc_map_fini(&m);
	}
}

static void the_map_agrees_with_a_list(void **state)
{
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED"), next = 1, id[MAX];
	struct kc_req *entry = calloc(MAX, sizeof(*entry));
	unsigned n = 0;
	struct kv_prng prng;
	struct kc_map m;
	(void)state;
	print_message("KVRAIL_SEED=%llu\n", (unsigned long long)seed);
	kv_prng_seed(&prng, seed);
	assert_int_equal(kc_map_init(&m, MAX), 0);
	for (int i = 0; i < STEPS; i++) {
		if (n < MAX && kv_prng_below(&prng, 2)) {
			/* Mostly dense, as a link's ids are; now and then a jump, for collisions. */
			next += kv_prng_below(&prng, 10) ? 1 : 1 + kv_prng_below(&prng, 4096);
			id[n] = next;
			kc_map_put(&m, next, &entry[n]);
			n++;
		} else if (n > 0) {
			unsigned k = (unsigned)kv_prng_below(&prng, n);
			assert_true(kc_map_del(&m, id[k]));
			assert_null(kc_map_get(&m, id[k]));
			id[k] = id[--n];
			if (k < n) {
				/* entry[n] keeps its place: only the id moved in our list */
				assert_true(kc_map_del(&m, id[k]));
				kc_map_put(&m, id[k], &entry[k]);
			}
		}
		assert_int_equal(m.used, n);
		for (unsigned k = 0; k < n && i % 64 == 0; k++)
			assert_ptr_equal(kc_map_get(&m, id[k]), &entry[k]);
		assert_null(kc_map_get(&m, next + 1));
		assert_false(kc_map_del(&m, next + 1));
	}
	kc_map_fini(&m);
	free(entry);
}

static void no_id_is_never_found(void **state)
{
	struct kc_map m;
	(void)state;
	assert_int_equal(kc_map_init(&m, 4), 0);
	assert_null(kc_map_get(&m, 0));
	assert_false(kc_map_del(&m, 0));
	kc_map_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_are_bounded_and_come_back),
		cmocka_unit_test(sizes_out_of_range_are_refused),
		cmocka_unit_test(immediates_before_the_reply_are_counted),
		cmocka_unit_test(immediates_of_an_earlier_use_are_strays),
		cmocka_unit_test(generations_wrap_around),
		cmocka_unit_test(consecutive_ids_do_not_lie_side_by_side),
		cmocka_unit_test(the_map_agrees_with_a_list),
		cmocka_unit_test(no_id_is_never_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
