/* SPDX-License-Identifier: Apache-2.0 */
/* workload.h -- the key of an operation, the value of a key, and the server memory for all of them. Everything follows
 * from numbers: any reader can name any key and check every byte, nothing is remembered. */
#ifndef KVRAIL_KVBENCH_LOAD_WORKLOAD_H
#define KVRAIL_KVBENCH_LOAD_WORKLOAD_H

#include <stdbool.h>

#include "base/base.h"

/* A key as text; values of different seed, size or kind never share one. */
struct bench_key {
	char text[KV_KEY_MAX];
	size_t len;
	uint64_t mark; /* random bits that follow from the text: the place of its value in the stock */
};

/* bench_key_make -- the key of number `index` of a run with this seed and value size ("kvbench3/<seed>/<size>/<index>",
 * hexadecimal). */
void bench_key_make(struct bench_key *key, uint64_t seed, uint64_t value_size, uint64_t index);

/* bench_key_begin, _end -- the same in two parts: the common part of the keys of a seed and a size, and one of them. */
void bench_key_begin(struct bench_key *head, uint64_t seed, uint64_t value_size);
void bench_key_end(struct bench_key *key, const struct bench_key *head, uint64_t index);

/* bench_key_trace -- the key of a trace's block ("trace3/<seed>/<size>/<hash_id, 16 digits>", hexadecimal). */
void bench_key_trace(struct bench_key *key, uint64_t seed, uint64_t value_size, uint64_t hash_id);

/* bench_stock_bytes -- of the stock that values of this size are parts of: 64 MiB, or the value and 8 MiB more. */
uint64_t bench_stock_bytes(uint64_t value_size);

/* bench_stock_fill -- make the first len bytes of the stock, the same for all sizes. */
void bench_stock_fill(void *stock, uint64_t len);

/* bench_value_at -- where in the stock the value of this key begins, in bytes: a multiple of 64. */
uint64_t bench_value_at(const struct bench_key *key, uint64_t value_size);

/* bench_value_fill -- the value of len bytes that belongs under this key, all of it. */
void bench_value_fill(const struct bench_key *key, void *out, uint64_t len);

/* bench_value_check -- compare every byte of a value of len bytes. Returns len when all are right, else the offset of
 * the first wrong byte. */
uint64_t bench_value_check(const struct bench_key *key, const void *data, uint64_t len);

/* bench_order -- the key of operation `op`: each run of num_keys operations visits every key once, in an order that
 * seed and the run's number decide. Pure, no memory: any worker can ask for any op. */
uint64_t bench_order_key(uint64_t op, uint64_t num_keys, uint64_t seed);

/* bench_value_check_part -- the same for the bytes of a value of len bytes from `from` on, a multiple of 8: data is
 * part_len of them. Returns part_len when all are right, else the offset of the first wrong byte in data. */
uint64_t bench_value_check_part(const struct bench_key *key, uint64_t len, uint64_t from, const void *data,
				uint64_t part_len);

/* bench_value_edges -- whether the first and the last bytes of a value, eight at most of each, are right: a glance that
 * costs little compared with a GET, and finds the value of another key. last: its byte number bench_value_last(len). */
bool bench_value_edges(const struct bench_key *key, uint64_t len, const void *first, const void *last);
static inline uint64_t bench_value_last(uint64_t len)
{
	return len ? (len - 1) / 8 * 8 : 0;
}

/* bench_random -- 64 random bits that follow from these three. */
uint64_t bench_random(uint64_t seed, uint64_t number, uint64_t part);

/* bench_memory_need -- bytes of server memory (its --memory-mb, rounded up to MiB) that keep num_values of value_size
 * without eviction, whatever their spread over up to `shards` shards. */
uint64_t bench_memory_need(uint64_t num_values, uint64_t value_size, unsigned shards);

/* bench_memory_plan -- how many MiB to give our own server: the need of the workload, at most half of available_bytes.
 * Returns 0 and *out_mb, or -KV_ENOMEM with a sentence that suggests sizes which fit. */
int bench_memory_plan(uint64_t num_values, uint64_t value_size, unsigned shards, uint64_t available_bytes,
		      uint64_t *out_mb, struct kv_error *err);

#endif
