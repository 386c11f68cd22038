/* SPDX-License-Identifier: Apache-2.0 */
/* test_tenant.c -- tenants in a store: caps to the byte, whose blocks are evicted, what a flood costs others, and how a
 * tenant ends. */
#include <errno.h>

#include "rig.h"

enum { KIB = 1 << 10, LIMIT = 1 << 20, VALUE = 1 << 10, TIME = 1 };

#define NO_LIMIT ((struct tenant_part){0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX})

/* The namespace "a..." is of tenant a, and so on; "-..." is of none. */
static const char *owner_by_letter(void *arg, const char *space)
{
	static const char *const names[] = {"a", "b", "c"};
	(void)arg;
	for (unsigned i = 0; i < KV_COUNT(names); i++)
		if (space[0] == names[i][0])
			return names[i];
	return NULL;
}

static void limit(const char *name, uint64_t share, uint64_t cap)
{
	struct tenant_part l = NO_LIMIT;
	l.share = share;
	l.cap = cap;
	assert_int_equal(tenant_set(&store, name, &l), 0);
}

static void enter(const char *space)
{
	struct space *sp;
	assert_int_equal(space_take(&store.spaces, space, TIME, &sp), 0);
	store_enter(&store, sp);
}

static struct tenant *of(const char *name)
{
	struct tenant *t = tenant_find(&store, name);
	assert_non_null(t);
	return t;
}

/* Each tenant is charged for the blocks of its namespaces, in whatever state. */
static void check_charges(void)
{
	uint64_t bytes[STORE_TENANTS_MAX] = {0}, evictable[STORE_TENANTS_MAX] = {0};
	for (struct arena_block *m = store.arena.first; m; m = m->next) {
		struct block *b = m->owner;
		unsigned place;
		if (!b || b->mem != m)
			continue;
		place = store.spaces.at[b->space]->tenant->place;
		bytes[place] += store_charge(&store, m->size);
		evictable[place] += b->state == BLOCK_LIVE && kv_list_empty(&b->pins) && !b->evict.parked;
	}
	for (unsigned i = 0; i < store.tenancy.count; i++) {
		struct tenant *t = store.tenancy.at[i];
		assert_int_equal(t->place, i);
		assert_int_equal(t->bytes, bytes[i]);
		assert_int_equal(store.tenancy.excess[i], (int64_t)(t->bytes - t->limit.share));
		assert_int_equal(tenant_evict(&store, t)->count, evictable[i]);
	}
}

static void open_three(uint64_t memory)
{
	open_store(memory, 1);
	tenancy_begin(&store, owner_by_letter, NULL);
	limit("a", 0, UINT64_MAX);
	limit("b", 0, UINT64_MAX);
	limit("c", 0, UINT64_MAX);
	tenancy_end(&store, TIME);
}

/* ---- caps ---- */

/* Sixty-four writers have a value each on its way; some end, some are given up, some are read when they are deleted. */
static void a_cap_is_not_exceeded_by_a_byte(void **state)
{
	enum { WRITERS = 64, STEPS = 60000 };
	struct block *writer[WRITERS] = {0}, *reader[WRITERS] = {0}, *holder;
	struct kv_prng p = check_seed();
	uint64_t most = 0;
	(void)state;
	open_three(LIMIT);
	limit("a", 0, 200 * KIB + 64);
	for (unsigned i = 0; i < STEPS; i++) {
		unsigned w = (unsigned)kv_prng_below(&p, WRITERS);
		char key[16];
		snprintf(key, sizeof(key), "k%llu", (unsigned long long)kv_prng_below(&p, 400));
		enter(kv_prng_below(&p, 2) ? "a1" : "a2");
		if (reader[w] && kv_prng_below(&p, 2)) {
			block_unref(&store, reader[w]);
			reader[w] = NULL;
		} else if (!writer[w]) {
			int rc = stage(key, strlen(key), 1 + kv_prng_below(&p, 9000), &writer[w]);
			assert_true(rc == 0 || rc == -KV_ENOMEM);
			writer[w] = rc ? NULL : writer[w];
		} else {
			if (kv_prng_below(&p, 4) == 0 || store_commit(&store, writer[w], 1, KV_NEVER, TIME, &holder))
				store_drop(&store, writer[w]);
			block_unref(&store, writer[w]);
			writer[w] = NULL;
			holder = get(key, TIME);
			if (holder && !reader[w] && kv_prng_below(&p, 8) == 0) {
				block_ref(holder);
				reader[w] = holder;
				if (kv_prng_below(&p, 2))
					store_drop(&store, holder);
			}
		}
		assert_true(of("a")->bytes <= 200 * KIB + 64);
		most = KV_MAX(most, of("a")->bytes);
		if (i % 1000 == 0)
			check_charges();
	}
	assert_true(most == 200 * KIB + 64); /* and it may be used to the last granule */
	for (unsigned w = 0; w < WRITERS; w++) {
		if (writer[w]) {
			store_drop(&store, writer[w]);
			block_unref(&store, writer[w]);
		}
		if (reader[w])
			block_unref(&store, reader[w]);
	}
	check_charges();
	close_store();
}

