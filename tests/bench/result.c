/* SPDX-License-Identifier: Apache-2.0 */
/* result.c -- the one line that a load tool prints. The driver reads it; names are the same for all tools. */
#include "tests/bench/result.h"

#include <stdio.h>
#include <sys/resource.h>

void result_init(struct result *r)
{
	*r = (struct result){0};
	kv_hist_init(&r->latency);
}

int result_print(const struct result *r)
{
	double seconds = (double)r->elapsed_ns / 1e9;
	double per_s = seconds > 0 ? 1 / seconds : 0;
	printf("{\"gets\": %llu, \"seconds\": %.6f, \"gets_per_s\": %.1f, \"bytes_per_s\": %.0f, \"p50_ns\": %llu, "
	       "\"p99_ns\": %llu, \"cpu_seconds\": %.3f}\n",
	       (unsigned long long)r->gets, seconds, (double)r->gets * per_s, (double)r->bytes * per_s,
	       (unsigned long long)kv_hist_quantile(&r->latency, 0.5),
	       (unsigned long long)kv_hist_quantile(&r->latency, 0.99), r->cpu_seconds);
	return fflush(stdout) == 0 ? 0 : -1;
}

double cpu_seconds_now(void)
{
	struct rusage u = {0};
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}
