/* SPDX-License-Identifier: Apache-2.0 */
/* result.c -- what the rounds amount to: ratios with their spread, as text and as JSON. A ratio is that of one round,
 * in which the machine was the same for both; what counts is the median over the rounds that count. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "kvbench/measure/conditions.h"
#include "kvbench/report/conditions.h"
#include "kvbench/report/document.h"
#include "kvbench/setup/signals.h"
#include "kvbench/versus/versus.h"

const char *const versus_figure_names[VERSUS_FIGURES] = {"put", "get", "mixed"};

/* ---- reading a round ---- */

/* Both sides' processor time of an operation. phase has the time, of ops operations. A server that used none is one
 * whose time was not seen. */
static double cpu_of(const json_t *phase, double ops)
{
	double client = document_number(phase, "cpu_seconds"), server = document_number(phase, "server_cpu_seconds");
	return client > 0 && server > 0 && ops > 0 ? (client + server) * 1e9 / ops : 0;
}

/* Page faults of an operation. A server that does not tell, as one that runs elsewhere, leaves the sum unknown. */
static double faults_of(const json_t *phase, double ops)
{
	double client = document_number(phase, "page_faults"), server = document_number(phase, "server_page_faults");
	return client >= 0 && server >= 0 && ops > 0 ? (client + server) / ops : -1;
}

static bool measure_read(const json_t *phase, struct versus_measure *m)
{
	const json_t *latency = json_object_get(phase, "latency_ns");
	m->ops_per_s += fmax(document_number(phase, "ops_per_s"), 0);
	m->bytes_per_s += fmax(document_number(phase, "bytes_per_s"), 0);
	m->p50_ns = fmax(document_number(latency, "p50"), 0);
	m->p99_ns = fmax(document_number(latency, "p99"), 0);
	m->seconds = fmax(document_number(phase, "seconds"), 0);
	m->cpu_ns = cpu_of(phase, document_number(phase, "ops"));
	m->faults = faults_of(phase, document_number(phase, "ops"));
	return document_number(phase, "ops_per_s") > 0;
}

/* PUTs and GETs at once: the time is that of both. */
static bool mixed_read(const json_t *doc, struct versus_measure *m)
{
	const json_t *put = document_at(doc, "phases", "mixed", "write", NULL);
	const json_t *get = document_at(doc, "phases", "mixed", "read", NULL);
	bool good = measure_read(put, m) && measure_read(get, m);
	m->cpu_ns = cpu_of(get, document_number(put, "ops") + document_number(get, "ops"));
	m->faults = faults_of(get, document_number(put, "ops") + document_number(get, "ops"));
	return good;
}

/* A GET that found nothing is no operation to compare. KVRail's own run takes it for one where keys expire, or memory
 * is smaller than the load. */
static bool complete(const json_t *phase)
{
	return !(document_number(phase, "misses") > 0);
}

static void text_take(char *to, size_t cap, const json_t *doc, const char *name)
{
	const char *text = document_text(json_object_get(doc, "conditions"), name);
	snprintf(to, cap, "%s", text ? text : "");
}

