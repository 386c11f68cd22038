/* SPDX-License-Identifier: Apache-2.0 */
/* arrivals.h -- when operations are due in the open loop. Pure but for the counting: no clock is read here. */
#ifndef KVRAIL_KVBENCH_LOAD_ARRIVALS_H
#define KVRAIL_KVBENCH_LOAD_ARRIVALS_H

#include <stdbool.h>

#include "base/base.h"

struct bench_recorded {
	double *at_ms;   /* in order, the first is 0 */
	uint64_t count;  /* 2 or more; 0: there are none */
	double cycle_ms; /* until the first comes again: as long after the last as the mean gap */
};

struct bench_arrivals {
	double rate;
	bool poisson;
	const struct bench_recorded *recorded; /* set it after init; NULL: none */
	uint64_t ramp_ns;
	uint64_t seed;
	uint64_t due_ns; /* poisson: when the last one was due, without a ramp */
	double carry_ns; /* the part of a nanosecond that due_ns lacks */
};

/* bench_arrivals_init -- rate: operations per second, above 0. ramp_ns: the rate rises from 0 to that, evenly, in this
 * time; 0: it is that from the start. */
void bench_arrivals_init(struct bench_arrivals *a, double rate, bool poisson, uint64_t ramp_ns, uint64_t seed);

/* bench_arrivals_due -- when arrival `number` is due, in ns after the start. Poisson: number must be one more than at
 * the last call, and 0 at the first; the caller locks. Uniform: any number from any thread. */
uint64_t bench_arrivals_due(struct bench_arrivals *a, uint64_t number);

/* bench_arrivals_left -- the arrivals from `number` up to but not `total` that were due before end_ns (from the start):
 * calls `left` in their order with the number of each, its due time, and 1. Poisson: number as for bench_arrivals_due.
 * Beyond the first million one call stands for several, `count` of them from that number on, all as due as the first:
 * so the time of this function is bounded, and an age is too large by less than a millionth of the oldest. Returns how
 * many arrivals there were. Moves *a. */
uint64_t bench_arrivals_left(struct bench_arrivals *a, uint64_t number, uint64_t total, uint64_t end_ns,
			     void (*left)(void *arg, uint64_t number, uint64_t due_ns, uint64_t count), void *arg);

/* bench_arrivals_last -- when the last of the first `count` is due, count above 0. Poisson: of all drawn ones. */
uint64_t bench_arrivals_last(const struct bench_arrivals *a, uint64_t count);

#endif
