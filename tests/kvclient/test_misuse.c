/* SPDX-License-Identifier: Apache-2.0 */
/* test_misuse.c -- what an embedding program may do wrong: NULL, nothing, far too much, the wrong thread, the wrong
 * pool. Each is answered by a code, and the pool works as before. */
#include "calls.h"

#include <sys/mman.h>

#include "loop/sanitize.h"

static struct kvc_pool *other; /* of one client, beside the two of `shared`, each on a loop of its own */

static const struct kvc_key key = {"misuse", 6};
static uint8_t byte[16];

static int setup(void **state)
{
	calls_up(state);
	other = test_first.pid ? test_pool(one, 1, 1) : NULL;
	return 0;
}

static int teardown(void **state)
{
	kvc_pool_close(&other);
	return calls_down(state);
}

static void works_as_before(void)
{
	uint8_t got[4];
	assert_int_equal(kvc_put(shared, key, "1234", 4, NULL), 0);
	assert_int_equal(kvc_get(shared, key, got, sizeof(got), NULL), 4);
	assert_memory_equal(got, "1234", 4);
}

static void no_worker(struct kvc_client *c, unsigned w, void *arg)
{
	(void)c, (void)w;
	++*(unsigned *)arg;
}

#define ANSWERS(call, want)                                                                                            \
	do {                                                                                                           \
		int64_t got_ = (call);                                                                                 \
		if (got_ != (want))                                                                                    \
			fail_msg("%s is %s, not %s", #call, kvc_errname((int)got_), kvc_errname(want));                \
	} while (0)

static void no_pool_is_invalid(void **state)
{
	struct kvc_item item = {.key = key, .data = byte, .len = 1};
	struct kvc_stat_item stat;
	struct kvc_info info = {.size = sizeof(info)};
	struct kvc_counters counters = {.size = sizeof(counters)};
	struct kvc_server_info s = {.size = sizeof(s)};
	struct kvc_rail_info r = {.size = sizeof(r)};
	struct kvc_mem *mem = NULL;
	struct kvc_pool *none = NULL;
	struct kv_error err;
	unsigned ran = 0;
	(void)state;
	ANSWERS(kvc_get(NULL, key, byte, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_put(NULL, key, byte, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_exists(NULL, &key, 1, byte, NULL, NULL), -KV_EINVAL);
	ANSWERS(kvc_delete(NULL, key, NULL), -KV_EINVAL);
	ANSWERS(kvc_touch(NULL, key, NULL), -KV_EINVAL);
	ANSWERS(kvc_ping(NULL, NULL), -KV_EINVAL);
	ANSWERS(kvc_get_batch(NULL, &item, 1, NULL), -KV_EINVAL);
	assert_int_equal(item.result, -KV_EINVAL);
	ANSWERS(kvc_put_batch(NULL, &item, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_stat(NULL, &stat, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_info(NULL, &info), -KV_EINVAL);
	ANSWERS(kvc_counters(NULL, &counters), -KV_EINVAL);
	ANSWERS(kvc_counters_items(NULL, &stat, 1), -KV_EINVAL);
	ANSWERS(kvc_server_info(NULL, 0, 0, &s), -KV_EINVAL);
	ANSWERS(kvc_server_info_within(NULL, 0, 0, 1, &s), -KV_EINVAL);
	ANSWERS(kvc_rail_info(NULL, 0, 0, &r), -KV_EINVAL);
	ANSWERS(kvc_register(NULL, byte, 1, &mem, &err), -KV_EINVAL);
	ANSWERS(kvc_register(NULL, byte, 1, &mem, NULL), -KV_EINVAL);
	ANSWERS(kvc_unregister(NULL, &mem), -KV_EINVAL);
	ANSWERS(kvc_run(NULL, 1, no_worker, &ran), -KV_EINVAL);
	ANSWERS(kvc_spawn(NULL, 0, no_worker, &ran), -KV_EINVAL);
	ANSWERS(kvc_pool_open(NULL, &none, &err), -KV_EINVAL);
	ANSWERS(kvc_pool_open(NULL, &none, NULL), -KV_EINVAL);
	ANSWERS(kvc_get_await(NULL, key, byte, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_session_open_await(NULL, NULL, NULL, NULL), -KV_EINVAL);
	assert_int_equal(kvc_num_clients(NULL), 0);
	assert_null(kvc_client_pool(NULL));
	kvc_pool_close(NULL);
	kvc_pool_close(&none);
	kvc_borrowed_release(NULL, NULL);
	assert_int_equal(ran, 0);
}

static void nothing_and_nowhere_are_invalid(void **state)
{
	const struct kvc_call bad = {.size = 1}, huge = {.size = SIZE_MAX},
			      no_server = {.size = sizeof(no_server), .server = 1},
			      no_shard = {.size = sizeof(no_shard), .shard = 1000};
	struct kvc_item item = {.key = key, .data = NULL, .len = 1};
	struct kvc_info info = {.size = 1};
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	ANSWERS(kvc_get(shared, (struct kvc_key){NULL, 3}, byte, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_get(shared, key, byte, 0, NULL), -KV_EINVAL);
	ANSWERS(kvc_get(shared, key, byte, 1, &bad), -KV_EINVAL);
	ANSWERS(kvc_get(shared, key, byte, 1, &huge), -KV_EINVAL);
	ANSWERS(kvc_put(shared, key, NULL, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_delete(shared, (struct kvc_key){NULL, 3}, NULL), -KV_EINVAL);
	ANSWERS(kvc_exists(shared, NULL, 1, byte, NULL, NULL), -KV_EINVAL);
	ANSWERS(kvc_exists(shared, &(struct kvc_key){NULL, 1}, 1, byte, NULL, NULL), -KV_EINVAL);
	ANSWERS(kvc_ping(shared, &no_server), -KV_EINVAL);
	ANSWERS(kvc_ping(shared, &no_shard), -KV_EINVAL);
	ANSWERS(kvc_get_batch(shared, NULL, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_get_batch(shared, &item, 1, NULL), -KV_EINVAL);
	assert_int_equal(item.result, -KV_EINVAL);
	ANSWERS(kvc_put_batch(shared, &item, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_stat(shared, NULL, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_info(shared, &info), -KV_EINVAL);
	ANSWERS(kvc_info(shared, NULL), -KV_EINVAL);
	ANSWERS(kvc_counters(shared, NULL), -KV_EINVAL);
	ANSWERS(kvc_server_info(shared, 2, 0, NULL), -KV_EINVAL);
	ANSWERS(kvc_register(shared, NULL, 1, &mem, &err), -KV_EINVAL);
	ANSWERS(kvc_register(shared, byte, 0, &mem, &err), -KV_EINVAL);
	ANSWERS(kvc_register(shared, byte, 1, NULL, &err), -KV_EINVAL);
	ANSWERS(kvc_unregister(shared, NULL), -KV_EINVAL);
	ANSWERS(kvc_unregister(shared, &mem), 0);
	ANSWERS(kvc_run(shared, 1, NULL, NULL), -KV_EINVAL);
	ANSWERS(kvc_spawn(shared, 0, NULL, NULL), -KV_EINVAL);
	works_as_before();
}

/* Those of a pool are none of a call, whatever the call makes of flags. */
static void flags_that_no_call_knows_are_invalid(void **state)
{
	static const unsigned unknown[] = {0xffff, 1u << 31, KVC_NO_PREFLIGHT, KVC_OPEN_WAIT, KVC_NO_THREADS, 128};
	struct kvc_call known = {.size = sizeof(known),
				 .flags = KVC_NO_VERIFY | KVC_DOWN_IS_MISS | KVC_BACKGROUND | KVC_TWO_COPIES};
	struct kvc_stat_item stat;
	(void)state;
	need_server();
	works_as_before();
	for (unsigned i = 0; i < KV_COUNT(unknown); i++) {
		const struct kvc_call call = {.size = sizeof(call), .flags = unknown[i]};
		struct kvc_item item = {.key = key, .data = byte, .len = sizeof(byte)};
		uint64_t left;
		ANSWERS(kvc_get(shared, key, byte, sizeof(byte), &call), -KV_EINVAL);
		ANSWERS(kvc_put(shared, key, "1234", 4, &call), -KV_EINVAL);
		ANSWERS(kvc_exists(shared, &key, 1, byte, NULL, &call), -KV_EINVAL);
		ANSWERS(kvc_delete(shared, key, &call), -KV_EINVAL);
		ANSWERS(kvc_touch(shared, key, &call), -KV_EINVAL);
		ANSWERS(kvc_ttl(shared, key, &left, &call), -KV_EINVAL);
		ANSWERS(kvc_ping(shared, &call), -KV_EINVAL);
		ANSWERS(kvc_get_batch(shared, &item, 1, &call), -KV_EINVAL);
		assert_int_equal(item.result, -KV_EINVAL);
		ANSWERS(kvc_put_batch(shared, &item, 1, &call), -KV_EINVAL);
		ANSWERS(kvc_stat(shared, &stat, 1, &call), -KV_EINVAL);
	}
	ANSWERS(kvc_get(shared, key, byte, sizeof(byte), &known), 4);
	works_as_before();
}

static void none_at_all_is_nothing_to_do(void **state)
{
	unsigned prefix = 7, ran = 0;
	(void)state;
	need_server();
	ANSWERS(kvc_get_batch(shared, NULL, 0, NULL), 0);
	ANSWERS(kvc_put_batch(shared, NULL, 0, NULL), 0);
	ANSWERS(kvc_exists(shared, NULL, 0, NULL, &prefix, NULL), 0);
	assert_int_equal(prefix, 0);
	ANSWERS(kvc_stat(shared, NULL, 0, NULL), 0);
	ANSWERS(kvc_run(shared, 0, no_worker, &ran), 0);
	assert_int_equal(ran, 0);
}

/* The destination has room for the value, whatever is said of it. */
static void far_too_much_is_refused_or_harmless(void **state)
{
	const struct kvc_call far = {.size = sizeof(far), .offset = UINT64_MAX},
			      long_part = {.size = sizeof(far), .offset = 2, .length = UINT64_MAX},
			      end = {.size = sizeof(far), .offset = 4},
			      late = {.size = sizeof(far), .timeout_ns = UINT64_MAX};
	struct kvc_item item = {.key = key, .data = byte, .len = UINT64_MAX};
	struct kvc_item slices = {.key = key, .data = byte, .len = UINT64_MAX, .slice = 1, .stride = UINT64_MAX};
	struct kvc_mem *mem = NULL;
	struct kv_error err = {0};
	(void)state;
	need_server();
	works_as_before();
	ANSWERS(kvc_get(shared, key, byte, UINT64_MAX, NULL), 4);
	ANSWERS(kvc_get(shared, key, byte, 4, &late), 4);
	ANSWERS(kvc_get(shared, key, byte, sizeof(byte), &far), -KV_EINVAL);
	ANSWERS(kvc_get(shared, key, byte, sizeof(byte), &end), 0);
	ANSWERS(kvc_get(shared, key, byte, sizeof(byte), &long_part), 2);
	ANSWERS(kvc_put(shared, key, byte, UINT64_MAX, NULL), -KV_ETOOBIG);
	ANSWERS(kvc_get_batch(shared, &item, 1, NULL), 0);
	assert_int_equal(item.result, 4);
	ANSWERS(kvc_get_batch(shared, &slices, 1, NULL), -KV_EINVAL);
	ANSWERS(kvc_register(shared, byte, UINT64_MAX, &mem, &err), -KV_EINVAL);
	assert_true(err.text[0]);
	ANSWERS(kvc_register(shared, byte, (uint64_t)1 << 46, &mem, &err), -KV_EINVAL);
	assert_null(mem);
	/* No loop has so many coroutines; ThreadSanitizer, to which each is a thread, ends the process at the 8,129th.
	 */
	if (!KV_TSAN)
		ANSWERS(kvc_run(shared, 4000000, no_worker, byte), -KV_EBUSY);
	works_as_before();
}

struct far {
	uint8_t *memory; /* MIB bytes that are registered */
	int64_t rc[16];
	unsigned n;
};

static void far_worker(struct kvc_client *c, unsigned w, void *arg)
{
	static const uint64_t lens[] = {UINT64_MAX, (uint64_t)1 << 63, ((uint64_t)1 << 63) + 1, 1ull << 40};
	struct far *f = arg;
	struct kvc_borrowed piece;
	(void)w;
	for (unsigned i = 0; i < KV_COUNT(lens); i++)
		f->rc[f->n++] = kvc_borrow_await(c, lens[i], 0, &piece);
	if (kvc_borrow_await(c, 4096, 0, &piece) < 0)
		return;
	kvc_borrowed_release(c, &piece);
	if (kvc_get_borrowed_await(c, key, UINT64_MAX, NULL, &piece) != 4)
		return;
	kvc_borrowed_release(c, &piece);
	f->rc[f->n++] = 0;
}

/* Of what only a worker can ask for. */
static void far_too_much_of_the_buffer_is_refused(void **state)
{
	struct far f = {.memory = memory(MIB)};
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	works_as_before();
	assert_int_equal(kvc_register(shared, f.memory, MIB, &mem, &err), 0);
	assert_int_equal(kvc_run(shared, 1, far_worker, &f), 0);
	assert_int_equal(f.n, 5);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(f.rc[i], -KV_ETOOBIG);
	ANSWERS(kvc_unregister(shared, &mem), 0);
	munmap(f.memory, MIB);
	works_as_before();
}

/* It is the caller's mistake, and costs no more than the bytes in question. */
static void spans_that_overlap_harm_nothing_else(void **state)
{
	static const uint64_t lens[] = {32, 200000};
	(void)state;
	need_server();
	for (unsigned i = 0; i < KV_COUNT(lens); i++) {
		uint64_t len = lens[i], half = len / 2;
		uint8_t *at = calloc(1, len), *value = malloc(len);
		struct kvc_span spans[] = {{.data = at + half / 2, .len = half}, {.data = at + half / 4, .len = half}};
		struct kvc_layout layout = {.size = sizeof(layout), .spans = spans, .num_spans = 2};
		struct kvc_item item = {.key = {&lens[i], sizeof(lens[i])}, .len = len, .layout = &layout};
		memset(value, 1, half);
		memset(value + half, 2, half);
		ANSWERS(kvc_put(shared, item.key, value, len, NULL), 0);
		kvc_get_batch(shared, &item, 1, NULL);
		assert_true(item.result == (int64_t)len || item.result == -KV_ECORRUPT);
		for (uint64_t k = 0; k < len; k++)
			assert_int_equal(at[k] > 0, k >= half / 4 && k < half / 2 + half);
		free(value);
		free(at);
	}
	works_as_before();
}

/* What a call cannot do is refused, and not done without it. */
static void what_would_be_ignored_is_invalid(void **state)
{
	const struct kvc_call waits = {.size = sizeof(waits), .flags = KVC_OPEN_WAIT},
			      unknown = {.size = sizeof(unknown), .flags = 1u << 31},
			      known = {.size = sizeof(known),
				       .flags = KVC_NO_VERIFY | KVC_DOWN_IS_MISS | KVC_BACKGROUND};
	struct kvc_item put[2] = {{.key = {"gathered", 8}, .data = byte, .len = 4, .slice = 2, .stride = 1},
				  {.key = key, .data = byte, .len = 4}};
	(void)state;
	need_server();
	works_as_before();
	ANSWERS(kvc_get(shared, key, byte, sizeof(byte), &waits), -KV_EINVAL);
	ANSWERS(kvc_get(shared, key, byte, sizeof(byte), &unknown), -KV_EINVAL);
	ANSWERS(kvc_ping(shared, &unknown), -KV_EINVAL);
	ANSWERS(kvc_get(shared, key, byte, sizeof(byte), &known), 4);
	ANSWERS(kvc_put_batch(shared, put, 2, NULL), -KV_EINVAL);
	assert_int_equal(put[0].result, -KV_EINVAL);
	assert_int_equal(put[1].result, 0);
	ANSWERS(kvc_get(shared, put[0].key, byte, sizeof(byte), NULL), -KV_ENOTFOUND);
	works_as_before();
}

struct seen {
	struct kvc_client *client;
	int64_t rc[26];
	unsigned n;
};

static void blocking_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct seen *s = arg;
	struct kvc_pool *p = kvc_client_pool(c), *again = NULL;
	struct kvc_item item = {.key = key, .data = byte, .len = 1};
	struct kvc_stat_item stat;
	struct kvc_options o = test_options(one, 1, 1);
	struct kvc_mem *mem = NULL;
	struct kvc_session *sub = NULL;
	unsigned ran = 0;
	(void)w;
	s->client = c;
	s->rc[s->n++] = kvc_get(p, key, byte, 1, NULL);
	s->rc[s->n++] = kvc_put(p, key, byte, 1, NULL);
	s->rc[s->n++] = kvc_exists(p, &key, 1, byte, NULL, NULL);
	s->rc[s->n++] = kvc_delete(p, key, NULL);
	s->rc[s->n++] = kvc_touch(p, key, NULL);
	s->rc[s->n++] = kvc_ping(p, NULL);
	s->rc[s->n++] = kvc_get_batch(p, &item, 1, NULL);
	s->rc[s->n++] = kvc_put_batch(p, &item, 1, NULL);
	s->rc[s->n++] = kvc_stat(p, &stat, 1, NULL);
	s->rc[s->n++] = kvc_register(p, byte, 1, &mem, NULL);
	s->rc[s->n++] = kvc_unregister(p, &mem);
	s->rc[s->n++] = kvc_run(p, 1, no_worker, &ran);
	s->rc[s->n++] = kvc_spawn(p, 1, no_worker, &ran); /* on the other loop */
	s->rc[s->n++] = kvc_pool_open(&o, &again, NULL);
	s->rc[s->n++] = kvc_session_open(p, 0, NULL, &sub, NULL);
	s->rc[s->n++] = kvc_get(other, key, byte, 1, NULL);
	again = p;
	kvc_pool_close(&again); /* would wait for us: nothing is done */
	s->rc[s->n++] = again == p ? -KV_EINVAL : 0;
}

static void blocking_calls_of_a_worker_are_invalid(void **state)
{
	struct seen s = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_run(shared, 1, blocking_worker, &s), 0);
	assert_int_equal(s.n, 17);
	for (unsigned i = 0; i < s.n; i++)
		if (s.rc[i] != -KV_EINVAL)
			fail_msg("call %u is %s", i, kvc_errname((int)s.rc[i]));
	works_as_before();
}

/* Calls of a worker, of a client that may not be this thread's. */
static void await_calls(struct kvc_client *c, struct seen *s)
{
	struct kvc_item item = {.key = key, .data = byte, .len = 1};
	struct kvc_stat_item stat;
	struct kvc_borrowed borrowed = {0};
	struct kvc_session *sub = NULL;
	s->rc[s->n++] = kvc_get_await(c, key, byte, 1, NULL);
	s->rc[s->n++] = kvc_get_borrowed_await(c, key, 1, NULL, &borrowed);
	s->rc[s->n++] = kvc_borrow_await(c, 1, 0, &borrowed);
	s->rc[s->n++] = kvc_put_await(c, key, byte, 1, NULL);
	s->rc[s->n++] = kvc_exists_await(c, &key, 1, byte, NULL, NULL);
	s->rc[s->n++] = kvc_delete_await(c, key, NULL);
	s->rc[s->n++] = kvc_touch_await(c, key, NULL);
	s->rc[s->n++] = kvc_pin_await(c, key, NULL);
	s->rc[s->n++] = kvc_unpin_await(c, key, NULL);
	s->rc[s->n++] = kvc_ping_await(c, NULL);
	s->rc[s->n++] = kvc_drain_await(c, NULL, NULL);
	s->rc[s->n++] = kvc_get_batch_await(c, &item, 1, NULL);
	s->rc[s->n++] = kvc_put_batch_await(c, &item, 1, NULL);
	s->rc[s->n++] = kvc_stat_await(c, &stat, 1, NULL);
	s->rc[s->n++] = kvc_session_open_await(c, NULL, &sub, NULL);
	s->rc[s->n++] = kvc_session_close_await(c, &sub, 0);
	assert_null(borrowed.data);
}

static void all_invalid(const struct seen *s)
{
	assert_int_equal(s->n, 16);
	for (unsigned i = 0; i < s->n; i++)
		if (s->rc[i] != -KV_EINVAL)
			fail_msg("call %u is %s", i, kvc_errname((int)s->rc[i]));
}

static void calls_of_workers_elsewhere_are_invalid(void **state)
{
	struct seen first = {0}, s = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_run(shared, 1, blocking_worker, &first), 0);
	await_calls(first.client, &s);
	all_invalid(&s);
	works_as_before();
}

static void other_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct seen *s = arg;
	if (w == 1 && c != s->client)
		await_calls(s->client, s);
}

static void calls_on_another_workers_client_are_invalid(void **state)
{
	struct seen s = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_run(shared, 1, blocking_worker, &s), 0);
	s.n = 0;
	assert_int_equal(kvc_run(shared, 2, other_worker, &s), 0);
	all_invalid(&s);
	works_as_before();
}

static void a_registration_of_another_pool_is_invalid(void **state)
{
	uint8_t *a = memory(MIB), *b = memory(MIB);
	struct kvc_mem *mine = NULL, *theirs = NULL, *copy;
	struct kv_error err = {0};
	(void)state;
	need_server();
	/* Both are the first of their pool. */
	assert_int_equal(kvc_register(shared, a, MIB, &mine, &err), 0);
	assert_int_equal(kvc_register(other, b, MIB, &theirs, &err), 0);
	ANSWERS(kvc_unregister(shared, &theirs), -KV_EINVAL);
	assert_non_null(theirs);
	ANSWERS(kvc_put(shared, key, a, 4096, NULL), -KV_EEXIST);
	ANSWERS(kvc_unregister(other, &theirs), 0);
	copy = mine;
	ANSWERS(kvc_unregister(shared, &mine), 0);
	assert_null(mine);
	ANSWERS(kvc_unregister(shared, &copy), -KV_EINVAL); /* once more, by a copy of the handle */
	munmap(a, MIB);
	munmap(b, MIB);
	works_as_before();
}

/* A pool that never gives up, which is a time like any other. */
static void a_timeout_of_for_ever_is_one(void **state)
{
	struct kvc_options o = test_options(one, 1, 2);
	uint8_t *a = memory(MIB);
	struct kvc_mem *mem = NULL;
	struct kvc_pool *patient = NULL;
	struct kvc_session *sub = NULL;
	struct kv_error err = {0};
	(void)state;
	need_server();
	o.timeout_ns = o.connect_timeout_ns = o.slow_ns = UINT64_MAX;
	assert_int_equal(kvc_pool_open(&o, &patient, &err), 0);
	if (kvc_register(patient, a, MIB, &mem, &err) < 0)
		fail_msg("%s", err.text);
	ANSWERS(kvc_put(patient, (struct kvc_key){"ever", 4}, a, 4096, NULL), 0);
	ANSWERS(kvc_get(patient, (struct kvc_key){"ever", 4}, a, 4096, NULL), 4096);
	ANSWERS(kvc_delete(patient, (struct kvc_key){"ever", 4}, NULL), 0);
	ANSWERS(kvc_session_open(patient, 0, NULL, &sub, &err), 0);
	ANSWERS(kvc_session_close(patient, &sub, 0), 0);
	ANSWERS(kvc_unregister(patient, &mem), 0);
	kvc_pool_close(&patient);
	munmap(a, MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_pool_is_invalid),
		cmocka_unit_test(nothing_and_nowhere_are_invalid),
		cmocka_unit_test(flags_that_no_call_knows_are_invalid),
		cmocka_unit_test(none_at_all_is_nothing_to_do),
		cmocka_unit_test(far_too_much_is_refused_or_harmless),
		cmocka_unit_test(far_too_much_of_the_buffer_is_refused),
		cmocka_unit_test(spans_that_overlap_harm_nothing_else),
		cmocka_unit_test(what_would_be_ignored_is_invalid),
		cmocka_unit_test(blocking_calls_of_a_worker_are_invalid),
		cmocka_unit_test(calls_of_workers_elsewhere_are_invalid),
		cmocka_unit_test(calls_on_another_workers_client_are_invalid),
		cmocka_unit_test(a_registration_of_another_pool_is_invalid),
		cmocka_unit_test(a_timeout_of_for_ever_is_one),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
