/* SPDX-License-Identifier: Apache-2.0 */
/* report.c -- the text report: machine and fabric, a line per phase, tables, and the verdict.
 *
 * Only the verdict is decided here, from the printed figures. */
#include "kvbench/report/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/load/workload.h"
#include "kvbench/report/conditions.h"
#include "kvbench/report/model.h"

#define SHORT_S 0.1 /* a phase of less time is one of beginnings: caches are cold, all workers start at once */

#define COUNT(n)       kv_count_format((n), (char[32]){0}, 32)
#define OF(n, noun)    kv_count_of((n), noun, (char[64]){0}, 64) /* "1 client", "4 clients" */
#define SIZE(n)        kv_size_format((n), (char[32]){0}, 32)
#define TIME(n)        kv_duration_format((n), (char[32]){0}, 32)
#define RATE(n)        kv_rate_format((n), (char[32]){0}, 32)
#define QUANTILE(h, q) quantile((h), (q), (char[32]){0}, 32)

static const char *paint(FILE *to, const char *code)
{
	return kv_terminal_colours(to) ? code : "";
}

static const char *quantile(const struct kv_hist *h, double q, char *buf, size_t cap)
{
	return kv_hist_reaches(h, q) ? kv_duration_format(kv_hist_quantile(h, q), buf, cap) : "-";
}

static double seconds_of(const struct phase_result *p)
{
	return (double)p->elapsed_ns / 1e9;
}

/* Small numbers have three digits. */
static const char *few_text(double n, char *buf, size_t cap)
{
	if (n >= 99.5 || n <= 0)
		return kv_count_format((uint64_t)(n + 0.5), buf, cap);
	snprintf(buf, cap, "%.3g", n);
	return buf;
}

#define FEW(n) few_text((n), (char[32]){0}, 32)

static void note(const struct bench *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(const struct bench *b, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	kv_wrap(b->out, "note       ", 0, "%s", text);
}

/* ---- the start ---- */

static void start_server(const struct bench *b)
{
	char all[1024] = "";
	if (b->server) {
		kv_wrap(b->out, "server     ", 0, "%s, started by kv-bench (pid %d, %s MiB)",
			server_child_address(b->server), (int)server_child_pid(b->server), COUNT(b->results.memory.mb));
		for (unsigned i = 1; i <= b->opt->server.num_servers; i++) {
			const char *name = server_child_name(b->server, i);
			const char *address = name ? strchr(name, '=') + 1 : NULL;
			if (address && strcmp(address, server_child_address(b->server)) != 0)
				kv_wrap(b->out, "           ", 0, "%s", name);
			else if (!address)
				kv_wrap(b->out, "           ", 0, "server-%u is started later", i);
		}
		return;
	}
	for (unsigned i = 0; i < b->opt->target.servers.count; i++)
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? " " : "",
			 b->opt->target.servers.item[i]);
	kv_wrap(b->out, "server     ", 0, "%s", all);
}

static void start_fabric(const struct bench *b)
{
	const struct kvc_info *i = &b->results.library.info;
	kv_wrap(b->out, "fabric     ", 0, "%s, fabric %s, domain %s, wait %s, libfabric %s%s%s%s", i->provider,
		i->fabric, i->domain, i->wait, i->libfabric, i->congestion[0] ? ", congestion control " : "",
		i->congestion, i->congestion[0] ? " (loopback)" : "");
	if (i->why[0])
		kv_wrap(b->out, "           ", 0, "chosen: %s", i->why);
	kv_wrap(b->out, "           ", 0,
		"chunk %s, eager %s, depth %u, completion queue %u, credits %u, mode %s, security %s%s, %u cores",
		SIZE(i->chunk_bytes), i->eager_bytes ? SIZE(i->eager_bytes) : "without limit", i->tx_depth, i->cq_depth,
		i->credits, strcmp(i->mode, "local") == 0 ? "same host" : i->mode, i->security,
		b->opt->seal.key_file ? " and sealed values" : "", kv_cpus_available());
	kv_wrap(b->out, "memory     ", 0, "buffers: %s, registered in %s; NUMA: %s", i->memory, TIME(i->register_ns),
		i->numa);
}

static void start_load(const struct bench *b)
{
	const struct bench_options *o = b->opt;
	char workers[160], by[64] = "", batch[48] = "";
	if (o->load.async && o->load.submitters)
		snprintf(by, sizeof(by), " by %s", OF(o->load.submitters, "submitter"));
	snprintf(workers, sizeof(workers), "%s%s%s on %s, %s", OF(o->load.num_workers, o->load.async ? "id" : "worker"),
		 o->load.async ? " through a queue" : "", by, OF(b->num_clients, "client"),
		 OF(b->results.library.info.os_threads, "thread"));
	if (o->load.batch > 1)
		snprintf(batch, sizeof(batch), ", in batches of %s", COUNT(o->load.batch));
	if (o->replay.trace)
		kv_wrap(b->out, "load       ", 0, "%s; %s, %s (%s distinct) of %s, %s order", workers,
			OF(b->results.trace.requests, "request"), OF(b->results.trace.blocks, "block"),
			COUNT(b->results.trace.distinct), SIZE(o->load.value_size),
			o->replay.order == BENCH_ORDER_STRICT ? "strict" : "relaxed");
	else
		kv_wrap(b->out, "load       ", 0, "%s; %s of %s%s, seed %llu%s%s%s%s%s", workers,
			OF(o->load.num_keys, "key"),
			o->load.value_sizes ? o->load.value_sizes : SIZE(o->load.value_size),
			o->load.value_sizes ? " (sizes)" : "", (unsigned long long)o->load.seed,
			o->load.keys_pattern ? ", read " : "", o->load.keys_pattern ? o->load.keys_pattern : "",
			o->load.mix.total ? ", mix " : "", o->load.mix.total ? o->load.mix_text : "", batch);
}

