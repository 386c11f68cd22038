/* SPDX-License-Identifier: Apache-2.0 */
/* json.h -- the report as one JSON object (schema kvbench/1; docs/guide/benchmarking.md explains it). */
#ifndef KVRAIL_KVBENCH_REPORT_JSON_H
#define KVRAIL_KVBENCH_REPORT_JSON_H

#include <jansson.h>

#include "kvbench/load/bench.h"

/* json_document -- the report as jansson's object: the caller drops it. NULL: no memory. */
json_t *json_document(const struct bench *bench);

/* json_config_default -- "config" of a run without options; the caller drops it. */
json_t *json_config_default(void);

/* json_write -- write a document and the end of its last line, as out_file_write does. flags: jansson's. doc may be
 * NULL: there was no memory for it. */
int json_write(struct out_file *file, const json_t *doc, size_t flags, struct kv_error *err);

#endif
