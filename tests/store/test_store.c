/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c -- the store against an array of what each key must hold, with readers, pins and expiry; and its corner
 * cases. */
#include "tests/store/rig.h"

#include <errno.h>

#include "store/pins.h"
#include "store/room.h"

enum { KEYS = 400, LIMIT = 1 << 20, STEPS = 60000, READERS = 12, SETS = 3 };

/* ---- the model ---- */

struct want {
	bool put;
	uint64_t len, expires;
	uint8_t fill;
	uint8_t pinned; /* a bit per set */
};

static struct want want[KEYS];

struct reader {
	struct block *b;
	uint64_t len;
	uint8_t fill;
};

/* One random thing. A key may vanish (eviction), but may never hold what was not put last, and a pinned one may not
 * vanish. */
static void model_step(struct kv_prng *p, uint64_t now, struct reader *readers, struct pins *sets)
{
	unsigned k = (unsigned)kv_prng_below(p, KEYS), what = (unsigned)kv_prng_below(p, 100);
	struct reader *r = &readers[kv_prng_below(p, READERS)];
	unsigned which = (unsigned)kv_prng_below(p, SETS);
	struct pins *set = &sets[which];
	char key[16];
	struct block *b;
	snprintf(key, sizeof(key), "key-%u", k);
	b = get(key, now);
	if (b) {
		assert_true(want[k].put && want[k].expires > now);
		check_bytes(b, want[k].len, want[k].fill);
	} else {
		assert_false(want[k].put && want[k].pinned && want[k].expires > now);
	}
	if (what < 40 && !b) {
		uint64_t len = 1 + kv_prng_below(p, kv_prng_below(p, 8)   ? 4000
						    : kv_prng_below(p, 8) ? 60000
									  : LIMIT / 2);
		struct block *fresh, *holder;
		uint8_t fill = (uint8_t)kv_prng_next(p);
		if (stage(key, strlen(key), len, &fresh) != 0)
			return;
		memset(store_data(&store, fresh), fill, len);
		want[k] = (struct want){true, len, kv_prng_below(p, 4) ? KV_NEVER : now + kv_prng_below(p, 5 * SECOND),
					fill, 0};
		assert_int_equal(store_commit(&store, fresh, fill, want[k].expires, now, &holder), 0);
		block_unref(&store, fresh);
	} else if (what < 60 && b) {
		store_use(&store, b);
	} else if (what < 70 && b && !r->b) {
		block_ref(b);
		*r = (struct reader){b, want[k].len, want[k].fill};
	} else if (what < 80 && r->b) {
		check_bytes(r->b, r->len, r->fill);
		block_unref(&store, r->b);
		r->b = NULL;
	} else if (what < 86 && b) {
		store_drop(&store, b);
		want[k].put = false;
	} else if (what < 92 && b) {
		int rc = pins_add(&store, set, b, LIMIT / 8, LIMIT / 4);
		assert_true(rc == 0 || rc == -KV_EBUSY);
		want[k].pinned |= (uint8_t)((rc == 0) << which);
	} else if (what < 96 && b) {
		pins_remove(&store, set, b);
		want[k].pinned &= (uint8_t)~(1u << which);
	} else if (what == 96) {
		pins_leave(&store, set);
		for (unsigned i = 0; i < KEYS; i++)
			want[i].pinned &= (uint8_t)~(1u << which);
	} else if (what == 97) {
		store_sweep(&store, now, 1000);
	} else if (what == 98) {
		(void)pins_sweep(&store, (unsigned)kv_prng_below(p, 20));
	}
}

static void random_use_agrees_with_an_array(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	struct reader readers[READERS] = {0};
	struct pins sets[SETS];
	uint64_t now = SECOND;
	memset(want, 0, sizeof(want));
	for (unsigned i = 0; i < SETS; i++)
		pins_init(&sets[i]);
	open_store(LIMIT, kv_prng_next(&p));
	for (unsigned step = 0; step < STEPS; step++) {
		model_step(&p, now, readers, sets);
		now += kv_prng_below(&p, SECOND / 100);
		if (step % 256 == 0)
			check_store();
	}
	for (unsigned i = 0; i < SETS; i++) {
		for (struct kv_list *n = sets[i].set ? sets[i].set->pins.next : NULL; n && n != &sets[i].set->pins;
		     n = n->next)
			assert_int_equal(KV_LIST_ENTRY(n, struct pin, of_set)->block->state, BLOCK_LIVE);
		pins_clear(&store, &sets[i]);
		assert_int_equal(pins_bytes(&sets[i]), 0);
	}
	for (unsigned i = 0; i < READERS; i++)
		if (readers[i].b) {
			check_bytes(readers[i].b, readers[i].len, readers[i].fill);
			block_unref(&store, readers[i].b);
		}
	check_store();
	assert_int_equal(store.gone_bytes, 0);
	assert_true(store.events[STORE_EVICTED] > 0 && store.events[STORE_EXPIRED] > 0);
	close_store();
}

/* ---- one behaviour each ---- */

static void memory_is_used_to_the_last_granule(void **state)
{
	(void)state;
	open_store(64 * 1024, 1);
	for (unsigned i = 0; i < 64; i++)
		assert_non_null(put_nth(i, 1024));
	assert_int_equal(store.arena.used, 64 * 1024);
	assert_int_equal(store.events[STORE_EVICTED], 0);
	assert_non_null(put("one more", 1, 7, 0));
	assert_int_equal(store.events[STORE_EVICTED], 1);
	assert_true(store.arena.used <= 64 * 1024);
	close_store();
}

static void a_value_larger_than_everything_is_too_big(void **state)
{
	(void)state;
	struct block *b;
	open_store(64 * 1024, 1);
	assert_int_equal(stage("k", 1, 64 * 1024 + 1, &b), -KV_ETOOBIG);
	assert_non_null(put("k", 64 * 1024, 3, 0));
	close_store();
}

static void fragments_are_cleared_for_a_large_value(void **state)
{
	(void)state;
	open_store(64 * 1024, 1);
	for (unsigned i = 0; i < 128; i++)
		put_nth(i, 512);
	for (unsigned i = 0; i < 128; i += 2) /* every other one: half is free, no hole over 512 bytes */
		store_drop(&store, small(i));
	assert_non_null(put("large", 16 * 1024, 9, 0));
	/* Neighbours went, not everybody: 16 KiB lie over 16 to 17 of the small ones, and a few more went to find the
	 * place. */
	assert_in_range(store.events[STORE_EVICTED], 15, 20);
	close_store();
}

