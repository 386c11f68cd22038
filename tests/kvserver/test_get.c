/* SPDX-License-Identifier: Apache-2.0 */
/* test_get.c -- GET against a real engine: bytes, counts, ranges, slices, and what is refused. */
#include "rig.h"

enum { CHUNK = 1 << 20 };

static void a_missing_key_is_not_found(void **state)
{
	(void)state;
	struct wire_request q = rig_get("nothing", 0, 100);
	const struct wire_reply *r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_NOTFOUND);
	assert_int_equal(r->get.posted, 0);
	assert_int_equal(rig_stat(WIRE_STAT_MISSES), 1);
}

/* The whole of a value by push: every chunk is one immediate, and `posted` says how many. */
static void get_whole(uint64_t n)
{
	uint64_t sum = rig_store("k", n, n);
	struct wire_request q = rig_get("k", 0, n);
	const struct wire_reply *r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(r->get.value_len, n);
	assert_int_equal(r->get.checksum, sum);
	assert_int_equal(r->get.posted, (n + CHUNK - 1) / CHUNK);
	rig_until(rig.immediates == r->get.posted);
	if (rig.follows == 0)
		assert_int_equal(rig.last_immediate, wire_imm(3, 5));
	assert_int_equal(kv_hash_block(rig_memory(0), n), sum);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_READ), n);
}

static void a_byte_is_pushed(void **state)
{
	(void)state;
	get_whole(1);
}

static void a_block_of_64_KiB_is_pushed(void **state)
{
	(void)state;
	get_whole(65536);
}

static void a_value_of_many_chunks_is_pushed(void **state)
{
	(void)state;
	get_whole(5 * CHUNK + 12345);
}

/* One chunk to one place, on a fabric that keeps a message behind a write: the reply is the announcement. Everything
 * else is announced by immediates. */
static void a_reply_follows_a_write_that_is_one_chunk(void **state)
{
	(void)state;
	struct te_info info;
	struct wire_request q;
	uint64_t followed;
	te_info(rig.shard->te, &info);
	rig_store("k", CHUNK, 1);
	rig_store("l", CHUNK + 1, 2);
	q = rig_get("k", 0, CHUNK);
	rig_ask(&q);
	followed = rig.follows;
	assert_int_equal(followed, info.ordered);
	q = rig_get("k", 4096, 65536);
	rig_ask(&q);
	assert_int_equal(rig.follows, 2 * followed);
	assert_memory_equal(
		rig_memory(0),
		store_data(&rig.shard->store, store_find(&rig.shard->store, (const uint8_t *)"k", 1, 0)) + 4096, 65536);
	q = rig_get("l", 0, CHUNK + 1); /* two chunks */
	rig_ask(&q);
	q = rig_get("k", 0, 65536); /* two places */
	q.dest = (struct wire_dest){q.dest.region, 2, 0, 65536, 32768};
	rig_ask(&q);
	assert_int_equal(rig.follows, 2 * followed);
	rig_until(rig.immediates == 2 + 2 + 2);
}

/* Nothing but the reply itself says that its bytes are there. */
static void a_late_cancel_does_not_speak_for_a_reply_that_follows(void **state)
{
	(void)state;
	struct wire_request q = rig_get("k", 0, 65536), cancel = rig_request(WIRE_CANCEL, NULL);
	rig_store("k", 65536, 1);
	rig_ask(&q);
	cancel.cancel.id = q.id;
	assert_int_equal(rig_ask(&cancel)->cancel.state, WIRE_CANCEL_DONE);
	assert_int_equal(rig_find(cancel.id)->cancel.posted, rig.follows ? UINT32_MAX : 1);
}

static void a_small_value_comes_inside_the_reply(void **state)
{
	(void)state;
	uint8_t want[KV_INLINE_MAX];
	uint64_t sum = rig_store("k", KV_INLINE_MAX, 1);
	struct wire_request q = rig_get("k", 0, KV_INLINE_MAX);
	const struct wire_reply *r;
	q.flags = WIRE_GET_INLINE;
	r = rig_ask(&q);
	rig_fill(want, sizeof(want), 1);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(r->get.posted, 0);
	assert_int_equal(r->get.checksum, sum);
	assert_int_equal(r->get.inline_data.len, KV_INLINE_MAX);
	assert_memory_equal(r->get.inline_data.data, want, KV_INLINE_MAX);
	rig_quiet();
	assert_int_equal(rig.immediates, 0);
}

static void a_range_carries_its_own_checksum_if_asked(void **state)
{
	(void)state;
	static uint8_t want[3 * CHUNK];
	uint64_t whole = rig_store("k", sizeof(want), 2), offset = 777, n = 2 * CHUNK + 99;
	struct wire_request q = rig_get("k", offset, n), plain = rig_get("k", offset, n);
	const struct wire_reply *r;
	rig_fill(want, sizeof(want), 2);
	q.flags = WIRE_GET_SUM_RANGE;
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(r->get.checksum, kv_hash_block(want + offset, n));
	rig_until(rig.immediates == r->get.posted);
	assert_memory_equal(rig_memory(0), want + offset, n);
	assert_int_equal(rig_ask(&plain)->get.checksum, whole);
}