static void trace_notes(const struct bench *b)
{
	const struct bench_options *o = b->opt;
	unsigned tokens = o->replay.trace && o->model.name ? b->results.trace.block_tokens : 0;
	if (tokens && tokens != o->model.layout.block_tokens)
		note(b, "a block of this trace has %u tokens; bytes and tokens are counted with %u (--block-tokens)",
		     tokens, o->model.layout.block_tokens);
	if (o->replay.trace && b->results.trace.back)
		note(b, "%s of this trace %s a time before that of an earlier line, and %s due when that one is",
		     OF(b->results.trace.back, "request"), b->results.trace.back == 1 ? "has" : "have",
		     b->results.trace.back == 1 ? "is" : "are");
	if (o->replay.speed > 0 && b->results.trace.untimed)
		note(b, "%s of this trace %s no time stamp, and %s due with the one before",
		     OF(b->results.trace.untimed, "request"), b->results.trace.untimed == 1 ? "has" : "have",
		     b->results.trace.untimed == 1 ? "is" : "are");
}

/* Why reads may miss. */
static void miss_notes(const struct bench *b)
{
	const struct bench_options *o = b->opt;
	if (b->results.memory.expiring && o->replay.trace)
		note(b, "at this speed the trace is not shorter than --ttl: "
			"values expire during the run, and hits are fewer than it has (--ttl 0 keeps them)");
	else if (b->results.memory.expiring)
		note(b,
		     "the reads%s are not shorter than --ttl: "
		     "keys expire during the run and will be misses, which do not fail it",
		     o->pace.repeat_runs > 1 ? " of --duration and --repeat-runs" : " of --duration");
	if (o->server.events.count)
		note(b, "servers stop or start during the run (--event): misses do not fail it");
	else if (b->results.memory.is_short)
		note(b, "the server's memory is smaller than the workload: "
			"evicted values are misses, which do not fail this run");
}

static void start_notes(const struct bench *b)
{
	const struct bench_options *o = b->opt;
	unsigned idle = b->num_clients > o->load.num_workers ? b->num_clients - o->load.num_workers : 0;
	uint64_t pieces = (o->client.buffer_mb << 20) / bench_piece_bytes(o->load.value_size),
		 per_client = (o->load.num_workers + b->num_clients - 1) / b->num_clients;
	if (pieces < per_client && !o->load.async)
		note(b, "a buffer of %s holds %s, fewer than the %s of a client: they take turns (--buffer-mb)",
		     SIZE(o->client.buffer_mb << 20), OF(pieces, "value"), OF(per_client, "worker"));
	if (idle)
		note(b, "%u of %s %s no %s, but cost%s an endpoint and a buffer%s (--num-clients)", idle,
		     OF(b->num_clients, "client"), idle == 1 ? "has" : "have", o->load.async ? "id" : "worker",
		     idle == 1 ? "s" : "", idle == 1 ? "" : " each");
	trace_notes(b);
	miss_notes(b);
	if (o->client.copies != BENCH_COPIES_ONE && b->results.library.info.num_servers < 2)
		note(b,
		     "--copies %s, and there is one server: it has the only copy, "
		     "until it reports other members. Name two with --server",
		     bench_copies_names[o->client.copies]);
	if (b->results.library.put_way == KVC_PUT_INLINE && !o->load.no_write)
		note(b, "PUT sends its bytes inside requests, far below GET's rate: "
			"a server has no landing area for this client (kv-server --landing-mb), and over TCP "
			"with libfabric before 1.22 it is not safe for it to read (docs/internals/providers.md)");
	if (b->results.library.pages_left)
		note(b, "servers are still making the pages of %s of memory (kv-server --prefault): PUTs wait for them",
		     SIZE(b->results.library.pages_left));
	if (o->load.slices)
		note(b,
		     "values lie in %u slices; those of a PUT are laid out before its "
		     "latency begins, so that the rate of the writes contains a copy",
		     o->load.slices);
	if (o->load.no_checksum)
		note(b, "checksums of GETs are not checked (--no-checksum)");
}

void report_start(const struct bench *b)
{
	if (!b->out)
		return;
	fprintf(b->out, "kv-bench   %s\n", kvc_version());
	start_server(b);
	start_fabric(b);
	start_load(b);
	report_model_start(b);
	start_notes(b);
	fflush(b->out);
}

/* ---- phases ---- */

void report_phase(const struct bench *b, const char *step, const char *name, const struct phase_result *p)
{
	uint64_t errors = bench_errors_total(&p->tally.errors);
	if (!b->out)
		return;
	fprintf(b->out, "[%s] %-9s %s in %s, %s", step, name, OF(p->tally.ops, "op"), TIME(p->elapsed_ns),
		RATE(bench_per_second((double)p->tally.bytes, p)));
	if (p->tally.misses)
		fprintf(b->out, ", %s miss%s", COUNT(p->tally.misses), p->tally.misses == 1 ? "" : "es");
	if (errors)
		fprintf(b->out, ", %s", OF(errors, "error"));
	fputc('\n', b->out);
	if (p->cut[0])
		kv_wrap(b->out, "                ", 0, "%s", p->cut);
	if (p->duplicates)
		note(b,
		     "%s of the values were there already, and their bytes did not travel: this figure is none of "
		     "writing. Another --seed writes other keys",
		     COUNT(p->duplicates));
	fflush(b->out);
}