int versus_run_read(const json_t *doc, bool mixed, struct versus_run *out, struct versus_server *server,
		    struct kv_error *err)
{
	const json_t *problem = json_array_get(document_at(doc, "verdict", "problems", NULL), 0);
	const json_t *put = document_at(doc, "phases", "write", NULL), *get = document_at(doc, "phases", "read", NULL);
	const char *version = document_text(document_at(doc, "server", NULL), "version");
	json_t *threads = document_at(doc, "server", "threads", NULL);
	bool good;
	*out = (struct versus_run){0};
	if (json_is_string(problem))
		return kv_fail(err, -KV_EINVAL, "%.400s", json_string_value(problem));
	good = measure_read(put, &out->figure[VERSUS_PUT]) && measure_read(get, &out->figure[VERSUS_GET]);
	if (mixed && good)
		good = mixed_read(doc, &out->figure[VERSUS_MIXED]);
	if (!complete(get) || (mixed && !complete(document_at(doc, "phases", "mixed", "read", NULL))))
		return kv_fail(err, -KV_EINVAL,
			       "GETs missed keys: give it memory for all values, and a --ttl longer than a round");
	if (!good)
		return kv_fail(err, -KV_EINVAL, "a phase did nothing: use more --num-keys, or a longer --duration");
	/* PUTs of what is there already move nothing. */
	if (document_number(put, "duplicates") > 0)
		return kv_fail(err, -KV_EINVAL,
			       "the server had some of the keys from an earlier run: use another --seed");
	out->cpu_seconds = fmax(document_number(get, "cpu_seconds"), 0);
	out->ran = true;
	version = version ? version : document_text(document_at(doc, "run", NULL), "version");
	snprintf(server->version, sizeof(server->version), "%s", version ? version : "");
	threads = threads ? threads : document_at(doc, "config", "server_threads", NULL);
	server->threads =
		json_is_integer(threads) && json_integer_value(threads) > 0 ? json_integer_value(threads) : -1;
	text_take(server->provider, sizeof(server->provider), doc, "provider");
	text_take(server->wait, sizeof(server->wait), doc, "wait");
	text_take(server->libfabric, sizeof(server->libfabric), doc, "libfabric");
	text_take(server->congestion, sizeof(server->congestion), doc, "loopback_congestion_control");
	threads = document_at(doc, "config", "num_threads", NULL);
	server->client_threads = json_is_integer(threads) ? json_integer_value(threads) : -1;
	return 0;
}

const char *versus_round_state(const struct versus_round *r)
{
	double least = INFINITY, most = -INFINITY;
	for (unsigned i = 0; i < r->distances; i++) {
		least = fmin(least, r->distance_ns[i]);
		most = fmax(most, r->distance_ns[i]);
	}
	if (!bench_distances_alike(least, most))
		return "changed";
	return least < 0 ? "one CPU" : bench_distance_name(least);
}

double versus_cores(const struct versus_measure *m)
{
	return m->cpu_ns * m->ops_per_s / 1e9;
}

/* ---- which rounds count ---- */

static bool measured_long(const struct versus_measure *m)
{
	return m->cpu_ns > 0 && m->seconds >= VERSUS_SHORT_S;
}

/* The least processor time and the most cores of a target, of all rounds that might count. */
static void best_of(const struct versus *v, unsigned target, enum versus_figure f, double *least_ns, double *most)
{
	*least_ns = INFINITY;
	*most = 0;
	for (unsigned i = 0; i < v->rounds; i++) {
		const struct versus_measure *m = &v->round[i].run[target].figure[f];
		if (v->round[i].why == VERSUS_FAILED || v->round[i].why == VERSUS_MOVED || !measured_long(m))
			continue;
		*least_ns = fmin(*least_ns, m->cpu_ns);
		*most = fmax(*most, versus_cores(m));
	}
}

static void rounds_compare(struct versus *v, unsigned target, enum versus_figure f)
{
	double least_ns, most;
	best_of(v, target, f, &least_ns, &most);
	for (unsigned i = 0; i < v->rounds; i++) {
		struct versus_round *r = &v->round[i];
		const struct versus_measure *m = &r->run[target].figure[f];
		if (r->why != VERSUS_COUNTS || !measured_long(m))
			continue;
		if (m->cpu_ns > VERSUS_COSTLY_FACTOR * least_ns)
			r->why = VERSUS_COSTLY;
		else if (versus_cores(m) < VERSUS_FEW_FACTOR * most)
			r->why = VERSUS_FEW_CORES;
		r->by = target;
	}
}

