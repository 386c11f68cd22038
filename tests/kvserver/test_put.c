/* SPDX-License-Identifier: Apache-2.0 */
/* test_put.c -- PUT against a real engine: ranges in any order, checks, commits, and what never becomes visible. */
#include "rig.h"

enum { MIB = 1 << 20, WHOLE = WIRE_PUT_FIRST | WIRE_PUT_LAST };

static bool is_there(const char *key)
{
	return store_find(&rig.shard->store, key, strlen(key), 0) != NULL;
}

/* The stored bytes are those made from seed. */
static void check_stored(const char *key, uint64_t n, uint64_t seed)
{
	struct block *b = store_find(&rig.shard->store, key, strlen(key), 0);
	uint8_t *want = malloc(n);
	assert_non_null(b);
	assert_int_equal(b->len, n);
	rig_fill(want, n, seed);
	assert_memory_equal(store_data(&rig.shard->store, b), want, n);
	assert_int_equal(b->checksum, kv_hash_block(want, n));
	free(want);
}

static void a_whole_value_is_read_from_the_client(void **state)
{
	(void)state;
	rig_store("k", 5 * MIB + 3, 1);
	check_stored("k", 5 * MIB + 3, 1);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_WRITTEN), 5 * MIB + 3);
	assert_int_equal(rig_stat(WIRE_STAT_BLOCKS), 1);
}

static void a_small_value_travels_in_the_request(void **state)
{
	(void)state;
	uint8_t value[KV_INLINE_MAX];
	rig_fill(value, sizeof(value), 2);
	struct wire_request q =
		rig_put("k", sizeof(value), 0, sizeof(value), kv_hash_block(value, sizeof(value)), WHOLE);
	q.dest = (struct wire_dest){0};
	q.put.inline_data = (struct wire_bytes){value, sizeof(value)};
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_true(rig_find(q.id)->put.generation != 0);
	check_stored("k", sizeof(value), 2);
}

static void slices_are_gathered_in_order(void **state)
{
	(void)state;
	enum { N = 10000, SLICE = 1500, STRIDE = 4096 };
	uint8_t value[N];
	rig_fill(value, N, 3);
	for (unsigned i = 0; i * SLICE < N; i++)
		memcpy(rig_memory(i * STRIDE), value + i * SLICE, KV_MIN((unsigned)SLICE, N - i * SLICE));
	struct wire_request q = rig_put("k", N, 0, N, kv_hash_block(value, N), WHOLE);
	q.dest = (struct wire_dest){.region = 1, .count = 7, .stride = STRIDE, .slice = SLICE};
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	check_stored("k", N, 3);
}

static void a_wrong_checksum_is_corrupt_and_invisible(void **state)
{
	(void)state;
	rig_fill(rig_memory(0), MIB, 4);
	struct wire_request q = rig_put("k", MIB, 0, MIB, kv_hash_block(rig_memory(0), MIB) ^ 1, WHOLE);
	assert_int_equal(rig_ask(&q)->status, WIRE_CORRUPT);
	assert_int_equal(rig_find(q.id)->put.generation, 0);
	assert_false(is_there("k"));
	assert_int_equal(rig_stat(WIRE_STAT_CORRUPT), 1);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 0);
}

static void a_small_wrong_checksum_is_corrupt_too(void **state)
{
	(void)state;
	struct wire_request q = rig_put("k", 5, 0, 5, 123, WHOLE);
	q.dest = (struct wire_dest){0};
	q.put.inline_data = (struct wire_bytes){(const uint8_t *)"hello", 5};
	assert_int_equal(rig_ask(&q)->status, WIRE_CORRUPT);
	assert_false(is_there("k"));
}

static void the_same_bytes_again_succeed_without_being_read(void **state)
{
	(void)state;
	uint64_t sum = rig_store("k", MIB, 5);
	uint64_t reads = rig_stat(WIRE_STAT_BYTES_WRITTEN);
	struct wire_request q = rig_put("k", MIB, 0, MIB, sum, WIRE_PUT_FIRST);
	const struct wire_reply *r = rig_ask(&q); /* the client's memory holds zeros now */
	assert_int_equal(r->status, WIRE_OK);
	assert_true(r->put.generation != 0);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_WRITTEN), reads);
	assert_int_equal(rig_stat(WIRE_STAT_PUT_DUPLICATES), 1);
	check_stored("k", MIB, 5);
}

static void other_bytes_under_the_key_are_refused(void **state)
{
	(void)state;
	uint64_t sum = rig_store("k", MIB, 6);
	struct wire_request a = rig_put("k", MIB, 0, MIB, sum + 1, WHOLE),
			    b = rig_put("k", MIB - 1, 0, MIB - 1, sum, WHOLE);
	assert_int_equal(rig_ask(&a)->status, WIRE_EXISTS_OTHER);
	assert_int_equal(rig_ask(&b)->status, WIRE_EXISTS_OTHER);
	assert_int_equal(rig_stat(WIRE_STAT_PUT_CONFLICTS), 2);
	check_stored("k", MIB, 6);
}

/* ---- copies ---- */

static uint64_t clock_told(uint64_t ns)
{
	return shard_clock(rig.shard->opt.shard_seed, ns);
}

/* PUT n bytes of seed as a copy of a value that was born then, by the shard's clock. */
static int32_t copy(const char *key, uint64_t n, uint64_t seed, uint64_t born_ns, uint32_t ttl_s)
{
	struct wire_request q;
	rig_fill(rig_memory(0), n, seed);
	q = rig_put(key, n, 0, n, kv_hash_block(rig_memory(0), n), WHOLE | WIRE_PUT_COPY);
	q.put.born_ns = clock_told(born_ns);
	q.put.ttl_s = ttl_s;
	return rig_ask(&q)->status;
}

static int32_t copy_spare(const char *key, uint64_t n)
{
	struct wire_request q = rig_put(key, n, 0, n, kv_hash_block(rig_memory(0), n), WHOLE);
	q.flags |= WIRE_PUT_COPY | WIRE_PUT_SPARE;
	q.put.born_ns = clock_told(loop_now(rig.loop));
	return rig_ask(&q)->status;
}

