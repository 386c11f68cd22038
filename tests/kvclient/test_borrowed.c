/* SPDX-License-Identifier: Apache-2.0 */
/* test_borrowed.c -- pieces of a client's buffer in the hands of workers. */
#include "calls.h"

static void borrowed_worker(struct kvc_client *c, unsigned w, void *arg)
{
	static const size_t lens[] = {1, 3000, 4096, 65536, 300001, 5 << 20, 17 << 20};
	struct workers *job = arg;
	struct kvc_borrowed borrowed, got;
	char text[64];
	job->ran++;
	for (unsigned i = 0; i < KV_COUNT(lens); i++) {
		struct kvc_key key = key_of(text, sizeof(text), "borrowed", w * 100 + i);
		EXPECT(kvc_borrow_await(c, lens[i], 0, &borrowed) == 0);
		test_fill(borrowed.data, lens[i], i);
		EXPECT(kvc_put_await(c, key, borrowed.data, lens[i], NULL) == 0);
		kvc_borrowed_release(c, &borrowed);
		/* Right, unknown, and wrong expectations. */
		for (uint64_t expect = 0; expect <= 2 * lens[i]; expect += lens[i]) {
			EXPECT(kvc_get_borrowed_await(c, key, expect, NULL, &got) == (int64_t)lens[i]);
			EXPECT(got.len == lens[i] && got.value_len == lens[i]);
			EXPECT(test_same(got.data, lens[i], i));
			kvc_borrowed_release(c, &got);
		}
		EXPECT(kvc_get_borrowed_await(c, key, 1, NULL, &got) == (int64_t)lens[i]);
		EXPECT(test_same(got.data, lens[i], i));
		kvc_borrowed_release(c, &got);
		EXPECT(kvc_delete_await(c, key, NULL) == 0);
	}
	EXPECT(kvc_get_borrowed_await(c, (struct kvc_key){"borrowed/none", 13}, 10, NULL, &got) == -KV_ENOTFOUND);
	EXPECT(kvc_borrow_await(c, (uint64_t)1 << 40, 0, &borrowed) == -KV_ETOOBIG);
	kvc_borrowed_release(c, &borrowed);
}

static void borrowed_pieces_are_of_the_clients_buffer(void **state)
{
	struct workers job = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_run(shared, 2, borrowed_worker, &job), 0);
	assert_int_equal(job.ran, 2);
	assert_int_equal(job.failed, 0);
}

static void holding_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	struct kvc_borrowed borrowed;
	char text[64];
	job->ran++;
	for (unsigned i = 0; i < 20; i++) {
		struct kvc_key key = key_of(text, sizeof(text), "holding", w * 100 + i);
		EXPECT(kvc_borrow_await(c, MIB / 2, 0, &borrowed) == 0);
		test_fill(borrowed.data, MIB / 2, w);
		/* The others wait for what this one holds; its PUT must not wait behind them. */
		EXPECT(kvc_put_await(c, key, borrowed.data, MIB / 2, NULL) == 0);
		kvc_borrowed_release(c, &borrowed);
		EXPECT(kvc_get_borrowed_await(c, key, MIB / 2, NULL, &borrowed) == MIB / 2);
		EXPECT(test_same(borrowed.data, MIB / 2, w));
		EXPECT(kvc_delete_await(c, key, NULL) == 0);
		kvc_borrowed_release(c, &borrowed);
	}
}

static void workers_that_hold_borrowed_pieces_do_not_block_each_other(void **state)
{
	struct kvc_options o = test_options(one, 1, 1);
	struct workers job = {0};
	struct kvc_pool *p = NULL;
	struct kv_error err;
	(void)state;
	need_server();
	o.buffer_bytes = MIB;
	o.timeout_ns = 10000000000ull;
	assert_int_equal(kvc_pool_open(&o, &p, &err), 0);
	assert_int_equal(kvc_run(p, 8, holding_worker, &job), 0);
	assert_int_equal(job.ran, 8);
	assert_int_equal(job.failed, 0);
	kvc_pool_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(borrowed_pieces_are_of_the_clients_buffer),
		cmocka_unit_test(workers_that_hold_borrowed_pieces_do_not_block_each_other),
	};
	return test_both_ways(tests, calls_up, calls_down);
}
