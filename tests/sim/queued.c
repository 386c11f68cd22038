/* SPDX-License-Identifier: Apache-2.0 */
/* queued.c -- what a queue promises, under virtual time: each id has one completion, by its deadline and what follows;
 * an id that was not cancelled does not end so; bytes are right; and what was reaped is poisoned at once and stays so.
 *
 * The program is outside of the loops, as a host is: it acts, and then lets the world go on for a while. */
#include "tests/sim/queued.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tests/sim/ring_sim.h"

enum {
	SLOTS = 24,
	ITEMS = 6,
	PARTS = 5,
	KEYS = 24,
	VALUE_MAX = 90 << 10,
	LARGE = 720 << 10, /* bytes for each item of slot 0: its batches have a part on each of two loops */
	DEPTH = 16,        /* fewer than slots: some submissions are refused */
	POISON = 0xA5
};
#define STILL_NS  (80 * MS)                    /* how long a loop stands still at most */
#define AFTER_NS  (2 * SECOND)                 /* the grace, a fence, and a loop that stood still meanwhile */
#define CANCEL_NS (WORLD_GRACE + 4 * STILL_NS) /* the same after kvc_cancel: loops stand still in turns */

struct slot {
	uint64_t id; /* 0: it is the program's */
	uint64_t until_ns;
	uint64_t cancelled_ns; /* 0: it was not cancelled */
	enum kvc_op op;
	unsigned n, key[ITEMS];
	struct kvc_item item[ITEMS];
	struct kvc_layout layout[ITEMS]; /* every other GET is in parts */
	struct kvc_arrival arrival[ITEMS];
	uint64_t ends[PARTS];
	uint8_t *bytes;
	uint64_t room; /* for each item */
};

static struct {
	struct world *w;
	struct kvc_queue *queue;
	struct kv_prng prng;
	struct slot slot[SLOTS];
	struct kvc_mem *mem;
	uint8_t *memory;
	uint64_t memory_bytes;
	unsigned out;
	uint64_t ended[KVC_OPS], cancels;
	bool closing;
} q;

static uint64_t some(uint64_t n)
{
	return kv_prng_below(&q.prng, n);
}

static uint64_t value_len(unsigned key)
{
	return 1 + (uint64_t)key * key * 2654435761u % (key % 3 ? VALUE_MAX : 3000);
}

static uint8_t value_byte(unsigned key, uint64_t at)
{
	return (uint8_t)(key * 37 + at * 11 + (at >> 8) * 3);
}

static struct kvc_key key_of(unsigned key)
{
	static char text[KEYS][2];
	text[key][0] = 'q';
	text[key][1] = (char)('a' + key);
	return (struct kvc_key){text[key], 2};
}

static void poison(struct slot *s)
{
	memset(s->bytes, POISON, s->room * ITEMS);
}

/* Nothing has touched what was the program's. */
static void poison_check(const struct slot *s)
{
	for (uint64_t i = 0; i < s->room * ITEMS; i++)
		if (s->bytes[i] != POISON) {
			world_wrong(q.w, "byte %llu of slot %u was written after its completion", (unsigned long long)i,
				    (unsigned)(s - q.slot));
			return;
		}
}

static void item_part(struct slot *s, unsigned i)
{
	for (unsigned p = 0; p < PARTS; p++)
		s->ends[p] = s->room * (p + 1) / PARTS / (PARTS - p) / (PARTS - p); /* short ones first */
	s->arrival[i] = (struct kvc_arrival){0};
	s->layout[i] = (struct kvc_layout){
		.size = sizeof(s->layout[i]), .num_parts = PARTS, .part_ends = s->ends, .arrival = &s->arrival[i]};
	s->item[i].layout = &s->layout[i];
}

static int64_t slot_submit(struct slot *s)
{
	int64_t (*const submit[])(struct kvc_queue *, struct kvc_item *, unsigned, const struct kvc_call *,
				  uint64_t) = {kvc_submit_get, kvc_submit_put, kvc_submit_exists, kvc_submit_delete};
	static const enum kvc_op ops[] = {KVC_OP_GET, KVC_OP_PUT, KVC_OP_EXISTS, KVC_OP_DELETE};
	unsigned kind = (unsigned)(some(8) < 5 ? some(2) : some(4));
	struct kvc_call call = {.size = sizeof(call),
				.timeout_ns = 1 + some(some(3) ? 300 * MS : 5 * MS),
				.flags = (s - q.slot) % 4 == 1   ? KVC_BACKGROUND
					 : (s - q.slot) % 4 == 2 ? KVC_TWO_COPIES
								 : 0};
	s->op = ops[kind];
	s->n = s == q.slot ? ITEMS : 1 + (unsigned)some(ITEMS);
	s->cancelled_ns = 0;
	s->until_ns = world_now(q.w) + call.timeout_ns;
	for (unsigned i = 0; i < s->n; i++) {
		unsigned key = s->key[i] = (unsigned)some(KEYS);
		uint8_t *at = s->bytes + i * s->room;
		s->item[i] = (struct kvc_item){.key = key_of(key), .data = at, .len = s->room, .result = 77};
		if (s->op == KVC_OP_GET && key % 2)
			item_part(s, i);
		if (s->op != KVC_OP_PUT)
			continue;
		s->item[i].len = value_len(key);
		for (uint64_t b = 0; b < value_len(key); b++)
			at[b] = value_byte(key, b);
	}
	return submit[kind](q.queue, s->item, s->n, &call, (uint64_t)(s - q.slot));
}

