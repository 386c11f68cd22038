/* SPDX-License-Identifier: Apache-2.0 */
/* c2c.c -- how far apart two CPUs are: the round trip of a cache line between them, in ns.
 *
 * Virtual CPUs move between cores of the host while we measure, and everything that two processes do together is twice
 * as slow when their CPUs share no cache. The driver runs this before and after each run, and compares only runs of one
 * state. The fastest of many short batches counts: a batch in which somebody else ran on one of the CPUs is slow, and
 * says nothing about the distance. Prints {"c2c_ns": N}: null where there is no second CPU, 0 where others kept the
 * CPUs so busy that not one batch got through. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/bench/result.h"

enum { TRIPS = 200, BATCHES = 200 };
#define TIME_MAX_NS 500000000ull
#define FAR_MAX_NS  5000 /* no two CPUs of one machine are farther apart: somebody else ran in every batch */

static _Alignas(KV_CACHELINE) _Atomic unsigned ball; /* odd: the other side's turn */
static _Alignas(KV_CACHELINE) _Atomic bool over;

static int pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void *other_side(void *arg)
{
	if (pin(*(const unsigned *)arg))
		return NULL; /* the first batch then never ends by itself: measure() gives up by the clock */
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		unsigned b = atomic_load_explicit(&ball, memory_order_acquire);
		if (b & 1)
			atomic_store_explicit(&ball, b + 1, memory_order_release);
	}
	return NULL;
}

/* One batch; 0 when the end of the measurement came first. */
static uint64_t batch(uint64_t end_ns)
{
	uint64_t start = now_ns();

	for (unsigned i = 0; i < TRIPS; i++) {
		unsigned b = atomic_load_explicit(&ball, memory_order_relaxed) + 1;
		atomic_store_explicit(&ball, b, memory_order_release);
		for (unsigned spins = 1; atomic_load_explicit(&ball, memory_order_acquire) == b; spins++)
			if (spins % 4096 == 0 && now_ns() > end_ns)
				return 0;
	}
	return now_ns() - start;
}

static double measure(void)
{
	uint64_t end_ns = now_ns() + TIME_MAX_NS, best = UINT64_MAX;

	for (unsigned i = 0; i < BATCHES; i++) {
		uint64_t ns = batch(end_ns);
		if (ns == 0)
			break;
		best = KV_MIN(best, ns);
	}
	return best == UINT64_MAX ? -1 : (double)best / TRIPS;
}

int main(void)
{
	unsigned cpu[2], n = 0;
	cpu_set_t allowed;
	pthread_t thread;
	double ns;
	int rc;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0) {
		fprintf(stderr, "c2c: sched_getaffinity: %s\n", strerror(errno));
		return 1;
	}
	for (unsigned i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &allowed))
			cpu[n++] = i;
	if (n < 2) {
		printf("{\"c2c_ns\": null}\n");
		return 0;
	}
	rc = pthread_create(&thread, NULL, other_side, &cpu[1]);
	if (rc) {
		fprintf(stderr, "c2c: no second thread: %s\n", strerror(rc));
		return 1;
	}
	ns = pin(cpu[0]) ? -1 : measure();
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	printf("{\"c2c_ns\": %.1f}\n", ns < 0 || ns > FAR_MAX_NS ? 0 : ns);
	return 0;
}