static void a_range_is_cut_at_the_end_of_the_value(void **state)
{
	(void)state;
	uint8_t want[1000];
	rig_store("k", 1000, 3);
	struct wire_request q = rig_get("k", 900, 500), at_end = rig_get("k", 1000, 500),
			    beyond = rig_get("k", 1001, 500);
	rig_fill(want, sizeof(want), 3);
	memset(rig_memory(0), 0xEE, 500);
	assert_int_equal(rig_ask(&q)->get.posted, 1);
	rig_until(rig.immediates == 1);
	assert_memory_equal(rig_memory(0), want + 900, 100);
	assert_int_equal(*rig_memory(100), 0xEE);
	assert_int_equal(rig_ask(&at_end)->status, WIRE_OK);
	assert_int_equal(rig_find(at_end.id)->get.posted, 0);
	assert_int_equal(rig_ask(&beyond)->status, WIRE_INVALID);
}

/* One value into many slices, the last one only partly filled, and nothing written between them. */
static void slices_are_filled_in_order(void **state)
{
	(void)state;
	enum { N = 10000, SLICE = 1500, STRIDE = 4096 };
	uint8_t want[N];
	struct wire_request q;
	const struct wire_reply *r;
	rig_store("k", N, 4);
	rig_fill(want, N, 4);
	memset(rig_memory(0), 0xEE, 16 * STRIDE);
	q = rig_get("k", 0, N);
	q.dest = (struct wire_dest){.region = 1, .count = 8, .offset = 64, .stride = STRIDE, .slice = SLICE};
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(r->get.posted, 7);
	rig_until(rig.immediates == 7);
	for (unsigned i = 0; i < 7; i++) {
		uint64_t n = KV_MIN((uint64_t)SLICE, (uint64_t)N - i * SLICE);
		assert_memory_equal(rig_memory(64 + i * STRIDE), want + i * SLICE, n);
		assert_int_equal(*rig_memory(64 + i * STRIDE + n), 0xEE);
	}
	assert_int_equal(*rig_memory(64 + 7 * STRIDE), 0xEE);
}

static void a_destination_too_small_tells_the_length(void **state)
{
	(void)state;
	rig_store("k", 5000, 5);
	struct wire_request size = rig_get("k", 0, 0), small = rig_get("k", 0, 0);
	const struct wire_reply *r;
	size.dest = (struct wire_dest){0};
	r = rig_ask(&size);
	assert_int_equal(r->status, WIRE_TOOBIG);
	assert_int_equal(r->get.value_len, 5000);
	assert_true(r->get.generation != 0);
	assert_int_equal(r->get.posted, 0);
	small.dest = (struct wire_dest){.region = 1, .count = 1, .slice = 4999};
	assert_int_equal(rig_ask(&small)->status, WIRE_TOOBIG);
	small = rig_get("k", 0, 0);
	small.dest = (struct wire_dest){.region = 1, .count = 1, .slice = 5000};
	assert_int_equal(rig_ask(&small)->status, WIRE_OK);
	rig_until(rig.immediates == 1);
}

static void another_generation_is_stale(void **state)
{
	(void)state;
	rig_store("k", 5000, 6);
	struct wire_request q = rig_get("k", 0, 5000), again;
	uint64_t generation = rig_ask(&q)->get.generation;
	again = rig_get("k", 0, 5000);
	again.get.generation = generation;
	assert_int_equal(rig_ask(&again)->status, WIRE_OK);
	rig_until(rig.immediates == 2);
	again = rig_get("k", 0, 5000);
	again.get.generation = generation + 1;
	assert_int_equal(rig_ask(&again)->status, WIRE_STALE);
	assert_int_equal(rig_find(again.id)->get.posted, 0);
}

static void destinations_outside_the_region_are_refused(void **state)
{
	(void)state;
	rig_store("k", 5000, 7);
	const struct wire_dest bad[] = {
		{.region = 2, .count = 1, .slice = 5000},
		{.region = 0, .count = 1, .slice = 5000},
		{.region = 1, .count = 1, .offset = RIG_BUFFER - 4999, .slice = 5000},
		{.region = 1, .count = 1, .offset = UINT64_MAX - 6000, .slice = 5000},
		{.region = 1, .count = 5, .offset = 0, .stride = RIG_BUFFER / 4, .slice = 1000},
		{.region = 1, .count = 5, .offset = 0, .stride = 500, .slice = 1000}, /* overlapping slices */
		{.region = 1, .count = 2, .stride = 1ull << 62, .slice = 5000},
		{.region = 1, .count = REQUEST_SLICES_MAX + 1, .stride = 1, .slice = 1},
	};
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct wire_request q = rig_get("k", 0, 5000);
		q.dest = bad[i];
		assert_int_equal(rig_ask(&q)->status, WIRE_INVALID);
		assert_int_equal(rig_find(q.id)->get.posted, 0);
	}
	struct wire_request last = rig_get("k", 0, 5000);
	last.dest.offset = RIG_BUFFER - 5000;
	assert_int_equal(rig_ask(&last)->status, WIRE_OK);
	rig_until(rig.immediates == 1);
}

/* Where the value of a request lies: in its destination, or before it. */
static const uint8_t *value_at(const struct wire_request *q)
{
	return rig_memory(q->dest.offset) - rig_find(q->id)->get.before;
}

