/* SPDX-License-Identifier: Apache-2.0 */
/* test_pull.c -- GETs whose bytes the client reads: leases, what they keep, what ends them, and that no session can use
 * another's. */
#include "rig.h"

enum { MIB = 1 << 20 };

#define LEASE_TIME  30000000000ull /* longer than a test takes, however slow the machine */
#define SHORT_LEASE 50000000ull

static struct wire_request pull(const char *key, uint64_t offset, uint64_t length)
{
	struct wire_request q = rig_get(key, offset, length);
	q.flags = WIRE_GET_PULL;
	return q;
}

/* A reply with a lease; its copy, since later replies may take its place. */
static struct wire_reply leased(const struct wire_request *q)
{
	struct wire_reply r = *rig_ask(q);
	assert_int_equal(r.status, WIRE_OK);
	assert_true(r.flags & WIRE_GET_LEASED);
	assert_int_equal(r.get.posted, 0);
	assert_true(r.get.lease != 0);
	assert_int_equal(r.get.lease_us, LEASE_TIME / 1000);
	return r;
}

static void release(uint64_t lease)
{
	uint8_t packed[8];
	struct wire_request q = {.type = WIRE_RELEASE, .time_left_us = UINT32_MAX, .release = {1, packed}};
	uint64_t now = rig_stat(WIRE_STAT_LEASES_NOW), bad = rig_stat(WIRE_STAT_BAD_RELEASES);
	wire_release_put(packed, 0, lease);
	rig_send(&q);
	rig_until(rig_stat(WIRE_STAT_LEASES_NOW) < now || rig_stat(WIRE_STAT_BAD_RELEASES) > bad);
}

static bool read_over;
static int read_status;

static void on_read(struct te_xfer *x, int status)
{
	(void)x;
	read_status = status;
	read_over = true;
}

/* Read what a lease names, as a client does: with what ARENA tells. */
static void read_leased(const struct wire_reply *r, uint64_t length)
{
	struct wire_region told = {.parts = rig.shard->arena.parts};
	uint8_t *keys;
	struct te_key key;
	struct te_remote remote = rig.shard->arena;
	struct te_xfer x = {.dir = TE_READ,
			    .peer = rig.server,
			    .link = TE_LINK_ANY,
			    .local = rig.region,
			    .remote = &remote,
			    .at = {.offset = r->get.at, .slice = length, .count = 1},
			    .deadline_ns = kv_clock_now(&kv_clock_monotonic) + 5000000000ull,
			    .done = on_read};
	assert_int_equal(remote.parts, 1);
	assert_int_equal(shard_arena_keys(rig.shard, &keys), 0);
	told.keys = keys;
	wire_region_key(&told, 0, 0, &key.base, &key.key);
	free(keys);
	remote.keys = &key;
	memset(rig_memory(0), 0xEE, length);
	read_over = false;
	assert_true(te_xfer_start(rig.te, &x) >= 0);
	rig_until(read_over);
	assert_int_equal(read_status, 0);
}

static void a_lease_says_where_the_bytes_are(void **state)
{
	(void)state;
	uint64_t sizes[] = {1, 4096, 65536, 5 * MIB + 12345};
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		char key[8];
		snprintf(key, sizeof(key), "k%u", i);
		uint64_t sum = rig_store(key, sizes[i], i + 1);
		struct wire_request q = pull(key, 0, sizes[i]);
		struct wire_reply r = leased(&q);
		assert_int_equal(r.get.value_len, sizes[i]);
		assert_int_equal(r.get.checksum, sum);
		read_leased(&r, sizes[i]);
		assert_int_equal(kv_hash_block(rig_memory(0), sizes[i]), sum);
		release(r.get.lease);
	}
	assert_int_equal(rig.immediates, 0);
	assert_int_equal(rig_stat(WIRE_STAT_WRITES), 0);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES), KV_COUNT(sizes));
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), 0);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 0);
	assert_int_equal(rig_stat(WIRE_STAT_BAD_RELEASES), 0);
}

