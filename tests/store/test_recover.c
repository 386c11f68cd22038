/* SPDX-License-Identifier: Apache-2.0 */
/* test_recover.c -- a process dies, and the next one finds the values of its memory: those that were live, with their
 * bytes, and no others. */
#include "tests/store/rig.h"

#include <unistd.h>

#include "store/recover.h"

enum { LIMIT = 1 << 20, KEYS = 1000, PLACES = 4096 };

static uint8_t *memory;
static void *table; /* with the names of namespaces */
static struct recover rec;

static void open_with(struct store *s, bool former, uint64_t now)
{
	const struct store_options o = {.base = memory,
					.limit_bytes = LIMIT,
					.seed = now,
					.digest_seed = 7,
					.generation = 1,
					.now_ns = now,
					.policy = &evict_clock2g,
					.blocks_max = 3000};
	assert_int_equal(store_init(s, &o), 0);
	if (!former)
		memset(table, 0, records_bytes(PLACES));
	records_open(&s->records, table, PLACES, 5);
	if (!former)
		spaces_note(&s->spaces, s->records.notes);
}

static int setup(void **state)
{
	(void)state;
	memory = calloc(1, LIMIT);
	table = calloc(1, records_bytes(PLACES));
	open_with(&store, false, SECOND);
	return memory && table ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	recover_end(&rec, &store);
	rec = (struct recover){0};
	store_fini(&store);
	free(memory);
	free(table);
	return 0;
}

/* The process dies: its structs are lost, memory and table stay. The next one begins. */
static void crash(uint64_t now)
{
	const struct keep_head head = {.now_ns = now, .wall_ns = now};
	struct keep_clock clock = keep_clock_of(&head, now, now);
	free(rec.pending);
	free(rec.space);
	index_fini(&rec.waiting);
	rec = (struct recover){0};
	pins_drop_all(&store);
	store_fini(&store);
	open_with(&store, true, now);
	assert_int_equal(recover_begin(&rec, &store, &clock), 0);
}

static void verify(uint64_t now)
{
	while (recover_step(&rec, &store, 4096, now))
		;
	recover_end(&rec, &store);
	check_store();
}

static void put_len(const char *key, uint64_t len, uint8_t fill, uint64_t expires, uint64_t now)
{
	struct block *b, *holder;
	if (get(key, now) || stage(key, strlen(key), len, &b) != 0)
		return;
	memset(store_data(&store, b), fill, len);
	assert_int_equal(store_commit(&store, b, kv_hash_block(store_data(&store, b), len), expires, now, &holder), 0);
	block_unref(&store, b);
}

static const char *key_of(unsigned i)
{
	static char key[16];
	snprintf(key, sizeof(key), "k%u", i);
	return key;
}

static void the_live_values_come_back_and_no_others(void **state)
{
	struct kv_prng p = check_seed();
	bool there[KEYS];
	uint64_t expires[KEYS] = {0}, len[KEYS] = {0}, now = SECOND, live = 0;
	char key[16];
	(void)state;
	for (unsigned i = 0; i < 20000; i++, now += kv_prng_below(&p, SECOND / 100)) {
		unsigned k = (unsigned)kv_prng_below(&p, KEYS);
		struct block *b;
		snprintf(key, sizeof(key), "k%u", k);
		b = get(key, now);
		if (b && kv_prng_below(&p, 3) == 0) {
			store_delete(&store, key, strlen(key), now, now);
		} else if (b && kv_prng_below(&p, 3) == 0) {
			expires[k] = now + kv_prng_below(&p, 100 * SECOND);
			store_touch(&store, key, strlen(key), b, expires[k], now, now);
		} else if (!b) {
			expires[k] = kv_prng_below(&p, 2) ? KV_NEVER : now + kv_prng_below(&p, 50 * SECOND);
			len[k] = 1 + kv_prng_below(&p, 3000);
			put_len(key, len[k], (uint8_t)k, expires[k], now);
		}
	}
	for (unsigned k = 0; k < KEYS; k++) {
		snprintf(key, sizeof(key), "k%u", k);
		there[k] = get(key, now) != NULL;
		live += there[k];
	}
	assert_true(live > 100);
	crash(now);
	assert_int_equal(index_count(&store.index), 0);
	check_store();
	verify(now);
	assert_int_equal(rec.accepted, live);
	for (unsigned k = 0; k < KEYS; k++) {
		struct block *b;
		snprintf(key, sizeof(key), "k%u", k);
		b = get(key, now);
		assert_int_equal(b != NULL, there[k]);
		if (!b)
			continue;
		check_bytes(b, len[k], (uint8_t)k);
		assert_int_equal(b->expire.when_ns, expires[k]);
	}
	/* And once more: the table is of the new process now. */
	crash(now);
	verify(now);
	assert_int_equal(rec.accepted, live);
	assert_int_equal(rec.refused, 0);
}

