/* SPDX-License-Identifier: Apache-2.0 */
/* trace_row.h -- one line of a trace as it is written: JSON or CSV. For the trace reader and its tests alone. */
#ifndef KVRAIL_KVBENCH_LOAD_TRACE_ROW_H
#define KVRAIL_KVBENCH_LOAD_TRACE_ROW_H

#include <stdbool.h>

#include "kvbench/load/trace.h"

#define TRACE_TIME_MAX_MS 1e15

struct trace_at {
	const char *name;
	uint64_t line;
};

struct trace_row { /* {0} before the first line */
	enum trace_format format;
	bool has_time, has_delay;
	double time_ms, delay_ms;
	uint64_t session; /* a hash of its name; 0: none */
	uint64_t input_length, output_length;
	uint64_t *ids;
	unsigned num_ids, cap;
};

/* trace_row_json -- a line that holds one JSON object. Returns 0, or -KV_EINVAL, -KV_ETOOBIG, -KV_ENOMEM with a
 * sentence that names the line. */
int trace_row_json(struct trace_at at, const char *text, size_t len, struct trace_row *row, struct kv_error *err);

struct trace_columns {
	unsigned time; /* from 0 */
};

/* trace_columns_find -- of the line with the names. trace_row_csv -- of a later line. Returns 0, or -KV_EINVAL. */
int trace_columns_find(struct trace_at at, const char *text, size_t len, struct trace_columns *out,
		       struct kv_error *err);
int trace_row_csv(struct trace_at at, const struct trace_columns *columns, const char *text, size_t len,
		  struct trace_row *row, struct kv_error *err);

void trace_row_free(struct trace_row *row);

/* trace_time_parse -- a date such as "2023-11-16 18:15:46.6805900" or "2024-05-10T00:00:00.009930+00:00" (UTC without a
 * zone), in milliseconds since 1970. False: it is none. */
bool trace_time_parse(const char *text, double *out_ms);

/* trace_bad -- -KV_EINVAL with "NAME line N: WHY: correct or remove the line (...)". */
int trace_bad(struct trace_at at, struct kv_error *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
