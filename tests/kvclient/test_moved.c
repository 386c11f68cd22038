/* SPDX-License-Identifier: Apache-2.0 */
/* test_moved.c -- a GET moves its bytes once, whichever call makes it and however large the value is.
 *
 * The server counts what it puts on the fabric. Before each GET a small value is read, so that every guess of a length
 * is wrong. Some lengths are random: KVRAIL_SEED. Small items of a batch share a write of the server
 * (kvserver/ops/pack.c). */
#include <poll.h>
#include <sys/mman.h>

#include "tests/kvclient/calls.h"

enum { MOST = 80 << 20, ITEMS = 40, ITEMS_LARGE = 3, ITEMS_MOST = 32 << 20, PARTS = 4, RANDOM = 24, SMALL = 16 << 10 };

/* The rest is random. */
static uint64_t sizes[8 + RANDOM] = {513,      4 << 10, 64 << 10, 1 << 20, (16 << 20) - 1, 16 * MIB + MIB / 10,
				     32 << 20, MOST};

static struct {
	struct kvc_pool *pool; /* of one client, whose receive buffer two ranges and more fit */
	struct kvc_queue *queue;
	struct kvc_mem *mem;
	uint8_t *bytes; /* room for ITEMS values, or one of any size in slices */
	char text[KV_COUNT(sizes)][64];
	struct kvc_key key[KV_COUNT(sizes) + 1], small;
} t;

enum { ROOM = MOST + (MOST >> 1), MISSING = KV_COUNT(sizes) };

/* Three of four are small enough to be packed, and they are of all magnitudes. */
static void sizes_make(void)
{
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	struct kv_prng p;
	printf("# KVRAIL_SEED=0x%llx\n", (unsigned long long)seed);
	kv_prng_seed(&p, seed);
	for (unsigned i = 0; i < RANDOM; i++) {
		uint64_t below = i % 4 ? SMALL : MIB, from = UINT64_C(300) << kv_prng_below(&p, i % 4 ? 6 : 11);
		sizes[8 + i] = from + kv_prng_below(&p, KV_MIN(from, below));
	}
}

static int up(void **state)
{
	struct kv_error err;
	calls_up(state);
	if (!test_first.pid)
		return 0;
	sizes_make();
	t.pool = test_pool(one, 1, 1);
	t.bytes = memory(ROOM);
	t.small = NAMED("small");
	assert_int_equal(kvc_put(t.pool, t.small, "x", 1, NULL), 0);
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		t.key[i] = key_of(t.text[i], sizeof(t.text[i]), "moved", i);
		test_fill(t.bytes, sizes[i], i);
		assert_int_equal(kvc_put(t.pool, t.key[i], t.bytes, sizes[i], NULL), 0);
	}
	t.key[MISSING] = NAMED("missing");
	assert_int_equal(kvc_queue_open(t.pool, NULL, &t.queue, &err), 0);
	return 0;
}

static int down(void **state)
{
	kvc_queue_close(&t.queue);
	kvc_pool_close(&t.pool);
	if (t.bytes)
		munmap(t.bytes, ROOM);
	return calls_down(state);
}

/* ---- the ways: each gets value i, and returns how many bytes came, or a code ---- */

struct want {
	unsigned i;
	uint64_t len;
	int64_t got;
};

static void on_client(void (*fn)(struct kvc_client *c, unsigned w, void *arg), struct want *w)
{
	assert_int_equal(kvc_run(t.pool, 1, fn, w), 0);
}

static void way_get(struct want *w)
{
	w->got = kvc_get(t.pool, t.key[w->i], t.bytes, w->len, NULL);
}

static void way_get_of_unknown_length(struct want *w)
{
	w->got = kvc_get(t.pool, t.key[w->i], t.bytes, ROOM, NULL);
}

static void way_get_of_a_part(struct want *w)
{
	struct kvc_call call = {.size = sizeof(call), .offset = 1000, .length = w->len - 1000};
	w->got = kvc_get(t.pool, t.key[w->i], t.bytes, w->len, &call);
}

static void get_worker(struct kvc_client *c, unsigned n, void *arg)
{
	struct want *w = arg;
	(void)n;
	w->got = kvc_get_await(c, t.key[w->i], t.bytes, w->len, NULL);
}

