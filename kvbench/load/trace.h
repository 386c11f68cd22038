/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h -- a reader of request traces, plain or gzip.
 *
 * JSON: one object per line, {timestamp, input_length, output_length, hash_ids}. Mooncake's timestamps are in
 * milliseconds, a block has 512 tokens. A line with a "chat_id" is of Alibaba's Bailian traces
 * (github.com/alibaba-edu/qwen-bailian-usagetraces-anon): seconds, and 16 tokens. A later turn of a "session_id" may
 * have a "delay" in place of the time: milliseconds since the turn before it. CSV has times alone (Azure, BurstGPT). */
#ifndef KVRAIL_KVBENCH_LOAD_TRACE_H
#define KVRAIL_KVBENCH_LOAD_TRACE_H

#include <stdbool.h>

#include "base/base.h"

enum { TRACE_IDS_MAX = 1 << 20 }; /* hash_ids of a request; a line may have 32 MiB */

enum trace_format { TRACE_MOONCAKE, TRACE_BAILIAN, TRACE_CSV };

struct trace_request {
	enum trace_format format;
	uint64_t line;       /* in the file, from 1 */
	double timestamp_ms; /* since any moment */
	bool timed;          /* the line has a time stamp or a delay; else its time is another line's */
	uint64_t input_length, output_length;
	const uint64_t *ids; /* the reader's, until its next call */
	unsigned num_ids;
};

struct trace_reader;

/* trace_open -- requests come in the order of the file. If it has delays, they come by their time, for which the whole
 * trace is kept in memory (8 bytes per hash_id) and the file must be a regular one. Errors: -errno with a sentence
 * naming the file, -KV_ENOMEM, and those of trace_next. */
int trace_open(const char *path, struct trace_reader **out, struct kv_error *err);

/* trace_open_stream -- the same over a descriptor, in the order of the lines. The reader takes it, and closes it also
 * after an error; name is for messages and must outlive the reader. */
int trace_open_stream(int fd, const char *name, struct trace_reader **out, struct kv_error *err);
void trace_close(struct trace_reader **reader);

/* trace_next -- 1 and *out, 0 at the end, or a negative code with a sentence that names file and line: -KV_EINVAL (not
 * such a row), -KV_ETOOBIG (over one of the bounds), -EIO, -KV_ENOMEM. Empty lines are skipped. After an error the
 * reader gives it again. */
int trace_next(struct trace_reader *reader, struct trace_request *out, struct kv_error *err);

/* How many tokens a block has: the format's number, unless the lengths and numbers of blocks contradict it. */
struct trace_tokens { /* {0}: of no request */
	unsigned format;
	bool mixed;
	uint64_t least, most; /* that the requests allow; 0: there was none to tell */
};

/* trace_tokens_add -- a request. trace_tokens_of -- of those so far; 0: not known. */
void trace_tokens_add(struct trace_tokens *tokens, const struct trace_request *request);
unsigned trace_tokens_of(const struct trace_tokens *tokens);

struct trace_totals {
	uint64_t requests, blocks; /* blocks: hash_ids of all requests, repeated ones included */
	uint64_t distinct;         /* different hash_ids */
	uint64_t prefix_hits;      /* leading hash_ids of a request that an earlier request had, summed */
	unsigned ids_max;          /* of one request */
	unsigned block_tokens;     /* trace_tokens_of */
	double first_ms, last_ms;  /* timestamps of the first request, and the last time of all */
	uint64_t back;             /* requests with an earlier time than one before them */
	uint64_t untimed;          /* requests without a time of their own */
};

/* trace_scan -- read the whole file, which checks each line before anything is measured. 8 to 32 bytes of memory per
 * distinct block. Returns 0, or a code with *err as trace_next's; -KV_EINVAL for a trace without a block. */
int trace_scan(const char *path, struct trace_totals *out, struct kv_error *err);

#endif
