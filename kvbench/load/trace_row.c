/* SPDX-License-Identifier: Apache-2.0 */
/* trace_row.c -- what rows of JSON and of CSV share: the sentence about a bad line, and dates. */
#include "kvbench/load/trace_row.h"

#include <stdarg.h>
#include <stdlib.h>

int trace_bad(struct trace_at at, struct kv_error *err, const char *fmt, ...)
{
	char why[192];
	va_list args;
	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	return kv_fail(err, -KV_EINVAL,
		       "%s line %llu: %s: correct or remove the line (docs/guide/benchmarking.md has the formats)",
		       at.name, (unsigned long long)at.line, why);
}

void trace_row_free(struct trace_row *row)
{
	free(row->ids);
	*row = (struct trace_row){0};
}

/* ---- dates ---- */

static bool digits(const char **at, unsigned count, int *out)
{
	*out = 0;
	for (; count > 0; count--, (*at)++) {
		if (**at < '0' || **at > '9')
			return false;
		*out = *out * 10 + (**at - '0');
	}
	return true;
}

static bool sign(const char **at, const char *any)
{
	if (**at == 0 || !strchr(any, **at))
		return false;
	(*at)++;
	return true;
}

/* Days since 1970-01-01 (the Gregorian calendar repeats after 400 years of 146,097 days). */
static int64_t days_of(int year, int month, int day)
{
	int64_t y = year - (month <= 2), era = y / 400, of_era = y % 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1; /* from 1 March on */
	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool date_read(const char **at, int64_t *out_days)
{
	int year, month, day;
	if (!digits(at, 4, &year) || !sign(at, "-") || !digits(at, 2, &month) || !sign(at, "-") ||
	    !digits(at, 2, &day) || year < 1 || month < 1 || month > 12 || day < 1 || day > 31)
		return false;
	*out_days = days_of(year, month, day);
	return true;
}

/* "18:15:46" and a fraction of any length. */
static bool clock_read(const char **at, double *out_seconds)
{
	int hour, minute, second;
	double part = 1;
	if (!digits(at, 2, &hour) || !sign(at, ":") || !digits(at, 2, &minute) || !sign(at, ":") ||
	    !digits(at, 2, &second) || hour > 23 || minute > 59 || second > 60)
		return false;
	*out_seconds = hour * 3600 + minute * 60 + second;
	if (!sign(at, "."))
		return true;
	if (**at < '0' || **at > '9')
		return false;
	for (; **at >= '0' && **at <= '9'; (*at)++)
		*out_seconds += (part /= 10) * (**at - '0');
	return true;
}

/* "Z", "+02:00", "-0130" or nothing. */
static bool zone_read(const char **at, double *out_seconds)
{
	int hour = 0, minute = 0, west = **at == '-' ? -1 : 1;
	*out_seconds = 0;
	if (sign(at, "Zz") || **at == 0)
		return true;
	if (!sign(at, "+-") || !digits(at, 2, &hour))
		return false;
	if (sign(at, ":") || **at)
		if (!digits(at, 2, &minute))
			return false;
	*out_seconds = west * (hour * 3600 + minute * 60);
	return hour < 24 && minute < 60;
}

bool trace_time_parse(const char *text, double *out_ms)
{
	double clock = 0, zone = 0;
	int64_t days = 0;
	if (!date_read(&text, &days))
		return false;
	if (*text && (!sign(&text, "T ") || !clock_read(&text, &clock) || !zone_read(&text, &zone) || *text))
		return false;
	*out_ms = ((double)days * 86400 + clock - zone) * 1000;
	return true;
}