unsigned versus_rounds_judge(struct versus *v)
{
	unsigned count = 0;
	for (unsigned i = 0; i < v->rounds; i++) {
		struct versus_round *r = &v->round[i];
		r->why = !r->complete                                    ? VERSUS_FAILED
			 : strcmp(versus_round_state(r), "changed") == 0 ? VERSUS_MOVED
									 : VERSUS_COUNTS;
	}
	for (unsigned t = 0; t < v->opt.num_targets; t++)
		for (int f = 0; f < VERSUS_FIGURES; f++)
			rounds_compare(v, t, (enum versus_figure)f);
	for (unsigned i = 0; i < v->rounds; i++)
		count += v->round[i].counts = v->round[i].why == VERSUS_COUNTS;
	return count;
}

/* In a sentence about round r. */
static const char *why_text(const struct versus *v, const struct versus_round *r, char *buf, size_t cap)
{
	static const char *const texts[] = {[VERSUS_COUNTS] = "",
					    [VERSUS_FAILED] = "a target failed",
					    [VERSUS_MOVED] = "the distance of the CPUs changed",
					    [VERSUS_COSTLY] = "%s took far more processor time than in its best round",
					    [VERSUS_FEW_CORES] = "%s used fewer cores than in its best round"};
	const char *at = strchr(texts[r->why], '%');
	snprintf(buf, cap, "%s%s", at ? v->opt.target[r->by].label : texts[r->why], at ? at + 2 : "");
	return buf;
}

const char *versus_why_name(enum versus_why why)
{
	static const char *const names[] = {[VERSUS_COUNTS] = "",
					    [VERSUS_FAILED] = "target failed",
					    [VERSUS_MOVED] = "core distance",
					    [VERSUS_COSTLY] = "processor time",
					    [VERSUS_FEW_CORES] = "cores used"};
	return names[why];
}

bool versus_congestion_differs(const struct versus *v)
{
	const char *first = "";
	bool differs = false;
	for (unsigned t = 0; t < v->opt.num_targets; t++) {
		const char *has = v->server[t].congestion;
		differs |= *has && *first && strcmp(has, first) != 0;
		first = *first ? first : has;
	}
	return differs;
}

/* ---- over the rounds ---- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* How many values at either end of n sorted ones lie outside an interval that contains the median of all with 95 % at
 * least: the true median has each value below it with one half, whatever the distribution. -1: of so few none has. */
static int outside_of(unsigned n)
{
	double chance = pow(0.5, n), sum = 0;
	int k = -1;
	for (unsigned i = 0; i < n / 2; i++) {
		sum += chance; /* of just i values below */
		if (2 * sum > 0.05)
			break;
		k = (int)i;
		chance *= (double)(n - i) / (double)(i + 1);
	}
	return k;
}

static struct versus_spread spread(double *v, unsigned n)
{
	struct versus_spread s = {.count = n};
	int outside = outside_of(n);
	if (n == 0)
		return s;
	qsort(v, n, sizeof(*v), by_size);
	s.median = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
	s.low = v[0];
	s.high = v[n - 1];
	if (outside >= 0) {
		s.ci_low = v[outside];
		s.ci_high = v[n - 1 - (unsigned)outside];
	}
	return s;
}

/* cpu: of operations by processor time, of which a figure has the inverse. */
static struct versus_spread ratio_of(const struct versus *v, unsigned target, enum versus_figure f, bool cpu)
{
	double ratio[VERSUS_TRIES * VERSUS_ROUNDS_MAX];
	unsigned n = 0;
	for (unsigned i = 0; i < v->rounds; i++) {
		const struct versus_round *r = &v->round[i];
		const struct versus_measure *mine = &r->run[0].figure[f], *other = &r->run[target].figure[f];
		double above = cpu ? other->cpu_ns : mine->ops_per_s, below = cpu ? mine->cpu_ns : other->ops_per_s;
		if (r->counts && r->run[0].ran && r->run[target].ran && above > 0 && below > 0)
			ratio[n++] = above / below;
	}
	return spread(ratio, n);
}

