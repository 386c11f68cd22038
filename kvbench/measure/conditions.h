/* SPDX-License-Identifier: Apache-2.0 */
/* conditions.h -- the machine while a run measured: other users of its processors, and the distance between two of
 * them. Thread: main. */
#ifndef KVRAIL_KVBENCH_MEASURE_CONDITIONS_H
#define KVRAIL_KVBENCH_MEASURE_CONDITIONS_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_SHARED_CORES 0.25 /* of other processes: from here on the machine counts as shared */

struct bench_conditions {
	/* results; a figure without a measurement is absent */
	bool measured;
	double steal_share;  /* of all processors' time: taken by the hypervisor */
	double others_cores; /* processors that others than this process and its children kept busy, on average */
	double distance_before_ns, distance_after_ns; /* round trip of a cache line between two CPUs; 0: not known */
	double suspended_s;                           /* the time for which the machine slept: our clocks stood still */
	/* at the start */
	double all, idle, steal, own, slept; /* seconds */
	uint64_t start_ns;
};

/* bench_distance_ns -- how far apart the first two CPUs of this process are: 0 where others kept them busy, below 0
 * where there is one only. Takes some milliseconds on two threads. */
double bench_distance_ns(void);

/* bench_cpu_seconds -- CPU time so far. who: as for getrusage. */
double bench_cpu_seconds(int who);

/* bench_conditions_begin, _end -- around the measurement. server_seconds: CPU time so far of our own server. Children
 * that ended in between are counted by themselves. */
void bench_conditions_begin(struct bench_conditions *c, double server_seconds);
void bench_conditions_end(struct bench_conditions *c, double server_seconds);

/* bench_stat_parse -- the first line of /proc/stat: ticks of all processors, of those idle, of those stolen. False: it
 * is not such a line. */
bool bench_stat_parse(const char *line, uint64_t *all, uint64_t *idle, uint64_t *steal);

#endif