static void a_block_in_use_outlives_its_key(void **state)
{
	(void)state;
	struct block *b;
	open_store(64 * 1024, 1);
	b = put("k", 1000, 5, 0);
	block_ref(b);
	store_drop(&store, b);
	assert_null(get("k", 0));
	assert_int_equal(store.gone_bytes, 1024);
	assert_non_null(put("k", 2000, 6, 0));
	check_bytes(b, 1000, 5);
	block_unref(&store, b);
	assert_int_equal(store.gone_bytes, 0);
	check_bytes(get("k", 0), 2000, 6);
	close_store();
}

static void a_block_in_use_is_not_evicted(void **state)
{
	(void)state;
	struct block *a, *fresh;
	open_store(64 * 1024, 1);
	a = put("a", 40 * 1024, 1, 0);
	block_ref(a);
	assert_int_equal(stage("b", 1, 40 * 1024, &fresh), -KV_ENOMEM);
	assert_ptr_equal(get("a", 0), a);
	block_unref(&store, a);
	assert_int_equal(stage("b", 1, 40 * 1024, &fresh), 0);
	assert_null(get("a", 0));
	close_store();
}

/* What a search found in use may be evicted as soon as it is not any more, also if it was pinned meanwhile. */
static void a_block_that_was_in_use_can_be_evicted_later(void **state)
{
	(void)state;
	for (unsigned pinned = 0; pinned < 2; pinned++) {
		struct block *a, *fresh;
		struct pins pins;
		open_store(64 * 1024, 1);
		pins_init(&pins);
		a = put("a", 40 * 1024, 1, 0);
		block_ref(a);
		assert_int_equal(stage("b", 1, 40 * 1024, &fresh), -KV_ENOMEM);
		assert_true(a->evict.parked);
		assert_int_equal(store.evict.count, 0);
		if (pinned)
			assert_int_equal(pins_add(&store, &pins, a, UINT64_MAX, UINT64_MAX), 0);
		block_unref(&store, a);
		assert_int_equal(store.evict.count, !pinned);
		assert_int_equal(stage("b", 1, 40 * 1024, &fresh), pinned ? -KV_ENOMEM : 0);
		if (pinned) {
			pins_clear(&store, &pins);
			assert_int_equal(stage("b", 1, 40 * 1024, &fresh), 0);
		}
		assert_null(get("a", 0));
		close_store();
	}
}

/* The block is deleted while it stands aside. */
static void a_block_that_was_in_use_can_be_deleted(void **state)
{
	(void)state;
	struct block *a, *fresh;
	open_store(64 * 1024, 1);
	a = put("a", 40 * 1024, 1, 0);
	block_ref(a);
	assert_int_equal(stage("b", 1, 40 * 1024, &fresh), -KV_ENOMEM);
	store_drop(&store, a);
	block_unref(&store, a);
	assert_int_equal(store.evict.count, 0);
	assert_int_equal(store.arena.used, 0);
	close_store();
}

static void the_first_commit_wins(void **state)
{
	(void)state;
	struct block *a, *b, *holder = NULL;
	open_store(64 * 1024, 1);
	assert_int_equal(stage("k", 1, 100, &a), 0);
	assert_int_equal(stage("k", 1, 200, &b), 0);
	assert_null(get("k", 0));
	assert_int_equal(store_commit(&store, b, 1, KV_NEVER, 0, &holder), 0);
	assert_int_equal(store_commit(&store, a, 2, KV_NEVER, 0, &holder), -KV_EEXIST);
	assert_ptr_equal(holder, b);
	assert_ptr_equal(get("k", 0), b);
	assert_true(a->generation != b->generation);
	store_drop(&store, a);
	block_unref(&store, a);
	block_unref(&store, b);
	assert_int_equal(store.staged_bytes, 0);
	close_store();
}

static bool there(uint64_t digest, uint64_t now_ns)
{
	uint8_t wire[8], bitmap[1] = {0};
	kv_put64(wire, digest);
	store_digests_find(&store, wire, 1, now_ns, bitmap);
	assert_int_equal(bitmap[0] & ~1, 0);
	return bitmap[0];
}

static void many_digests_are_found_together_and_one_that_expired_is_deleted_once(void **state)
{
	(void)state;
	enum { PAIRS = 40 };
	struct block *b, *holder;
	uint8_t digests[8 * 2 * PAIRS], bitmap[2 * PAIRS / 8] = {0};
	char key[PAIRS][8];
	open_store(1 << 20, PAIRS);
	for (unsigned i = 0; i < PAIRS; i++) {
		int len = snprintf(key[i], sizeof(key[i]), "k%u", i);
		uint64_t digest = kv_hash_key(key[i], (size_t)len, 0);
		/* Each is asked for twice: beside itself, so that both are looked up together. */
		kv_put64(digests + (size_t)16 * i, digest);
		kv_put64(digests + (size_t)16 * i + 8, digest);
		if (i % 3 == 2)
			continue; /* is not there */
		assert_int_equal(stage(key[i], (size_t)len, 100, &b), 0);
		assert_int_equal(store_commit(&store, b, 1, i % 3 ? KV_NEVER : 5 * SECOND, 0, &holder), 0);
		block_unref(&store, b);
	}
	store_digests_find(&store, digests, 2 * PAIRS - 1, 5 * SECOND, bitmap);
	for (unsigned i = 0; i < 2 * PAIRS; i++)
		assert_int_equal(bitmap[i / 8] >> i % 8 & 1, i / 2 % 3 == 1);
	assert_int_equal(store.events[STORE_EXPIRED], (PAIRS + 2) / 3);
	check_store();
	close_store();
}