struct versus_spread versus_ratio(const struct versus *v, unsigned target, enum versus_figure f)
{
	return ratio_of(v, target, f, false);
}

struct versus_spread versus_cpu_ratio(const struct versus *v, unsigned target, enum versus_figure f)
{
	return ratio_of(v, target, f, true);
}

/* all: where a round lacks it, there is none. A p99 of the other rounds may lie below a p50 of all. zero: 0 is a
 * figure. */
static double median_of(const struct versus *v, unsigned target, enum versus_figure f, size_t offset, bool all,
			bool zero)
{
	double value[VERSUS_TRIES * VERSUS_ROUNDS_MAX];
	unsigned n = 0;
	for (unsigned i = 0; i < v->rounds; i++) {
		const struct versus_run *run = &v->round[i].run[target];
		double x = *(const double *)((const char *)&run->figure[f] + offset);
		if (v->round[i].counts && run->ran && (x > 0 || (x == 0 && zero)))
			value[n++] = x;
		else if (v->round[i].counts && run->ran && all)
			return 0;
	}
	return spread(value, n).median;
}

struct versus_measure versus_median(const struct versus *v, unsigned target, enum versus_figure f)
{
#define MEDIAN(member, all, zero) median_of(v, target, f, offsetof(struct versus_measure, member), all, zero)
	struct versus_measure m = {.ops_per_s = MEDIAN(ops_per_s, false, false),
				   .bytes_per_s = MEDIAN(bytes_per_s, false, false),
				   .p50_ns = MEDIAN(p50_ns, false, false),
				   .p99_ns = MEDIAN(p99_ns, true, false),
				   .seconds = MEDIAN(seconds, false, false),
				   .cpu_ns = MEDIAN(cpu_ns, false, false),
				   .faults = MEDIAN(faults, false, true)};
#undef MEDIAN
	return m;
}

/* The fabric is that of the first target that is KVRail. text: of the result's, whose owner is the caller. */
static struct report_conditions conditions_of(const struct versus *v, char text[96])
{
	const struct versus_server *s = &v->server[0];
	for (unsigned t = 0; t < v->opt.num_targets && !s->provider[0]; t++)
		s = &v->server[t];
	snprintf(text, 96, "warm-up: %llu operations of each target in each round", (unsigned long long)v->opt.warmup);
	return (struct report_conditions){.provider = s->provider,
					  .wait = s->wait,
					  .libfabric = s->libfabric,
					  .loopback_congestion = s->congestion,
					  .machine = &v->conditions,
					  .excluded = {text, "making the values", "rounds that do not count"}};
}

/* ---- text ---- */

#define COUNT(n) kv_count_format((uint64_t)(n), (char[32]){0}, 32)

char *versus_load_text(const struct versus_options *o, char *buf, size_t cap)
{
	char size[32], seconds[32], batch[48] = "", rate[80] = "";
	if (o->batch > 1) /* and so is a latency */
		snprintf(batch, sizeof(batch), ", in batches of %s", COUNT(o->batch));
	if (o->rate > 0)
		snprintf(rate, sizeof(rate), ", %g reads per second (%s arrivals)", o->rate,
			 o->arrivals == BENCH_POISSON ? "poisson" : "uniform");
	snprintf(buf, cap, "%u in flight, %s keys of %s%s, %s of reads a round%s%s%.80s, %s compared, seed %llu",
		 o->num_workers, COUNT(o->num_keys), kv_size_format(o->value_size, size, sizeof(size)), batch,
		 kv_duration_format(o->duration_ns, seconds, sizeof(seconds)), rate, o->keys_pattern ? ", " : "",
		 o->keys_pattern ? o->keys_pattern : "",
		 o->verify        ? "every byte"
		 : o->no_checksum ? "lengths"
				  : "checksums",
		 (unsigned long long)o->seed);
	return buf;
}

