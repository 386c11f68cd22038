/* SPDX-License-Identifier: Apache-2.0 */
/* reads.c -- the measured phase with its warm-up, runs and trials.
 *
 * Runs follow each other against the same server and keys, each in another order and with other arrivals. results.read
 * is the sum of all runs, so its histogram has all samples; results.runs has each run.
 *
 * A trial of --slo is a run in the open loop. It makes as many operations as its rate has in its time, at least TAIL
 * beyond the percentile, and ends early if it falls far behind; such a trial is not kept. The first rate is half of
 * what a short closed loop does. results.read is then the trial of the highest rate kept, or the last one. */
#include "kvbench/load/reads.h"

#include <math.h>

#include "kvbench/load/async.h"
#include "kvbench/load/batch.h"
#include "kvbench/load/mix.h"
#include "kvbench/setup/signals.h"

#define STEADY_WINDOW_NS 250000000ull
#define STEADY_MAX_NS    30000000000ull
#define TRIAL_NS         2000000000ull /* unless --duration says otherwise */
#define TRIAL_SLACK_NS   1000000000ull
#define BEHIND_MAX       1.05          /* a trial that takes longer than this times its schedule is not kept */
#define CEILING_NS       1000000000ull /* of the closed loop before the trials */

enum { TAIL = 10 };

uint64_t reads_ops(const struct bench_options *o, uint64_t keys)
{
	return o->load.batch ? (keys + o->load.batch - 1) / o->load.batch : keys;
}

static struct phase reads_phase(struct bench *b, uint64_t first_op, uint64_t total, uint64_t duration_ns)
{
	const struct bench_options *o = b->opt;
	struct phase p = {.bench = b,
			  .name = "read",
			  .run = o->load.batch ? phase_op_batch : phase_op_read,
			  .first_op = first_op,
			  .total = total,
			  .duration_ns = duration_ns,
			  .keys_per_op = o->load.batch,
			  .raw = BENCH_RAW_READ,
			  .poisson = o->pace.arrivals == BENCH_POISSON,
			  .recorded = b->recorded.count ? &b->recorded : NULL,
			  .verify = o->load.verify};
	async_phase(&p, false);
	mix_phase(&p);
	return p;
}

static bool good(const struct bench *b, const struct phase_result *r)
{
	return !bench_interrupted() && !r->too_many_errors && !r->server_died && !server_child_dead(b->server);
}

static uint64_t ops_of(const struct phase_result *r)
{
	return r[MIX_GET].tally.ops + r[MIX_PUT].tally.ops + r[MIX_EXISTS].tally.ops;
}

/* Static: a result has histograms, and there is one run at a time. */
static struct phase_result *result_clear(void)
{
	static struct phase_result result[MIX_KINDS];
	memset(result, 0, sizeof(result));
	for (unsigned i = 0; i < MIX_KINDS; i++)
		bench_tally_init(&result[i].tally);
	return result;
}

static void result_take(struct bench *b, struct phase_result *r)
{
	phase_result_merge(&b->results.read, &r[MIX_GET]);
	phase_result_merge(&b->results.mix_put, &r[MIX_PUT]);
	phase_result_merge(&b->results.mix_exists, &r[MIX_EXISTS]);
}

/* ---- warm-up ---- */

