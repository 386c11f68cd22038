/* SPDX-License-Identifier: Apache-2.0 */
/* reporter.h -- the reports of a step to its parent, and the resource that ended it. The step's process only. */
#ifndef KVRAIL_KVBENCH_CAPACITY_REPORTER_H
#define KVRAIL_KVBENCH_CAPACITY_REPORTER_H

#include "kvbench/capacity/capacity.h"

struct capacity_reporter {
	const struct capacity_options *opt;
	struct capacity_step step;
	uint64_t begun_ns, deadline_ns;
	uint64_t rss_looked; /* at the last look */
	uint64_t measured_ns;
};

/* capacity_report -- report the figures of the step. capacity_measure -- raise the step's maxima to the present use of
 * this process and the kernel's counts; it walks through all descriptors. */
void capacity_report(struct capacity_reporter *t);
void capacity_measure(struct capacity_reporter *t);

/* capacity_end_said -- the resource that a sentence of the engine names as short; CAPACITY_COMPLETE: none. */
enum capacity_end capacity_end_said(const char *text);

/* capacity_look -- bring the figures up to date, report them, and return whether to go on: false after a signal, past
 * the deadline, or when memory is about to end, with the step's end and sentence set. */
bool capacity_look(struct capacity_reporter *t);

/* capacity_fail -- the step's first error: its end, code and sentence; later ones are ignored. */
void capacity_fail(struct capacity_reporter *t, enum capacity_end end, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* capacity_end_of -- the resource that ended a step whose call of the library failed with this error. */
enum capacity_end capacity_end_of(const struct capacity_reporter *t, const struct kv_error *err);

#endif
