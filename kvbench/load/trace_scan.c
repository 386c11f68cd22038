/* SPDX-License-Identifier: Apache-2.0 */
/* trace_scan.c -- totals of a whole trace, and the length of its blocks in tokens.
 *
 * A block of B tokens fits a request of n blocks and L tokens if n is L / B, rounded up: B is at least L / n and below
 * L / (n - 1). If all requests agree on a power of two that is not the format's own number, theirs is taken. */
#include <stdlib.h>

#include "kvbench/load/ids.h"
#include "kvbench/load/trace.h"

static unsigned tokens_of_format(enum trace_format format)
{
	return format == TRACE_BAILIAN ? 16 : 512;
}

void trace_tokens_add(struct trace_tokens *t, const struct trace_request *q)
{
	unsigned format = tokens_of_format(q->format);
	uint64_t n = q->num_ids, len = q->input_length;
	if (q->format == TRACE_CSV)
		return;
	t->mixed |= t->format && t->format != format;
	t->format = format;
	if (n < 2 || len < n)
		return;
	t->least = KV_MAX(t->least, (len + n - 1) / n);
	t->most = KV_MIN(t->most ? t->most : UINT64_MAX, (len - 1) / (n - 1));
}

unsigned trace_tokens_of(const struct trace_tokens *t)
{
	uint64_t power = 1;
	if (t->mixed)
		return 0;
	if (t->most == 0 || t->least > t->most || (t->least <= t->format && t->format <= t->most))
		return t->format;
	while (power < t->least)
		power *= 2;
	return power <= KV_MIN(t->most, (uint64_t)UINT32_MAX) ? (unsigned)power : t->format;
}

static int scan_request(const struct trace_request *q, struct trace_ids *seen, struct trace_totals *t)
{
	unsigned prefix = 0;
	uint32_t number;
	int rc = 0;
	while (prefix < q->num_ids && trace_ids_have(seen, q->ids[prefix]))
		prefix++;
	for (unsigned i = 0; i < q->num_ids && rc == 0; i++)
		rc = trace_ids_number(seen, q->ids[i], &number);
	if (t->requests++ == 0)
		t->first_ms = t->last_ms = q->timestamp_ms;
	t->back += q->timestamp_ms < t->last_ms;
	t->untimed += !q->timed;
	t->last_ms = KV_MAX(q->timestamp_ms, t->last_ms);
	t->blocks += q->num_ids;
	t->prefix_hits += prefix;
	t->ids_max = KV_MAX(t->ids_max, q->num_ids);
	return rc;
}

int trace_scan(const char *path, struct trace_totals *out, struct kv_error *err)
{
	struct trace_totals totals = {0};
	struct trace_tokens tokens = {0};
	struct trace_reader *reader;
	struct trace_request request;
	struct trace_ids seen = {0};
	int rc = trace_open(path, &reader, err);
	if (rc < 0)
		return rc;
	while ((rc = trace_next(reader, &request, err)) > 0) {
		trace_tokens_add(&tokens, &request);
		if (scan_request(&request, &seen, &totals) < 0) {
			rc = kv_fail(err, -KV_ENOMEM, "no memory for the %llu distinct blocks of %s up to line %llu",
				     (unsigned long long)seen.count, path, (unsigned long long)request.line);
			break;
		}
	}
	if (rc == 0 && totals.blocks == 0)
		rc = kv_fail(err, -KV_EINVAL,
			     "trace %s has no request with a block (\"hash_ids\"): name another file, or use its times "
			     "with --arrivals trace:FILE",
			     path);
	totals.distinct = seen.count;
	totals.block_tokens = trace_tokens_of(&tokens);
	if (rc == 0)
		*out = totals;
	trace_ids_free(&seen);
	trace_close(&reader);
	return rc;
}