/* Small values to destinations side by side are one write, and so are the values: no byte between them is moved. */
static void small_values_side_by_side_are_one_write(void **state)
{
	enum { N = 12, SLOT = 4096 };
	static const uint32_t len[N] = {4096, 4000, 1, 4096, 0, 4096, 3000, 5000, 4096, 100, 4096, 2000};
	static char key[N][8];
	struct wire_request q[N];
	struct wire_frame frame;
	struct te_info info;
	uint64_t writes = rig_stat(WIRE_STAT_WRITES), sum[N], moved = 0, written = 0;
	(void)state;
	te_info(rig.shard->te, &info);
	for (unsigned i = 0; i < N; i++) {
		snprintf(key[i], sizeof(key[i]), "k%u", i);
		if (len[i])
			sum[i] = rig_store(key[i], len[i], i);
		q[i] = rig_get(key[i], 0, SLOT);
		q[i].flags = WIRE_GET_PACK;
		q[i].dest.offset = (1 + i + (i >= 6)) * SLOT; /* there is a gap before the seventh */
		q[i].dest.slice = SLOT;
		q[i].get.length = i == 3 ? 1000 : SLOT;
	}
	q[3].flags |= WIRE_GET_SUM_RANGE;
	memset(rig_memory(0), 0xAA, (N + 3) * SLOT);
	writes = rig_stat(WIRE_STAT_WRITES);
	frame = rig_frame();
	rig_send_records(&frame, q, N);
	for (unsigned i = 0; i < N; i++)
		rig_until(rig_find(q[i].id));
	rig_quiet();
	/* 0 to 3; 5, for the fourth is not there; 6 and 7, which is asked for in part; 8 to 11. */
	if (info.ordered)
		assert_int_equal(rig_stat(WIRE_STAT_WRITES) - writes, 3);
	for (unsigned i = 0; i < N; i++) {
		const struct wire_reply *r = rig_find(q[i].id);
		const uint8_t *at = value_at(&q[i]);
		uint32_t n = (uint32_t)KV_MIN((uint64_t)len[i], q[i].get.length);
		assert_int_equal(r->status, len[i] ? WIRE_OK : WIRE_NOTFOUND);
		assert_int_equal(r->get.before != 0, (r->flags & WIRE_GET_PACK) != 0);
		if (len[i] == 0)
			continue;
		moved += n;
		/* The first of each write has its own place, and so have those behind full ones. */
		if (info.ordered && (i == 2 || i == 3 || i >= 7))
			assert_true(r->get.before > 0);
		else
			assert_int_equal(r->get.before, 0);
		assert_int_equal(r->get.value_len, len[i]);
		if (n == len[i])
			assert_int_equal(kv_hash_block(at, n), sum[i]);
		if (n == len[i] || i == 3)
			assert_int_equal(kv_hash_block(at, n), r->get.checksum);
	}
	for (unsigned k = 0; k < (N + 3) * SLOT; k++)
		written += rig_memory(0)[k] != 0xAA;
	assert_in_range(written, moved - moved / 64, moved); /* (some bytes of values are 0xAA, too) */
	/* Nothing else was touched: before, in the gap, and behind. */
	for (unsigned k = 0; k < SLOT; k++)
		assert_true(rig_memory(0)[k] == 0xAA && rig_memory(7 * SLOT)[k] == 0xAA &&
			    rig_memory((N + 2) * SLOT)[k] == 0xAA);
	for (unsigned k = 0; k < SLOT; k++)
		assert_int_equal(rig_memory(5 * SLOT)[k], 0xAA); /* of the value that is not there */
}

/* What a CANCEL finds in its own frame has not been written yet, and will be: its answer must not say that nothing was.
 */
static void a_cancel_behind_a_packed_get_does_not_call_its_memory_safe(void **state)
{
	(void)state;
	struct wire_request q[3];
	struct wire_frame frame;
	struct te_info info;
	te_info(rig.shard->te, &info);
	rig_store("k", 4096, 1);
	for (unsigned i = 0; i < 2; i++) {
		q[i] = rig_get("k", 0, 4096);
		q[i].flags = WIRE_GET_PACK;
		q[i].dest.offset = i * 4096;
		q[i].dest.slice = 4096;
	}
	q[2] = rig_request(WIRE_CANCEL, NULL);
	q[2].cancel.id = q[0].id;
	frame = rig_frame();
	rig_send_records(&frame, q, KV_COUNT(q));
	for (unsigned i = 0; i < KV_COUNT(q); i++)
		rig_until(rig_find(q[i].id));
	assert_int_equal(rig_find(q[0].id)->status, WIRE_OK);
	assert_int_equal(rig_find(q[2].id)->status, WIRE_OK);
	assert_int_equal(rig_find(q[2].id)->cancel.state, WIRE_CANCEL_DONE);
	assert_int_equal(rig_find(q[2].id)->cancel.posted, info.ordered ? UINT32_MAX : 1);
}

static void many_gets_at_once_all_arrive(void **state)
{
	(void)state;
	struct wire_request q[RIG_CREDITS];
	struct wire_frame frame;
	uint64_t sum[RIG_CREDITS], posted = 0;
	char key[16];
	for (unsigned i = 0; i < RIG_CREDITS; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		sum[i] = rig_store(key, 500000 + i, i);
	}
	for (unsigned i = 0; i < RIG_CREDITS; i++) {
		static char name[RIG_CREDITS][16];
		snprintf(name[i], sizeof(name[i]), "k%u", i);
		q[i] = rig_get(name[i], 0, 500000 + i);
		q[i].dest.offset = i * 1000000;
	}
	frame = rig_frame();
	rig_send_records(&frame, q, RIG_CREDITS);
	for (unsigned i = 0; i < RIG_CREDITS; i++) {
		rig_until(rig_find(q[i].id));
		assert_int_equal(rig_find(q[i].id)->status, WIRE_OK);
		posted += rig_find(q[i].id)->get.posted;
	}
	rig_until(rig.immediates == posted);
	for (unsigned i = 0; i < RIG_CREDITS; i++)
		assert_int_equal(kv_hash_block(rig_memory(i * 1000000), 500000 + i), sum[i]);
}