void report_latency(const struct bench *b)
{
	uint64_t samples = b->results.write.tally.latency.count + b->results.read.tally.latency.count +
			   b->results.mix_put.tally.latency.count + b->results.mix_exists.tally.latency.count +
			   b->results.mixed.read.tally.latency.count + b->results.mixed.write.tally.latency.count;
	if (b->out && !b->opt->replay.trace)
		fprintf(b->out, "[4/4] latency   %s of %s merged\n", OF(samples, "sample"),
			OF(b->num_clients, "client"));
}

/* ---- the summary ---- */

static void phase_table(const struct bench *b, const char *name, const struct phase_result *p)
{
	const struct bench_tally *t = &p->tally;
	fprintf(b->out, "%-7s %12s ops/s %10s   %s in %.3f s\n", name,
		COUNT((uint64_t)(bench_per_second((double)t->ops, p) + 0.5)),
		RATE(bench_per_second((double)t->bytes, p)), OF(t->ops, "op"), seconds_of(p));
	if (t->hits || t->misses)
		fprintf(b->out, "%8shits %s, misses %s\n", "", COUNT(t->hits), COUNT(t->misses));
	if (t->stored_again)
		fprintf(b->out, "%8sstored again %s, behind their GETs\n", "", COUNT(t->stored_again));
	if (t->put_conflicts)
		kv_wrap(b->out, "        ", 10, "put conflicts %s: other bytes were there under the key, and stay",
			COUNT(t->put_conflicts));
	for (unsigned i = 0; i < t->errors.num_codes; i++)
		kv_wrap(b->out, "        ", 10, "error %s: %s (%s)", kv_errkey(t->errors.row[i].code),
			COUNT(t->errors.row[i].count), kv_strerror(t->errors.row[i].code));
}

/* option: makes the phase longer, and has the value `now`; NULL: there is none. */
static void short_note(const struct bench *b, const struct phase_result *p, const char *option, uint64_t now)
{
	if (seconds_of(p) >= SHORT_S || p->tally.ops == 0)
		return;
	if (option)
		kv_wrap(b->out, "        ", 0, "too short for a rate: --%s %.0f would take a second", option,
			bench_per_second((double)now, p));
	else
		kv_wrap(b->out, "        ", 0, "too short for a reliable rate");
}

static void mixed_table(const struct bench *b)
{
	const struct mixed_result *m = &b->results.mixed;
	if (!m->read.ran)
		return;
	phase_table(b, "mix get", &m->read);
	phase_table(b, "mix put", &m->write);
	fprintf(b->out, "%8stogether %.3f of the mean of write and read alone\n", "", m->of_alone);
}

static void mix_rows(const struct bench *b)
{
	if (!b->opt->load.mix.total || !b->results.read.ran)
		return;
	if (b->opt->load.mix.put)
		phase_table(b, "put", &b->results.mix_put);
	if (b->opt->load.mix.exists)
		phase_table(b, "exists", &b->results.mix_exists);
}

/* With --repeat-runs. */
static void runs_table(const struct bench *b)
{
	const struct bench_runs *runs = &b->results.runs;
	if (runs->count < 2)
		return;
	fprintf(b->out, "\n%-10s %13s %13s %13s %9s   (of %u runs)\n", "runs", "median", "min", "max", "spread",
		runs->count);
	for (unsigned i = 0; i < BENCH_RUN_FIGURES; i++) {
		static const char *const names[] = {"ops/s", "bytes/s", "read p50", "read p99"};
		struct bench_spread s;
		if (!bench_runs_spread(runs, (enum bench_run_figure)i, &s))
			continue;
		if (i == BENCH_RUN_OPS)
			fprintf(b->out, "%-10s %13s %13s %13s", names[i], COUNT((uint64_t)(s.median + 0.5)),
				COUNT((uint64_t)(s.min + 0.5)), COUNT((uint64_t)(s.max + 0.5)));
		else if (i == BENCH_RUN_BYTES)
			fprintf(b->out, "%-10s %13s %13s %13s", names[i], RATE(s.median), RATE(s.min), RATE(s.max));
		else
			fprintf(b->out, "%-10s %13s %13s %13s", names[i], TIME((uint64_t)s.median),
				TIME((uint64_t)s.min), TIME((uint64_t)s.max));
		fprintf(b->out, " %7.1f %%\n", 100 * s.spread);
	}
	fprintf(b->out, "           (spread: largest less smallest, as a part of the median)\n");
}

static void slo_table(const struct bench *b)
{
	const struct bench_slo_search *s = &b->results.slo.search;
	const struct bench_slo_trial *best = bench_slo_best(s);
	double above = 0;
	char percentile[24];
	if (s->trials == 0)
		return;
	snprintf(percentile, sizeof(percentile), "p%.10g", 100 * b->opt->pace.aim.quantile);
	fprintf(b->out, "\n%-6s %11s %11s %9s %9s %9s\n", "slo", "offered/s", "achieved/s", percentile, "service",
		"ops");
	for (unsigned n = 0; n < s->trials; n++) {
		const struct bench_slo_trial *t = NULL;
		for (unsigned i = 0; i < s->trials; i++)
			if (s->row[i].rate > above && (!t || s->row[i].rate < t->rate))
				t = &s->row[i];
		if (!t)
			break;
		above = t->rate;
		fprintf(b->out, "%-6s %11s %11s %9s %9s %9s %s\n", "", FEW(t->rate), FEW(t->achieved),
			TIME(t->latency_ns), TIME(t->service_ns), COUNT(t->ops), bench_slo_why_text(t->why));
	}
	if (best)
		kv_wrap(b->out, "       ", 0,
			"%s per second keep p%.10g within %s; the figures of the reads are of that rate",
			FEW(best->rate), 100 * b->opt->pace.aim.quantile, TIME(b->opt->pace.aim.limit_ns));
}

