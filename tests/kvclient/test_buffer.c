/* SPDX-License-Identifier: Apache-2.0 */
/* test_buffer.c -- the buddy allocator against a model: a flag per unit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kvclient/core/buffer.h"

enum { UNITS = 96 + 7, STEPS = 200000, LIVE_MAX = 128 };

static uint8_t *const fake = (uint8_t *)(uintptr_t)0x10000; /* the allocator never touches the memory */

static void pieces_are_powers_of_two_at_their_own_multiple(void **state)
{
	struct kc_buffer b;
	struct kc_piece p;
	(void)state;
	assert_int_equal(kc_buffer_init(&b, fake, (uint64_t)64 << 20), 0);
	for (uint64_t len = 1; len <= (uint64_t)64 << 20; len = len * 3 + 1) {
		assert_int_equal(kc_buffer_take(&b, len, &p), 0);
		assert_true(p.len_bytes >= len && p.len_bytes >= KC_PIECE_MIN);
		assert_true(p.len_bytes < 2 * KV_MAX(len, (uint64_t)KC_PIECE_MIN));
		assert_int_equal(p.offset % p.len_bytes, 0);
		kc_buffer_give(&b, &p);
		assert_int_equal(p.len_bytes, 0);
		assert_int_equal(b.free_bytes, b.len_bytes);
	}
	kc_buffer_fini(&b);
}

static void the_largest_piece_is_the_largest_power_of_two(void **state)
{
	struct kc_buffer b;
	struct kc_piece p, q;
	(void)state;
	assert_int_equal(kc_buffer_init(&b, fake, 96 << 20), 0);
	assert_int_equal(kc_buffer_largest(&b), 64 << 20);
	assert_int_equal(kc_buffer_take(&b, (64 << 20) + 1, &p), -KV_ETOOBIG);
	assert_int_equal(kc_buffer_take(&b, 64 << 20, &p), 0);
	assert_int_equal(kc_buffer_take(&b, 64 << 20, &q), -KV_EBUSY);
	assert_int_equal(kc_buffer_take(&b, 32 << 20, &q), 0);
	assert_int_equal(b.free_bytes, 0);
	kc_buffer_give(&b, &p);
	kc_buffer_give(&b, &q);
	kc_buffer_fini(&b);
}

static void less_than_one_piece_is_refused(void **state)
{
	struct kc_buffer b;
	(void)state;
	assert_int_equal(kc_buffer_init(&b, fake, KC_PIECE_MIN - 1), -KV_EINVAL);
	kc_buffer_fini(&b);
}

static void quarantine_keeps_pieces_out_until_the_amnesty(void **state)
{
	struct kc_buffer b;
	struct kc_piece p[4], q;
	(void)state;
	assert_int_equal(kc_buffer_init(&b, fake, 4 * KC_PIECE_MIN), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(kc_buffer_take(&b, 1, &p[i]), 0);
	kc_buffer_quarantine(&b, &p[1]);
	kc_buffer_quarantine(&b, &p[2]);
	assert_int_equal(p[1].len_bytes, 0);
	assert_int_equal(b.quarantined_bytes, 2 * KC_PIECE_MIN);
	kc_buffer_give(&b, &p[0]);
	kc_buffer_give(&b, &p[3]);
	assert_int_equal(kc_buffer_take(&b, 2 * KC_PIECE_MIN, &q), -KV_EBUSY);
	kc_buffer_amnesty(&b);
	assert_int_equal(b.quarantined_bytes, 0);
	assert_int_equal(kc_buffer_take(&b, 4 * KC_PIECE_MIN, &q), 0);
	kc_buffer_give(&b, &q);
	kc_buffer_fini(&b);
}

/* Pieces of a row lie side by side until something is in the way, then a new row begins. */
static void a_row_is_side_by_side(void **state)
{
	enum { RUN = 4 * KC_PIECE_MIN };
	struct kc_buffer b;
	struct kc_piece p[10], hole;
	uint64_t next = UINT64_MAX;
	(void)state;
	assert_int_equal(kc_buffer_init(&b, fake, 16 * KC_PIECE_MIN), 0);
	assert_int_equal(kc_buffer_take(&b, 1, &hole), 0); /* small holes are beside it, and not taken for a row */
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(kc_buffer_take_near(&b, KC_PIECE_MIN, RUN, &next, &p[i]), 0);
		assert_int_equal(p[i].offset, p[0].offset + i * KC_PIECE_MIN);
		assert_int_equal(next, p[i].offset + KC_PIECE_MIN);
	}
	assert_int_equal(p[0].offset % RUN, 0);
	/* In the way: another row begins where there is room. */
	assert_int_equal(kc_buffer_take_near(&b, KC_PIECE_MIN, RUN, &(uint64_t){next}, &p[6]), 0);
	assert_int_equal(kc_buffer_take_near(&b, KC_PIECE_MIN, RUN, &next, &p[7]), 0);
	assert_int_not_equal(p[7].offset, p[6].offset);
	/* A piece of two units is at a multiple of two. */
	assert_int_equal(kc_buffer_take_near(&b, 2 * KC_PIECE_MIN, RUN, &next, &p[8]), 0);
	assert_int_equal(p[8].offset % (2 * KC_PIECE_MIN), 0);
	/* Nowhere room for a row: what is left is taken all the same, and then nothing. */
	next = UINT64_MAX;
	while (b.free_bytes > 0)
		assert_int_equal(kc_buffer_take_near(&b, KC_PIECE_MIN, RUN, &next, &(struct kc_piece){0}), 0);
	assert_int_equal(kc_buffer_take_near(&b, KC_PIECE_MIN, RUN, &next, &p[9]), -KV_EBUSY);
	assert_int_equal(kc_buffer_take_near(&b, 32 * KC_PIECE_MIN, RUN, &next, &p[9]), -KV_ETOOBIG);
	kc_buffer_fini(&b);
}

