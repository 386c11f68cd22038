/* SPDX-License-Identifier: Apache-2.0 */
/* trace_json.c -- a line of Mooncake's form or of Bailian's, as various programs write it.
 *
 * A field may be missing or null, and a whole number may be written as 7.0. An id of a block is a number of 64 bits or
 * a text: up to 16 hexadecimal digits are their number, any other text is hashed. jansson takes neither NaN nor numbers
 * of more than 63 bits: such a line is rewritten and parsed again. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "kvbench/load/trace_row.h"

enum { LONG_DIGITS = 19 };                    /* so many may not fit in 63 bits */
#define LFS_POINTER "version https://git-lfs" /* a file of Git LFS without its content begins so */
#define EXACT_MAX   9007199254740992.0        /* 2^53: a double holds every whole number up to this */
#define TEXT_SEED   0x7472616365ull

/* ---- numbers that jansson refuses ---- */

struct rewriting {
	const char *in;
	size_t len, at; /* of in */
	char *out;
	size_t out_len;
	bool quoted; /* within a string */
};

static size_t number_at(const struct rewriting *w, bool *out_long)
{
	size_t n = w->in[w->at] == '-', digits;
	while (w->at + n < w->len && isdigit((unsigned char)w->in[w->at + n]))
		n++;
	digits = n - (w->in[w->at] == '-');
	*out_long = digits >= LONG_DIGITS;
	for (; w->at + n < w->len && w->in[w->at + n] && strchr("0123456789+-.eE", w->in[w->at + n]); n++)
		*out_long = false;
	return n;
}

static void put(struct rewriting *w, const char *text, size_t len)
{
	memcpy(w->out + w->out_len, text, len);
	w->out_len += len;
}

/* One character, number or escape. */
static void rewrite_step(struct rewriting *w)
{
	char c = w->in[w->at];
	size_t n = 1;
	bool is_long = false;
	if (w->quoted && c == '\\')
		n = KV_MIN((size_t)2, w->len - w->at);
	else if (c == '"')
		w->quoted = !w->quoted;
	else if (!w->quoted && (isdigit((unsigned char)c) || c == '-'))
		n = number_at(w, &is_long);
	else if (!w->quoted && w->len - w->at >= 3 && memcmp(w->in + w->at, "NaN", 3) == 0) {
		put(w, "null", 4);
		w->at += 3;
		return;
	}
	if (is_long)
		put(w, "\"#", 2);
	put(w, w->in + w->at, n);
	if (is_long)
		put(w, "\"", 1);
	w->at += n;
}

/* Parse the rewritten line. Where jansson finds a fault is counted in the line as it was. */
static json_t *load_rewritten(const char *text, size_t len, json_error_t *why)
{
	struct rewriting w = {.in = text, .len = len, .out = malloc(len + len / 3 + 16)};
	json_t *object;
	if (!w.out)
		return NULL;
	while (w.at < len)
		rewrite_step(&w);
	if (w.out_len == len) {
		free(w.out);
		return NULL;
	}
	object = json_loadb(w.out, w.out_len, JSON_REJECT_DUPLICATES, why);
	w.at = w.out_len = 0;
	w.quoted = false;
	while (!object && w.at < len && w.out_len < (size_t)why->position)
		rewrite_step(&w);
	if (!object)
		why->column = (int)w.at;
	free(w.out);
	return object;
}

static int array(struct trace_at at, struct kv_error *err)
{
	return kv_fail(err, -KV_EINVAL,
		       "%s line %llu begins a JSON array: write one object per line, as jq -c '.[]' "
		       "does",
		       at.name, (unsigned long long)at.line);
}

static int no_object(struct trace_at at, const char *text, size_t len, const json_error_t *why, struct kv_error *err)
{
	size_t from = 0;
	while (from < len && isspace((unsigned char)text[from]))
		from++;
	if (len >= strlen(LFS_POINTER) && memcmp(text, LFS_POINTER, strlen(LFS_POINTER)) == 0)
		return kv_fail(err, -KV_EINVAL,
			       "%s is a pointer of Git LFS and not the trace: run git lfs pull where it is", at.name);
	if (text[from] == '[')
		return array(at, err);
	if (len == from + 1)
		return kv_fail(err, -KV_EINVAL,
			       "%s line %llu has a part of a JSON object: write one object per line, as jq -c . does",
			       at.name, (unsigned long long)at.line);
	return kv_fail(err, -KV_EINVAL, "%s line %llu, column %d: %s: correct or remove the line", at.name,
		       (unsigned long long)at.line, why->column, why->text);
}

