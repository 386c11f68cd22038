/* SPDX-License-Identifier: Apache-2.0 */
/* units.c -- sizes and durations as text.
 *
 * Parsing is exact: whole digits and at most 18 fraction digits, in integers, scaled in 128 bits, rounded to nearest.
 * The text is a number and a known unit, with at most one space between; "-1" and " 1" are refused. */
#include "base/units.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/error.h"

enum { FRACTION_DIGITS = 18 };

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit duration_units[] = {
	{"", 1000000000u},    {"s", 1000000000u}, {"sec", 1000000000u}, {"ms", 1000000u},      {"us", 1000u},
	{"\xc2\xb5s", 1000u}, {"ns", 1u},         {"m", 60000000000u},  {"min", 60000000000u}, {"h", 3600000000000u},
};

/* struct decimal -- whole + fraction / scale. */
struct decimal {
	uint64_t whole, fraction, scale;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool digits_parse(const char **text, uint64_t *out)
{
	const char *p = *text;
	uint64_t v = 0;
	if (!is_digit(*p))
		return false;
	for (; is_digit(*p); p++) {
		if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	}
	*text = p;
	*out = v;
	return true;
}

/* decimal_parse -- read "12" or "12.5". Fraction digits beyond the 18th do not matter. */
static bool decimal_parse(const char **text, struct decimal *out)
{
	*out = (struct decimal){.scale = 1};
	if (!digits_parse(text, &out->whole))
		return false;
	if (**text != '.')
		return true;
	const char *p = *text + 1;
	if (!is_digit(*p))
		return false;
	for (int n = 0; is_digit(*p); p++, n++) {
		if (n >= FRACTION_DIGITS)
			continue;
		out->fraction = out->fraction * 10 + (uint64_t)(*p - '0');
		out->scale *= 10;
	}
	*text = p;
	return true;
}

static bool decimal_scale(const struct decimal *d, uint64_t factor, uint64_t *out)
{
	unsigned __int128 v = (unsigned __int128)d->whole * factor;
	v += ((unsigned __int128)d->fraction * factor + d->scale / 2) / d->scale;
	if (v > UINT64_MAX)
		return false;
	*out = (uint64_t)v;
	return true;
}

static const char *skip_one_space(const char *p)
{
	return *p == ' ' && p[1] ? p + 1 : p;
}

/* size_unit -- the shift of "", "B", "K", "KB", "KiB", "M", ...; else -1. */
static int size_unit(const char *unit)
{
	static const char letters[] = "KMGTPE";
	if (*unit == '\0' || strcasecmp(unit, "B") == 0)
		return 0;
	char upper = *unit >= 'a' && *unit <= 'z' ? (char)(*unit - 'a' + 'A') : *unit;
	const char *at = strchr(letters, upper);
	if (!at || (unit[1] && strcasecmp(unit + 1, "B") != 0 && strcasecmp(unit + 1, "iB") != 0))
		return -1;
	return 10 * (int)(at - letters + 1);
}

int kv_size_parse(const char *text, uint64_t *out_bytes)
{
	struct decimal d;
	if (!text || !decimal_parse(&text, &d))
		return -KV_EINVAL;
	int shift = size_unit(skip_one_space(text));
	if (shift < 0 || (shift == 0 && d.scale > 1)) /* no half bytes */
		return -KV_EINVAL;
	return decimal_scale(&d, (uint64_t)1 << shift, out_bytes) ? 0 : -KV_EINVAL;
}

int kv_duration_parse(const char *text, uint64_t *out_ns)
{
	struct decimal d;
	if (!text || !decimal_parse(&text, &d))
		return -KV_EINVAL;
	const char *unit = skip_one_space(text);
	for (size_t i = 0; i < KV_COUNT(duration_units); i++) {
		if (strcmp(unit, duration_units[i].name) == 0)
			return decimal_scale(&d, duration_units[i].factor, out_ns) ? 0 : -KV_EINVAL;
	}
	return -KV_EINVAL;
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int kv_u64_parse(const char *text, uint64_t *out)
{
	uint64_t v = 0;
	if (!text)
		return -KV_EINVAL;
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		text += 2;
		const char *start = text;
		for (; hex_digit(*text) >= 0; text++) {
			if (v >> 60)
				return -KV_EINVAL;
			v = v << 4 | (uint64_t)hex_digit(*text);
		}
		if (text == start)
			return -KV_EINVAL;
	} else if (!digits_parse(&text, &v)) {
		return -KV_EINVAL;
	}
	if (*text)
		return -KV_EINVAL;
	*out = v;
	return 0;
}

/* scaled_format -- three significant digits; whole numbers of the first unit stay whole. The unit is chosen after
 * rounding: never "1000 us". */
static char *scaled_format(double v, double step, const char *const *units, bool trim, char *buf, size_t cap)
{
	int level = 0;
	for (; units[level + 1] && v >= step - 0.5; level++)
		v /= step;
	int decimals = level > 0 && v < 99.95;
	if (level > 0 && v < 9.995)
		decimals = 2;
	char number[32];
	int n = snprintf(number, sizeof(number), "%.*f", decimals, v);
	while (trim && decimals > 0 && n > 0 && number[n - 1] == '0' && decimals--)
		number[--n] = '\0';
	if (trim && n > 0 && number[n - 1] == '.')
		number[--n] = '\0';
	snprintf(buf, cap, "%s %s", number, units[level]);
	return buf;
}

char *kv_size_format(uint64_t bytes, char *buf, size_t cap)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", NULL};
	return scaled_format((double)bytes, 1024, units, true, buf, cap);
}

char *kv_duration_format(uint64_t ns, char *buf, size_t cap)
{
	static const char *const units[] = {"ns", "us", "ms", "s", NULL};
	return scaled_format((double)ns, 1000, units, false, buf, cap);
}

char *kv_rate_format(double bytes_per_s, char *buf, size_t cap)
{
	static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", NULL};
	if (!(bytes_per_s >= 0 && bytes_per_s < 1e21)) {
		snprintf(buf, cap, "n/a"); /* a rate over no time */
		return buf;
	}
	return scaled_format(bytes_per_s, 1000, units, false, buf, cap);
}

char *kv_count_format(uint64_t n, char *buf, size_t cap)
{
	char plain[24];
	int len = snprintf(plain, sizeof(plain), "%llu", (unsigned long long)n);
	size_t at = 0;
	for (int i = 0; i < len && at + 2 < cap; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = plain[i];
	}
	buf[at] = '\0';
	return buf;
}

char *kv_count_of(uint64_t n, const char *noun, char *buf, size_t cap)
{
	char count[28];
	snprintf(buf, cap, "%s %s%s", kv_count_format(n, count, sizeof(count)), noun, kv_plural(n));
	return buf;
}

const char *kv_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

uint64_t kv_version_number(const char *text)
{
	unsigned major, minor, patch;
	char end;
	if (sscanf(text, "%4u.%3u.%3u%c", &major, &minor, &patch, &end) != 3)
		return 0;
	return (major * 1000ull + minor) * 1000 + patch;
}

char *kv_version_format(uint64_t number, char *buf, size_t cap)
{
	snprintf(buf, cap, "%" PRIu64 ".%" PRIu64 ".%" PRIu64, number / 1000000, number / 1000 % 1000, number % 1000);
	return buf;
}
