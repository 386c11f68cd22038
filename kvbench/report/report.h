/* SPDX-License-Identifier: Apache-2.0 */
/* report.h -- the report as text, and the verdict on the run. */
#ifndef KVRAIL_KVBENCH_REPORT_REPORT_H
#define KVRAIL_KVBENCH_REPORT_REPORT_H

#include "kvbench/load/bench.h"

void report_start(const struct bench *bench);

/* report_phase -- one line when a phase is over. step: "1/4". */
void report_phase(const struct bench *bench, const char *step, const char *name, const struct phase_result *result);

/* report_latency -- the line before the summary: how many samples were merged. */
void report_latency(const struct bench *bench);

/* report_summary -- the tables at the end; with --quiet one line. */
void report_summary(const struct bench *bench);

/* report_conditions_of -- the conditions of a run, for conditions.h. text: of *out's, whose owner is the caller. */
struct report_conditions;
void report_conditions_of(const struct bench *bench, char text[96], struct report_conditions *out);

/* report_verdict -- print one line per reason why the run is not as it should be (to `to`, NULL: only count). Returns
 * how many. */
unsigned report_verdict(const struct bench *bench, FILE *to);

#endif
