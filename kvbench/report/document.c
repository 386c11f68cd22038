/* SPDX-License-Identifier: Apache-2.0 */
/* document.c -- reading results back. A file may come from anywhere: each member is looked at before it is used. */
#include "kvbench/report/document.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP "kvbench-sweep/1"

static int refuse(const char *path, struct kv_error *err, const char *why)
{
	return kv_fail(err, -KV_EINVAL, "%.300s is no report of kv-bench --json: %s", path, why);
}

static int file_text(const char *path, char **out, size_t *len, struct kv_error *err)
{
	FILE *f = fopen(path, "re");
	size_t cap = 0, got = 0;
	char *text = NULL, *more;
	int rc = f ? 0 : -errno;
	while (rc == 0 && !feof(f) && got <= DOCUMENT_BYTES_MAX) {
		if (got == cap) {
			cap = cap ? 2 * cap : 65536;
			more = realloc(text, cap);
			rc = more ? 0 : -ENOMEM;
			text = more ? more : text;
		}
		if (rc == 0)
			got += fread(text + got, 1, cap - got, f);
		if (rc == 0 && ferror(f))
			rc = errno ? -errno : -EIO;
	}
	if (f)
		fclose(f);
	if (rc == 0 && got > DOCUMENT_BYTES_MAX)
		rc = -EFBIG;
	if (rc < 0) {
		free(text);
		return kv_fail(err, rc, "%.300s cannot be read: %s", path, kv_strerror(rc));
	}
	*out = text;
	*len = got;
	return 0;
}

bool document_is_sweep(const json_t *doc)
{
	const char *schema = document_text(doc, "schema");
	return schema && strcmp(schema, SWEEP) == 0;
}

/* A report that ends within a word ("nul") is as cut off as one that ends between two. A lone word is no report. */
static bool cut_off(const char *text, size_t len, const json_error_t *why)
{
	return json_error_code(why) == json_error_premature_end_of_input ||
	       ((size_t)why->position >= len && memchr(text, '{', len));
}

static int load(const char *path, bool runs, bool sweeps, json_t **out, struct kv_error *err)
{
	json_error_t why;
	char *text = NULL, reason[320], name[96];
	size_t len = 0;
	json_t *doc;
	const char *schema;
	int rc = file_text(path, &text, &len, err);
	if (rc < 0)
		return rc;
	doc = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (len == 0) {
		rc = refuse(path, err, "it is empty");
	} else if (!doc && cut_off(text, len, &why)) {
		rc = refuse(path, err, "it is cut off; the run that wrote it, or a copy of it, ended too early");
	} else if (!doc) {
		snprintf(reason, sizeof(reason), "line %d is no JSON (%s)", why.line, why.text);
		rc = refuse(path, err, reason);
	}
	free(text);
	schema = document_text(doc, "schema");
	if (rc == 0 && !schema)
		rc = refuse(path, err, "it has no member schema, so another program wrote it");
	if (rc == 0 && !(runs && strcmp(schema, "kvbench/1") == 0) && !(sweeps && document_is_sweep(doc))) {
		snprintf(reason, sizeof(reason), "its schema is %s, and this kv-bench (%s) reads %s here",
			 kv_printable(schema, false, name, sizeof(name)), KVRAIL_VERSION,
			 !sweeps ? "kvbench/1"
			 : runs  ? "kvbench/1 and " SWEEP
				 : SWEEP);
		rc = refuse(path, err, reason);
	}
	if (rc == 0 && !document_is_sweep(doc) && !json_is_object(json_object_get(doc, "phases")))
		rc = refuse(path, err, "it has no phases");
	if (rc < 0)
		json_decref(doc);
	else
		*out = doc;
	return rc;
}

int document_load(const char *path, json_t **out, struct kv_error *err)
{
	return load(path, true, false, out, err);
}

int document_load_sweep(const char *path, json_t **out, struct kv_error *err)
{
	return load(path, false, true, out, err);
}

int document_load_drawn(const char *path, json_t **out, struct kv_error *err)
{
	return load(path, true, true, out, err);
}