static void a_value_beyond_the_cap_is_refused(void **state)
{
	struct block *b;
	(void)state;
	open_three(LIMIT);
	limit("a", 0, 10 * VALUE);
	enter("a");
	for (unsigned i = 0; i < 10; i++)
		assert_non_null(put_nth(i, VALUE));
	assert_int_equal(stage("big", 3, 10 * VALUE + 1, &b), -KV_ENOMEM);
	assert_int_equal(of("a")->bytes, 10 * VALUE); /* nothing was evicted for it */
	assert_int_equal(of("a")->denied, 1);
	assert_non_null(put("big", 10 * VALUE, 1, TIME)); /* all others leave for it */
	assert_int_equal(of("a")->evicted, 10);
	assert_int_equal(store_stage_spare(&store, "x", 1, 1, ARENA_LOW, &b), -KV_ENOMEM);
	enter("-");
	assert_int_equal(stage("x", 1, 1, &b), -KV_ENOMEM); /* of no tenant */
	close_store();
}

/* As many steps as it takes, and no more in one. */
static void a_large_value_clears_its_tenants_small_ones_in_steps(void **state)
{
	enum { MANY_OF = 3 * STORE_STEPS_AT_ONCE };
	struct room *r;
	struct block *b;
	unsigned budget, steps = 0;
	int rc;
	(void)state;
	open_store_with((struct store_options){.limit_bytes = 2 * MANY_OF * SMALL, .blocks_max = 4 * MANY_OF});
	tenancy_begin(&store, owner_by_letter, NULL);
	limit("a", 0, MANY_OF * SMALL);
	tenancy_end(&store, TIME);
	enter("a");
	for (unsigned i = 0; i < MANY_OF; i++)
		assert_non_null(put_nth(i, SMALL));
	rc = store_stage(&store, "big", 3, MANY_OF * SMALL, ARENA_LOW, &b, &r);
	while (rc == -EAGAIN) {
		uint64_t before = of("a")->evicted;
		budget = STORE_STEPS_AT_ONCE;
		rc = store_stage_step(&store, r, &budget);
		assert_true(of("a")->evicted - before <= STORE_STEPS_AT_ONCE);
		assert_true(of("a")->bytes <= MANY_OF * SMALL);
		steps++;
	}
	assert_int_equal(rc, 0);
	assert_true(steps >= 2);
	store_drop(&store, b);
	block_unref(&store, b);
	check_charges();
	close_store();
}

/* ---- whose blocks are evicted ---- */

