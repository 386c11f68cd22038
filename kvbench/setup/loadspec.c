/* SPDX-License-Identifier: Apache-2.0 */
/* loadspec.c -- the small languages of the options that describe a load.
 *
 * A log-normal distribution becomes a list as well: BENCH_SIZE_STEPS sizes of the same weight, each the median of its
 * part of the distribution. So one rule says which key has which size, and what memory they take together is known
 * beforehand. What a list loses is the tail beyond 1 / (2 * steps). */
#include "kvbench/setup/loadspec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORD_MAX = 64 };

/* Copy what stands before the next `end`, or all; *text is behind it then, or NULL. False: empty, or too long. */
static bool word_take(const char **text, char end, char *out)
{
	const char *at = *text, *to = strchr(at, end);
	size_t len = to ? (size_t)(to - at) : strlen(at);
	*text = to ? to + 1 : NULL;
	if (len == 0 || len >= WORD_MAX)
		return false;
	memcpy(out, at, len);
	out[len] = '\0';
	return true;
}

/* A plain decimal number from low to high. */
static bool number_take(const char **text, char end, double low, double high, double *out)
{
	char word[WORD_MAX], *rest;
	if (!*text || !word_take(text, end, word) || strspn(word, "0123456789.") != strlen(word))
		return false;
	*out = strtod(word, &rest);
	return *rest == '\0' && *out >= low && *out <= high;
}

int bench_pattern_parse(const char *text, struct bench_pattern *out, struct kv_error *err)
{
	static const char *const names[] = {"shuffled", "sequential", "uniform", "zipf", "hot"};
	char word[WORD_MAX];
	const char *rest = text;
	bool good = false;
	memset(out, 0, sizeof(*out));
	if (!text)
		return 0;
	if (word_take(&rest, ':', word))
		for (unsigned i = 0; i < KV_COUNT(names); i++)
			if (strcmp(word, names[i]) == 0) {
				out->kind = (enum bench_keys)i;
				good = true;
			}
	if (good && out->kind == BENCH_KEYS_ZIPF)
		good = number_take(&rest, ':', 0.001, 10, &out->theta);
	if (good && out->kind == BENCH_KEYS_HOT)
		good = number_take(&rest, ':', 1e-9, 1, &out->fraction) && number_take(&rest, ':', 0, 1, &out->share);
	if (good && !rest)
		return 0;
	return kv_fail(err, -KV_EINVAL,
		       "--keys-pattern %s is none of shuffled, sequential, uniform, zipf:THETA (0.001 to 10) and "
		       "hot:FRACTION:SHARE (parts of 1, as in hot:0.1:0.9)",
		       text);
}

/* ---- sizes ---- */

/* The x below which this part of the normal distribution lies. */
static double normal_quantile(double part)
{
	double low = -10, high = 10;
	for (unsigned i = 0; i < 60; i++) {
		double x = (low + high) / 2;
		if (erfc(-x / M_SQRT2) / 2 < part)
			low = x;
		else
			high = x;
	}
	return (low + high) / 2;
}

static bool lognormal_parse(const char *text, struct bench_sizes *out)
{
	char word[WORD_MAX];
	uint64_t median;
	double sigma, size;
	if (!word_take(&text, ':', word) || kv_size_parse(word, &median) < 0 || median == 0 ||
	    !number_take(&text, ':', 0.01, 5, &sigma) || text)
		return false;
	out->count = BENCH_SIZE_STEPS;
	out->total = BENCH_SIZE_STEPS;
	for (unsigned i = 0; i < BENCH_SIZE_STEPS; i++) {
		size = (double)median * exp(sigma * normal_quantile((i + 0.5) / BENCH_SIZE_STEPS));
		if (size > (double)KV_VALUE_MAX)
			return false;
		out->row[i].size = KV_MAX((uint64_t)(size + 0.5), (uint64_t)1);
		out->row[i].weight = 1;
	}
	return true;
}

