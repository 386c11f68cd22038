/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c -- the trace reader: lines become rows, rows become requests with a time.
 *
 * A line is looked at alone, so that memory follows the longest line. The first line decides whether the file is CSV.
 * Turns of a session with delays often stand together, though they lie apart in time; so a file with the word "delay"
 * is read as a whole and sorted when it is opened. */
#include "kvbench/load/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "kvbench/load/ids.h"
#include "kvbench/load/lines.h"
#include "kvbench/load/trace_row.h"

/* A request of a sorted trace; its ids begin at ids[from]. */
struct kept {
	struct trace_request request;
	uint64_t from;
};

struct trace_reader {
	struct lines *lines;
	struct trace_row row;
	bool begun, csv, placed; /* placed: a row has a time */
	bool once;               /* the file cannot be read again */
	struct trace_columns columns;
	struct trace_ids sessions;
	double *session_ms; /* of each: its last turn */
	uint64_t sessions_cap;
	double first_ms, last_ms;
	int failed;
	struct kv_error why;
	/* of a sorted trace */
	bool sorted;
	struct kept *kept;
	uint64_t num_kept, kept_cap, next;
	uint64_t *ids;
	uint64_t num_ids, ids_cap;
};

/* ---- the next line ---- */

static bool blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return false;
	return true;
}

/* A damaged file has holes of zeros; jansson passes them over, also within a number. */
static int no_text(struct trace_at at, const char *text, size_t len, struct kv_error *err)
{
	return memchr(text, 0, len) ? kv_fail(err, -KV_EINVAL,
					      "%s line %llu has a byte 0, as a damaged or binary file has: "
					      "correct or remove the line",
					      at.name, (unsigned long long)at.line)
				    : 0;
}

/* CSV begins with the names of its columns, and no JSON begins with a letter or with the quotes of a name. A pointer
 * of Git LFS does, and is refused as JSON. */
static bool is_csv(const char *text, size_t len)
{
	return memchr(text, ',', len) && text[0] != '{' && text[0] != '[' && text[0] != ' ' && text[0] != '\t';
}

static int next_text(struct trace_reader *r, struct trace_at *at, const char **text, size_t *len, struct kv_error *err)
{
	int rc;
	do
		rc = lines_next(r->lines, text, len, err);
	while (rc > 0 && blank(*text, *len));
	*at = (struct trace_at){lines_name(r->lines), lines_number(r->lines)};
	return rc > 0 && no_text(*at, *text, *len, err) < 0 ? -KV_EINVAL : rc;
}

static int next_row(struct trace_reader *r, struct trace_at *at, struct kv_error *err)
{
	const char *text = NULL;
	size_t len = 0;
	int rc = next_text(r, at, &text, &len, err);
	if (rc > 0 && !r->begun && (r->csv = is_csv(text, len))) {
		rc = trace_columns_find(*at, text, len, &r->columns, err);
		if (rc == 0)
			rc = next_text(r, at, &text, &len, err);
	}
	r->begun = true;
	if (rc <= 0)
		return rc;
	rc = r->csv ? trace_row_csv(*at, &r->columns, text, len, &r->row, err)
		    : trace_row_json(*at, text, len, &r->row, err);
	return rc < 0 ? rc : 1;
}

/* ---- its time ---- */

/* NULL: no memory. */
static double *session_last(struct trace_reader *r)
{
	uint64_t known = r->sessions.count;
	uint32_t n;
	if (trace_ids_number(&r->sessions, r->row.session, &n) < 0 ||
	    trace_room((void **)&r->session_ms, sizeof(*r->session_ms), n, 1, &r->sessions_cap) < 0)
		return NULL;
	if (n == known)
		r->session_ms[n] = r->first_ms;
	return &r->session_ms[n];
}

/* A row without a time of its own follows the last turn of its session, else the line before it. A session begins with
 * the trace. */
static int place(struct trace_reader *r, struct trace_at at, double *out_ms, struct kv_error *err)
{
	const struct trace_row *row = &r->row;
	double *last = &r->last_ms;
	if (row->session)
		last = session_last(r);
	if (!last)
		return kv_fail(err, -KV_ENOMEM, "no memory for the sessions of %s up to line %llu", at.name,
			       (unsigned long long)at.line);
	*out_ms = row->has_time ? row->time_ms : *last + (row->has_delay ? row->delay_ms : 0);
	if (fabs(*out_ms) > TRACE_TIME_MAX_MS)
		return trace_bad(at, err, "the delays of this session add up to more than 30,000 years");
	*last = r->last_ms = *out_ms;
	if (!r->placed)
		r->first_ms = *out_ms;
	r->placed = true;
	return 0;
}

static int read_request(struct trace_reader *r, struct trace_request *out, struct kv_error *err)
{
	const struct trace_row *row = &r->row;
	struct trace_at at;
	double time_ms = 0;
	int rc = next_row(r, &at, err);
	if (rc <= 0)
		return rc;
	rc = place(r, at, &time_ms, err);
	if (rc < 0)
		return rc;
	*out = (struct trace_request){.format = row->format,
				      .line = at.line,
				      .timestamp_ms = time_ms,
				      .timed = row->has_time || row->has_delay,
				      .input_length = row->input_length,
				      .output_length = row->output_length,
				      .ids = row->ids,
				      .num_ids = row->num_ids};
	return 1;
}

