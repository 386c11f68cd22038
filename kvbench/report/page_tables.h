/* SPDX-License-Identifier: Apache-2.0 */
/* page_tables.h -- tables of the page that a result has only if the run was asked for more than its phases. */
#ifndef KVRAIL_KVBENCH_REPORT_PAGE_TABLES_H
#define KVRAIL_KVBENCH_REPORT_PAGE_TABLES_H

#include "kvbench/report/document.h"

/* page_runs -- figures of --repeat-runs with their spread. page_slo -- the rates that --slo tried, from the lowest on.
 * Nothing is written where the document has none. */
void page_runs(FILE *out, const json_t *doc);
void page_slo(FILE *out, const json_t *doc);

#endif