/* Nobody can make such keys by chance. Whoever can make them shall not fill the index's slots around one place. */
static void a_key_of_the_same_digest_has_the_place_of_the_first(void **state)
{
	(void)state;
	struct block *a, *b, *holder = NULL;
	uint64_t digest = kv_hash_key("one", 3, 0);
	open_store(64 * 1024, 1);
	assert_int_equal(stage("one", 3, 100, &a), 0);
	assert_int_equal(stage("other", 5, 100, &b), 0);
	assert_int_equal(a->item.hash, index_digest_hash(&store.index, digest));
	b->item.hash = a->item.hash;
	assert_false(there(digest, 0));
	assert_int_equal(store_commit(&store, a, 1, 5 * SECOND, 0, &holder), 0);
	assert_true(there(digest, 0));
	assert_int_equal(store_commit(&store, b, 1, KV_NEVER, 0, &holder), -KV_EEXIST);
	assert_ptr_equal(holder, a);
	assert_ptr_equal(get("one", 0), a);
	assert_null(get("other", 0));
	block_unref(&store, a);
	assert_false(there(digest, 6 * SECOND)); /* its time has come */
	store_drop(&store, b);
	block_unref(&store, b);
	check_store();
	close_store();
}

static void an_expired_block_is_gone_at_the_next_look(void **state)
{
	(void)state;
	struct block *b, *holder;
	open_store(64 * 1024, 1);
	assert_int_equal(stage("k", 1, 100, &b), 0);
	assert_int_equal(store_commit(&store, b, 1, 5 * SECOND, SECOND, &holder), 0);
	block_unref(&store, b);
	assert_ptr_equal(get("k", 5 * SECOND - 1), b);
	assert_null(get("k", 5 * SECOND));
	assert_int_equal(store.arena.used, 0);
	assert_int_equal(store.events[STORE_EXPIRED], 1);
	close_store();
}

static void a_sweep_frees_values_that_nobody_looks_at(void **state)
{
	(void)state;
	struct block *b, *holder;
	open_store(64 * 1024, 1);
	assert_int_equal(stage("k", 1, 100, &b), 0);
	assert_int_equal(store_commit(&store, b, 1, 5 * SECOND, SECOND, &holder), 0);
	block_unref(&store, b);
	assert_int_equal(store_sweep(&store, 4 * SECOND, 100), 0);
	assert_int_equal(store_sweep(&store, 7 * SECOND, 100), 1);
	assert_int_equal(store.arena.used, 0);
	close_store();
}

static void pins_keep_and_have_a_budget(void **state)
{
	(void)state;
	struct pins p, q;
	struct block *a, *b, *c;
	open_store(4096, 1);
	pins_init(&p);
	pins_init(&q);
	a = put("a", 1024, 1, 0);
	b = put("b", 1024, 2, 0);
	c = put("c", 1024, 2, 0);
	assert_int_equal(pins_add(&store, &p, a, 1500, 2048), 0);
	assert_int_equal(pins_add(&store, &p, a, 1500, 2048), 0);
	assert_int_equal(pins_bytes(&p), 1024);
	assert_int_equal(pins_add(&store, &p, b, 1500, 2048), -KV_EBUSY);
	assert_int_equal(pins_add(&store, &q, b, 1500, 2048), 0);
	assert_int_equal(pins_add(&store, &q, c, 9999, 2048), -KV_EBUSY);
	assert_non_null(put("d", 2048, 3, 0)); /* c had to go, a and b had not */
	assert_null(get("c", 0));
	assert_ptr_equal(get("a", 0), a);
	assert_ptr_equal(get("b", 0), b);
	pins_clear(&store, &p);
	pins_clear(&store, &q);
	assert_int_equal(store.pinned_bytes, 0);
	assert_non_null(put("e", 4096, 3, 0));
	close_store();
}

/* A block that thousands pin, asked for by one with few pins: the list of the others is not walked to its end. It is
 * cut behind the second here: a search that went further would crash. */
static void a_pin_is_not_looked_for_among_those_of_all_others(void **state)
{
	(void)state;
	struct pins others[4], few;
	struct block *a, *b;
	struct kv_list *second, *rest;
	open_store(64 * 1024, 1);
	pins_init(&few);
	a = put("a", 1000, 1, 0);
	b = put("b", 1000, 2, 0);
	for (unsigned i = 0; i < KV_COUNT(others); i++) {
		pins_init(&others[i]);
		assert_int_equal(pins_add(&store, &others[i], a, UINT64_MAX, UINT64_MAX), 0);
	}
	second = a->pins.next->next;
	rest = second->next;
	second->next = NULL;
	pins_remove(&store, &few, a);
	second->next = rest;
	assert_int_equal(pins_add(&store, &few, b, UINT64_MAX, UINT64_MAX), 0);
	second->next = NULL;
	pins_remove(&store, &few, a);
	second->next = rest;
	assert_int_equal(pins_add(&store, &few, a, UINT64_MAX, UINT64_MAX), 0);
	assert_int_equal(pins_bytes(&few), 2 * 1024);
	pins_remove(&store, &few, a);
	assert_int_equal(pins_bytes(&few), 1024);
	pins_clear(&store, &few);
	for (unsigned i = 0; i < KV_COUNT(others); i++)
		pins_clear(&store, &others[i]);
	assert_int_equal(store.pinned_bytes, 0);
	close_store();
}

/* A set that is left counts no more, at once, though its pins are dropped in slices: for what others pin and for
 * values. */
static void a_set_that_is_left_is_dropped_in_slices(void **state)
{
	enum { PINS = 2000, SLICE = 100 };
	unsigned turns = 0;
	struct pins p, q;
	(void)state;
	fill_with_small(MANY);
	pins_init(&p);
	pins_init(&q);
	for (unsigned i = 0; i < PINS; i++)
		assert_int_equal(pins_add(&store, &p, small(i), UINT64_MAX, PINS * SMALL), 0);
	assert_int_equal(pins_add(&store, &q, small(0), UINT64_MAX, PINS * SMALL), 0);
	assert_int_equal(pins_add(&store, &q, small(PINS), UINT64_MAX, PINS * SMALL), -KV_EBUSY);
	pins_leave(&store, &p);
	assert_int_equal(store.pinned_bytes, SMALL);
	assert_int_equal(pins_bytes(&p), 0);
	/* A new session pins the same blocks and others, while they are dropped. */
	for (unsigned i = 1; i < PINS; i += 2) {
		assert_int_equal(pins_add(&store, &q, small(i), UINT64_MAX, PINS * SMALL), 0);
		assert_int_equal(store.pinned_bytes, (i / 2 + 2) * SMALL);
	}
	check_store();
	for (; pins_sweep(&store, SLICE); turns++)
		check_store();
	assert_in_range(turns, PINS / SLICE - 1, PINS / SLICE + 1);
	assert_int_equal(store.pinned_bytes, (PINS / 2 + 1) * SMALL);
	assert_int_equal(store.pins.used, PINS / 2 + 1);
	check_store();
	pins_clear(&store, &q);
	close_store();
}

