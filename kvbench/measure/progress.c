/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c -- a thread per phase that reads one counter.
 *
 * The workers never draw: a slow terminal (or one stopped with Ctrl-S) must not slow a loop thread. */
#include "kvbench/measure/progress.h"

#include <sys/ioctl.h>
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

static void *progress_main(void *arg)
{
	struct progress *p = arg;
	uint64_t step_ms = p->always ? ALWAYS_STEP_MS : LINE_STEP_MS;
	if (p->tty)
		step_ms = TTY_STEP_MS;
	while (ticker_wait(&p->ticker, kv_deadline(kv_clock_now(&kv_clock_monotonic), step_ms * 1000000)))
		draw(p);
	return NULL;
}

void progress_start(struct progress *p)
{
	p->drawn = false;
	if (!p->out)
		return;
	p->tty = kv_terminal(p->out);
	p->start_ns = kv_clock_now(&kv_clock_monotonic);
	(void)ticker_start(&p->ticker, progress_main, p);
}

void progress_stop(struct progress *p)
{
	ticker_stop(&p->ticker);
	if (p->tty && p->drawn) {
		fputs("\r\033[K", p->out);
		fflush(p->out);
	}
}
