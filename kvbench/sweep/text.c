/* SPDX-License-Identifier: Apache-2.0 */
/* text.c -- what people see of a sweep: a line for each run when it is over, and the table at the end. */
#include <math.h>
#include <stdlib.h>

#include "kvbench/measure/conditions.h"
#include "kvbench/measure/runs.h"
#include "kvbench/report/measured.h"
#include "kvbench/sweep/sweep.h"

enum { COUNT_WIDE = 9 };

/* 0 was not measured. */
static const char *time_of(double ns, char *buf, size_t cap)
{
	if (!(ns > 0))
		return "-";
	return kv_duration_format((uint64_t)(KV_MIN(KV_MAX(ns, 0.0), 1e18) + 0.5), buf, cap);
}

static char *size_of(const struct sweep_cell *c, char *buf, size_t cap)
{
	if (c->at[SWEEP_SIZE])
		return kv_size_format(c->at[SWEEP_SIZE], buf, cap);
	snprintf(buf, cap, "load");
	return buf;
}

/* "1,234,567", or less exactly where that is too wide. */
static char *count_of(double n, char *buf, size_t cap)
{
	if (n < 9999999.5)
		return kv_count_format((uint64_t)(KV_MAX(n, 0.0) + 0.5), buf, cap);
	snprintf(buf, cap, "%.3g", n);
	return buf;
}

static char *left_of(uint64_t ns, char *buf, size_t cap)
{
	double s = (double)ns / 1e9;
	if (ns == 0)
		buf[0] = 0;
	else if (s < 99.5)
		snprintf(buf, cap, "%.0f s", s);
	else if (s < 99.5 * 60)
		snprintf(buf, cap, "%.0f min", s / 60);
	else
		snprintf(buf, cap, "%.0f h", KV_MIN(s / 3600, 9999.0));
	return buf;
}

void sweep_print_head(const struct sweep *s, unsigned runs, FILE *out)
{
	char others[48] = "";
	unsigned skipped = 0;
	for (unsigned i = 0; i < s->num_cells; i++)
		skipped += s->cell[i].state == SWEEP_SKIPPED;
	if (skipped)
		snprintf(others, sizeof(others), " (%u more skipped)", skipped);
	fprintf(out, "kv-bench sweep   %s\n", KVRAIL_VERSION);
	kv_wrap(out, "sweep      ", 0, "%u combination%s%s%s, %u run%s to make, in an order of seed %llu",
		s->num_cells - skipped, kv_plural(s->num_cells - skipped), others,
		s->opt.bench.repeat_runs > 1 ? ", several times each" : "", runs, kv_plural(runs),
		(unsigned long long)s->order_seed);
	if (s->opt.bench.servers.count > 0)
		kv_wrap(out, "server     ", 0,
			"%s%s, shared by all runs: each has keys of its own, and finds the memory as full as those "
			"before "
			"left it",
			s->opt.bench.servers.item[0], s->opt.bench.servers.count > 1 ? " and others" : "");
	else
		kv_wrap(out, "server     ", 0,
			"one for each run, started by it: none finds the values or connections of another");
	if (s->kept)
		kv_wrap(out, "resume     ", 0, "%u run%s of an earlier sweep %s kept", s->kept, kv_plural(s->kept),
			s->kept == 1 ? "is" : "are");
	fprintf(out, "\n%11s %7s %8s %7s %9s %10s %7s %7s %6s\n", "run", "workers", "value", "clients", "ops/s",
		"bytes/s", "p50", "p99", "left");
	fflush(out);
}

static double newest(const struct sweep_cell *c, const char *member)
{
	const json_t *v = json_object_get(json_array_get(c->runs, json_array_size(c->runs) - 1), member);
	return json_is_number(v) ? json_number_value(v) : 0;
}

void sweep_print_run(const struct sweep_cell *c, unsigned done, unsigned all, uint64_t left_ns, FILE *out)
{
	char number[32], size[32], ops[32], rate[32], p50[32], p99[32], left[32];
	snprintf(number, sizeof(number), "%u/%u", done, all);
	fprintf(out, "%11s %7llu %8s %7llu ", number, (unsigned long long)c->at[SWEEP_WORKERS],
		size_of(c, size, sizeof(size)), (unsigned long long)c->at[SWEEP_CLIENTS]);
	if (c->state == SWEEP_FAILED)
		fprintf(out, "%9s %33s\n", "FAILED", left_of(left_ns, left, sizeof(left)));
	else
		fprintf(out, "%9s %10s %7s %7s %6s\n", count_of(newest(c, "ops_per_s"), ops, sizeof(ops)),
			kv_rate_format(newest(c, "bytes_per_s"), rate, sizeof(rate)),
			time_of(newest(c, "p50_ns"), p50, sizeof(p50)), time_of(newest(c, "p99_ns"), p99, sizeof(p99)),
			left_of(left_ns, left, sizeof(left)));
	if (c->state == SWEEP_FAILED)
		kv_wrap(out, "            ", 0, "%s", c->reason);
	fflush(out);
}

/* ---- the table ---- */

/* Others than the run and its server kept processors busy, in any of its runs. */
static bool shared(const struct sweep_cell *c)
{
	struct bench_spread others;
	return sweep_figure(c, "others_cores", &others) && others.max >= BENCH_SHARED_CORES;
}

/* Its one run read for a moment only. */
static bool brief(const struct sweep_cell *c)
{
	struct bench_spread seconds;
	return json_array_size(c->runs) == 1 && sweep_figure(c, "seconds", &seconds) &&
	       seconds.median < MEASURED_SHORT_S;
}

