/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier.c -- a tier on devices in memory: right bytes or a miss, whatever the devices do, and after a crash. */
#include "tests/store/tier_rig.h"
#include "store/tier/private.h"

#include <errno.h>

enum { MEMORY = 1 << 20, LEN = 20000, DEVICE = 16 << 20 };

static struct tier_rig rig;

static const char *key_of(unsigned i)
{
	static char key[16];
	snprintf(key, sizeof(key), "key-%u", i);
	return key;
}

static void put_all(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		assert_true(tier_rig_put(&rig, key_of(i), LEN, i, 0));
		for (unsigned k = 0; k < 5; k++)
			tier_rig_step(&rig);
	}
}

static void open_ready(unsigned devices)
{
	tier_rig_open(&rig, devices, DEVICE, MEMORY);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_false(tier_reading(rig.tier));
}

static void values_that_left_memory_are_read(void **state)
{
	struct tier_totals totals;
	(void)state;
	open_ready(2);
	put_all(0, 300);
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(tier_rig_get(&rig, key_of(i)), i);
	assert_int_equal(tier_rig_get(&rig, "absent"), -1);
	tier_totals(rig.tier, &totals);
	assert_int_equal(totals.lost, 0);
	assert_true(totals.hits >= 200);
	tier_rig_close(&rig);
}

static void values_of_many_pieces_are_read(void **state)
{
	(void)state;
	tier_rig_open(&rig, 1, 32 << 20, 8 << 20);
	rig.options.segment_bytes = 4 << 20;
	rig.fake[0].short_of = 3;
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	for (unsigned i = 0; i < 12; i++) {
		assert_true(tier_rig_put(&rig, key_of(i), (900 << 10) + i, i, 0));
		tier_rig_settle(&rig);
	}
	for (unsigned i = 0; i < 12; i++)
		assert_int_equal(tier_rig_get(&rig, key_of(i)), i);
	tier_rig_close(&rig);
}

static void values_survive_a_restart(void **state)
{
	unsigned found = 0;
	(void)state;
	open_ready(2);
	put_all(0, 400);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_settle(&rig);
	assert_true(tier_flushed(rig.tier));
	tier_rig_stop(&rig, false);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	for (unsigned i = 0; i < 400; i++) {
		int64_t got = tier_rig_get(&rig, key_of(i));
		assert_true(got == -1 || got == i);
		found += got >= 0;
	}
	assert_true(found >= 340);
	tier_rig_close(&rig);
}

static void deleted_and_expired_values_stay_away(void **state)
{
	(void)state;
	open_ready(1);
	assert_true(tier_rig_put(&rig, "short", LEN, 7777, 3600 * SECOND));
	put_all(0, 300);
	assert_true(tier_rig_delete(&rig, key_of(3), true));
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_settle(&rig);
	assert_true(tier_rig_delete(&rig, key_of(4), true));
	assert_int_equal(tier_rig_get(&rig, key_of(3)), -1);
	assert_int_equal(tier_rig_get(&rig, key_of(4)), -1);
	assert_int_equal(tier_rig_get(&rig, "short"), 7777);
	tier_rig_stop(&rig, true);
	rig.wall_us += 3601ull * 1000000;
	tier_rig_start(&rig);
	assert_true(tier_rig_delete(&rig, key_of(5), true)); /* before its footer was read */
	tier_rig_settle(&rig);
	for (unsigned i = 3; i < 6; i++)
		assert_int_equal(tier_rig_get(&rig, key_of(i)), -1);
	assert_int_equal(tier_rig_get(&rig, "short"), -1);
	assert_int_equal(tier_rig_get(&rig, key_of(6)), 6);
	tier_rig_close(&rig);
}

static unsigned ends;

static void count_end(struct tier_wait *w, enum tier_end how)
{
	(void)w;
	ends += how == TIER_HERE;
}

/* ---- namespaces ---- */

static void a_key_has_a_value_in_each_namespace(void **state)
{
	static const char *const names[] = {"", "a", "b"};
	(void)state;
	open_ready(2);
	for (unsigned n = 0; n < 3; n++) {
		tier_rig_space(&rig, names[n]);
		put_all(0, 100 - 10 * n); /* the later ones lack some keys of the others */
	}
	for (unsigned life = 0; life < 2; life++) {
		for (unsigned n = 0; n < 3; n++) {
			tier_rig_space(&rig, names[n]);
			for (unsigned i = 0; i < 100; i++) {
				int64_t got = tier_rig_get(&rig, key_of(i));
				assert_true(got == -1 ? life || i >= 100 - 10 * n : i < 100 - 10 * n);
			}
		}
		tier_rig_stop(&rig, false);
		tier_rig_start(&rig);
		tier_rig_settle(&rig);
	}
	tier_rig_close(&rig);
}

static unsigned found_of(const char *space, unsigned from, unsigned to)
{
	unsigned found = 0;
	tier_rig_space(&rig, space);
	for (unsigned i = from; i < to; i++) {
		int64_t got = tier_rig_get(&rig, key_of(i));
		assert_true(got == -1 || got == i);
		found += got >= 0;
	}
	return found;
}