static const struct wire_reply *drop(const char *key, uint8_t flags, uint64_t which)
{
	struct wire_request q = rig_request(WIRE_DELETE, key);
	q.flags = flags;
	q.drop.which = which;
	return rig_ask(&q);
}

static uint64_t now(void)
{
	return loop_now(rig.loop);
}

static void a_copy_of_what_was_deleted_is_refused(void **state)
{
	uint64_t before = now(), after;
	(void)state;
	assert_int_equal(copy("k", MIB, 1, before, 0), WIRE_OK);
	assert_int_equal(block_born_ns(store_find(&rig.shard->store, "k", 1, 0)), before / 1000 * 1000);
	assert_int_equal(drop("k", 0, 0)->status, WIRE_OK);
	after = now();
	assert_int_equal(copy("k", MIB, 1, before - 2000000000, 0), WIRE_DELETED);
	assert_int_equal(copy("k", MIB, 1, before, 0), WIRE_CANCELED); /* by too little to be sure */
	assert_false(is_there("k"));
	assert_int_equal(rig_stat(WIRE_STAT_COPIES_REFUSED), 2);
	assert_int_equal(copy("k", MIB, 2, after, 0), WIRE_OK); /* that one was put later */
	check_stored("k", MIB, 2);
}

/* A cold value of a server that drains: nothing goes for it, and it goes first. */
static void a_spare_copy_takes_nobodys_place(void **state)
{
	char key[16];
	(void)state;
	rig_store("own", MIB, 1);
	rig_fill(rig_memory(0), MIB, 2);
	for (unsigned i = 0; i < RIG_MEMORY / MIB - 1; i++) {
		snprintf(key, sizeof(key), "s%u", i);
		assert_int_equal(copy_spare(key, i ? MIB : MIB - KV_INLINE_MAX), WIRE_OK);
	}
	assert_int_equal(copy_spare("more", MIB), WIRE_NOMEM);
	assert_int_equal(rig_stat(WIRE_STAT_EVICTIONS), 0);
	assert_int_equal(rig_stat(WIRE_STAT_NOMEM), 0); /* nothing is short here */
	rig_store("new", MIB, 3);
	assert_true(is_there("own"));
	assert_true(is_there("new"));
	assert_int_equal(rig_stat(WIRE_STAT_EVICTIONS), 1);
}

/* The DELETE comes while the value does. */
static void a_copy_under_way_when_its_key_is_deleted_is_refused(void **state)
{
	struct wire_request q;
	const struct wire_reply *r;
	uint64_t sum;
	(void)state;
	rig_fill(rig_memory(0), 2 * MIB, 1);
	sum = kv_hash_block(rig_memory(0), 2 * MIB);
	q = rig_put("k0", 2 * MIB, 0, MIB, sum, WIRE_PUT_FIRST | WIRE_PUT_COPY);
	q.put.born_ns = clock_told(now() - 2000000000);
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	q = rig_put("k0", 2 * MIB, MIB, MIB, sum, WIRE_PUT_LAST);
	q.dest.offset = MIB;
	q.put.stage = r->put.stage;
	assert_int_equal(drop("k0", 0, 0)->status, WIRE_NOTFOUND);
	assert_int_equal(rig_ask(&q)->status, WIRE_DELETED);
	assert_false(is_there("k0"));
	rig_until(rig.shard->store.arena.used == 0);
}

static void of_two_values_the_younger_one_stays(void **state)
{
	uint64_t at = now();
	(void)state;
	assert_int_equal(copy("k1", MIB, 1, at - 5000, 0), WIRE_OK);
	assert_int_equal(copy("k1", MIB, 2, at - 9000, 0), WIRE_DELETED);
	check_stored("k1", MIB, 1);
	assert_int_equal(copy("k1", MIB, 2, at, 0), WIRE_OK);
	check_stored("k1", MIB, 2);
	assert_int_equal(copy("k1", MIB, 1, at - 5000, 0), WIRE_DELETED);
	assert_int_equal(rig_stat(WIRE_STAT_COPIES_REPLACED), 1);
	assert_int_equal(rig_stat(WIRE_STAT_BLOCKS), 1);
}

/* A sender's clock may be ahead of ours, or the sender may lie. */
static void a_copy_from_the_future_is_born_now(void **state)
{
	(void)state;
	assert_int_equal(copy("k", MIB, 1, now() + 3600000000000, 0), WIRE_OK);
	assert_in_range(block_born_ns(store_find(&rig.shard->store, "k", 1, 0)), 1, now());
	assert_int_equal(drop("k", 0, 0)->status, WIRE_OK);
	assert_false(is_there("k"));
	assert_int_equal(copy("k", MIB, 1, now() - 2000000000, 0), WIRE_DELETED);
}

/* A PUT may have waited while the server stood still, and its key may have been deleted elsewhere meanwhile. */
static void a_put_that_waited_is_as_old_as_the_standstill(void **state)
{
	uint64_t before = now() - 5000000000;
	(void)state;
	rig.shard->doubt.late_ns = before;
	rig_store("k5", MIB, 1);
	assert_int_equal(block_born_ns(store_find(&rig.shard->store, "k5", 2, 0)), before / 1000 * 1000);
	assert_int_equal(drop("k5", WIRE_DELETE_AT, clock_told(now() - 3000000000))->status, WIRE_OK);
	assert_false(is_there("k5"));
	rig_fill(rig_memory(0), MIB, 1);
	struct wire_request q = rig_put("k5", MIB, 0, MIB, kv_hash_block(rig_memory(0), MIB), WHOLE);
	assert_int_equal(rig_ask(&q)->status, WIRE_BUSY);
	assert_false(is_there("k5"));
	rig.shard->doubt.late_ns = 0;
	rig_store("k5", MIB, 1);
	assert_true(is_there("k5"));
}

static void a_copy_lengthens_no_life(void **state)
{
	uint64_t at = now(), expires;
	struct block *b;
	(void)state;
	assert_int_equal(copy("k2", MIB, 1, at - 3000000000, 10), WIRE_OK);
	b = store_find(&rig.shard->store, "k2", 2, 0);
	assert_in_range(b->expire.when_ns, at + 6900000000, at + 7000000000); /* from its birth on */
	expires = b->expire.when_ns;
	assert_int_equal(copy("k2", MIB, 1, at, 1000), WIRE_OK);
	assert_int_equal(b->expire.when_ns, expires);
}

