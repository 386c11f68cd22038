/* SPDX-License-Identifier: Apache-2.0 */
/* slo.h -- the search for the highest rate that keeps a percentile. Pure: the caller makes the trials. */
#ifndef KVRAIL_KVBENCH_MEASURE_SLO_H
#define KVRAIL_KVBENCH_MEASURE_SLO_H

#include <stdbool.h>
#include <stdint.h>

/* More than a search can need: 30 doublings lead from the lowest rate to the highest one (1 and 1e9 per second), and
 * from a factor of 2 four geometric middles lead to BENCH_SLO_CLOSE. */
enum { BENCH_SLO_TRIALS = 36 };

#define BENCH_SLO_CLOSE 1.05 /* the search ends when the lowest rate that failed is so near to the highest kept one */
#define BENCH_SLO_PART  64.0 /* no rate below this part of the first one is tried: lateness there is not by load */

/* Why a rate was not kept; 0: it was. */
enum bench_slo_why { BENCH_SLO_KEPT, BENCH_SLO_LATE, BENCH_SLO_BEHIND, BENCH_SLO_ERRORS, BENCH_SLO_WHYS };

struct bench_slo_trial {
	double rate, achieved; /* operations per second */
	uint64_t latency_ns;   /* at the percentile, from the intended start */
	uint64_t service_ns;   /* at the percentile, from the real one */
	uint64_t ops;
	enum bench_slo_why why;
};

struct bench_slo_search {
	double low, high; /* the highest kept rate, the lowest failed one above it; 0: none */
	double first;
	unsigned trials;
	struct bench_slo_trial row[BENCH_SLO_TRIALS];
};

/* bench_slo_begin -- first: the rate to begin with, above 0. */
void bench_slo_begin(struct bench_slo_search *s, double first);

/* bench_slo_next -- the rate of the next trial. False: the search is over. */
bool bench_slo_next(const struct bench_slo_search *s, double *out_rate);

/* bench_slo_tried -- add a trial. */
void bench_slo_tried(struct bench_slo_search *s, const struct bench_slo_trial *trial);

/* bench_slo_best -- the trial of the highest rate kept, or NULL. */
const struct bench_slo_trial *bench_slo_best(const struct bench_slo_search *s);

/* bench_slo_why_text -- for people; bench_slo_why_name -- for the JSON report. */
const char *bench_slo_why_text(enum bench_slo_why why);
const char *bench_slo_why_name(enum bench_slo_why why);

#endif