static void one_submit(void)
{
	struct slot *s = &q.slot[some(SLOTS)];
	int64_t id;
	if (s->id)
		return;
	poison_check(s);
	id = slot_submit(s);
	if (id == -KV_EBUSY) {
		poison(s);
		if (q.out == 0)
			world_wrong(q.w, "a queue without ids is full");
	} else if (id <= 0) {
		world_wrong(q.w, "submitting returned %s", kv_errname((int)id));
	} else {
		s->id = (uint64_t)id;
		q.out++;
	}
}

static void one_cancel(void)
{
	struct slot *s = &q.slot[some(SLOTS)];
	uint64_t id = s->id ? s->id : some(1 << 30);
	int rc = kvc_cancel(q.queue, id);
	q.cancels++;
	if (s->id && rc == 0)
		s->cancelled_ns = s->cancelled_ns ? s->cancelled_ns : world_now(q.w);
	else if (rc != -KV_ENOTFOUND)
		world_wrong(q.w, "a cancel returned %s", kv_errname(rc));
}

static bool code_right(const struct slot *s, int64_t rc)
{
	switch (rc) {
	case -KV_ETIMEOUT:
	case -KV_EPEERDOWN:
	case -KV_EBUSY:
		return true;
	case -KV_ECANCELED:
		return s->cancelled_ns > 0;
	case -KV_ECLOSED:
		return q.closing;
	case -KV_ENOTFOUND:
		return s->op == KVC_OP_GET || s->op == KVC_OP_DELETE;
	default:
		return false;
	}
}

/* What was told is right, however the item ended, and no more than the parts that the value fills. */
static bool parts_right(const struct slot *s, unsigned i)
{
	uint32_t told = kvc_arrival_parts(&s->arrival[i]);
	uint64_t n = told ? s->ends[told - 1] : 0, len = value_len(s->key[i]);
	unsigned filled = 0;
	while (filled < PARTS && s->ends[filled] <= len)
		filled++;
	for (uint64_t b = 0; b < n; b++)
		if (b >= len || s->bytes[i * s->room + b] != value_byte(s->key[i], b))
			return false;
	return told <= filled && (s->item[i].result < 0 || told == filled);
}

static bool item_right(const struct slot *s, unsigned i)
{
	int64_t rc = s->item[i].result;
	uint64_t len = value_len(s->key[i]);
	if (s->item[i].layout && !parts_right(s, i))
		return false;
	if (rc < 0)
		return code_right(s, rc);
	if (s->op != KVC_OP_GET)
		return rc <= (s->op == KVC_OP_EXISTS);
	if ((uint64_t)rc != len)
		return false;
	for (uint64_t b = 0; b < len; b++)
		if (s->bytes[i * s->room + b] != value_byte(s->key[i], b))
			return false;
	return true;
}

static void slot_take(struct slot *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (!item_right(s, i))
			world_wrong(q.w, "%s of item %u of an id ended with %lld", kvc_opname(s->op), i,
				    (long long)s->item[i].result);
		s->item[i].result = 77;
	}
	s->id = 0;
	q.ended[s->op]++;
	q.out--;
	poison(s);
}

static void slot_late(const struct slot *s, unsigned i)
{
	uint64_t now = world_now(q.w);
	if (s->id && now > s->until_ns + AFTER_NS)
		world_wrong(q.w, "%s of slot %u has no completion %.3f s after its deadline", kvc_opname(s->op), i,
			    (double)(now - s->until_ns) / 1e9);
	if (s->id && s->cancelled_ns && now > s->cancelled_ns + CANCEL_NS)
		world_wrong(q.w, "%s of slot %u has no completion %.3f s after kvc_cancel", kvc_opname(s->op), i,
			    (double)(now - s->cancelled_ns) / 1e9);
}

