/* SPDX-License-Identifier: Apache-2.0 */
/* test_lot.c -- what a drain gets from a shard, and what the shard makes of it: all values, the hottest first; keys
 * that are deleted while their values are under way.
 *
 * The shard's loop turns in the test's thread; a thread of its own has the lots, as in a server. */
#include "tests/kvserver/rig.h"

#include <pthread.h>

#include "kvserver/push/lot.h"

enum { VALUES = 100, LEN = 2000 };

/* What the other thread is to do. */
struct job {
	struct lot *lot;
	bool end;
	_Atomic bool done;
};

static void *job_run(void *arg)
{
	struct job *j = arg;
	uint64_t until_ns = kv_clock_now(&kv_clock_monotonic) + 10000000000;
	if ((j->end ? lot_end_wait(j->lot, until_ns) : lot_next_wait(j->lot, until_ns)) != 0)
		abort();
	atomic_store(&j->done, true);
	return NULL;
}

static void lot_turn(struct lot *lot, bool end)
{
	struct job j = {.lot = lot, .end = end};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, job_run, &j), 0);
	rig_until(atomic_load(&j.done));
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void lot_end(struct lot *lot)
{
	lot_turn(lot, true);
	lot_free(lot);
}

static struct store *store(void)
{
	return &rig.shard->store;
}

static struct block *block_of(const struct lot_item *it)
{
	return store_find(store(), it->key, it->key_len, loop_now(rig.loop));
}

static void values_put(unsigned n)
{
	char key[16];
	for (unsigned i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "v%03u", i);
		rig_store(key, LEN, i);
	}
}

static void fates_set(struct lot *lot, enum lot_fate fate)
{
	for (unsigned i = 0; i < lot->count; i++)
		lot->item[i].fate = fate;
}

static unsigned number_of(const struct lot_item *it)
{
	char key[16] = {0};
	memcpy(key, it->key, it->key_len);
	return (unsigned)strtoul(key + 1, NULL, 10);
}

/* Nobody has read them: the newest come first, and the older half comes, too. */
static void all_values_come_also_those_that_nobody_read(void **state)
{
	struct lot *lot = lot_new(rig.shard);
	unsigned told = 0, old = 0;
	(void)state;
	values_put(VALUES);
	for (lot_turn(lot, false); !lot->over; lot_turn(lot, false)) {
		for (unsigned i = 0; i < lot->count; i++) {
			assert_int_equal(lot->item[i].old, number_of(&lot->item[i]) < VALUES / 2);
			assert_true(told + i >= VALUES / 8 || number_of(&lot->item[i]) >= VALUES - VALUES / 4);
			old += lot->item[i].old;
		}
		told += lot->count;
		assert_int_equal(lot->left, VALUES - told + lot->count);
		fates_set(lot, LOT_PUSHED);
	}
	assert_int_equal(told, VALUES);
	assert_int_equal(old, VALUES / 2);
	assert_int_equal(lot->left, 0);
	assert_int_equal(lot->gone, 0);
	assert_int_equal(rig_stat(WIRE_STAT_PUSHED), VALUES);
	assert_int_equal(rig_stat(WIRE_STAT_PUSHED_BYTES), VALUES * LEN);
	lot_end(lot);
	rig_store("v999", LEN, 1); /* the shard goes on as before */
}

/* The values that a drain gets; it pushes them. */
static unsigned all_told(void)
{
	struct lot *lot = lot_new(rig.shard);
	unsigned told = 0;
	for (lot_turn(lot, false); !lot->over; lot_turn(lot, false)) {
		for (unsigned i = 0; i < lot->count; i++)
			assert_int_not_equal(number_of(&lot->item[i]), 1);
		told += lot->count;
		fates_set(lot, LOT_PUSHED);
	}
	lot_end(lot);
	return told;
}

