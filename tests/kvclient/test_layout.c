/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c -- values that lie in slices and in spans: PUT gathers them, GET scatters them, on every way that there
 * is.
 *
 * A case is a random layout. The property: what one layout has put, a contiguous GET and any other layout get, byte by
 * byte, and what lies between slices and spans stays as it was. KVRAIL_TEST_SEED repeats a run. */
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kvclient/core/target.h"
#include "tests/kvclient/calls.h"
#include "tests/short.h"

enum { GAP = 0xEE, ROOM = 48 << 20, SPANS = 64, PARTS = 40 };

static uint64_t seed;

/* A layout over `room` bytes from `at`, and which of these bytes it has. */
struct plan {
	uint8_t *at;
	struct kvc_span span[SPANS];
	struct kvc_layout layout;
	struct kvc_item item;
	uint64_t ends[PARTS];
	struct kvc_arrival arrival;
};

static uint64_t some(struct kv_prng *r, uint64_t below)
{
	return below ? kv_prng_below(r, below) : 0;
}

static uint64_t slices_room(uint64_t len, uint64_t slice, uint64_t stride)
{
	return slice && slice < len ? (len - 1) / slice * stride + slice : len;
}

/* Slices of one place, from a few bytes to a few MiB each. False: they need more than ROOM. */
static bool plan_slices(struct plan *p, struct kv_prng *r, uint64_t len)
{
	uint64_t slice = 1 + some(r, 1ull << some(r, 24)), stride = slice + some(r, 1ull << some(r, 14));
	if (len / slice > 5000 || slices_room(len, slice, stride) > ROOM)
		return false;
	p->item.data = p->at;
	p->item.slice = slice;
	p->item.stride = stride;
	return true;
}

/* Spans in any order, apart from each other, some of them with slices. */
static bool plan_spans(struct plan *p, struct kv_prng *r, uint64_t len)
{
	unsigned n = 1 + (unsigned)some(r, KV_MIN(len, (uint64_t)SPANS));
	uint64_t pos = 0, left = len;
	for (unsigned i = 0; i < n; i++) {
		struct kvc_span *s = &p->span[i];
		uint64_t bytes = i + 1 == n ? left : 1 + some(r, (left - (n - i)) / 2 + 1);
		*s = (struct kvc_span){.len = bytes};
		if (some(r, 3) == 0) {
			s->slice = 1 + some(r, bytes);
			s->stride = s->slice + some(r, 100);
			if (bytes / s->slice > 1000)
				s->slice = s->stride = 0;
		}
		left -= bytes;
	}
	for (unsigned i = 0, k = (unsigned)some(r, n); i < n; i++, k = (k + 1) % n) { /* turned round in memory */
		struct kvc_span *s = &p->span[k];
		s->data = p->at + pos;
		pos += slices_room(s->len, s->slice, s->stride) + some(r, 200);
		if (pos > ROOM)
			return false;
	}
	p->layout = (struct kvc_layout){.size = sizeof(p->layout), .spans = p->span, .num_spans = n};
	p->item.layout = &p->layout;
	return true;
}

/* Read in parts that end anywhere. */
static void plan_parts(struct plan *p, struct kv_prng *r)
{
	uint64_t end = 0, left = p->item.len;
	uint32_t n = 1 + (uint32_t)some(r, KV_MIN(left, (uint64_t)PARTS));
	p->layout.size = sizeof(p->layout);
	for (uint32_t i = 0; i < n; i++) {
		end += i + 1 == n ? left : 1 + some(r, (left - (n - i)) / 2 + 1);
		left = p->item.len - end;
		p->ends[i] = end;
	}
	p->arrival = (struct kvc_arrival){0};
	p->layout.num_parts = n;
	p->layout.part_ends = p->ends;
	p->layout.arrival = &p->arrival;
	p->item.layout = &p->layout;
}

static void plan_make(struct plan *p, struct kv_prng *r, uint8_t *at, struct kvc_key key, uint64_t len)
{
	bool made;
	p->at = at;
	do {
		p->item = (struct kvc_item){.key = key, .len = len, .result = 77};
		p->layout = (struct kvc_layout){0};
		made = some(r, 2) ? plan_slices(p, r, len) : plan_spans(p, r, len);
	} while (!made);
}

/* A stupid walk, byte range by byte range: to or from `flat`. */
static void one_walk(uint8_t *at, uint64_t slice, uint64_t stride, uint8_t *flat, uint64_t len, bool out)
{
	slice = slice ? slice : len;
	for (uint64_t pos = 0; pos < len; pos += slice, at += stride) {
		uint64_t n = KV_MIN(slice, len - pos);
		if (out)
			memcpy(at, flat + pos, n);
		else
			memcpy(flat + pos, at, n);
		if (!out)
			memset(at, GAP, n);
	}
}

