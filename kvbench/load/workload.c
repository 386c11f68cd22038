/* SPDX-License-Identifier: Apache-2.0 */
/* workload.c -- keys, values, order and memory of a run, all computed.
 *
 * Values: one stock of bytes, the same in every process; its word i is a mix of i. A value is the part of the stock
 * that begins at the mark of its key, at a multiple of a page (of 64 bytes for small values). A stock of 64 MiB holds
 * some 16,000 different values of up to a few MiB. Comparing computes the words: reading the stock would take twice the
 * memory traffic.
 *
 * Order: a permutation of [0, num_keys) by a cipher over the next power of two with cycle walking, a new one for every
 * round. */
#include "kvbench/load/workload.h"

#include <stdio.h>

#define VALUE_STEP 0x9e3779b97f4a7c15ull

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 29;
	return x;
}

/* The strong one (splitmix64's finaliser), for numbers  computed once per operation. */
static uint64_t mix_strong(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static char *hex_put(char *at, uint64_t v)
{
	unsigned digits = v ? (67 - (unsigned)__builtin_clzll(v)) / 4 : 1;
	for (unsigned i = digits; i-- > 0; v >>= 4)
		at[i] = "0123456789abcdef"[v & 15];
	return at + digits;
}

/* By hand, and in two parts: a GET makes one, and printf took 1,500 instructions for it, a sixth of all that a client
 * executes for a GET of 4 KiB. */
enum { HEAD_MAX = sizeof("kvbench3/") - 1 + 2 * (16 + 1) };

void bench_key_begin(struct bench_key *head, uint64_t seed, uint64_t value_size)
{
	static const char prefix[] = "kvbench3/";
	char *at = head->text;
	memcpy(at, prefix, sizeof(prefix) - 1);
	at = hex_put(at + sizeof(prefix) - 1, seed);
	*at++ = '/';
	at = hex_put(at, value_size);
	*at++ = '/';
	memset(at, 0, (size_t)(head->text + HEAD_MAX + 1 - at));
	head->len = (size_t)(at - head->text);
	head->mark = mix_strong(seed + mix_strong(value_size + VALUE_STEP));
}

void bench_key_end(struct bench_key *key, const struct bench_key *head, uint64_t index)
{
	char *at;
	_Static_assert(HEAD_MAX + 16 + 1 <= sizeof(key->text), "the longest key fits");
	memcpy(key->text, head->text, HEAD_MAX + 1);
	at = hex_put(key->text + head->len, index);
	*at = 0;
	key->len = (size_t)(at - key->text);
	key->mark = mix_strong(head->mark + index * VALUE_STEP);
}

void bench_key_make(struct bench_key *key, uint64_t seed, uint64_t value_size, uint64_t index)
{
	struct bench_key head;
	bench_key_begin(&head, seed, value_size);
	bench_key_end(key, &head, index);
}

void bench_key_trace(struct bench_key *key, uint64_t seed, uint64_t value_size, uint64_t hash_id)
{
	int n = snprintf(key->text, sizeof(key->text), "trace3/%llx/%llx/%016llx", (unsigned long long)seed,
			 (unsigned long long)value_size, (unsigned long long)hash_id);
	key->len = n > 0 ? KV_MIN((size_t)n, sizeof(key->text) - 1) : 0;
	key->mark = mix_strong(mix_strong(seed + mix_strong(value_size + 2 * VALUE_STEP)) + hash_id * VALUE_STEP);
}

/* ---- values ---- */

static uint64_t value_word(uint64_t state)
{
	return htole64(mix(state));
}

#define STOCK_SEED 0x6b767261696c2e32ull

enum { STOCK_BYTES = 64 << 20, STOCK_ROOM = 8 << 20, PLACE_MIN_BITS = 6, PLACE_MAX_BITS = 12, PLACE_MAX = 4096 };

uint64_t bench_stock_bytes(uint64_t value_size)
{
	return KV_MAX((uint64_t)STOCK_BYTES, kv_align_up(value_size, PLACE_MAX) + STOCK_ROOM);
}

uint64_t bench_value_at(const struct bench_key *key, uint64_t value_size)
{
	unsigned step_bits = value_size < PLACE_MAX ? PLACE_MIN_BITS : PLACE_MAX_BITS;
	uint64_t places = ((bench_stock_bytes(value_size) - value_size) >> step_bits) + 1;
	return (uint64_t)((unsigned __int128)key->mark * places >> 64) << step_bits;
}

static uint64_t stock_state(uint64_t offset)
{
	return STOCK_SEED + offset / 8 * VALUE_STEP;
}

static void words_fill(uint64_t state, void *out, uint64_t len)
{
	uint8_t *p = out;
	uint64_t i;
	for (i = 0; i + 8 <= len; i += 8, state += VALUE_STEP) {
		uint64_t word = value_word(state);
		memcpy(p + i, &word, 8);
	}
	if (i < len) {
		uint64_t word = value_word(state);
		memcpy(p + i, &word, len - i);
	}
}

void bench_stock_fill(void *stock, uint64_t len)
{
	words_fill(stock_state(0), stock, len);
}

void bench_value_fill(const struct bench_key *key, void *out, uint64_t len)
{
	words_fill(stock_state(bench_value_at(key, len)), out, len);
}

static uint64_t first_wrong(const uint8_t *data, uint64_t from, uint64_t to, uint64_t state)
{
	for (uint64_t i = from; i < to; state += VALUE_STEP) {
		uint64_t word = value_word(state);
		uint8_t expected[8];
		memcpy(expected, &word, 8);
		for (unsigned b = 0; b < 8 && i < to; b++, i++)
			if (data[i] != expected[b])
				return i;
	}
	return to;
}

uint64_t bench_value_check(const struct bench_key *key, const void *data, uint64_t len)
{
	return bench_value_check_part(key, len, 0, data, len);
}

uint64_t bench_value_check_part(const struct bench_key *key, uint64_t len, uint64_t from, const void *data,
				uint64_t part_len)
{
	enum { PIECE = 4096 }; /* differences are collected without a branch per word */
	uint64_t state = stock_state(bench_value_at(key, len) + from);
	const uint8_t *p = data;
	uint64_t at = 0;
	for (; at + PIECE <= part_len; at += PIECE) {
		uint64_t piece_state = state, diff = 0;
		for (unsigned i = 0; i < PIECE; i += 8, state += VALUE_STEP) {
			uint64_t word;
			memcpy(&word, p + at + i, 8);
			diff |= word ^ value_word(state);
		}
		if (KV_UNLIKELY(diff))
			return first_wrong(p, at, at + PIECE, piece_state);
	}
	return first_wrong(p, at, part_len, state);
}

static bool word_begins(const void *data, uint64_t word, uint64_t bytes)
{
	return memcmp(data, &word, KV_MIN(bytes, sizeof(word))) == 0;
}

bool bench_value_edges(const struct bench_key *key, uint64_t len, const void *first, const void *last)
{
	uint64_t at = bench_value_at(key, len), from = bench_value_last(len), word[2];
	if (KV_LIKELY(len - from == sizeof(*word))) {
		memcpy(&word[0], first, sizeof(*word)); /* no call of memcmp: this runs with each GET */
		memcpy(&word[1], last, sizeof(*word));
		return ((word[0] ^ value_word(stock_state(at))) | (word[1] ^ value_word(stock_state(at + from)))) == 0;
	}
	return word_begins(first, value_word(stock_state(at)), len) &&
	       word_begins(last, value_word(stock_state(at + from)), len - from);
}

/* ---- order ---- */

/* One pass of the cipher over 2 to 64 bits: each step can be undone, so no two numbers become one. A product moves low
 * bits up, a shift by half moves them down again. The order is not random, and has no stride: with a thousand keys or
 * more one distance in sixteen between neighbours, at most, is the same. */
static uint64_t scramble(uint64_t x, unsigned bits, uint64_t seed)
{
	uint64_t mask = UINT64_MAX >> (64 - bits);
	unsigned half = (bits + 1) / 2;
	x = (x + seed) * 0xbf58476d1ce4e5b9ull & mask;
	x ^= x >> half;
	x = (x + (seed >> 32)) * 0x94d049bb133111ebull & mask;
	return x ^ x >> half;
}

static unsigned bits_for(uint64_t n)
{
	return n <= 4 ? 2 : 64 - (unsigned)__builtin_clzll(n - 1);
}

uint64_t bench_order_key(uint64_t op, uint64_t num_keys, uint64_t seed)
{
	uint64_t round = op / num_keys, x = op - round * num_keys;
	uint64_t round_seed = mix_strong(seed + round * VALUE_STEP);
	unsigned bits = bits_for(num_keys);
	/* Walking on until inside num_keys stays a bijection, and ends soon. */
	do
		x = scramble(x, bits, round_seed);
	while (x >= num_keys);
	return x;
}

uint64_t bench_random(uint64_t seed, uint64_t number, uint64_t part)
{
	return mix_strong(mix_strong(seed * VALUE_STEP + number) + (part + 1) * VALUE_STEP);
}

/* ---- memory ---- */

static uint64_t root(uint64_t n)
{
	uint64_t r = 0;
	for (uint64_t bit = (uint64_t)1 << 31; bit; bit >>= 1)
		if ((r + bit) * (r + bit) <= n)
			r += bit;
	return r;
}

/* Bytes of one value: kv-server's arena works in 64 bytes and keeps at most one block per KiB; a 64th on top is for
 * holes. */
static uint64_t slot_bytes(uint64_t value_size)
{
	uint64_t size = KV_MAX(kv_align_up(value_size, 64), (uint64_t)1024);
	return size + size / 64;
}

uint64_t bench_memory_need(uint64_t num_values, uint64_t value_size, unsigned shards)
{
	enum { SPREAD_SIGMAS = 5, SLACK_PER_SHARD = 8 << 20 };
	uint64_t per_shard, n = shards ? shards : 1;
	/* Keys fall on shards by hash: the fullest one gets a few standard deviations more than its share. */
	per_shard = num_values / n + SPREAD_SIGMAS * root(num_values / n + 1) + 1;
	if (per_shard > num_values)
		per_shard = num_values;
	/* Arriving values have a private place, and values that a reader holds are not free yet. */
	return kv_align_up(n * (per_shard * slot_bytes(value_size) + KV_MAX((uint64_t)SLACK_PER_SHARD, 4 * value_size)),
			   1 << 20);
}

/* The largest number of values (of this size) that fits, by bisection; 0 when none does. */
static uint64_t values_that_fit(uint64_t budget, uint64_t value_size, unsigned shards, uint64_t at_most)
{
	uint64_t low = 0, high = at_most;
	while (low < high) {
		uint64_t mid = low + (high - low + 1) / 2;
		if (bench_memory_need(mid, value_size, shards) <= budget)
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

static uint64_t size_that_fits(uint64_t budget, uint64_t num_values, unsigned shards, uint64_t at_most)
{
	uint64_t size = 1;
	while (size * 2 < at_most && bench_memory_need(num_values, size * 2, shards) <= budget)
		size *= 2;
	return bench_memory_need(num_values, size, shards) <= budget ? size : 0;
}

int bench_memory_plan(uint64_t num_values, uint64_t value_size, unsigned shards, uint64_t available_bytes,
		      uint64_t *out_mb, struct kv_error *err)
{
	char need_text[32], half_text[32], size_text[32], way_out[128] = "";
	uint64_t budget = available_bytes / 2, need, size;
	/* 2^64 bytes are not reached by any honest workload; saying so beats an overflow. */
	if (num_values > ((uint64_t)1 << 56) / (value_size + 4096))
		return kv_fail(err, -KV_ENOMEM,
			       "%llu values of %s are more than any memory: use a smaller --num-keys or --value-size",
			       (unsigned long long)num_values,
			       kv_size_format(value_size, size_text, sizeof(size_text)));
	need = bench_memory_need(num_values, value_size, shards);
	if (need <= budget) {
		*out_mb = need >> 20;
		return 0;
	}
	size = size_that_fits(budget, num_values, shards, value_size);
	if (size)
		snprintf(way_out, sizeof(way_out), "--value-size %llu, ", (unsigned long long)size);
	return kv_fail(err, -KV_ENOMEM,
		       "for %llu value%s of %s the server needs %s, more than half of this machine's free memory (%s): "
		       "use %s%llu values, or --memory-mb N (further values are evicted)",
		       (unsigned long long)num_values, kv_plural(num_values),
		       kv_size_format(value_size, size_text, sizeof(size_text)),
		       kv_size_format(need, need_text, sizeof(need_text)),
		       kv_size_format(budget, half_text, sizeof(half_text)), way_out,
		       (unsigned long long)values_that_fit(budget, value_size, shards, num_values));
}
