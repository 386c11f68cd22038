/* SPDX-License-Identifier: Apache-2.0 */
/* conditions.h -- under which conditions figures came about, as text and as JSON: alike in every report of kv-bench. */
#ifndef KVRAIL_KVBENCH_REPORT_CONDITIONS_H
#define KVRAIL_KVBENCH_REPORT_CONDITIONS_H

#include <jansson.h>
#include <stdio.h>

#include "kvbench/measure/conditions.h"

enum { REPORT_EXCLUDED_MAX = 6 };

/* The caller's strings; NULL and "" are not known. */
struct report_conditions {
	const char *provider, *wait, *libfabric, *loopback_congestion;
	const struct bench_conditions *machine;
	bool no_histogram;                         /* the report has no quantiles */
	const char *excluded[REPORT_EXCLUDED_MAX]; /* work that no figure contains; NULL ends it */
};

/* conditions_print -- lines of at most KV_COLUMNS. fabric: with the provider, where the report has not named it yet. */
void conditions_print(const struct report_conditions *conditions, bool fabric, FILE *out);

/* conditions_json -- the member `conditions` of a report; the caller's reference. NULL: no memory. */
json_t *conditions_json(const struct report_conditions *conditions);

#endif