static void the_tenant_furthest_above_its_share_loses(void **state)
{
	(void)state;
	open_three(100 * VALUE);
	limit("a", 50 * VALUE, UINT64_MAX);
	limit("b", 10 * VALUE, UINT64_MAX);
	enter("a");
	for (unsigned i = 0; i < 40; i++)
		assert_non_null(put_nth(i, VALUE));
	enter("b");
	for (unsigned i = 0; i < 35; i++)
		assert_non_null(put_nth(i, VALUE));
	enter("c");
	for (unsigned i = 0; i < 25; i++)
		assert_non_null(put_nth(i, VALUE));
	/* a is below its share, b and c are 25 above: the next one is c's, which is 26 above then. */
	assert_non_null(put_nth(25, VALUE));
	assert_int_equal(of("c")->evicted, 1);
	enter("a");
	for (unsigned i = 40; i < 50; i++)
		assert_non_null(put_nth(i, VALUE));
	assert_int_equal(of("a")->evicted, 0);
	assert_int_equal(of("b")->evicted + of("c")->evicted, 11);
	assert_in_range(of("b")->evicted, 5, 5);
	enter("b");
	for (unsigned i = 100; i < 150; i++)
		assert_non_null(put_nth(i, VALUE));
	assert_int_equal(of("a")->evicted, 0);
	assert_int_equal(of("a")->bytes, 50 * VALUE);
	check_charges();
	close_store();
}

/* A reader of values that others cannot displace, and a flood of new values. Deterministic: no times. */
static double hit_ratio(uint64_t memory, uint64_t share, const char *flood, unsigned flood_values, uint64_t seed)
{
	enum { KEYS = 600, ROUNDS = 40000 };
	struct kv_prng p, f;
	unsigned hits = 0, asked = 0, next = 0;
	struct block *b;
	kv_prng_seed(&p, seed);
	kv_prng_seed(&f, seed + 1);
	open_three(memory);
	limit("a", share, UINT64_MAX);
	limit("b", share, UINT64_MAX);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t x = kv_prng_below(&p, KEYS), y = kv_prng_below(&p, KEYS);
		char key[16];
		snprintf(key, sizeof(key), "a%llu", (unsigned long long)KV_MIN(x, y)); /* low numbers more often */
		enter("a");
		asked += i >= ROUNDS / 4;
		b = get(key, TIME);
		if (b)
			store_use(&store, b);
		hits += b && i >= ROUNDS / 4;
		if (!b)
			assert_non_null(put(key, VALUE, 1, TIME));
		for (unsigned n = 0; flood && n < flood_values; n++) {
			enter(flood);
			snprintf(key, sizeof(key), "f%u", next++);
			assert_non_null(put(key, VALUE / 2 + kv_prng_below(&f, VALUE / 2), 2, TIME));
		}
	}
	check_charges();
	close_store();
	return (double)hits / asked;
}

/* What may not go is above its tenant's share: its next value is refused, and nobody else's is evicted. */
static void blocks_in_use_are_not_paid_for_by_neighbours(void **state)
{
	enum { ALL = 64, PART = ALL / 2, CHARGE = 2 * VALUE };
	struct block *used[PART + 1] = {0}, *b;
	unsigned n = 0, refused = 0;
	(void)state;
	open_store_with((struct store_options){.limit_bytes = ALL * CHARGE, .blocks_max = ALL});
	tenancy_begin(&store, owner_by_letter, NULL);
	limit("a", (PART - 1) * CHARGE, UINT64_MAX);
	limit("b", PART * CHARGE, UINT64_MAX);
	tenancy_end(&store, TIME);
	enter("b");
	for (unsigned i = 0; i < PART; i++)
		assert_non_null(put_nth(i, VALUE));
	enter("a");
	for (; n < PART; n++) {
		used[n] = put_nth(100 + n, VALUE);
		assert_non_null(used[n]);
		block_ref(used[n]);
	}
	for (unsigned i = 0; i < 10; i++)
		refused += stage("more", 4, VALUE, &b) == -KV_ENOMEM;
	assert_int_equal(refused, 10);
	assert_int_equal(of("b")->evicted, 0);
	assert_int_equal(of("b")->bytes, PART * CHARGE);
	for (unsigned i = 0; i < n; i++)
		block_unref(&store, used[i]);
	assert_non_null(put_nth(200, VALUE)); /* its own leave again */
	check_charges();
	close_store();
}

/* The number of values is divided as the memory is: a tenant with tiny values is above its share before it has them
 * all. */
