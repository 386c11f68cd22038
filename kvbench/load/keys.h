/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h -- which key a read is of, and how large the value of a key is. Both follow from numbers: nothing is
 * remembered, and any reader knows the value of a key. */
#ifndef KVRAIL_KVBENCH_LOAD_KEYS_H
#define KVRAIL_KVBENCH_LOAD_KEYS_H

#include "kvbench/load/workload.h"
#include "kvbench/setup/options.h"

struct bench_draw {
	struct bench_pattern pattern;
	uint64_t num_keys, seed;
	uint64_t hot_keys;
	double theta, h_first, h_last, s; /* zipf: rejection inversion (keys.c) */
};

/* bench_draw_init -- num_keys > 0. The draw may be read by any thread then. */
void bench_draw_init(struct bench_draw *d, const struct bench_pattern *pattern, uint64_t num_keys, uint64_t seed);

/* bench_draw_key -- the number of the key that read `number` is of, below num_keys. Of zipf and hot the first keys are
 * read most. Inline, as bench_key_of is: both run with each GET. */
uint64_t bench_draw_other(const struct bench_draw *d, uint64_t number); /* of the other patterns */
static inline uint64_t bench_draw_key(const struct bench_draw *d, uint64_t number)
{
	return d->pattern.kind == BENCH_KEYS_SHUFFLED ? bench_order_key(number, d->num_keys, d->seed)
						      : bench_draw_other(d, number);
}

/* bench_size_of -- of the value of the key with this number, in bytes. */
uint64_t bench_size_of(const struct bench_options *o, uint64_t index);

struct bench_names {
	const struct bench_options *opt;
	struct bench_key head; /* of those whose values have --value-size */
};

/* bench_names_init -- options must outlive them. Any thread may read them then. */
void bench_names_init(struct bench_names *names, const struct bench_options *options);

/* bench_key_of -- make the key with this number. Returns the size of its value. */
uint64_t bench_key_sized(const struct bench_names *names, uint64_t index,
			 struct bench_key *key); /* with --value-sizes */
static inline uint64_t bench_key_of(const struct bench_names *names, uint64_t index, struct bench_key *key)
{
	if (names->opt->load.sizes.count)
		return bench_key_sized(names, index, key);
	bench_key_end(key, &names->head, index);
	return names->opt->load.value_size;
}

/* bench_size_mean -- of all values, by weight. */
uint64_t bench_size_mean(const struct bench_options *o);

/* bench_keys_memory -- bench_memory_need for num_values of the run's sizes; UINT64_MAX: more than any memory. */
uint64_t bench_keys_memory(const struct bench_options *o, uint64_t num_values, unsigned shards);

/* bench_keys_plan -- bench_memory_plan for num_values of the run's sizes. */
int bench_keys_plan(const struct bench_options *o, uint64_t num_values, unsigned shards, uint64_t available_bytes,
		    uint64_t *out_mb, struct kv_error *err);

#endif
