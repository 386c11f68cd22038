/* SPDX-License-Identifier: Apache-2.0 */
/* steady.h -- whether rates of windows in a row agree: when a warm-up is over. Pure. */
#ifndef KVRAIL_KVBENCH_MEASURE_STEADY_H
#define KVRAIL_KVBENCH_MEASURE_STEADY_H

#include <stdbool.h>

enum { BENCH_STEADY_WINDOWS = 4 };

struct bench_steady {
	double within; /* a part of 1: the last windows' rates must be so close together */
	unsigned windows;
	double rate[BENCH_STEADY_WINDOWS]; /* of the last ones */
	double spread;                     /* of these: (max - min) / median */
};

/* bench_steady_add -- one more window had this rate. Returns whether the last BENCH_STEADY_WINDOWS agree. */
bool bench_steady_add(struct bench_steady *s, double rate);

#endif
