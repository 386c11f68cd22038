/* SPDX-License-Identifier: Apache-2.0 */
/* ticker.c -- see ticker.h. */
#include "kvbench/setup/ticker.h"

int ticker_start(struct ticker *t, void *(*main)(void *arg), void *arg)
{
	pthread_condattr_t attr;
	int rc;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->wake, &attr);
	pthread_condattr_destroy(&attr);
	t->ending = false;
	t->running = true; /* before the thread, which reads its neighbours */
	rc = -pthread_create(&t->thread, NULL, main, arg);
	if (rc < 0) {
		t->running = false;
		pthread_cond_destroy(&t->wake);
		pthread_mutex_destroy(&t->lock);
	}
	return rc;
}

bool ticker_wait(struct ticker *t, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
	bool ending;
	pthread_mutex_lock(&t->lock);
	while (!t->ending && pthread_cond_timedwait(&t->wake, &t->lock, &until) == 0)
		;
	ending = t->ending;
	pthread_mutex_unlock(&t->lock);
	return !ending;
}

void ticker_stop(struct ticker *t)
{
	if (!t->running)
		return;
	pthread_mutex_lock(&t->lock);
	t->ending = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	t->running = false;
}