static void all_reap(void)
{
	struct kvc_completion c[5];
	int n;
	while ((n = kvc_reap(q.queue, c, 1 + (unsigned)some(KV_COUNT(c)))) > 0)
		for (int i = 0; i < n; i++) {
			struct slot *s = &q.slot[c[i].tag % SLOTS];
			if (c[i].tag >= SLOTS || s->id != c[i].id || c[i].items != s->item || c[i].n != s->n) {
				world_wrong(q.w, "a completion of an id that is not out");
				return;
			}
			slot_take(s);
		}
	if (n < 0)
		world_wrong(q.w, "reaping returned %s", kv_errname(n));
	for (unsigned i = 0; i < SLOTS; i++)
		slot_late(&q.slot[i], i);
}

/* A shard of a server or the loop of a client stands still for a while. */
static void all_go_on(void *arg)
{
	(void)arg;
	for (unsigned s = 0; s < q.w->num_servers; s++)
		world_server_freeze(q.w, s, false);
	for (unsigned c = 0; c < q.w->options.clients; c++)
		sim_loop_freeze(q.w->pool[0].loop[c], false);
}

static void one_stands_still(void)
{
	if (some(3) == 0)
		sim_loop_freeze(q.w->pool[0].loop[some(q.w->options.clients)], true);
	else
		sim_loop_freeze(q.w->server[some(q.w->num_servers)].loop[1 + some(WORLD_SHARDS)], true);
	sim_world_at(q.w->sim, world_now(q.w) + 1 + some(STILL_NS), all_go_on, NULL);
}

static void slots_init(void)
{
	uint8_t *at;
	q.memory_bytes = kv_align_up(ITEMS * (LARGE + (SLOTS - 1) * (uint64_t)VALUE_MAX), 4096);
	q.memory = at = aligned_alloc(4096, q.memory_bytes);
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &q.slot[i];
		*s = (struct slot){.bytes = at, .room = i ? VALUE_MAX : LARGE};
		at += s->room * ITEMS;
		poison(s);
	}
}

static void queue_end(bool stop)
{
	unsigned out = q.out;
	int dropped;
	all_go_on(NULL);
	if (stop) {
		q.closing = true;
		world_pool_stop(q.w, 0);
		for (unsigned i = 0; i < 100 && q.out > 0; i++) {
			world_sleep(q.w, 50 * MS);
			all_reap();
		}
		if (q.out > 0)
			world_wrong(q.w, "%u ids have no completion, and the pool is closed", q.out);
		return; /* queued_free closes the queue, when the pool has gone */
	}
	for (unsigned i = 0; i < SLOTS; i++)
		q.slot[i].cancelled_ns = world_now(q.w);
	dropped = kvc_queue_close(&q.queue);
	if (dropped != (int)out) {
		world_wrong(q.w, "%d ids were dropped, and %u were out", dropped, out);
		world_sleep(q.w, 0); /* at once: what was dropped early goes on in memory that is free */
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (q.slot[i].id)
			slot_take(&q.slot[i]);
}

void queued_run(struct world *w, uint64_t seed, uint64_t for_ns, bool stop)
{
	struct kvc_queue_options o = {.size = sizeof(o), .depth = DEPTH};
	struct kv_error err = {0};
	uint64_t until = world_now(w) + for_ns;
	memset(&q, 0, sizeof(q));
	q.w = w;
	kv_prng_seed(&q.prng, seed ^ 0x90e0e);
	slots_init();
	if (world_register(w, 0, q.memory, kv_align_up(q.memory_bytes / 2, 4096), &q.mem) < 0 ||
	    kvc_queue_open(w->pool[0].pool, &o, &q.queue, &err) < 0) {
		world_wrong(w, "no queue: %s", err.text);
		world_sleep(w, 1);
	}
	while (world_now(w) < until) {
		for (uint64_t n = some(6); n > 0; n--)
			one_submit();
		if (some(4) == 0)
			one_cancel();
		if (some(30) == 0)
			one_stands_still();
		world_sleep(w, 1 + some(some(3) ? 3 * MS : 20 * MS));
		if (some(3))
			all_reap();
	}
	queue_end(stop);
	world_sleep(w, 5 * SECOND);
	for (unsigned i = 0; i < SLOTS; i++)
		poison_check(&q.slot[i]);
	if (q.cancels == 0 || q.ended[KVC_OP_GET] == 0 || q.ended[KVC_OP_PUT] == 0)
		world_wrong(w, "nothing was done");
	world_sleep(w, 1);
}

void queued_free(void)
{
	if (kvc_queue_close(&q.queue) != 0)
		abort();
	free(q.memory);
	q.memory = NULL;
}