static void a_delete_may_be_of_one_value_alone(void **state)
{
	struct block *b;
	uint64_t generation, before;
	(void)state;
	before = now() - 1000;
	rig_store("k3", MIB, 1);
	b = store_find(&rig.shard->store, "k3", 2, 0);
	generation = b->generation;
	assert_int_equal(drop("k3", WIRE_DELETE_THIS, generation + 1)->status, WIRE_NOTFOUND);
	assert_int_equal(drop("k3", WIRE_DELETE_AT, clock_told(before))->status, WIRE_NOTFOUND); /* it is younger */
	assert_true(is_there("k3"));
	assert_int_equal(drop("k3", WIRE_DELETE_THIS, generation)->status, WIRE_OK);
	assert_false(is_there("k3"));
	rig_store("k3", MIB, 2);
	assert_int_equal(drop("k3", WIRE_DELETE_AT, clock_told(now()))->status, WIRE_OK);
	assert_int_equal(drop("k3", WIRE_DELETE_AT, 0)->status, WIRE_NOTFOUND);
}

/* A client that was told that the key was deleted asks others for what was put since. */
static void only_a_young_value_is_given_to_those_who_want_one(void **state)
{
	struct wire_request get = rig_get("k4", 0, MIB), touch = rig_request(WIRE_TOUCH, "k4");
	(void)state;
	rig_store("k4", MIB, 1);
	get.flags = WIRE_GET_YOUNG;
	get.get.generation = 1;
	assert_int_equal(rig_ask(&get)->status, WIRE_NOTFOUND);
	touch.flags = WIRE_TOUCH_YOUNG;
	touch.touch.young_ns = 1;
	assert_int_equal(rig_ask(&touch)->status, WIRE_NOTFOUND);
	get = rig_get("k4", 0, MIB);
	get.flags = WIRE_GET_YOUNG;
	get.get.generation = 3600000000000;
	assert_int_equal(rig_ask(&get)->status, WIRE_OK);
	touch = rig_request(WIRE_TOUCH, "k4");
	touch.flags = WIRE_TOUCH_YOUNG;
	touch.touch.young_ns = 3600000000000;
	assert_int_equal(rig_ask(&touch)->status, WIRE_OK);
}

/* ---- ranges ---- */

static uint64_t begin(const char *key, uint64_t total, uint64_t first, uint64_t sum)
{
	struct wire_request q = rig_put(key, total, 0, first, sum, WIRE_PUT_FIRST);
	const struct wire_reply *r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(r->put.generation, 0);
	assert_true(r->put.stage != 0);
	return r->put.stage;
}

static struct wire_request range(const char *key, uint64_t stage, uint64_t total, uint64_t offset, uint64_t n,
				 uint64_t sum, uint8_t flags)
{
	struct wire_request q = rig_put(key, total, offset, n, sum, flags);
	q.put.stage = stage;
	return q;
}

/* Ranges sent in one frame, the last one first. */
static void ranges_may_come_in_any_order(void **state)
{
	(void)state;
	enum { N = 7 * MIB + 5 };
	struct wire_request q[7];
	struct wire_frame frame = rig_frame();
	uint64_t sum, stage;
	rig_fill(rig_memory(0), N, 7);
	sum = kv_hash_block(rig_memory(0), N);
	stage = begin("k", N, MIB, sum);
	assert_false(is_there("k"));
	for (unsigned i = 0; i < 7; i++) {
		uint64_t offset = (7 - i) * (uint64_t)MIB;
		q[i] = range("k", stage, N, offset, KV_MIN((uint64_t)MIB, N - offset), sum, i == 0 ? WIRE_PUT_LAST : 0);
	}
	rig_send_records(&frame, q, 7);
	for (unsigned i = 0; i < 7; i++) {
		rig_until(rig_find(q[i].id));
		assert_int_equal(rig_find(q[i].id)->status, WIRE_OK);
	}
	check_stored("k", N, 7);
}

static void the_end_may_be_announced_without_bytes(void **state)
{
	(void)state;
	uint64_t sum, stage;
	rig_fill(rig_memory(0), MIB, 8);
	sum = kv_hash_block(rig_memory(0), MIB);
	stage = begin("k", MIB, MIB, sum);
	struct wire_request end = range("k", stage, MIB, MIB, 0, sum, WIRE_PUT_LAST);
	assert_int_equal(rig_ask(&end)->status, WIRE_OK);
	check_stored("k", MIB, 8);
}

/* While the range that ends the value moves, another request says that it is the end, too: the first has it. */
static void a_value_has_one_end(void **state)
{
	(void)state;
	struct wire_request q[2], cancel = rig_request(WIRE_CANCEL, NULL);
	struct wire_frame frame = rig_frame();
	uint64_t sum, stage;
	rig_fill(rig_memory(0), 2 * MIB, 15);
	sum = kv_hash_block(rig_memory(0), 2 * MIB);
	stage = begin("k", 2 * MIB, MIB, sum);
	q[0] = range("k", stage, 2 * MIB, MIB, MIB, sum, WIRE_PUT_LAST);
	q[1] = range("k", stage, 2 * MIB, 2 * MIB, 0, sum, WIRE_PUT_LAST);
	rig_send_records(&frame, q, 2);
	rig_until(rig_find(q[0].id) && rig_find(q[1].id));
	assert_int_equal(rig_find(q[0].id)->status, WIRE_OK);
	assert_int_equal(rig_find(q[1].id)->status, WIRE_INVALID);
	cancel.cancel.id = q[1].id;
	assert_int_equal(rig_ask(&cancel)->cancel.state, WIRE_CANCEL_DONE);
	assert_int_equal(rig.shard->requests.used, 0);
	check_stored("k", 2 * MIB, 15);
}

/* A value in messages only, as to a server that reads no client memory: every other range is left for later, the end
 * comes early. */
