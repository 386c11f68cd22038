/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c -- a trace in memory: its blocks get small numbers, so that a simulation looks nothing up by hash. */
#include <stdlib.h>

#include "kvbench/hits/hits.h"
#include "kvbench/load/ids.h"
#include "kvbench/load/trace.h"
#include "kvbench/setup/signals.h"

struct trace_reading {
	struct hits_trace t;
	struct trace_ids ids;
	struct trace_tokens tokens;
	uint64_t refs_cap, requests_cap;
};

static int take(struct trace_reading *r, const struct trace_request *q)
{
	struct hits_trace *t = &r->t;
	int rc = trace_room((void **)&t->len, sizeof(*t->len), t->requests, 1, &r->requests_cap);
	if (rc < 0)
		return rc;
	trace_tokens_add(&r->tokens, q);
	t->len[t->requests++] = q->num_ids;
	for (unsigned i = 0; i < q->num_ids && rc == 0; i++) {
		rc = trace_room((void **)&t->block, sizeof(*t->block), t->refs, 1, &r->refs_cap);
		if (rc == 0)
			rc = trace_ids_number(&r->ids, q->ids[i], &t->block[t->refs]);
		t->refs++;
	}
	return rc;
}

int hits_trace_read(const char *path, struct hits_trace *out, struct kv_error *err)
{
	struct trace_reading r = {0};
	struct trace_reader *reader;
	struct trace_request q;
	int rc = trace_open(path, &reader, err);
	if (rc < 0)
		return rc;
	while ((rc = trace_next(reader, &q, err)) > 0) {
		/* Belady's heap and the numbers are of 32 bits. */
		if (bench_interrupted())
			rc = kv_fail(err, -KV_ECANCELED, "interrupted by signal %d while %s was read",
				     bench_interrupted(), path);
		else if (r.t.refs + q.num_ids >= UINT32_MAX)
			rc = kv_fail(err, -KV_ETOOBIG, "%s has more than 4 billion blocks: use a part of it", path);
		else if (take(&r, &q) < 0)
			rc = kv_fail(err, -KV_ENOMEM,
				     "no memory for the blocks of %s up to line %llu: use a part of it", path,
				     (unsigned long long)q.line);
		if (rc < 0)
			break;
	}
	if (rc == 0 && r.t.refs == 0)
		rc = kv_fail(err, -KV_EINVAL, "trace %s has no request with a block (\"hash_ids\"): name another file",
			     path);
	r.t.distinct = r.ids.count;
	r.t.block_tokens = trace_tokens_of(&r.tokens);
	trace_ids_free(&r.ids);
	trace_close(&reader);
	if (rc < 0)
		hits_trace_free(&r.t);
	else
		*out = r.t;
	return rc;
}

void hits_trace_free(struct hits_trace *t)
{
	free(t->block);
	free(t->len);
	*t = (struct hits_trace){0};
}