static bool list_parse(const char *text, struct bench_sizes *out)
{
	char item[WORD_MAX], word[WORD_MAX];
	while (text) {
		const char *at = item;
		uint64_t size, weight = 1;
		if (out->count == BENCH_SIZES_MAX || !word_take(&text, ',', item) || !word_take(&at, ':', word) ||
		    kv_size_parse(word, &size) < 0 || size == 0 || size > KV_VALUE_MAX)
			return false;
		if (at && (kv_u64_parse(at, &weight) < 0 || weight == 0 || weight > BENCH_WEIGHTS_MAX))
			return false;
		out->row[out->count].size = size;
		out->row[out->count++].weight = weight;
		out->total += weight;
	}
	return out->total <= BENCH_WEIGHTS_MAX;
}

int bench_sizes_parse(const char *text, struct bench_sizes *out, struct kv_error *err)
{
	static const char lognormal[] = "lognormal:";
	size_t len = sizeof(lognormal) - 1;
	bool good;
	memset(out, 0, sizeof(*out));
	if (!text)
		return 0;
	good = strncmp(text, lognormal, len) == 0 ? lognormal_parse(text + len, out) : list_parse(text, out);
	if (good)
		return 0;
	out->count = 0;
	return kv_fail(
		err, -KV_EINVAL,
		"--value-sizes %s is neither up to %u sizes of 1 B to 1 GiB with weights (4KB:50,64KB:40,1MB:10; "
		"weights add up to %u at most) nor lognormal:MEDIAN:SIGMA (SIGMA 0.01 to 5)",
		text, (unsigned)BENCH_SIZES_MAX, BENCH_WEIGHTS_MAX);
}

uint64_t bench_sizes_max(const struct bench_sizes *sizes)
{
	uint64_t max = 0;
	for (unsigned i = 0; i < sizes->count; i++)
		max = KV_MAX(max, sizes->row[i].size);
	return max;
}

uint64_t bench_sizes_mean(const struct bench_sizes *sizes)
{
	double sum = 0;
	for (unsigned i = 0; i < sizes->count; i++)
		sum += (double)sizes->row[i].size * (double)sizes->row[i].weight;
	return (uint64_t)(sum / (double)sizes->total + 0.5);
}

/* ---- mix and aim ---- */

int bench_mix_parse(const char *text, struct bench_mix *out, struct kv_error *err)
{
	uint32_t *const part[] = {&out->get, &out->put, &out->exists};
	const char *rest = text;
	bool good = true;
	memset(out, 0, sizeof(*out));
	if (!text)
		return 0;
	for (unsigned i = 0; i < KV_COUNT(part) && good; i++) {
		char word[WORD_MAX];
		uint64_t n = 0;
		good = rest && word_take(&rest, ':', word) && kv_u64_parse(word, &n) == 0 && n <= 1000;
		*part[i] = (uint32_t)n;
		out->total += (uint32_t)n;
	}
	if (good && !rest && out->get > 0)
		return 0;
	memset(out, 0, sizeof(*out));
	return kv_fail(err, -KV_EINVAL,
		       "--mix %s is not GET:PUT:EXISTS, parts of up to 1,000 each with at least one GET, as in 90:10:0",
		       text);
}

int bench_slo_parse(const char *text, struct bench_slo *out, struct kv_error *err)
{
	const char *rest = text;
	double percent = 0;
	memset(out, 0, sizeof(*out));
	if (!text)
		return 0;
	if (*rest++ == 'p' && number_take(&rest, '=', 1, 99.999, &percent) && rest &&
	    kv_duration_parse(rest, &out->limit_ns) == 0 && out->limit_ns > 0) {
		out->quantile = percent / 100;
		return 0;
	}
	return kv_fail(err, -KV_EINVAL, "--slo %s is not a percentile with its limit, as in p99=2ms or p99.9=500us",
		       text);
}