json_t *document_at(const json_t *doc, ...)
{
	json_t *at = (json_t *)doc;
	const char *name;
	va_list names;
	va_start(names, doc);
	while (at && (name = va_arg(names, const char *)))
		at = json_object_get(at, name);
	va_end(names);
	return json_is_null(at) ? NULL : at;
}

double document_number(const json_t *object, const char *name)
{
	const json_t *n = json_object_get(object, name);
	return json_is_number(n) ? json_number_value(n) : NAN;
}

const char *document_text(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

unsigned document_phases_all(const json_t *doc, struct document_phase out[DOCUMENT_PHASES_MAX])
{
	bool trace = document_at(doc, "trace", NULL) != NULL;
	const struct document_phase all[] = {
		{trace ? "put" : "write", document_at(doc, "phases", "write", NULL)},
		{trace ? "get" : "read", document_at(doc, "phases", "read", NULL)},
		{"mix put", document_at(doc, "phases", "mix", "put", NULL)},
		{"mix exists", document_at(doc, "phases", "mix", "exists", NULL)},
		{"mixed put", document_at(doc, "phases", "mixed", "write", NULL)},
		{"mixed get", document_at(doc, "phases", "mixed", "read", NULL)},
	};
	unsigned n = 0;
	for (unsigned i = 0; i < KV_COUNT(all); i++)
		if (all[i].phase)
			out[n++] = all[i];
	return n;
}

unsigned document_phases(const json_t *doc, struct document_phase out[DOCUMENT_PHASES_MAX])
{
	unsigned n = 0, all = document_phases_all(doc, out);
	for (unsigned i = 0; i < all; i++)
		if (document_number(out[i].phase, "ops") > 0)
			out[n++] = out[i];
	return n;
}

json_t *document_measured(const json_t *doc)
{
	json_t *read = document_at(doc, "phases", "read", NULL), *write = document_at(doc, "phases", "write", NULL);
	if (document_number(read, "ops") > 0)
		return read;
	return document_number(write, "ops") > 0 ? write : NULL;
}

/* ---- percentiles ---- */

enum { TICKS_PER_HALF = 5 };    /* as HdrHistogram prints by default */
#define LEVEL_MAX 99.9999999999 /* nearer to 100 the steps are lost in rounding */

struct steps {
	const json_t *upper, *count;
	double total;
};

static double item(const json_t *array, size_t i)
{
	return json_number_value(json_array_get(array, i));
}

static double deviation(const struct steps *s, double mean)
{
	double sum = 0, below = 0;
	for (size_t i = 0; i < json_array_size(s->upper); i++) {
		double upper = item(s->upper, i), wide = upper / (1 << KV_HIST_SUB_BITS);
		double middle = upper - KV_MIN(wide, upper - below) / 2, off = middle - mean;
		sum += item(s->count, i) * off * off;
		below = upper;
	}
	return s->total > 0 ? sqrt(sum / s->total) : 0;
}

/* HdrHistogram's iterator: steps halve the distance to 100 %, each half in TICKS_PER_HALF parts. */
static void hgrm_rows(FILE *out, const struct steps *s)
{
	size_t n = json_array_size(s->upper);
	double seen = 0, level = 0;
	for (size_t i = 0; i < n; i++) {
		double value = item(s->upper, i) / 1e6, share;
		seen += item(s->count, i);
		share = 100 * seen / s->total;
		while (i + 1 < n && share >= level && level < LEVEL_MAX) {
			double ticks = TICKS_PER_HALF * exp2(floor(log2(100 / (100 - level))) + 1);
			fprintf(out, "%12.6f %14.12f %10.0f %14.2f\n", value, level / 100, seen, 1 / (1 - level / 100));
			level += 100 / ticks;
		}
	}
	fprintf(out, "%12.6f %14.12f %10.0f\n", item(s->upper, n - 1) / 1e6, 1.0, s->total);
}

/* From a file: as many edges as counts, edges rising, counts above 0. */
static bool steps_of(const json_t *phase, struct steps *s)
{
	double last = -1;
	s->upper = document_at(phase, "histogram", "upper_ns", NULL);
	s->count = document_at(phase, "histogram", "count", NULL);
	s->total = 0;
	if (json_array_size(s->upper) == 0 || json_array_size(s->upper) != json_array_size(s->count))
		return false;
	for (size_t i = 0; i < json_array_size(s->upper); i++) {
		if (item(s->upper, i) <= last || item(s->count, i) <= 0)
			return false;
		last = item(s->upper, i);
		s->total += item(s->count, i);
	}
	return true;
}

char *document_hgrm(const json_t *doc, size_t *len, struct kv_error *err)
{
	const json_t *phase = document_measured(doc), *latency = document_at(phase, "latency_ns", NULL);
	struct steps s;
	char *text = NULL;
	double mean;
	FILE *out;
	if (!steps_of(phase, &s)) {
		kv_fail(err, -KV_EINVAL, "there is no histogram to write: no operation succeeded");
		return NULL;
	}
	out = open_memstream(&text, len);
	if (!out) {
		kv_fail(err, -KV_ENOMEM, "no memory for the percentiles");
		return NULL;
	}
	mean = document_number(latency, "mean");
	fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
	hgrm_rows(out, &s);
	fprintf(out, "#[Mean    = %12.6f, StdDeviation   = %12.6f]\n", mean / 1e6, deviation(&s, mean) / 1e6);
	fprintf(out, "#[Max     = %12.6f, Total count    = %12.0f]\n", document_number(latency, "max") / 1e6, s.total);
	fprintf(out, "#[Buckets = %12d, SubBuckets     = %12d]\n", KV_HIST_BUCKETS >> KV_HIST_SUB_BITS,
		1 << KV_HIST_SUB_BITS);
	if (fclose(out) == 0)
		return text;
	free(text);
	kv_fail(err, -KV_ENOMEM, "no memory for the percentiles");
	return NULL;
}

/* ---- windows ---- */

static void cell(FILE *out, const json_t *row, const char *name, double scale)
{
	double n = document_number(row, name);
	if (isnan(n))
		fputs(",", out);
	else
		fprintf(out, ",%.9g", n * scale);
}

/* A row each, whose phase is "event kill 2", and its end when it happened. */
static void csv_events(FILE *out, const json_t *doc)
{
	const json_t *events = json_object_get(doc, "events"), *e;
	size_t i;
	json_array_foreach(events, i, e)
	{
		const char *name = document_text(e, "event");
		/* A name is a word and a number: others would need quotes. */
		if (!name || strpbrk(name, ",\"\r\n") || isnan(document_number(e, "done_s")))
			continue;
		fprintf(out, "event %s", name);
		cell(out, e, "done_s", 1);
		fputs(",,,,,,,\n", out);
	}
}

char *document_csv(const json_t *doc, size_t *len, struct kv_error *err)
{
	struct document_phase phase[DOCUMENT_PHASES_MAX];
	unsigned n = document_phases(doc, phase);
	char *text = NULL;
	FILE *out = open_memstream(&text, len);
	if (!out) {
		kv_fail(err, -KV_ENOMEM, "no memory for the time series");
		return NULL;
	}
	fputs("phase,end_s,seconds,ops,ops_per_s,bytes,p50_us,p99_us,max_us\n", out);
	for (unsigned i = 0; i < n; i++) {
		const json_t *rows = document_at(phase[i].phase, "series", "windows", NULL), *row;
		size_t k;
		json_array_foreach(rows, k, row)
		{
			double seconds = document_number(row, "seconds");
			fputs(phase[i].name, out);
			cell(out, row, "end_s", 1);
			cell(out, row, "seconds", 1);
			cell(out, row, "ops", 1);
			cell(out, row, "ops", seconds > 0 ? 1 / seconds : NAN);
			cell(out, row, "bytes", 1);
			cell(out, row, "p50_ns", 1e-3);
			cell(out, row, "p99_ns", 1e-3);
			cell(out, row, "max_ns", 1e-3);
			fputc('\n', out);
		}
	}
	csv_events(out, doc);
	if (fclose(out) == 0)
		return text;
	free(text);
	kv_fail(err, -KV_ENOMEM, "no memory for the time series");
	return NULL;
}
