/* SPDX-License-Identifier: Apache-2.0 */
/* stuck.c -- a signal ends kv-bench, even if one of its loops does not turn any more.
 *
 * From the signal on a thread asks each loop twice a second, and counts the times in a row in which one did not answer.
 * It counts instead of comparing times: a stopped process had no time to answer. The work of the main thread between
 * two pools, such as the report, has no bound here: a second signal ends it at once. */
#include "kvbench/setup/stuck.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 500, TICKS = 20, PACE_MAX = 100 };
#define ANSWER_NS 100000000ull

static struct {
	sem_t woken;
	_Atomic int signal;
	_Atomic bool over;
	bool watched; /* thread is valid */
	pthread_t thread;
	pthread_mutex_t lock;
	struct kvc_pool *pool; /* the open one */
	bool between;          /* it is being opened or closed */
} w = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void now_is(struct kvc_pool *pool, bool between)
{
	pthread_mutex_lock(&w.lock);
	w.pool = pool;
	w.between = between;
	pthread_mutex_unlock(&w.lock);
}

static bool loops_turn(struct kvc_pool *pool)
{
	for (unsigned i = 0; i < kvc_num_clients(pool); i++) {
		struct kvc_server_info info = {.size = sizeof(info)};
		int rc = kvc_server_info_within(pool, i, 0, ANSWER_NS, &info);
		if (rc == -KV_ETIMEOUT || rc == -KV_EBUSY)
			return false;
	}
	return true;
}

static bool stands_still(void)
{
	bool still;
	pthread_mutex_lock(&w.lock);
	still = w.between || (w.pool && !loops_turn(w.pool));
	pthread_mutex_unlock(&w.lock);
	return still;
}

/* Tests have less patience than a user, as with kv-server. */
static unsigned tick_ms(void)
{
	const char *text = getenv("KVRAIL_TEST_STUCK_PACE");
	uint64_t pace = 1;
	if (text && kv_u64_parse(text, &pace) < 0)
		pace = 1;
	return TICK_MS / (unsigned)KV_MIN(KV_MAX(pace, (uint64_t)1), (uint64_t)PACE_MAX);
}

static void *watch(void *arg)
{
	unsigned ms = tick_ms(), still = 0;
	(void)arg;
	while (sem_wait(&w.woken) < 0)
		;
	for (;;) {
		uint64_t at = kv_deadline(kv_clock_now(&kv_clock_monotonic), (uint64_t)ms * 1000000);
		struct timespec until = {.tv_sec = (time_t)(at / 1000000000), .tv_nsec = (long)(at % 1000000000)};
		(void)sem_clockwait(&w.woken, CLOCK_MONOTONIC, &until);
		if (w.over)
			return NULL;
		still = stands_still() ? still + 1 : 0;
		if (still <= TICKS)
			continue;
		dprintf(STDERR_FILENO,
			"kv-bench: a thread of the run has not answered for %.1f s after signal %d: ended\n",
			(double)ms * TICKS / 1e3, w.signal);
		_exit(128 + w.signal);
	}
	return NULL;
}

void stuck_watch(void)
{
	sigset_t all, before;
	sem_init(&w.woken, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	w.watched = pthread_create(&w.thread, NULL, watch, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void stuck_signal(int number)
{
	int saved = errno;
	w.signal = number;
	sem_post(&w.woken);
	errno = saved;
}

void stuck_end(void)
{
	if (!w.watched)
		return;
	w.over = true;
	sem_post(&w.woken);
	pthread_join(w.thread, NULL);
	w.watched = false;
}

int bench_pool_open(const struct kvc_options *options, struct kvc_pool **out, struct kv_error *err)
{
	int rc;
	now_is(NULL, true);
	rc = kvc_pool_open(options, out, err);
	now_is(rc < 0 ? NULL : *out, false);
	return rc;
}

void bench_pool_close(struct kvc_pool **pool)
{
	now_is(NULL, true);
	kvc_pool_close(pool);
	now_is(NULL, false);
}
