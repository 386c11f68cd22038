/* SPDX-License-Identifier: Apache-2.0 */
/* test_workload.c -- keys, values, read order, and the memory a workload needs. */
#include <stdlib.h>

#include "kvbench/load/workload.h"
#include "tests/kvbench/check.h"

static void keys_name_seed_size_and_number(void **state)
{
	struct bench_key key;
	(void)state;
	bench_key_make(&key, 1, 65536, 255);
	assert_string_equal(key.text, "kvbench3/1/10000/ff");
	assert_int_equal(key.len, strlen(key.text));
	bench_key_make(&key, 0, 16, 0x123456789abcdef0);
	assert_string_equal(key.text, "kvbench3/0/10/123456789abcdef0");
	assert_int_equal(key.len, strlen(key.text));
	bench_key_trace(&key, 1, 65536, 255);
	assert_string_equal(key.text, "trace3/1/10000/00000000000000ff");
}

static void the_longest_key_is_allowed(void **state)
{
	struct bench_key key;
	(void)state;
	bench_key_make(&key, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	assert_int_equal(key.len, strlen("kvbench3/") + 3 * 16 + 2);
	assert_in_range(key.len, 1, KV_KEY_MAX);
}

static void a_filled_value_is_right(void **state)
{
	static uint8_t data[20000];
	struct bench_key key;
	(void)state;
	bench_key_make(&key, 7, 1, 3);
	for (uint64_t len = 0; len < sizeof(data); len = len < 64 ? len + 1 : len * 2 + 3) {
		bench_value_fill(&key, data, len);
		assert_int_equal(bench_value_check(&key, data, len), len);
	}
}

static void a_value_does_not_write_past_its_end(void **state)
{
	uint8_t data[64];
	struct bench_key key;
	(void)state;
	bench_key_make(&key, 7, 1, 3);
	for (unsigned len = 0; len < 60; len++) {
		memset(data, 0xaa, sizeof(data));
		bench_value_fill(&key, data, len);
		for (unsigned i = len; i < sizeof(data); i++)
			assert_int_equal(data[i], 0xaa);
	}
}

/* One wrong bit anywhere is found, at its place. */
static void any_wrong_bit_is_found(void **state)
{
	struct kv_prng prng = check_seed();
	static uint8_t data[3 * 4096 + 77];
	struct bench_key key;
	(void)state;
	bench_key_make(&key, 1, sizeof(data), 9);
	bench_value_fill(&key, data, sizeof(data));
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t at = kv_prng_below(&prng, sizeof(data));
		uint8_t bit = (uint8_t)(1u << kv_prng_below(&prng, 8));
		data[at] ^= bit;
		assert_int_equal(bench_value_check(&key, data, sizeof(data)), at);
		data[at] ^= bit;
	}
	assert_int_equal(bench_value_check(&key, data, sizeof(data)), sizeof(data));
}

/* A part is compared as the whole is, from any word on. */
static void a_part_of_a_value_is_checked_alone(void **state)
{
	static uint8_t data[3 * 4096 + 80];
	struct bench_key key;
	(void)state;
	bench_key_make(&key, 1, sizeof(data), 9);
	bench_value_fill(&key, data, sizeof(data));
	for (uint64_t from = 0; from < sizeof(data); from += 8 * 67) {
		uint64_t part = sizeof(data) - from;
		assert_int_equal(bench_value_check_part(&key, sizeof(data), from, data + from, part), part);
		data[from + part / 2] ^= 1;
		assert_int_equal(bench_value_check_part(&key, sizeof(data), from, data + from, part), part / 2);
		data[from + part / 2] ^= 1;
	}
	assert_int_not_equal(bench_value_check_part(&key, sizeof(data), 8, data, 4096), 4096);
}

/* A glance sees the first and the last eight bytes, and no more of a short value than it has. */
static void edges_tell_the_value_of_another_key(void **state)
{
	static const uint64_t sizes[] = {1, 7, 8, 9, 15, 16, 17, 3000, 4096};
	uint8_t data[4096];
	struct bench_key key, other;
	(void)state;
	bench_key_make(&key, 1, 1, 1);
	bench_key_make(&other, 1, 1, 2);
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		const uint8_t *last = data + bench_value_last(sizes[i]);
		memset(data, 0, sizeof(data));
		bench_value_fill(&key, data, sizes[i]);
		assert_true(bench_value_edges(&key, sizes[i], data, last));
		assert_false(bench_value_edges(&other, sizes[i], data, last));
		for (unsigned end = 0; end < 2; end++) {
			uint8_t *at = end ? &data[sizes[i] - 1] : data;
			*at ^= 1;
			assert_false(bench_value_edges(&key, sizes[i], data, last));
			*at ^= 1;
		}
	}
	assert_true(bench_value_edges(&key, 0, data, data + bench_value_last(0)));
}