static void inline_ranges_may_come_in_any_order(void **state)
{
	(void)state;
	enum { RANGES = 300, EACH = KV_INLINE_MAX, N = RANGES * EACH };
	static uint8_t value[N];
	unsigned order[RANGES], n = 0;
	uint64_t sum, stage, end = 0;
	rig_fill(value, N, 14);
	sum = kv_hash_block(value, N);
	struct wire_request first = rig_put("k", N, 0, EACH, sum, WIRE_PUT_FIRST);
	first.dest = (struct wire_dest){0};
	first.put.inline_data = (struct wire_bytes){value, EACH};
	stage = rig_ask(&first)->put.stage;
	for (unsigned i = RANGES - 1; i > 1; i -= 2)
		order[n++] = i;
	for (unsigned i = 2; i < RANGES; i += 2)
		order[n++] = i;
	order[n++] = 1;
	assert_int_equal(n, RANGES - 1);
	for (unsigned i = 0; i < n; i++) {
		struct wire_request q = range("k", stage, N, (uint64_t)order[i] * EACH, EACH, sum,
					      order[i] == RANGES - 1 ? WIRE_PUT_LAST : 0);
		q.dest = (struct wire_dest){0};
		q.put.inline_data = (struct wire_bytes){value + (uint64_t)order[i] * EACH, EACH};
		rig.replies = 0;
		if (q.flags & WIRE_PUT_LAST) {
			end = q.id;
			rig_send(&q);
			rig_quiet();
			assert_null(rig_find(end));
		} else if (i < n - 1) {
			assert_int_equal(rig_ask(&q)->status, WIRE_OK);
		} else {
			rig_send(&q);
		}
	}
	rig_until(rig_find(end));
	assert_int_equal(rig_find(end)->status, WIRE_OK);
	check_stored("k", N, 14);
}

static void overlapping_ranges_are_refused(void **state)
{
	(void)state;
	uint64_t sum, stage;
	rig_fill(rig_memory(0), 4 * MIB, 9);
	sum = kv_hash_block(rig_memory(0), 4 * MIB);
	stage = begin("k", 4 * MIB, MIB, sum);
	struct wire_request same = range("k", stage, 4 * MIB, 0, MIB, sum, 0),
			    over = range("k", stage, 4 * MIB, MIB - 1, 2, sum, 0);
	struct wire_request rest = range("k", stage, 4 * MIB, MIB, 3 * MIB, sum, WIRE_PUT_LAST);
	assert_int_equal(rig_ask(&same)->status, WIRE_INVALID);
	assert_int_equal(rig_ask(&over)->status, WIRE_INVALID);
	assert_int_equal(rig_ask(&rest)->status, WIRE_OK);
	check_stored("k", 4 * MIB, 9);
}

static void a_range_must_fit_its_stage(void **state)
{
	(void)state;
	uint64_t stage = begin("k", 4 * MIB, 0, 77);
	struct wire_request unknown = range("k", stage + 2, 4 * MIB, 0, MIB, 77, 0),
			    total = range("k", stage, 5 * MIB, 0, MIB, 77, 0);
	struct wire_request sum = range("k", stage, 4 * MIB, 0, MIB, 78, 0),
			    key = range("j", stage, 4 * MIB, 0, MIB, 77, 0);
	assert_int_equal(rig_ask(&unknown)->status, WIRE_STALE);
	assert_int_equal(rig_ask(&total)->status, WIRE_INVALID);
	assert_int_equal(rig_ask(&sum)->status, WIRE_INVALID);
	assert_int_equal(rig_ask(&key)->status, WIRE_INVALID);
	assert_int_equal(rig.shard->work->stages.used, 1);
}

static void a_failed_range_ends_the_value(void **state)
{
	(void)state;
	uint64_t stage = begin("k", 4 * MIB, 0, 77);
	struct wire_request bad = range("k", stage, 4 * MIB, 0, MIB, 77, 0),
			    good = range("k", stage, 4 * MIB, 0, MIB, 77, 0);
	bad.dest.offset = RIG_BUFFER - 1;
	assert_int_equal(rig_ask(&bad)->status, WIRE_INVALID);
	assert_int_equal(rig_ask(&good)->status, WIRE_STALE);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 0);
}

static void two_puts_of_one_key_the_first_to_end_wins(void **state)
{
	(void)state;
	uint64_t sum_a, sum_b, a, b;
	rig_fill(rig_memory(0), MIB, 10);
	rig_fill(rig_memory(MIB), MIB, 11);
	sum_a = kv_hash_block(rig_memory(0), MIB);
	sum_b = kv_hash_block(rig_memory(MIB), MIB);
	a = begin("k", MIB, 0, sum_a);
	b = begin("k", MIB, 0, sum_b);
	struct wire_request second = range("k", b, MIB, 0, MIB, sum_b, WIRE_PUT_LAST),
			    first = range("k", a, MIB, 0, MIB, sum_a, WIRE_PUT_LAST);
	second.dest.offset = MIB;
	assert_int_equal(rig_ask(&second)->status, WIRE_OK);
	assert_int_equal(rig_ask(&first)->status, WIRE_EXISTS_OTHER);
	check_stored("k", MIB, 11);
}

static void two_equal_puts_both_succeed(void **state)
{
	(void)state;
	uint64_t sum, a, b;
	rig_fill(rig_memory(0), MIB, 12);
	sum = kv_hash_block(rig_memory(0), MIB);
	a = begin("k", MIB, 0, sum);
	b = begin("k", MIB, 0, sum);
	struct wire_request one = range("k", a, MIB, 0, MIB, sum, WIRE_PUT_LAST),
			    two = range("k", b, MIB, 0, MIB, sum, WIRE_PUT_LAST);
	assert_int_equal(rig_ask(&one)->status, WIRE_OK);
	assert_int_equal(rig_ask(&two)->status, WIRE_OK);
	assert_int_equal(rig_find(one.id)->put.generation, rig_find(two.id)->put.generation);
	assert_int_equal(rig_stat(WIRE_STAT_BLOCKS), 1);
}

/* Begin "k", of the first `total` bytes of the client's memory, without a sum. */
static uint64_t begin_unsummed(uint64_t total)
{
	struct wire_request q = rig_put("k", total, 0, 0, 0, WIRE_PUT_FIRST | WIRE_PUT_SUM_LAST);
	q.dest = (struct wire_dest){0};
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	return rig_find(q.id)->put.stage;
}

