/* SPDX-License-Identifier: Apache-2.0 */
/* trace_row.c -- what rows of JSON and of CSV share: the sentence about a bad line, and dates. */
#include "kvbench/load/trace_row.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* A fraction of any length; none is 0. */
static bool part_read(const char **at, double *out)
{
	size_t digits = **at == '.' ? strspn(*at + 1, "0123456789") : 0;
	char *end;
	*out = 0;
	if (**at != '.')
		return true;
	*out = strtod(*at, &end);
	*at += 1 + digits;
	return digits > 0 && end == *at;
}

bool trace_time_parse(const char *text, double *out_ms)
{
	struct tm tm = {0};
	const char *at = strptime(text, "%Y-%m-%d", &tm);
	double part = 0;
	if (!at || at != text + strlen("2024-05-10"))
		return false;
	if (*at == ' ' || *at == 'T') {
		const char *clock = at + 1;
		at = strptime(clock, "%H:%M:%S", &tm);
		if (!at || at != clock + strlen("18:15:46") || !part_read(&at, &part))
			return false;
		at += *at == 'z';
		at = *at ? strptime(at, "%z", &tm) : at;
	}
	if (!at || *at)
		return false;
	part -= (double)tm.tm_gmtoff; /* timegm takes it for 0 */
	*out_ms = ((double)timegm(&tm) + part) * 1000;
	return true;
}
