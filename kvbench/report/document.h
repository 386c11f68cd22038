/* SPDX-License-Identifier: Apache-2.0 */
/* document.h -- members of a JSON report, of whatever type a report of another process has them. kvlab/document.py
 * reads reports of earlier runs. */
#ifndef KVRAIL_KVBENCH_REPORT_DOCUMENT_H
#define KVRAIL_KVBENCH_REPORT_DOCUMENT_H

#include <jansson.h>

/* document_at -- the member at a path of names ("conditions", "wait", NULL). NULL: it is not there, or null. */
json_t *document_at(const json_t *doc, ...) __attribute__((sentinel));

/* document_number -- a number; NAN: there is none. document_text -- a string, or NULL. */
double document_number(const json_t *object, const char *name);
const char *document_text(const json_t *object, const char *name);

#endif