static int32_t end_with(uint64_t stage, uint64_t total, uint64_t sum)
{
	struct wire_request first = range("k", stage, total, 0, total / 2, 0, 0),
			    last = range("k", stage, total, total / 2, total - total / 2, sum, WIRE_PUT_LAST);
	assert_int_equal(rig_ask(&first)->status, WIRE_OK);
	return rig_ask(&last)->status;
}

static void the_sum_may_come_with_the_end(void **state)
{
	(void)state;
	uint64_t sum;
	struct wire_request shorter = rig_put("k", MIB - 1, 0, 0, 0, WIRE_PUT_FIRST | WIRE_PUT_SUM_LAST);
	rig_fill(rig_memory(0), MIB, 13);
	sum = kv_hash_block(rig_memory(0), MIB);
	assert_int_equal(end_with(begin_unsummed(MIB), MIB, sum ^ 1), WIRE_CORRUPT);
	assert_false(is_there("k"));
	assert_int_equal(end_with(begin_unsummed(MIB), MIB, sum), WIRE_OK);
	check_stored("k", MIB, 13);
	assert_int_equal(end_with(begin_unsummed(MIB), MIB, sum), WIRE_OK); /* the same bytes */
	assert_int_equal(rig_stat(WIRE_STAT_PUT_DUPLICATES), 1);
	*rig_memory(MIB - 1) ^= 1;
	sum = kv_hash_block(rig_memory(0), MIB);
	assert_int_equal(end_with(begin_unsummed(MIB), MIB, sum), WIRE_EXISTS_OTHER);
	check_stored("k", MIB, 13);
	shorter.dest = (struct wire_dest){0};
	assert_int_equal(rig_ask(&shorter)->status, WIRE_EXISTS_OTHER); /* at once */
	assert_int_equal(rig.shard->work->stages.used, 0);
}

/* ---- limits ---- */

static void nothing_and_too_much_are_refused(void **state)
{
	(void)state;
	struct wire_request none = rig_put("k", 0, 0, 0, 0, WHOLE),
			    much = rig_put("k", RIG_MEMORY + 1, 0, 0, 0, WIRE_PUT_FIRST);
	rig.shard->work->refused_lines = (struct kv_rate){.suppressed = 3};
	assert_int_equal(rig_ask(&none)->status, WIRE_INVALID);
	assert_int_equal(rig_ask(&much)->status, WIRE_TOOBIG);
	check_contains(rig.logged, "the limit is 32 MiB");
	check_contains(rig.logged, "--memory-mb divided by --worker-threads");
	check_contains(rig.logged, "(3 more were refused, not shown)");
	check_contains(kv_strerror(-KV_ETOOBIG), "--memory-mb divided by its --worker-threads");
}

static void staging_leaves_room_for_others(void **state)
{
	(void)state;
	begin("a", 12 * MIB, 0, 1); /* half of the memory is what one session may stage */
	struct wire_request over = rig_put("b", 4 * MIB + 1, 0, 0, 1, WIRE_PUT_FIRST),
			    fits = rig_put("c", 4 * MIB, 0, 0, 1, WIRE_PUT_FIRST);
	assert_int_equal(rig_ask(&over)->status, WIRE_BUSY);
	assert_int_equal(rig_ask(&fits)->status, WIRE_OK);
}

static void old_values_make_room_for_new_ones(void **state)
{
	(void)state;
	char key[16];
	for (unsigned i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		rig_store(key, MIB, i);
		assert_true(rig_stat(WIRE_STAT_BYTES_USED) <= rig_stat(WIRE_STAT_BYTES_LIMIT));
	}
	assert_int_equal(rig_stat(WIRE_STAT_BLOCKS), RIG_MEMORY / MIB);
	check_stored("k39", MIB, 39);
}

/* ---- memory that takes time to clear ---- */

/* All of the memory full of values of 1 KiB, as many as there may be. */
static void fill_with_tiny_values(void)
{
	assert_int_equal(rig_tiny_fill(), RIG_TINIES);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), RIG_MEMORY);
}

static struct wire_request large(uint64_t n)
{
	rig_fill(rig_memory(0), n, 21);
	return rig_put("large", n, 0, n, kv_hash_block(rig_memory(0), n), WHOLE);
}

/* No turn of the shard evicts more than a step. */
static void a_large_value_stalls_nobody(void **state)
{
	(void)state;
	uint64_t evicted = rig_stat(WIRE_STAT_EVICTIONS), rooms = rig_stat(WIRE_STAT_ROOMS), before;
	struct wire_request q = large(12 * MIB);
	fill_with_tiny_values();
	before = evicted;
	rig_send(&q);
	while (!rig_find(q.id)) {
		uint64_t now = rig_stat(WIRE_STAT_EVICTIONS);
		assert_in_range(now - before, 0, 2 * STORE_STEPS_AT_ONCE); /* the frame's and the turn's */
		before = now;
		rig_turn();
	}
	assert_int_equal(rig_find(q.id)->status, WIRE_OK);
	check_stored("large", 12 * MIB, 21);
	assert_int_equal(rig_stat(WIRE_STAT_EVICTIONS) - evicted, 12 * MIB / RIG_TINY);
	assert_int_equal(rig_stat(WIRE_STAT_ROOMS) - rooms, 1);
	assert_int_equal(rig.shard->work->waits.used, 0);
}

/* The bytes that came with its first message are kept until there is a place for them. */
static void the_first_bytes_wait_with_their_put(void **state)
{
	enum { N = 4 * MIB, FIRST = 1000 };
	uint64_t rooms = rig_stat(WIRE_STAT_ROOMS);
	(void)state;
	fill_with_tiny_values();
	rig_fill(rig_memory(0), N, 22);
	uint64_t sum = kv_hash_block(rig_memory(0), N);
	struct wire_request first = rig_put("k", N, 0, FIRST, sum, WIRE_PUT_FIRST);
	first.dest = (struct wire_dest){0};
	first.put.inline_data = (struct wire_bytes){rig_memory(0), FIRST};
	assert_int_equal(rig_ask(&first)->status, WIRE_OK);
	struct wire_request rest = range("k", rig_find(first.id)->put.stage, N, FIRST, N - FIRST, sum, WIRE_PUT_LAST);
	assert_int_equal(rig_ask(&rest)->status, WIRE_OK);
	check_stored("k", N, 22);
	assert_int_equal(rig_stat(WIRE_STAT_ROOMS) - rooms, 1);
}

