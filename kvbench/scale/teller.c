/* SPDX-License-Identifier: Apache-2.0 */
/* teller.c -- what a step tells its parent, and when it gives up. */
#include <stdarg.h>

#include "host/host.h"
#include "kvbench/scale/scale.h"
#include "kvbench/setup/signals.h"
#include "probe/probe.h"

void scale_tell(struct scale_teller *t)
{
	probe_tell((int)t->opt->step_fd, &t->step, sizeof(t->step));
}

void scale_measure(struct scale_teller *t)
{
	struct kv_process p;
	kv_process_read(0, &p);
	t->step.rss = KV_MAX(t->step.rss, p.rss);
	t->step.files = (uint32_t)KV_MAX(t->step.files, p.files);
	t->step.threads = (uint32_t)KV_MAX(t->step.threads, p.threads);
}

void scale_end(struct scale_teller *t, const char *fmt, ...)
{
	va_list args;
	if (t->step.ended)
		return;
	t->step.ended = true;
	va_start(args, fmt);
	vsnprintf(t->step.text, sizeof(t->step.text), fmt, args);
	va_end(args);
}

bool scale_over(const struct scale_teller *t)
{
	return bench_interrupted() || kv_clock_now(&kv_clock_monotonic) >= t->deadline_ns;
}