static void way_get_await(struct want *w)
{
	on_client(get_worker, w);
}

static uint64_t expected;

static void borrow_worker(struct kvc_client *c, unsigned n, void *arg)
{
	struct want *w = arg;
	struct kvc_borrowed b;
	(void)n;
	w->got = kvc_get_borrowed_await(c, t.key[w->i], expected, NULL, &b);
	kvc_borrowed_release(c, &b);
}

/* A borrowed piece is at most half of the buffer: such a value cannot be borrowed. */
static void way_borrowed(struct want *w)
{
	if (w->len > 32 * MIB && w->i != MISSING) {
		w->got = 0;
		return;
	}
	expected = 0;
	on_client(borrow_worker, w);
	if (w->got < 0)
		return;
	assert_int_equal(w->got, w->len);
	expected = w->len;
	on_client(borrow_worker, w);
	w->got += w->len;
}

static void items_sum(struct want *w, const struct kvc_item *it, unsigned n)
{
	w->got = 0;
	for (unsigned i = 0; i < n; i++)
		w->got = it[i].result < 0 ? it[i].result : w->got + it[i].result;
}

static unsigned items_make(const struct want *w, struct kvc_item *it)
{
	unsigned n = w->len > ITEMS_MOST ? 1 : w->len > SMALL ? ITEMS_LARGE : ITEMS;
	for (unsigned i = 0; i < n; i++)
		it[i] = (struct kvc_item){.key = t.key[w->i], .data = t.bytes + i * w->len, .len = w->len};
	return n;
}

static void way_batch_of_one(struct want *w)
{
	struct kvc_item it = {.key = t.key[w->i], .data = t.bytes, .len = w->len};
	(void)kvc_get_batch(t.pool, &it, 1, NULL);
	w->got = it.result;
}

static void way_batch(struct want *w)
{
	struct kvc_item it[ITEMS];
	unsigned n = items_make(w, it);
	(void)kvc_get_batch(t.pool, it, n, NULL);
	items_sum(w, it, n);
}

static void way_batch_of_larger_places(struct want *w)
{
	struct kvc_item it = {.key = t.key[w->i], .data = t.bytes, .len = ROOM};
	(void)kvc_get_batch(t.pool, &it, 1, NULL);
	w->got = it.result;
}

static void way_batch_of_parts_of_values(struct want *w)
{
	struct kvc_call call = {.size = sizeof(call), .offset = 10, .length = w->len - 20};
	struct kvc_item it = {.key = t.key[w->i], .data = t.bytes, .len = w->len};
	(void)kvc_get_batch(t.pool, &it, 1, &call);
	w->got = it.result;
}

static void batch_worker(struct kvc_client *c, unsigned k, void *arg)
{
	struct want *w = arg;
	struct kvc_item it[ITEMS];
	unsigned n = items_make(w, it);
	(void)k;
	(void)kvc_get_batch_await(c, it, n, NULL);
	items_sum(w, it, n);
}

static void way_batch_await(struct want *w)
{
	on_client(batch_worker, w);
}

static void reap(void)
{
	struct pollfd p = {.fd = kvc_queue_fd(t.queue), .events = POLLIN};
	struct kvc_completion c;
	while (kvc_reap(t.queue, &c, 1) == 0)
		poll(&p, 1, -1);
}

static void way_queue(struct want *w)
{
	struct kvc_item it[ITEMS];
	unsigned n = items_make(w, it);
	assert_true(kvc_submit_get(t.queue, it, n, NULL, 0) > 0);
	reap();
	items_sum(w, it, n);
}

/* Slices as a cache of layers has them; tail: bytes of the last one, which is shorter. */
static void slices(struct want *w, uint64_t slice)
{
	struct kvc_item it = {
		.key = t.key[w->i], .data = t.bytes, .len = w->len, .slice = slice, .stride = slice + slice / 4};
	assert_true(kvc_submit_get(t.queue, &it, 1, NULL, 0) > 0);
	reap();
	w->got = it.result;
}

static void way_slices(struct want *w)
{
	slices(w, KV_MAX(w->len / 64, 2048u));
}

static void way_slices_with_a_tail(struct want *w)
{
	slices(w, KV_MAX(w->len / 64, 2048u) - 8);
}