static void a_session_may_end_with_a_get_in_flight(void **state)
{
	(void)state;
	rig_store("k", 16 << 20, 8);
	struct wire_request q = rig_get("k", 0, 16 << 20);
	rig_send(&q);
	rig_until(rig.shard->requests.used > 0 || rig_find(q.id));
	rig_attachment_end();
	assert_int_equal(rig.shard->requests.used, 0);
}

static void deleting_what_is_being_read_changes_nothing_for_the_reader(void **state)
{
	(void)state;
	uint64_t n = 16 << 20, sum = rig_store("k", n, 9);
	struct wire_request q[2] = {rig_get("k", 0, n), rig_request(WIRE_DELETE, "k")}, miss = rig_get("k", 0, n);
	struct wire_frame frame = rig_frame();
	const struct wire_reply *r;
	rig_send_records(&frame, q, 2);
	rig_until(rig_find(q[0].id) && rig_find(q[1].id));
	r = rig_find(q[0].id);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(rig_find(q[1].id)->status, WIRE_OK);
	rig_until(rig.immediates == r->get.posted);
	assert_int_equal(kv_hash_block(rig_memory(0), n), sum);
	assert_int_equal(rig_ask(&miss)->status, WIRE_DELETED);
	rig_until(rig.shard->store.gone_bytes == 0);
}

/* ---- values that are asked for often ---- */

/* Nobody was asked for yet, and the window of now never ends (heat.h: its begin is far away). */
static int hot_open(void **state)
{
	int rc = rig_open(state);
	rig.shard->work->heat = (struct heat){.began_ns = KV_NEVER};
	return rc;
}

static int hot_close(void **state)
{
	rig.shard->work->heat = (struct heat){.began_ns = 0};
	return rig_close(state);
}

static bool hot(const struct wire_request *q, int32_t status)
{
	const struct wire_reply *r = rig_ask(q);
	assert_int_equal(r->status, status);
	return r->flags & WIRE_GET_HOT;
}

static struct wire_request get_inline(const char *key)
{
	struct wire_request q = rig_get(key, 0, 1000);
	q.flags = WIRE_GET_INLINE;
	return q;
}

/* Store a value of n bytes, and ask for its first ones until the next GET will be told that it is hot. */
static void heat_up(const char *key, uint64_t n)
{
	rig_store(key, n, 1);
	for (unsigned i = 1; i < HEAT_GETS_MIN; i++) {
		struct wire_request q = get_inline(key);
		assert_false(hot(&q, WIRE_OK));
	}
	rig.replies = 0;
}

static void the_64th_get_of_a_key_says_that_it_is_hot(void **state)
{
	struct wire_request q, other;
	(void)state;
	rig_store("other", 1000, 2);
	heat_up("k", 1000);
	for (unsigned i = 0; i < 50; i++) {
		q = get_inline("k");
		other = get_inline("other");
		assert_true(hot(&q, WIRE_OK));
		assert_false(hot(&other, WIRE_OK));
		assert_int_equal(rig_stat(WIRE_STAT_HOT_GETS), i + 1);
	}
}

/* Inside the reply, behind a write, after immediates, and packed: whenever the reply is made. */
static void a_hot_value_is_told_however_it_travels(void **state)
{
	enum { N = 5 * CHUNK };
	struct wire_request q, pack[2];
	struct wire_frame frame;
	uint64_t before;
	(void)state;
	heat_up("k", N);
	q = get_inline("k");
	assert_true(hot(&q, WIRE_OK));
	q = rig_get("k", 0, CHUNK); /* one chunk: the reply follows it, where that can be */
	assert_true(hot(&q, WIRE_OK));
	q = rig_get("k", 0, N);
	assert_true(hot(&q, WIRE_OK));
	q = rig_get("k", 0, N - 1); /* summed up over several turns */
	q.flags = WIRE_GET_SUM_RANGE;
	assert_true(hot(&q, WIRE_OK));
	q = rig_get("k", 0, 1000);
	q.flags = WIRE_GET_CHECK; /* likewise */
	assert_true(hot(&q, WIRE_OK));
	before = rig_stat(WIRE_STAT_HOT_GETS);
	assert_int_equal(before, 5);
	for (unsigned i = 0; i < 2; i++) {
		pack[i] = rig_get("k", 0, 4096);
		pack[i].flags = WIRE_GET_PACK;
		pack[i].dest.offset = i * 4096;
		pack[i].dest.slice = 4096;
	}
	frame = rig_frame();
	rig_send_records(&frame, pack, 2);
	for (unsigned i = 0; i < 2; i++) {
		rig_until(rig_find(pack[i].id));
		assert_true(rig_find(pack[i].id)->flags & WIRE_GET_HOT);
	}
	assert_int_equal(rig_stat(WIRE_STAT_HOT_GETS), before + 2);
}

/* The first range of a value is its GET. It is so, too, where the client had to ask for the length before. A later part
 * that is asked for by itself (kvclient/call/parts.c) is of no other GET. */
