/* SPDX-License-Identifier: Apache-2.0 */
/* measured.h -- a figure of a result with its noise. */
#ifndef KVRAIL_KVBENCH_REPORT_MEASURED_H
#define KVRAIL_KVBENCH_REPORT_MEASURED_H

#include "kvbench/report/document.h"

struct measured_metric {
	const char *name;
	const char *of, *member;       /* of this member of a phase, or of the phase itself */
	const char *in_runs, *in_rows; /* of repeated runs and of a sweep's combination; of a window; NULL: of none */
	bool more_is_better, is_ratio;
	bool shown_only; /* of few calls, often of one, and of unknown noise: nothing tells chance from change */
};

/* A phase of less is one of beginnings: caches are cold, and all workers start at once. */
#define MEASURED_SHORT_S 0.1

/* Of a phase; of a part of a replay; of a combination of a sweep. */
enum { MEASURED_OF_PHASE = 5, MEASURED_OF_PART = 3, MEASURED_OF_POINT = 3 };
extern const struct measured_metric measured_of_phases[MEASURED_OF_PHASE], measured_of_parts[MEASURED_OF_PART];

struct measured {
	bool is_short;       /* of a phase of less than MEASURED_SHORT_S */
	double value, noise; /* value: NAN, and a latency of 0: not measured; noise: half the range, a share of value;
				 NAN: not known */
};

/* measured_of_phase -- of a phase of a run, or a part of a replay: from repeated runs where there are any, else from
 * its windows. */
struct measured measured_of_phase(const json_t *doc, const json_t *phase, const struct measured_metric *metric);

/* measured_of_point -- of a combination of a sweep, from its runs; one of the first MEASURED_OF_POINT of a phase. */
struct measured measured_of_point(const json_t *point, const struct measured_metric *metric);

#endif
