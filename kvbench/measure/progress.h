/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h -- shows how far a phase is: a bar on a terminal, a line now and then elsewhere. */
#ifndef KVRAIL_KVBENCH_MEASURE_PROGRESS_H
#define KVRAIL_KVBENCH_MEASURE_PROGRESS_H

#include <stdbool.h>

#include "base/base.h"
#include "kvbench/measure/series.h"
#include "kvbench/setup/ticker.h"

struct progress {
	/* set by the owner before progress_start */
	FILE *out;        /* NULL: show nothing */
	const char *name; /* of the phase */
	uint64_t total;
	uint64_t duration_ns;
	const char *unit;
	uint64_t unit_bytes;         /* that each of them moves; 0: no rate of bytes is shown */
	uint64_t (*done)(void *arg); /* operations so far; called from the progress thread */
	uint64_t (*bare)(void *arg); /* of those, misses and errors: they moved no bytes; NULL: none is */
	void *arg;
	struct series_sampler *series; /* of the phase: its last window's percentiles are shown; NULL: they are not */
	bool always;                   /* also without a terminal, each second */
	/* its own */
	bool tty, drawn;
	uint64_t bare_ops; /* as last reported */
	bool has_window;
	struct bench_window window;
	uint64_t start_ns;
	struct ticker ticker;
};

/* progress_text -- the line after elapsed_ns with `done` of the work over: at most 79 columns, without its end. Returns
 * buf. */
char *progress_text(const struct progress *p, uint64_t done, uint64_t elapsed_ns, char *buf, size_t cap);

/* progress_start -- a thread that draws until progress_stop. Without a thread it shows nothing; the phase does not
 * suffer. */
void progress_start(struct progress *p);
void progress_stop(struct progress *p); /* also erases the bar */

#endif