int reads_steady(struct bench *b, struct kv_error *err)
{
	struct bench_steady *s = &b->results.steady;
	struct phase_result *w = &b->results.warmup, *r;
	uint64_t first_op = 0;
	bool steady = false;
	int rc = 0;
	s->within = b->opt->pace.warmup_steady / 100;
	while (rc == 0 && !steady && w->elapsed_ns < STEADY_MAX_NS && good(b, w)) {
		struct phase p = reads_phase(b, first_op, UINT64_MAX, STEADY_WINDOW_NS);
		p.name = "warm-up";
		p.raw = BENCH_RAW_WARMUP;
		p.raw_run = s->windows + 1;
		r = result_clear();
		rc = phase_run(&p, r, err);
		first_op += atomic_load(&p.own.next);
		steady = bench_steady_add(s, bench_per_second((double)ops_of(r), r));
		for (unsigned i = 1; i < MIX_KINDS; i++)
			bench_tally_merge(&r[0].tally, &r[i].tally);
		phase_result_merge(w, r);
	}
	if (rc == 0 && !good(b, w))
		snprintf(w->cut, sizeof(w->cut), "ended before it was steady");
	else if (rc == 0 && !steady)
		snprintf(w->cut, sizeof(w->cut),
			 "never steady: the last %u windows of %llu ms are %.1f %% apart, and not %g %%",
			 (unsigned)BENCH_STEADY_WINDOWS, STEADY_WINDOW_NS / 1000000, 100 * s->spread,
			 b->opt->pace.warmup_steady);
	else if (rc == 0)
		snprintf(w->cut, sizeof(w->cut),
			 "steady after %u windows of %llu ms: the last %u are %.1f %% apart, %g %% are allowed",
			 s->windows, STEADY_WINDOW_NS / 1000000, (unsigned)BENCH_STEADY_WINDOWS, 100 * s->spread,
			 b->opt->pace.warmup_steady);
	b->results.is_steady = steady;
	return rc;
}

/* ---- runs ---- */

static void run_note(struct bench_runs *runs, const struct phase_result *r)
{
	uint64_t bytes = r[MIX_GET].tally.bytes + r[MIX_PUT].tally.bytes;
	unsigned i = runs->count++;
	runs->row[i].ops_per_s = bench_per_second((double)ops_of(r), r);
	runs->row[i].bytes_per_s = bench_per_second((double)bytes, r);
	runs->row[i].p50_ns = kv_hist_quantile(&r->tally.latency, 0.5);
	runs->row[i].p99_ns = kv_hist_reached(&r->tally.latency, 0.99);
}

static int runs_run(struct bench *b, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	uint64_t total = o->pace.duration_ns ? UINT64_MAX : reads_ops(o, o->load.num_keys * o->pace.repeat_reads),
		 first_op = 0;
	int rc = 0;
	for (unsigned i = 0; i < o->pace.repeat_runs && rc == 0 && good(b, &b->results.read); i++) {
		struct phase p = reads_phase(b, first_op, total, o->pace.duration_ns);
		struct phase_result *r = result_clear();
		p.series = true;
		p.raw_run = i + 1;
		p.rate = o->pace.rate;
		p.ramp_ns = o->pace.ramp_ns;
		p.outages = b->results.keep_going.outage;
		p.breakdown = b->results.breakdown;
		rc = phase_run(&p, r, err);
		first_op += o->pace.duration_ns ? atomic_load(&p.own.next) : total;
		if (rc < 0)
			for (unsigned k = 0; k < MIX_KINDS; k++)
				bench_series_free(&r[k].series);
		if (rc == 0) {
			result_take(b, r);
			if (i == 0 || good(b, r))
				run_note(&b->results.runs, r);
		}
	}
	return rc;
}

static uint64_t misses_of(const struct phase_result *r)
{
	return r[MIX_GET].tally.misses + r[MIX_EXISTS].tally.misses;
}

static uint64_t errors_of(const struct phase_result *r)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < MIX_KINDS; i++)
		sum += bench_errors_total(&r[i].tally.errors);
	return sum;
}

/* Whether the system kept up: when the last operation was due, no more than one was left to do. Otherwise any rate,
 * with a growing queue, would keep a limit far above the time of a trial. */
static bool kept_up(const struct phase_result *r, uint64_t ops, double rate)
{
	double planned_ns = r->planned_ns ? (double)r->planned_ns : (double)ops * 1e9 / rate;
	uint64_t longest_ns = 0;
	for (unsigned i = 0; i < MIX_KINDS; i++)
		longest_ns = KV_MAX(longest_ns, r[i].tally.service.max);
	return (double)r->elapsed_ns <= planned_ns * BEHIND_MAX + (double)longest_ns;
}