static void tiny_values_leave_a_neighbour_its_part_of_the_index(void **state)
{
	enum { COUNT = 2048, MEMORY = COUNT * VALUE, PART = COUNT / 2, FLOOD = 3 * COUNT };
	unsigned next = PART;
	(void)state;
	open_store_with((struct store_options){.limit_bytes = MEMORY, .blocks_max = COUNT});
	tenancy_begin(&store, owner_by_letter, NULL);
	limit("a", MEMORY / 2, UINT64_MAX);
	limit("b", MEMORY / 2, UINT64_MAX);
	tenancy_end(&store, TIME);
	for (unsigned round = 0; round < 2; round++) {
		enter("a");
		for (unsigned i = 0; i < FLOOD; i++)
			assert_non_null(put_nth(next++, 1));
		enter("b");
		for (unsigned i = 0; round == 0 && i < PART; i++)
			assert_non_null(put_nth(i, VALUE / 2));
		for (unsigned i = 0; i < PART; i++)
			assert_non_null(small(i));
		assert_int_equal(of("b")->evicted, 0);
	}
	assert_int_equal(of("a")->bytes, MEMORY / 2);
	check_charges();
	close_store();
}

/* Pins of tiny values count as the part of the index that they keep, and leave the others' shares to them. */
static void pins_leave_the_shares_of_others(void **state)
{
	enum { COUNT = 2048, MEMORY = COUNT * VALUE };
	struct pins a = {0}, b = {0};
	unsigned n = 0;
	(void)state;
	open_store_with((struct store_options){.limit_bytes = MEMORY, .blocks_max = COUNT});
	tenancy_begin(&store, owner_by_letter, NULL);
	limit("a", 0, UINT64_MAX);
	limit("b", MEMORY / 2, UINT64_MAX);
	tenancy_end(&store, TIME);
	a.tenant = of("a");
	b.tenant = of("b");
	enter("a");
	while (pins_add(&store, &a, put_nth(n, 1), UINT64_MAX, UINT64_MAX) == 0)
		n++;
	assert_int_equal(n, COUNT / 4); /* half of what is in nobody's share */
	assert_int_equal(of("a")->kept[KEPT_PINS], MEMORY / 4);
	enter("b");
	for (n = 0; n < COUNT / 2; n++)
		assert_non_null(put_nth(n, VALUE / 2));
	assert_int_equal(of("b")->bytes, MEMORY / 2);
	for (n = 0; n < COUNT / 4; n++)
		assert_int_equal(pins_add(&store, &b, small(n), UINT64_MAX, UINT64_MAX), 0);
	assert_int_equal(pins_add(&store, &b, small(n), UINT64_MAX, UINT64_MAX), -KV_EBUSY);
	limit("b", MEMORY / 4, UINT64_MAX); /* what it has beyond this is of the common part now, which is full */
	assert_int_equal(store.tenancy.beyond[KEPT_PINS], MEMORY / 4 + MEMORY / 8);
	pins_leave(&store, &b);
	pins_drop_all(&store);
	assert_int_equal(of("b")->kept[KEPT_ALL], 0);
	enter("a");
	for (n = COUNT / 4 + 1; n <= COUNT / 4 + COUNT / 8; n++)
		assert_int_equal(pins_add(&store, &a, put_nth(n, 1), UINT64_MAX, UINT64_MAX), 0);
	assert_int_equal(pins_add(&store, &a, put_nth(n, 1), UINT64_MAX, UINT64_MAX), -KV_EBUSY);
	pins_leave(&store, &a);
	pins_drop_all(&store);
	assert_int_equal(store.tenancy.beyond[KEPT_ALL], 0);
	check_charges();
	close_store();
}