/* Small parts are summed up at once, large ones over several turns, and so are values that a client found corrupt. */
static void a_part_has_its_own_checksum(void **state)
{
	(void)state;
	static uint8_t want[3 * MIB];
	const struct {
		uint64_t offset, length;
		uint8_t flags;
	} rows[] = {{100, 5000, WIRE_GET_SUM_RANGE},
		    {777, 2 * MIB + 99, WIRE_GET_SUM_RANGE},
		    {0, sizeof(want), WIRE_GET_CHECK},
		    {777, 2 * MIB, WIRE_GET_CHECK | WIRE_GET_SUM_RANGE}};
	uint64_t whole = rig_store("k", sizeof(want), 2);
	rig_fill(want, sizeof(want), 2);
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		struct wire_request q = pull("k", rows[i].offset, rows[i].length);
		q.flags |= rows[i].flags;
		struct wire_reply r = leased(&q);
		assert_int_equal(r.get.checksum, rows[i].flags & WIRE_GET_SUM_RANGE
							 ? kv_hash_block(want + rows[i].offset, rows[i].length)
							 : whole);
		read_leased(&r, rows[i].length);
		assert_memory_equal(rig_memory(0), want + rows[i].offset, rows[i].length);
		release(r.get.lease);
	}
}

static void a_value_that_is_small_or_missing_needs_no_lease(void **state)
{
	(void)state;
	struct wire_request q = pull("k", 0, 1000), none = pull("none", 0, 1000), stale = pull("k", 0, 1000),
			    big = pull("l", 0, 1000);
	rig_store("k", 1000, 1);
	rig_store("l", 65536, 1);
	q.flags |= WIRE_GET_INLINE;
	assert_int_equal(rig_ask(&q)->get.inline_data.len, 1000);
	assert_int_equal(rig_ask(&none)->status, WIRE_NOTFOUND);
	stale.get.generation = 12345;
	assert_int_equal(rig_ask(&stale)->status, WIRE_STALE);
	big.get.length = 0;
	assert_int_equal(rig_ask(&big)->status, WIRE_TOOBIG);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES), 0);
}

/* Deleted, and another value under the same key: the old bytes stay where they are for the client that reads them. */
static void a_leased_block_outlives_its_key(void **state)
{
	(void)state;
	uint64_t sum = rig_store("k", MIB, 1);
	struct wire_request q = pull("k", 0, MIB), again = pull("k", 0, MIB), del = rig_request(WIRE_DELETE, "k");
	struct wire_reply r = leased(&q), other;
	assert_int_equal(rig_ask(&del)->status, WIRE_OK);
	assert_int_equal(rig_stat(WIRE_STAT_QUARANTINED_BYTES), MIB);
	rig_store("k", MIB, 2);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 2 * MIB);
	again.id = rig.next_id++;
	other = leased(&again);
	assert_int_not_equal(other.get.generation, r.get.generation);
	assert_int_not_equal(other.get.at, r.get.at);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 2 * MIB);
	read_leased(&r, MIB);
	assert_int_equal(kv_hash_block(rig_memory(0), MIB), sum);
	release(r.get.lease);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), MIB);
	release(other.get.lease);
}

/* Memory is short: everything else goes. */
static void a_leased_block_is_not_evicted(void **state)
{
	(void)state;
	uint64_t sum = rig_store("k", MIB, 1);
	struct wire_request q = pull("k", 0, MIB);
	struct wire_reply r = leased(&q);
	for (unsigned i = 0; i < 40; i++) {
		char key[8];
		snprintf(key, sizeof(key), "x%u", i);
		rig_store(key, MIB, i);
	}
	assert_true(rig_stat(WIRE_STAT_EVICTIONS) > 0);
	read_leased(&r, MIB);
	assert_int_equal(kv_hash_block(rig_memory(0), MIB), sum);
	release(r.get.lease);
}