/* Nobody is refused for what sessions have left: neither memory nor pins, of which there are as many as there may be.
 */
static void left_by(unsigned sessions)
{
	struct pins left[2], p;
	fill_with_small(MANY);
	pins_init(&p);
	for (unsigned k = 0; k < sessions; k++) {
		pins_init(&left[k]);
		for (unsigned i = 0; i < MANY / sessions; i++)
			assert_int_equal(pins_add(&store, &left[k], small(i), UINT64_MAX, UINT64_MAX), 0);
	}
	for (unsigned k = 0; k < sessions; k++)
		pins_leave(&store, &left[k]);
	assert_int_equal(pins_add(&store, &p, small(MANY - 1), UINT64_MAX, SMALL), 0);
	assert_int_equal(store.pinned_bytes, SMALL);
	assert_non_null(put("large", (MANY - 1) * SMALL, 1, SECOND));
	assert_non_null(small(MANY - 1));
	check_store();
	pins_clear(&store, &p);
	close_store();
}

static void what_was_left_is_in_nobodys_way(void **state)
{
	(void)state;
	left_by(1);
	left_by(2);
}

static void a_block_that_goes_leaves_every_pin_set(void **state)
{
	(void)state;
	struct pins p, q;
	struct block *a;
	open_store(4096, 1);
	pins_init(&p);
	pins_init(&q);
	a = put("a", 1000, 1, 0);
	assert_int_equal(pins_add(&store, &p, a, 4096, 4096), 0);
	assert_int_equal(pins_add(&store, &q, a, 4096, 4096), 0);
	store_drop(&store, a);
	assert_int_equal(pins_bytes(&p) + pins_bytes(&q) + store.pinned_bytes, 0);
	assert_true(kv_list_empty(&p.set->pins) && kv_list_empty(&q.set->pins));
	pins_leave(&store, &p);
	pins_leave(&store, &q);
	close_store();
}

/* ---- making room ---- */

/* A block in 64 is in use, so nothing larger than 63 blocks fits: a PUT that asks costs the others nothing, and smaller
 * ones go on. */
static void a_value_that_cannot_fit_evicts_nothing(void **state)
{
	struct block *b;
	(void)state;
	fill_with_small(MANY);
	for (unsigned i = 0; i < MANY; i += 64)
		block_ref(small(i));
	assert_int_equal(stage("large", 5, 128 * SMALL, &b), -KV_ENOMEM);
	assert_int_equal(store.events[STORE_EVICTED], 0);
	assert_int_equal(index_count(&store.index), MANY);
	assert_int_equal(store.staged_bytes, 0);
	check_store();
	assert_non_null(put("fits", 63 * SMALL, 1, 0));
	assert_in_range(store.events[STORE_EVICTED], 63, 63);
	for (unsigned i = 0; i < MANY; i += 64)
		block_unref(&store, small(i));
	assert_non_null(put("large", 128 * SMALL, 1, 0));
	check_store();
	close_store();
}

/* The same with pins: those in the way are moved, and keep their bytes. */
static void pinned_blocks_are_moved_out_of_the_way(void **state)
{
	struct pins pins;
	(void)state;
	fill_with_small(MANY);
	pins_init(&pins);
	for (unsigned i = 0; i < MANY; i += 64)
		assert_int_equal(pins_add(&store, &pins, small(i), UINT64_MAX, UINT64_MAX), 0);
	assert_non_null(put("large", 128 * SMALL, 1, 0));
	/* 126 or 127 in its way, one for each that moved, and no more. */
	assert_in_range(store.events[STORE_EVICTED], 126, 128);
	for (unsigned i = 0; i < MANY; i += 64) {
		assert_non_null(small(i));
		check_bytes(small(i), SMALL, (uint8_t)i);
	}
	check_bytes(get("large", 0), 128 * SMALL, 1);
	check_store();
	pins_clear(&store, &pins);
	close_store();
}

/* A pinned block with a reader is not moved. */
static void a_pinned_block_in_use_stays_where_it_is(void **state)
{
	struct pins pins;
	struct block *b;
	(void)state;
	fill_with_small(MANY);
	pins_init(&pins);
	for (unsigned i = 0; i < MANY; i += 64) {
		assert_int_equal(pins_add(&store, &pins, small(i), UINT64_MAX, UINT64_MAX), 0);
		block_ref(small(i));
	}
	assert_int_equal(stage("large", 5, 128 * SMALL, &b), -KV_ENOMEM);
	assert_int_equal(store.events[STORE_EVICTED], 0);
	for (unsigned i = 0; i < MANY; i += 64)
		block_unref(&store, small(i));
	pins_clear(&store, &pins);
	close_store();
}

/* Half of all memory at once, over 2,048 blocks: no step evicts more than its budget, what was cleared is nobody
 * else's, and small values are stored meanwhile. */
static void a_large_value_is_made_room_for_in_steps(void **state)
{
	struct block *b, *other;
	struct room *room, *none;
	unsigned steps = 0;
	char key[16];
	int rc;
	(void)state;
	fill_with_small(MANY);
	rc = store_stage(&store, "large", 5, MANY / 2 * SMALL, ARENA_LOW, &b, &room);
	assert_in_range(store.events[STORE_EVICTED], 0, STORE_STEPS_AT_ONCE);
	assert_int_equal(store.staged_bytes, MANY / 2 * SMALL);
	for (; rc == -EAGAIN; steps++) {
		uint64_t before = store.events[STORE_EVICTED];
		unsigned budget = 100;
		snprintf(key, sizeof(key), "meanwhile%u", steps);
		assert_int_equal(store_stage(&store, key, strlen(key), SMALL, ARENA_LOW, &other, &none), 0);
		memset(store_data(&store, other), 7, SMALL);
		store_drop(&store, other);
		block_unref(&store, other);
		rc = store_stage_step(&store, room, &budget);
		assert_in_range(store.events[STORE_EVICTED] - before, 0, 101);
	}
	assert_int_equal(rc, 0);
	assert_in_range(steps, MANY / 200, MANY);
	assert_int_equal(b->mem->size, MANY / 2 * SMALL);
	assert_in_range(store.events[STORE_EVICTED], MANY / 2, MANY / 2 + steps);
	check_store();
	store_drop(&store, b);
	block_unref(&store, b);
	check_store();
	close_store();
}

