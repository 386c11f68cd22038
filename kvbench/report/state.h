/* SPDX-License-Identifier: Apache-2.0 */
/* state.h -- whether results were measured under the same conditions. */
#ifndef KVRAIL_KVBENCH_REPORT_STATE_H
#define KVRAIL_KVBENCH_REPORT_STATE_H

#include "kvbench/report/document.h"

/* state_differs -- call `say` with one sentence for each condition in which b differs from a: both results of runs, or
 * both of sweeps. Returns how many. */
unsigned state_differs(const json_t *a, const json_t *b, void (*say)(const char *sentence, void *arg), void *arg);

/* state_of_points_differs -- the same of a sweep's combination: what may change from run to run. */
unsigned state_of_points_differs(const json_t *a, const json_t *b, void (*say)(const char *sentence, void *arg),
				 void *arg);

/* state_settings_lone -- call `lone` for each option that only one of two sweeps has, from their lists of options, the
 * first's before the second's. Returns how many. */
unsigned state_settings_lone(const json_t *a, const json_t *b,
			     void (*lone)(const json_t *item, bool is_of_b, void *arg), void *arg);

#endif
