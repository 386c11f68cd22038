/* SPDX-License-Identifier: Apache-2.0 */
/* stuck.c -- a signal ends kv-server, even if one of its loops does not turn any more.
 *
 * After the signal a thread asks the loops twice a second, and counts consecutive times with an answer missing. It
 * counts instead of reading a clock: a stopped process had no time to answer. */
#include "kvserver/stuck.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 500, TICKS = 20 };

/* False: the server has stopped. */
static bool tick_wait(struct stuck *s)
{
	struct timespec until;
	int rc;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)s->tick_ms * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	do
		rc = sem_clockwait(&s->over, CLOCK_MONOTONIC, &until);
	while (rc < 0 && errno == EINTR);
	return rc < 0;
}

static void give_up(const struct stuck *s)
{
	char loop[32] = "a loop";
	kvs_server_stuck_loop(s->server, loop, sizeof(loop));
	kv_event(s->log, KV_LOG_ERROR,
		 KV_EVENT("stuck", KV_FIELD("loop", loop), KV_NUMBER("ms", (uint64_t)s->tick_ms * TICKS)),
		 "%s has not turned for %.1f s after signal %d; the process ends without it", loop,
		 (double)s->tick_ms * TICKS / 1e3, s->signal);
	_exit(128 + s->signal);
}

static void *watch(void *arg)
{
	struct stuck *s = arg;
	unsigned owed = 0;
	while (tick_wait(s)) {
		owed = kvs_server_alive(s->server) ? 0 : owed + 1;
		if (owed > TICKS)
			give_up(s);
	}
	return NULL;
}

void stuck_begin(struct stuck *s, struct kvs_server *server, int signal, unsigned pace, const struct kv_log *log)
{
	sigset_t all, before;
	*s = (struct stuck){.server = server, .log = log, .signal = signal, .tick_ms = KV_MAX(TICK_MS / pace, 1u)};
	sem_init(&s->over, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	s->there = pthread_create(&s->thread, NULL, watch, s) == 0; /* else a second signal is needed */
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void stuck_end(struct stuck *s)
{
	if (s->there) {
		sem_post(&s->over);
		pthread_join(s->thread, NULL);
	}
	sem_destroy(&s->over);
}