/* How many times what the fewest workers with the same size and clients did. */
static void scaling_of(const struct sweep *s, const struct sweep_cell *c, char *buf, size_t cap)
{
	struct bench_spread first, own;
	buf[0] = 0;
	for (unsigned i = 0; i < s->num_cells; i++) {
		const struct sweep_cell *f = &s->cell[i];
		if (f->at[SWEEP_SIZE] != c->at[SWEEP_SIZE] || f->at[SWEEP_CLIENTS] != c->at[SWEEP_CLIENTS] ||
		    f->state == SWEEP_FAILED || !sweep_figure(f, "ops_per_s", &first) || !(first.median > 0))
			continue;
		if (sweep_figure(c, "ops_per_s", &own))
			snprintf(buf, cap, own.median / first.median < 99.5 ? "%.2f" : "%.4g",
				 own.median / first.median);
		return;
	}
}

static void row_print(const struct sweep *s, const struct sweep_cell *c, FILE *out)
{
	struct bench_spread ops, bytes = {0}, p50 = {0}, p99 = {0};
	char head[96], size[32], a[32], b[32], d[32], e[32], times[32], spread[32] = "";
	bool measured = c->state != SWEEP_FAILED && sweep_figure(c, "ops_per_s", &ops);
	snprintf(head, sizeof(head), "%8s %7llu %7llu ", size_of(c, size, sizeof(size)),
		 (unsigned long long)c->at[SWEEP_CLIENTS], (unsigned long long)c->at[SWEEP_WORKERS]);
	if (c->state == SWEEP_SKIPPED) {
		kv_wrap(out, head, 0, "  skipped: %s", c->reason);
		return;
	}
	fputs(head, out);
	if (!measured) {
		fprintf(out, "%9s\n", c->state == SWEEP_FAILED ? "FAILED" : "not run");
		return;
	}
	sweep_figure(c, "bytes_per_s", &bytes);
	sweep_figure(c, "p50_ns", &p50);
	sweep_figure(c, "p99_ns", &p99);
	scaling_of(s, c, times, sizeof(times));
	if (json_array_size(c->runs) > 1)
		snprintf(spread, sizeof(spread), " %5.3g %%", KV_MIN(100 * ops.spread, 9999.0));
	fprintf(out, "%*s %7.7s %10s %7s %7s%s%s%s\n", COUNT_WIDE, count_of(ops.median, a, sizeof(a)), times,
		kv_rate_format(bytes.median, b, sizeof(b)), time_of(p50.median, d, sizeof(d)),
		time_of(p99.median, e, sizeof(e)), spread, brief(c) ? " ~" : "", shared(c) ? " *" : "");
}

/* Of the combinations that failed each reason once, with how many it concerns. */
static void reasons_print(const struct sweep *s, FILE *out)
{
	for (unsigned i = 0; i < s->num_cells; i++) {
		const struct sweep_cell *c = &s->cell[i];
		unsigned count = 0;
		for (unsigned k = 0; k < s->num_cells; k++) {
			bool same = s->cell[k].state == SWEEP_FAILED && c->state == SWEEP_FAILED &&
				    strcmp(s->cell[k].reason, c->reason) == 0;
			if (same && k < i)
				break;
			count += same;
		}
		if (count > 0)
			kv_wrap(out, "FAILED     ", 0, "%u combination%s: %s", count, kv_plural(count), c->reason);
	}
}

void sweep_print_table(const struct sweep *s, FILE *out)
{
	bool any_shared = false, any_brief = false;
	unsigned missing = 0;
	fprintf(out, "\n%8s %7s %7s %*s %7s %10s %7s %7s%s\n", "value", "clients", "workers", COUNT_WIDE, "ops/s",
		"scaling", "bytes/s", "p50", "p99", s->opt.bench.repeat_runs > 1 ? " spread" : "");
	for (unsigned i = 0; i < s->num_cells; i++) {
		const struct sweep_cell *c = &s->cell[i];
		if (i > 0 && c->at[SWEEP_SIZE] != c[-1].at[SWEEP_SIZE])
			fputc('\n', out);
		missing += c->state <= SWEEP_PARTIAL;
		any_shared |= shared(c);
		any_brief |= brief(c);
		row_print(s, c, out);
	}
	fputc('\n', out);
	kv_wrap(out, "           ", 0,
		"Reads. Scaling: operations per second, as a multiple of the fewest workers' with the same size and "
		"clients.%s",
		s->opt.bench.repeat_runs > 1 ? " Medians of the runs, also of their percentiles: what one run alone "
					       "met is not in p99. Spread: of operations per second, largest "
					       "less smallest, as a part of the median."
					     : "");
	if (s->opt.bench.batch > 1)
		kv_wrap(out, "           ", 0, "A latency is of a batch of %u keys, and an operation is a key.",
			s->opt.bench.batch);
	if (any_brief)
		kv_wrap(out, "         ~ ", 0,
			"read for less than 0.1 s, too short for a rate: use --duration 1, --repeat-reads or "
			"--repeat-runs");
	if (any_shared)
		kv_wrap(out, "         * ", 0, "others kept processors of this machine busy meanwhile");
	reasons_print(s, out);
	if (missing > 0)
		kv_wrap(out, "missing    ", 0, "%u combination%s not, or not often enough, measured (--resume goes on)",
			missing, missing == 1 ? " was" : "s were");
	fflush(out);
}
