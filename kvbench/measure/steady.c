/* SPDX-License-Identifier: Apache-2.0 */
/* steady.c -- four windows in a row, and not two: of two noisy rates some pair agrees soon by chance. The last windows
 * must agree with each other and not with a trend, so a rate that still climbs by 2 % per window is not steady within
 * 5 %. */
#include "kvbench/measure/steady.h"

#include "kvbench/measure/runs.h"

bool bench_steady_add(struct bench_steady *s, double rate)
{
	struct bench_spread spread;
	s->rate[s->windows++ % BENCH_STEADY_WINDOWS] = rate;
	if (s->windows < BENCH_STEADY_WINDOWS)
		return false;
	bench_spread_of(s->rate, BENCH_STEADY_WINDOWS, &spread);
	s->spread = spread.spread;
	return spread.median > 0 && s->spread <= s->within;
}
