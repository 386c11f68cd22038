/* SPDX-License-Identifier: Apache-2.0 */
/* page.h -- a result as one HTML page that loads nothing. */
#ifndef KVRAIL_KVBENCH_REPORT_PAGE_H
#define KVRAIL_KVBENCH_REPORT_PAGE_H

#include "kvbench/report/document.h"

/* page_html -- text that the caller frees; NULL with *err. */
char *page_html(const json_t *doc, size_t *len, struct kv_error *err);

/* page_begin -- what such a page begins with, style and body's tag included. */
void page_begin(FILE *out);

/* page_command_begin, _word -- the command line; the caller closes its paragraph. */
void page_command_begin(FILE *out, const char *program);
void page_command_word(FILE *out, const char *word);

/* page_shared -- a warning, if others used the machine. page_conditions -- the table of conditions. Of any report. */
void page_shared(FILE *out, const json_t *doc);
void page_conditions(FILE *out, const json_t *doc);

#endif