static void a_cleared_namespace_stays_empty(void **state)
{
	struct tier_totals totals;
	uint64_t generation;
	(void)state;
	open_ready(2);
	put_all(0, 100);
	tier_rig_space(&rig, "a");
	put_all(0, 200);
	assert_int_equal(found_of("a", 0, 200), 200);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_settle(&rig);
	assert_true(tier_rig_clear(&rig, true));
	generation = store.space->generation;
	assert_true(generation > 0);
	assert_false(tier_has(rig.tier, store_hash(&store, key_of(1), strlen(key_of(1))), rig.now_ns));
	tier_rig_settle(&rig);
	tier_totals(rig.tier, &totals);
	assert_true(totals.records <= 100); /* index entries went in steps */
	tier_rig_stop(&rig, true);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_int_equal(found_of("a", 0, 200), 0);
	assert_int_equal(store.space->generation, generation);
	assert_true(found_of("", 0, 100) > 50);
	tier_rig_close(&rig);
}

static const char *owner_by_name(void *arg, const char *space)
{
	(void)arg;
	return space[0] ? space : NULL;
}

/* Bytes of live records of the present namespace. */
static uint64_t tier_bytes_of_space(void)
{
	const struct tier_records *t = &rig.tier->records;
	uint64_t bytes = 0;
	for (uint32_t i = 1; i <= t->made; i++)
		if (t->item[i].len && !t->item[i].dead && t->item[i].space == store.space->index &&
		    t->item[i].age == (store.space->generation & 15))
			bytes += t->item[i].len;
	return bytes;
}

static void a_tenant_has_its_part_of_the_tier_and_no_more(void **state)
{
	struct tenant_part all = {0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}, some = all;
	const struct tenant *t;
	(void)state;
	open_ready(2);
	some.tier = 40000;
	tenancy_begin(&store, owner_by_name, NULL);
	assert_int_equal(tenant_set(&store, "a", &some), 0);
	assert_int_equal(tenant_set(&store, "b", &all), 0);
	tenancy_end(&store, rig.now_ns);
	t = tenant_find(&store, "a");
	for (unsigned round = 0; round < 3; round++) {
		tier_rig_space(&rig, "a");
		put_all(round * 200, round * 200 + 200);
		tier_flush(rig.tier, rig.now_ns);
		tier_rig_settle(&rig);
		assert_int_equal(t->tier_bytes, tier_bytes_of_space());
		assert_in_range(t->tier_bytes, 1, some.tier);
		(void)tier_rig_delete(&rig, key_of(round * 200), true);
		assert_int_equal(t->tier_bytes, tier_bytes_of_space());
	}
	assert_true(tier_rig_clear(&rig, true));
	assert_int_equal(t->tier_bytes, 0);
	tier_rig_settle(&rig);
	assert_int_equal(t->tier_bytes, 0);
	tier_rig_close(&rig);
}

/* The charge of live records of the present namespace: each has its length, or its part of the index. */
static uint64_t tier_charge_of_space(void)
{
	const struct tier_records *t = &rig.tier->records;
	uint64_t charge = 0;
	for (uint32_t i = 1; i <= t->made; i++)
		if (t->item[i].len && !t->item[i].dead && t->item[i].space == store.space->index)
			charge += KV_MAX((uint64_t)t->item[i].len, rig.tier->value_part);
	return charge;
}