static void plan_walk(const struct plan *p, uint8_t *flat, bool out)
{
	if (!p->layout.spans)
		one_walk(p->item.data, p->item.slice, p->item.stride, flat, p->item.len, out);
	for (unsigned i = 0; i < p->layout.num_spans; flat += p->span[i++].len)
		one_walk(p->span[i].data, p->span[i].slice, p->span[i].stride, flat, p->span[i].len, out);
}

static void all_gap(const uint8_t *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] != GAP)
			fail_msg("seed %llu: byte %zu between slices was written", (unsigned long long)seed, i);
}

struct room {
	uint8_t *value, *flat, *put, *get;
	struct kvc_mem *mem[2];
};

static uint64_t some_len(struct kv_prng *r)
{
	return 1 + some(r, 1ull << (1 + some(r, 24)));
}

static void one_case(struct kvc_pool *pool, struct room *m, struct kv_prng *r, unsigned n)
{
	char text[64];
	uint64_t len = some_len(r);
	struct kvc_key key = key_of(text, sizeof(text), "layout", n);
	static struct plan put, get;
	plan_make(&put, r, m->put, key, len);
	plan_make(&get, r, m->get, key, len);
	if (some(r, 2))
		plan_parts(&get, r);
	test_fill(m->value, len, n);
	plan_walk(&put, m->value, true);
	if (kvc_put_batch(pool, &put.item, 1, NULL) != 0 || put.item.result != 0)
		fail_msg("seed %llu: PUT of %llu bytes: %s", (unsigned long long)seed, (unsigned long long)len,
			 kvc_strerror((int)put.item.result));
	plan_walk(&put, m->flat, false);
	assert_memory_equal(m->flat, m->value, len); /* a PUT only reads */
	all_gap(m->put, ROOM);
	assert_int_equal(kvc_get(pool, key, m->flat, len, NULL), len);
	assert_memory_equal(m->flat, m->value, len);
	assert_int_equal(kvc_get_batch(pool, &get.item, 1, NULL), 0);
	assert_int_equal(get.item.result, len);
	if (kvc_arrival_parts(&get.arrival) != get.layout.num_parts && get.layout.num_parts)
		fail_msg("seed %llu: %u of %u parts", (unsigned long long)seed, kvc_arrival_parts(&get.arrival),
			 get.layout.num_parts);
	memset(m->flat, 0, len);
	plan_walk(&get, m->flat, false);
	if (memcmp(m->flat, m->value, len) != 0)
		fail_msg("seed %llu: GET of %llu bytes into a layout gave others", (unsigned long long)seed,
			 (unsigned long long)len);
	all_gap(m->get, ROOM);
	assert_int_equal(kvc_delete(pool, key, NULL), 0);
}

/* tests/kvclient: each in turn with plain and with registered memory. */
static void cases(struct kvc_pool *pool, bool registered, unsigned count)
{
	struct room m = {.value = memory(ROOM), .flat = memory(ROOM), .put = memory(ROOM), .get = memory(ROOM)};
	struct kv_prng r;
	struct kv_error err;
	seed = getenv("KVRAIL_TEST_SEED") ? strtoull(getenv("KVRAIL_TEST_SEED"), NULL, 10) : now_ns() % 1000000;
	print_message("# seed %llu\n", (unsigned long long)seed);
	kv_prng_seed(&r, seed);
	memset(m.put, GAP, ROOM);
	memset(m.get, GAP, ROOM);
	if (registered) {
		assert_int_equal(kvc_register(pool, m.put, ROOM, &m.mem[0], &err), 0);
		assert_int_equal(kvc_register(pool, m.get, ROOM, &m.mem[1], &err), 0);
	}
	for (unsigned i = 0; i < count; i++)
		one_case(pool, &m, &r, i);
	assert_int_equal(kvc_unregister(pool, &m.mem[0]), 0);
	assert_int_equal(kvc_unregister(pool, &m.mem[1]), 0);
	munmap(m.value, ROOM);
	munmap(m.flat, ROOM);
	munmap(m.put, ROOM);
	munmap(m.get, ROOM);
}

enum { CASES = 60, FEW = 12 };

static void what_one_layout_puts_another_gets(void **state)
{
	(void)state;
	need_server();
	cases(shared, false, test_rounds(CASES, FEW));
}

static void the_same_in_registered_memory(void **state)
{
	(void)state;
	need_server();
	cases(shared, true, test_rounds(CASES, FEW));
}