static void a_lease_ends_by_itself_and_not_too_early(void **state)
{
	(void)state;
	struct wire_request q = pull("k", 0, MIB), del = rig_request(WIRE_DELETE, "k");
	uint64_t asked, expired = rig_stat(WIRE_STAT_LEASES_EXPIRED);
	struct wire_reply r;
	rig_store("k", MIB, 1);
	asked = kv_clock_now(&kv_clock_monotonic);
	loop_timer_cancel(rig.loop, &rig.shard->work->leases.timer); /* it waits for the end of one of those before */
	rig.shard->work->leases.time_ns = SHORT_LEASE;
	r = *rig_ask(&q);
	rig.shard->work->leases.time_ns = LEASE_TIME;
	assert_true(r.flags & WIRE_GET_LEASED);
	assert_int_equal(r.get.lease_us, SHORT_LEASE / 1000);
	assert_int_equal(rig_ask(&del)->status, WIRE_OK);
	rig_until(rig_stat(WIRE_STAT_LEASES_EXPIRED) > expired);
	assert_true(kv_clock_now(&kv_clock_monotonic) - asked >= SHORT_LEASE);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 0);
	release(r.get.lease); /* too late: there is no such lease any more */
	assert_int_equal(rig_stat(WIRE_STAT_BAD_RELEASES), 1);
}

static void invented_and_double_releases_end_nothing(void **state)
{
	(void)state;
	struct wire_request q = pull("k", 0, MIB), q2;
	struct wire_reply r, r2;
	rig_store("k", MIB, 1);
	q2 = pull("k", 0, MIB);
	q.id = rig.next_id++;
	q2.id = rig.next_id++;
	r = leased(&q);
	release(r.get.lease + ((uint64_t)1 << 32)); /* of the future */
	release(r.get.lease ^ 0x8000);
	release(0);
	release(UINT64_MAX);
	assert_int_equal(rig_stat(WIRE_STAT_BAD_RELEASES), 4);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), 1);
	release(r.get.lease);
	/* ... until one has the place of the first one. */
	for (unsigned i = 0; (uint32_t)(r2 = leased(&q2)).get.lease != (uint32_t)r.get.lease; i++) {
		assert_true(i < 100);
		release(r2.get.lease);
		q2.id = rig.next_id++;
	}
	release(r.get.lease);
	assert_int_equal(rig_stat(WIRE_STAT_BAD_RELEASES), 5);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), 1);
	release(r2.get.lease);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 0);
}

/* A place is used for the 2^32nd time: at 100,000 GETs a second, one after the other, that is after half a day. */
static void generations_of_leases_wrap_around(void **state)
{
	(void)state;
	struct wire_request q = pull("k", 0, MIB);
	struct wire_reply r;
	rig_store("k", MIB, 1);
	release(leased(&q).get.lease);
	for (uint32_t i = 0; i < rig.shard->work->leases.made; i++)
		rig.shard->work->leases.lease[i].generation = UINT32_MAX;
	q.id = rig.next_id++;
	r = leased(&q);
	assert_int_equal(r.get.lease >> 32, 1); /* a lease of place 0 would be 0 otherwise */
	release(r.get.lease);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), 0);
	assert_int_equal(rig_stat(WIRE_STAT_BAD_RELEASES), 0);
}

/* Another attachment of the shard, which is idle. */
static struct shard_attachment *stranger(void)
{
	struct te_address addr;
	struct shard_attachment_args args = {.frame_secret = rig.secret,
					     .grant = &rig_grant,
					     .addrs = &addr,
					     .rails = 1,
					     .number = rig.number ^ 0x10001,
					     .client_id = 8};
	struct shard_attachment *s;
	struct kv_error err;
	assert_int_equal(te_address(rig.te, 0, &addr), 0);
	if (shard_attachment_open(rig.shard, &args, &s, &err) != 0)
		fail_msg("%s", err.text);
	return s;
}

static void stranger_end(struct shard_attachment *s)
{
	static struct rig_call call;
	leases_drop(s);
	shard_attachment_end(s, rig_call(&call));
	rig_quiet();
}

static void a_lease_is_its_sessions_alone(void **state)
{
	(void)state;
	struct wire_request q = pull("k", 0, MIB);
	struct shard_attachment *other = stranger();
	struct wire_reply r;
	rig_store("k", MIB, 1);
	r = leased(&q);
	lease_release(other, r.get.lease);
	assert_int_equal(rig_stat(WIRE_STAT_BAD_RELEASES), 1);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), 1);
	stranger_end(other);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), 1);
	release(r.get.lease);
}

static void run_goodbye(struct call *c)
{
	shard_attachment_when_idle(rig.attachment, c);
}

