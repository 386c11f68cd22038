/* SPDX-License-Identifier: Apache-2.0 */
/* arrivals.c -- the schedule of the open loop.
 *
 * It follows from rate and seed alone. Whoever takes an arrival late takes it as due when it was planned, so a system
 * that falls behind does not slow the load down, and every wait counts (coordinated omission).
 *
 * Uniform: arrival i is due at i / rate, computed from i. Poisson: gaps are exponential, -ln(u) times the mean, u a
 * hash of seed and number, so arrivals do not know of each other, as requests of many users do not. Gaps are added up
 * as whole nanoseconds with the rest carried on, not as one growing double: the millionth arrival is as exact as the
 * first. */
#include "kvbench/load/arrivals.h"

#include <math.h>

#include "kvbench/load/workload.h"

#define ARRIVALS_SEED 0x6172726976616c73ull

void bench_arrivals_init(struct bench_arrivals *a, double rate, bool poisson, uint64_t seed)
{
	*a = (struct bench_arrivals){.rate = rate, .poisson = poisson, .seed = seed ^ ARRIVALS_SEED};
}

/* In (0, 1]. */
static double unit(uint64_t random)
{
	return (double)((random >> 11) + 1) * 0x1p-53;
}

uint64_t bench_arrivals_due(struct bench_arrivals *a, uint64_t number)
{
	double gap;
	if (!a->poisson)
		return (uint64_t)((double)number * 1e9 / a->rate);
	gap = -log(unit(bench_random(a->seed, number, 0))) * (1e9 / a->rate) + a->carry_ns;
	a->carry_ns = gap - floor(gap);
	a->due_ns += (uint64_t)gap;
	return a->due_ns;
}