/* A batch of pages as SGLang's layer_first has them: two slices for each of 40 layers, all of one stride. */
static void pages_of_many_layers_go_there_and_back(void **state)
{
	enum { PAGES = 24, LAYERS = 80, SLICE = 2048, PAGE = LAYERS * SLICE };
	static struct kvc_item item[PAGES];
	static char text[PAGES][64];
	uint8_t *pool_bytes = memory((size_t)PAGES * PAGE), *flat = memory(PAGE);
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(shared, pool_bytes, (uint64_t)PAGES * PAGE, &mem, &err), 0);
	test_fill(pool_bytes, (uint64_t)PAGES * PAGE, 5);
	for (unsigned i = 0; i < PAGES; i++)
		item[i] = (struct kvc_item){.key = key_of(text[i], sizeof(text[i]), __func__, i),
					    .data = pool_bytes + (size_t)i * SLICE,
					    .len = PAGE,
					    .slice = SLICE,
					    .stride = (uint64_t)PAGES * SLICE};
	assert_int_equal(kvc_put_batch(shared, item, PAGES, NULL), 0);
	for (unsigned i = 0; i < PAGES; i++) {
		assert_int_equal(kvc_get(shared, item[i].key, flat, PAGE, NULL), PAGE);
		for (unsigned k = 0; k < LAYERS; k++)
			assert_memory_equal(flat + (size_t)k * SLICE, pool_bytes + ((size_t)k * PAGES + i) * SLICE,
					    SLICE);
	}
	memset(pool_bytes, 0, (size_t)PAGES * PAGE);
	assert_int_equal(kvc_get_batch(shared, item, PAGES, NULL), 0);
	uint8_t *again = memory((size_t)PAGES * PAGE);
	test_fill(again, (uint64_t)PAGES * PAGE, 5);
	assert_memory_equal(pool_bytes, again, (size_t)PAGES * PAGE);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(pool_bytes, (size_t)PAGES * PAGE);
	munmap(again, (size_t)PAGES * PAGE);
	munmap(flat, PAGE);
}

/* ---- several registrations ---- */

enum { ITEMS = 6, REGIONS = 3, AREA = 1 << 20, SPAN = 70000, PLACES = 4, LONGEST = (PLACES + 1) * SPAN };

/* Items in four areas, of which three are registered and the fourth is not. Each item has a span in every area; two of
 * them have a fifth, across the border of two registrations. */
struct spread {
	uint8_t *at;
	struct kvc_mem *mem[REGIONS];
	struct kvc_span span[ITEMS][PLACES + 1];
	struct kvc_layout layout[ITEMS];
	struct kvc_item item[ITEMS];
	char text[ITEMS][64];
};

/* turn: the area of item 0's first span. */
static void spread_make(struct spread *s, const char *test, unsigned turn)
{
	struct kv_error err;
	s->at = memory((size_t)(REGIONS + 1) * AREA);
	memset(s->at, GAP, (size_t)(REGIONS + 1) * AREA);
	for (unsigned r = 0; r < REGIONS; r++)
		assert_int_equal(kvc_register(shared, s->at + (size_t)r * AREA, AREA, &s->mem[r], &err), 0);
	for (unsigned i = 0; i < ITEMS; i++) {
		unsigned n = i + 1 < REGIONS ? PLACES + 1 : PLACES;
		for (unsigned k = 0; k < PLACES; k++)
			s->span[i][k].data = s->at + (size_t)((k + i + turn) % 4) * AREA + (size_t)(i + 1) * 90000;
		s->span[i][PLACES].data = s->at + (size_t)(i + 1) * AREA - SPAN / 2;
		for (unsigned k = 0; k < n; k++)
			s->span[i][k].len = SPAN;
		s->layout[i] = (struct kvc_layout){.size = sizeof(s->layout[i]), .spans = s->span[i], .num_spans = n};
		s->item[i] = (struct kvc_item){.key = key_of(s->text[i], sizeof(s->text[i]), test, i),
					       .len = (uint64_t)n * SPAN,
					       .layout = &s->layout[i]};
	}
}

static void spread_end(struct spread *s)
{
	for (unsigned r = 0; r < REGIONS; r++)
		assert_int_equal(kvc_unregister(shared, &s->mem[r]), 0);
	munmap(s->at, (size_t)(REGIONS + 1) * AREA);
}

/* Every item has its bytes, and nothing beside its spans was written. All is gaps again. */
static void spread_take(struct spread *s)
{
	static uint8_t want[LONGEST];
	for (unsigned i = 0; i < ITEMS; i++) {
		assert_int_equal(s->item[i].result, s->item[i].len);
		test_fill(want, LONGEST, i);
		for (unsigned k = 0; k < s->layout[i].num_spans; k++) {
			assert_memory_equal(s->span[i][k].data, want + (size_t)k * SPAN, SPAN);
			memset(s->span[i][k].data, GAP, SPAN);
		}
	}
	all_gap(s->at, (size_t)(REGIONS + 1) * AREA);
}

static int queue_wait(struct kvc_queue *q)
{
	struct pollfd p = {.fd = kvc_queue_fd(q), .events = POLLIN};
	struct kvc_completion c;
	while (kvc_reap(q, &c, 1) == 0)
		poll(&p, 1, -1);
	return c.result;
}