static void a_value_counts_once_for_each_time_that_it_is_taken(void **state)
{
	enum { N = 10000, HALF = N / 2 };
	(void)state;
	rig_store("k", N, 1);
	for (unsigned i = 1; i <= HEAT_GETS_MIN; i++) {
		struct wire_request size = rig_get("k", 0, 0), first = rig_get("k", 0, HALF),
				    second = rig_get("k", HALF, HALF);
		size.dest = (struct wire_dest){0};
		assert_false(hot(&size, WIRE_TOOBIG));
		second.flags |= WIRE_GET_MORE;
		if (i % 4 < 2)
			second.get.generation = rig_find(size.id)->get.generation;
		if (i % 2)
			first.get.generation = rig_find(size.id)->get.generation;
		assert_int_equal(hot(&first, WIRE_OK), i == HEAT_GETS_MIN);
		assert_false(hot(&second, WIRE_OK));
		rig.replies = 0;
	}
	assert_int_equal(rig_stat(WIRE_STAT_HOT_GETS), 1);
	assert_int_equal(rig_stat(WIRE_STAT_GETS), HEAT_GETS_MIN);
	assert_int_equal(rig_stat(WIRE_STAT_HITS), HEAT_GETS_MIN);
}

/* A GET of a later part of a value is one of its own, unless the client says that it is none; so is a miss. */
static void what_follows_the_first_range_counts_for_nothing(void **state)
{
	struct wire_request part = rig_get("k", 500, 500), more = part, none = rig_get("none", 0, 100), no_more = none;
	(void)state;
	rig_store("k", 1000, 1);
	assert_int_equal(rig_ask(&part)->status, WIRE_OK);
	more.id = rig.next_id++;
	more.flags |= WIRE_GET_MORE;
	assert_int_equal(rig_ask(&more)->status, WIRE_OK);
	none.id = rig.next_id++;
	assert_int_equal(rig_ask(&none)->status, WIRE_NOTFOUND);
	no_more.id = rig.next_id++;
	no_more.flags |= WIRE_GET_MORE;
	assert_int_equal(rig_ask(&no_more)->status, WIRE_NOTFOUND);
	assert_int_equal(rig_stat(WIRE_STAT_GETS), 2);
	assert_int_equal(rig_stat(WIRE_STAT_HITS), 1);
	assert_int_equal(rig_stat(WIRE_STAT_MISSES), 1);
}

/* All of a value up to its end, or nothing: also of one that would fit into the reply. */
static void a_value_that_does_not_fit_its_destination_moves_nothing(void **state)
{
	struct wire_request q = rig_get("k", 0, 999), rest = rig_get("k", 1, 999);
	const struct wire_reply *r;
	(void)state;
	rig_store("k", 1000, 1);
	q.get.length = rest.get.length = 0;
	q.flags |= WIRE_GET_INLINE;
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_TOOBIG);
	assert_int_equal(r->get.value_len, 1000);
	assert_int_equal(r->get.inline_data.len, 0);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_READ), 0);
	assert_int_equal(rig_ask(&rest)->status, WIRE_OK);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_READ), 999);
}

/* Its reply would not even encode. */
static void a_get_that_fails_says_nothing_of_heat(void **state)
{
	struct wire_request q, both[2], gone = rig_request(WIRE_DELETE, "k");
	struct wire_frame frame;
	(void)state;
	heat_up("k", 16 << 20);
	q = rig_get("k", 0, 1000);
	q.dest.region = 2;
	assert_false(hot(&q, WIRE_INVALID));
	q = rig_get("k", 0, 0);
	q.get.generation = UINT64_MAX;
	assert_false(hot(&q, WIRE_STALE));
	both[0] = rig_get("k", 0, 1000);
	both[0].flags = WIRE_GET_CHECK;
	both[1] = rig_request(WIRE_CANCEL, NULL);
	both[1].cancel.id = both[0].id;
	frame = rig_frame();
	rig_send_records(&frame, both, 2);
	rig_until(rig_find(both[0].id) && rig_find(both[1].id));
	assert_int_equal(rig_find(both[0].id)->status, WIRE_CANCELED);
	assert_false(rig_find(both[0].id)->flags & WIRE_GET_HOT);
	assert_int_equal(rig_stat(WIRE_STAT_HOT_GETS), 0);
	q = get_inline("k");
	assert_true(hot(&q, WIRE_OK)); /* it was hot all the time */
	assert_int_equal(rig_ask(&gone)->status, WIRE_OK);
	q = get_inline("k");
	assert_false(hot(&q, WIRE_DELETED));
	assert_int_equal(rig_stat(WIRE_STAT_HOT_GETS), 1);
}

/* ---- values that are damaged in memory ---- */

static void damage(const char *key, uint64_t at)
{
	struct block *b = store_find(&rig.shard->store, key, strlen(key), 0);
	assert_non_null(b);
	store_data(&rig.shard->store, b)[at] ^= 0x10;
}

static struct wire_request checked(uint64_t offset, uint64_t n)
{
	struct wire_request q = rig_get("k", offset, n);
	q.flags = WIRE_GET_CHECK;
	return q;
}

/* A client that found it corrupt asks for a check: the value is gone then, for everybody, and counted. */
static void a_damaged_value_is_dropped_when_somebody_found_it_corrupt(void **state)
{
	static const uint64_t sizes[] = {100, 65536, 65537, 5 << 20};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		uint64_t n = sizes[i], sum = rig_store("k", n, i);
		struct wire_request plain = rig_get("k", 0, n), check = checked(n / 2, n / 2),
				    again = rig_get("k", 0, n);
		int32_t status;
		damage("k", n - 1);
		assert_int_equal(rig_ask(&plain)->status, WIRE_OK); /* it cannot know */
		assert_true(rig_find(plain.id)->get.checksum == sum);
		rig_until(rig.immediates == rig_find(plain.id)->get.posted);
		assert_true(kv_hash_block(rig_memory(0), n) != sum);
		assert_int_equal(rig_ask(&check)->status, WIRE_CORRUPT);
		assert_int_equal(rig_find(check.id)->get.posted, 0);
		assert_int_equal(rig_stat(WIRE_STAT_CORRUPT_DROPPED), i + 1);
		status = rig_ask(&again)->status;
		assert_true(status == WIRE_NOTFOUND || status == WIRE_DELETED); /* other cases have deleted "k" */
		rig_until(rig_stat(WIRE_STAT_BYTES_USED) == 0);
		rig.immediates = 0;
		rig.replies = 0;
	}
}

