/* SPDX-License-Identifier: Apache-2.0 */
/* ticker.h -- a thread that works at certain times until it is stopped. */
#ifndef KVRAIL_KVBENCH_SETUP_TICKER_H
#define KVRAIL_KVBENCH_SETUP_TICKER_H

#include <pthread.h>

#include "base/base.h"

struct ticker { /* {0}: there is no thread */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool running, ending;
};

/* ticker_start -- run main(arg) in a thread. Returns 0 or -errno. */
int ticker_start(struct ticker *t, void *(*main)(void *arg), void *arg);

/* ticker_wait -- in the thread: wait until this time (CLOCK_MONOTONIC). False: it was stopped, and main returns. */
bool ticker_wait(struct ticker *t, uint64_t until_ns);

/* ticker_stop -- end the thread, and wait for its end. Without a thread there is nothing to do. */
void ticker_stop(struct ticker *t);

#endif