static void spans_lie_in_several_registrations(void **state)
{
	static struct spread put, get;
	static uint8_t value[LONGEST], got[LONGEST];
	struct kvc_queue *q = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_queue_open(shared, NULL, &q, &err), 0);
	spread_make(&put, __func__, 0);
	spread_make(&get, __func__, 1);
	for (unsigned i = 0; i < ITEMS; i++) {
		test_fill(value, LONGEST, i);
		for (unsigned k = 0; k < put.layout[i].num_spans; k++)
			memcpy(put.span[i][k].data, value + (size_t)k * SPAN, SPAN);
	}
	assert_true(kvc_submit_put(q, put.item, ITEMS, NULL, 1) > 0);
	assert_int_equal(queue_wait(q), 0);
	for (unsigned i = 0; i < ITEMS; i++) {
		test_fill(value, LONGEST, i);
		assert_int_equal(kvc_get(shared, put.item[i].key, got, LONGEST, NULL), put.item[i].len);
		assert_memory_equal(got, value, put.item[i].len);
	}
	assert_true(kvc_submit_get(q, get.item, ITEMS, NULL, 2) > 0);
	assert_int_equal(queue_wait(q), 0);
	spread_take(&get);
	assert_int_equal(kvc_get_batch(shared, get.item, ITEMS, NULL), 0);
	spread_take(&get);
	assert_int_equal(kvc_queue_close(&q), 0);
	spread_end(&put);
	spread_end(&get);
}

/* Each is wrong in one way; the good item beside it is stored. */
static void a_wrong_layout_fails_its_item_alone(void **state)
{
	uint8_t b[64] = {1};
	const struct kvc_span pair[2] = {{.data = b, .len = 8}, {.data = b + 16, .len = 8}},
			      null[2] = {{.data = b, .len = 8}, {.len = 8}},
			      empty[2] = {{.data = b, .len = 16}, {b, 0, 0, 0}},
			      wraps[2] = {{.data = b, .len = UINT64_MAX - 7}, {.data = b, .len = 24}},
			      tight[2] = {{.data = b, .len = 8, .slice = 4, .stride = 3}, {.data = b + 16, .len = 8}},
			      far[2] = {{.data = b, .len = 8, .slice = 1, .stride = UINT64_MAX / 4},
					{.data = b + 16, .len = 8}};
	const struct {
		const struct kvc_span *spans;
		uint32_t n;
		uint64_t len, slice, stride;
		void *data;
	} bad[] = {{pair, 2, 15, 0, 0, NULL},  {pair, 2, 17, 0, 0, NULL},  {pair, 2, 16, 8, 8, NULL},
		   {pair, 2, 16, 0, 0, b},     {null, 2, 16, 0, 0, NULL},  {empty, 2, 16, 0, 0, NULL},
		   {wraps, 2, 16, 0, 0, NULL}, {tight, 2, 16, 0, 0, NULL}, {far, 2, 16, 0, 0, NULL},
		   {NULL, 2, 16, 0, 0, NULL},  {pair, 0, 16, 0, 0, NULL},  {pair, KVC_SPANS_MAX + 1, 16, 0, 0, NULL}};
	(void)state;
	need_server();
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		struct kvc_layout l = {.size = sizeof(l), .spans = bad[i].spans, .num_spans = bad[i].n},
				  good = {.size = sizeof(good), .spans = pair, .num_spans = 2};
		struct kvc_item item[2] = {{.key = NAMED("wrong"),
					    .data = bad[i].data,
					    .len = bad[i].len,
					    .slice = bad[i].slice,
					    .stride = bad[i].stride,
					    .layout = &l},
					   {.key = NAMED("right"), .len = 16, .layout = &good}};
		assert_int_equal(kvc_put_batch(shared, item, 2, NULL), -KV_EINVAL);
		assert_int_equal(item[0].result, -KV_EINVAL);
		assert_int_equal(item[1].result, 0);
		assert_int_equal(kvc_get_batch(shared, item, 2, NULL), -KV_EINVAL);
		assert_int_equal(item[0].result, -KV_EINVAL);
		assert_int_equal(item[1].result, 16);
	}
	assert_int_equal(kvc_delete(shared, NAMED("right"), NULL), 0);
}

/* ---- parts ---- */

enum { BLOCKS = 32, LAYERS = 20, LAYER = 9000, BLOCK = LAYERS * LAYER };

struct blocks {
	struct kvc_item item[BLOCKS];
	struct kvc_layout layout[BLOCKS];
	struct kvc_arrival arrival[BLOCKS];
	uint64_t ends[LAYERS];
	char text[BLOCKS][64];
	uint8_t *bytes;
};