/* Values of a few bytes take places of the index, and count as these, also among large values. */
static void tiny_values_count_as_places_of_the_tier(void **state)
{
	enum { FIT = 20, WRITTEN = 200, TINY = 16 };
	struct tenant_part some = {0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
	const struct tenant *t;
	uint64_t large;
	(void)state;
	for (unsigned mixed = 0; mixed < 2; mixed++) {
		open_ready(1);
		large = mixed ? 2 * rig.tier->value_part : TINY;
		some.tier = FIT * rig.tier->value_part;
		assert_true(some.tier > (uint64_t)WRITTEN * TINY);
		tenancy_begin(&store, owner_by_name, NULL);
		assert_int_equal(tenant_set(&store, "a", &some), 0);
		tenancy_end(&store, rig.now_ns);
		t = tenant_find(&store, "a");
		tier_rig_space(&rig, "a");
		for (unsigned i = 0; i < WRITTEN; i++) {
			assert_true(tier_rig_put(&rig, key_of(i), i % 2 ? large : TINY, i, 0));
			assert_int_equal(tier_rig_get(&rig, key_of(i)),
					 i); /* a flush writes values that were asked for */
		}
		tier_flush(rig.tier, rig.now_ns);
		tier_rig_settle(&rig);
		assert_int_equal(t->tier_charged, some.tier);
		assert_int_equal(t->tier_charged, tier_charge_of_space());
		assert_int_equal(t->tier_bytes, tier_bytes_of_space());
		assert_true(tier_rig_clear(&rig, true));
		assert_int_equal(t->tier_charged, 0);
		tier_rig_close(&rig);
	}
}

static void a_clear_waits_for_its_device(void **state)
{
	(void)state;
	open_ready(1);
	tier_rig_space(&rig, "a");
	put_all(0, 100);
	rig.fake[0].stuck = true;
	assert_false(tier_rig_clear(&rig, false));
	assert_int_equal(found_of("a", 0, 100), 0);
	rig.fake[0].stuck = false;
	assert_true(tier_rig_clear(&rig, true));
	tier_rig_close(&rig);
}

/* The value of the new generation is found, also when it was read back and the drives are restarted. */
static void values_of_a_new_generation_come_back(void **state)
{
	(void)state;
	open_ready(1);
	tier_rig_space(&rig, "a");
	put_all(0, 100);
	assert_true(tier_rig_clear(&rig, true));
	put_all(50, 150);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_settle(&rig);
	for (unsigned life = 0; life < 3; life++) {
		tier_rig_stop(&rig, life % 2);
		rig.now_ns = SECOND; /* another machine's clock */
		tier_rig_start(&rig);
		tier_rig_settle(&rig);
		assert_int_equal(found_of("a", 0, 50), 0);
		assert_true(found_of("a", 50, 150) > 30);
	}
	tier_rig_close(&rig);
}

static void a_clear_ends_reads_under_way(void **state)
{
	struct tier_wait w = {.end = count_end};
	unsigned was = ends;
	(void)state;
	open_ready(1);
	tier_rig_space(&rig, "a");
	put_all(0, 200);
	assert_int_equal(tier_get(rig.tier, key_of(1), strlen(key_of(1)), KV_NEVER, rig.now_ns, &w), 0);
	(void)tier_rig_clear(&rig, false);
	tier_rig_space(&rig, "");
	tier_rig_settle(&rig);
	assert_null(w.get);
	assert_int_equal(ends, was);
	assert_int_equal(found_of("a", 1, 2), 0);
	tier_rig_close(&rig);
}

/* A clear before the table was read is later than all that the table has. */
static void a_clear_while_footers_are_read(void **state)
{
	(void)state;
	open_ready(2);
	tier_rig_space(&rig, "a");
	for (unsigned i = 0; i < 5; i++)
		assert_true(tier_rig_clear(&rig, true));
	put_all(0, 200);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_stop(&rig, false);
	tier_rig_start(&rig);
	tier_rig_space(&rig, "a");
	assert_true(tier_rig_clear(&rig, true));
	tier_rig_settle(&rig);
	assert_int_equal(found_of("a", 0, 200), 0);
	assert_true(store.space->generation > 5);
	tier_rig_stop(&rig, true);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_int_equal(found_of("a", 0, 200), 0);
	tier_rig_close(&rig);
}

/* The key's generation rises when the table is read; the deletion counts all the same. */
static void a_deletion_before_the_tables_are_read(void **state)
{
	(void)state;
	open_ready(1);
	tier_rig_space(&rig, "a");
	assert_true(tier_rig_clear(&rig, true));
	put_all(0, 200);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_stop(&rig, false);
	tier_rig_start(&rig);
	tier_rig_space(&rig, "a");
	assert_true(tier_rig_delete(&rig, key_of(5), true));
	tier_rig_settle(&rig);
	assert_int_equal(found_of("a", 5, 6), 0);
	assert_int_equal(found_of("a", 6, 7), 1);
	tier_rig_close(&rig);
}

static void a_clear_that_a_device_misses_is_reported(void **state)
{
	(void)state;
	open_ready(2);
	tier_rig_space(&rig, "a");
	put_all(0, 200);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_settle(&rig);
	rig.fake[0].gone = true;
	assert_false(tier_rig_clear(&rig, true));
	assert_int_equal(found_of("a", 0, 200), 0);
	rig.fake[0].gone = false;
	for (unsigned i = 0; i < 4000; i++)
		tier_rig_step(&rig);
	assert_int_equal(found_of("a", 0, 200), 0);
	tier_rig_stop(&rig, true);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_int_equal(found_of("a", 0, 200), 0);
	tier_rig_close(&rig);
}

/* More namespaces than there are places: those forgotten do not come back with old values. */
static void forgotten_namespaces_stay_empty(void **state)
{
	char name[16];
	(void)state;
	open_ready(1);
	tier_rig_space(&rig, "old");
	put_all(0, 150);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_settle(&rig);
	store_delete_block(&store, store_peek(&store, key_of(149), strlen(key_of(149))), rig.now_ns);
	for (unsigned i = 0; i < 2 * SPACES_MAX; i++) {
		struct space *sp;
		snprintf(name, sizeof(name), "space-%u", i);
		if (space_find(&store.spaces, "old"))
			rig.now_ns++;
		assert_int_equal(space_take(&store.spaces, name, rig.now_ns, &sp), 0);
	}
	tier_rig_settle(&rig);
	tier_rig_stop(&rig, true);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_int_equal(store.spaces.count, SPACES_MAX);
	tier_rig_close(&rig);
}

static void a_damaged_table_leaves_an_empty_tier(void **state)
{
	(void)state;
	open_ready(1);
	put_all(0, 200);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_stop(&rig, false);
	memset(rig.fake[0].disk + TIER_PAGE, 7, TIER_FRONT_BYTES - TIER_PAGE);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_int_equal(found_of("", 0, 200), 0);
	put_all(0, 200);
	assert_int_equal(found_of("", 0, 200), 200);
	tier_rig_close(&rig);
}

/* ---- random ---- */

enum { KEYS = 120, STEPS = 4000, PUTS = 500 };

struct model {
	uint32_t
		since[PUTS]; /* seeds put since the last deletion that holds: an older one may return with its device */
	unsigned count;
} model[KEYS];

static bool allowed(const struct model *m, int64_t got)
{
	for (unsigned i = 0; i < m->count; i++)
		if (m->since[i] == got)
			return true;
	return got == -1;
}

static void act(uint32_t seed)
{
	unsigned i = (unsigned)kv_prng_below(&rig.prng, KEYS);
	struct model *m = &model[i];
	uint64_t kind = kv_prng_below(&rig.prng, 100);
	tier_rig_space(&rig, i % 2 ? "odd" : "");
	if (kind < 40) {
		if (tier_rig_put(&rig, key_of(i), 4 + kv_prng_below(&rig.prng, 60000), seed, 0) && m->count < PUTS)
			m->since[m->count++] = seed;
	} else if (kind < 90) {
		int64_t got = tier_rig_get(&rig, key_of(i));
		if (!allowed(m, got))
			fail_msg("key %u: %lld is none of its values", i, (long long)got);
	} else if (kind >= 99 && kv_prng_below(&rig.prng, 10) == 0) {
		if (tier_rig_clear(&rig, true))
			for (unsigned k = i % 2; k < KEYS; k += 2)
				model[k].count = 0;
	} else if (kind < 97 && tier_rig_delete(&rig, key_of(i), kv_prng_below(&rig.prng, 4) > 0)) {
		m->count = 0;
	}
}

static void random_life(unsigned devices, unsigned short_of, unsigned fail_of)
{
	tier_rig_open(&rig, devices, 8 << 20, MEMORY);
	memset(model, 0, sizeof(model));
	for (unsigned life = 0; life < 6; life++) {
		tier_rig_start(&rig);
		for (unsigned i = 0; i < devices; i++) {
			rig.fake[i].short_of = short_of;
			rig.fake[i].fail_of = life ? fail_of : 0;
		}
		for (uint32_t i = 0; i < STEPS; i++) {
			act(life * STEPS + i + 1);
			tier_rig_step(&rig);
		}
		check_store();
		tier_rig_stop(&rig, life % 2 == 0);
	}
	tier_rig_start(&rig);
	tier_rig_close(&rig);
}

static void crashes_leave_right_bytes_or_misses(void **state)
{
	(void)state;
	random_life(2, 0, 0);
}

static void short_transfers_change_nothing(void **state)
{
	(void)state;
	random_life(1, 5, 0);
}

/* Some transfers fail: the device goes down and comes back, again and again. */
static void failing_transfers_are_misses(void **state)
{
	(void)state;
	random_life(2, 20, 50);
}

static void a_device_that_is_gone_is_a_missing_tier(void **state)
{
	struct tier_stats stats;
	(void)state;
	open_ready(1);
	put_all(0, 300);
	assert_int_equal(tier_rig_get(&rig, key_of(1)), 1);
	rig.fake[0].gone = true;
	for (unsigned i = 2; i < 30; i++) {
		int64_t got = tier_rig_get(&rig, key_of(i));
		assert_true(got == -1 || got == i);
	}
	tier_stats(rig.tier, 0, &stats);
	assert_int_equal(stats.state, TIER_DOWN);
	put_all(300, 400); /* memory works on */
	assert_int_equal(tier_rig_get(&rig, key_of(399)), 399);
	rig.fake[0].gone = false;
	rig.now_ns += 100 * SECOND;
	tier_rig_settle(&rig);
	tier_stats(rig.tier, 0, &stats);
	assert_int_equal(stats.state, TIER_UP);
	assert_int_equal(stats.downs, 1);
	assert_int_equal(tier_rig_get(&rig, key_of(5)), 5);
	tier_rig_close(&rig);
}

static void a_device_that_stalls_is_left_and_taken_back(void **state)
{
	struct tier_stats stats;
	int64_t got;
	(void)state;
	open_ready(1);
	put_all(0, 300);
	rig.fake[0].stuck = true;
	got = tier_rig_get(&rig, key_of(1)); /* ends when the device is down: 5 s */
	assert_int_equal(got, -1);
	tier_stats(rig.tier, 0, &stats);
	assert_int_equal(stats.state, TIER_DOWN);
	assert_false(tier_rig_delete(&rig, key_of(2), true)); /* nobody waits for it, and it is not safe yet */
	rig.fake[0].stuck = false;
	rig.now_ns += 100 * SECOND;
	tier_rig_settle(&rig);
	tier_stats(rig.tier, 0, &stats);
	assert_int_equal(stats.state, TIER_UP);
	assert_int_equal(tier_rig_get(&rig, key_of(2)), -1);
	assert_int_equal(tier_rig_get(&rig, key_of(3)), 3);
	tier_rig_stop(&rig, true);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_int_equal(tier_rig_get(&rig, key_of(2)), -1);
	tier_rig_close(&rig);
}

static void another_device_behind_the_same_name_is_empty(void **state)
{
	(void)state;
	open_ready(1);
	put_all(0, 300);
	rig.fake[0].gone = true;
	(void)tier_rig_get(&rig, key_of(1));
	(void)tier_rig_get(&rig, key_of(2));
	for (unsigned i = 3; i < 20; i++)
		(void)tier_rig_get(&rig, key_of(i));
	memset(rig.fake[0].disk, 0, DEVICE);
	rig.fake[0].gone = false;
	rig.now_ns += 100 * SECOND;
	tier_rig_settle(&rig);
	for (unsigned i = 20; i < 200; i++)
		assert_int_equal(tier_rig_get(&rig, key_of(i)), -1);
	put_all(400, 600);
	assert_int_equal(tier_rig_get(&rig, key_of(401)), 401);
	tier_rig_close(&rig);
}

/* A GET that was accepted before that is known ends as a miss, and leaves nothing that keeps a segment from its reuse.
 */
static void a_get_of_a_device_that_was_wiped_ends(void **state)
{
	struct tier_wait w = {.end = count_end};
	struct tier_stats stats;
	(void)state;
	open_ready(1);
	put_all(0, 300);
	rig.fake[0].gone = true;
	for (unsigned i = 1; i < 20; i++)
		(void)tier_rig_get(&rig, key_of(i));
	memset(rig.fake[0].disk, 0, DEVICE);
	rig.fake[0].gone = false;
	rig.fake[0].stuck = true; /* it reads its superblock */
	rig.now_ns += 100 * SECOND;
	do {
		tier_rig_step(&rig);
		tier_stats(rig.tier, 0, &stats);
	} while (stats.state != TIER_READING);
	assert_int_equal(tier_get(rig.tier, "key-30", 6, KV_NEVER, rig.now_ns, &w), 0);
	rig.fake[0].stuck = false;
	tier_rig_settle(&rig);
	assert_null(w.get);
	put_all(1000, 3000); /* more than the device holds */
	tier_stats(rig.tier, 0, &stats);
	assert_in_range(stats.values_written, 1800, 3000);
	tier_rig_close(&rig);
}

/* However slow the device: each value with hits is written. */
static void a_flush_leaves_no_value_with_hits(void **state)
{
	enum { VALUES = 100, LARGE = 100000 };
	(void)state;
	tier_rig_open(&rig, 1, 64 << 20, 12 << 20);
	rig.options.segment_bytes = 4 << 20;
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	for (unsigned i = 0; i < VALUES; i++) {
		assert_true(tier_rig_put(&rig, key_of(i), LARGE, i, 0));
		assert_int_equal(tier_rig_get(&rig, key_of(i)), i);
		assert_int_equal(tier_rig_get(&rig, key_of(i)), i);
	}
	assert_true(tier_rig_put(&rig, "cold", LARGE, 7, 0));
	tier_flush(rig.tier, rig.now_ns);
	rig.fake[0].stuck = true;
	for (unsigned i = 0; i < 300; i++)
		tier_rig_step(&rig);
	rig.fake[0].stuck = false;
	tier_rig_settle(&rig);
	assert_true(tier_flushed(rig.tier));
	tier_rig_stop(&rig, false);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	for (unsigned i = 0; i < VALUES; i++)
		assert_int_equal(tier_rig_get(&rig, key_of(i)), i);
	tier_rig_close(&rig);
}

/* A server with a dead drive ends as one without. */
static void a_flush_does_not_wait_for_a_device_that_is_down(void **state)
{
	(void)state;
	open_ready(1);
	put_all(0, 300);
	rig.fake[0].gone = true;
	for (unsigned i = 1; i < 20; i++)
		(void)tier_rig_get(&rig, key_of(i));
	for (unsigned i = 290; i < 300; i++)
		for (unsigned k = 0; k < 3; k++)
			assert_int_equal(tier_rig_get(&rig, key_of(i)), i); /* hits: worth a flush */
	for (unsigned i = 0; i < 40; i++)
		for (unsigned k = 0; k < 3; k++)
			(void)tier_rig_get(&rig, key_of(i + 260));
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_settle(&rig);
	assert_true(tier_flushed(rig.tier));
	tier_rig_close(&rig);
}

static unsigned damaged_lines;

static void count_line(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	damaged_lines += strstr(line, "is damaged") != NULL;
}

static void a_device_that_forgets_does_not_fill_the_log(void **state)
{
	static const struct kv_log log = {.level = KV_LOG_WARN, .write = count_line};
	struct tier_stats stats;
	(void)state;
	tier_rig_open(&rig, 1, DEVICE, MEMORY);
	rig.options.log = &log;
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	put_all(0, 300);
	tier_rig_settle(&rig);
	memset(rig.fake[0].disk + TIER_FRONT_BYTES, 0xAA, DEVICE - TIER_FRONT_BYTES);
	damaged_lines = 0;
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(tier_rig_get(&rig, key_of(i)), -1);
	tier_stats(rig.tier, 0, &stats);
	assert_in_range(stats.damaged, 150, 200);
	assert_in_range(damaged_lines, 1, 20);
	tier_rig_close(&rig);
}

/* One read serves all who wait. */
static void readers_of_a_key_share_its_read(void **state)
{
	struct tier_wait w[3] = {{.get = NULL}, {.get = NULL}, {.get = NULL}};
	struct tier_totals totals;
	(void)state;
	open_ready(1);
	put_all(0, 200);
	for (unsigned i = 0; i < 3; i++) {
		w[i].end = count_end;
		assert_int_equal(tier_get(rig.tier, "key-1", 5, KV_NEVER, rig.now_ns, &w[i]), 0);
	}
	tier_get_cancel(rig.tier, &w[1]);
	ends = 0;
	tier_rig_settle(&rig);
	assert_int_equal(ends, 2);
	tier_totals(rig.tier, &totals);
	assert_int_equal(totals.shared, 2);
	assert_int_equal(totals.hits, 1);
	tier_rig_close(&rig);
}

/* A value that is to be written, and is not, is admitted the next time as well. */
static void a_second_chance_is_not_used_up_by_a_look(void **state)
{
	struct tier_totals first, second;
	(void)state;
	tier_rig_open(&rig, 1, DEVICE, MEMORY);
	rig.options.admit = TIER_ADMIT_SECOND;
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	put_all(0, 400);
	tier_totals(rig.tier, &first);
	assert_true(first.refused > 300);
	rig.fake[0].stuck = true; /* the buffers fill */
	put_all(0, 330);
	tier_totals(rig.tier, &second);
	assert_true(second.lost > 50);
	assert_int_equal(second.refused - first.refused, 400 - first.refused); /* those of the end of the first round */
	tier_rig_close(&rig);
}

/* What other servers deleted while this one was away does not come back, also after a restart. */
static void missed_deletions_are_made_up_for(void **state)
{
	struct verdict v = {.time_ns = 1};
	(void)state;
	open_ready(1);
	v.id = store_id(&store, "key-9", 5);
	put_all(0, 200);
	store_doubt(&store, rig.now_ns);
	assert_int_equal(tier_rig_get(&rig, key_of(8)), -1);
	assert_false(tier_has(rig.tier, index_hash(&store.index, "key-8", 5), rig.now_ns));
	store_judge(&store, &v, 1);
	tier_judge(rig.tier, &v, 1);
	tier_rig_settle(&rig);
	assert_int_equal(tier_rig_get(&rig, key_of(8)), 8);
	assert_int_equal(tier_rig_get(&rig, key_of(9)), -1);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_stop(&rig, false);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_int_equal(tier_rig_get(&rig, key_of(8)), 8);
	assert_int_equal(tier_rig_get(&rig, key_of(9)), -1);
	store_doubt(&store, rig.now_ns);
	store_judge(&store, NULL, 0);
	tier_judge(rig.tier, NULL, 0);
	tier_rig_settle(&rig);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(tier_rig_get(&rig, key_of(i)), -1);
	tier_rig_stop(&rig, false);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(tier_rig_get(&rig, key_of(i)), -1);
	tier_rig_close(&rig);
}

static uint32_t doubt_on_disk(void)
{
	struct tier_super super;
	struct tier_table table;
	assert_int_equal(tier_super_check(rig.fake[0].disk, &super), 0);
	assert_non_null(tier_table_newest(rig.fake[0].disk, super.id[0], &table));
	return table.doubt_s;
}

/* A server that ends while it waits for the others' answer leaves a note since when: the next one asks for more than
 * was deleted after its end. */
static void a_doubt_without_an_answer_outlives_the_server(void **state)
{
	struct verdict v = {.time_ns = 1};
	uint64_t since_s;
	(void)state;
	open_ready(1);
	v.id = store_id(&store, "key-9", 5);
	put_all(0, 200);
	assert_int_equal(doubt_on_disk(), 0);
	since_s = rig.wall_us / 1000000;
	store_doubt(&store, rig.now_ns);
	tier_rig_settle(&rig);
	rig.now_ns += 100 * SECOND;
	rig.wall_us += 100000000;
	put_all(200, 300);
	assert_in_range(doubt_on_disk(), since_s - 1, since_s + 2);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_stop(&rig, false);
	store_doubt(&store, rig.now_ns);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_in_range(doubt_on_disk(), since_s - 1, since_s + 2); /* still */
	store_judge(&store, &v, 1);
	tier_judge(rig.tier, &v, 1);
	tier_rig_settle(&rig);
	assert_int_equal(doubt_on_disk(), 0);
	assert_int_equal(tier_rig_get(&rig, key_of(8)), 8);
	assert_int_equal(tier_rig_get(&rig, key_of(9)), -1);
	tier_rig_close(&rig);
}

/* The answer of the other servers may come before all footers are read: it counts for the rest as well. */
static void deletions_are_known_before_the_footers(void **state)
{
	struct verdict v = {.time_ns = 1};
	(void)state;
	open_ready(1);
	v.id = store_id(&store, "key-9", 5);
	put_all(0, 200);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_stop(&rig, false);
	tier_rig_start(&rig);
	rig.fake[0].stuck = true;
	tier_rig_step(&rig);
	assert_true(tier_reading(rig.tier));
	store_doubt(&store, rig.now_ns);
	store_judge(&store, &v, 1);
	tier_judge(rig.tier, &v, 1);
	rig.fake[0].stuck = false;
	tier_rig_settle(&rig);
	assert_int_equal(tier_rig_get(&rig, key_of(8)), 8);
	assert_int_equal(tier_rig_get(&rig, key_of(9)), -1);
	tier_rig_stop(&rig, false);
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_int_equal(tier_rig_get(&rig, key_of(8)), 8);
	assert_int_equal(tier_rig_get(&rig, key_of(9)), -1);
	tier_rig_close(&rig);
}

/* A value in doubt may be evicted before anybody asks for it: one that other servers have deleted is not written then,
 * and does not come back; one that they have not is. */
static void deleted_values_in_doubt_are_not_written(void **state)
{
	struct verdict v;
	(void)state;
	for (unsigned wait = 0; wait < 2; wait++) {
		open_ready(1);
		v = (struct verdict){store_id(&store, "bad", 3), rig.now_ns + SECOND, rig.now_ns + SECOND};
		assert_true(tier_rig_put(&rig, "bad", LEN, 666, 0));
		assert_true(tier_rig_put(&rig, "good", LEN, 777, 0));
		rig.now_ns += 2 * SECOND;
		store_doubt(&store, rig.now_ns);
		if (wait)
			put_all(0, 300); /* evicts both */
		store_judge(&store, &v, 1);
		tier_judge(rig.tier, &v, 1);
		tier_rig_settle(&rig);
		put_all(300, 600);
		assert_null(store_peek(&store, "bad", 3));
		assert_int_equal(tier_rig_get(&rig, "bad"), -1);
		assert_int_equal(tier_rig_get(&rig, "good"), wait ? -1 : 777);
		tier_flush(rig.tier, rig.now_ns);
		tier_rig_stop(&rig, false);
		tier_rig_start(&rig);
		tier_rig_settle(&rig);
		assert_int_equal(tier_rig_get(&rig, "bad"), -1);
		tier_rig_close(&rig);
	}
}

/* The record of a value that is being read may be dropped or moved: the TOUCH before counts. */
static void a_touch_during_a_read_counts(void **state)
{
	struct tier_wait w = {.end = count_end};
	uint64_t expires_ns;
	bool was;
	(void)state;
	open_ready(1);
	put_all(0, 200);
	assert_int_equal(tier_get(rig.tier, "key-1", 5, KV_NEVER, rig.now_ns, &w), 0);
	expires_ns = rig.now_ns + SECOND / 2;
	assert_int_equal(tier_touch(rig.tier, "key-1", 5, expires_ns, rig.now_ns, &was), -EAGAIN);
	assert_true(was);
	assert_false(tier_look(rig.tier, "key-1", 5, rig.now_ns, &expires_ns)); /* by the second; drops the record */
	tier_rig_settle(&rig);
	assert_null(w.get);
	rig.now_ns += SECOND;
	assert_null(store_find(&store, "key-1", 5, rig.now_ns));
	tier_rig_close(&rig);
}

/* The index has whole seconds. A life that is shortened within one is not longer after the read. */
static void a_life_shortened_within_a_second_stays_short(void **state)
{
	uint64_t written_ns, touched_ns, ttl_ns, rest_us;
	bool was;
	(void)state;
	open_ready(1);
	ttl_ns = 3600 * SECOND + SECOND * 9 / 10 - rig.wall_us % 1000000 * 1000;
	written_ns = rig.now_ns + ttl_ns;
	touched_ns = written_ns - SECOND * 7 / 10;
	assert_true(tier_rig_put(&rig, "short", LEN, 7777, ttl_ns));
	put_all(0, 300);
	assert_null(store_find(&store, "short", 5, rig.now_ns));
	rest_us = 1000000 - rig.wall_us % 1000000; /* to the next second, where no fractions add up to one */
	rig.wall_us += rest_us;
	rig.now_ns += rest_us * 1000;
	(void)tier_touch(rig.tier, "short", 5, touched_ns, rig.now_ns, &was);
	assert_true(was);
	assert_int_equal(tier_rig_get(&rig, "short"), 7777);
	assert_true(store_find(&store, "short", 5, rig.now_ns)->expire.when_ns <= touched_ns);
	tier_rig_close(&rig);
}

/* A value that was born after the present, says the wall clock: it was set back, and nobody knows how much of its life
 * is left. */
static void a_clock_that_is_set_back_makes_no_life_longer(void **state)
{
	(void)state;
	open_ready(1);
	assert_true(tier_rig_put(&rig, "short", LEN, 7777, 60 * SECOND));
	assert_true(tier_rig_put(&rig, "long", LEN, 8888, 0));
	put_all(0, 300);
	tier_flush(rig.tier, rig.now_ns);
	tier_rig_stop(&rig, false);
	rig.wall_us -= 3600 * 1000000ull;
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	assert_int_equal(tier_rig_get(&rig, "long"), 8888);
	assert_int_equal(tier_rig_get(&rig, "short"), -1);
	tier_rig_close(&rig);
}

static void a_read_that_would_be_late_is_refused(void **state)
{
	struct tier_wait w = {.end = count_end};
	(void)state;
	open_ready(1);
	put_all(0, 200);
	assert_int_equal(tier_rig_get(&rig, key_of(1)), 1); /* now it knows how long one takes */
	assert_int_equal(tier_get(rig.tier, "key-2", 5, rig.now_ns + 1000, rig.now_ns, &w), -KV_ETIMEOUT);
	assert_int_equal(tier_get(rig.tier, "key-2", 5, rig.now_ns + SECOND, rig.now_ns, &w), 0);
	tier_rig_settle(&rig);
	tier_rig_close(&rig);
}

static void the_budget_of_a_day_holds(void **state)
{
	struct tier_stats stats;
	struct tier_totals totals;
	(void)state;
	tier_rig_open(&rig, 1, DEVICE, MEMORY);
	rig.options.day_bytes = 24 << 20; /* 1 MiB an hour, and one more */
	tier_rig_start(&rig);
	tier_rig_settle(&rig);
	put_all(0, 500);
	tier_stats(rig.tier, 0, &stats);
	tier_totals(rig.tier, &totals);
	assert_true(stats.value_bytes <= (3 << 20));
	assert_true(totals.lost > 300);
	tier_rig_close(&rig);
}

static void a_device_too_small_is_refused(void **state)
{
	struct tier_device dev = {.name = "/tmp/x", .bytes = 3 << 20}, *devs[] = {&dev};
	struct tier *tier = NULL;
	struct kv_error err = {0};
	(void)state;
	tier_rig_open(&rig, 0, 0, MEMORY);
	assert_int_equal(tier_create(&rig.options, &store, devs, 1, &tier, &err), -KV_EINVAL);
	check_contains(err.text, "--tier /tmp/x");
	check_contains(err.text, "4");
	assert_null(tier);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_that_left_memory_are_read),
		cmocka_unit_test(values_of_many_pieces_are_read),
		cmocka_unit_test(values_survive_a_restart),
		cmocka_unit_test(deleted_and_expired_values_stay_away),
		cmocka_unit_test(a_key_has_a_value_in_each_namespace),
		cmocka_unit_test(a_cleared_namespace_stays_empty),
		cmocka_unit_test(a_tenant_has_its_part_of_the_tier_and_no_more),
		cmocka_unit_test(tiny_values_count_as_places_of_the_tier),
		cmocka_unit_test(a_clear_waits_for_its_device),
		cmocka_unit_test(values_of_a_new_generation_come_back),
		cmocka_unit_test(a_clear_ends_reads_under_way),
		cmocka_unit_test(a_clear_while_footers_are_read),
		cmocka_unit_test(a_deletion_before_the_tables_are_read),
		cmocka_unit_test(a_clear_that_a_device_misses_is_reported),
		cmocka_unit_test(forgotten_namespaces_stay_empty),
		cmocka_unit_test(a_damaged_table_leaves_an_empty_tier),
		cmocka_unit_test(crashes_leave_right_bytes_or_misses),
		cmocka_unit_test(short_transfers_change_nothing),
		cmocka_unit_test(failing_transfers_are_misses),
		cmocka_unit_test(a_device_that_is_gone_is_a_missing_tier),
		cmocka_unit_test(a_device_that_stalls_is_left_and_taken_back),
		cmocka_unit_test(another_device_behind_the_same_name_is_empty),
		cmocka_unit_test(a_flush_leaves_no_value_with_hits),
		cmocka_unit_test(a_flush_does_not_wait_for_a_device_that_is_down),
		cmocka_unit_test(a_device_that_forgets_does_not_fill_the_log),
		cmocka_unit_test(a_get_of_a_device_that_was_wiped_ends),
		cmocka_unit_test(readers_of_a_key_share_its_read),
		cmocka_unit_test(a_second_chance_is_not_used_up_by_a_look),
		cmocka_unit_test(missed_deletions_are_made_up_for),
		cmocka_unit_test(a_doubt_without_an_answer_outlives_the_server),
		cmocka_unit_test(deletions_are_known_before_the_footers),
		cmocka_unit_test(deleted_values_in_doubt_are_not_written),
		cmocka_unit_test(a_touch_during_a_read_counts),
		cmocka_unit_test(a_life_shortened_within_a_second_stays_short),
		cmocka_unit_test(a_clock_that_is_set_back_makes_no_life_longer),
		cmocka_unit_test(a_read_that_would_be_late_is_refused),
		cmocka_unit_test(the_budget_of_a_day_holds),
		cmocka_unit_test(a_device_too_small_is_refused),
	};
	return cmocka_run_group_tests_name("store/tier", tests, NULL, NULL);
}
