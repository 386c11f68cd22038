/* SPDX-License-Identifier: Apache-2.0 */
/* json.h -- the report as one JSON object (schema kvbench/1; docs/guide/benchmarking.md explains it). */
#ifndef KVRAIL_KVBENCH_REPORT_JSON_H
#define KVRAIL_KVBENCH_REPORT_JSON_H

#include "kvbench/load/bench.h"

struct json_file;

/* json_open -- make sure now that the report can be written later: creates a temporary file beside path ("-": standard
 * output; a pipe or device is written directly). Returns 0 or -errno with one sentence. */
int json_open(const char *path, struct json_file **out, struct kv_error *err);

/* json_write -- write the report and give it its name. 0 or -errno with one sentence; then path is as it was before.
 * Closes the file either way: *file becomes NULL. */
int json_write(struct json_file **file, const struct bench *bench, struct kv_error *err);

/* json_write_text -- the same with the text of a report; NULL: there was no memory for it. */
int json_write_text(struct json_file **file, const char *text, struct kv_error *err);

/* json_discard -- give up: removes the temporary file. NULL is accepted. */
void json_discard(struct json_file **file);

/* json_document -- the report as jansson's object: the caller drops it. NULL: no memory. */
struct json_t *json_document(const struct bench *bench);

/* json_config_default -- "config" of a run without options; the caller drops it. */
struct json_t *json_config_default(void);

/* json_text -- the report as text, for tests; the caller frees it. NULL: no memory. */
char *json_text(const struct bench *bench);

#endif
