/* SPDX-License-Identifier: Apache-2.0 */
/* arrivals.c -- the schedule of the open loop.
 *
 * It follows from rate and seed alone. An arrival counts from its planned time, however late a worker takes it, so
 * every wait counts (coordinated omission).
 *
 * Uniform: arrival i is due at i / rate. Recorded: at its time in the file, which is stretched to the rate. Poisson:
 * gaps are exponential, -ln(u) times the mean, u a hash of seed and number. A ramp bends the time of either schedule:
 * the number of arrivals that the full rate has in a time s, the rate that rises for T has until sqrt(2 T s), and
 * behind the ramp T / 2 later. */
#include "kvbench/load/arrivals.h"

#include <math.h>

#include "kvbench/load/workload.h"

enum { EACH_MAX = 1 << 20 };

#define DUE_MAX_NS    1e18 /* 30 years: whatever a rate near 0 comes to, it is not before that */
#define ARRIVALS_SEED 0x6172726976616c73ull

void bench_arrivals_init(struct bench_arrivals *a, double rate, bool poisson, uint64_t ramp_ns, uint64_t seed)
{
	*a = (struct bench_arrivals){
		.rate = rate, .poisson = poisson, .ramp_ns = ramp_ns, .seed = seed ^ ARRIVALS_SEED};
}

/* In (0, 1]. */
static double unit(uint64_t random)
{
	return (double)((random >> 11) + 1) * 0x1p-53;
}

static uint64_t ramped(const struct bench_arrivals *a, uint64_t due_ns)
{
	if (due_ns >= a->ramp_ns / 2)
		return due_ns + a->ramp_ns / 2;
	return (uint64_t)sqrt(2 * (double)a->ramp_ns * (double)due_ns);
}

/* In mean gaps since the start. */
static double recorded(const struct bench_recorded *r, uint64_t number)
{
	uint64_t place = number % r->count;
	return (double)(number - place) + r->at_ms[place] * ((double)r->count / r->cycle_ms);
}

/* Uniform, or recorded. */
static uint64_t planned(const struct bench_arrivals *a, uint64_t number)
{
	double gaps = a->recorded ? recorded(a->recorded, number) : (double)number;
	return ramped(a, (uint64_t)KV_MIN(gaps * 1e9 / a->rate, DUE_MAX_NS));
}

/* When the last of `count` arrivals from `number` on is due. Of poisson ones those before it are passed over at the
 * mean gap. */
static uint64_t due_of_last(struct bench_arrivals *a, uint64_t number, uint64_t count)
{
	if (a->poisson && count > 1)
		a->due_ns += (uint64_t)KV_MIN((double)(count - 1) * 1e9 / a->rate, DUE_MAX_NS - (double)a->due_ns);
	return bench_arrivals_due(a, number + count - 1);
}

uint64_t bench_arrivals_left(struct bench_arrivals *a, uint64_t number, uint64_t total, uint64_t end_ns,
			     void (*left)(void *arg, uint64_t number, uint64_t due_ns, uint64_t count), void *arg)
{
	uint64_t first = number, before_ns = 0;
	while (number < total) {
		struct bench_arrivals then = *a;
		uint64_t count = KV_MIN(1 + (number - first) / EACH_MAX, total - number), due_ns;
		while ((due_ns = due_of_last(&then, number, count)) >= end_ns && count > 1) {
			count /= 2;
			then = *a;
		}
		if (due_ns >= end_ns)
			break;
		*a = then;
		left(arg, number, count > 1 ? before_ns : due_ns, count);
		before_ns = due_ns;
		number += count;
	}
	return number - first;
}

uint64_t bench_arrivals_last(const struct bench_arrivals *a, uint64_t count)
{
	return a->poisson ? ramped(a, a->due_ns) : planned(a, count - 1);
}

uint64_t bench_arrivals_due(struct bench_arrivals *a, uint64_t number)
{
	double gap;
	if (!a->poisson)
		return planned(a, number);
	gap = -log(unit(bench_random(a->seed, number, 0))) * KV_MIN(1e9 / a->rate, DUE_MAX_NS) + a->carry_ns;
	gap = KV_MIN(gap, DUE_MAX_NS - (double)a->due_ns);
	a->carry_ns = gap - floor(gap);
	a->due_ns += (uint64_t)gap;
	return ramped(a, a->due_ns);
}