static void another_keys_value_is_wrong_at_once(void **state)
{
	uint8_t data[4096];
	struct bench_key one, other;
	(void)state;
	bench_key_make(&one, 1, sizeof(data), 1);
	bench_key_make(&other, 1, sizeof(data), 2);
	bench_value_fill(&one, data, sizeof(data));
	assert_in_range(bench_value_check(&other, data, sizeof(data)), 0, 7);
}

/* Workers send from the stock, readers compute what they expect: both must mean the same bytes. */
static void a_value_is_a_part_of_the_stock(void **state)
{
	static const uint64_t sizes[] = {1, 7, 64, 100, 4096, 65537, (uint64_t)1 << 20, (uint64_t)20 << 20};
	uint64_t len = bench_stock_bytes(1);
	uint8_t *stock = malloc(len), *value = malloc(sizes[KV_COUNT(sizes) - 1]);
	struct bench_key key;
	(void)state;
	assert_non_null(stock);
	assert_non_null(value);
	bench_stock_fill(stock, len);
	for (unsigned s = 0; s < KV_COUNT(sizes); s++)
		for (unsigned i = 0; i < 5; i++) {
			uint64_t at;
			bench_key_make(&key, i, sizes[s], i);
			at = bench_value_at(&key, sizes[s]);
			assert_int_equal(bench_stock_bytes(sizes[s]), len);
			assert_in_range(at, 0, len - sizes[s]);
			bench_value_fill(&key, value, sizes[s]);
			assert_memory_equal(stock + at, value, sizes[s]);
			assert_int_equal(bench_value_check(&key, stock + at, sizes[s]), sizes[s]);
		}
	free(value);
	free(stock);
}

/* What a value under a wrong key is noticed by: few keys have the same value. And the stock is never much larger than
 * 64 MiB or the value. */
static void few_keys_have_the_same_value(void **state)
{
	static const uint64_t sizes[] = {1, 4096, 65536, (uint64_t)1 << 20, (uint64_t)60 << 20, KV_VALUE_MAX};
	enum { KEYS = 2000 };
	(void)state;
	for (unsigned s = 0; s < KV_COUNT(sizes); s++) {
		uint64_t stock = bench_stock_bytes(sizes[s]), same = 0, first;
		struct bench_key key;
		assert_in_range(stock, sizes[s], KV_MAX((uint64_t)64 << 20, sizes[s] + ((uint64_t)8 << 20)));
		bench_key_make(&key, 1, sizes[s], 0);
		first = bench_value_at(&key, sizes[s]);
		for (uint64_t i = 1; i < KEYS; i++) {
			uint64_t at;
			bench_key_make(&key, 1, sizes[s], i);
			at = bench_value_at(&key, sizes[s]);
			assert_int_equal(at % 64, 0);
			assert_true(at + sizes[s] <= stock);
			same += at == first;
		}
		assert_in_range(same, 0, 6); /* one in 2,049 on average where there are fewest */
	}
}

static void a_shifted_value_is_wrong(void **state)
{
	static uint8_t data[8192 + 8];
	struct bench_key key;
	(void)state;
	bench_key_make(&key, 1, 1, 1);
	bench_value_fill(&key, data, sizeof(data));
	assert_in_range(bench_value_check(&key, data + 8, 8192), 0, 7);
}

static void check_visits_each_once(uint64_t num_keys, uint64_t first_op, uint64_t seed)
{
	uint8_t *seen = calloc(1, num_keys);
	assert_non_null(seen);
	for (uint64_t op = 0; op < num_keys; op++) {
		uint64_t key = bench_order_key(first_op + op, num_keys, seed);
		assert_in_range(key, 0, num_keys - 1);
		assert_int_equal(seen[key]++, 0);
	}
	free(seen);
}

