/* SPDX-License-Identifier: Apache-2.0 */
/* test_room.c -- several values that memory is being cleared for at the same time: a model with every policy, and the
 * corners where they meet. What the store holds is compared with an array, and arena, policy and sums with each other,
 * all through. */
#include "tests/store/rig.h"

#include <errno.h>

#include "store/pins.h"
#include "store/room.h"

/* Small values enough that a large one takes several steps (STORE_STEPS_AT_ONCE). */
enum { KEYS = 6000, LIMIT = 1 << 18, STEPS = 60000, READERS = 8, SETS = 2, ROOMS = 5 };

/* ---- invariants ---- */

/* ---- the model ---- */

struct want {
	bool put;
	uint64_t len, expires;
	uint8_t fill;
	uint8_t pinned; /* a bit per set */
};

struct reader {
	struct block *b;
	uint64_t len;
	uint8_t fill;
};

/* A value that memory is being cleared for. */
struct waiting {
	struct room *room;
	unsigned k;
	uint64_t len;
};

static struct want want[KEYS];
static struct reader readers[READERS];
static struct waiting waiting[ROOMS];
static struct pins sets[SETS];

static size_t key_of(unsigned k, char *key)
{
	return (size_t)snprintf(key, 16, "key-%u", k);
}

/* The PUT has memory: fill and commit it. Another PUT may have been faster. */
static void fill(struct kv_prng *p, struct block *b, unsigned k, uint64_t len, uint64_t now)
{
	uint8_t byte = (uint8_t)kv_prng_next(p);
	uint64_t expires = kv_prng_below(p, 4) ? KV_NEVER : now + kv_prng_below(p, 5 * SECOND);
	struct block *holder;
	int rc;
	memset(store_data(&store, b), byte, len);
	rc = store_commit(&store, b, byte, expires, now, &holder);
	if (rc == 0)
		want[k] = (struct want){true, len, expires, byte, 0};
	else
		store_drop(&store, b);
	assert_true(rc == 0 || rc == -KV_EEXIST);
	block_unref(&store, b);
}

static void put_some(struct kv_prng *p, unsigned k, uint64_t now)
{
	uint64_t len = 1 + kv_prng_below(p, kv_prng_below(p, 60) ? 100 : kv_prng_below(p, 4) ? 10000 : LIMIT / 2);
	struct waiting *w = &waiting[kv_prng_below(p, ROOMS)];
	struct block *b;
	struct room *room;
	char key[16];
	size_t key_len = key_of(k, key);
	int rc;
	if (w->room)
		return;
	rc = store_stage(&store, key, key_len, len, kv_prng_below(p, 2) ? ARENA_LOW : ARENA_HIGH, &b, &room);
	if (rc == 0)
		fill(p, b, k, len, now);
	else if (rc == -EAGAIN)
		*w = (struct waiting){room, k, len};
}

static void room_some(struct kv_prng *p, struct waiting *w, uint64_t now)
{
	unsigned budget = 1 + (unsigned)kv_prng_below(p, 20);
	struct block *b;
	int rc;
	if (!w->room)
		return;
	b = w->room->block;
	rc = store_stage_step(&store, w->room, &budget);
	if (rc == -EAGAIN)
		return;
	w->room = NULL;
	if (rc == 0)
		fill(p, b, w->k, w->len, now);
}

static void read_some(struct kv_prng *p, struct block *b, unsigned k)
{
	struct reader *r = &readers[kv_prng_below(p, READERS)];
	if (r->b) {
		check_bytes(r->b, r->len, r->fill);
		block_unref(&store, r->b);
		r->b = NULL;
	} else if (b) {
		block_ref(b);
		*r = (struct reader){b, want[k].len, want[k].fill};
	}
}

static void pin_some(struct kv_prng *p, struct block *b, unsigned k)
{
	unsigned which = (unsigned)kv_prng_below(p, SETS), what = (unsigned)kv_prng_below(p, 20);
	if (what == 0) {
		pins_clear(&store, &sets[which]);
		for (unsigned i = 0; i < KEYS; i++)
			want[i].pinned &= (uint8_t)~(1u << which);
	} else if (b && what < 8) {
		pins_remove(&store, &sets[which], b);
		want[k].pinned &= (uint8_t)~(1u << which);
	} else if (b) {
		int rc = pins_add(&store, &sets[which], b, LIMIT / 4, LIMIT / 2);
		assert_true(rc == 0 || rc == -KV_EBUSY);
		want[k].pinned |= (uint8_t)((rc == 0) << which);
	}
}