static void way_long_slices(struct want *w)
{
	slices(w, w->len / 2 + 4);
}

/* Two spans that are no slices. */
static void way_spans(struct want *w)
{
	uint64_t a = w->len / 3;
	struct kvc_span s[2] = {{.data = t.bytes + ROOM / 2, .len = a}, {.data = t.bytes, .len = w->len - a}};
	struct kvc_layout l = {.size = sizeof(l), .spans = s, .num_spans = 2};
	struct kvc_item it = {.key = t.key[w->i], .len = w->len, .layout = &l};
	(void)kvc_get_batch(t.pool, &it, 1, NULL);
	w->got = it.result;
}

static void parts(struct want *w, const uint64_t *ends, uint64_t slice)
{
	static struct kvc_arrival arrival[ITEMS];
	struct kvc_layout l[ITEMS];
	struct kvc_item it[ITEMS];
	unsigned n = slice ? 1 : items_make(w, it);
	if (slice)
		it[0] = (struct kvc_item){.key = t.key[w->i],
					  .data = t.bytes,
					  .len = w->len,
					  .slice = slice,
					  .stride = slice + slice / 4};
	for (unsigned i = 0; i < n; i++) {
		l[i] = (struct kvc_layout){
			.size = sizeof(l[i]), .num_parts = PARTS, .part_ends = ends, .arrival = &arrival[i]};
		it[i].layout = &l[i];
	}
	assert_true(kvc_submit_get(t.queue, it, n, NULL, 0) > 0);
	reap();
	items_sum(w, it, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(kvc_arrival_parts(&arrival[i]), w->got < 0 ? 0 : PARTS);
}

static void way_parts(struct want *w)
{
	uint64_t ends[PARTS];
	for (unsigned i = 0; i < PARTS; i++)
		ends[i] = w->len * (i + 1) / PARTS;
	parts(w, ends, 0);
}

/* One of them needs several ranges, if the value is large. */
static void way_uneven_parts(struct want *w)
{
	const uint64_t ends[PARTS] = {w->len / 20, w->len / 10, w->len - 100, w->len};
	parts(w, ends, 0);
}

static void way_parts_of_slices(struct want *w)
{
	uint64_t ends[PARTS], slice = KV_MAX(w->len / 64, 1024u);
	for (unsigned i = 0; i < PARTS; i++)
		ends[i] = w->len * (i + 1) / PARTS;
	parts(w, ends, slice);
}

static const struct {
	const char *name;
	void (*get)(struct want *w);
	uint64_t least; /* bytes of a value that it is for */
} ways[] = {
	{"kvc_get", way_get, 0},
	{"kvc_get of unknown length", way_get_of_unknown_length, 0},
	{"kvc_get of a part", way_get_of_a_part, 4 << 10},
	{"kvc_get_await", way_get_await, 0},
	{"borrowed", way_borrowed, 0},
	{"batch of one", way_batch_of_one, 0},
	{"batch", way_batch, 0},
	{"batch of larger places", way_batch_of_larger_places, 0},
	{"batch of parts of values", way_batch_of_parts_of_values, 0},
	{"kvc_get_batch_await", way_batch_await, 0},
	{"queue", way_queue, 0},
	{"slices", way_slices, 4 << 10},
	{"slices with a tail", way_slices_with_a_tail, 4 << 10},
	{"long slices", way_long_slices, 0},
	{"spans", way_spans, 0},
	{"parts", way_parts, 64 << 10},
	{"uneven parts", way_uneven_parts, MIB},
	{"parts of slices", way_parts_of_slices, 64 << 10},
};

/* ---- the test ---- */

/* What the server has written to clients. (Counters of NICs that are 0 are not told.) */
static uint64_t fabric_bytes(void)
{
	struct kvc_stat_item item[256];
	int n = kvc_stat(t.pool, item, KV_COUNT(item), NULL);
	assert_true(n > 0);
	for (int i = 0; i < n; i++)
		if (strcmp(item[i].name, "rail_0_bytes") == 0)
			return item[i].value;
	return 0;
}

static void one_way(unsigned k, unsigned i)
{
	struct want w = {.i = i, .len = sizes[i]};
	uint8_t x[16];
	uint64_t before, moved, hits, values;
	if (w.len < ways[k].least)
		return;
	assert_int_equal(kvc_get(t.pool, t.small, x, sizeof(x), NULL), 1);
	before = fabric_bytes();
	hits = test_stat(t.pool, "hits");
	ways[k].get(&w);
	moved = fabric_bytes() - before;
	if (w.got < (int64_t)(w.len < 4 << 10 ? w.len - 20 : w.len - 1000) &&
	    !(ways[k].get == way_borrowed && w.got == 0))
		fail_msg("%s of %llu bytes gave %lld", ways[k].name, (unsigned long long)w.len, (long long)w.got);
	if ((double)moved > 1.02 * (double)w.got)
		fail_msg("%s of %llu bytes moved %llu for %lld", ways[k].name, (unsigned long long)w.len,
			 (unsigned long long)moved, (long long)w.got);
	hits = test_stat(t.pool, "hits") - hits;
	values = ((uint64_t)w.got + w.len - 1) / w.len;
	if (hits != values)
		fail_msg("%s of %llu bytes counted %llu hits for %llu values", ways[k].name, (unsigned long long)w.len,
			 (unsigned long long)hits, (unsigned long long)values);
}

static void all_ways(void)
{
	for (unsigned k = 0; k < KV_COUNT(ways); k++)
		for (unsigned i = 0; i < KV_COUNT(sizes); i++)
			one_way(k, i);
}

static void bytes_are_moved_once_into_plain_memory(void **state)
{
	(void)state;
	need_server();
	all_ways();
}

static void bytes_are_moved_once_into_registered_memory(void **state)
{
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(t.pool, t.bytes, ROOM, &t.mem, &err), 0);
	all_ways();
	assert_int_equal(kvc_unregister(t.pool, &t.mem), 0);
}