static void cpu_line(const struct bench *b, const char *name, const struct phase_result *p)
{
	fprintf(b->out, "%-7s %12.2f s of CPU", name, p->cpu_seconds);
	if (b->server)
		fprintf(b->out, ", the server %.2f s", p->server_cpu_seconds);
	fputc('\n', b->out);
}

static void cpu_table(const struct bench *b)
{
	const struct bench_results *r = &b->results;
	if (b->opt->replay.trace && r->read.ran)
		cpu_line(b, "both", &r->read);
	if (!b->opt->replay.trace && r->write.ran)
		cpu_line(b, "write", &r->write);
	if (!b->opt->replay.trace && r->read.ran)
		cpu_line(b, "read", &r->read);
	if (r->mixed.read.ran)
		cpu_line(b, "mixed", &r->mixed.read);
}

static const char *const arrivals_names[] = {
	[BENCH_UNIFORM] = "uniform", [BENCH_POISSON] = "poisson", [BENCH_RECORDED] = "recorded"};

static void rate_line(const struct bench *b)
{
	const struct bench_results *r = &b->results;
	double done = bench_per_second((double)bench_measured_ops(r), &r->read), offered = b->opt->pace.rate;
	uint64_t left = bench_never_started(r);
	char came[96] = "";
	if (offered <= 0 || !r->read.ran)
		return;
	if (r->read.planned_ns && (b->opt->pace.ramp_ns || b->opt->pace.arrivals != BENCH_UNIFORM)) {
		offered = (double)bench_measured_due(r) * 1e9 / (double)r->read.planned_ns;
		snprintf(came, sizeof(came), " (%s %s)", FEW(offered),
			 b->opt->pace.ramp_ns                     ? "with the ramp"
			 : b->opt->pace.arrivals == BENCH_POISSON ? "by chance"
								  : "of this part of the trace");
	}
	kv_wrap(b->out, "rate    ", 0, "offered %s per second%s, achieved %s (%.0f %%)%s", FEW(b->opt->pace.rate), came,
		FEW(done), offered > 0 ? 100 * done / offered : 100,
		done < BENCH_RATE_KEPT * offered
			? ": less than was offered, and latency contains the time that reads waited for their turn"
			: "");
	if (left)
		kv_wrap(b->out, "        ", 0,
			"%s of the %s due had not started when the time was over: latency counts their age then",
			COUNT(left), OF(bench_measured_due(r), "operation"));
}

static void latency_row(FILE *out, const char *name, const struct kv_hist *h)
{
	static const double quantiles[] = {0.5, 0.9, 0.95, 0.99, 0.999};
	uint64_t p50 = kv_hist_quantile(h, 0.5), p99 = kv_hist_reached(h, 0.99);
	if (h->count == 0)
		return;
	fprintf(out, "%-7s %7s %7s", name, TIME(h->min), TIME((uint64_t)(kv_hist_mean(h) + 0.5)));
	for (unsigned i = 0; i < KV_COUNT(quantiles); i++)
		fprintf(out, " %7s", QUANTILE(h, quantiles[i]));
	fprintf(out, " %7s", TIME(h->max));
	if (p50 && p99)
		fprintf(out, " %7.1f\n", (double)p99 / (double)p50);
	else
		fprintf(out, " %7s\n", "-");
}

static void latency_table(const struct bench *b)
{
	const struct bench_results *r = &b->results;
	fprintf(b->out, "\n%-7s %7s %7s %7s %7s %7s %7s %7s %7s %7s\n", "latency", "min", "mean", "p50", "p90", "p95",
		"p99", "p99.9", "max", "p99/p50");
	latency_row(b->out, b->opt->replay.trace ? "put" : "write", &r->write.tally.latency);
	latency_row(b->out, b->opt->replay.trace ? "get" : "read", &r->read.tally.latency);
	latency_row(b->out, "missed", &r->read.tally.missed);
	latency_row(b->out, "failed", &r->read.tally.failed);
	latency_row(b->out, "put", &r->mix_put.tally.latency);
	latency_row(b->out, "exists", &r->mix_exists.tally.latency);
	latency_row(b->out, "service", &r->read.tally.service);
	latency_row(b->out, "mix put", &r->mixed.write.tally.latency);
	latency_row(b->out, "mix get", &r->mixed.read.tally.latency);
	if (b->opt->replay.trace)
		kv_wrap(b->out, "        ", 0,
			"(a sample is all blocks found, or stored, for one request; "
			"missed: of lookups that did not find all)");
	else if (b->opt->pace.rate > 0 || r->slo.search.trials)
		kv_wrap(b->out, "        ", 0,
			"(of a read: from its intended start, %s arrivals%s; "
			"service: of reads, from when they really began)",
			arrivals_names[b->opt->pace.arrivals], b->opt->pace.ramp_ns ? ", and those of the ramp" : "");
	else if (b->opt->load.batch > 1)
		kv_wrap(b->out, "        ", 0, "(a latency is of a batch of %s keys; ops are keys)",
			COUNT(b->opt->load.batch));
}

static void breakdown_table(const struct bench *b)
{
	const struct bench_breakdown *d = b->results.breakdown;
	if (!d || d->part[BENCH_PART_TOTAL].count == 0)
		return;
	fprintf(b->out, "\n%-9s %9s %9s %9s\n", "breakdown", "mean", "p50", "p99");
	for (unsigned i = 0; i < BENCH_PARTS; i++) {
		const struct kv_hist *h = &d->part[i];
		char row[64];
		snprintf(row, sizeof(row), "%-9s %9s %9s %9s   ", bench_part_name(i),
			 TIME((uint64_t)(kv_hist_mean(h) + 0.5)), TIME(kv_hist_quantile(h, 0.5)), QUANTILE(h, 0.99));
		kv_wrap(b->out, row, 0, "%s", bench_part_what(i));
	}
}

