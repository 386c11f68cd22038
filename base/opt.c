/* SPDX-License-Identifier: Apache-2.0 */
/* opt.c -- the values of option tables; opt_argp.c has the command line.
 *
 * Invariant: kv_opt_set writes one field, or nothing and explains itself. Defaults are text and parsed like the user's.
 * `max` 0 with a `min` above 0 is no upper bound. */
#include "base/opt.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/nearest.h"
#include "base/opt_table.h"
#include "base/units.h"

enum { TEXT_CAP = 256 };

static void *field_of(const struct kv_opt *row, void *into)
{
	return (char *)into + row->offset;
}

static const void *field_in(const struct kv_opt *row, const void *from)
{
	return (const char *)from + row->offset;
}

struct unit {
	uint64_t factor;
	const char *name;
};

static void exact_format(uint64_t v, const struct unit *units, char *buf, size_t cap)
{
	while (v % units->factor != 0 || (v == 0 && units->factor != 1))
		units++;
	snprintf(buf, cap, "%llu%s", (unsigned long long)(v / units->factor), units->name);
}

static void number_format(enum kv_opt_type type, uint64_t v, char *buf, size_t cap)
{
	static const struct unit sizes[] = {{1ull << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, ""}};
	static const struct unit times[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
	static const struct unit plain[] = {{1, ""}};
	const struct unit *units = plain;
	if (type == KV_OPT_SIZE)
		units = sizes;
	else if (type == KV_OPT_DURATION)
		units = times;
	exact_format(v, units, buf, cap);
}

/* A counted unit in nanoseconds or bytes, and its name. */
static const struct {
	uint64_t factor;
	const char *suffix, *plural;
} counted[] = {
	[KV_OPT_US] = {1000, "us", "microseconds"},
	[KV_OPT_MS] = {1000000, "ms", "milliseconds"},
	[KV_OPT_SECONDS] = {1000000000, "s", "seconds"},
	[KV_OPT_MIB] = {1 << 20, "MiB", "MiB"},
};

static void bound_format(const struct kv_opt *row, uint64_t v, char *buf, size_t cap)
{
	number_format(row->type, v, buf, cap);
	if (row->unit != KV_OPT_PLAIN)
		snprintf(buf + strlen(buf), cap - strlen(buf), "%s", counted[row->unit].suffix);
}

static int range_fail(const struct kv_opt *row, const char *value, uint64_t max, struct kv_error *err)
{
	char low[32], high[32];
	bound_format(row, row->min, low, sizeof(low));
	bound_format(row, max, high, sizeof(high));
	if (max == UINT64_MAX)
		return kv_fail(err, -KV_EINVAL, "--%s: %.100s is too small; it must be at least %s", row->name, value,
			       low);
	return kv_fail(err, -KV_EINVAL, "--%s: %.100s is out of range; allowed is %s to %s", row->name, value, low,
		       high);
}

static uint64_t upper_of(const struct kv_opt *row)
{
	uint64_t widest = row->type == KV_OPT_U32 ? UINT32_MAX : UINT64_MAX;
	return row->max ? KV_MIN(row->max, widest) : widest;
}

/* A bare duration is in seconds, a bare size in bytes. Where a row counts another unit, "1.5" must not change its unit.
 */
static bool is_bare(const char *value)
{
	return value[strspn(value, "0123456789. ")] == '\0';
}

/* 0, or -KV_EINVAL with the sentence. */
static int value_parse(const struct kv_opt *row, const char *value, uint64_t *out, struct kv_error *err)
{
	bool size = row->type == KV_OPT_SIZE || row->unit == KV_OPT_MIB, plain = row->unit == KV_OPT_PLAIN;
	bool number = row->type == KV_OPT_U32 || row->type == KV_OPT_U64;
	const char *kind = "a duration, such as 90s, 1m, 500ms or 10us";
	uint64_t v;
	if (number && kv_u64_parse(value, out) == 0)
		return 0;
	if (number && plain)
		kind = "a whole number, such as 32";
	else if (size)
		kind = "a size, such as 4096, 64KB or 1.5MiB";
	if (number && plain && *value && value[strspn(value, "0123456789")] == '\0')
		return kv_fail(err, -KV_EINVAL, "--%s: %.100s is too large; at most %llu", row->name, value,
			       (unsigned long long)upper_of(row));
	if (number && !plain && *value && is_bare(value))
		return kv_fail(err, -KV_EINVAL, "--%s: '%.100s' has no unit, and is not a whole number of %s",
			       row->name, value, counted[row->unit].plural);
	if ((number && plain) || (size ? kv_size_parse(value, &v) : kv_duration_parse(value, &v)) != 0)
		return kv_fail(err, -KV_EINVAL, "--%s: '%.100s' is not %s", row->name, value, kind);
	if (number && v % counted[row->unit].factor != 0)
		return kv_fail(err, -KV_EINVAL, "--%s: '%.100s' is not a whole number of %s", row->name, value,
			       counted[row->unit].plural);
	*out = number ? v / counted[row->unit].factor : v;
	return 0;
}

static int set_number(const struct kv_opt *row, const char *value, void *field, struct kv_error *err)
{
	uint64_t v, max = upper_of(row);
	int rc = value_parse(row, value, &v, err);
	if (rc != 0)
		return rc;
	if (v < row->min || v > max)
		return range_fail(row, value, max, err);
	if (row->type == KV_OPT_U32)
		*(uint32_t *)field = (uint32_t)v;
	else
		*(uint64_t *)field = v;
	return 0;
}

static int set_double(const struct kv_opt *row, const char *value, double *field, struct kv_error *err)
{
	char *end = NULL;
	bool start = value[0] == '-' || value[0] == '.' || (value[0] >= '0' && value[0] <= '9');
	double v = start ? strtod(value, &end) : 0;
	if (!start || end == value || *end || !isfinite(v))
		return kv_fail(err, -KV_EINVAL, "--%s: '%.100s' is not a number, such as 0.5", row->name, value);
	if ((row->min || row->max) && (v < (double)row->min || (row->max && v > (double)row->max)))
		return range_fail(row, value, upper_of(row), err);
	*field = v;
	return 0;
}

static int set_flag(const struct kv_opt *row, const char *value, bool *field, struct kv_error *err)
{
	if (!value || strcmp(value, "true") == 0)
		*field = true;
	else if (strcmp(value, "false") == 0)
		*field = false;
	else
		return kv_fail(err, -KV_EINVAL, "--%s: '%.100s' is neither true nor false", row->name, value);
	return 0;
}

/* The user's first one replaces the default. */
static int set_strings(const struct kv_opt *row, const char *value, struct kv_opt_strings *field, struct kv_error *err)
{
	if (field->count == 1 && row->def && field->item[0] == row->def)
		field->count = 0;
	if (field->count >= KV_OPT_STRINGS_MAX)
		return kv_fail(err, -KV_EINVAL, "--%s is given more than %d times", row->name, KV_OPT_STRINGS_MAX);
	field->item[field->count++] = value;
	return 0;
}

static const char *before_choice(const char *const *c)
{
	return c[1] ? ", " : " or ";
}

void kv_opt_choices_format(const struct kv_opt *row, char *buf, size_t cap)
{
	size_t at = 0;
	buf[0] = '\0';
	for (const char *const *c = row->choices; *c && at < cap; c++)
		at += (size_t)snprintf(buf + at, cap - at, "%s%s", c == row->choices ? "" : before_choice(c), *c);
}

static int set_choice(const struct kv_opt *row, const char *value, int *field, struct kv_error *err)
{
	char allowed[TEXT_CAP];
	for (int i = 0; row->choices[i]; i++) {
		if (strcmp(row->choices[i], value) == 0) {
			*field = i;
			return 0;
		}
	}
	kv_opt_choices_format(row, allowed, sizeof(allowed));
	return kv_fail(err, -KV_EINVAL, "--%s: '%.100s' is not one of the choices: %s", row->name, value, allowed);
}

int kv_opt_row_set(const struct kv_opt *row, const char *value, void *into, struct kv_error *err)
{
	void *field = field_of(row, into);
	if (row->type == KV_OPT_FLAG)
		return set_flag(row, value, field, err);
	if (!value)
		return kv_fail(err, -KV_EINVAL, "--%s needs a value", row->name);
	switch (row->type) {
	case KV_OPT_DOUBLE:
		return set_double(row, value, field, err);
	case KV_OPT_STRINGS:
		return set_strings(row, value, field, err);
	case KV_OPT_CHOICE:
		return set_choice(row, value, field, err);
	case KV_OPT_STRING:
		*(const char **)field = value;
		return 0;
	default:
		return set_number(row, value, field, err);
	}
}

static size_t field_size(enum kv_opt_type type)
{
	static const size_t sizes[] = {
		[KV_OPT_FLAG] = sizeof(bool),           [KV_OPT_U32] = sizeof(uint32_t),
		[KV_OPT_U64] = sizeof(uint64_t),        [KV_OPT_SIZE] = sizeof(uint64_t),
		[KV_OPT_DURATION] = sizeof(uint64_t),   [KV_OPT_DOUBLE] = sizeof(double),
		[KV_OPT_STRING] = sizeof(const char *), [KV_OPT_STRINGS] = sizeof(struct kv_opt_strings),
		[KV_OPT_CHOICE] = sizeof(int),
	};
	return sizes[type];
}

void kv_opt_defaults(const struct kv_opt *table, void *into)
{
	for (const struct kv_opt *row = table; row->name; row++) {
		memset(field_of(row, into), 0, field_size(row->type));
		int rc = row->def ? kv_opt_row_set(row, row->def, into, NULL) : 0;
		assert(rc == 0);
		(void)rc;
	}
}

const struct kv_opt *kv_opt_row_find(const struct kv_opt *table, const char *name)
{
	for (const struct kv_opt *row = table; row->name; row++)
		if (strcmp(row->name, name) == 0 || (row->alias && strcmp(row->alias, name) == 0))
			return row;
	return NULL;
}

int kv_opt_set(const struct kv_opt *table, const char *name, const char *value, void *into, struct kv_error *err)
{
	const struct kv_opt *found = kv_opt_row_find(table, name);
	struct kv_nearest n = kv_nearest_begin(name, strlen(name));
	char hint[KV_NEAREST_TEXT];
	if (found)
		return kv_opt_row_set(found, value, into, err);
	for (const struct kv_opt *row = table; row->name; row++)
		kv_nearest_try(&n, row->name);
	return kv_fail(err, -KV_EINVAL, "unknown option --%.100s%s", name, kv_nearest_hint(&n, "--", hint));
}

static void double_format(double v, char *buf, size_t cap)
{
	snprintf(buf, cap, "%.15g", v);
	if (strtod(buf, NULL) != v)
		snprintf(buf, cap, "%.17g", v);
}

static void strings_format(const struct kv_opt_strings *list, char *buf, size_t cap)
{
	size_t at = 0;
	for (unsigned i = 0; i < list->count && at < cap; i++)
		at += (size_t)snprintf(buf + at, cap - at, "%s%s", i ? "," : "", list->item[i]);
}

char *kv_opt_format(const struct kv_opt *row, const void *from, char *buf, size_t cap)
{
	const void *field = field_in(row, from);
	if (cap > 0)
		buf[0] = '\0';
	switch (row->type) {
	case KV_OPT_FLAG:
		snprintf(buf, cap, "%s", *(const bool *)field ? "true" : "false");
		break;
	case KV_OPT_DOUBLE:
		double_format(*(const double *)field, buf, cap);
		break;
	case KV_OPT_STRING:
		snprintf(buf, cap, "%s", *(const char *const *)field ? *(const char *const *)field : "");
		break;
	case KV_OPT_STRINGS:
		strings_format(field, buf, cap);
		break;
	case KV_OPT_CHOICE:
		snprintf(buf, cap, "%s", row->choices[*(const int *)field]);
		break;
	case KV_OPT_U32:
		number_format(row->type, *(const uint32_t *)field, buf, cap);
		break;
	default:
		number_format(row->type, *(const uint64_t *)field, buf, cap);
	}
	return buf;
}

void kv_opt_dump(const struct kv_opt *table, const void *from, FILE *out)
{
	for (const struct kv_opt *row = table; row->name; row++) {
		char text[TEXT_CAP];
		const void *field = field_in(row, from);
		/* Texts are returned in place; the buffer is for numbers. */
		if (row->type == KV_OPT_STRING) {
			const char *s = *(const char *const *)field;
			fprintf(out, "%s = %s\n", row->name, s ? s : "");
		} else if (row->type == KV_OPT_STRINGS) {
			const struct kv_opt_strings *list = field;
			for (unsigned i = 0; i < list->count; i++)
				fprintf(out, "%s = %s\n", row->name, list->item[i]);
		} else {
			fprintf(out, "%s = %s\n", row->name, kv_opt_format(row, from, text, sizeof(text)));
		}
	}
}
