/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h -- shows how far a phase is: a bar on a terminal, a line now and then elsewhere. */
#ifndef KVRAIL_KVBENCH_PROGRESS_H
#define KVRAIL_KVBENCH_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/base.h"

struct progress {
	/* set by the owner before progress_start */
	FILE *out;        /* NULL: show nothing */
	const char *name; /* of the phase */
	uint64_t total;   /* operations; UINT64_MAX: the phase ends by time */
	uint64_t duration_ns;
	uint64_t (*done)(void *arg); /* operations so far; called from the progress thread */
	void *arg;
	/* its own */
	bool running, tty, ending, drawn;
	uint64_t start_ns;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
};

/* progress_start -- a thread that draws until progress_stop. Without a thread it shows nothing; the phase does not
 * suffer. */
void progress_start(struct progress *p);
void progress_stop(struct progress *p); /* also erases the bar */

#endif