static void a_value_whose_bytes_differ_is_refused(void **state)
{
	(void)state;
	put_len("good", 1000, 1, KV_NEVER, SECOND);
	put_len("bad", 1000, 2, KV_NEVER, SECOND);
	store_data(&store, get("bad", SECOND))[999] ^= 1;
	crash(SECOND);
	verify(SECOND);
	assert_int_equal(rec.accepted, 1);
	assert_int_equal(rec.refused, 1);
	assert_non_null(get("good", SECOND));
	assert_null(get("bad", SECOND));
}

/* Whatever part of a record was written when the process died. */
static void a_torn_record_is_no_record(void **state)
{
	size_t bytes = sizeof(struct record);
	struct record whole;
	unsigned at = 0;
	(void)state;
	put_len("key", 100, 1, KV_NEVER, SECOND);
	while (!store.records.at[at].sum)
		at++;
	whole = store.records.at[at];
	for (size_t i = 0; i < bytes * 8; i++) {
		store.records.at[at] = whole;
		((uint8_t *)&store.records.at[at])[i / 8] ^= (uint8_t)(1u << i % 8);
		crash(SECOND);
		verify(SECOND);
		assert_int_equal(rec.found, 0);
		assert_null(get("key", SECOND));
		rec = (struct recover){0};
	}
}

static void enter(const char *name)
{
	struct space *sp;
	assert_int_equal(space_take(&store.spaces, name, SECOND, &sp), 0);
	store_enter(&store, sp);
}

static void of_a_cleared_namespace_nothing_comes_back(void **state)
{
	(void)state;
	put_len("key", 100, 1, KV_NEVER, SECOND);
	enter("kept");
	put_len("key", 200, 2, KV_NEVER, SECOND);
	enter("cleared");
	put_len("key", 300, 3, KV_NEVER, SECOND);
	store_space_clear(&store, store.space, 0, SECOND);
	put_len("new", 400, 4, KV_NEVER, SECOND);
	crash(2 * SECOND); /* before the sweep */
	verify(2 * SECOND);
	assert_int_equal(rec.accepted, 3);
	assert_int_equal(get("key", 2 * SECOND)->len, 100);
	enter("kept");
	assert_int_equal(get("key", 2 * SECOND)->len, 200);
	enter("cleared");
	assert_null(get("key", 2 * SECOND));
	assert_int_equal(get("new", 2 * SECOND)->len, 400);
	assert_int_equal(store.space->generation, 1);
}

/* Then its generation is unknown, and none of its values is believed. */
static void a_torn_note_is_of_no_namespace(void **state)
{
	(void)state;
	enter("torn");
	put_len("key", 100, 1, KV_NEVER, SECOND);
	enter("whole");
	put_len("key", 200, 2, KV_NEVER, SECOND);
	store.records.notes[1].generation++;
	crash(2 * SECOND);
	verify(2 * SECOND);
	assert_int_equal(rec.accepted, 1);
	enter("torn");
	assert_null(get("key", 2 * SECOND));
	enter("whole");
	assert_int_equal(get("key", 2 * SECOND)->len, 200);
}

static void records_that_overlap_are_not_both_believed(void **state)
{
	(void)state;
	put_len("old", 1000, 1, KV_NEVER, SECOND);
	put_len("new", 1000, 1, KV_NEVER, SECOND);
	get("new", SECOND)->offset = 64;
	records_change(&store.records, get("new", SECOND));
	crash(SECOND);
	verify(SECOND);
	assert_int_equal(rec.found, 1);
	assert_null(get("old", SECOND));
}

static void a_value_stored_meanwhile_stays(void **state)
{
	(void)state;
	put_len("key", 100, 1, KV_NEVER, SECOND);
	crash(SECOND);
	assert_null(get("key", SECOND));
	put_len("key", 50, 9, KV_NEVER, SECOND);
	verify(SECOND);
	check_bytes(get("key", SECOND), 50, 9);
	assert_int_equal(rec.refused, 1);
}

static void a_deleted_key_stays_deleted_while_its_value_is_verified(void **state)
{
	(void)state;
	put_len("key", 100, 1, KV_NEVER, SECOND);
	crash(2 * SECOND);
	store_delete(&store, "key", 3, 3 * SECOND, 3 * SECOND);
	verify(4 * SECOND);
	assert_null(get("key", 4 * SECOND));
}