/* Turn until memory was claimed for the value that waits. */
static void until_claimed(void)
{
	rig_until(rig.shard->store.rooms.used && rig.shard->store.blocks.used < RIG_TINIES);
}

static void a_put_that_waits_for_memory_can_be_cancelled(void **state)
{
	(void)state;
	struct wire_request q = large(12 * MIB), cancel = rig_request(WIRE_CANCEL, NULL);
	fill_with_tiny_values();
	rig_send(&q);
	until_claimed();
	cancel.cancel.id = q.id;
	rig_send(&cancel);
	rig_until(rig_find(cancel.id) && rig_find(q.id));
	if (rig_find(q.id)->status == WIRE_CANCELED)
		assert_false(is_there("large"));
	assert_int_equal(rig.shard->work->waits.used + rig.shard->store.rooms.used, 0);
	assert_int_equal(rig_stat(WIRE_STAT_STAGED_BYTES), 0);
}

static void a_put_that_waits_for_memory_ends_with_its_session(void **state)
{
	(void)state;
	struct wire_request q = large(12 * MIB);
	fill_with_tiny_values();
	rig_send(&q);
	until_claimed();
	rig_attachment_end();
	assert_int_equal(rig.shard->work->waits.used + rig.shard->store.rooms.used, 0);
	assert_int_equal(rig_stat(WIRE_STAT_STAGED_BYTES), 0);
}

/* Readers hold whatever could be cleared from some point on: the value waits for them, until its time is over. Others
 * are answered meanwhile. */
static void a_put_that_waits_for_readers_waits_no_longer_than_it_said(void **state)
{
	(void)state;
	struct wire_request q = large(12 * MIB), ping = rig_request(WIRE_PING, NULL);
	fill_with_tiny_values();
	q.time_left_us = 2000000;
	rig_send(&q);
	until_claimed();
	for (unsigned i = 0; i < RIG_TINIES; i++)
		if (rig_tiny(i))
			block_ref(rig_tiny(i));
	assert_int_equal(rig_ask(&ping)->status, WIRE_OK);
	assert_null(rig_find(q.id));
	rig_until(rig_find(q.id));
	assert_int_equal(rig_find(q.id)->status, WIRE_TIMEOUT);
	assert_int_equal(rig_stat(WIRE_STAT_STAGED_BYTES), 0);
	for (unsigned i = 0; i < RIG_TINIES; i++)
		if (rig_tiny(i))
			block_unref(&rig.shard->store, rig_tiny(i));
}

/* What waits for memory counts as what is being written: one session has so many of both, whatever memory there is. */
static void a_session_has_so_many_puts_under_way(void **state)
{
	struct wire_request q = large(12 * MIB), more = rig_put("more", 2 * MIB, 0, 0, 1, WIRE_PUT_FIRST);
	(void)state;
	fill_with_tiny_values();
	rig.attachment->stage_count += ATTACHMENT_STAGES_MAX - 1; /* as if there were */
	rig_send(&q);
	rig_send(&more);
	rig_until(rig_find(more.id));
	assert_int_equal(rig_find(more.id)->status, WIRE_BUSY);
	rig_until(rig_find(q.id));
	assert_int_equal(rig_find(q.id)->status, WIRE_OK);
	rig.attachment->stage_count -= ATTACHMENT_STAGES_MAX - 1;
	assert_int_equal(rig.attachment->stage_count, 0);
}

/* A value of so many MiB, straight into the store; its block is there before it is committed. */
static struct block *lay(const char *key, unsigned mib, bool commit)
{
	struct store *s = &rig.shard->store;
	struct block *b, *holder;
	struct room *room;
	assert_int_equal(store_stage(s, key, strlen(key), mib * (uint64_t)MIB, ARENA_LOW, &b, &room), 0);
	if (!commit)
		return b;
	assert_int_equal(store_commit(s, b, 1, KV_NEVER, 0, &holder), 0);
	block_unref(s, b);
	return b;
}

/* No 12 MiB lie together without one of two values that are being written. One of them is stored, so it can go. */
static void a_put_that_waits_for_a_value_being_written_goes_on_when_it_is_stored(void **state)
{
	struct store *s = &rig.shard->store;
	struct wire_request q = large(12 * MIB), ping = rig_request(WIRE_PING, NULL);
	struct block *in[2], *holder;
	(void)state;
	lay("a", 10, true);
	in[0] = lay("in0", 4, false);
	lay("b", 8, true);
	in[1] = lay("in1", 4, false);
	lay("c", 6, true);
	rig_send(&q);
	rig_until(!kv_list_empty(&rig.shard->work->rooms[WAIT_QUEUED]));
	assert_int_equal(rig_ask(&ping)->status, WIRE_OK);
	assert_null(rig_find(q.id));
	assert_true(is_there("a") && is_there("b") && is_there("c"));
	assert_int_equal(store_commit(s, in[0], 1, KV_NEVER, 0, &holder), 0);
	block_unref(s, in[0]);
	rig_until(rig_find(q.id));
	assert_int_equal(rig_find(q.id)->status, WIRE_OK);
	check_stored("large", 12 * MIB, 21);
	store_drop(s, in[1]);
	block_unref(s, in[1]);
}

/* As many values as there may be, all in use, and half of the memory free: what is said of it names the option. */
static void a_put_that_finds_too_many_values_names_the_option(void **state)
{
	struct store *s = &rig.shard->store;
	struct wire_request q = rig_put("one more", 100, 0, 100, 1, WHOLE);
	struct block *b[RIG_TINIES], *holder;
	struct room *room;
	char key[16];
	(void)state;
	assert_int_equal(s->blocks_max, RIG_TINIES);
	for (unsigned i = 0; i < RIG_TINIES; i++) {
		rig_tiny_key(key, i);
		assert_int_equal(store_stage(s, key, strlen(key), RIG_TINY / 2, ARENA_LOW, &b[i], &room), 0);
		assert_int_equal(store_commit(s, b[i], i, KV_NEVER, 0, &holder), 0);
	}
	rig.logged[0] = 0;
	rig.shard->work->refused_lines = (struct kv_rate){0};
	assert_int_equal(rig_ask(&q)->status, WIRE_NOMEM);
	check_contains(rig.logged, "--max-values");
	for (unsigned i = 0; i < RIG_TINIES; i++)
		block_unref(s, b[i]);
}

