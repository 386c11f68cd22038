/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h -- a streaming reader of request traces: one JSON object per line, {timestamp, input_length, output_length,
 * hash_ids}. Mooncake's timestamps are in milliseconds, a block has 512 tokens. A line with a "chat_id" is of Alibaba's
 * Bailian traces (github.com/alibaba-edu/qwen-bailian-usagetraces-anon): seconds, and 16 tokens. */
#ifndef KVRAIL_KVBENCH_LOAD_TRACE_H
#define KVRAIL_KVBENCH_LOAD_TRACE_H

#include <stdio.h>

#include "base/base.h"

enum {
	TRACE_LINE_MAX = 4 << 20, /* bytes of a line */
	TRACE_IDS_MAX = 65536     /* hash_ids of a request */
};

enum trace_format { TRACE_MOONCAKE, TRACE_BAILIAN };

struct trace_request {
	enum trace_format format;
	uint64_t line;                        /* in the file, from 1 */
	double timestamp_ms;                  /* since the trace's start */
	uint64_t input_length, output_length; /* tokens; 0 when the line has none */
	const uint64_t *ids;                  /* the reader's, until its next call */
	unsigned num_ids;
};

struct trace_reader;

/* trace_block_tokens -- tokens of a block, as the format has them. */
unsigned trace_block_tokens(enum trace_format format);

/* trace_open -- errors: -errno with a sentence naming the file, -KV_ENOMEM. */
int trace_open(const char *path, struct trace_reader **out, struct kv_error *err);

/* trace_open_stream -- the same over a stream, which the reader takes, and closes also after an error; name is for
 * messages and must outlive the reader. */
int trace_open_stream(FILE *in, const char *name, struct trace_reader **out, struct kv_error *err);
void trace_close(struct trace_reader **reader);

/* trace_next -- 1 and *out, 0 at the end, or a negative code with a sentence that names file and line: -KV_EINVAL (not
 * such an object), -KV_ETOOBIG (over one of the bounds above), -EIO. Empty lines are skipped. After an error the reader
 * gives it again. */
int trace_next(struct trace_reader *reader, struct trace_request *out, struct kv_error *err);

/* Totals of a whole trace, with memory for everything. */
struct trace_totals {
	uint64_t requests, blocks; /* blocks: hash_ids of all requests, repeated ones included */
	uint64_t distinct;         /* different hash_ids */
	uint64_t prefix_hits;      /* leading hash_ids of a request that an earlier request had, summed */
	unsigned ids_max;          /* of one request */
	unsigned block_tokens;     /* of the format; 0: lines of both */
	double first_ms, last_ms;  /* timestamps of the first request, and the last time of all */
	uint64_t back;             /* requests with an earlier time than one before them */
};

/* trace_scan -- read the whole file, which checks each line before anything is measured. 8 to 32 bytes of memory per
 * distinct block. Returns 0, or a code with *err as trace_next's; -KV_EINVAL for a trace without a request. */
int trace_scan(const char *path, struct trace_totals *out, struct kv_error *err);

#endif
