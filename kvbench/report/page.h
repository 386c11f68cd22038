/* SPDX-License-Identifier: Apache-2.0 */
/* page.h -- a result as one HTML page that loads nothing. */
#ifndef KVRAIL_KVBENCH_REPORT_PAGE_H
#define KVRAIL_KVBENCH_REPORT_PAGE_H

#include "kvbench/report/document.h"

/* page_html -- text that the caller frees; NULL with *err. */
char *page_html(const json_t *doc, size_t *len, struct kv_error *err);

/* page_begin -- what such a page begins with, style and body's tag included. */
void page_begin(FILE *out);

#endif
