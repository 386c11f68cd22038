/* SPDX-License-Identifier: Apache-2.0 */
/* test_storm.c -- a client that is let in and asks for anything at any time: whole values and parts of them, in and out
 * of order, begun and never ended, cancelled, pinned, leased, deleted while they move, by its own
 * session and by further ones that end at any time, over memory that is full of small values. The values that are there
 * must have their bytes, the shard's accounts must agree with what is there, and nothing may be left when the client
 * has gone. */
#include "rig.h"

#include "store/pins.h"
#include "store/room.h"

enum {
	STEPS = 6000,
	KEYS = 40,
	MIB = 1 << 20,
	SOURCE = 12 * MIB, /* of the client's buffer, where values come from; GETs go behind it */
	STAGES = 8
};

/* A value that was begun: what is known of it, to go on or to go wrong. */
struct begun {
	uint64_t id, total, at, sum, done; /* id: of the request that began it */
	unsigned key;
};

static struct begun begun[STAGES];
static uint64_t last_ids[16], leases[16];

static const char *key_name(unsigned i)
{
	static char name[KEYS][16];
	snprintf(name[i], sizeof(name[i]), "storm%u", i);
	return name[i];
}

static uint64_t some_size(struct kv_prng *p)
{
	static const uint64_t most[] = {100, 3000, 70000, MIB, 3 * MIB, 9 * MIB};
	return 1 + kv_prng_below(p, most[kv_prng_below(p, KV_COUNT(most))]);
}

/* ---- requests ---- */

static struct wire_request part_of(struct begun *v, uint64_t stage, uint64_t from, uint64_t n, uint8_t flags)
{
	struct wire_request q = rig_put(key_name(v->key), v->total, from, n, v->sum, flags);
	q.put.stage = stage;
	if (n && n <= 1500) {
		q.dest = (struct wire_dest){0};
		q.put.inline_data = (struct wire_bytes){rig_memory(v->at + from), (uint32_t)n};
	} else if (n) {
		q.dest.offset = v->at + from;
	}
	return q;
}

static struct wire_request put_first(struct kv_prng *p)
{
	struct begun *v = &begun[kv_prng_below(p, STAGES)];
	uint8_t flags = WIRE_PUT_FIRST;
	struct wire_request q;
	v->total = some_size(p);
	v->at = kv_prng_below(p, SOURCE - v->total);
	v->key = (unsigned)kv_prng_below(p, KEYS);
	v->sum = kv_hash_block(rig_memory(v->at), v->total) + (kv_prng_below(p, 20) == 0);
	v->done = kv_prng_below(p, 2) ? v->total : kv_prng_below(p, v->total + 1);
	if (v->done == v->total)
		flags |= WIRE_PUT_LAST;
	q = part_of(v, 0, 0, v->done, flags);
	q.put.ttl_s = (uint32_t)kv_prng_below(p, 3);
	v->id = q.id;
	return q;
}

/* Mostly the rest of it, or any part. */
static struct wire_request put_more(struct kv_prng *p)
{
	struct begun *v = &begun[kv_prng_below(p, STAGES)];
	const struct wire_reply *r = v->id ? rig_find(v->id) : NULL;
	uint64_t stage = r && r->type == WIRE_PUT ? r->put.stage : kv_prng_next(p), from = v->done, n;
	if (!v->total)
		return rig_request(WIRE_PING, NULL);
	if (kv_prng_below(p, 6) == 0)
		from = kv_prng_below(p, v->total + 1);
	n = kv_prng_below(p, 3) ? v->total - from : kv_prng_below(p, v->total - from + 1);
	v->done = from + n;
	return part_of(v, stage, from, n, kv_prng_below(p, 3) ? WIRE_PUT_LAST : 0);
}

static struct wire_request get(struct kv_prng *p)
{
	static const uint8_t flags[] = {0,
					WIRE_GET_SUM_RANGE,
					WIRE_GET_INLINE,
					WIRE_GET_CHECK,
					WIRE_GET_PULL,
					WIRE_GET_PULL | WIRE_GET_SUM_RANGE,
					WIRE_GET_PACK};
	uint64_t n = some_size(p);
	struct wire_request q =
		rig_get(key_name((unsigned)kv_prng_below(p, KEYS)), kv_prng_below(p, 3) ? 0 : kv_prng_below(p, n), n);
	q.flags = flags[kv_prng_below(p, KV_COUNT(flags))];
	q.dest.offset = SOURCE + kv_prng_below(p, RIG_BUFFER - SOURCE - n);
	return q;
}

static struct wire_request release(struct kv_prng *p)
{
	static uint8_t packed[8];
	wire_release_put(packed, 0, leases[kv_prng_below(p, KV_COUNT(leases))] + (kv_prng_below(p, 10) == 0));
	return (struct wire_request){.type = WIRE_RELEASE, .time_left_us = UINT32_MAX, .release = {1, packed}};
}

static struct wire_request some_request(struct kv_prng *p)
{
	const char *key = key_name((unsigned)kv_prng_below(p, KEYS));
	unsigned what = (unsigned)kv_prng_below(p, 100);
	struct wire_request q;
	if (what < 30)
		return put_first(p);
	if (what < 45)
		return put_more(p);
	if (what < 65)
		return get(p);
	if (what < 70)
		return release(p);
	q = rig_request(what < 80   ? WIRE_PIN
			: what < 84 ? WIRE_DELETE
			: what < 90 ? WIRE_TOUCH
				    : WIRE_CANCEL,
			what < 90 ? key : NULL);
	if (q.type == WIRE_CANCEL)
		q.cancel.id = last_ids[kv_prng_below(p, KV_COUNT(last_ids))];
	else if (q.type == WIRE_PIN)
		q.flags = kv_prng_below(p, 3) ? 0 : WIRE_PIN_RELEASE;
	else if (q.type == WIRE_TOUCH)
		q.flags = kv_prng_below(p, 2) ? 0 : WIRE_TOUCH_LOOK;
	return q;
}

