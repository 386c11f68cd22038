/* SPDX-License-Identifier: Apache-2.0 */
/* teller.h -- how a step tells its parent where it is, and which resource ended it. The step's process only. */
#ifndef KVRAIL_KVBENCH_CAPACITY_TELLER_H
#define KVRAIL_KVBENCH_CAPACITY_TELLER_H

#include "kvbench/capacity/capacity.h"

/* How a step tells where it is. */
struct capacity_teller {
	const struct capacity_options *opt;
	struct capacity_step step;
	uint64_t begun_ns, deadline_ns;
	uint64_t rss_looked;  /* at the last look */
	uint64_t measured_ns; /* when that was told which is not looked at every time */
};

/* capacity_tell -- tell the parent, if there is one, where the step is. capacity_measure -- raise the step's maxima to
 * what this process uses and the kernel counts now; it walks through all descriptors. */
void capacity_tell(struct capacity_teller *t);
void capacity_measure(struct capacity_teller *t);

/* capacity_end_said -- the resource that a sentence of the engine names as short; CAPACITY_COMPLETE: none. */
enum capacity_end capacity_end_said(const char *text);

/* capacity_look -- bring what is measured up to date, tell the parent, and say whether to go on: false after a signal,
 * past the deadline, or when memory is about to end, with the step's end and sentence set. */
bool capacity_look(struct capacity_teller *t);

/* capacity_fail -- the step's first error: its end, code and sentence; later ones are ignored. */
void capacity_fail(struct capacity_teller *t, enum capacity_end end, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* capacity_end_of -- what ended a step whose call of the library failed with this error. */
enum capacity_end capacity_end_of(const struct capacity_teller *t, const struct kv_error *err);

#endif