/* With bad memory each value may be damaged, and a client may ask for checks as often as it likes. */
static void damaged_values_are_logged_a_few_per_second(void **state)
{
	enum { VALUES = 40 };
	uint64_t begun_ns = kv_clock_now(&kv_clock_monotonic);
	unsigned before = rig.lines, most;
	char key[8];
	(void)state;
	rig.shard->work->damaged_lines = (struct kv_rate){.taken = 0};
	for (unsigned i = 0; i < VALUES; i++) {
		struct wire_request check;
		snprintf(key, sizeof(key), "d%u", i);
		rig_store(key, 100, i);
		damage(key, 1);
		check = rig_get(key, 0, 0);
		check.flags = WIRE_GET_CHECK;
		assert_int_equal(rig_ask(&check)->status, WIRE_CORRUPT);
		rig.replies = 0;
	}
	assert_int_equal(rig_stat(WIRE_STAT_CORRUPT_DROPPED), VALUES);
	most = SHARD_DAMAGED_LINES * (unsigned)((kv_clock_now(&kv_clock_monotonic) - begun_ns) / 1000000000 + 1);
	assert_in_range(rig.lines - before, 1, most);
	check_contains(rig.logged, "is damaged in memory");
	check_contains(rig.logged, "key=\"'d");
	check_contains(rig.logged, "more=");
}

/* The keys of tenants are in no line. */
static void a_damaged_value_of_a_tenant_is_logged_without_its_key(void **state)
{
	struct wire_request check;
	static const char file[] = "{\"tenants\": [{\"name\": \"a\", \"identities\": [\"a\"], "
				   "\"namespaces\": {\"*\": \"rwdpc\"}}]}";
	(void)state;
	rig.shard->work->damaged_lines = (struct kv_rate){.taken = 0};
	rig_store("secret", 100, 1);
	damage("secret", 1);
	assert_int_equal(tenants_parse(file, sizeof(file) - 1, "file", &rig.shard->tenants, NULL), 0);
	check = rig_get("secret", 0, 0);
	check.flags = WIRE_GET_CHECK;
	assert_int_equal(rig_ask(&check)->status, WIRE_CORRUPT);
	check_contains(rig.logged, "key=\"(of a tenant)\"");
	assert_null(strstr(rig.logged, "secret"));
}

static void a_sound_value_is_served_after_the_check(void **state)
{
	static const uint64_t sizes[] = {100, 65536, 65537, 5 << 20};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		uint64_t n = sizes[i], sum = rig_store("k", n, i);
		struct wire_request q = checked(0, n), gone = rig_request(WIRE_DELETE, "k");
		assert_int_equal(rig_ask(&q)->status, WIRE_OK);
		rig_until(rig.immediates == rig_find(q.id)->get.posted);
		assert_true(kv_hash_block(rig_memory(0), n) == sum);
		assert_int_equal(rig_ask(&gone)->status, WIRE_OK);
		rig.immediates = 0;
		rig.replies = 0;
	}
	assert_int_equal(rig_stat(WIRE_STAT_CORRUPT_DROPPED), 0);
}

static void a_check_can_be_cancelled_and_outlived(void **state)
{
	(void)state;
	rig_store("k", 16 << 20, 1);
	struct wire_request q = checked(0, 1000), cancel = rig_request(WIRE_CANCEL, NULL), last = checked(0, 1000);
	struct wire_request both[2] = {q, cancel};
	struct wire_frame frame = rig_frame();
	both[1].cancel.id = q.id;
	rig_send_records(&frame, both, 2);
	rig_until(rig_find(q.id) && rig_find(cancel.id));
	assert_int_equal(rig_find(q.id)->status, WIRE_CANCELED);
	assert_int_equal(rig_find(cancel.id)->cancel.posted, 0);
	assert_int_equal(rig.shard->work->hashers.used, 0);
	rig_send(&last);
	rig_until(rig.shard->work->hashers.used == 1);
	rig_attachment_end(); /* frees all of it: looked at after each test */
}

/* ---- anything in one frame ---- */

enum { MESS_KEYS = 6, MESS_RECORDS = 30, MESS_AREA = 256 << 10, MESS_SLOT = 4096 };

static const uint32_t mess_len[MESS_KEYS] = {1, 600, 4096, 9000, 16384, 70000};
static char mess_key[MESS_KEYS + 1][4];

static void mess_store(unsigned i)
{
	struct wire_request q = rig_request(WIRE_DELETE, mess_key[i]);
	rig_ask(&q);
	rig_store(mess_key[i], mess_len[i], i);
}

static uint64_t mess_slice(struct kv_prng *p)
{
	static const uint64_t slice[] = {1, 600, 4096, 4096, 4096, 8192, 16384, 65536, 65537, 1ull << 40};
	return slice[kv_prng_below(p, KV_COUNT(slice))];
}