static void model_step(struct kv_prng *p, uint64_t now)
{
	unsigned k = (unsigned)kv_prng_below(p, KEYS), what = (unsigned)kv_prng_below(p, 100);
	char key[16];
	size_t key_len = key_of(k, key);
	struct block *b = store_find(&store, key, key_len, now);
	if (b) {
		assert_true(want[k].put && want[k].expires > now);
		check_bytes(b, want[k].len, want[k].fill);
	} else {
		assert_false(want[k].put && want[k].pinned && want[k].expires > now);
		want[k].put = false;
		want[k].pinned = 0;
	}
	if (what < 55 && !b) {
		put_some(p, k, now);
	} else if (what < 70) {
		room_some(p, &waiting[kv_prng_below(p, ROOMS)], now);
	} else if (what < 80) {
		read_some(p, b, k);
	} else if (what < 82 && b) {
		store_drop(&store, b);
		want[k].put = false;
		want[k].pinned = 0;
	} else if (what < 90) {
		pin_some(p, b, k);
	} else if (what < 96 && b) {
		store_use(&store, b);
	} else if (what == 97 && b) {
		want[k].expires = KV_MAX(want[k].expires, now + SECOND);
		store_expire_at(&store, b, want[k].expires);
	} else if (what == 98) {
		store_sweep(&store, now, 100);
	} else if (what == 99) {
		struct waiting *w = &waiting[kv_prng_below(p, ROOMS)];
		if (w->room)
			store_stage_end(&store, w->room);
		w->room = NULL;
	}
}

/* Nobody reads any more: every room comes to its end, or says that there is none. */
static void end_all(struct kv_prng *p, uint64_t now)
{
	unsigned left;
	for (unsigned i = 0; i < READERS; i++)
		while (readers[i].b)
			read_some(p, NULL, 0);
	for (unsigned turn = 0;; turn++) {
		left = 0;
		for (unsigned i = 0; i < ROOMS; i++) {
			room_some(p, &waiting[i], now);
			left += waiting[i].room != NULL;
		}
		if (!left)
			return;
		if (turn > 100000)
			fail_msg("%u rooms wait for each other", left);
	}
}

static void model(struct kv_prng *p, const struct evict_policy *policy)
{
	uint64_t now = SECOND;
	memset(want, 0, sizeof(want));
	for (unsigned i = 0; i < SETS; i++)
		pins_init(&sets[i]);
	open_store_with((struct store_options){.limit_bytes = LIMIT,
					       .seed = kv_prng_next(p),
					       .policy = policy,
					       .blocks_max = kv_prng_below(p, 2) ? 5000 : 2000});
	for (unsigned step = 0; step < STEPS; step++) {
		model_step(p, now);
		now += kv_prng_below(p, SECOND / 100);
		if (step % 32 == 0)
			check_store();
		if (step % 10000 == 9999)
			end_all(p, now);
	}
	end_all(p, now);
	for (unsigned i = 0; i < SETS; i++)
		pins_clear(&store, &sets[i]);
	check_store();
	assert_int_equal(store.staged_bytes, 0);
	assert_int_equal(store.gone_bytes, 0);
	assert_int_equal(store.rooms.used, 0);
	assert_true(kv_list_empty(&store.arena.walks));
	assert_int_equal(store.blocks.used, index_count(&store.index));
	close_store();
}

static void random_use_agrees_with_a_model(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	for (unsigned i = 0; evict_policies[i]; i++)
		model(&p, evict_policies[i]);
}

/* ---- corners ---- */

static void step(struct room *r, unsigned budget, int *rc)
{
	if (*rc == -EAGAIN)
		*rc = store_stage_step(&store, r, &budget);
}

/* Each has claimed what the other needs: one of them gives way, and both get their memory. */
static void two_large_values_do_not_wait_for_each_other(void **state)
{
	struct block *b[2];
	struct room *r[2];
	int rc[2];
	(void)state;
	fill_with_small(2 * MANY);
	rc[0] = store_stage(&store, "first", 5, MANY / 8 * 3 * SMALL, ARENA_LOW, &b[0], &r[0]);
	while (rc[0] == -EAGAIN && !r[0]->mem)
		step(r[0], 1, &rc[0]);
	/* The policy's next victim is in the middle of what the first is about to clear. */
	for (unsigned i = 1; i < MANY / 8; i++)
		store_use(&store, small(i));
	rc[1] = store_stage(&store, "second", 6, MANY / 8 * 3 * SMALL, ARENA_LOW, &b[1], &r[1]);
	while (rc[1] == -EAGAIN && !r[1]->mem)
		step(r[1], 1, &rc[1]);
	for (unsigned i = 0; i < 4 * MANY && (rc[0] == -EAGAIN || rc[1] == -EAGAIN); i++) {
		step(r[0], 4, &rc[0]);
		step(r[1], 4, &rc[1]);
		check_store();
	}
	assert_int_equal(rc[0], 0);
	assert_int_equal(rc[1], 0);
	for (unsigned i = 0; i < 2; i++) {
		store_drop(&store, b[i]);
		block_unref(&store, b[i]);
	}
	check_store();
	close_store();
}

