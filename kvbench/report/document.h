/* SPDX-License-Identifier: Apache-2.0 */
/* document.h -- a result as data: the JSON report of this run, or one that an earlier run has left. Everything that is
 * drawn or compared is taken from it, so that a file gives the same as the run did. */
#ifndef KVRAIL_KVBENCH_REPORT_DOCUMENT_H
#define KVRAIL_KVBENCH_REPORT_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/base.h"

enum { DOCUMENT_PHASES_MAX = 6 };
#define DOCUMENT_BYTES_MAX (256u << 20) /* of a file */

/* A phase that has figures. name: as people call it. */
struct document_phase {
	const char *name;
	json_t *phase; /* the document's */
};

/* document_load -- read a JSON report of kv-bench. Returns 0 with *out (the caller drops it), or a code with one
 * sentence: no such file, empty, cut off, no JSON, or of another program. */
int document_load(const char *path, json_t **out, struct kv_error *err);

/* document_load_sweep -- the same of kv-bench sweep. document_load_drawn -- of either: what can be drawn. */
int document_load_sweep(const char *path, json_t **out, struct kv_error *err);
int document_load_drawn(const char *path, json_t **out, struct kv_error *err);

/* document_is_sweep -- whether it is of kv-bench sweep. */
bool document_is_sweep(const json_t *doc);

/* document_phases -- the phases of a report that measured something. Returns how many. document_phases_all -- those,
 * too, in which nothing came to an end. */
unsigned document_phases(const json_t *doc, struct document_phase out[DOCUMENT_PHASES_MAX]);
unsigned document_phases_all(const json_t *doc, struct document_phase out[DOCUMENT_PHASES_MAX]);

/* document_measured -- the phase that a report is about: reads, else writes. NULL: there is none. */
json_t *document_measured(const json_t *doc);

/* document_at -- the member at a path of names ("conditions", "wait", NULL). NULL: it is not there, or null. */
json_t *document_at(const json_t *doc, ...) __attribute__((sentinel));

/* document_number -- a number that must be there to be used: NAN otherwise. */
double document_number(const json_t *object, const char *name);

/* document_text -- a string, or NULL. */
const char *document_text(const json_t *object, const char *name);

/* The two files of figures: text that the caller frees; NULL with *err if the report lacks what they need. */
char *document_hgrm(const json_t *doc, size_t *len, struct kv_error *err);
char *document_csv(const json_t *doc, size_t *len, struct kv_error *err);

#endif