/* Two large values at once, the second of which begins where the first is about to clear: neither takes pieces of what
 * the other one needs, which would have both wait for each other until their deadlines. */
static void two_large_values_do_not_wait_for_each_other(void **state)
{
	static const unsigned parts[] = {MANY / 2, 300};
	struct block *b[2];
	struct room *room[2];
	int rc[2];
	(void)state;
	fill_with_small(MANY);
	for (unsigned i = 0; i < 2; i++) {
		char key[2] = {(char)('a' + i), 0};
		rc[i] = store_stage(&store, key, 1, parts[i] * SMALL, ARENA_LOW, &b[i], &room[i]);
		while (i == 0 && store.events[STORE_EVICTED] < MANY / 8) {
			unsigned budget = 100;
			rc[0] = store_stage_step(&store, room[0], &budget);
		}
	}
	for (unsigned steps = 0; rc[0] == -EAGAIN || rc[1] == -EAGAIN; steps++) {
		assert_in_range(steps, 0, MANY);
		for (unsigned i = 0; i < 2; i++) {
			unsigned budget = 100;
			if (rc[i] != -EAGAIN)
				continue;
			rc[i] = store_stage_step(&store, room[i], &budget);
			assert_false(rc[i] == -EAGAIN && room[i]->waits);
		}
	}
	assert_int_equal(rc[0] | rc[1], 0);
	check_store();
	assert_int_equal(store.events[STORE_EVICTED], MANY / 2 + 300);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(b[i]->mem->size, parts[i] * SMALL);
		store_drop(&store, b[i]);
		block_unref(&store, b[i]);
	}
	check_store();
	close_store();
}

/* As many rooms at work as there may be: what is done in one step is done all the same, and the rest holds nothing
 * while it waits. */
static void small_values_do_not_wait_for_rooms(void **state)
{
	struct block *b;
	struct room *room;
	(void)state;
	fill_with_small(MANY);
	store.rooms_begun = ROOMS_AT_ONCE;
	assert_non_null(put("small", SMALL, 1, 0));
	assert_non_null(put("more", 20 * SMALL, 1, 0));
	assert_int_equal(store_stage(&store, "large", 5, MANY / 2 * SMALL, ARENA_LOW, &b, &room), -EAGAIN);
	assert_true(room->waits && !room->begun && !room->mem && kv_list_empty(&store.clearing) &&
		    kv_list_empty(&store.arena.walks));
	assert_int_equal(store.rooms_begun, ROOMS_AT_ONCE);
	store_stage_end(&store, room);
	assert_int_equal(store.rooms_begun, ROOMS_AT_ONCE);
	store.rooms_begun = 0;
	check_store();
	close_store();
}

/* A reader that does not end is not waited for without end: the room gives up its place, and has memory elsewhere. */
static void a_reader_that_stays_is_given_up_for_another_place(void **state)
{
	struct block *b, *read = NULL;
	struct room *room;
	unsigned waits = 0;
	int rc;
	(void)state;
	fill_with_small(MANY);
	rc = store_stage(&store, "large", 5, MANY / 3 * SMALL, ARENA_LOW, &b, &room);
	while (rc == -EAGAIN) {
		unsigned budget = 100;
		rc = store_stage_step(&store, room, &budget);
		assert_in_range(waits += rc == -EAGAIN && room->waits, 0, ROOM_PATIENCE);
		if (!read && rc == -EAGAIN && room->mem) {
			read = room->last->next->next->owner;
			block_ref(read);
		}
	}
	assert_int_equal(rc, 0);
	assert_int_equal(waits, ROOM_PATIENCE);
	assert_int_equal(read->state, BLOCK_LIVE);
	check_store();
	block_unref(&store, read);
	store_drop(&store, b);
	block_unref(&store, b);
	check_store();
	close_store();
}

/* A value that is being written can be evicted once it is stored: a PUT that needs its place waits for that, and is not
 * refused.
 */
static void a_value_being_written_in_the_way_is_waited_for(void **state)
{
	struct block *a, *b, *holder;
	struct room *room;
	unsigned budget = 100;
	(void)state;
	open_store(64 * 1024, 1);
	assert_int_equal(stage("a", 1, 40 * 1024, &a), 0);
	assert_int_equal(store_stage(&store, "b", 1, 40 * 1024, ARENA_LOW, &b, &room), -EAGAIN);
	assert_true(room->waits);
	assert_int_equal(store_commit(&store, a, 1, KV_NEVER, 0, &holder), 0);
	block_unref(&store, a);
	assert_int_equal(store_stage_step(&store, room, &budget), 0);
	assert_int_equal(store.events[STORE_EVICTED], 1);
	store_drop(&store, b);
	block_unref(&store, b);
	check_store();
	close_store();
}

/* More at once than may search and clear: the last one waits until another has ended, and all have their memory in the
 * end, though the arena has room for six of them at a time. */
static void many_large_values_wait_for_each_others_end(void **state)
{
	enum { ROOMS = ROOMS_AT_ONCE + 1, EACH = STORE_STEPS_AT_ONCE + 100 };
	struct room *room[ROOMS];
	unsigned pending = ROOMS;
	char key[16];
	(void)state;
	fill_with_small(MANY);
	for (unsigned i = 0; i < ROOMS; i++) {
		struct block *b;
		snprintf(key, sizeof(key), "room%u", i);
		assert_int_equal(store_stage(&store, key, strlen(key), EACH * SMALL, ARENA_LOW, &b, &room[i]), -EAGAIN);
	}
	assert_int_equal(store.rooms_begun, ROOMS_AT_ONCE);
	assert_true(room[ROOMS - 1]->waits && !room[ROOMS - 1]->begun);
	for (unsigned rounds = 0; pending; rounds++) {
		assert_in_range(rounds, 0, MANY);
		for (unsigned i = 0; i < ROOMS; i++) {
			struct block *b = room[i] ? room[i]->block : NULL;
			unsigned budget = 100;
			int rc = room[i] ? store_stage_step(&store, room[i], &budget) : -EAGAIN;
			if (rc == -EAGAIN)
				continue;
			assert_int_equal(rc, 0);
			assert_int_equal(b->mem->size, EACH * SMALL);
			store_drop(&store, b);
			block_unref(&store, b);
			room[i] = NULL;
			pending--;
		}
	}
	assert_int_equal(store.rooms_begun + store.rooms.used, 0);
	check_store();
	close_store();
}