/* Whatever one tenant stages and pins, another has its own part for either. */
static void stages_and_pins_leave_a_neighbour_its_own(void **state)
{
	enum { PARTS = 64 };
	const uint64_t part = LIMIT / PARTS;
	(void)state;
	for (enum tenant_kept k = KEPT_PINS; k <= KEPT_STAGES; k++) {
		struct tenancy *y = &store.tenancy;
		struct tenant *a, *b;
		uint64_t n = 0;
		open_three(LIMIT);
		limit("a", LIMIT / 2, UINT64_MAX);
		limit("b", LIMIT / 2, UINT64_MAX);
		a = of("a");
		b = of("b");
		while (tenant_may_keep(&store, b, KEPT_STAGES, part))
			tenant_keep(y, b, KEPT_STAGES, part);
		while (tenant_may_keep(&store, b, KEPT_PINS, part))
			tenant_keep(y, b, KEPT_PINS, part);
		assert_int_equal(b->kept[KEPT_STAGES], 36 * part); /* 12 of its own, and 24 of nobody's */
		assert_int_equal(b->kept[KEPT_PINS], 4 * part);
		for (; tenant_may_keep(&store, a, k, part); n++)
			tenant_keep(y, a, k, part);
		assert_int_equal(n * part, kept_own(k, LIMIT / 2));
		for (; tenant_may_keep(&store, a, KEPT_PINS, part); n++)
			tenant_keep(y, a, KEPT_PINS, part);
		assert_int_equal(n * part, kept_own(KEPT_ALL, LIMIT / 2));
		assert_int_equal(a->kept[KEPT_ALL] + b->kept[KEPT_ALL], kept_part(KEPT_ALL, LIMIT));
		for (enum tenant_kept each = KEPT_PINS; each <= KEPT_STAGES; each++) {
			tenant_release(y, a, each, a->kept[each]);
			tenant_release(y, b, each, b->kept[each]);
		}
		assert_int_equal(y->beyond[KEPT_ALL], 0);
		close_store();
	}
}

static void a_flood_leaves_a_neighbour_its_hits(void **state)
{
	struct kv_prng p = check_seed();
	uint64_t seed = kv_prng_next(&p);
	double alone = hit_ratio(256 * VALUE, 0, NULL, 0, seed),
	       beside = hit_ratio(512 * VALUE, 256 * VALUE, "b", 3, seed),
	       unprotected = hit_ratio(256 * VALUE, 0, "a flood of its own", 3, seed);
	(void)state;
	printf("# hits alone %.4f, beside a flood %.4f, in a flood %.4f\n", alone, beside, unprotected);
	assert_true(beside >= alone - 0.01);
	assert_true(alone > 0.3 && unprotected < alone - 0.1); /* the test can fail */
}

/* ---- namespaces ---- */

static int take_nth(char letter, unsigned i, struct space **out)
{
	char text[16];
	snprintf(text, sizeof(text), "%c%u", letter, i);
	return tenancy_space_take(&store, text, TIME + i, out);
}

/* Whoever begins namespaces without end takes places of its own. */
static void each_tenant_has_its_part_of_the_namespaces(void **state)
{
	enum { PART = SPACES_MAX / 4 };
	struct space *sp, *last = NULL;
	(void)state;
	open_three(LIMIT);
	for (unsigned i = 0; i < PART; i++) {
		assert_int_equal(take_nth('a', i, &sp), 0);
		sp->users++;
		last = sp;
	}
	assert_int_equal(take_nth('a', PART, &sp), -KV_EFULL);
	assert_int_equal(take_nth('a', 0, &sp), 0); /* it is there */
	for (unsigned i = 0; i < PART; i++)
		assert_int_equal(take_nth('b', i, &sp), 0);
	assert_int_equal(take_nth('a', PART, &sp), -KV_EFULL); /* those of b are not used, and stay */
	last->users--;
	assert_int_equal(take_nth('a', PART, &sp), 0);
	assert_ptr_equal(sp, last);
	assert_int_equal(of("a")->spaces, PART);
	assert_int_equal(of("b")->spaces, PART);
	assert_int_equal(take_nth('b', PART, &sp), 0); /* in the place of its oldest */
	assert_int_equal(of("b")->spaces, PART);
	assert_null(space_find(&store.spaces, "b0"));
	close_store();
}

/* ---- the end of a tenant ---- */

