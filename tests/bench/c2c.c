/* SPDX-License-Identifier: Apache-2.0 */
/* c2c.c -- how far apart two CPUs are: the round trip of a cache line between them, in ns.
 *
 * The driver runs this before and after each run, and compares only runs of one state (kvbench/measure/conditions.c,
 * which measures, says why). Prints {"c2c_ns": N}: null where there is no second CPU, 0 where others kept the CPUs so
 * busy that not one batch got through. */
#include <stdio.h>

#include "kvbench/measure/conditions.h"

int main(void)
{
	double ns = bench_distance_ns();
	if (ns < 0)
		printf("{\"c2c_ns\": null}\n");
	else
		printf("{\"c2c_ns\": %.1f}\n", ns);
	return 0;
}