static void resource_row(FILE *out, const char *name, const char *ours, const char *theirs)
{
	fprintf(out, "%-22s %12s %24s\n", name, ours, theirs);
}

/* Resources of the run, and those of a client for every worker, each with its thread, endpoints and buffer. */
static void resource_table(const struct bench *b)
{
	const struct bench_results *r = &b->results;
	uint64_t workers = b->opt->load.num_workers, clients = KV_MAX(b->num_clients, 1u);
	fprintf(b->out, "\n%-22s %12s %24s\n", "resources", "this run", "one per worker, computed");
	resource_row(b->out, "workers", COUNT(workers), COUNT(workers));
	resource_row(b->out, "OS threads", COUNT(r->library.info.os_threads), COUNT(workers));
	resource_row(b->out, "endpoints", COUNT(r->library.info.endpoints),
		     COUNT(workers * (r->library.info.endpoints / clients)));
	resource_row(b->out, "links", COUNT(r->library.info.links), COUNT(workers * (r->library.info.links / clients)));
	resource_row(b->out, "registered buffers", SIZE(r->library.info.buffer_bytes),
		     SIZE(workers * (b->opt->client.buffer_mb << 20)));
	resource_row(b->out, "registered messages", SIZE(r->library.info.message_bytes),
		     SIZE(workers * (r->library.info.message_bytes / clients)));
	if (r->memory.values_bytes)
		resource_row(b->out, "registered values", SIZE(r->memory.values_bytes), SIZE(r->memory.values_bytes));
	resource_row(b->out, "peak resident memory", SIZE(r->memory.rss_peak), "-");
	if (r->memory.server_rss_peak)
		resource_row(b->out, b->opt->server.num_servers > 1 ? "... of the servers" : "... of the server",
			     SIZE(r->memory.server_rss_peak), "-");
}

static void roofline_rows(const struct bench *b, const char *op, const struct roofline_result *r)
{
	if (r->code < 0) {
		kv_wrap(b->out, "roofline  ", 0, "of %s: no figure: %s", op, kv_strerror(r->code));
		return;
	}
	kv_wrap(b->out, "roofline  ", 0, "bare writes %s, %s in flight (one: p50 %s); %s %s", RATE(r->bytes_per_s),
		COUNT(r->depth), TIME(r->p50_ns), op, RATE(r->op_bytes_per_s));
	if (b->opt->roofline.file)
		kv_wrap(b->out, "          ", 0, "efficiency %.3f (bare writes: %s)", r->efficiency,
			b->opt->roofline.file);
	else
		kv_wrap(b->out, "          ", 0, "efficiency %.3f (median of %u alternating rounds, %.3f to %.3f)",
			r->efficiency, r->rounds, r->efficiency_min, r->efficiency_max);
}

static void roofline_table(const struct bench *b)
{
	const struct bench_results *r = &b->results;
	if (!r->roofline.ran)
		return;
	fputc('\n', b->out);
	roofline_rows(b, "GET", &r->roofline);
	if (r->roofline_put.ran)
		roofline_rows(b, "PUT", &r->roofline_put);
}

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static bool replay_outlived(const struct bench *b)
{
	return b->opt->load.ttl && b->results.read.elapsed_ns / 1000000000 >= b->opt->load.ttl;
}

static void replay_table(const struct bench *b)
{
	const struct replay_result *r = &b->results.replay;
	if (!r->ran)
		return;
	fputc('\n', b->out);
	kv_wrap(b->out, "trace     ", 0, "%s, %s, %s, hit ratio %.4f", OF(r->requests, "request"),
		OF(r->blocks, "block"), OF(r->block_hits, "hit"), ratio(r->block_hits, r->blocks));
	if (r->complete)
		kv_wrap(b->out, "          ", 0,
			"in file order with memory for everything: %s, ratio %.4f; difference %+lld",
			OF(r->expected_hits, "hit"), ratio(r->expected_hits, b->results.trace.blocks),
			(long long)(r->block_hits - r->expected_hits));
	else
		kv_wrap(b->out, "          ", 0, "not all of the %s were replayed: hits are not compared",
			OF(b->results.trace.requests, "request"));
	if (r->complete && replay_outlived(b) && r->block_hits < r->expected_hits)
		kv_wrap(b->out, "          ", 0,
			"values lived for --ttl %llu s, and the replay took longer: --ttl 0 keeps them",
			(unsigned long long)b->opt->load.ttl);
	if (r->lost)
		kv_wrap(b->out, "          ", 0,
			"the lookup found %s that the GET then missed (evicted); they were stored again",
			OF(r->lost, "block"));
	if (b->opt->replay.speed > 0)
		fprintf(b->out, "          latest start: %s after its time\n", TIME(r->late_max_ns));
	if (r->never_started)
		kv_wrap(b->out, "          ", 0, "%s due had not begun when the time ended",
			OF(r->never_started, "request"));
}

static void events_table(const struct bench *b)
{
	static const char *const parts[REPLAY_PARTS] = {"before    ", "5 min after ", "later     "};
	const struct bench_results *r = &b->results;
	const struct bench_happening *h = &r->events;
	char what[32];
	for (unsigned i = 0; i < b->opt->server.events.count; i++)
		fprintf(b->out, "event     %s at %s%s%s%s\n",
			bench_event_text(&b->opt->server.events.row[i], what, sizeof(what)),
			TIME(b->opt->server.events.row[i].at_ns), b->opt->replay.trace ? " of the trace" : "",
			i < h->done ? ", after " : ": the run was over before", i < h->done ? TIME(h->done_ns[i]) : "");
	for (unsigned i = 0; r->replay.part && i < REPLAY_PARTS; i++) {
		const struct replay_part *p = &r->replay.part[i];
		if (p->requests)
			kv_wrap(b->out, parts[i], 0, "%s, hit ratio %.4f, get p50 %s, p99 %s, longest call %s",
				OF(p->requests, "request"), ratio(p->hits, p->blocks), QUANTILE(&p->read, 0.5),
				QUANTILE(&p->read, 0.99), TIME(p->longest_ns));
	}
}