/* Half of the memory pinned: what may be staged is what leaves an eighth; then no more may be pinned. */
static void pins_and_stages_together_leave_room(void **state)
{
	(void)state;
	struct store *s = &rig.shard->store;
	struct wire_request over = rig_put("b", 12 * MIB + 1, 0, 0, 1, WIRE_PUT_FIRST),
			    pin = rig_request(WIRE_PIN, "t30000");
	uint64_t evicted = rig_stat(WIRE_STAT_EVICTIONS);
	rig.shard->work->refused_lines = (struct kv_rate){0};
	struct pins pins;
	pins_init(&pins);
	fill_with_tiny_values();
	for (unsigned i = 0; i < RIG_TINIES / 2; i++)
		assert_int_equal(pins_add(s, &pins, rig_tiny(i), UINT64_MAX, UINT64_MAX), 0);
	assert_int_equal(rig_ask(&over)->status, WIRE_NOMEM); /* 16 pinned and 12 staged are 28 of 32 MiB */
	assert_int_equal(rig_stat(WIRE_STAT_EVICTIONS), evicted);
	check_contains(rig.logged, "16 MiB are pinned");
	check_contains(kv_strerror(-KV_ENOMEM), "pinned");
	begin("a", 12 * MIB, 0, 1);
	pins_remove(s, &pins, rig_tiny(0));
	assert_int_equal(rig_ask(&pin)->status, WIRE_OK);
	pin = rig_request(WIRE_PIN, "t30001");
	assert_int_equal(rig_ask(&pin)->status, WIRE_BUSY);
	pins_leave(s, &pins);
	pins_drop_all(s);
}

/* ---- the same value again ---- */

static void the_same_bytes_again_extend_the_time_and_are_a_use(void **state)
{
	(void)state;
	struct wire_request q = rig_put("k", 5, 0, 5, kv_hash_block("hello", 5), WHOLE);
	struct block *b;
	uint64_t expires;
	q.dest = (struct wire_dest){0};
	q.put.inline_data = (struct wire_bytes){(const uint8_t *)"hello", 5};
	q.put.ttl_s = 2;
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	b = store_find(&rig.shard->store, "k", 1, 0);
	expires = b->expire.when_ns;
	assert_int_equal(b->evict.hits, 0);
	struct wire_request again = q;
	again.id = rig_request(WIRE_PUT, "k").id;
	again.put.ttl_s = 3600;
	assert_int_equal(rig_ask(&again)->status, WIRE_OK);
	assert_true(b->expire.when_ns >= expires + 3500 * 1000000000ull);
	assert_int_equal(b->evict.hits, 1);
	expires = b->expire.when_ns;
	again.id = rig_request(WIRE_PUT, "k").id; /* a shorter time changes nothing, none at all is the longest */
	again.put.ttl_s = 1;
	assert_int_equal(rig_ask(&again)->status, WIRE_OK);
	assert_int_equal(b->expire.when_ns, expires);
	again.id = rig_request(WIRE_PUT, "k").id;
	again.put.ttl_s = 0;
	assert_int_equal(rig_ask(&again)->status, WIRE_OK);
	assert_true(b->expire.when_ns == KV_NEVER);
	again.id = rig_request(WIRE_PUT, "k").id; /* other bytes change nothing */
	again.put.checksum++;
	again.put.ttl_s = 5;
	assert_int_equal(rig_ask(&again)->status, WIRE_EXISTS_OTHER);
	assert_true(b->expire.when_ns == KV_NEVER);
}

/* ---- the end of stages ---- */

static void a_session_that_ends_takes_its_stages_along(void **state)
{
	(void)state;
	begin("k", 4 * MIB, 0, 77);
	assert_int_equal(rig.shard->store.staged_bytes, 4 * MIB);
	rig_attachment_end();
	assert_int_equal(rig.shard->store.staged_bytes, 0);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 0);
}

static void a_session_may_end_with_reads_in_flight(void **state)
{
	(void)state;
	struct wire_request q = rig_put("k", 16 * MIB, 0, 16 * MIB, 5, WHOLE);
	rig_send(&q);
	rig_until(rig.shard->requests.used > 0);
	rig_attachment_end();
	assert_false(is_there("k"));
}

static void a_stage_without_progress_is_given_up(void **state)
{
	(void)state;
	struct wire_request first = rig_put("k", MIB, 0, 0, 77, WIRE_PUT_FIRST);
	first.time_left_us = UINT32_MAX;
	assert_int_equal(rig_ask(&first)->status, WIRE_OK);
	struct wire_request late = range("k", rig_find(first.id)->put.stage, MIB, 0, MIB, 77, 0);
	stages_tick(rig.attachment, loop_now(rig.loop) + SHARD_STAGE_IDLE_NS - 1000000000);
	assert_int_equal(rig.shard->work->stages.used, 1);
	stages_tick(rig.attachment, loop_now(rig.loop) + SHARD_STAGE_IDLE_NS + 1000000000);
	assert_int_equal(rig.shard->work->stages.used, 0);
	assert_int_equal(rig_ask(&late)->status, WIRE_STALE);
}

/* A range of the value was lost on its way, so no CANCEL comes; but the call that wanted it is over. */
static void a_stage_is_freed_when_its_call_is_over(void **state)
{
	(void)state;
	struct wire_request first = rig_put("k", 4 * MIB, 0, 0, 77, WIRE_PUT_FIRST);
	first.time_left_us = 1000000;
	assert_int_equal(rig_ask(&first)->status, WIRE_OK);
	struct wire_request more = range("k", rig_find(first.id)->put.stage, 4 * MIB, 0, MIB, 77, 0);
	more.time_left_us = 3000000; /* the latest of them counts */
	assert_int_equal(rig_ask(&more)->status, WIRE_OK);
	uint64_t now = loop_now(rig.loop);
	stages_tick(rig.attachment, now + 2500000000);
	assert_int_equal(rig_stat(WIRE_STAT_STAGED_BYTES), 4 * MIB);
	stages_tick(rig.attachment, now + 3000000000);
	assert_int_equal(rig_stat(WIRE_STAT_STAGED_BYTES), 0);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 0);
	assert_int_equal(rig_stat(WIRE_STAT_STAGES_EXPIRED), 1);
}

