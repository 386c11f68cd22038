/* SPDX-License-Identifier: Apache-2.0 */
/* slo.c -- double or halve the rate until one was kept and one was not, then go to the geometric middle of the two
 * until they are near each other.
 *
 * This takes latency to rise with the rate. After a disturbed trial the answer is too low, never too high. */
#include "kvbench/measure/slo.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define RATE_MIN 1.0
#define RATE_MAX 1e9

void bench_slo_begin(struct bench_slo_search *s, double first)
{
	memset(s, 0, sizeof(*s));
	s->first = fmin(fmax(first, RATE_MIN), RATE_MAX);
}

bool bench_slo_next(const struct bench_slo_search *s, double *out_rate)
{
	if (s->trials == BENCH_SLO_TRIALS)
		return false;
	if (s->trials == 0)
		*out_rate = s->first;
	else if (s->low == 0)
		*out_rate = s->high / 2;
	else if (s->high == 0)
		*out_rate = s->low * 2;
	else if (s->high > s->low * BENCH_SLO_CLOSE)
		*out_rate = sqrt(s->low * s->high);
	else
		return false;
	return *out_rate * BENCH_SLO_PART >= s->first && *out_rate <= RATE_MAX;
}

void bench_slo_tried(struct bench_slo_search *s, const struct bench_slo_trial *trial)
{
	s->row[s->trials++] = *trial;
	if (trial->why == BENCH_SLO_KEPT)
		s->low = trial->rate;
	else
		s->high = trial->rate;
}

const struct bench_slo_trial *bench_slo_best(const struct bench_slo_search *s)
{
	const struct bench_slo_trial *best = NULL;
	for (unsigned i = 0; i < s->trials; i++)
		if (s->row[i].why == BENCH_SLO_KEPT && (!best || s->row[i].rate > best->rate))
			best = &s->row[i];
	return best;
}

const char *bench_slo_why_text(enum bench_slo_why why)
{
	static const char *const texts[] = {"kept", "above the limit", "did not keep up", "errors or misses"};
	return texts[why];
}

const char *bench_slo_why_name(enum bench_slo_why why)
{
	static const char *const names[] = {"kept", "late", "behind", "errors"};
	return names[why];
}