/* Counters of the library; a run without trouble has one line. */
static void counters_table(const struct bench *b)
{
	const struct kvc_counters *c = &b->results.library.counters;
	uint64_t requests = KV_MAX(c->requests, (uint64_t)1);
	if (!c->size)
		return;
	fputc('\n', b->out);
	kv_wrap(b->out, "counters  ", 0, "%s; retries %s, EAGAIN %s", OF(c->requests, "request"), COUNT(c->retries),
		COUNT(c->eagain));
	/* Sums over thousands of workers read like failures; a request's mean can be compared with its latency. */
	kv_wrap(b->out, "          ", 0, "a request waited %s for room and %s for credits (means; the longest wait %s)",
		TIME(c->room_wait_ns / requests), TIME(c->queue_ns / requests),
		TIME(KV_MAX(c->queue_max_ns, c->room_wait_max_ns)));
	if (c->timeouts + c->cancels + c->orphans + c->fences + c->lost_connections + c->corrupt)
		kv_wrap(b->out, "          ", 0,
			"timeouts %s, cancels %s, given up %s, fences %s, connections lost %s, corrupt %s",
			COUNT(c->timeouts), COUNT(c->cancels), COUNT(c->orphans), COUNT(c->fences),
			COUNT(c->lost_connections), COUNT(c->corrupt));
	if (b->opt->client.copies != BENCH_COPIES_ONE)
		kv_wrap(b->out, "          ", 0, "second copies (--copies %s): %s made, %s; dropped %s",
			bench_copies_names[b->opt->client.copies], COUNT(c->copies), SIZE(c->copy_bytes),
			COUNT(c->copies_dropped));
	if (c->slow)
		fprintf(b->out, "          slow (--slow-ms): %s\n", OF(c->slow, "operation"));
}

static void tier_table(const struct bench *b)
{
	const struct bench_results *r = &b->results;
	char text[BENCH_TIER_STATS_MAX * 64] = "";
	for (unsigned i = 0; i < r->library.num_tier; i++) {
		const struct kvc_stat_item *item = &r->library.tier[i];
		const char *value = COUNT(item->value);
		if (strcmp(item->unit, "bytes") == 0)
			value = SIZE(item->value);
		else if (strcmp(item->unit, "ns") == 0)
			value = TIME(item->value);
		if (item->value)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s", text[0] ? ", " : "",
				 item->name, value);
	}
	if (r->library.num_tier)
		kv_wrap(b->out, "tier      ", 0, "%s", text[0] ? text : "not used: --memory-mb holds all values");
}

static void rails_table(const struct bench *b)
{
	const struct bench_results *r = &b->results;
	bool trouble = false;
	for (unsigned i = 0; i < r->library.num_rails; i++)
		trouble |= r->library.rail[i].errors || r->library.rail[i].failures || r->library.rail[i].out;
	if (r->library.num_rails < 2 && !trouble)
		return;
	fprintf(b->out, "\n%-5s %-18s %11s %11s %11s %8s %8s\n", "rails", "", "sent", "received", "immediates",
		"errors", "failures");
	for (unsigned i = 0; i < r->library.num_rails; i++) {
		const struct bench_rail *l = &r->library.rail[i];
		char name[80];
		snprintf(name, sizeof(name), "%s%s", l->device, l->mixed ? ", ..." : "");
		fprintf(b->out, "%-5u %-18s %11s %11s %11s %8s %8s", i, name, COUNT(l->sends), COUNT(l->receives),
			COUNT(l->immediates), COUNT(l->errors), COUNT(l->failures));
		if (l->out)
			fprintf(b->out, "\n%6sout, of %s", "", OF(l->out, "client"));
		fputc('\n', b->out);
	}
}

void report_conditions_of(const struct bench *b, char text[96], struct report_conditions *out)
{
	const struct kvc_info *i = &b->results.library.info;
	unsigned n = 0;
	*out = (struct report_conditions){.provider = i->provider,
					  .wait = i->wait,
					  .libfabric = i->libfabric,
					  .loopback_congestion = i->congestion,
					  .machine = &b->results.conditions};
	if (b->results.warmup.ran) {
		snprintf(text, 96, "warm-up: %s operations", COUNT(b->results.warmup.tally.ops));
		out->excluded[n++] = text;
	}
	if (!b->opt->replay.trace && !b->opt->load.no_write)
		out->excluded[n++] = "making the values, before the write phase";
	if (b->opt->load.no_checksum)
		out->excluded[n++] = "checking checksums of GETs (--no-checksum)";
	if (b->opt->load.verify)
		out->excluded[n++] = "comparing bytes (--verify), which no latency contains";
	else if (b->opt->load.no_checksum)
		out->excluded[n++] = "comparing all bytes: lengths, first and last ones were compared";
	else
		out->excluded[n++] = "comparing all bytes: checksums, lengths, first and last ones were compared";
}

static void conditions_table(const struct bench *b)
{
	struct report_conditions c;
	char text[96];
	report_conditions_of(b, text, &c);
	conditions_print(&c, false, b->out);
}