static void an_end_that_waits_for_ranges_times_out(void **state)
{
	(void)state;
	struct wire_request first = rig_put("k", MIB, 0, 0, 77, WIRE_PUT_FIRST);
	first.time_left_us = 500000;
	assert_int_equal(rig_ask(&first)->status, WIRE_OK);
	struct wire_request end = range("k", rig_find(first.id)->put.stage, MIB, MIB, 0, 77, WIRE_PUT_LAST);
	end.time_left_us = 500000;
	assert_int_equal(rig_ask(&end)->status, WIRE_TIMEOUT);
	assert_int_equal(rig.shard->work->stages.used, 0);
}

static void cancelled_before_commit_is_never_visible(void **state)
{
	(void)state;
	uint64_t sum, stage;
	rig_fill(rig_memory(0), MIB, 13);
	sum = kv_hash_block(rig_memory(0), MIB);
	stage = begin("k", MIB, MIB / 2, sum);
	struct wire_request end = range("k", stage, MIB, MIB, 0, sum, WIRE_PUT_LAST),
			    rest = range("k", stage, MIB, MIB / 2, MIB / 2, sum, 0);
	struct wire_request cancel = rig_request(WIRE_CANCEL, NULL);
	rig_send(&end);
	rig_quiet();
	cancel.cancel.id = end.id;
	assert_int_equal(rig_ask(&cancel)->cancel.state, WIRE_CANCEL_STOPPED);
	assert_int_equal(rig_find(cancel.id)->cancel.posted, 0);
	rig_until(rig_find(end.id));
	assert_int_equal(rig_find(end.id)->status, WIRE_CANCELED);
	assert_int_equal(rig_ask(&rest)->status, WIRE_STALE);
	assert_false(is_there("k"));
}

static void a_put_cancelled_in_flight_is_answered_when_nothing_moves(void **state)
{
	(void)state;
	struct wire_request q = rig_put("k", 16 * MIB, 0, 16 * MIB, 5, WHOLE), cancel = rig_request(WIRE_CANCEL, NULL);
	rig_send(&q);
	rig_until(rig.shard->requests.used > 0);
	cancel.cancel.id = q.id;
	rig_send(&cancel);
	rig_until(rig_find(cancel.id) && rig_find(q.id));
	assert_int_equal(rig_find(cancel.id)->cancel.state, WIRE_CANCEL_STOPPED);
	assert_int_equal(rig_find(q.id)->status, WIRE_CANCELED);
	assert_int_equal(rig.shard->requests.used, 0);
	assert_false(is_there("k"));
}

#define PUT_TEST(f) cmocka_unit_test_setup_teardown(f, rig_open, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PUT_TEST(a_whole_value_is_read_from_the_client),
		PUT_TEST(a_small_value_travels_in_the_request),
		PUT_TEST(slices_are_gathered_in_order),
		PUT_TEST(a_wrong_checksum_is_corrupt_and_invisible),
		PUT_TEST(a_small_wrong_checksum_is_corrupt_too),
		PUT_TEST(the_same_bytes_again_succeed_without_being_read),
		PUT_TEST(other_bytes_under_the_key_are_refused),
		PUT_TEST(a_copy_of_what_was_deleted_is_refused),
		PUT_TEST(a_spare_copy_takes_nobodys_place),
		PUT_TEST(a_copy_under_way_when_its_key_is_deleted_is_refused),
		PUT_TEST(of_two_values_the_younger_one_stays),
		PUT_TEST(a_copy_from_the_future_is_born_now),
		PUT_TEST(a_put_that_waited_is_as_old_as_the_standstill),
		PUT_TEST(a_copy_lengthens_no_life),
		PUT_TEST(a_delete_may_be_of_one_value_alone),
		PUT_TEST(only_a_young_value_is_given_to_those_who_want_one),
		PUT_TEST(ranges_may_come_in_any_order),
		PUT_TEST(the_end_may_be_announced_without_bytes),
		PUT_TEST(a_value_has_one_end),
		PUT_TEST(inline_ranges_may_come_in_any_order),
		PUT_TEST(overlapping_ranges_are_refused),
		PUT_TEST(a_range_must_fit_its_stage),
		PUT_TEST(a_failed_range_ends_the_value),
		PUT_TEST(two_puts_of_one_key_the_first_to_end_wins),
		PUT_TEST(two_equal_puts_both_succeed),
		PUT_TEST(the_sum_may_come_with_the_end),
		PUT_TEST(nothing_and_too_much_are_refused),
		PUT_TEST(staging_leaves_room_for_others),
		PUT_TEST(old_values_make_room_for_new_ones),
		PUT_TEST(a_large_value_stalls_nobody),
		PUT_TEST(the_first_bytes_wait_with_their_put),
		PUT_TEST(a_put_that_waits_for_memory_can_be_cancelled),
		PUT_TEST(a_put_that_waits_for_memory_ends_with_its_session),
		PUT_TEST(a_put_that_waits_for_readers_waits_no_longer_than_it_said),
		PUT_TEST(a_session_has_so_many_puts_under_way),
		PUT_TEST(a_put_that_waits_for_a_value_being_written_goes_on_when_it_is_stored),
		PUT_TEST(a_put_that_finds_too_many_values_names_the_option),
		PUT_TEST(pins_and_stages_together_leave_room),
		PUT_TEST(the_same_bytes_again_extend_the_time_and_are_a_use),
		PUT_TEST(a_session_that_ends_takes_its_stages_along),
		PUT_TEST(a_session_may_end_with_reads_in_flight),
		PUT_TEST(a_stage_without_progress_is_given_up),
		PUT_TEST(a_stage_is_freed_when_its_call_is_over),
		PUT_TEST(an_end_that_waits_for_ranges_times_out),
		PUT_TEST(cancelled_before_commit_is_never_visible),
		PUT_TEST(a_put_cancelled_in_flight_is_answered_when_nothing_moves),
	};
	return cmocka_run_group_tests_name("kvserver/put", tests, rig_up, rig_down);
}