/* Rooms of all sizes begin, go on, are given up and end in any order, among readers and pins: no two have a stretch in
 * common, nobody's bytes change, and when nobody reads any more every one of them ends. */
enum { CROWD = 80, CROWD_STEPS = 40000 };

static void check_stretches(struct room *const *room)
{
	for (unsigned i = 0; i < CROWD; i++)
		for (unsigned k = 0; room[i] && room[i]->mem && k < i; k++)
			if (room[k] && room[k]->mem)
				assert_true(room[k]->end <= room[i]->mem->offset ||
					    room[i]->end <= room[k]->mem->offset);
}

/* What a room became: a value, unless its key has one. */
static void crowd_ends(struct room **room, struct block *b, int rc)
{
	struct block *holder;
	*room = NULL;
	if (rc) {
		assert_int_equal(rc, -KV_ENOMEM);
		return;
	}
	assert_int_equal(b->mem->size, arena_round(b->len));
	memset(store_data(&store, b), (int)b->len, b->len);
	if (store_commit(&store, b, 1, KV_NEVER, 0, &holder))
		store_drop(&store, b);
	block_unref(&store, b);
}

static void crowd_step(struct kv_prng *p, struct room **room, struct block **read, struct pins *pins)
{
	unsigned what = (unsigned)kv_prng_below(p, 100), i = (unsigned)kv_prng_below(p, CROWD),
		 budget = 1 + (unsigned)kv_prng_below(p, 200);
	struct block *b = small((unsigned)kv_prng_below(p, MANY));
	char key[16];
	int rc;
	if (room[i] && what < 40) {
		struct block *its = room[i]->block;
		rc = store_stage_step(&store, room[i], &budget);
		if (rc != -EAGAIN)
			crowd_ends(&room[i], its, rc);
	} else if (room[i] && what < 43) {
		store_stage_end(&store, room[i]);
		room[i] = NULL;
	} else if (!room[i] && what < 60) {
		uint64_t len = 1 + kv_prng_below(p, kv_prng_below(p, 4) ? 4 * SMALL : MANY / 4 * SMALL);
		snprintf(key, sizeof(key), "s%u", (unsigned)kv_prng_below(p, MANY));
		rc = store_stage(&store, key, strlen(key), len, ARENA_LOW, &b, &room[i]);
		if (rc != -EAGAIN)
			crowd_ends(&room[i], b, rc);
	} else if (what < 70 && b && !read[i]) {
		block_ref(read[i] = b);
	} else if (what < 80 && read[i]) {
		check_bytes(read[i], read[i]->len, (uint8_t)read[i]->len);
		block_unref(&store, read[i]);
		read[i] = NULL;
	} else if (what < 90 && b) {
		check_bytes(b, b->len, (uint8_t)b->len);
		(void)pins_add(&store, pins, b, MANY / 4 * SMALL, UINT64_MAX);
	} else if (what < 92 && b) {
		pins_remove(&store, pins, b);
	} else if (what < 93 && b) {
		store_drop(&store, b);
	}
}

static void a_crowd_of_rooms_never_overlaps_and_ends(void **state)
{
	struct kv_prng p = check_seed();
	struct room *room[CROWD] = {0};
	struct block *read[CROWD] = {0};
	struct pins pins;
	unsigned pending = 1, most = 0;
	(void)state;
	open_small(MANY);
	pins_init(&pins);
	for (unsigned i = 0; i < CROWD_STEPS; i++) {
		crowd_step(&p, room, read, &pins);
		check_stretches(room);
		most = KV_MAX(most, store.rooms_begun);
	}
	for (unsigned i = 0; i < CROWD; i++)
		if (read[i])
			block_unref(&store, read[i]);
	for (unsigned rounds = 0; pending; rounds++) {
		assert_in_range(rounds, 0, 10000);
		pending = 0;
		for (unsigned i = 0; i < CROWD; i++) {
			struct block *b = room[i] ? room[i]->block : NULL;
			unsigned budget = 200;
			int rc = room[i] ? store_stage_step(&store, room[i], &budget) : -EAGAIN;
			pending += room[i] != NULL;
			if (rc != -EAGAIN)
				crowd_ends(&room[i], b, rc);
		}
	}
	assert_in_range(most, 2, ROOMS_AT_ONCE);
	assert_int_equal(store.rooms_begun + store.rooms.used + store.staged_bytes, 0);
	check_store();
	pins_clear(&store, &pins);
	close_store();
}

/* A step copies no more bytes than it evicts others in that time, but for one block. */
static void moving_pinned_blocks_takes_steps(void **state)
{
	enum { BLOCK = 32 << 10, BLOCKS = 1024, BUDGET = 40 };
	struct block *b[BLOCKS], *large;
	uint64_t at[BLOCKS];
	struct room *room;
	struct pins pins;
	int rc;
	(void)state;
	open_store(BLOCKS * BLOCK, 1);
	pins_init(&pins);
	for (unsigned i = 0; i < BLOCKS; i++) {
		b[i] = put_nth(i, BLOCK);
		at[i] = b[i]->offset;
		if (i % 5 == 4)
			assert_int_equal(pins_add(&store, &pins, b[i], UINT64_MAX, UINT64_MAX), 0);
	}
	rc = store_stage(&store, "large", 5, BLOCKS / 2 * BLOCK, ARENA_LOW, &large, &room);
	for (unsigned steps = 0; rc == -EAGAIN; steps++) {
		unsigned budget = BUDGET, moved = 0;
		assert_in_range(steps, 0, 1000);
		rc = store_stage_step(&store, room, &budget);
		for (unsigned i = 4; i < BLOCKS; i += 5) {
			moved += b[i]->offset != at[i];
			at[i] = b[i]->offset;
		}
		assert_in_range(moved, 0, BUDGET * ROOM_MOVE_STEP / BLOCK + 1);
	}
	assert_int_equal(rc, 0);
	for (unsigned i = 4; i < BLOCKS; i += 5)
		check_bytes(b[i], BLOCK, (uint8_t)i);
	store_drop(&store, large);
	block_unref(&store, large);
	check_store();
	pins_clear(&store, &pins);
	close_store();
}