static void leases_note(struct kv_prng *p)
{
	for (unsigned i = 0; i < rig.replies && i < RIG_REPLIES; i++)
		if (rig.reply[i].reply.type == WIRE_GET && rig.reply[i].reply.flags & WIRE_GET_LEASED)
			leases[kv_prng_below(p, KV_COUNT(leases))] = rig.reply[i].reply.get.lease;
	if (rig.replies > RIG_REPLIES / 2)
		rig.replies = 0;
}

/* ---- whose they are ---- */

static const uint32_t further[] = {1 << SESSION_INDEX_BITS, 1 << SESSION_INDEX_BITS | 1, 1 << SESSION_INDEX_BITS | 2};
static uint32_t ending;

static void all_open(void)
{
	for (unsigned i = 0; i < KV_COUNT(further); i++)
		assert_int_equal(rig_session_open(further[i]), 0);
}

static void run_session_end(struct call *c)
{
	static uint64_t received;
	session_end(rig.attachment, ending, c, &received);
}

/* One ends, whatever it has under way, and opens again. */
static void one_ends(struct kv_prng *p)
{
	ending = further[kv_prng_below(p, KV_COUNT(further))];
	rig_call_run(run_session_end);
	assert_int_equal(rig_session_open(ending), 0);
}

static void send_as_one(struct kv_prng *p, const struct wire_request *q)
{
	uint64_t one = kv_prng_below(p, KV_COUNT(further) + 2);
	struct wire_request records[] = {
		{.type = WIRE_SESSION, .session.number = one < KV_COUNT(further) ? further[one] : 0}, *q};
	struct wire_frame frame = rig_frame();
	rig_send_records(&frame, records, KV_COUNT(records));
}

/* ---- what must be true at any time ---- */

static void check_bytes(void)
{
	for (unsigned i = 0; i < KEYS; i++) {
		const struct block *b =
			store_find(&rig.shard->store, key_name(i), strlen(key_name(i)), loop_turn_now(rig.loop));
		if (b)
			assert_int_equal(kv_hash_block(store_data(&rig.shard->store, b), b->len), b->checksum);
	}
}

/* A block that only one set pins, that of a session that has ended and is dropped in slices, is not pinned. */
static bool is_pinned(const struct block *b)
{
	bool single = b->pins.next == b->pins.prev;
	return !kv_list_empty(&b->pins) && !(single && KV_LIST_ENTRY(b->pins.next, struct pin, of_block)->set->left);
}

static void check_accounts(void)
{
	const struct store *s = &rig.shard->store;
	uint64_t used = 0, gone = 0, pinned = 0, leased = 0, live = 0, stages = 0, pins = 0;
	for (const struct arena_block *m = s->arena.first; m; m = m->next) {
		const struct block *b = m->owner;
		if (!b)
			continue;
		used += m->size;
		gone += b->state == BLOCK_GONE ? m->size : 0;
		live += b->state == BLOCK_LIVE;
		pinned += b->state == BLOCK_LIVE && is_pinned(b) ? m->size : 0;
		KV_LIST_EACH (n, &b->pins)
			pins += KV_LIST_ENTRY(n, struct pin, of_block)->set->left ? 0 : m->size;
		leased += m->leases ? m->size : 0;
		stages += b->state == BLOCK_STAGED && b->mem ? m->size : 0;
	}
	assert_int_equal(s->arena.used, used);
	assert_int_equal(s->gone_bytes, gone);
	assert_int_equal(s->pinned_bytes, pinned);
	assert_int_equal(rig.shard->leased_bytes, leased);
	assert_int_equal(index_count(&s->index), live);
	assert_in_range(s->staged_bytes, stages, UINT64_MAX);
	assert_in_range(rig.attachment->staged_bytes, stages, UINT64_MAX);
	for (unsigned i = 0; i < KV_COUNT(further); i++)
		pins -= pins_bytes(&rig.attachment->sessions.at[i]->pins);
	assert_true(pins_bytes(&rig.attachment->own.pins) == pins);
	assert_int_equal(rig.shard->work->waits.used, s->rooms.used);
}

static void any_request_at_any_time_leaves_nothing(void **state)
{
	struct kv_prng p = check_seed();
	rig_fill(rig_memory(0), SOURCE, 1);
	(void)rig_tiny_fill();
	all_open();
	for (unsigned step = 0; step < STEPS; step++) {
		struct wire_request q = some_request(&p);
		if (q.id) {
			q.time_left_us = kv_prng_below(&p, 4) ? 1000000 : (uint32_t)kv_prng_below(&p, 5000);
			last_ids[step % KV_COUNT(last_ids)] = q.id;
		}
		send_as_one(&p, &q);
		if (kv_prng_below(&p, 50) == 0)
			one_ends(&p);
		for (unsigned turns = (unsigned)kv_prng_below(&p, 6); turns > 0; turns--)
			rig_turn();
		leases_note(&p);
		if (step % 128 == 0)
			check_accounts();
		if (step % 512 == 0)
			check_bytes();
		if (step % 1024 == 1023) {
			rig_close(state);
			rig_open(state);
			all_open();
			memset(begun, 0, sizeof(begun));
			(void)rig_tiny_fill();
		}
	}
	check_bytes();
	assert_true(rig_stat(WIRE_STAT_ROOMS) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(any_request_at_any_time_leaves_nothing, rig_open, rig_close),
	};
	rig_lease_ns = 20000000;
	return cmocka_run_group_tests_name("kvserver/storm", tests, rig_up, rig_down);
}
