/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c -- a thread per phase that reads one counter.
 *
 * The workers never draw: a terminal that is slow (or stopped with Ctrl-S) must not slow a loop thread. */
#include "kvbench/progress.h"

#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 30, TTY_STEP_MS = 100, LINE_STEP_MS = 5000 };

static double fraction_done(const struct progress *p, uint64_t done, uint64_t elapsed_ns)
{
	double f = p->total != UINT64_MAX ? (double)done / (double)KV_MAX(p->total, (uint64_t)1)
					  : (double)elapsed_ns / (double)KV_MAX(p->duration_ns, (uint64_t)1);

	return KV_MIN(f, 1.0);
}

static void draw(struct progress *p)
{
	uint64_t elapsed_ns = kv_clock_now(&kv_clock_monotonic) - p->start_ns, done = KV_MIN(p->done(p->arg), p->total);
	double f = fraction_done(p, done, elapsed_ns), per_s = elapsed_ns ? (double)done * 1e9 / (double)elapsed_ns : 0;
	int full = (int)(f * BAR_WIDTH);

	if (p->tty)
		fprintf(p->out, "\r\033[K%-8s [%.*s%*s] %3.0f %%  %llu ops  %.0f ops/s", p->name, full,
			"==============================", BAR_WIDTH - full, "", f * 100, (unsigned long long)done,
			per_s);
	else
		fprintf(p->out, "%-8s %3.0f %%  %llu ops  %.0f ops/s\n", p->name, f * 100, (unsigned long long)done,
			per_s);
	fflush(p->out);
	p->drawn = true;
}

static struct timespec after_ms(unsigned ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

static void *progress_main(void *arg)
{
	struct progress *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->ending) {
		struct timespec until = after_ms(p->tty ? TTY_STEP_MS : LINE_STEP_MS);
		while (!p->ending && pthread_cond_timedwait(&p->wake, &p->lock, &until) == 0)
			;
		if (!p->ending)
			draw(p);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

void progress_start(struct progress *p)
{
	pthread_condattr_t attr;

	p->running = p->ending = p->drawn = false;
	if (!p->out)
		return;
	p->tty = isatty(fileno(p->out));
	p->start_ns = kv_clock_now(&kv_clock_monotonic);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, &attr);
	pthread_condattr_destroy(&attr);
	p->running = pthread_create(&p->thread, NULL, progress_main, p) == 0;
	if (!p->running) {
		pthread_cond_destroy(&p->wake);
		pthread_mutex_destroy(&p->lock);
	}
}

void progress_stop(struct progress *p)
{
	if (!p->running)
		return;
	pthread_mutex_lock(&p->lock);
	p->ending = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	p->running = false;
	if (p->tty && p->drawn) {
		fputs("\r\033[K", p->out);
		fflush(p->out);
	}
}