/* A block for each letter: e may go, p is pinned, r is being read. */
static void layout(struct pins *pins, const char *letters)
{
	open_store(strlen(letters) * SMALL, 1);
	pins_init(pins);
	for (unsigned i = 0; letters[i]; i++) {
		assert_non_null(put_nth(i, SMALL));
		if (letters[i] == 'p')
			assert_int_equal(pins_add(&store, pins, small(i), UINT64_MAX, UINT64_MAX), 0);
		if (letters[i] == 'r')
			block_ref(small(i));
	}
}

/* 40 blocks, of which 10 may be pinned: there is one such stretch. A stretch that has too many pinned blocks loses
 * those in front, not all. */
static void a_stretch_with_few_pinned_blocks_is_found(void **state)
{
	struct pins pins;
	(void)state;
	layout(&pins, "eeeeeeeeeeee"
		      "reppppppeeeeeeeeeeeeeeeeeeeeppppppppeeeeeeeeeeeer");
	assert_non_null(put("large", 40 * SMALL, 1, 0));
	assert_int_equal(store.events[STORE_EVICTED], 32 + 8); /* and a place for each that was moved */
	check_store();
	block_unref(&store, small(12));
	block_unref(&store, small(60));
	pins_clear(&store, &pins);
	close_store();
}

/* Many pinned blocks side by side at the end of a stretch are looked at once, and not again for each of them that is
 * moved. */
static void pinned_blocks_are_not_looked_at_again_and_again(void **state)
{
	enum { HALF = MANY / 2, PINNED = 500 };
	struct block *b;
	struct room *room;
	struct pins pins;
	unsigned steps = 0;
	int rc;
	(void)state;
	fill_with_small(MANY);
	pins_init(&pins);
	for (unsigned i = HALF - PINNED; i < HALF; i++)
		assert_int_equal(pins_add(&store, &pins, small(i), UINT64_MAX, UINT64_MAX), 0);
	for (unsigned i = HALF; i < MANY; i++)
		if (i % 16 == 0)
			block_ref(small(i));
	rc = store_stage(&store, "large", 5, HALF * SMALL, ARENA_LOW, &b, &room);
	for (; rc == -EAGAIN; steps++) {
		unsigned budget = 100;
		assert_in_range(steps, 0, 3 * MANY / 100);
		rc = store_stage_step(&store, room, &budget);
	}
	assert_int_equal(rc, 0);
	for (unsigned i = HALF; i < MANY; i++)
		if (i % 16 == 0)
			block_unref(&store, small(i));
	store_drop(&store, b);
	block_unref(&store, b);
	check_store();
	pins_clear(&store, &pins);
	close_store();
}

/* A reader of a block in the stretch is waited for. And a PUT that gives up leaves nothing. */
static void a_reader_in_the_way_is_waited_for(void **state)
{
	(void)state;
	for (unsigned give_up = 0; give_up < 2; give_up++) {
		struct block *b, *read = NULL;
		struct room *room;
		int rc;
		fill_with_small(MANY);
		rc = store_stage(&store, "large", 5, MANY / 2 * SMALL, ARENA_LOW, &b, &room);
		while (rc == -EAGAIN && !room->waits) {
			unsigned budget = 100;
			rc = store_stage_step(&store, room, &budget);
			if (!read && room->mem) {
				read = room->last->next->next->owner;
				block_ref(read);
			}
		}
		assert_int_equal(rc, -EAGAIN);
		if (give_up) {
			store_stage_end(&store, room);
			assert_int_equal(store.staged_bytes, 0);
		}
		block_unref(&store, read);
		while (!give_up && rc == -EAGAIN) {
			unsigned budget = 100;
			rc = store_stage_step(&store, room, &budget);
			assert_false(rc == -EAGAIN && room->waits);
		}
		check_store();
		if (!give_up) {
			assert_int_equal(rc, 0);
			assert_int_equal(b->mem->size, MANY / 2 * SMALL);
			store_drop(&store, b);
			block_unref(&store, b);
		}
		assert_int_equal(store.staged_bytes, 0);
		close_store();
	}
}

/* Values that expire and values that stay, in turn: what expires leaves one hole. */
static void values_that_expire_leave_large_holes(void **state)
{
	char key[16];
	(void)state;
	open_store(256 << 10, 1);
	for (unsigned i = 0; i < 256; i++) {
		struct block *b, *holder;
		snprintf(key, sizeof(key), "s%u", i);
		assert_int_equal(stage_at(key, strlen(key), 1024, i % 2 ? ARENA_HIGH : ARENA_LOW, &b), 0);
		assert_int_equal(store_commit(&store, b, 1, i % 2 ? 5 * SECOND : KV_NEVER, SECOND, &holder), 0);
		block_unref(&store, b);
	}
	assert_int_equal(store_sweep(&store, 7 * SECOND, 1000), 128);
	assert_non_null(put("large", 128 << 10, 1, 0));
	assert_int_equal(store.events[STORE_EVICTED], 0);
	close_store();
}

static void the_number_of_blocks_is_bounded(void **state)
{
	(void)state;
	open_store(1 << 20, 1);
	for (unsigned i = 0; i < 5000; i++)
		assert_non_null(put_nth(i, 1));
	assert_int_equal(index_count(&store.index), (1 << 20) / STORE_BYTES_PER_BLOCK);
	close_store();
}

/* 16 values in each KiB, because that was asked for; without evicting one. */
static void the_number_of_blocks_can_be_raised(void **state)
{
	(void)state;
	fill_with_small(MANY);
	assert_int_equal(store.blocks_max, MANY);
	assert_int_equal(store.events[STORE_EVICTED], 0);
	assert_int_equal(store.arena.used, store.arena.limit);
	close_store();
}