/* A row of a round: a figure of each target. */
static void print_row(const struct versus *v, const struct versus_round *r, const char *name,
		      const char *(*text)(const struct versus_run *run, char *buf, size_t cap))
{
	char buf[32];
	fprintf(v->out, "%-13s", name);
	for (unsigned t = 0; t < v->opt.num_targets; t++)
		fprintf(v->out, " %14s", r->run[t].ran ? text(&r->run[t], buf, sizeof(buf)) : "-");
}

static const char *gets_text(const struct versus_run *run, char *buf, size_t cap)
{
	(void)cap;
	return kv_count_format((uint64_t)run->figure[VERSUS_GET].ops_per_s, buf, cap);
}

static const char *cpu_text(const struct versus_run *run, char *buf, size_t cap)
{
	double ns = run->figure[VERSUS_GET].cpu_ns;
	return ns > 0 ? kv_duration_format((uint64_t)ns, buf, cap) : "-";
}

static const char *cores_text(const struct versus_run *run, char *buf, size_t cap)
{
	double cores = versus_cores(&run->figure[VERSUS_GET]);
	snprintf(buf, cap, "%.2f", cores);
	return cores > 0 ? buf : "-";
}

static const char *faults_text(const struct versus_run *run, char *buf, size_t cap)
{
	double put = run->figure[VERSUS_PUT].faults;
	snprintf(buf, cap, "%.2f", put);
	return put >= 0 ? buf : "-";
}

void versus_print_round(const struct versus *v, const struct versus_round *r)
{
	unsigned number = (unsigned)(r - v->round) + 1, of = v->opt.rounds + number - v->counted;
	char why[160];
	/* More than were asked for where some do not count; and no more than are made. */
	of = KV_MIN(KV_MAX(of, v->opt.rounds), VERSUS_TRIES * v->opt.rounds);
	kv_wrap(v->out, "", 2, "round %u of %u: %s%s", number, KV_MAX(of, number),
		r->counts ? "CPUs " : "does not count: ",
		r->counts ? versus_round_state(r) : why_text(v, r, why, sizeof(why)));
	print_row(v, r, "  GETs/s", gets_text);
	fputc('\n', v->out);
	print_row(v, r, "  CPU/GET", cpu_text);
	fputc('\n', v->out);
	print_row(v, r, "  cores", cores_text);
	fputc('\n', v->out);
	print_row(v, r, "  faults/PUT", faults_text);
	fputc('\n', v->out);
	fflush(v->out);
}

char *versus_target_text(const struct versus *v, unsigned t, char *buf, size_t cap)
{
	const struct versus_server *s = &v->server[t];
	bool same = strcmp(v->opt.target[t].label, v->opt.target[t].name) == 0;
	char threads[48] = "an unknown number of threads";
	if (s->threads > 0)
		snprintf(threads, sizeof(threads), "%lld thread%s", (long long)s->threads,
			 kv_plural((uint64_t)s->threads));
	snprintf(buf, cap, "%s%s%s%s%s: server with %s, client with %lld", v->opt.target[t].label, same ? "" : " is ",
		 same ? "" : v->opt.target[t].name, s->version[0] ? ", version " : "", s->version, threads,
		 (long long)s->client_threads);
	return buf;
}

char *versus_spread_text(struct versus_spread r, char *buf, size_t cap)
{
	if (r.ci_high > 0)
		snprintf(buf, cap, "%.2f [%.2f, %.2f]", r.median, r.ci_low, r.ci_high);
	else
		snprintf(buf, cap, "%.2f (%.2f-%.2f)", r.median, r.low, r.high);
	return buf;
}

#define RATIO(r) versus_spread_text((r), (char[64]){0}, 64)