/* Values that other servers are known to have deleted are pushed to nobody; while that is unknown, all are. */
static void values_with_a_verdict_are_not_pushed(void **state)
{
	struct verdict v;
	(void)state;
	values_put(3);
	v = (struct verdict){store_id(store(), "v001", 4), loop_now(rig.loop), loop_now(rig.loop)};
	store_doubt(store(), loop_now(rig.loop));
	store_judge(store(), &v, 1);
	assert_int_equal(all_told(), 2);
	rig_store("v007", LEN, 7);
	store_doubt(store(), loop_now(rig.loop));
	assert_int_equal(all_told(), 1); /* the others have had their turn */
}

/* What could not be put comes again, and counts until then. What is too large does not. */
static void what_failed_comes_again(void **state)
{
	struct lot *lot = lot_new(rig.shard);
	(void)state;
	values_put(4);
	lot_turn(lot, false);
	assert_int_equal(lot->count, 4);
	fates_set(lot, LOT_FULL);
	lot->item[1].fate = LOT_TOO_BIG;
	lot->item[2].fate = LOT_UNTRIED;
	lot_turn(lot, false);
	if (lot->count == 0)
		lot_turn(lot, false);
	assert_int_equal(lot->round, 1);
	assert_int_equal(lot->count, 3);
	assert_int_equal(lot->left, 3);
	fates_set(lot, LOT_UNREACHED);
	lot_end(lot);
	assert_int_equal(rig_stat(WIRE_STAT_BLOCKS), 4); /* they are served still */
}

static void drop(const struct lot_item *it, int32_t want)
{
	char key[16] = {0};
	struct wire_request q;
	memcpy(key, it->key, it->key_len);
	q = rig_request(WIRE_DELETE, key);
	assert_int_equal(rig_ask(&q)->status, want);
}

/* A client that does not know of the drain deletes a key here, while its value is on its way to another server. */
static void a_key_that_is_deleted_meanwhile_is_told(void **state)
{
	struct lot *lot = lot_new(rig.shard);
	struct lot_item gone;
	uint64_t before = loop_now(rig.loop);
	(void)state;
	values_put(3);
	lot_turn(lot, false);
	assert_int_equal(lot->count, 3);
	gone = lot->item[1];
	drop(&lot->item[1], WIRE_OK);
	drop(&lot->item[2], WIRE_OK);
	store_drop(store(), block_of(&lot->item[0])); /* evicted: nobody has deleted that */
	fates_set(lot, LOT_PUSHED);
	lot->item[2].fate = LOT_FULL;
	lot_turn(lot, false);
	assert_int_equal(lot->deleted_count, 1);
	assert_int_equal(lot->deleted[0].key_len, gone.key_len);
	assert_memory_equal(lot->deleted[0].key, gone.key, gone.key_len);
	assert_in_range(lot->deleted[0].time_ns, before, loop_now(rig.loop));
	assert_int_equal(lot->gone, 1); /* the one that found no room */
	assert_int_equal(lot->left, 0);
	lot_turn(lot, false);
	assert_int_equal(lot->deleted_count, 0);
	lot_end(lot);
}

/* Another server has deleted the key: it goes here, and the DELETE that comes here next has deleted it. */
static void a_value_that_is_outdated_goes_and_its_delete_succeeds(void **state)
{
	struct lot *lot = lot_new(rig.shard);
	struct lot_item it;
	(void)state;
	values_put(1);
	lot_turn(lot, false);
	it = lot->item[0];
	fates_set(lot, LOT_OUTDATED);
	lot_end(lot);
	assert_null(block_of(&it));
	drop(&it, WIRE_OK);
	drop(&it, WIRE_NOTFOUND);
}

#define LOT_TEST(f) cmocka_unit_test_setup_teardown(f, rig_open, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOT_TEST(all_values_come_also_those_that_nobody_read),
		LOT_TEST(values_with_a_verdict_are_not_pushed),
		LOT_TEST(what_failed_comes_again),
		LOT_TEST(a_key_that_is_deleted_meanwhile_is_told),
		LOT_TEST(a_value_that_is_outdated_goes_and_its_delete_succeeds),
	};
	return cmocka_run_group_tests_name("kvserver/lot", tests, rig_up, rig_down);
}