/* ---- fields ---- */

/* The field by its name or by the other one that programs write; NULL where it is missing or null. */
static const json_t *field(const json_t *object, const char *name, const char *other)
{
	const json_t *v = json_object_get(object, name);
	if (!v && other)
		v = json_object_get(object, other);
	return json_is_null(v) ? NULL : v;
}

static bool whole(const json_t *v, int64_t *out)
{
	double d = json_real_value(v);
	if (json_is_integer(v))
		*out = json_integer_value(v);
	else if (json_is_real(v) && fabs(d) < EXACT_MAX && d == floor(d))
		*out = (int64_t)d;
	else
		return false;
	return true;
}

/* A count of tokens. */
static int read_length(struct trace_at at, const json_t *object, const char *name, const char *other, uint64_t *out,
		       struct kv_error *err)
{
	const json_t *v = field(object, name, other);
	int64_t n = 0;
	if (v && (!whole(v, &n) || n < 0))
		return trace_bad(at, err, "\"%s\" is not a whole number from 0 on", name);
	*out = (uint64_t)n;
	return 0;
}

static int read_ms(struct trace_at at, const json_t *v, const char *name, double unit, double *out,
		   struct kv_error *err)
{
	if (json_is_string(v) && trace_time_parse(json_string_value(v), out))
		return 0;
	if (!json_is_number(v))
		return trace_bad(at, err, "\"%s\" is neither a number nor a date such as 2024-05-10T00:00:00.5Z", name);
	*out = json_number_value(v) * unit;
	if (fabs(*out) > TRACE_TIME_MAX_MS)
		return trace_bad(at, err, "\"%s\" is more than 30,000 years: it must be in %s", name,
				 unit > 1 ? "seconds" : "milliseconds");
	return 0;
}

static int read_times(struct trace_at at, const json_t *object, struct trace_row *row, struct kv_error *err)
{
	const json_t *time = field(object, "timestamp", "created_time"), *delay = field(object, "delay", "delay_ms");
	int rc = 0;
	row->has_time = time != NULL;
	row->has_delay = delay != NULL;
	if (time)
		rc = read_ms(at, time, "timestamp", row->format == TRACE_BAILIAN ? 1000 : 1, &row->time_ms, err);
	if (rc == 0 && delay && (!json_is_number(delay) || json_number_value(delay) < 0))
		rc = trace_bad(at, err, "\"delay\" is not a number of milliseconds from 0 on");
	if (rc == 0 && delay)
		rc = read_ms(at, delay, "delay", 1, &row->delay_ms, err);
	return rc;
}

static int read_session(struct trace_at at, const json_t *object, struct trace_row *row, struct kv_error *err)
{
	const json_t *v = field(object, "session_id", NULL);
	int64_t n = 0;
	row->session = 0;
	if (json_is_string(v))
		row->session = kv_hash_key(json_string_value(v), json_string_length(v), TEXT_SEED);
	else if (v && whole(v, &n))
		row->session = kv_hash_key(&n, sizeof(n), TEXT_SEED + 1);
	else if (v)
		return trace_bad(at, err, "\"session_id\" is neither a text nor a whole number");
	row->session += v && row->session == 0;
	return 0;
}

/* ---- ids ---- */

static bool hexadecimal(const char *text, size_t len, uint64_t *out)
{
	uint64_t n = 0;
	if (len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		text += 2;
		len -= 2;
	}
	if (len == 0 || len > 16)
		return false;
	for (; len > 0; len--, text++) {
		if (!isxdigit((unsigned char)*text))
			return false;
		n = n << 4 | (unsigned)(isdigit((unsigned char)*text) ? *text - '0' : (*text | 32) - 'a' + 10);
	}
	*out = n;
	return true;
}