static void print_ratio(const struct versus *v, unsigned t, enum versus_figure f)
{
	struct versus_spread rate = versus_ratio(v, t, f), cpu = versus_cpu_ratio(v, t, f);
	if (rate.count == 0)
		return;
	fprintf(v->out, "%-6s %-20s ", "", "  first / this one");
	if (cpu.count)
		fprintf(v->out, "CPU time %s; ", RATIO(cpu));
	fprintf(v->out, "clock %s\n", RATIO(rate));
}

static void print_figure(const struct versus *v, enum versus_figure f)
{
	char p50[32], p99[32], rate[32], cpu[32];
	const char *name = versus_figure_names[f]; /* before the first target that has it */
	for (unsigned t = 0; t < v->opt.num_targets; t++) {
		struct versus_measure m = versus_median(v, t, f);
		if (m.ops_per_s <= 0)
			continue;
		fprintf(v->out, "%-6s %-20s %10s %10s %8s %8s %8s\n", name, v->opt.target[t].label, COUNT(m.ops_per_s),
			kv_rate_format(m.bytes_per_s, rate, sizeof(rate)),
			kv_duration_format((uint64_t)m.p50_ns, p50, sizeof(p50)),
			m.p99_ns > 0 ? kv_duration_format((uint64_t)m.p99_ns, p99, sizeof(p99)) : "-",
			m.cpu_ns > 0 ? kv_duration_format((uint64_t)m.cpu_ns, cpu, sizeof(cpu)) : "-");
		name = "";
		if (t)
			print_ratio(v, t, f);
	}
}

/* PUTs are over when all keys are stored: how many keys make the shortest of them last a second. */
static void print_short(const struct versus *v)
{
	double shortest = INFINITY;
	unsigned at = 0;
	for (unsigned t = 0; t < v->opt.num_targets; t++) {
		double s = versus_median(v, t, VERSUS_PUT).seconds;
		if (s > 0 && s < shortest) {
			shortest = s;
			at = t;
		}
	}
	if (shortest < VERSUS_SHORT_S)
		kv_wrap(v->out, "note    ", 0,
			"the PUTs of a round take only %s at %s, too short for a ratio: with --num-keys %.0f they take "
			"a second, and each server needs as much more memory",
			kv_duration_format((uint64_t)(shortest * 1e9), (char[32]){0}, 32), v->opt.target[at].label,
			ceil((double)v->opt.num_keys / shortest));
}

static bool any_measured(const struct versus *v)
{
	bool any = false;
	for (unsigned t = 0; t < v->opt.num_targets; t++)
		any |= versus_median(v, t, VERSUS_GET).ops_per_s > 0;
	return any;
}

static void print_counted(const struct versus *v)
{
	static const char *const why[] = {[VERSUS_FAILED] = "a target failed",
					  [VERSUS_MOVED] = "the distance of the CPUs changed",
					  [VERSUS_COSTLY] = "a target took far more processor time than in its best",
					  [VERSUS_FEW_CORES] = "a target used fewer cores than in its best"};
	char out[320] = "";
	for (unsigned w = VERSUS_FAILED; w < KV_COUNT(why); w++) {
		unsigned n = 0;
		for (unsigned i = 0; i < v->rounds; i++)
			n += v->round[i].why == w;
		if (n > 0)
			snprintf(out + strlen(out), sizeof(out) - strlen(out), "; %u not: %s", n, why[w]);
	}
	kv_wrap(v->out, "rounds  ", 0,
		"%u of %u count%s. Ratios: median over them, [95 %% confidence] or, of fewer than 6 rounds, "
		"(lowest-highest)",
		v->counted, v->rounds, out);
}

