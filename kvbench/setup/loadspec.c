/* SPDX-License-Identifier: Apache-2.0 */
/* loadspec.c -- the small languages of the options that describe a load.
 *
 * A log-normal distribution becomes a list as well: BENCH_SIZE_STEPS sizes, each the mean of its part of the
 * distribution, so that the mean of all is the distribution's. Parts are a 32nd each; the last one, where most bytes of
 * a wide distribution are, is halved down to a 256th. */
#include "kvbench/setup/loadspec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvbench/setup/list.h"

enum { WORD_MAX = 64 };

#define PERCENT_MAX 99.9999999 /* a trial has ten samples beyond: 10,000 million operations */

static bool number_take(const char **text, char end, double low, double high, double *out)
{
	char word[WORD_MAX], *rest;
	if (!bench_word(text, end, word, sizeof(word)) || !word[0] || strspn(word, "0123456789.") != strlen(word))
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
	if (bench_word(&rest, ':', word, sizeof(word)))
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

static double normal_below(double x)
{
	return erfc(-x / M_SQRT2) / 2;
}

static double normal_quantile(double part)
{
	double low = -10, high = 10;
	for (unsigned i = 0; i < 60; i++) {
		double x = (low + high) / 2;
		if (normal_below(x) < part)
			low = x;
		else
			high = x;
	}
	return (low + high) / 2;
}

/* The mean of a log-normal distribution of median 1 between two parts of it, of 0 to 1. */
static double lognormal_mean(double sigma, double from, double to)
{
	double below = from > 0 ? normal_below(sigma - normal_quantile(from)) : 1;
	double above = to < 1 ? normal_below(sigma - normal_quantile(to)) : 0;
	return exp(sigma * sigma / 2) * (below - above) / (to - from);
}

static bool lognormal_parse(const char *text, struct bench_sizes *out)
{
	char word[WORD_MAX];
	uint64_t median, at = 0;
	double sigma, size;
	if (!bench_word(&text, ':', word, sizeof(word)) || kv_size_parse(word, &median) < 0 || median == 0 ||
	    !number_take(&text, ':', 0.01, 5, &sigma) || text)
		return false;
	out->total = 1 << 8;
	while (at < out->total) {
		/* 31 of 8, then 4, 2, 1 and 1. */
		uint64_t left = out->total - at, weight = left > 8 ? 8 : KV_MAX(left / 2, (uint64_t)1);
		double from = (double)at / (double)out->total, to = (double)(at + weight) / (double)out->total;
		size = (double)median * lognormal_mean(sigma, from, to);
		if (size > (double)KV_VALUE_MAX)
			return false;
		out->row[out->count].size = KV_MAX((uint64_t)(size + 0.5), (uint64_t)1);
		out->row[out->count++].weight = weight;
		at += weight;
	}
	return true;
}

static bool list_parse(const char *text, struct bench_sizes *out)
{
	char item[WORD_MAX], word[WORD_MAX];
	while (text) {
		const char *at = item;
		uint64_t size, weight = 1;
		if (out->count == BENCH_SIZES_MAX || !bench_word(&text, ',', item, sizeof(item)) ||
		    !bench_word(&at, ':', word, sizeof(word)) || kv_size_parse(word, &size) < 0 || size == 0 ||
		    size > KV_VALUE_MAX)
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
		good = bench_word(&rest, ':', word, sizeof(word)) && kv_u64_parse(word, &n) == 0 && n <= 1000;
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
	if (*rest++ == 'p' && number_take(&rest, '=', 1e-7, PERCENT_MAX, &percent) && rest &&
	    kv_duration_parse(rest, &out->limit_ns) == 0 && out->limit_ns > 0) {
		out->quantile = percent / 100;
		return 0;
	}
	return kv_fail(err, -KV_EINVAL,
		       "--slo %s is not a percentile above 0 and up to "
		       "%.10g with its limit, as in p99=2ms or p99.99=500us",
		       text, PERCENT_MAX);
}

int bench_arrivals_parse(const char *text, enum bench_arrivals_kind *out, const char **out_file, struct kv_error *err)
{
	static const char trace[] = "trace:";
	*out = BENCH_UNIFORM;
	*out_file = NULL;
	if (strcmp(text, "uniform") == 0)
		return 0;
	if (strcmp(text, "poisson") == 0) {
		*out = BENCH_POISSON;
		return 0;
	}
	if (strncmp(text, trace, strlen(trace)) != 0 || !text[strlen(trace)])
		return kv_fail(err, -KV_EINVAL, "--arrivals %.200s is neither uniform, nor poisson, nor trace:FILE",
			       text);
	*out = BENCH_RECORDED;
	*out_file = text + strlen(trace);
	return 0;
}