static void leases_end_with_a_goodbye(void **state)
{
	(void)state;
	struct wire_request q = pull("k", 0, MIB), del = rig_request(WIRE_DELETE, "k");
	rig_store("k", MIB, 1);
	leased(&q);
	assert_int_equal(rig_ask(&del)->status, WIRE_OK);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), MIB);
	rig_call_run(run_goodbye);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), 0);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_EXPIRED), 0);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 0);
}

/* The server learns that a connection is lost before the client does, which goes on reading what it has a lease for. */
static void leases_outlive_a_session_that_is_lost(void **state)
{
	(void)state;
	struct wire_request q = pull("k", 0, MIB), del = rig_request(WIRE_DELETE, "k");
	struct wire_reply r;
	uint64_t sum = rig_store("k", MIB, 1), expired = rig_stat(WIRE_STAT_LEASES_EXPIRED);
	loop_timer_cancel(rig.loop, &rig.shard->work->leases.timer);
	rig.shard->work->leases.time_ns = SHORT_LEASE;
	r = *rig_ask(&q);
	rig.shard->work->leases.time_ns = LEASE_TIME;
	assert_true(r.flags & WIRE_GET_LEASED);
	assert_int_equal(rig_ask(&del)->status, WIRE_OK);
	shard_attachment_stop(rig.attachment);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), 1);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), MIB);
	assert_int_equal(
		kv_hash_block(store_data(&rig.shard->store, rig.shard->work->leases.lease[(uint32_t)r.get.lease].block),
			      MIB),
		sum);
	assert_int_equal(rig.attachment->holder.count, 0);
	rig_attachment_end(); /* and the session need not be there */
	rig_until(rig_stat(WIRE_STAT_LEASES_EXPIRED) > expired);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), 0);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 0);
	assert_int_equal(rig_stat(WIRE_STAT_BYTES_USED), 0);
}

/* Of a part, too, that is summed up before its lease is given. */
static void a_leased_reply_may_say_that_its_value_is_hot(void **state)
{
	struct wire_request q;
	struct wire_reply r;
	(void)state;
	rig_store("k", MIB, 1);
	rig.shard->work->heat = (struct heat){.began_ns = KV_NEVER}; /* the window of now does not end */
	for (unsigned i = 1; i <= HEAT_GETS_MIN + 2; i++) {
		q = pull("k", 0, i <= HEAT_GETS_MIN ? MIB : 100000);
		if (i > HEAT_GETS_MIN)
			q.flags |= WIRE_GET_SUM_RANGE;
		r = leased(&q);
		assert_int_equal(!!(r.flags & WIRE_GET_HOT), i >= HEAT_GETS_MIN);
		release(r.get.lease);
		rig.replies = 0;
	}
	rig.shard->work->heat = (struct heat){.began_ns = 0};
}

/* A quarter of the memory for one session, half for all; a block that is leased again is kept once. What is beyond is
 * pushed. */
static void beyond_the_budget_bytes_are_pushed(void **state)
{
	(void)state;
	enum { EACH = 2 * MIB, FIT = RIG_MEMORY / LEASE_ATTACHMENT_SHARE / EACH };
	struct shard_attachment *other = stranger();
	uint64_t id, sum;
	struct wire_request q;
	const struct wire_reply *r;
	struct block *b;
	char key[8];
	for (unsigned i = 0; i <= 2 * FIT; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		sum = rig_store(key, EACH, i);
	}
	for (unsigned i = 0; i < FIT; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		q = pull(key, 0, EACH);
		leased(&q);
	}
	q = pull("k0", 0, EACH);
	release(leased(&q).get.lease);
	snprintf(key, sizeof(key), "k%u", 2 * FIT);
	q = pull(key, 0, EACH);
	r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	assert_false(r->flags & WIRE_GET_LEASED);
	assert_int_equal(r->get.posted, 2);
	rig_until(rig.immediates == 2);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_REFUSED), 1);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), FIT * EACH);
	/* Another session may have the same blocks, and its own quarter. */
	b = store_find(&rig.shard->store, "k0", 2, 0);
	assert_true(lease_give(other, b, &id));
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), FIT * EACH);
	lease_release(other, id);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), FIT * EACH);
	for (unsigned i = FIT; i < 2 * FIT; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		assert_true(lease_give(other, store_find(&rig.shard->store, key, strlen(key), 0), &id));
	}
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), RIG_MEMORY / LEASE_SHARE);
	stranger_end(other);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_NOW), FIT);
	(void)sum;
}