static enum bench_slo_why trial_why(const struct bench *b, const struct phase_result *r,
				    const struct bench_slo_trial *t, uint64_t ops)
{
	if (errors_of(r) || (misses_of(r) && !b->results.memory.misses_expected) || r->tally.wrong)
		return BENCH_SLO_ERRORS;
	if (t->ops < ops)
		return BENCH_SLO_BEHIND;
	if (t->latency_ns > b->opt->pace.aim.limit_ns)
		return BENCH_SLO_LATE;
	return kept_up(r, ops, t->rate) ? BENCH_SLO_KEPT : BENCH_SLO_BEHIND;
}

static int trial_run(struct bench *b, double rate, uint64_t *first_op, struct phase_result *r,
		     struct bench_slo_trial *out, struct kv_error *err)
{
	const struct bench_options *o = b->opt;
	uint64_t time_ns = o->pace.duration_ns ? o->pace.duration_ns : TRIAL_NS, samples, ops;
	struct phase p;
	int rc;
	samples = (uint64_t)ceil(TAIL / (1 - o->pace.aim.quantile));
	if (o->load.mix.total) /* the percentile is of GETs */
		samples = samples * o->load.mix.total / o->load.mix.get + 1;
	ops = KV_MAX((uint64_t)ceil(rate * (double)time_ns / 1e9), samples);
	time_ns = (uint64_t)((double)ops * 1.25e9 / rate) + TRIAL_SLACK_NS;
	p = reads_phase(b, *first_op, ops, time_ns);
	p.rate = rate;
	p.raw_run = b->results.slo.search.trials + 1;
	rc = phase_run(&p, r, err);
	*first_op += ops;
	*out = (struct bench_slo_trial){.rate = rate,
					.achieved = bench_per_second((double)ops_of(r), r),
					.latency_ns = kv_hist_quantile(&r->tally.latency, o->pace.aim.quantile),
					.service_ns = kv_hist_quantile(&r->tally.service, o->pace.aim.quantile),
					.ops = ops_of(r)};
	out->why = trial_why(b, r, out, ops);
	return rc;
}

static int ceiling_find(struct bench *b, uint64_t *first_op, double *out_rate, struct kv_error *err)
{
	struct phase p = reads_phase(b, 0, UINT64_MAX, CEILING_NS);
	struct phase_result *r = result_clear();
	int rc;
	p.raw = BENCH_RAW_WARMUP;
	p.raw_run = 1 + b->results.steady.windows;
	rc = phase_run(&p, r, err);
	*out_rate = bench_per_second((double)ops_of(r), r) / 2;
	*first_op = atomic_load(&p.own.next);
	if (errors_of(r) || misses_of(r))
		result_take(b, r); /* the run has failed */
	return rc;
}

static int slo_run(struct bench *b, struct kv_error *err)
{
	struct bench_slo_search *s = &b->results.slo.search;
	uint64_t first_op = 0;
	double rate = 0;
	bool kept = false;
	int rc = ceiling_find(b, &first_op, &rate, err);
	bench_slo_begin(s, rate);
	while (rc == 0 && good(b, &b->results.read) && !b->results.read.ran && bench_slo_next(s, &rate)) {
		struct bench_slo_trial trial;
		struct phase_result *r = result_clear();
		rc = trial_run(b, rate, &first_op, r, &trial, err);
		if (rc < 0 || !good(b, r)) {
			result_take(b, r);
			break;
		}
		bench_slo_tried(s, &trial);
		b->results.slo.bad += r->tally.wrong + (b->results.memory.misses_expected ? 0 : misses_of(r));
		if (trial.why != BENCH_SLO_KEPT && kept)
			continue;
		kept = trial.why == BENCH_SLO_KEPT;
		memcpy(b->results.slo.read, r, sizeof(b->results.slo.read));
	}
	if (rc == 0 && !b->results.read.ran)
		result_take(b, b->results.slo.read);
	return rc;
}

int reads_run(struct bench *b, struct kv_error *err)
{
	return b->opt->pace.aim.quantile > 0 ? slo_run(b, err) : runs_run(b, err);
}