static void blocks_make(struct blocks *b, const char *test)
{
	memset(b, 0, sizeof(*b));
	b->bytes = memory((size_t)BLOCKS * BLOCK);
	test_fill(b->bytes, (uint64_t)BLOCKS * BLOCK, 11);
	for (unsigned i = 0; i < LAYERS; i++)
		b->ends[i] = (i + 1) * (uint64_t)LAYER;
	for (unsigned i = 0; i < BLOCKS; i++) {
		b->layout[i] = (struct kvc_layout){.size = sizeof(b->layout[i]),
						   .num_parts = LAYERS,
						   .part_ends = b->ends,
						   .arrival = &b->arrival[i]};
		b->item[i] = (struct kvc_item){.key = key_of(b->text[i], sizeof(b->text[i]), test, i),
					       .data = b->bytes + (size_t)i * BLOCK,
					       .len = BLOCK};
	}
	assert_int_equal(kvc_put_batch(shared, b->item, BLOCKS, NULL), 0);
	for (unsigned i = 0; i < BLOCKS; i++)
		b->item[i].layout = &b->layout[i];
}

/* A thread that submitted looks at what was told, while the rest is coming: told bytes are right at once. */
static void layers_that_were_told_of_are_there(void **state)
{
	static struct blocks b;
	uint8_t *want = memory((size_t)BLOCKS * BLOCK);
	uint32_t seen[BLOCKS] = {0}, all = 0;
	struct kvc_completion done;
	struct kvc_queue *q = NULL;
	struct kv_error err;
	uint64_t until = now_ns() + WAIT_NS;
	(void)state;
	need_server();
	blocks_make(&b, __func__);
	memcpy(want, b.bytes, (size_t)BLOCKS * BLOCK);
	memset(b.bytes, 0, (size_t)BLOCKS * BLOCK);
	assert_int_equal(kvc_queue_open(shared, NULL, &q, &err), 0);
	assert_true(kvc_submit_get(q, b.item, BLOCKS, NULL, 7) > 0);
	while (all < BLOCKS * LAYERS && now_ns() < until)
		for (unsigned i = 0; i < BLOCKS; i++)
			for (uint32_t n = kvc_arrival_parts(&b.arrival[i]); seen[i] < n; seen[i]++, all++) {
				size_t at = (size_t)i * BLOCK + (size_t)seen[i] * LAYER;
				assert_memory_equal(b.bytes + at, want + at, LAYER);
			}
	assert_int_equal(all, BLOCKS * LAYERS);
	while (kvc_reap(q, &done, 1) == 0 && now_ns() < until)
		;
	assert_int_equal(done.result, 0);
	assert_int_equal(kvc_queue_close(&q), 0);
	munmap(b.bytes, (size_t)BLOCKS * BLOCK);
	munmap(want, (size_t)BLOCKS * BLOCK);
}

/* Items of all kinds in one batch: with parts and without, a miss, one that is shorter than its place and one that is
 * longer. Of the short one the parts that its value has filled count, and no others. */
static void every_item_in_parts_has_its_own_result(void **state)
{
	static struct blocks b;
	struct kvc_counters before, after;
	(void)state;
	need_server();
	blocks_make(&b, __func__);
	b.item[1].layout = NULL;
	b.item[2].key = NAMED("no such block");
	assert_int_equal(kvc_delete(shared, b.item[3].key, NULL), 0);
	assert_int_equal(kvc_put(shared, b.item[3].key, b.bytes, LAYER + 1, NULL), 0);
	assert_int_equal(kvc_delete(shared, b.item[4].key, NULL), 0);
	assert_int_equal(kvc_put(shared, b.item[4].key, b.bytes, BLOCK + 1, NULL), 0);
	b.item[5].key.len = 0;
	before = counters(shared);
	assert_int_equal(kvc_get_batch(shared, b.item, BLOCKS, NULL), -KV_ENOTFOUND);
	after = counters(shared);
	for (unsigned i = 0; i < BLOCKS; i++) {
		bool good = i != 2 && i != 4 && i != 5;
		assert_int_equal(b.item[i].result, i == 2   ? -KV_ENOTFOUND
						   : i == 3 ? LAYER + 1
						   : i == 4 ? -KV_ETOOBIG
						   : i == 5 ? -KV_EINVAL
							    : BLOCK);
		assert_int_equal(kvc_arrival_parts(&b.arrival[i]), !good || i == 1 ? 0 : i == 3 ? 1 : LAYERS);
	}
	assert_int_equal(after.gets - before.gets, BLOCKS); /* an item counts once, however many parts it has */
	assert_int_equal(after.hits - before.hits, BLOCKS - 3);
	munmap(b.bytes, (size_t)BLOCKS * BLOCK);
}