/* Room for 4,096 values: 3,200 are stored and read, then 3,200 others stored. None of those has gone, as it would where
 * a hit kept a value from eviction until the search came round. */
static void a_working_set_that_was_read_once_is_not_frozen(void **state)
{
	(void)state;
	open_store(4096 * 1024, 1);
	for (unsigned i = 0; i < 2 * 3200; i++) {
		assert_non_null(put_nth(i, 1024));
		if (i == 3199)
			for (unsigned k = 0; k < 3200; k++)
				store_use(&store, small(k));
	}
	for (unsigned i = 3200; i < 2 * 3200; i++)
		assert_non_null(small(i));
	assert_int_equal(store.events[STORE_EVICTED], 2304);
	close_store();
}

/* What store_ahead begins to load is a guess; a wrong guess costs nothing. */
static void looking_ahead_changes_nothing(void **state)
{
	struct block *a;
	uint64_t there, missing;
	(void)state;
	open_store(LIMIT, 1);
	a = put("a", 100, 1, SECOND);
	there = store_ahead(&store, "a", 1);
	missing = store_ahead(&store, "b", 1);
	store_ahead_block(&store, there);
	store_ahead_block(&store, missing);
	assert_ptr_equal(get("a", SECOND), a);
	assert_null(get("b", SECOND));
	store_drop(&store, a);
	store_ahead_block(&store, there);
	assert_null(get("a", SECOND));
	check_store();
	close_store();
}

static struct block *put_spare(const char *key, uint64_t now)
{
	struct block *b, *holder;
	if (store_stage_spare(&store, key, strlen(key), SMALL, ARENA_LOW, &b) != 0)
		return NULL;
	assert_int_equal(store_commit(&store, b, 0, KV_NEVER, now, &holder), 0);
	store_last(&store, b);
	block_unref(&store, b);
	return b;
}

/* It takes no other value's place, neither for bytes nor for the number of values, and any other value takes its. */
static void a_spare_value_evicts_nothing_and_goes_first(void **state)
{
	(void)state;
	for (unsigned k = 0; evict_policies[k]; k++) {
		open_store_with((struct store_options){
			.limit_bytes = MANY * SMALL, .seed = 1, .policy = evict_policies[k], .blocks_max = MANY});
		for (unsigned i = 0; i < MANY / 2; i++)
			assert_non_null(put_nth(i, SMALL));
		assert_non_null(put_spare("spare", 1));
		assert_non_null(put_spare("first", 1));
		for (unsigned i = MANY / 2; i < MANY - 2; i++)
			assert_non_null(put_nth(i, SMALL));
		assert_null(put_spare("more", 1));
		assert_int_equal(store.events[STORE_EVICTED], 0);
		assert_int_equal(store.staged_bytes, 0);
		check_store();
		assert_non_null(put("a", SMALL, 1, 1));
		assert_non_null(get("spare", 1));
		assert_null(get("first", 1));
		assert_non_null(put("b", SMALL, 1, 1));
		assert_null(get("spare", 1));
		assert_int_equal(store.events[STORE_EVICTED], 2);
		check_store();
		close_store();
	}
	open_small(2);
	assert_non_null(put_spare("a", 1));
	assert_non_null(put_spare("b", 1));
	assert_null(put_spare("c", 1)); /* there is memory, but two values are as many as there may be */
	check_store();
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looking_ahead_changes_nothing),
		cmocka_unit_test(random_use_agrees_with_an_array),
		cmocka_unit_test(memory_is_used_to_the_last_granule),
		cmocka_unit_test(a_value_larger_than_everything_is_too_big),
		cmocka_unit_test(fragments_are_cleared_for_a_large_value),
		cmocka_unit_test(a_block_in_use_outlives_its_key),
		cmocka_unit_test(a_block_in_use_is_not_evicted),
		cmocka_unit_test(a_block_that_was_in_use_can_be_evicted_later),
		cmocka_unit_test(a_block_that_was_in_use_can_be_deleted),
		cmocka_unit_test(the_first_commit_wins),
		cmocka_unit_test(many_digests_are_found_together_and_one_that_expired_is_deleted_once),
		cmocka_unit_test(a_key_of_the_same_digest_has_the_place_of_the_first),
		cmocka_unit_test(an_expired_block_is_gone_at_the_next_look),
		cmocka_unit_test(a_sweep_frees_values_that_nobody_looks_at),
		cmocka_unit_test(pins_keep_and_have_a_budget),
		cmocka_unit_test(a_pin_is_not_looked_for_among_those_of_all_others),
		cmocka_unit_test(a_set_that_is_left_is_dropped_in_slices),
		cmocka_unit_test(what_was_left_is_in_nobodys_way),
		cmocka_unit_test(a_block_that_goes_leaves_every_pin_set),
		cmocka_unit_test(a_value_that_cannot_fit_evicts_nothing),
		cmocka_unit_test(pinned_blocks_are_moved_out_of_the_way),
		cmocka_unit_test(a_pinned_block_in_use_stays_where_it_is),
		cmocka_unit_test(a_large_value_is_made_room_for_in_steps),
		cmocka_unit_test(two_large_values_do_not_wait_for_each_other),
		cmocka_unit_test(small_values_do_not_wait_for_rooms),
		cmocka_unit_test(a_reader_that_stays_is_given_up_for_another_place),
		cmocka_unit_test(a_value_being_written_in_the_way_is_waited_for),
		cmocka_unit_test(many_large_values_wait_for_each_others_end),
		cmocka_unit_test(a_crowd_of_rooms_never_overlaps_and_ends),
		cmocka_unit_test(moving_pinned_blocks_takes_steps),
		cmocka_unit_test(a_stretch_with_few_pinned_blocks_is_found),
		cmocka_unit_test(pinned_blocks_are_not_looked_at_again_and_again),
		cmocka_unit_test(a_reader_in_the_way_is_waited_for),
		cmocka_unit_test(values_that_expire_leave_large_holes),
		cmocka_unit_test(a_working_set_that_was_read_once_is_not_frozen),
		cmocka_unit_test(a_spare_value_evicts_nothing_and_goes_first),
		cmocka_unit_test(the_number_of_blocks_is_bounded),
		cmocka_unit_test(the_number_of_blocks_can_be_raised),
	};
	return cmocka_run_group_tests_name("store/store", tests, NULL, NULL);
}
