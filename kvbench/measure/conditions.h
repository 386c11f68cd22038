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
	bool measured;       /* steal and others are there */
	double steal_share;  /* of all processors' time: taken by the hypervisor */
	double others_cores; /* processors that others than this process and its children kept busy, on average */
	double distance_before_ns, distance_after_ns; /* round trip of a cache line between two CPUs; 0: not known */
	double suspended_s;                           /* the machine slept so long: no clock of ours went on */
	/* at the start */
	double all, idle, steal, own, slept; /* seconds */
	uint64_t start_ns;
};

/* bench_distance_ns -- how far apart the first two CPUs of this process are: 0 where others kept them busy, below 0
 * where there is one only. Takes some milliseconds on two threads. */
double bench_distance_ns(void);

/* bench_distances_alike -- whether two distances are one and the same as far as a measurement can tell: it scatters by
 * half, and the next distance is twice as far or more. An unknown distance is like none. */
bool bench_distances_alike(double a_ns, double b_ns);

/* bench_distance_name -- "near", "mid", "far": of one core or cluster, of one socket, of two. The edges are a guess. */
const char *bench_distance_name(double ns);

/* bench_conditions_begin, _end -- around the measurement. server_seconds: CPU time so far of our own server. Children
 * that ended in between are counted by themselves. */
void bench_conditions_begin(struct bench_conditions *c, double server_seconds);
void bench_conditions_end(struct bench_conditions *c, double server_seconds);

/* bench_conditions_quiet -- measure others_cores anew while this process does nothing, for so long: where measured
 * servers are others as well. Blocks. quiet: of all calls together, at first {0}. */
struct bench_quiet {
	double busy, seconds; /* busy: processors' seconds */
};
void bench_conditions_quiet(struct bench_quiet *quiet, uint64_t ns);

/* bench_stat_parse -- the first line of /proc/stat: ticks of all processors, of those idle, of those stolen. False: it
 * is not such a line. */
bool bench_stat_parse(const char *line, uint64_t *all, uint64_t *idle, uint64_t *steal);

#endif