static void quiet_line(const struct bench *b)
{
	const struct bench_results *r = &b->results;
	uint64_t errors = bench_errors_total(&r->write.tally.errors) + bench_errors_total(&r->read.tally.errors) +
			  bench_errors_total(&r->mix_put.tally.errors) +
			  bench_errors_total(&r->mix_exists.tally.errors);
	if (r->interrupted)
		fprintf(b->last, "interrupted by signal %d; until then: ", r->interrupted);
	if (r->write.ran)
		fprintf(b->last, "%s %s, ", b->opt->replay.trace ? "put" : "write",
			RATE(bench_per_second((double)r->write.tally.bytes, &r->write)));
	if (r->read.ran)
		fprintf(b->last, "%s %s, %.0f %ss/s, p50 %s, p99 %s, ", b->opt->replay.trace ? "get" : "read",
			RATE(bench_per_second((double)r->read.tally.bytes, &r->read)),
			bench_per_second((double)r->read.tally.ops, &r->read), b->opt->replay.trace ? "get" : "read",
			QUANTILE(&r->read.tally.latency, 0.5), QUANTILE(&r->read.tally.latency, 0.99));
	if (bench_never_started(r))
		fprintf(b->last, "never started %llu, ", (unsigned long long)bench_never_started(r));
	fprintf(b->last, "hits %llu, misses %llu, errors %llu\n", (unsigned long long)r->read.tally.hits,
		(unsigned long long)r->read.tally.misses, (unsigned long long)errors);
}

static void keep_going_table(const struct bench *b)
{
	const struct keep_going_result *k = &b->results.keep_going;
	uint64_t longest = 0, failed = 0;
	if (!k->ran)
		return;
	for (unsigned i = 0; i < k->num_clients; i++)
		for (unsigned j = 0; j < KV_MIN(k->outage[i].count, (uint64_t)BENCH_OUTAGES_MAX); j++) {
			const struct bench_outage *o = &k->outage[i].row[j];
			longest = KV_MAX(longest, o->to_ns - o->from_ns);
			failed += o->failed;
		}
	fputc('\n', b->out);
	kv_wrap(b->out, "kept going  ", 0,
		"%s, %s of them more than %s past their deadline, the longest %s; %s stored again",
		OF(k->calls, "call"), COUNT(k->overdue), TIME(BENCH_LATE_NS), TIME(k->longest_ns),
		OF(k->stored_again, "value"));
	kv_wrap(b->out, "            ", 0, "%s over %s, the longest %s, %s failed in them", OF(k->outages, "outage"),
		OF(k->num_clients, "client"), TIME(longest), OF(failed, "call"));
}

void report_summary(const struct bench *b)
{
	const struct bench_results *r = &b->results;
	if (!b->out) {
		quiet_line(b);
		return;
	}
	fprintf(b->out, "\n%ssummary%s\n", paint(b->out, "\033[1m"), paint(b->out, "\033[0m"));
	if (r->interrupted)
		kv_wrap(b->out, "", 0,
			"interrupted by signal %d: these are figures of the run until then, and not of the whole run",
			r->interrupted);
	if (r->write.ran) {
		phase_table(b, b->opt->replay.trace ? "put" : "write", &r->write);
		short_note(b, &r->write, b->opt->replay.trace ? NULL : "num-keys", b->opt->load.num_keys);
	}
	if (r->read.ran) {
		phase_table(b, b->opt->replay.trace ? "get" : "read", &r->read);
		short_note(b, &r->read, b->opt->replay.trace || b->opt->pace.duration_ns ? NULL : "repeat-reads",
			   b->opt->pace.repeat_reads);
	}
	mix_rows(b);
	mixed_table(b);
	cpu_table(b);
	rate_line(b);
	if (b->opt->load.verify)
		fprintf(b->out, "verify  %s compared byte by byte, %s wrong\n", OF(r->read.tally.checked, "value"),
			COUNT(r->read.tally.wrong));
	latency_table(b);
	report_model(b);
	runs_table(b);
	slo_table(b);
	breakdown_table(b);
	keep_going_table(b);
	replay_table(b);
	events_table(b);
	roofline_table(b);
	counters_table(b);
	tier_table(b);
	rails_table(b);
	resource_table(b);
	conditions_table(b);
}

/* ---- the verdict ---- */

struct run_verdict {
	FILE *to;
	unsigned count;
	bool events;
	uint64_t conflicts; /* keys with other bytes before */
};

