/* SPDX-License-Identifier: Apache-2.0 */
/* recorded.c -- arrivals of a file. A row without a time arrives with the row before it. */
#include "kvbench/load/recorded.h"

#include <stdlib.h>

#include "kvbench/load/ids.h"
#include "kvbench/load/trace.h"

struct times {
	double *ms;
	uint64_t count, cap;
};

static int add(struct times *t, double ms)
{
	if (trace_room((void **)&t->ms, sizeof(*t->ms), t->count, 1, &t->cap) < 0)
		return -KV_ENOMEM;
	t->ms[t->count++] = ms;
	return 0;
}

static int read_times(const char *path, struct times *t, struct kv_error *err)
{
	struct trace_reader *reader;
	struct trace_request q;
	int rc = trace_open(path, &reader, err);
	if (rc < 0)
		return rc;
	while ((rc = trace_next(reader, &q, err)) > 0) {
		if (t->count == RECORDED_MAX)
			rc = kv_fail(err, -KV_ETOOBIG, "%s has more than %u requests: use a part of it", path,
				     (unsigned)RECORDED_MAX);
		else if (add(t, q.timestamp_ms) < 0)
			rc = kv_fail(err, -KV_ENOMEM, "no memory for the times of %s up to line %llu: use a part of it",
				     path, (unsigned long long)q.line);
		if (rc < 0)
			break;
	}
	trace_close(&reader);
	return rc;
}

static int by_time(const void *one, const void *two)
{
	double a = *(const double *)one, b = *(const double *)two;
	return a < b ? -1 : a > b;
}

static void take(const struct times *t, struct bench_recorded *out)
{
	double first = t->ms[0];
	for (uint64_t i = 0; i < t->count; i++)
		t->ms[i] -= first;
	*out = (struct bench_recorded){.at_ms = t->ms,
				       .count = t->count,
				       .cycle_ms = t->ms[t->count - 1] * (double)t->count / (double)(t->count - 1)};
}

int bench_recorded_load(const char *path, struct bench_recorded *out, struct kv_error *err)
{
	struct times t = {0};
	int rc = read_times(path, &t, err);
	if (rc == 0 && t.count)
		qsort(t.ms, t.count, sizeof(*t.ms), by_time);
	if (rc == 0 && (t.count < 2 || t.ms[t.count - 1] - t.ms[0] < 1e-3))
		rc = kv_fail(
			err, -KV_EINVAL,
			"--arrivals trace:%s: no two of its %llu request%s have different times: name a trace with "
			"time stamps",
			path, (unsigned long long)t.count, kv_plural(t.count));
	if (rc == 0)
		take(&t, out);
	else
		free(t.ms);
	return rc;
}

void bench_recorded_free(struct bench_recorded *r)
{
	free(r->at_ms);
	*r = (struct bench_recorded){0};
}

double bench_recorded_rate(const struct bench_recorded *r)
{
	return (double)r->count * 1e3 / r->cycle_ms;
}