/* Values of all lengths up to that of the item, in registered and in plain memory: what is counted is what came. */
static void parts_beyond_the_value_do_not_count(void **state)
{
	static struct blocks b;
	static const unsigned lens[] = {1,     LAYER - 1, LAYER,     LAYER + 1,     3 * LAYER,
					10000, BLOCK / 2, BLOCK - 1, BLOCK - LAYER, BLOCK};
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	blocks_make(&b, __func__);
	for (unsigned registered = 0; registered < 2; registered++) {
		if (registered)
			assert_int_equal(kvc_register(shared, b.bytes, (uint64_t)BLOCKS * BLOCK, &mem, &err), 0);
		for (unsigned i = 0; i < KV_COUNT(lens); i++) {
			(void)kvc_delete(shared, b.item[i].key, NULL);
			assert_int_equal(kvc_put(shared, b.item[i].key, b.bytes, lens[i], NULL), 0);
		}
		assert_int_equal(kvc_get_batch(shared, b.item, KV_COUNT(lens), NULL), 0);
		for (unsigned i = 0; i < KV_COUNT(lens); i++) {
			assert_int_equal(b.item[i].result, lens[i]);
			assert_int_equal(kvc_arrival_parts(&b.arrival[i]), lens[i] / LAYER);
		}
	}
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(b.bytes, (size_t)BLOCKS * BLOCK);
}

/* With KVC_EXACT another length is a miss, on every way. */
static void a_value_of_another_length_is_a_miss(void **state)
{
	enum { LEN = 50000 };
	static uint8_t value[LEN + 1], got[LEN + 1];
	struct kvc_call exact = {.size = sizeof(exact), .flags = KVC_EXACT};
	const uint64_t ends[2] = {LEN / 2, LEN};
	struct kvc_key key = KEY(0);
	struct kvc_counters before, after;
	(void)state;
	need_server();
	before = counters(shared);
	for (int more = -1; more <= 1; more++) {
		struct kvc_arrival arrival = {0};
		struct kvc_layout l = {.size = sizeof(l), .num_parts = 2, .part_ends = ends, .arrival = &arrival};
		struct kvc_item it[2] = {{.key = key, .data = got, .len = LEN}, {.key = key, .data = got, .len = LEN}};
		int64_t want = more == 0 ? LEN : -KV_ENOTFOUND;
		it[1].layout = &l;
		assert_int_equal(kvc_put(shared, key, value, (uint64_t)(LEN + more), NULL), 0);
		assert_int_equal(kvc_get(shared, key, got, LEN, &exact), want);
		(void)kvc_get_batch(shared, &it[0], 1, &exact);
		(void)kvc_get_batch(shared, &it[1], 1, &exact);
		assert_int_equal(it[0].result, want);
		assert_int_equal(it[1].result, want);
		assert_int_equal(kvc_arrival_parts(&arrival), more == 0 ? 2 : 0);
		exact.offset = 10;
		exact.length = LEN;
		assert_int_equal(kvc_get(shared, key, got, LEN - 10, &exact), more == 0 ? LEN - 10 : -KV_ENOTFOUND);
		exact.offset = exact.length = 0;
		assert_int_equal(kvc_delete(shared, key, NULL), 0);
	}
	after = counters(shared);
	assert_int_equal(after.hits - before.hits, 4);
	assert_int_equal(after.misses - before.misses, 8);
}

/* A struct that tells of a former load says 0 as soon as the next one is submitted. */
static void a_reused_arrival_begins_with_0_parts(void **state)
{
	static struct blocks b;
	struct kvc_call never = {.size = sizeof(never), .timeout_ns = WAIT_NS};
	struct kvc_queue *q = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	blocks_make(&b, __func__);
	assert_int_equal(kvc_queue_open(shared, NULL, &q, &err), 0);
	assert_int_equal(kvc_get_batch(shared, b.item, BLOCKS, NULL), 0);
	test_server_stop(&test_first);
	assert_true(kvc_submit_get(q, b.item, BLOCKS, &never, 0) > 0);
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_int_equal(kvc_arrival_parts(&b.arrival[i]), 0);
	test_server_cont(&test_first);
	assert_int_equal(queue_wait(q), 0);
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_int_equal(kvc_arrival_parts(&b.arrival[i]), LAYERS);
	assert_int_equal(kvc_queue_close(&q), 0);
	munmap(b.bytes, (size_t)BLOCKS * BLOCK);
}

