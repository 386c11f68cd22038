/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c -- the trace reader: lines by a bounded buffer, each parsed by jansson.
 *
 * A line is looked at alone, so that memory follows the longest line and not the file, and so that an error names its
 * line. getline is not used: it would take as much memory as a file without a newline asks for. */
#include "kvbench/load/trace.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>

#include "kvbench/load/ids.h"

#define TIMESTAMP_MAX_MS 1e15
#define LFS_POINTER      "version https://git-lfs" /* a file of Git LFS without its content begins so */

struct trace_reader {
	FILE *in;
	const char *name;
	uint64_t line;
	int failed; /* the code of the error that ended reading */
	struct kv_error why;
	char *text;      /* TRACE_LINE_MAX + 1 bytes */
	size_t have, at; /* filled, and consumed, bytes of text */
	bool eof;
	uint64_t *ids; /* TRACE_IDS_MAX */
};

int trace_open_stream(FILE *in, const char *name, struct trace_reader **out, struct kv_error *err)
{
	struct trace_reader *r = calloc(1, sizeof(*r));
	if (r) {
		r->in = in;
		r->name = name;
		r->text = malloc(TRACE_LINE_MAX + 1);
		r->ids = malloc(TRACE_IDS_MAX * sizeof(*r->ids));
	}
	if (r && r->text && r->ids) {
		*out = r;
		return 0;
	}
	if (r)
		trace_close(&r);
	else
		fclose(in);
	return kv_fail(err, -KV_ENOMEM, "no memory to read trace %s", name);
}

int trace_open(const char *path, struct trace_reader **out, struct kv_error *err)
{
	FILE *in = fopen(path, "re");
	return in ? trace_open_stream(in, path, out, err)
		  : kv_fail(err, -errno, "trace %s cannot be opened: %s", path, kv_strerror(errno));
}

void trace_close(struct trace_reader **reader)
{
	struct trace_reader *r = *reader;
	if (!r)
		return;
	fclose(r->in);
	free(r->ids);
	free(r->text);
	free(r);
	*reader = NULL;
}

/* Make room at the buffer's end and read once. Returns 0, or a code when the line is too long or the file unreadable.
 */
static int refill(struct trace_reader *r, struct kv_error *err)
{
	memmove(r->text, r->text + r->at, r->have - r->at);
	r->have -= r->at;
	r->at = 0;
	if (r->have > TRACE_LINE_MAX)
		return kv_fail(err, -KV_ETOOBIG,
			       "%s line %llu is longer than %u bytes: this is not a trace of one request per line",
			       r->name, (unsigned long long)r->line + 1, (unsigned)TRACE_LINE_MAX);
	r->have += fread(r->text + r->have, 1, TRACE_LINE_MAX + 1 - r->have, r->in);
	if (ferror(r->in))
		return kv_fail(err, -EIO, "%s cannot be read after line %llu: %s", r->name, (unsigned long long)r->line,
			       kv_strerror(errno ? errno : EIO));
	r->eof = feof(r->in);
	return 0;
}

/* The next line without its newline: 1, 0 at the end of the file, or a code. */
static int next_line(struct trace_reader *r, const char **out, size_t *out_len, struct kv_error *err)
{
	for (;;) {
		char *from = r->text + r->at, *end = memchr(from, '\n', r->have - r->at);
		int rc;

		if (!end && r->eof && r->at < r->have)
			end = r->text + r->have; /* the last line needs no newline */
		if (end) {
			*out = from;
			*out_len = (size_t)(end - from);
			r->at = KV_MIN((size_t)(end - r->text) + 1, r->have);
			r->line++;
			return 1;
		}
		if (r->eof)
			return 0;
		rc = refill(r, err);
		if (rc < 0)
			return rc;
	}
}

/* A damaged file has holes of zeros; jansson passes them over, also within a number. */
static int no_text(const struct trace_reader *r, const char *text, size_t len, struct kv_error *err)
{
	return memchr(text, 0, len) ? kv_fail(err, -KV_EINVAL,
					      "%s line %llu has a byte 0, as a damaged or binary file has: "
					      "correct or remove the line",
					      r->name, (unsigned long long)r->line)
				    : 0;
}

static bool blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return false;
	return true;
}

static int bad_line(const struct trace_reader *r, struct kv_error *err, const char *what)
{
	return kv_fail(err, -KV_EINVAL,
		       "%s line %llu: %s: correct or remove the line (docs/guide/benchmarking.md has the formats)",
		       r->name, (unsigned long long)r->line, what);
}

/* A count of tokens, which a trace may leave out. */
static int read_length(const struct trace_reader *r, const json_t *object, const char *field, uint64_t *out,
		       struct kv_error *err)
{
	const json_t *v = json_object_get(object, field);
	char what[96];
	*out = 0;
	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0) {
		snprintf(what, sizeof(what), "\"%s\" is not a whole number from 0 on", field);
		return bad_line(r, err, what);
	}
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