static void print_congestion(const struct versus *v)
{
	if (versus_congestion_differs(v))
		for (unsigned t = 0; t < v->opt.num_targets; t++)
			kv_wrap(v->out, t ? "        " : "note    ", 0, "%s sends with congestion control %s",
				v->opt.target[t].label,
				v->server[t].congestion[0] ? v->server[t].congestion : "unknown");
	for (unsigned t = 0; t < v->opt.num_targets && v->server[0].congestion[0]; t++)
		if (v->round[0].run[t].ran && !v->server[t].congestion[0] && v->opt.target[t].kind != VERSUS_PROGRAM &&
		    !strchr(v->opt.target[t].address, '/'))
			kv_wrap(v->out, "note    ", 0,
				"with which congestion control %s sends is not known, and may be another than %s: run "
				"kv-bench as its user, or root",
				v->opt.target[t].label, v->server[0].congestion);
}

void versus_print_summary(const struct versus *v)
{
	struct report_conditions c;
	char text[96], server[768];
	bool first = true;
	fputc('\n', v->out);
	for (unsigned t = 0; t < v->opt.num_targets; t++) {
		if (!v->round[0].run[t].ran)
			continue;
		kv_wrap(v->out, first ? "targets " : "        ", 0, "%s",
			versus_target_text(v, t, server, sizeof(server)));
		first = false;
	}
	if (any_measured(v)) {
		fprintf(v->out, "\n%-6s %-20s %10s %10s %8s %8s %8s\n", "", "median", "ops/s", "bytes/s", "p50", "p99",
			"CPU/op");
		for (int f = 0; f < VERSUS_FIGURES; f++)
			print_figure(v, (enum versus_figure)f);
		print_short(v);
	}
	if (versus_median(v, 0, VERSUS_GET).ops_per_s <= 0)
		return; /* nothing was measured: the verdict says why */
	if (v->unsteady)
		kv_wrap(v->out, "rounds  ", 0,
			"in none of the %u was the machine the same throughout (distance of the CPUs, a target that "
			"failed): these are medians over all, to be measured again on a machine at rest",
			v->rounds);
	else
		print_counted(v);
	print_congestion(v);
	c = conditions_of(v, text);
	conditions_print(&c, true, v->out);
}

/* ---- JSON ---- */

static json_t *measure_json(const struct versus_measure *m)
{
	json_t *o = json_pack("{s:f, s:f, s:f, s:f}", "ops_per_s", m->ops_per_s, "bytes_per_s", m->bytes_per_s,
			      "p50_ns", m->p50_ns, "seconds", m->seconds);
	if (o && m->p99_ns > 0)
		json_object_set_new(o, "p99_ns", json_real(m->p99_ns));
	if (o && m->cpu_ns > 0) {
		json_object_set_new(o, "cpu_ns", json_real(m->cpu_ns));
		json_object_set_new(o, "cores", json_real(versus_cores(m)));
	}
	if (o && m->faults >= 0)
		json_object_set_new(o, "page_faults", json_real(m->faults));
	return o;
}

static void ratio_add(json_t *figure, const char *name, struct versus_spread r)
{
	json_t *o = figure && r.count ? json_pack("{s:f, s:f, s:f, s:I}", "median", r.median, "low", r.low, "high",
						  r.high, "rounds", (json_int_t)r.count)
				      : NULL;
	if (o && r.ci_high > 0) {
		json_object_set_new(o, "ci_low", json_real(r.ci_low));
		json_object_set_new(o, "ci_high", json_real(r.ci_high));
	}
	if (o)
		json_object_set_new(figure, name, o);
}