/* Of no given length: the length of the value before is a guess only. A value that is too long for the client's buffer
 * moves nothing, and is no hit. */
static void a_value_borrowed_after_one_of_another_length_moves_once(void **state)
{
	enum { LONG = 5, LONGER = 6, TOO_LONG = 7 };
	static const unsigned order[] = {LONGER, LONG, LONGER, TOO_LONG, LONG};
	uint64_t before, moved, hits;
	(void)state;
	need_server();
	expected = 0;
	for (unsigned k = 0; k < KV_COUNT(order); k++) {
		struct want w = {.i = order[k], .len = sizes[order[k]]};
		bool fits = order[k] != TOO_LONG || test_local != KVC_LOCAL_OFF;
		before = fabric_bytes();
		hits = test_stat(t.pool, "hits");
		on_client(borrow_worker, &w);
		moved = fabric_bytes() - before;
		assert_int_equal(w.got, fits ? (int64_t)w.len : -KV_ETOOBIG);
		if ((double)moved > (fits ? 1.02 * (double)w.len : 4096))
			fail_msg("value %u of %llu bytes moved %llu", k, (unsigned long long)w.len,
				 (unsigned long long)moved);
		assert_int_equal(test_stat(t.pool, "hits") - hits, fits);
	}
}

/* A miss counts once, whatever was asked for; and what was counted adds up. */
static void a_miss_counts_once(void **state)
{
	(void)state;
	need_server();
	for (unsigned k = 0; k < KV_COUNT(ways); k++) {
		struct want w = {.i = MISSING, .len = 40 * MIB};
		uint64_t misses = test_stat(t.pool, "misses"), hits = test_stat(t.pool, "hits");
		ways[k].get(&w);
		if (w.got != -KV_ENOTFOUND)
			fail_msg("%s of a missing key: %lld", ways[k].name, (long long)w.got);
		if (test_stat(t.pool, "misses") != misses + 1 || test_stat(t.pool, "hits") != hits)
			fail_msg("%s counted %llu misses", ways[k].name,
				 (unsigned long long)(test_stat(t.pool, "misses") - misses));
	}
	assert_int_equal(test_stat(t.pool, "gets"), test_stat(t.pool, "hits") + test_stat(t.pool, "misses"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_moved_once_into_plain_memory),
		cmocka_unit_test(bytes_are_moved_once_into_registered_memory),
		cmocka_unit_test(a_value_borrowed_after_one_of_another_length_moves_once),
		cmocka_unit_test(a_miss_counts_once),
	};
	return test_both_ways(tests, up, down);
}