static int read_ids(struct trace_reader *r, const json_t *object, struct trace_request *out, struct kv_error *err)
{
	const json_t *ids = json_object_get(object, "hash_ids");
	size_t n = json_array_size(ids);
	if (!json_is_array(ids))
		return bad_line(r, err, "there is no array \"hash_ids\"");
	if (n > TRACE_IDS_MAX)
		return kv_fail(err, -KV_ETOOBIG,
			       "%s line %llu: %zu hash_ids are more than the %u that one request may have", r->name,
			       (unsigned long long)r->line, n, (unsigned)TRACE_IDS_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *id = json_array_get(ids, i);
		if (!json_is_integer(id) || json_integer_value(id) < 0)
			return bad_line(r, err, "\"hash_ids\" has an item other than a whole number from 0 on");
		r->ids[i] = (uint64_t)json_integer_value(id);
	}
	out->ids = r->ids;
	out->num_ids = (unsigned)n;
	return 0;
}

static int read_object(struct trace_reader *r, const json_t *object, struct trace_request *out, struct kv_error *err)
{
	const json_t *time = json_object_get(object, "timestamp");
	int rc;
	if (!json_is_object(object))
		return bad_line(r, err, "not a JSON object");
	if (!json_is_number(time) || !(json_number_value(time) >= 0))
		return bad_line(r, err, "\"timestamp\" is missing, or no number from 0 on");
	out->format = json_object_get(object, "chat_id") ? TRACE_BAILIAN : TRACE_MOONCAKE;
	out->timestamp_ms = json_number_value(time) * (out->format == TRACE_BAILIAN ? 1000 : 1);
	if (out->timestamp_ms > TIMESTAMP_MAX_MS)
		return bad_line(r, err, "\"timestamp\" is more than 30,000 years");
	rc = read_length(r, object, "input_length", &out->input_length, err);
	if (rc == 0)
		rc = read_length(r, object, "output_length", &out->output_length, err);
	if (rc == 0)
		rc = read_ids(r, object, out, err);
	return rc;
}

static int parse_line(struct trace_reader *r, const char *text, size_t len, struct trace_request *out,
		      struct kv_error *err)
{
	json_error_t why;
	json_t *object = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	int rc;
	if (!object && len >= strlen(LFS_POINTER) && memcmp(text, LFS_POINTER, strlen(LFS_POINTER)) == 0)
		return kv_fail(err, -KV_EINVAL,
			       "%s is a pointer of Git LFS and not the trace: run git lfs pull where it is", r->name);
	if (!object)
		return kv_fail(err, -KV_EINVAL, "%s line %llu, column %d: %s: correct or remove the line", r->name,
			       (unsigned long long)r->line, why.column, why.text);
	*out = (struct trace_request){.line = r->line};
	rc = read_object(r, object, out, err);
	json_decref(object);
	return rc;
}

int trace_next(struct trace_reader *r, struct trace_request *out, struct kv_error *err)
{
	const char *text = NULL;
	size_t len = 0;
	int rc = r->failed;
	if (rc == 0) {
		do
			rc = next_line(r, &text, &len, &r->why);
		while (rc > 0 && blank(text, len));
		if (rc > 0)
			rc = no_text(r, text, len, &r->why) < 0 || parse_line(r, text, len, out, &r->why) < 0
				     ? r->why.code
				     : 1;
	}
	if (rc < 0) {
		r->failed = rc;
		if (err)
			*err = r->why;
	}
	return rc;
}

/* ---- the whole file at once ---- */

unsigned trace_block_tokens(enum trace_format format)
{
	return format == TRACE_BAILIAN ? 16 : 512;
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
	if (t->requests > 0 && t->block_tokens != trace_block_tokens(q->format))
		t->block_tokens = 0;
	if (t->requests++ == 0) {
		t->first_ms = q->timestamp_ms;
		t->block_tokens = trace_block_tokens(q->format);
	}
	t->back += q->timestamp_ms < t->last_ms;
	t->last_ms = KV_MAX(q->timestamp_ms, t->last_ms);
	t->blocks += q->num_ids;
	t->prefix_hits += prefix;
	t->ids_max = KV_MAX(t->ids_max, q->num_ids);
	return rc;
}

int trace_scan(const char *path, struct trace_totals *out, struct kv_error *err)
{
	struct trace_totals totals = {0};
	struct trace_reader *reader;
	struct trace_request request;
	struct trace_ids seen = {0};
	int rc = trace_open(path, &reader, err);
	if (rc < 0)
		return rc;
	while ((rc = trace_next(reader, &request, err)) > 0)
		if (scan_request(&request, &seen, &totals) < 0) {
			rc = kv_fail(err, -KV_ENOMEM, "no memory for the %llu distinct blocks of %s up to line %llu",
				     (unsigned long long)seen.count, path, (unsigned long long)request.line);
			break;
		}
	if (rc == 0 && totals.blocks == 0)
		rc = kv_fail(err, -KV_EINVAL, "trace %s has no request with a block", path);
	totals.distinct = seen.count;
	if (rc == 0)
		*out = totals;
	trace_ids_free(&seen);
	trace_close(&reader);
	return rc;
}