static struct wire_request mess_get(struct kv_prng *p, uint64_t *next)
{
	unsigned k = (unsigned)kv_prng_below(p, MESS_KEYS + 1);
	struct wire_request q = rig_get(mess_key[k], 0, 0);
	q.flags = (uint8_t)((kv_prng_below(p, 5) ? WIRE_GET_PACK : 0) | (kv_prng_below(p, 4) ? 0 : WIRE_GET_SUM_RANGE) |
			    (kv_prng_below(p, 8) ? 0 : WIRE_GET_CHECK) | (kv_prng_below(p, 8) ? 0 : WIRE_GET_INLINE));
	q.get.offset = kv_prng_below(p, 3) ? 0 : kv_prng_below(p, 5000);
	q.dest.slice = mess_slice(p);
	q.get.length = kv_prng_below(p, 3) ? KV_MIN(q.dest.slice, (uint64_t)KV_RANGE_MAX) : 0;
	q.dest.offset = kv_prng_below(p, 4) ? *next : kv_prng_below(p, 40) * MESS_SLOT + kv_prng_below(p, 2);
	q.dest.region = kv_prng_below(p, 12) ? 1 : 2;
	*next = q.dest.offset + KV_MIN(q.dest.slice, 65536u);
	if (*next > MESS_AREA - 128 * 1024)
		*next = kv_prng_below(p, 8) * MESS_SLOT;
	return q;
}

static struct wire_request mess_record(struct kv_prng *p, const struct wire_request *q, unsigned i, uint64_t *next)
{
	struct wire_request r;
	switch (kv_prng_below(p, 12)) {
	case 0:
		r = rig_request(WIRE_CANCEL, NULL);
		r.cancel.id = i ? q[kv_prng_below(p, i)].id : r.id;
		return r;
	case 1:
		return rig_request(WIRE_DELETE, mess_key[kv_prng_below(p, MESS_KEYS)]);
	default:
		return mess_get(p, next);
	}
}

/* Bytes that a GET is to move. */
static uint64_t mess_moved(const struct wire_request *q)
{
	unsigned k = (unsigned)(q->key.len ? q->key.data[1] - '0' : 0);
	uint64_t len = q->get.offset < mess_len[k] ? mess_len[k] - q->get.offset : 0;
	return q->get.length ? KV_MIN(len, q->get.length) : len;
}

/* Whether it has written there, or may have. */
static bool mess_touches(const struct wire_request *q, uint64_t from, uint64_t to)
{
	const struct wire_reply *r = rig_find(q->id);
	uint64_t at = q->dest.offset, len = KV_MIN(q->dest.slice, (uint64_t)RIG_BUFFER);
	if (q->type != WIRE_GET || q->dest.region != 1)
		return false;
	if (r->status == WIRE_OK) {
		at -= r->get.before;
		len = r->get.inline_data.len ? 0 : mess_moved(q);
	}
	return len > 0 && at < to && from < at + len;
}

/* Nothing was written but values, and where no other request wrote to, there is the value. */
static void mess_check(const struct wire_request *q, unsigned n)
{
	static uint8_t value[70000];
	uint8_t *memory = rig_memory(0);
	for (uint32_t at = 0; at < MESS_AREA; at++) {
		bool mine = memory[at] == 0xAA;
		for (unsigned i = 0; !mine && i < n; i++)
			mine = mess_touches(&q[i], at, at + 1);
		if (!mine)
			fail_msg("byte %u is nobody's and was written", at);
	}
	for (unsigned i = 0; i < n; i++) {
		const struct wire_reply *r = rig_find(q[i].id);
		unsigned k = (unsigned)(q[i].key.len ? q[i].key.data[1] - '0' : 0);
		uint64_t from, others = 0;
		if (q[i].type != WIRE_GET || r->status != WIRE_OK || r->get.inline_data.len)
			continue;
		from = q[i].dest.offset - r->get.before;
		for (unsigned j = 0; j < n; j++)
			others += j != i && mess_touches(&q[j], from, from + mess_moved(&q[i]));
		if (others > 0)
			continue;
		rig_fill(value, mess_len[k], k);
		assert_memory_equal(memory + from, value + q[i].get.offset, mess_moved(&q[i]));
	}
}

/* Every write has arrived. */
static void mess_landed(const struct wire_request *q, unsigned n, uint64_t before)
{
	uint64_t writes = 0;
	for (unsigned i = 0; i < n; i++) {
		const struct wire_reply *r = rig_find(q[i].id);
		if (q[i].type == WIRE_GET)
			writes += r->get.posted; /* the rig counts 1 for one that follows */
	}
	rig_until(rig.immediates - before == writes);
}

static void mess_over(void)
{
	const struct link *l = &rig.attachment->link[0];
	rig_until(rig.shard->requests.used == 0 && rig.attachment->request_count == 0);
	assert_int_equal(l->active + l->held, 0);
	assert_false(l->msg || l->follows || rig.shard->work->packs.link);
	assert_int_equal(rig.shard->work->packs.free, rig.shard->info.ordered ? PACKS_MAX : 0);
	assert_int_equal(rig.shard->store.gone_bytes, 0);
}