static void problem(struct run_verdict *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void problem(struct run_verdict *v, const char *fmt, ...)
{
	va_list args;
	v->count++;
	if (!v->to)
		return;
	fprintf(v->to, "%sFAILED:%s ", paint(v->to, "\033[1;31m"), paint(v->to, "\033[0m"));
	va_start(args, fmt);
	vfprintf(v->to, fmt, args);
	va_end(args);
	fputc('\n', v->to);
}

static void judge_phase(struct run_verdict *v, const char *name, const struct phase_result *p)
{
	const struct bench_errors *e = &p->tally.errors;
	for (unsigned i = 0; i < e->num_codes && !v->events; i++)
		problem(v, "%s of the %s phase ended with: %s%s", OF(e->row[i].count, "operation"), name,
			kv_strerror(e->row[i].code),
			e->row[i].code == -KV_ETIMEOUT ? " (--timeout gives each more time)" : "");
	if (p->tally.wrong)
		problem(v, "the %s phase read %s with other bytes than were written%s", name,
			OF(p->tally.wrong, "value"),
			v->conflicts ? ": keys had others before (put conflicts); another --seed has other keys" : "");
	if (p->too_many_errors)
		problem(v, "the %s phase was given up because of its errors", name);
	if (p->server_died)
		problem(v, "the server died during the %s phase", name);
}

/* A key that could not be written is rightly missed. */
static void judge_misses(struct run_verdict *v, const struct bench *b, const char *name, const struct phase_result *p)
{
	const struct bench_lives *lives = &b->results.lives;
	char lost[512];
	const char *why =
		" that had been written: it was evicted, because the server has less memory than the values need, or "
		"its --ttl was over";
	if (lives->changed)
		snprintf(lost, sizeof(lost),
			 " that had been written: server %s %s during the run, and the values in its memory were lost",
			 lives->server, lives->changed == BENCH_LIFE_ENDED ? "shut down" : "was restarted");
	if (lives->changed)
		why = lost;
	if (b->results.write.tally.errors.num_codes)
		why = "; not all keys were written";
	if (b->opt->load.no_write)
		why = ": --no-write reads the values of an earlier run with the same --seed and --value-size, for as "
		      "long as its --ttl";
	if (p->tally.misses)
		problem(v, "%s of the %s phase missed a key%s", OF(p->tally.misses, "read"), name, why);
}

/* With --keep-going errors and misses are expected. A wrong value or a late answer is a failure all the same. */
static void judge_keep_going(struct run_verdict *v, const struct bench_results *r)
{
	if (r->read.tally.wrong)
		problem(v, "the reads brought %s with other bytes than were written", OF(r->read.tally.wrong, "value"));
	if (r->keep_going.overdue)
		problem(v, "%s ended more than %s past the deadline, the longest took %s",
			OF(r->keep_going.overdue, "call"), TIME(BENCH_LATE_NS), TIME(r->keep_going.longest_ns));
}

static void judge_replay(struct run_verdict *v, const struct bench *b)
{
	const struct replay_result *r = &b->results.replay;
	/* The hits are known only in order, with an empty server and memory for everything. */
	if (!r->ran || !r->complete || !b->server || b->results.memory.misses_expected ||
	    b->opt->replay.order != BENCH_ORDER_STRICT)
		return;
	if (r->block_hits < r->expected_hits && replay_outlived(b))
		return; /* the table says so */
	if (r->block_hits != r->expected_hits)
		problem(v, "the replay had %s and not the %s that the trace has", OF(r->block_hits, "hit"),
			COUNT(r->expected_hits));
}

static void judge_slo(struct run_verdict *v, const struct bench *b)
{
	const struct bench_results *r = &b->results;
	if (r->slo.bad)
		problem(v, "the trials of --slo met wrong or missing values: %s", OF(r->slo.bad, "value"));
	if (r->slo.search.trials && !bench_slo_best(&r->slo.search) && !r->interrupted)
		problem(v, "no tried rate keeps p%.10g within %s, down to %.3g per second",
			100 * b->opt->pace.aim.quantile, TIME(b->opt->pace.aim.limit_ns), r->slo.search.high);
}

static void judge_prefix(struct run_verdict *v, const struct bench_results *r)
{
	if (r->prefix.wrong)
		problem(v, "a prefix was loaded of which %s had other bytes than were written",
			OF(r->prefix.wrong, "block"));
	if (r->prefix.missing && !r->memory.misses_expected)
		problem(v, "a prefix could not be loaded: the server has lost %s of it",
			OF(r->prefix.missing, "block"));
	if (r->prefix.code)
		problem(v, "a prefix could not be loaded: %s", kv_strerror(r->prefix.code));
}

unsigned report_verdict(const struct bench *b, FILE *to)
{
	const struct bench_results *r = &b->results;
	struct run_verdict v = {.to = to, .conflicts = r->write.tally.put_conflicts};
	/* Operations under way when a server dies may fail; in a replay also PUTs. */
	v.events = b->opt->replay.trace && r->events.done > 0;
	judge_phase(&v, "write", &r->write);
	judge_phase(&v, "warm-up", &r->warmup);
	v.events = r->events.done > 0;
	if (!r->keep_going.ran) {
		judge_phase(&v, "mix", &r->mix_put);
		judge_phase(&v, "mix", &r->mix_exists);
	}
	judge_slo(&v, b);
	judge_prefix(&v, r);
	judge_phase(&v, "mixed", &r->mixed.read);
	judge_phase(&v, "mixed", &r->mixed.write);
	if (r->events.done < b->opt->server.events.count && !r->interrupted)
		problem(&v, "the run was over before the event '%s at %s': %s",
			bench_event_text(&b->opt->server.events.row[r->events.done], (char[32]){0}, 32),
			TIME(b->opt->server.events.row[r->events.done].at_ns),
			b->opt->replay.trace ? "the trace, or --duration, ends earlier"
					     : "give it a longer --duration");
	if (r->events.failed.text[0])
		problem(&v, "a server could not be started: %s", r->events.failed.text);
	if (r->keep_going.ran)
		judge_keep_going(&v, r);
	else
		judge_phase(&v, "read", &r->read);
	if (!b->opt->replay.trace && !r->memory.misses_expected && !r->keep_going.ran) {
		judge_misses(&v, b, "warm-up", &r->warmup);
		judge_misses(&v, b, "read", &r->read);
		judge_misses(&v, b, "mix", &r->mix_exists);
		judge_misses(&v, b, "mixed", &r->mixed.read);
	}
	if (r->roofline.server_died || r->roofline_put.server_died)
		problem(&v, "the server died during the roofline");
	else if (r->roofline.code < 0)
		problem(&v, "the roofline could not be measured: %s", kv_strerror(r->roofline.code));
	if (r->raw.code < 0)
		problem(&v, "the operations could not be written to %.300s: %s", b->opt->out.raw,
			kv_strerror(r->raw.code));
	else if (r->raw.lost)
		problem(&v,
			"%s came faster than %.300s could store them, so the file "
			"is not written: name one on a faster disk",
			OF(r->raw.lost, "operation"), b->opt->out.raw);
	judge_replay(&v, b);
	if (v.count == 0 && r->read.ran && !b->opt->replay.trace && !r->interrupted && bench_measured_ops(r) == 0 &&
	    bench_errors_total(&r->read.tally.errors) == 0)
		problem(&v, "the read phase ended before an operation did: give it a longer --duration");
	return v.count;
}