/* 16 MiB pinned and 12 on their way in leave an eighth of the memory, and no lease. */
static void pins_and_stages_leave_no_room_for_leases(void **state)
{
	enum { EACH = 2 * MIB };
	struct store *s = &rig.shard->store;
	uint64_t refused = rig_stat(WIRE_STAT_LEASES_REFUSED);
	struct wire_request q;
	struct room *room;
	struct block *b;
	struct pins pins;
	char key[8];
	(void)state;
	pins_init(&pins);
	rig_store("k", EACH, 1);
	for (unsigned i = 0; i < RIG_MEMORY / 2 / EACH; i++) {
		snprintf(key, sizeof(key), "p%u", i);
		rig_store(key, EACH, i);
		assert_int_equal(pins_add(s, &pins, store_find(s, key, strlen(key), 0), UINT64_MAX, UINT64_MAX), 0);
	}
	assert_int_equal(store_stage(s, "in", 2, 12 * MIB, ARENA_LOW, &b, &room), 0);
	q = pull("k", 0, EACH);
	assert_int_equal(rig_ask(&q)->status, WIRE_OK);
	assert_false(rig_find(q.id)->flags & WIRE_GET_LEASED);
	rig_until(rig.immediates == 2);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES_REFUSED), refused + 1);
	store_drop(s, b);
	block_unref(s, b);
	q = pull("k", 0, EACH);
	release(leased(&q).get.lease);
	pins_leave(s, &pins);
	pins_drop_all(s);
}

/* All that one client may hold, of one block, and they end at the same time: a turn ends a part of them. */
static void leases_that_end_together_end_over_several_turns(void **state)
{
	(void)state;
	enum { COUNT = LEASES_ATTACHMENT_MAX };
	struct leases *l = &rig.shard->work->leases;
	struct shard_attachment *other = stranger();
	uint64_t id, before = rig_stat(WIRE_STAT_LEASES_EXPIRED), until;
	struct block *b;
	rig_store("k", 1024, 1);
	b = store_find(&rig.shard->store, "k", 1, 0);
	loop_timer_cancel(rig.loop, &l->timer);
	l->time_ns = SHORT_LEASE;
	for (unsigned i = 0; i < COUNT; i++)
		assert_true(lease_give(other, b, &id));
	assert_false(lease_give(other, b, &id));
	l->time_ns = LEASE_TIME;
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 1024);
	until = kv_clock_now(&kv_clock_monotonic) + 2 * SHORT_LEASE;
	while (kv_clock_now(&kv_clock_monotonic) < until)
		;
	for (unsigned i = 1; i < COUNT / LEASES_AT_ONCE; i++) {
		l->timer.fire(&l->timer);
		assert_int_equal(rig_stat(WIRE_STAT_LEASES_EXPIRED) - before, i * LEASES_AT_ONCE);
		assert_true(loop_timer_armed(&l->timer));
	}
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 1024);
	rig_until(rig_stat(WIRE_STAT_LEASES_NOW) == 0);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), 0);
	assert_int_equal(b->mem->leases, 0);
	stranger_end(other);
}

/* A large value is two ranges at a time, whatever the share; the half of all sessions stands. */
static void a_large_value_may_be_leased_twice(void **state)
{
	(void)state;
	enum { BIG = 12 * MIB };
	struct wire_request q[3];
	rig_store("k", BIG, 1);
	rig_store("l", BIG - 1, 2);
	q[0] = pull("k", 0, MIB);
	q[1] = pull("k", MIB, MIB);
	q[2] = pull("l", 0, MIB);
	leased(&q[0]);
	leased(&q[1]);
	assert_int_equal(rig_stat(WIRE_STAT_LEASED_BYTES), BIG);
	assert_false(rig_ask(&q[2])->flags & WIRE_GET_LEASED);
	struct shard_attachment *other = stranger();
	uint64_t id;
	assert_false(lease_give(other, store_find(&rig.shard->store, "l", 1, 0), &id));
	stranger_end(other);
}