static void random_frames_write_to_their_destinations_alone_and_leave_nothing(void **state)
{
	struct kv_prng p = check_seed();
	struct wire_request q[MESS_RECORDS];
	(void)state;
	for (unsigned i = 0; i <= MESS_KEYS; i++)
		snprintf(mess_key[i], sizeof(mess_key[i]), "m%u", i);
	for (unsigned round = 0; round < 200; round++) {
		unsigned n = 1 + (unsigned)kv_prng_below(&p, MESS_RECORDS);
		uint64_t next = kv_prng_below(&p, 8) * MESS_SLOT, before;
		struct wire_frame frame;
		for (unsigned i = 0; i < MESS_KEYS; i++)
			if (round == 0 || !store_find(&rig.shard->store, (const uint8_t *)mess_key[i], 2, 0))
				mess_store(i);
		rig.replies = 0;
		memset(rig_memory(0), 0xAA, MESS_AREA);
		for (unsigned i = 0; i < n; i++)
			q[i] = mess_record(&p, q, i, &next);
		before = rig.immediates;
		frame = rig_frame();
		rig_send_records(&frame, q, n);
		for (unsigned i = 0; i < n; i++)
			rig_until(rig_find(q[i].id));
		mess_over();
		mess_landed(q, n, before);
		mess_check(q, n);
	}
	for (unsigned i = 0; i < MESS_KEYS; i++) {
		q[0] = rig_request(WIRE_DELETE, mess_key[i]);
		rig_ask(&q[0]);
	}
	assert_int_equal(rig.shard->store.arena.used, 0);
}

#define GET_TEST(f) cmocka_unit_test_setup_teardown(f, rig_open, rig_close)
#define HOT_TEST(f) cmocka_unit_test_setup_teardown(f, hot_open, hot_close)

/* A value that is on its way in has 12 MiB to be summed up when a GET of 8 MiB begins: they take turns. */
static void sums_of_gets_do_not_wait_for_those_of_puts(void **state)
{
	enum { MIB = 1 << 20, PART = 8 * MIB, STAGED = 12 * MIB };
	(void)state;
	struct store *s = &rig.shard->store;
	struct wire_request put = rig_put("in", STAGED, 0, STAGED, 1, WIRE_PUT_FIRST), q;
	struct stage *st;
	struct block *b;
	struct room *room;
	uint64_t id;
	rig_store("k", PART + 1, 1);
	q = rig_get("k", 0, PART);
	q.flags = WIRE_GET_SUM_RANGE;
	assert_int_equal(store_stage(s, "in", 2, STAGED, ARENA_LOW, &b, &room), 0);
	assert_int_equal(stage_open(&rig.attachment->own, &put, b, loop_now(rig.loop), &st), 0);
	st->deadline_ns = KV_NEVER; /* a tick may come before the GET does */
	rig_send(&q);
	rig_until(!kv_list_empty(&rig.shard->work->hash_gets));
	st->extents = 1;
	st->extent[0] = (struct extent){0, STAGED, NULL}; /* all of it is there, its end was not announced */
	stage_advance(st);
	rig_until(kv_list_empty(&rig.shard->work->hash_gets));
	assert_in_range(st->hashed, 1, STAGED - 1);
	id = st->id;
	rig_until(rig_find(q.id));
	assert_int_equal(rig_find(q.id)->status, WIRE_OK);
	st = stage_find(&rig.attachment->own, id); /* on a busy machine it has ended meanwhile */
	if (st)
		stage_kill(st, WIRE_CANCELED, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GET_TEST(a_missing_key_is_not_found),
		GET_TEST(a_byte_is_pushed),
		GET_TEST(a_block_of_64_KiB_is_pushed),
		GET_TEST(a_value_of_many_chunks_is_pushed),
		GET_TEST(a_reply_follows_a_write_that_is_one_chunk),
		GET_TEST(a_late_cancel_does_not_speak_for_a_reply_that_follows),
		GET_TEST(a_small_value_comes_inside_the_reply),
		GET_TEST(a_range_carries_its_own_checksum_if_asked),
		GET_TEST(a_range_is_cut_at_the_end_of_the_value),
		GET_TEST(slices_are_filled_in_order),
		GET_TEST(a_destination_too_small_tells_the_length),
		GET_TEST(a_value_that_does_not_fit_its_destination_moves_nothing),
		GET_TEST(what_follows_the_first_range_counts_for_nothing),
		GET_TEST(another_generation_is_stale),
		GET_TEST(destinations_outside_the_region_are_refused),
		GET_TEST(small_values_side_by_side_are_one_write),
		GET_TEST(a_cancel_behind_a_packed_get_does_not_call_its_memory_safe),
		GET_TEST(many_gets_at_once_all_arrive),
		GET_TEST(a_session_may_end_with_a_get_in_flight),
		GET_TEST(deleting_what_is_being_read_changes_nothing_for_the_reader),
		GET_TEST(a_damaged_value_is_dropped_when_somebody_found_it_corrupt),
		GET_TEST(damaged_values_are_logged_a_few_per_second),
		GET_TEST(a_damaged_value_of_a_tenant_is_logged_without_its_key),
		GET_TEST(a_sound_value_is_served_after_the_check),
		GET_TEST(a_check_can_be_cancelled_and_outlived),
		GET_TEST(random_frames_write_to_their_destinations_alone_and_leave_nothing),
		GET_TEST(sums_of_gets_do_not_wait_for_those_of_puts),
		HOT_TEST(the_64th_get_of_a_key_says_that_it_is_hot),
		HOT_TEST(a_hot_value_is_told_however_it_travels),
		HOT_TEST(a_value_counts_once_for_each_time_that_it_is_taken),
		HOT_TEST(a_get_that_fails_says_nothing_of_heat),
	};
	return cmocka_run_group_tests_name("kvserver/get", tests, rig_up, rig_down);
}