static void every_round_visits_every_key_once(void **state)
{
	struct kv_prng prng = check_seed();
	(void)state;
	for (uint64_t n = 1; n < 70; n++)
		check_visits_each_once(n, 3 * n, 1);
	for (unsigned bits = 7; bits <= 18; bits++)
		for (uint64_t n = ((uint64_t)1 << bits) - 1; n <= ((uint64_t)1 << bits) + 1; n++)
			check_visits_each_once(n, 5 * n, bits);
	for (unsigned i = 0; i < 20; i++) {
		uint64_t n = 1 + kv_prng_below(&prng, 20000);
		check_visits_each_once(n, n * kv_prng_below(&prng, 1000), kv_prng_next(&prng));
	}
}

static void the_order_depends_on_seed_and_round(void **state)
{
	unsigned same_round = 0, same_seed = 0, sorted = 0;
	(void)state;
	for (uint64_t op = 0; op < 1000; op++) {
		uint64_t key = bench_order_key(op, 1000, 1);
		same_round += key == bench_order_key(op + 1000, 1000, 1);
		same_seed += key == bench_order_key(op, 1000, 2);
		sorted += key == op;
	}
	/* About one key in a thousand stays in its place by chance. */
	assert_in_range(same_round, 0, 20);
	assert_in_range(same_seed, 0, 20);
	assert_in_range(sorted, 0, 20);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Of more keys than memory has room to note: some of them, one after the other and far apart. */
static void many_keys_are_visited_once(void **state)
{
	enum { SOME = 100000 };
	uint64_t *key = malloc(SOME * sizeof(*key));
	(void)state;
	assert_non_null(key);
	for (unsigned bits = 33; bits <= 64; bits++) {
		uint64_t n = (UINT64_MAX >> (64 - bits)) - bits, step = (n - SOME) / SOME;
		for (uint64_t i = 0; i < SOME; i++) {
			key[i] = bench_order_key(i % 2 ? i : i * step, n, bits);
			assert_true(key[i] < n);
		}
		qsort(key, SOME, sizeof(*key), by_number);
		for (unsigned i = 1; i < SOME; i++)
			assert_true(key[i - 1] < key[i]);
	}
	free(key);
}

/* Neighbours in the order are at no distance that comes again and again: a machine would learn such an order. It is
 * no random one: of 2,048 keys 111 neighbours are at one distance, where by chance it were eight. */
static void the_order_has_no_stride(void **state)
{
	static const unsigned sizes[] = {1000, 1023, 1024, 1025, 2048, 4096, 10000, 16384, 32768, 65536, 100000};
	unsigned *seen = malloc(100000 * sizeof(*seen));
	(void)state;
	assert_non_null(seen);
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		unsigned keys = sizes[i], most = 0;
		for (uint64_t seed = 1; seed <= 20; seed++) {
			memset(seen, 0, keys * sizeof(*seen));
			for (uint64_t op = 0; op + 1 < keys; op++) {
				uint64_t from = bench_order_key(op, keys, seed),
					 to = bench_order_key(op + 1, keys, seed);
				unsigned *same = &seen[(to + keys - from) % keys];
				most = KV_MAX(most, ++*same);
			}
		}
		assert_in_range(most, 0, keys / 16);
	}
	free(seen);
}

static void the_order_is_repeatable(void **state)
{
	(void)state;
	for (uint64_t op = 0; op < 100; op++)
		assert_int_equal(bench_order_key(op, 77, 5), bench_order_key(op, 77, 5));
}

static void memory_holds_the_values_with_headroom(void **state)
{
	(void)state;
	assert_true(bench_memory_need(1000, 65536, 4) > 1000 * 65536ull);
	assert_int_equal(bench_memory_need(1000, 65536, 4) % (1 << 20), 0);
	/* Headroom is a small part of a large workload. */
	assert_true(bench_memory_need(1000000, 65536, 4) < 1000000 * 65536ull / 100 * 105);
	/* Small values take at least a KiB each of kv-server's limit. */
	assert_true(bench_memory_need(100000, 1, 4) >= 100000ull * 1024);
}

static void memory_grows_with_everything(void **state)
{
	(void)state;
	for (uint64_t n = 1; n < 1000000; n *= 3)
		assert_true(bench_memory_need(n, 65536, 4) <= bench_memory_need(n * 3, 65536, 4));
	for (uint64_t size = 1; size < 1 << 26; size *= 2)
		assert_true(bench_memory_need(100, size, 4) <= bench_memory_need(100, size * 2, 4));
	assert_true(bench_memory_need(1000, 65536, 1) < bench_memory_need(1000, 65536, 16));
}