static void a_removed_tenant_is_freed_in_steps_and_forgotten(void **state)
{
	struct block *read;
	unsigned sweeps = 0;
	(void)state;
	open_three(LIMIT);
	enter("a1");
	for (unsigned i = 0; i < 600; i++)
		assert_non_null(put_nth(i, VALUE));
	read = put_nth(0, VALUE) ? put_nth(0, VALUE) : small(0);
	assert_non_null(read);
	block_ref(read);
	enter("b");
	for (unsigned i = 0; i < 100; i++)
		assert_non_null(put_nth(i, VALUE));
	tenancy_begin(&store, owner_by_letter, NULL);
	limit("b", 0, UINT64_MAX);
	tenancy_end(&store, TIME);
	enter("a1");
	assert_null(get("0", TIME));
	while (store_cleared_sweep(&store, 100)) {
		sweeps++;
		(void)tenancy_step(&store, 100);
	}
	assert_true(sweeps >= 3);
	assert_int_equal(of("a")->bytes, VALUE); /* somebody reads it */
	block_unref(&store, read);
	(void)tenancy_step(&store, 100);
	(void)tenancy_step(&store, 100);
	assert_null(tenant_find(&store, "a"));
	assert_null(tenant_find(&store, "c"));
	assert_int_equal(of("b")->bytes, 100 * VALUE);
	assert_int_equal(store.spaces.at[1]->tenant == &store.tenancy.none, 1);
	check_charges();
	close_store();
}

static const char *owner_is_b(void *arg, const char *space)
{
	(void)arg;
	return space[0] ? "b" : NULL;
}

static void a_namespace_moves_when_its_blocks_are_gone(void **state)
{
	(void)state;
	open_three(LIMIT);
	enter("a1");
	assert_non_null(put_nth(0, VALUE));
	enter("a2");
	tenancy_begin(&store, owner_is_b, NULL);
	limit("b", 0, UINT64_MAX);
	tenancy_end(&store, TIME);
	assert_string_equal(space_find(&store.spaces, "a1")->tenant->name, "a");
	assert_string_equal(space_find(&store.spaces, "a2")->tenant->name, "b"); /* it had none */
	while (store_cleared_sweep(&store, 100))
		continue;
	(void)tenancy_step(&store, 100);
	assert_string_equal(space_find(&store.spaces, "a1")->tenant->name, "b");
	enter("a1");
	assert_null(get("0", TIME));
	assert_non_null(put_nth(0, VALUE));
	assert_int_equal(of("b")->bytes, VALUE);
	check_charges();
	close_store();
}

static void a_lower_cap_is_reached_in_steps(void **state)
{
	(void)state;
	open_three(LIMIT);
	enter("a");
	for (unsigned i = 0; i < 500; i++)
		assert_non_null(put_nth(i, VALUE));
	limit("a", 0, 100 * VALUE);
	assert_true(tenancy_step(&store, 100));
	assert_int_equal(of("a")->bytes, 400 * VALUE);
	while (tenancy_step(&store, 100))
		continue;
	assert_int_equal(of("a")->bytes, 100 * VALUE);
	check_charges();
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cap_is_not_exceeded_by_a_byte),
		cmocka_unit_test(a_value_beyond_the_cap_is_refused),
		cmocka_unit_test(a_large_value_clears_its_tenants_small_ones_in_steps),
		cmocka_unit_test(the_tenant_furthest_above_its_share_loses),
		cmocka_unit_test(blocks_in_use_are_not_paid_for_by_neighbours),
		cmocka_unit_test(tiny_values_leave_a_neighbour_its_part_of_the_index),
		cmocka_unit_test(pins_leave_the_shares_of_others),
		cmocka_unit_test(stages_and_pins_leave_a_neighbour_its_own),
		cmocka_unit_test(a_flood_leaves_a_neighbour_its_hits),
		cmocka_unit_test(each_tenant_has_its_part_of_the_namespaces),
		cmocka_unit_test(a_removed_tenant_is_freed_in_steps_and_forgotten),
		cmocka_unit_test(a_namespace_moves_when_its_blocks_are_gone),
		cmocka_unit_test(a_lower_cap_is_reached_in_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
