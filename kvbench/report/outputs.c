/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c -- one document, several files. */
#include "kvbench/report/outputs.h"

#include <stdlib.h>

#include "kvbench/report/json.h"
#include "kvbench/report/lab.h"

enum { JSON_FILE, PAGE_FILE, HDR_FILE, CSV_FILE, RAW_FILE, OUTPUT_FILES };

/* made: of which kind it is to kvlab; NULL: it is made here. */
static const struct {
	const char *what, *made;
} kinds[OUTPUT_FILES] = {
	[JSON_FILE] = {"the JSON report", NULL},          [PAGE_FILE] = {"the page", "page"},
	[HDR_FILE] = {"the file of percentiles", "hgrm"}, [CSV_FILE] = {"the time series", "csv"},
	[RAW_FILE] = {"the file of operations", NULL}, /* written while they are made */
};

struct outputs {
	struct out_file file[OUTPUT_FILES];
};

static int apart(const struct bench_options *o, const char *path, const char *what, struct kv_error *err)
{
	const struct kv_opt_security *s = &o->security;
	const char *const input[][2] = {{o->replay.trace, "--trace"},
					{o->pace.arrivals_file, "--arrivals"},
					{o->model.name, "--model"},
					{s->psk_file, "--psk-file"},
					{s->cert, "--cert"},
					{s->key, "--key"},
					{s->ca, "--ca"},
					{s->crl, "--crl"},
					{o->seal.key_file, "--seal-key-file"}};
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < KV_COUNT(input); i++)
		rc = out_file_apart(path, what, input[i][0], input[i][1], err);
	return rc;
}

int outputs_open(const struct bench_options *options, struct outputs **out, struct kv_error *err)
{
	const char *const path[OUTPUT_FILES] = {options->out.json, options->out.report, options->out.hdr,
						options->out.csv, options->out.raw};
	struct outputs *o = calloc(1, sizeof(*o));
	int rc = o ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for the files of this run");
	for (unsigned i = 0; o && i < OUTPUT_FILES; i++)
		o->file[i].fd = -1;
	for (unsigned i = 0; rc == 0 && i < OUTPUT_FILES; i++)
		rc = apart(options, path[i], kinds[i].what, err);
	for (unsigned i = 0; rc == 0 && i < OUTPUT_FILES; i++)
		if (path[i])
			rc = out_file_open(&o->file[i], path[i], kinds[i].what, err);
	if (rc == 0 && (options->out.report || options->out.hdr || options->out.csv))
		rc = lab_check(err);
	if (rc < 0)
		outputs_discard(&o);
	else
		*out = o;
	return rc;
}

static int page_write(struct outputs *o, unsigned i, const json_t *doc, struct kv_error *err)
{
	size_t len = 0;
	char *text = lab_make(kinds[i].made, doc, &len, err);
	int rc = text ? out_file_write(&o->file[i], text, len, err)
		      : kv_fail_more(err, "%s %.300s is not written", kinds[i].what, o->file[i].path);
	free(text);
	return rc;
}

static int write_one(struct outputs *o, unsigned i, const json_t *doc)
{
	struct kv_error err = {0};
	int rc = i == JSON_FILE ? json_write(&o->file[i], doc, JSON_INDENT(2) | JSON_REAL_PRECISION(12), &err)
				: page_write(o, i, doc, &err);
	if (rc < 0)
		fprintf(stderr, "kv-bench: %s\n", err.text);
	return rc;
}

int outputs_raw(const struct outputs *o)
{
	return o->file[RAW_FILE].fd;
}

static int raw_write(struct outputs *o, const struct bench_raw_result *r)
{
	struct kv_error err = {0};
	int rc = r->lost ? -KV_EBUSY : 0;
	if (r->code < 0)
		rc = r->code;
	if (rc == 0)
		rc = out_file_written(&o->file[RAW_FILE], r->bytes, &err);
	if (err.text[0])
		fprintf(stderr, "kv-bench: %s\n", err.text);
	return rc;
}

int outputs_write(struct outputs *o, const struct bench *bench)
{
	json_t *doc = NULL;
	int rc = 0, first = 0;
	for (unsigned i = 0; i < OUTPUT_FILES; i++) {
		if (o->file[i].fd < 0)
			continue;
		if (i == RAW_FILE) {
			rc = raw_write(o, &bench->results.raw);
			first = first ? first : rc;
			continue;
		}
		doc = doc ? doc : json_document(bench);
		if (!doc) {
			fprintf(stderr, "kv-bench: no memory for the report: its files are not written\n");
			return -KV_ENOMEM;
		}
		rc = write_one(o, i, doc);
		first = first ? first : rc;
	}
	json_decref(doc);
	return first;
}

void outputs_discard(struct outputs **o)
{
	for (unsigned i = 0; *o && i < OUTPUT_FILES; i++)
		out_file_discard(&(*o)->file[i]);
	free(*o);
	*o = NULL;
}