/* Throw keys at shards: no shard may get more bytes than its share of the need. */
static void memory_covers_an_uneven_spread(void **state)
{
	enum { SHARDS = 4, KEYS = 5000, TRIALS = 50 };
	struct kv_prng prng = check_seed();
	uint64_t share = bench_memory_need(KEYS, 65536, SHARDS) / SHARDS;
	(void)state;
	for (unsigned t = 0; t < TRIALS; t++) {
		uint64_t on[SHARDS] = {0};
		for (unsigned i = 0; i < KEYS; i++)
			on[kv_prng_below(&prng, SHARDS)] += 65536;
		for (unsigned s = 0; s < SHARDS; s++)
			assert_in_range(on[s], 0, share);
	}
}

static void the_plan_gives_what_is_needed(void **state)
{
	struct kv_error err;
	uint64_t mb = 0;
	(void)state;
	assert_int_equal(bench_memory_plan(1000, 65536, 4, (uint64_t)8 << 30, &mb, &err), 0);
	assert_int_equal(mb, bench_memory_need(1000, 65536, 4) >> 20);
}

static void the_plan_refuses_more_than_half_and_suggests_what_fits(void **state)
{
	struct kv_error err;
	uint64_t mb = 0, half = (uint64_t)4 << 30;
	unsigned long long size = 0, values = 0;
	const char *at;
	(void)state;
	assert_int_equal(bench_memory_plan(100000, 1 << 20, 4, 2 * half, &mb, &err), -KV_ENOMEM);
	assert_int_equal(mb, 0);
	at = strstr(err.text, "use --value-size ");
	assert_non_null(at);
	assert_int_equal(sscanf(at, "use --value-size %llu, %llu values", &size, &values), 2);
	/* What is suggested is accepted, and twice as much is not. */
	assert_int_equal(bench_memory_plan(100000, size, 4, 2 * half, &mb, &err), 0);
	assert_int_equal(bench_memory_plan(100000, 2 * size, 4, 2 * half, &mb, &err), -KV_ENOMEM);
	assert_int_equal(bench_memory_plan(values, 1 << 20, 4, 2 * half, &mb, &err), 0);
	assert_int_equal(bench_memory_plan(values + 1, 1 << 20, 4, 2 * half, &mb, &err), -KV_ENOMEM);
}

static void the_plan_survives_absurd_numbers(void **state)
{
	struct kv_error err;
	uint64_t mb = 0;
	(void)state;
	assert_int_equal(bench_memory_plan((uint64_t)1 << 40, KV_VALUE_MAX, 4, (uint64_t)1 << 40, &mb, &err),
			 -KV_ENOMEM);
	assert_int_equal(bench_memory_plan(1, KV_VALUE_MAX, 64, 0, &mb, &err), -KV_ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_name_seed_size_and_number),
		cmocka_unit_test(the_longest_key_is_allowed),
		cmocka_unit_test(a_filled_value_is_right),
		cmocka_unit_test(a_value_does_not_write_past_its_end),
		cmocka_unit_test(any_wrong_bit_is_found),
		cmocka_unit_test(a_part_of_a_value_is_checked_alone),
		cmocka_unit_test(edges_tell_the_value_of_another_key),
		cmocka_unit_test(another_keys_value_is_wrong_at_once),
		cmocka_unit_test(a_value_is_a_part_of_the_stock),
		cmocka_unit_test(few_keys_have_the_same_value),
		cmocka_unit_test(a_shifted_value_is_wrong),
		cmocka_unit_test(every_round_visits_every_key_once),
		cmocka_unit_test(many_keys_are_visited_once),
		cmocka_unit_test(the_order_depends_on_seed_and_round),
		cmocka_unit_test(the_order_has_no_stride),
		cmocka_unit_test(the_order_is_repeatable),
		cmocka_unit_test(memory_holds_the_values_with_headroom),
		cmocka_unit_test(memory_grows_with_everything),
		cmocka_unit_test(memory_covers_an_uneven_spread),
		cmocka_unit_test(the_plan_gives_what_is_needed),
		cmocka_unit_test(the_plan_refuses_more_than_half_and_suggests_what_fits),
		cmocka_unit_test(the_plan_survives_absurd_numbers),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
