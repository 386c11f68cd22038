/* SPDX-License-Identifier: Apache-2.0 */
/* conditions.c -- other users of the processors, and their distance.
 *
 * Virtual CPUs move between cores of the host, and two threads exchange data at half the speed when their CPUs share no
 * cache: the distance is taken before and after. The fastest of many short batches counts, since other processes
 * disturb the others. */
#include "kvbench/measure/conditions.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "host/host.h"

enum { TRIPS = 200, BATCHES = 100 };
#define TIME_MAX_NS 100000000ull
#define SLEPT_MIN_S 0.01 /* less is the time between two looks at clocks */
#define FAR_MAX_NS  5000 /* no two CPUs of one machine are farther apart: somebody else ran in every batch */

/* ---- the distance ---- */

struct court {
	_Alignas(KV_CACHELINE) _Atomic unsigned ball; /* odd: the other side's turn */
	_Alignas(KV_CACHELINE) _Atomic bool over;
	unsigned cpu[2];
	double ns; /* of a round trip; 0: no batch got through */
};

static bool pin(unsigned cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

static void *other_side(void *arg)
{
	struct court *c = arg;
	if (!pin(c->cpu[1]))
		return NULL;
	while (!atomic_load_explicit(&c->over, memory_order_relaxed)) {
		unsigned b = atomic_load_explicit(&c->ball, memory_order_acquire);
		if (b & 1)
			atomic_store_explicit(&c->ball, b + 1, memory_order_release);
	}
	return NULL;
}

static uint64_t batch(struct court *c, uint64_t end_ns)
{
	uint64_t start_ns = kv_clock_now(&kv_clock_monotonic);
	for (unsigned i = 0; i < TRIPS; i++) {
		unsigned b = atomic_load_explicit(&c->ball, memory_order_relaxed) + 1;
		atomic_store_explicit(&c->ball, b, memory_order_release);
		for (unsigned spins = 1; atomic_load_explicit(&c->ball, memory_order_acquire) == b; spins++)
			if (spins % 4096 == 0 && kv_clock_now(&kv_clock_monotonic) > end_ns)
				return 0;
	}
	return kv_clock_now(&kv_clock_monotonic) - start_ns;
}

/* A thread of its own, so that main stays where it may run. */
static void *this_side(void *arg)
{
	struct court *c = arg;
	uint64_t end_ns = kv_clock_now(&kv_clock_monotonic) + TIME_MAX_NS, best = UINT64_MAX, ns;
	for (unsigned i = 0; pin(c->cpu[0]) && i < BATCHES; i++) {
		ns = batch(c, end_ns);
		if (ns == 0)
			break;
		best = KV_MIN(best, ns);
	}
	c->ns = best == UINT64_MAX ? 0 : (double)best / TRIPS;
	return NULL;
}

double bench_distance_ns(void)
{
	struct court c = {.ns = 0};
	cpu_set_t allowed;
	pthread_t here, there;
	unsigned n = 0;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return 0;
	for (unsigned i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &allowed))
			c.cpu[n++] = i;
	if (n < 2)
		return -1;
	if (pthread_create(&there, NULL, other_side, &c))
		return 0;
	if (pthread_create(&here, NULL, this_side, &c) == 0)
		pthread_join(here, NULL);
	atomic_store(&c.over, true);
	pthread_join(there, NULL);
	return c.ns > FAR_MAX_NS ? 0 : c.ns;
}

/* ---- the processors ---- */

bool bench_stat_parse(const char *line, uint64_t *all, uint64_t *idle, uint64_t *steal)
{
	unsigned long long t[8] = {0};
	/* user nice system idle iowait irq softirq steal; guests are in user and nice already */
	if (sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
		   &t[7]) != 8)
		return false;
	*idle = t[3] + t[4];
	*steal = t[7];
	*all = *idle + *steal + t[0] + t[1] + t[2] + t[5] + t[6];
	return true;
}

static bool read_stat(double *all, double *idle, double *steal)
{
	char line[512];
	uint64_t a, i, s;
	double hz = (double)sysconf(_SC_CLK_TCK);
	if (!kv_file_line(line, sizeof(line), "/proc/stat") || !bench_stat_parse(line, &a, &i, &s) || hz <= 0)
		return false;
	*all = (double)a / hz;
	*idle = (double)i / hz;
	*steal = (double)s / hz;
	return true;
}

/* CLOCK_MONOTONIC, which all times of kv-bench are taken from, stands still while the machine is suspended. */
static double seconds_slept(void)
{
	double least = INFINITY;
	for (unsigned i = 0; i < 3; i++) {
		struct timespec with, without;
		clock_gettime(CLOCK_MONOTONIC, &without);
		clock_gettime(CLOCK_BOOTTIME, &with);
		least = fmin(least,
			     (double)(with.tv_sec - without.tv_sec) + (double)(with.tv_nsec - without.tv_nsec) / 1e9);
	}
	return least;
}

double bench_cpu_seconds(int who)
{
	struct rusage u;
	if (getrusage(who, &u) < 0)
		return 0;
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double own_seconds(void)
{
	return bench_cpu_seconds(RUSAGE_SELF) + bench_cpu_seconds(RUSAGE_CHILDREN);
}

void bench_conditions_begin(struct bench_conditions *c, double server_seconds)
{
	*c = (struct bench_conditions){.distance_before_ns = bench_distance_ns()};
	c->own = own_seconds() + server_seconds;
	c->slept = seconds_slept();
	c->start_ns = kv_clock_now(&kv_clock_monotonic);
	if (!read_stat(&c->all, &c->idle, &c->steal))
		c->all = 0;
}

void bench_conditions_end(struct bench_conditions *c, double server_seconds)
{
	double all, idle, steal, seconds = (double)(kv_clock_now(&kv_clock_monotonic) - c->start_ns) / 1e9;
	/* A clock of 10 ms says nothing about less than some of its ticks. */
	if (c->all > 0 && seconds >= 0.1 && read_stat(&all, &idle, &steal) && all > c->all) {
		double busy = (all - c->all) - (idle - c->idle) - (steal - c->steal);
		double others = (busy - (own_seconds() + server_seconds - c->own)) / seconds;
		c->measured = true;
		c->steal_share = KV_MAX((steal - c->steal) / (all - c->all), 0.0);
		c->others_cores = KV_MAX(others, 0.0);
	}
	c->suspended_s = seconds_slept() - c->slept;
	if (c->suspended_s < SLEPT_MIN_S)
		c->suspended_s = 0;
	c->distance_after_ns = bench_distance_ns();
}