/* A lone caller takes the same piece again and again; it is in nobody's way. */
static void the_piece_given_back_last_is_kept_and_in_nobodys_way(void **state)
{
	struct kc_buffer b;
	struct kc_piece p, other, whole;
	uint64_t at;
	(void)state;
	assert_int_equal(kc_buffer_init(&b, fake, 16 * KC_PIECE_MIN), 0);
	assert_int_equal(kc_buffer_take(&b, 1, &p), 0);
	at = p.offset;
	kc_buffer_give(&b, &p);
	assert_int_equal(kc_buffer_take(&b, 1, &p), 0);
	assert_int_equal(p.offset, at);
	kc_buffer_give(&b, &p);
	assert_int_equal(kc_buffer_take(&b, 2 * KC_PIECE_MIN, &other), 0); /* another size: not that piece */
	assert_int_equal(b.free_bytes, b.len_bytes - 2 * KC_PIECE_MIN);
	kc_buffer_quarantine(&b, &other);
	kc_buffer_amnesty(&b);
	assert_int_equal(b.free_bytes, b.len_bytes);
	assert_int_equal(kc_buffer_take(&b, b.len_bytes, &whole), 0);
	assert_int_equal(b.free_bytes, 0);
	assert_int_equal(kc_buffer_take(&b, 1, &p), -KV_EBUSY);
	kc_buffer_give(&b, &whole);
	assert_int_equal(kc_buffer_take_near(&b, 1, 16 * KC_PIECE_MIN, &(uint64_t){UINT64_MAX}, &p), 0);
	assert_int_equal(p.offset, 0);
	kc_buffer_fini(&b);
}

/* ---- the model ---- */

struct model {
	uint8_t used[UNITS];
	struct kc_piece live[LIVE_MAX];
	unsigned n;
};

static void model_set(struct model *m, const struct kc_piece *p, uint8_t v)
{
	for (uint64_t u = p->offset / KC_PIECE_MIN; u < (p->offset + p->len_bytes) / KC_PIECE_MIN; u++) {
		assert_int_equal(m->used[u], !v);
		m->used[u] = v;
	}
}

/* Whether an aligned run of free units of this size exists: what a buddy allocator must be able to find. */
static bool model_fits(const struct model *m, uint64_t units)
{
	for (uint64_t at = 0; at + units <= UNITS; at += units) {
		uint64_t n = 0;
		while (n < units && !m->used[at + n])
			n++;
		if (n == units)
			return true;
	}
	return false;
}

static void model_take(struct model *m, struct kc_buffer *b, struct kv_prng *prng)
{
	uint64_t units = (uint64_t)1 << kv_prng_below(prng, 6);
	uint64_t len = units * KC_PIECE_MIN - kv_prng_below(prng, KC_PIECE_MIN / 2);
	uint64_t next = kv_prng_below(prng, 4) ? kv_prng_below(prng, UNITS + 2) * KC_PIECE_MIN : UINT64_MAX;
	struct kc_piece p;
	int rc = kv_prng_below(prng, 2) ? kc_buffer_take(b, len, &p)
					: kc_buffer_take_near(b, len, 8 * KC_PIECE_MIN, &next, &p);
	assert_int_equal(rc, model_fits(m, units) ? 0 : -KV_EBUSY);
	if (rc < 0)
		return;
	assert_int_equal(p.len_bytes, units * KC_PIECE_MIN);
	model_set(m, &p, 1);
	m->live[m->n++] = p;
}

static void random_use_agrees_with_the_model(void **state)
{
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	struct model m = {0};
	struct kc_buffer b;
	struct kv_prng prng;
	(void)state;
	print_message("KVRAIL_SEED=%llu\n", (unsigned long long)seed);
	kv_prng_seed(&prng, seed);
	assert_int_equal(kc_buffer_init(&b, fake, (uint64_t)UNITS * KC_PIECE_MIN), 0);
	for (int i = 0; i < STEPS; i++) {
		uint64_t used = 0;
		if (m.n < LIVE_MAX && kv_prng_below(&prng, 100) < 52) {
			model_take(&m, &b, &prng);
		} else if (m.n > 0) {
			unsigned k = (unsigned)kv_prng_below(&prng, m.n);
			model_set(&m, &m.live[k], 0);
			kc_buffer_give(&b, &m.live[k]);
			m.live[k] = m.live[--m.n];
		}
		for (unsigned k = 0; k < m.n; k++)
			used += m.live[k].len_bytes;
		assert_int_equal(b.free_bytes, b.len_bytes - used);
	}
	while (m.n > 0)
		kc_buffer_give(&b, &m.live[--m.n]);
	/* Everything has merged again. */
	assert_int_equal(kc_buffer_take(&b, 64 * KC_PIECE_MIN, &m.live[0]), 0);
	kc_buffer_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_powers_of_two_at_their_own_multiple),
		cmocka_unit_test(the_largest_piece_is_the_largest_power_of_two),
		cmocka_unit_test(less_than_one_piece_is_refused),
		cmocka_unit_test(quarantine_keeps_pieces_out_until_the_amnesty),
		cmocka_unit_test(a_row_is_side_by_side),
		cmocka_unit_test(the_piece_given_back_last_is_kept_and_in_nobodys_way),
		cmocka_unit_test(random_use_agrees_with_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
