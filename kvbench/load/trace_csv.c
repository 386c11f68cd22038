/* SPDX-License-Identifier: Apache-2.0 */
/* trace_csv.c -- traces of arrivals in CSV: Azure's (TIMESTAMP is a date), BurstGPT's and Vidur's (seconds). They have
 * no blocks; only the time is read. A field may stand in quotes. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "kvbench/load/trace_row.h"

enum { FIELD_MAX = 64 };

static const char *const time_names[] = {"timestamp", "arrived_at", "arrival_time", NULL};

static bool field_next(const char **at, const char *end, char field[FIELD_MAX])
{
	const char *p = *at;
	unsigned n = 0;
	bool quoted = false;
	if (p > end)
		return false;
	for (; p < end && (*p != ',' || quoted); p++) {
		if (*p == '"')
			quoted = !quoted;
		else if (n < FIELD_MAX - 1 && (n > 0 || !isspace((unsigned char)*p)))
			field[n++] = *p;
	}
	while (n > 0 && isspace((unsigned char)field[n - 1]))
		n--;
	field[n] = 0;
	*at = p + 1; /* behind the comma, or behind the end and one more */
	return true;
}

int trace_columns_find(struct trace_at at, const char *text, size_t len, struct trace_columns *out,
		       struct kv_error *err)
{
	const char *end = text + len;
	char field[FIELD_MAX];
	for (unsigned column = 0; field_next(&text, end, field); column++)
		for (unsigned i = 0; time_names[i]; i++)
			if (strcasecmp(field, time_names[i]) == 0) {
				out->time = column;
				return 0;
			}
	return trace_bad(at, err, "neither a JSON object nor the names of CSV columns, one of them timestamp");
}

int trace_row_csv(struct trace_at at, const struct trace_columns *columns, const char *text, size_t len,
		  struct trace_row *row, struct kv_error *err)
{
	const char *end = text + len;
	char field[FIELD_MAX] = "", *rest;
	row->format = TRACE_CSV;
	row->has_delay = false;
	row->session = row->input_length = row->output_length = 0;
	row->num_ids = 0;
	for (unsigned column = 0; column <= columns->time; column++)
		if (!field_next(&text, end, field))
			return trace_bad(at, err, "there are fewer columns than in the line with their names");
	row->has_time = true;
	if (trace_time_parse(field, &row->time_ms))
		return 0;
	row->time_ms = strtod(field, &rest) * 1000;
	if (rest == field || *rest || !isfinite(row->time_ms))
		return trace_bad(at, err, "the time '%s' is neither a number of seconds nor a date", field);
	if (fabs(row->time_ms) > TRACE_TIME_MAX_MS)
		return trace_bad(at, err, "the time %s s is more than 30,000 years from the start", field);
	return 0;
}
