/* SPDX-License-Identifier: Apache-2.0 */
/* state.h -- whether results were measured under the same conditions. */
#ifndef KVRAIL_KVBENCH_REPORT_STATE_H
#define KVRAIL_KVBENCH_REPORT_STATE_H

#include "kvbench/report/document.h"

/* state_differs -- call `say` with one sentence for each condition in which b differs from a: both results of runs, or
 * both of sweeps. Returns how many. The distance of two cores is not among them. */
unsigned state_differs(const json_t *a, const json_t *b, void (*say)(const char *sentence, void *arg), void *arg);

/* state_of_points_differs -- the same of a sweep's combination: what may change from run to run. */
unsigned state_of_points_differs(const json_t *a, const json_t *b, void (*say)(const char *sentence, void *arg),
				 void *arg);

/* state_distance -- how far apart two cores were in b, beside a: both results of runs, or both combinations of sweeps.
 * Threads that are farther apart are slower together. STATE_OTHER: one does not know, or nobody can tell which was
 * farther, or for longer. *text: both, as a reader is told ("60 ns (near), then 60 to 300 ns (near to far)"). */
enum state_distance { STATE_SAME, STATE_FARTHER, STATE_NEARER, STATE_OTHER };
enum state_distance state_distance(const json_t *a, const json_t *b, char *text, size_t cap);

/* state_notes -- call `say` for what a reader should know of two results, and that keeps nobody from comparing them. */
void state_notes(const json_t *a, const json_t *b, void (*say)(const char *sentence, void *arg), void *arg);

/* state_settings_lone -- call `lone` for each option that only one of two sweeps has, from their lists of options, the
 * first's before the second's. Returns how many. */
unsigned state_settings_lone(const json_t *a, const json_t *b,
			     void (*lone)(const json_t *item, bool is_of_b, void *arg), void *arg);

#endif