/* "#14695981039346656037" and "#-3750763034362895579", which load_rewritten wrote, if they fit in 64 bits. */
static bool long_number(const char *text, uint64_t *out)
{
	bool minus = text[0] == '#' && text[1] == '-';
	uint64_t n = 0;
	if (text[0] != '#')
		return false;
	for (text += 1 + minus; *text; text++)
		if (!isdigit((unsigned char)*text) || __builtin_mul_overflow(n, 10ull, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
			return false;
	if (minus && n > (uint64_t)INT64_MAX + 1)
		return false;
	*out = minus ? -n : n;
	return true;
}

static bool read_id(const json_t *v, uint64_t *out)
{
	const char *text = json_string_value(v);
	size_t len = json_string_length(v);
	int64_t n;
	if (whole(v, &n)) {
		*out = (uint64_t)n;
		return true;
	}
	if (!text || len == 0)
		return false;
	if (!long_number(text, out) && !hexadecimal(text, len, out))
		*out = kv_hash_key(text, len, TEXT_SEED);
	return true;
}

static int ids_grow(struct trace_at at, struct trace_row *row, size_t n, struct kv_error *err)
{
	uint64_t *ids;
	if (n > TRACE_IDS_MAX)
		return kv_fail(err, -KV_ETOOBIG,
			       "%s line %llu: %zu hash_ids are more than the %u that one request may have", at.name,
			       (unsigned long long)at.line, n, (unsigned)TRACE_IDS_MAX);
	if (n <= row->cap)
		return 0;
	ids = realloc(row->ids, n * sizeof(*ids));
	if (!ids)
		return kv_fail(err, -KV_ENOMEM, "no memory for the %zu hash_ids of %s line %llu", n, at.name,
			       (unsigned long long)at.line);
	row->ids = ids;
	row->cap = (unsigned)n;
	return 0;
}

static int read_ids(struct trace_at at, const json_t *object, struct trace_row *row, struct kv_error *err)
{
	const json_t *ids = field(object, "hash_ids", NULL);
	size_t n = json_array_size(ids);
	int rc;
	row->num_ids = 0;
	if (ids && !json_is_array(ids))
		return trace_bad(at, err, "\"hash_ids\" is not an array");
	rc = ids_grow(at, row, n, err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (!read_id(json_array_get(ids, i), &row->ids[i]))
			rc = trace_bad(at, err, "item %zu of \"hash_ids\" is neither a whole number nor a text", i + 1);
	if (rc == 0)
		row->num_ids = (unsigned)n;
	return rc;
}

/* ---- the row ---- */

/* An object that is no request would count as one without blocks. */
static int check_request(struct trace_at at, const json_t *object, struct kv_error *err)
{
	if (json_is_array(object))
		return array(at, err);
	if (!json_is_object(object))
		return trace_bad(at, err, "not a JSON object");
	if (json_is_array(json_object_get(object, "requests")))
		return kv_fail(err, -KV_EINVAL,
			       "%s line %llu is a session with its requests inside: write one request per line, with a "
			       "\"session_id\"",
			       at.name, (unsigned long long)at.line);
	if (!json_object_get(object, "hash_ids") && !field(object, "input_length", "input_tokens"))
		return trace_bad(at, err, "there is neither \"hash_ids\" nor \"input_length\"");
	return 0;
}

static int read_object(struct trace_at at, const json_t *object, struct trace_row *row, struct kv_error *err)
{
	int rc = check_request(at, object, err);
	if (rc < 0)
		return rc;
	row->format = json_object_get(object, "chat_id") ? TRACE_BAILIAN : TRACE_MOONCAKE;
	rc = read_times(at, object, row, err);
	if (rc == 0)
		rc = read_session(at, object, row, err);
	if (rc == 0)
		rc = read_length(at, object, "input_length", "input_tokens", &row->input_length, err);
	if (rc == 0)
		rc = read_length(at, object, "output_length", "output_tokens", &row->output_length, err);
	return rc < 0 ? rc : read_ids(at, object, row, err);
}

int trace_row_json(struct trace_at at, const char *text, size_t len, struct trace_row *row, struct kv_error *err)
{
	json_error_t why;
	json_t *object = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	int rc;
	if (!object)
		object = load_rewritten(text, len, &why);
	if (!object)
		return no_object(at, text, len, &why, err);
	rc = read_object(at, object, row, err);
	json_decref(object);
	return rc;
}