/* ---- sorted by time ---- */

static int keep(struct trace_reader *r, const struct trace_request *q)
{
	int rc = trace_room((void **)&r->kept, sizeof(*r->kept), r->num_kept, 1, &r->kept_cap);
	if (rc == 0)
		rc = trace_room((void **)&r->ids, sizeof(*r->ids), r->num_ids, q->num_ids, &r->ids_cap);
	if (rc < 0)
		return rc;
	r->kept[r->num_kept++] = (struct kept){*q, r->num_ids};
	if (q->num_ids)
		memcpy(r->ids + r->num_ids, q->ids, q->num_ids * sizeof(*q->ids));
	r->num_ids += q->num_ids;
	return 0;
}

static int by_time(const void *one, const void *two)
{
	const struct trace_request *a = &((const struct kept *)one)->request, *b = &((const struct kept *)two)->request;
	if (a->timestamp_ms != b->timestamp_ms)
		return a->timestamp_ms < b->timestamp_ms ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

static int sort(struct trace_reader *r, struct kv_error *err)
{
	struct trace_request q = {0};
	int rc;
	while ((rc = read_request(r, &q, err)) > 0)
		if (keep(r, &q) < 0)
			return kv_fail(err, -KV_ENOMEM,
				       "no memory for the %llu blocks of %s up to line %llu, which has delays and is "
				       "sorted by time: use a part of it",
				       (unsigned long long)r->num_ids, lines_name(r->lines),
				       (unsigned long long)q.line);
	if (rc == 0 && r->num_kept)
		qsort(r->kept, r->num_kept, sizeof(*r->kept), by_time);
	r->sorted = true;
	return rc;
}

/* Whether a line has the word: 1, 0, or a code. The reader is at the beginning again. */
static int has_delays(struct trace_reader *r, struct kv_error *err)
{
	static const char word[] = "\"delay";
	const char *text = NULL;
	size_t len = 0;
	bool found = false;
	int rc = 0;
	while (!found && (rc = lines_next(r->lines, &text, &len, err)) > 0)
		found = memmem(text, len, word, sizeof(word) - 1) != NULL;
	if (rc >= 0)
		rc = lines_rewind(r->lines, err);
	return rc < 0 ? rc : found;
}

/* ---- open, next, close ---- */

static int make(struct lines *lines, struct trace_reader **out, struct kv_error *err)
{
	struct trace_reader *r = calloc(1, sizeof(*r));
	if (!r) {
		lines_close(&lines);
		return kv_fail(err, -KV_ENOMEM, "no memory to read the trace");
	}
	r->lines = lines;
	*out = r;
	return 0;
}

int trace_open_stream(int fd, const char *name, struct trace_reader **out, struct kv_error *err)
{
	struct lines *lines;
	int rc = lines_open_stream(fd, name, &lines, err);
	return rc < 0 ? rc : make(lines, out, err);
}

int trace_open(const char *path, struct trace_reader **out, struct kv_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;
	struct trace_reader *r = NULL;
	struct stat st;
	bool regular = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	if (fd < 0)
		return kv_fail(err, -errno, "trace %s cannot be opened: %s", path, kv_strerror(errno));
	rc = trace_open_stream(fd, path, &r, err);
	if (rc < 0)
		return rc;
	r->once = !regular;
	if (regular)
		rc = has_delays(r, err);
	if (rc > 0)
		rc = sort(r, err);
	if (rc < 0)
		trace_close(&r);
	*out = r;
	return rc;
}

void trace_close(struct trace_reader **reader)
{
	struct trace_reader *r = *reader;
	if (!r)
		return;
	lines_close(&r->lines);
	trace_row_free(&r->row);
	trace_ids_free(&r->sessions);
	free(r->session_ms);
	free(r->kept);
	free(r->ids);
	free(r);
	*reader = NULL;
}

static int next_kept(struct trace_reader *r, struct trace_request *out)
{
	const struct kept *k = &r->kept[r->next];
	if (r->next == r->num_kept)
		return 0;
	*out = k->request;
	out->ids = r->ids + k->from;
	r->next++;
	return 1;
}

static int next_unsorted(struct trace_reader *r, struct trace_request *out, struct kv_error *err)
{
	int rc = read_request(r, out, err);
	if (rc > 0 && r->once && r->row.has_delay && !r->row.has_time)
		return kv_fail(err, -KV_EINVAL,
			       "trace %s has delays, is sorted by time, and must be a regular file: write it to one "
			       "first",
			       lines_name(r->lines));
	return rc;
}

int trace_next(struct trace_reader *r, struct trace_request *out, struct kv_error *err)
{
	int rc = r->failed;
	if (rc == 0)
		rc = r->sorted ? next_kept(r, out) : next_unsorted(r, out, &r->why);
	if (rc < 0) {
		r->failed = rc;
		if (err)
			*err = r->why;
	}
	return rc;
}