/* The second call that names an item is refused, and the first one goes on. */
static void an_item_is_in_one_call_at_a_time(void **state)
{
	static struct blocks b;
	struct kvc_queue *q = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	blocks_make(&b, __func__);
	assert_int_equal(kvc_queue_open(shared, NULL, &q, &err), 0);
	test_server_stop(&test_first);
	assert_true(kvc_submit_get(q, b.item, 4, NULL, 0) > 0);
	assert_int_equal(kvc_submit_get(q, &b.item[3], 2, NULL, 0), -KV_EINVAL);
	assert_int_equal(kvc_submit_exists(q, b.item, 1, NULL, 0), -KV_EINVAL);
	assert_int_equal(kvc_get_batch(shared, &b.item[1], 1, NULL), -KV_EINVAL);
	test_server_cont(&test_first);
	assert_int_equal(queue_wait(q), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(b.item[i].result, BLOCK);
	assert_true(kvc_submit_get(q, &b.item[3], 2, NULL, 0) > 0);
	assert_int_equal(queue_wait(q), 0);
	assert_int_equal(kvc_queue_close(&q), 0);
	munmap(b.bytes, (size_t)BLOCKS * BLOCK);
}

/* Slices that begin in registered memory and end behind it are a mistake, unless another registration adjoins. */
static void slices_end_in_registered_memory(void **state)
{
	enum { N = 16 * 4096 };
	uint8_t *at = memory(2 * N);
	struct kvc_item it = {.key = KEY(0), .data = at + N / 2, .len = 16 * 2048, .slice = 2048, .stride = 4096};
	struct kvc_mem *mem[2] = {NULL, NULL};
	struct kv_error err;
	(void)state;
	need_server();
	assert_int_equal(kvc_put_batch(shared, &it, 1, NULL), 0);
	assert_int_equal(kvc_register(shared, at, N, &mem[0], &err), 0);
	assert_int_equal(kvc_get_batch(shared, &it, 1, NULL), -KV_EINVAL);
	assert_int_equal(kvc_put_batch(shared, &it, 1, NULL), -KV_EINVAL);
	assert_int_equal(kvc_register(shared, at + N, N, &mem[1], &err), 0);
	assert_int_equal(kvc_get_batch(shared, &it, 1, NULL), 0);
	assert_int_equal(it.result, 16 * 2048);
	assert_int_equal(kvc_unregister(shared, &mem[0]), 0);
	assert_int_equal(kvc_unregister(shared, &mem[1]), 0);
	munmap(at, 2 * N);
}

/* Two items of a GET in one place: told where assertions are on. */
static void two_items_do_not_share_a_place(void **state)
{
#ifdef NDEBUG
	print_message("assertions are off in this build (MODE=debug has them)\n");
	skip();
#endif
	static struct blocks b;
	(void)state;
	need_server();
	blocks_make(&b, __func__);
	for (unsigned i = 0; i < BLOCKS; i++)
		b.item[i].layout = NULL;
	assert_int_equal(kvc_get_batch(shared, b.item, BLOCKS, NULL), 0);
	b.item[7].data = b.bytes + BLOCK - 1;
	assert_int_equal(kvc_get_batch(shared, b.item, BLOCKS, NULL), -KV_EINVAL);
	munmap(b.bytes, (size_t)BLOCKS * BLOCK);
}

/* Blocks are replaced while they are read: what comes is one value or the other, or a miss, and what was told of it is
 * of one. */
static void parts_are_of_one_value(void **state)
{
	enum { ROUNDS = 12, REPLACED = 8 };
	static struct blocks b;
	uint8_t *value[2] = {memory((size_t)BLOCKS * BLOCK), memory((size_t)BLOCKS * BLOCK)};
	struct kvc_completion done;
	struct kvc_queue *q = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	blocks_make(&b, __func__);
	test_fill(value[0], (uint64_t)BLOCKS * BLOCK, 11);
	test_fill(value[1], (uint64_t)BLOCKS * BLOCK, 12);
	assert_int_equal(kvc_queue_open(shared, NULL, &q, &err), 0);
	for (unsigned r = 0; r < ROUNDS; r++) {
		uint64_t until = now_ns() + WAIT_NS;
		for (unsigned i = 0; i < BLOCKS; i++)
			b.arrival[i] = (struct kvc_arrival){0};
		assert_true(kvc_submit_get(q, b.item, BLOCKS, NULL, 7) > 0);
		for (unsigned i = BLOCKS - REPLACED; i < BLOCKS; i++) {
			assert_int_equal(kvc_delete(shared, b.item[i].key, NULL), 0);
			assert_int_equal(
				kvc_put(shared, b.item[i].key, value[(r + 1) % 2] + (size_t)i * BLOCK, BLOCK, NULL), 0);
		}
		while (kvc_reap(q, &done, 1) == 0 && now_ns() < until)
			;
		for (unsigned i = 0; i < BLOCKS; i++) {
			size_t at = (size_t)i * BLOCK, told = (size_t)kvc_arrival_parts(&b.arrival[i]) * LAYER;
			assert_true(b.item[i].result == BLOCK || b.item[i].result == -KV_ENOTFOUND);
			assert_true(b.item[i].result < 0 || told == BLOCK);
			assert_true(memcmp(b.bytes + at, value[0] + at, told) == 0 ||
				    memcmp(b.bytes + at, value[1] + at, told) == 0);
		}
	}
	assert_int_equal(kvc_queue_close(&q), 0);
	for (unsigned i = 0; i < 2; i++)
		munmap(value[i], (size_t)BLOCKS * BLOCK);
	munmap(b.bytes, (size_t)BLOCKS * BLOCK);
}

static void wrong_parts_fail_their_item_alone(void **state)
{
	static struct blocks b;
	const struct kvc_call from = {.size = sizeof(from), .offset = 1}, some_of = {.size = sizeof(from), .length = 1};
	uint64_t falls[LAYERS], more[LAYERS];
	(void)state;
	need_server();
	blocks_make(&b, __func__);
	memcpy(falls, b.ends, sizeof(falls));
	memcpy(more, b.ends, sizeof(more));
	falls[3] = falls[2];
	more[LAYERS - 1]++;
	b.layout[0].arrival = NULL;
	b.layout[1].part_ends = NULL;
	b.layout[2].num_parts = 0;
	b.layout[3].part_ends = falls;
	b.layout[4].part_ends = more;
	b.layout[5].num_parts = LAYERS - 1;
	b.layout[6].num_parts = KVC_PARTS_OF_ITEM_MAX + 1;
	assert_int_equal(kvc_get_batch(shared, b.item, BLOCKS, NULL), -KV_EINVAL);
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_int_equal(b.item[i].result, i <= 6 ? -KV_EINVAL : BLOCK);
	assert_int_equal(kvc_put_batch(shared, &b.item[8], 1, NULL), -KV_EINVAL); /* a PUT has no parts */
	assert_int_equal(kvc_get_batch(shared, &b.item[8], 1, &from), -KV_EINVAL);
	assert_int_equal(kvc_get_batch(shared, &b.item[8], 1, &some_of), -KV_EINVAL);
	/* Of two items that share a struct one fails. */
	b.layout[9].arrival = &b.arrival[8];
	assert_int_equal(kvc_get_batch(shared, &b.item[8], 2, NULL), -KV_EINVAL);
	assert_int_equal(b.item[8].result, -KV_EINVAL);
	assert_int_equal(b.item[9].result, BLOCK);
	munmap(b.bytes, (size_t)BLOCKS * BLOCK);
}

/* What is made of spans: slices where they are such, else what they are. */
static void evenly_spaced_spans_are_slices(void **state)
{
	uint8_t b[256];
	struct kvc_span s[4];
	struct kvc_layout l = {.size = sizeof(l), .spans = s, .num_spans = 4};
	struct kvc_item item = {.key = NAMED("k"), .len = 35, .layout = &l};
	struct kc_target t;
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		s[i] = (struct kvc_span){.data = b + (size_t)i * 40, .len = i < 3 ? 10 : 5};
	assert_int_equal(kc_target_make(&t, &item, NULL), 0);
	assert_true(!t.span && t.at == b && t.slice == 10 && t.stride == 40);
	s[2].data = b + 81;
	assert_int_equal(kc_target_make(&t, &item, NULL), 0);
	assert_true(t.span == s && t.spans == 4);
	s[2].data = b + 80;
	s[1].data = b + 120;
	s[3].data = b + 40;
	assert_int_equal(kc_target_make(&t, &item, NULL), 0);
	assert_true(t.span == s);
	l.num_spans = 1;
	item.len = 10;
	assert_int_equal(kc_target_make(&t, &item, NULL), 0);
	assert_true(kc_target_flat(&t) && t.at == b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_layout_puts_another_gets),
		cmocka_unit_test(the_same_in_registered_memory),
		cmocka_unit_test(pages_of_many_layers_go_there_and_back),
		cmocka_unit_test(spans_lie_in_several_registrations),
		cmocka_unit_test(a_wrong_layout_fails_its_item_alone),
		cmocka_unit_test(evenly_spaced_spans_are_slices),
		cmocka_unit_test(layers_that_were_told_of_are_there),
		cmocka_unit_test(every_item_in_parts_has_its_own_result),
		cmocka_unit_test(parts_beyond_the_value_do_not_count),
		cmocka_unit_test(a_value_of_another_length_is_a_miss),
		cmocka_unit_test_teardown(a_reused_arrival_begins_with_0_parts, let_go),
		cmocka_unit_test_teardown(an_item_is_in_one_call_at_a_time, let_go),
		cmocka_unit_test(slices_end_in_registered_memory),
		cmocka_unit_test(two_items_do_not_share_a_place),
		cmocka_unit_test(parts_are_of_one_value),
		cmocka_unit_test(wrong_parts_fail_their_item_alone),
	};
	return cmocka_run_group_tests(tests, calls_up, calls_down);
}