/* Every second block at the begin of the stretch is pinned, at its end all are: each is looked at a few times, and not
 * again for each one that moves. */
static void a_block_that_cannot_go_is_looked_at_once(void **state)
{
	enum { LARGE = MANY / 2, PINNED = LARGE / 4 - 8, BUDGET = 100 };
	struct pins pins;
	struct block *b;
	struct room *r;
	unsigned steps = 0, pinned = 0;
	int rc;
	(void)state;
	fill_with_small(2 * MANY);
	pins_init(&pins);
	for (unsigned i = 0; i < PINNED / 2; i++) {
		pinned += pins_add(&store, &pins, small(2 * i + 1), UINT64_MAX, UINT64_MAX) == 0;
		pinned += pins_add(&store, &pins, small(LARGE - 1 - i), UINT64_MAX, UINT64_MAX) == 0;
	}
	assert_int_equal(pinned, PINNED);
	for (unsigned i = LARGE + LARGE / 16; i < MANY; i += LARGE / 16) /* so that no other stretch is found */
		block_ref(small(i));
	rc = store_stage(&store, "large", 5, LARGE * SMALL, ARENA_LOW, &b, &r);
	for (; rc == -EAGAIN && steps < MANY; steps++)
		step(r, BUDGET, &rc);
	assert_int_equal(rc, 0);
	assert_in_range(steps, 1, 8 * MANY / BUDGET);
	check_store();
	store_drop(&store, b);
	block_unref(&store, b);
	for (unsigned i = LARGE + LARGE / 16; i < MANY; i += LARGE / 16)
		block_unref(&store, small(i));
	pins_clear(&store, &pins);
	close_store();
}

/* Pinned values of 1 MiB are in the way: a step moves one at most, and evicts for one at most. */
static void a_step_moves_one_large_block(void **state)
{
	enum { LARGE = 1 << 20, COUNT = 64 };
	struct block *b, *holder, *pinned[COUNT / 4];
	struct pins pins;
	struct room *r;
	char key[16];
	int rc;
	(void)state;
	open_store((uint64_t)COUNT * LARGE, 1);
	pins_init(&pins);
	for (unsigned i = 0; i < COUNT; i++) {
		snprintf(key, sizeof(key), "%u", i);
		b = put(key, LARGE, (uint8_t)i, SECOND);
		assert_non_null(b);
		if (i % 4 == 1) {
			pinned[i / 4] = b;
			assert_int_equal(pins_add(&store, &pins, b, UINT64_MAX, UINT64_MAX), 0);
		}
	}
	for (rc = 1; rc;) {
		uint64_t at[COUNT / 4];
		unsigned moved = 0;
		for (unsigned i = 0; i < COUNT / 4; i++)
			at[i] = pinned[i]->offset;
		if (rc == 1)
			rc = store_stage(&store, "large", 5, (uint64_t)COUNT / 2 * LARGE, ARENA_LOW, &holder, &r);
		else
			step(r, STORE_STEPS_AT_ONCE, &rc);
		assert_true(rc == 0 || rc == -EAGAIN);
		for (unsigned i = 0; i < COUNT / 4; i++)
			moved += at[i] != pinned[i]->offset;
		assert_in_range(moved, 0, 1);
	}
	assert_int_equal(rc, 0);
	for (unsigned i = 0; i < COUNT / 4; i++)
		check_bytes(pinned[i], LARGE, (uint8_t)(4 * i + 1));
	check_store();
	store_drop(&store, holder);
	block_unref(&store, holder);
	pins_clear(&store, &pins);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_large_values_do_not_wait_for_each_other),
		cmocka_unit_test(a_block_that_cannot_go_is_looked_at_once),
		cmocka_unit_test(a_step_moves_one_large_block),
		cmocka_unit_test(random_use_agrees_with_a_model),
	};
	return cmocka_run_group_tests_name("store/room", tests, NULL, NULL);
}