static json_t *target_json(const struct versus *v, unsigned t)
{
	const struct versus_server *s = &v->server[t];
	char about[768];
	json_t *o = json_pack("{s:s, s:s, s:b}", "target", v->opt.target[t].name, "label", v->opt.target[t].label, "ok",
			      !v->failed[t][0]);
	if (v->round[0].run[t].ran)
		json_object_set_new(o, "about", json_string(versus_target_text(v, t, about, sizeof(about))));
	if (v->failed[t][0])
		json_object_set_new(o, "failed", json_string(v->failed[t]));
	if (s->version[0])
		json_object_set_new(o, "version", json_string(s->version));
	if (s->threads > 0)
		json_object_set_new(o, "server_threads", json_integer(s->threads));
	if (s->congestion[0])
		json_object_set_new(o, "congestion_control", json_string(s->congestion));
	if (s->client_threads > 0)
		json_object_set_new(o, "client_threads", json_integer(s->client_threads));
	for (int f = 0; f < VERSUS_FIGURES; f++) {
		struct versus_measure m = versus_median(v, t, (enum versus_figure)f);
		json_t *figure = m.ops_per_s > 0 ? measure_json(&m) : NULL;
		if (t) {
			ratio_add(figure, "ratio", versus_ratio(v, t, (enum versus_figure)f));
			ratio_add(figure, "cpu_ratio", versus_cpu_ratio(v, t, (enum versus_figure)f));
		}
		if (figure)
			json_object_set_new(o, versus_figure_names[f], figure);
	}
	return o;
}

static json_t *run_json(const struct versus_run *run)
{
	json_t *o = json_object();
	for (int f = 0; run->ran && f < VERSUS_FIGURES; f++)
		if (run->figure[f].ops_per_s > 0)
			json_object_set_new(o, versus_figure_names[f], measure_json(&run->figure[f]));
	if (run->ran)
		json_object_set_new(o, "cpu_seconds", json_real(run->cpu_seconds));
	return o;
}

static json_t *round_json(const struct versus *v, const struct versus_round *r)
{
	json_t *distance = json_array(), *runs = json_array();
	for (unsigned i = 0; i < r->distances; i++)
		json_array_append_new(distance, r->distance_ns[i] > 0 ? json_real(r->distance_ns[i]) : json_null());
	for (unsigned t = 0; t < v->opt.num_targets; t++)
		json_array_append_new(runs, run_json(&r->run[t]));
	return json_pack("{s:b, s:o, s:s, s:I, s:o, s:o}", "counts", r->counts, "why",
			 r->why == VERSUS_COUNTS ? json_null() : json_string(versus_why_name(r->why)), "cpus",
			 versus_round_state(r), "seed", (json_int_t)r->seed, "core_distance_ns", distance, "runs",
			 runs);
}

json_t *versus_document(const struct versus *v)
{
	const struct versus_options *o = &v->opt;
	json_t *targets = json_array(), *rounds = json_array(), *given = json_array();
	char time[32] = "", text[96], load[768];
	const struct report_conditions c = conditions_of(v, text);
	time_t started = v->started_s;
	struct tm tm;
	if (gmtime_r(&started, &tm))
		strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &tm);
	for (int i = 1; i < v->argc; i++)
		json_array_append_new(given, json_string(v->argv[i]));
	for (unsigned t = 0; t < o->num_targets; t++)
		json_array_append_new(targets, target_json(v, t));
	for (unsigned i = 0; i < v->rounds; i++)
		json_array_append_new(rounds, round_json(v, &v->round[i]));
	return json_pack(
		"{s:s, s:s, s:b, s:b, s:{s:s, s:s, s:o}, s:o, s:I, s:I, s:f, s:I, s:I, s:f, s:s, s:I, s:o, s:o}",
		"schema", "kvbench-versus/1", "load", versus_load_text(o, load, sizeof(load)), "interrupted",
		bench_interrupted() != 0, "steady", !v->unsteady, "run", "version", KVRAIL_VERSION, "time", time,
		"options", given, "conditions", conditions_json(&c), "in_flight", (json_int_t)o->num_workers,
		"num_keys", (json_int_t)o->num_keys, "duration_s", (double)o->duration_ns / 1e9, "batch",
		(json_int_t)o->batch, "value_bytes", (json_int_t)o->value_size, "rate", o->rate, "checked",
		o->verify        ? "every byte"
		: o->no_checksum ? "length"
				 : "checksum",
		"counted_rounds", (json_int_t)v->counted, "targets", targets, "rounds", rounds);
}
