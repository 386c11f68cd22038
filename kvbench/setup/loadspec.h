/* SPDX-License-Identifier: Apache-2.0 */
/* loadspec.h -- parses the texts of --keys-pattern, --value-sizes, --mix, --slo and --arrivals. Pure: it allocates
 * nothing. */
#ifndef KVRAIL_KVBENCH_SETUP_LOADSPEC_H
#define KVRAIL_KVBENCH_SETUP_LOADSPEC_H

#include <stdbool.h>

#include "base/base.h"

enum { BENCH_SIZES_MAX = 64, BENCH_SIZE_STEPS = 35 };

#define BENCH_WEIGHTS_MAX 1000000u /* of all weights together */

enum bench_keys { BENCH_KEYS_SHUFFLED, BENCH_KEYS_SEQUENTIAL, BENCH_KEYS_UNIFORM, BENCH_KEYS_ZIPF, BENCH_KEYS_HOT };

struct bench_pattern {
	enum bench_keys kind;
	double theta;           /* zipf */
	double fraction, share; /* hot: this part of the keys gets this part of the reads */
};

struct bench_sizes {
	unsigned count; /* 0: all have the one size of --value-size */
	uint64_t total; /* of the weights */
	struct {
		uint64_t size, weight;
	} row[BENCH_SIZES_MAX];
};

/* Kinds of operations, of `total`; 0: GETs alone. */
struct bench_mix {
	uint32_t get, put, exists, total;
};

struct bench_slo {
	double quantile; /* 0: none; printed as "p%.10g" of 100 times it: p99.9999999 is not p100 */
	uint64_t limit_ns;
};

enum bench_arrivals_kind { BENCH_UNIFORM, BENCH_POISSON, BENCH_RECORDED };

/* They read "zipf:0.99", "4KB:50,64KB:40,1MB:10" or "lognormal:64KB:1", "90:10:0", "p99=2ms". NULL gives the struct's
 * value for none. Return 0, or -KV_EINVAL with a sentence that shows the syntax. */
int bench_pattern_parse(const char *text, struct bench_pattern *out, struct kv_error *err);
int bench_sizes_parse(const char *text, struct bench_sizes *out, struct kv_error *err);
int bench_mix_parse(const char *text, struct bench_mix *out, struct kv_error *err);
int bench_slo_parse(const char *text, struct bench_slo *out, struct kv_error *err);

/* bench_arrivals_parse -- "uniform", "poisson" or "trace:FILE"; *out_file is a part of the text, or NULL. */
int bench_arrivals_parse(const char *text, enum bench_arrivals_kind *out, const char **out_file, struct kv_error *err);

/* bench_sizes_max -- the largest one. bench_sizes_mean -- by weight. count must not be 0. */
uint64_t bench_sizes_max(const struct bench_sizes *sizes);
uint64_t bench_sizes_mean(const struct bench_sizes *sizes);

#endif