static void pull_is_refused_where_it_is_not_allowed(void **state)
{
	(void)state;
	struct wire_request q = pull("k", 0, MIB);
	rig_store("k", MIB, 1);
	rig.shard->opt.allow_pull = false;
	assert_int_equal(rig_ask(&q)->status, WIRE_NOTSUP);
	rig.shard->opt.allow_pull = true;
}

/* Cancelled while it is summed up: there is no lease. Afterwards: the answer says that nothing was written. */
static void a_cancelled_pull_writes_nothing(void **state)
{
	(void)state;
	struct wire_request q[2] = {pull("k", 1, 8 * MIB)}, done = pull("k", 0, 8 * MIB + 1), late;
	struct wire_frame frame = rig_frame();
	struct wire_reply r;
	q[0].flags |= WIRE_GET_SUM_RANGE;
	rig_store("k", 8 * MIB + 1, 1);
	q[0].id = rig.next_id++;
	q[1] = rig_request(WIRE_CANCEL, NULL);
	q[1].cancel.id = q[0].id;
	rig_send_records(&frame, q, 2);
	rig_until(rig_find(q[1].id) && rig_find(q[0].id));
	assert_int_equal(rig_find(q[0].id)->status, WIRE_CANCELED);
	assert_int_equal(rig_find(q[1].id)->cancel.state, WIRE_CANCEL_STOPPED);
	assert_int_equal(rig_find(q[1].id)->cancel.posted, 0);
	assert_int_equal(rig_stat(WIRE_STAT_LEASES), 0);
	done.id = rig.next_id++;
	r = leased(&done);
	late = rig_request(WIRE_CANCEL, NULL);
	late.cancel.id = done.id;
	assert_int_equal(rig_ask(&late)->cancel.posted, 0);
	assert_int_equal(rig_find(late.id)->cancel.state, WIRE_CANCEL_DONE);
	release(r.get.lease);
}

/* Where reading crashes the reader, a server that is to give leases does not start. */
static void a_fabric_without_reads_is_refused(void **state)
{
	(void)state;
	struct shard_options options = rig.shard->opt;
	struct shard *shard = NULL;
	struct kv_error err = {0};
	struct te_info info;
	int rc;
	te_info(rig.te, &info);
	options.engine.reads_at_own_risk = false;
	rc = shard_create(&options, &kv_entropy_kernel, &kv_clock_monotonic, &shard, &err);
	assert_int_equal(rc, info.read_unsafe ? -KV_ENOTSUP : 0);
	if (rc)
		assert_non_null(strstr(err.text, "1.22 or newer"));
	else
		shard_destroy(&shard);
}

#define PULL_TEST(f) cmocka_unit_test_setup_teardown(f, rig_open, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PULL_TEST(a_lease_says_where_the_bytes_are),
		PULL_TEST(a_part_has_its_own_checksum),
		PULL_TEST(a_value_that_is_small_or_missing_needs_no_lease),
		PULL_TEST(a_leased_block_outlives_its_key),
		PULL_TEST(a_leased_block_is_not_evicted),
		PULL_TEST(a_lease_ends_by_itself_and_not_too_early),
		PULL_TEST(invented_and_double_releases_end_nothing),
		PULL_TEST(generations_of_leases_wrap_around),
		PULL_TEST(a_lease_is_its_sessions_alone),
		PULL_TEST(leases_end_with_a_goodbye),
		PULL_TEST(leases_outlive_a_session_that_is_lost),
		PULL_TEST(a_leased_reply_may_say_that_its_value_is_hot),
		PULL_TEST(beyond_the_budget_bytes_are_pushed),
		PULL_TEST(pins_and_stages_leave_no_room_for_leases),
		PULL_TEST(leases_that_end_together_end_over_several_turns),
		PULL_TEST(a_large_value_may_be_leased_twice),
		PULL_TEST(pull_is_refused_where_it_is_not_allowed),
		PULL_TEST(a_cancelled_pull_writes_nothing),
		PULL_TEST(a_fabric_without_reads_is_refused),
	};
	rig_lease_ns = LEASE_TIME;
	return cmocka_run_group_tests_name("kvserver/pull", tests, rig_up, rig_down);
}
