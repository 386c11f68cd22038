/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c -- a thread per phase that reads one counter.
 *
 * The workers never draw: a slow terminal (or one stopped with Ctrl-S) must not slow a loop thread. */
#include "kvbench/measure/progress.h"

#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 20, TTY_STEP_MS = 100, LINE_STEP_MS = 5000, ALWAYS_STEP_MS = 1000, WIDTH_MAX = 79 };

static double fraction_done(const struct progress *p, uint64_t done, uint64_t elapsed_ns)
{
	double f = p->total != UINT64_MAX ? (double)done / (double)KV_MAX(p->total, (uint64_t)1)
					  : (double)elapsed_ns / (double)KV_MAX(p->duration_ns, (uint64_t)1);
	return KV_MIN(f, 1.0);
}

/* "12 s left", from how long it took so far; nothing while that says little. */
static void left_text(double f, uint64_t elapsed_ns, char *buf, size_t cap)
{
	double left_s = f > 0 ? (double)elapsed_ns / 1e9 * (1 - f) / f : 0;
	buf[0] = '\0';
	if (f < 0.001 || elapsed_ns < 200000000)
		return;
	if (left_s < 120)
		snprintf(buf, cap, "  %.0f s left", left_s);
	else if (left_s < 7200)
		snprintf(buf, cap, "  %.0f min left", left_s / 60);
	else
		snprintf(buf, cap, "  %.0f h left", left_s / 3600);
}

/* With percentiles: the rates are those of the last window, and there is no room for a bar. */
static void live_text(const struct progress *p, double f, const char *left, char *buf, size_t cap)
{
	const struct bench_window *w = &p->window;
	double seconds = (double)KV_MAX(w->length_ns, (uint64_t)1) / 1e9;
	char rate[32], p50[32], p99[32];
	int len = snprintf(buf, cap, "%-8s %3.0f %%  %.0f %s/s  %s", p->name, f * 100, (double)w->ops / seconds,
			   p->unit ? p->unit : "ops", kv_rate_format((double)w->bytes / seconds, rate, sizeof(rate)));
	if (w->samples > 0)
		len += snprintf(buf + len, cap - (size_t)len, "  p50 %s  p99 %s",
				kv_duration_format(w->p50_ns, p50, sizeof(p50)),
				w->p99_ns ? kv_duration_format(w->p99_ns, p99, sizeof(p99)) : "-");
	if ((size_t)len + strlen(left) <= WIDTH_MAX)
		snprintf(buf + len, cap - (size_t)len, "%s", left);
}

char *progress_text(const struct progress *p, uint64_t done, uint64_t elapsed_ns, char *buf, size_t cap)
{
	double f = fraction_done(p, done, elapsed_ns), per_s = elapsed_ns ? (double)done * 1e9 / (double)elapsed_ns : 0;
	double full_per_s = done ? per_s * (double)(done - KV_MIN(p->bare_ops, done)) / (double)done : 0;
	char rate[32] = "", bytes[40] = "", left[40];
	const char *unit = p->unit ? p->unit : "ops";
	int full = (int)(f * BAR_WIDTH);
	left_text(f, elapsed_ns, left, sizeof(left));
	if (p->has_window) {
		live_text(p, f, left, buf, cap);
		return buf;
	}
	if (p->unit_bytes)
		snprintf(bytes, sizeof(bytes), "  %s",
			 kv_rate_format(full_per_s * (double)p->unit_bytes, rate, sizeof(rate)));
	if (p->tty)
		snprintf(buf, cap, "%-8s [%.*s%*s] %3.0f %%  %.0f %s/s%s%s", p->name, full,
			 "====================", BAR_WIDTH - full, "", f * 100, per_s, unit, bytes, left);
	else
		snprintf(buf, cap, "%-8s %3.0f %%  %llu %s  %.0f %s/s%s%s", p->name, f * 100, (unsigned long long)done,
			 unit, per_s, unit, bytes, left);
	return buf;
}

/* On a narrow terminal the end is cut off: a line that continues in the next one cannot be drawn over. */
static void fit(const struct progress *p, char *text)
{
	struct winsize size;
	if (p->tty && ioctl(fileno(p->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && strlen(text) >= size.ws_col)
		text[size.ws_col - 1] = '\0';
}

static void draw(struct progress *p)
{
	uint64_t elapsed_ns = kv_clock_now(&kv_clock_monotonic) - p->start_ns;
	char text[128];
	p->has_window = (p->tty || p->always) && series_live(p->series, &p->window);
	p->bare_ops = p->bare ? p->bare(p->arg) : 0;
	progress_text(p, KV_MIN(p->done(p->arg), p->total), elapsed_ns, text, sizeof(text));
	fit(p, text);
	fprintf(p->out, p->tty ? "\r\033[K%s" : "%s\n", text);
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
	unsigned step_ms = p->always ? ALWAYS_STEP_MS : LINE_STEP_MS;
	pthread_mutex_lock(&p->lock);
	while (!p->ending) {
		struct timespec until = after_ms(p->tty ? TTY_STEP_MS : step_ms);
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
	p->tty = kv_terminal(p->out);
	p->start_ns = kv_clock_now(&kv_clock_monotonic);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, &attr);
	pthread_condattr_destroy(&attr);
	p->running = true; /* not later: a compiler may read it together with its neighbours, which the thread asks */
	if (pthread_create(&p->thread, NULL, progress_main, p)) {
		p->running = false;
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