/* The process dies again before it has verified the values. */
static void what_happens_to_a_waiting_value_holds_after_another_crash(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5; i++)
		put_len(key_of(i), 100, 1, KV_NEVER, SECOND);
	crash(2 * SECOND);
	store_delete(&store, key_of(0), 2, 3 * SECOND, 3 * SECOND);
	store_delete(&store, key_of(1), 2, 3 * SECOND, 3 * SECOND);
	put_len(key_of(1), 50, 9, KV_NEVER, 4 * SECOND);
	store_touch(&store, key_of(2), 2, NULL, 9 * SECOND, 3 * SECOND, 3 * SECOND);
	store_delete(&store, key_of(3), 2, SECOND / 2, 3 * SECOND); /* of an earlier value */
	crash(5 * SECOND);
	verify(5 * SECOND);
	assert_null(get(key_of(0), 5 * SECOND));
	check_bytes(get(key_of(1), 5 * SECOND), 50, 9);
	assert_non_null(get(key_of(2), 5 * SECOND));
	assert_null(get(key_of(2), 9 * SECOND));
	check_bytes(get(key_of(3), 9 * SECOND), 100, 1);
	check_bytes(get(key_of(4), 9 * SECOND), 100, 1);
}

/* Other members may have deleted it, and have not answered. */
static void a_value_in_doubt_is_dropped_though_it_waits(void **state)
{
	(void)state;
	put_len("key", 100, 1, KV_NEVER, SECOND);
	crash(2 * SECOND);
	store_doubt(&store, 2 * SECOND);
	store_judge(&store, NULL, 0);
	verify(3 * SECOND);
	assert_null(get("key", 3 * SECOND));
}

static void new_values_lie_beside_those_that_wait(void **state)
{
	char key[16];
	(void)state;
	for (unsigned i = 0; i < 500; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		put_len(key, 1000, (uint8_t)i, KV_NEVER, SECOND);
	}
	crash(SECOND);
	for (unsigned i = 0; i < 400; i++) {
		snprintf(key, sizeof(key), "n%u", i);
		put_len(key, 1000, (uint8_t)i, KV_NEVER, SECOND);
	}
	verify(SECOND);
	assert_int_equal(rec.accepted, 500);
	for (unsigned i = 0; i < 500; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		check_bytes(get(key, SECOND), 1000, (uint8_t)i);
	}
}

static void a_kept_store_has_its_records_again(void **state)
{
	char path[] = "/tmp/kvrail-recover-XXXXXX";
	struct keep_head head = {.limit_bytes = LIMIT, .digest_seed = 7, .shards = 1, .now_ns = SECOND};
	struct keep_rest rest = {0};
	struct keep_out *out;
	struct keep_writer *w;
	struct keep_in *in;
	struct keep_reader *r;
	struct keep_clock clock;
	int fd = mkstemp(path);
	(void)state;
	assert_true(fd >= 0);
	close(fd);
	put_len("key", 100, 1, KV_NEVER, SECOND);
	assert_int_equal(keep_create(path, &head, &out, NULL), 0);
	w = keep_writer_open(out, 0);
	keep_store(w, &store, SECOND);
	keep_writer_close(&w);
	assert_int_equal(keep_commit(&out, NULL), 0);
	store_fini(&store);
	open_with(&store, false, SECOND);
	assert_int_equal(keep_open(path, &in, &head, NULL), 0);
	assert_int_equal(keep_reader_open(in, 0, &r, NULL), 0);
	clock = keep_clock_of(&head, SECOND, 0);
	assert_int_equal(keep_restore(r, &clock, &store, &rest, NULL), 0);
	keep_reader_close(&r);
	keep_close(&in);
	keep_rest_end(&store, &rest);
	unlink(path);
	crash(SECOND);
	verify(SECOND);
	check_bytes(get("key", SECOND), 100, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_live_values_come_back_and_no_others),
		TEST(a_value_whose_bytes_differ_is_refused),
		TEST(a_torn_record_is_no_record),
		TEST(of_a_cleared_namespace_nothing_comes_back),
		TEST(a_torn_note_is_of_no_namespace),
		TEST(records_that_overlap_are_not_both_believed),
		TEST(a_value_stored_meanwhile_stays),
		TEST(a_deleted_key_stays_deleted_while_its_value_is_verified),
		TEST(what_happens_to_a_waiting_value_holds_after_another_crash),
		TEST(a_value_in_doubt_is_dropped_though_it_waits),
		TEST(new_values_lie_beside_those_that_wait),
		TEST(a_kept_store_has_its_records_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
