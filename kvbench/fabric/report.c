/* SPDX-License-Identifier: Apache-2.0 */
/* report.c -- kv-bench fabric as text and JSON (schema kvbench-fabric/1). A quantile needs enough samples: p99.99 takes
 * 10,000. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "kvbench/fabric/fabric.h"
#include "kvbench/measure/runs.h"
#include "kvbench/report/conditions.h"

#define SIZE(n) kv_size_format((n), (char[32]){0}, 32)
#define TIME(n) kv_duration_format((n), (char[32]){0}, 32)
#define RATE(n) kv_rate_format((n), (char[32]){0}, 32)

static const struct {
	const char *name;
	double q;
} quantiles[] = {{"p50", .5}, {"p90", .9}, {"p99", .99}, {"p99.9", .999}, {"p99.99", .9999}};

enum { COLUMNS = 4, GROUPS = KV_HIST_BUCKETS >> KV_HIST_SUB_BITS };

const char *fabric_op_name(enum fabric_op op)
{
	static const char *const names[FABRIC_OPS] = {"message", "write", "read"};
	return names[op];
}

/* ---- text ---- */

static const char *rdma_text(const struct fabric_run *run, const char *none, const char *software, const char *nic)
{
	if (!run->rdma.in_use)
		return none;
	return run->rdma.software ? software : nic;
}

void fabric_print_head(const struct fabric_run *run, FILE *out)
{
	const struct te_info *i = &run->info;
	kv_wrap(out, "fabric     ", 0, "%s, domain %s, libfabric %s, chunk %s%s%s", i->provider, i->domain,
		i->libfabric, SIZE(i->chunk_bytes), i->congestion[0] ? ", congestion control " : "", i->congestion);
	kv_wrap(out, "           ", 0, "chosen: %s", i->why);
	kv_wrap(out, "ends       ", 0,
		"this process and %s, both poll; %u core%s; one rail; latency: half of a round trip, of a read all of "
		"it; rate: %u at a time over %u pair%s",
		run->opt.connect ? run->opt.connect : "a child", kv_cpus_available(), kv_plural(kv_cpus_available()),
		run->opt.depth, run->opt.pairs, kv_plural(run->opt.pairs));
	kv_wrap(out, "RDMA       ", 0, "%s: %s", rdma_text(run, "no", "in software", "yes"), run->rdma.how);
	if (strncmp(i->provider, "tcp", 3) == 0 && i->no_door[0])
		kv_wrap(out, "note       ", 0, "no doorkeeper stands before the ports, which are on loopback: %s",
			i->no_door);
	if (run->no_read[0])
		kv_wrap(out, "note       ", 0, "%s", run->no_read);
	fprintf(out, "\n%-7s %8s %7s %7s %7s %7s %7s %7s %9s\n", "op", "size", "min", "p50", "p99", "p99.9", "p99.99",
		"p99/p50", "rate");
	fflush(out);
}

static struct report_conditions conditions_of(const struct fabric_run *run)
{
	return (struct report_conditions){.provider = run->info.provider,
					  .wait = "poll",
					  .libfabric = run->info.libfabric,
					  .loopback_congestion = run->info.congestion,
					  .machine = &run->conditions,
					  .excluded = {"connecting", "the first operations of each size"}};
}

static double jitter_of(const struct kv_hist *h)
{
	uint64_t p50 = kv_hist_quantile(h, 0.5);
	return p50 ? (double)kv_hist_reached(h, 0.99) / (double)p50 : 0;
}

void fabric_print_row(const struct fabric_row *row, FILE *out)
{
	static const double shown[COLUMNS] = {.5, .99, .999, .9999};
	const struct kv_hist *h = &row->latency;
	fprintf(out, "%-7s %8s %7s", fabric_op_name(row->op), SIZE(row->size), TIME(h->min));
	for (unsigned i = 0; i < COLUMNS; i++)
		fprintf(out, " %7s", kv_hist_reaches(h, shown[i]) ? TIME(kv_hist_quantile(h, shown[i])) : "-");
	if (jitter_of(h) > 0)
		fprintf(out, " %7.1f", jitter_of(h));
	else
		fprintf(out, " %7s", "-");
	fprintf(out, " %9s\n", row->bytes_per_s > 0 ? RATE(row->bytes_per_s) : "-");
	fflush(out);
}

double fabric_jitter(const struct fabric_run *run)
{
	double all[FABRIC_OPS * FABRIC_SIZES_MAX];
	struct bench_spread s = {0};
	unsigned n = 0;
	for (unsigned i = 0; i < run->num_rows; i++) {
		double j = run->row[i].size <= KV_MSG_MAX ? jitter_of(&run->row[i].latency) : 0;
		if (j > 0)
			all[n++] = j;
	}
	if (n)
		bench_spread_of(all, n, &s);
	return s.median;
}

/* Advice for the user. */
static void advise_tcp(const struct fabric_run *run, FILE *out)
{
	char congestion[64], window[96], *last;
	if (run->rdma.devices)
		kv_wrap(out, "advice     ", 0,
			"the RDMA device %s is here and not used: "
			"try --provider verbs (or efa); kv-doctor names the obstacle",
			run->rdma.device);
	if (!run->opt.connect)
		kv_wrap(out, "advice     ", 0,
			"between processes of one host --provider shm spares the kernel's TCP: "
			"compare it with this run");
	kv_file_line(congestion, sizeof(congestion), "/proc/sys/net/ipv4/tcp_congestion_control");
	kv_file_line(window, sizeof(window), "/proc/sys/net/ipv4/tcp_wmem");
	last = strrchr(window, '\t');
	if (congestion[0] && last)
		kv_wrap(out, "advice     ", 0,
			"between hosts TCP keeps at most net.ipv4.tcp_wmem = %s on its way per connection: "
			"that must be rate x round trip (100 Gb/s x 0.1 ms: 1.25 MB); congestion control there is %s",
			SIZE(strtoull(last + 1, NULL, 10)), congestion);
}

static void advise(const struct fabric_run *run, double jitter, FILE *out)
{
	if (strncmp(run->info.provider, "tcp", 3) == 0)
		advise_tcp(run, out);
	if (run->rdma.in_use && run->rdma.software)
		kv_wrap(out, "advice     ", 0,
			"%s is RDMA in software: good for tests, "
			"and slower than --provider tcp; take a NIC that does RDMA",
			run->rdma.device);
	else if (run->rdma.in_use)
		kv_wrap(out, "advice     ", 0,
			"kv-doctor checks the settings of %s: locked memory, NUMA node, link speed", run->rdma.device);
	if (jitter >= 3)
		kv_wrap(out, "advice     ", 0,
			"p99 far above p50: other programs use the cores. Both sides poll and need a "
			"core each; pin them, and disable power saving of the cores");
}

static const char *jitter_text(double jitter)
{
	if (jitter < 2)
		return "steady";
	return jitter < 3 ? "fair" : "unsteady";
}

void fabric_print_end(const struct fabric_run *run, FILE *out)
{
	const struct report_conditions c = conditions_of(run);
	double jitter = fabric_jitter(run);
	bool shm = strncmp(run->info.provider, "shm", 3) == 0;
	fputc('\n', out);
	if (!run->complete)
		kv_wrap(out, "verdict    ", 0, "not all was measured: these are the rows until then");
	kv_wrap(out, "verdict    ", 0, "%s%s%s",
		shm ? "shared memory: figures of memory copies, no NIC takes part"
		    : rdma_text(run, "no RDMA: the kernel's network stack moves the bytes",
				"RDMA in software: the kernel moves the bytes", "RDMA: the NIC moves the bytes"),
		run->opt.connect ? ", between this machine and " : ", on this machine alone",
		run->opt.connect ? run->opt.connect : "");
	if (jitter > 0)
		kv_wrap(out, "           ", 0, "jitter up to 4 KiB: p99 is %.1f times p50 (median of the rows): %s",
			jitter, jitter_text(jitter));
	conditions_print(&c, false, out);
	advise(run, jitter, out);
}

/* ---- JSON ---- */

static json_t *latency_object(const struct kv_hist *h)
{
	json_t *o = json_pack("{s:I, s:I, s:f, s:I}", "samples", (json_int_t)h->count, "min", (json_int_t)h->min,
			      "mean", kv_hist_mean(h), "max", (json_int_t)h->max),
	       *groups = json_array();
	for (unsigned i = 0; i < KV_COUNT(quantiles); i++)
		json_object_set_new(o, quantiles[i].name,
				    kv_hist_reaches(h, quantiles[i].q)
					    ? json_integer((json_int_t)kv_hist_quantile(h, quantiles[i].q))
					    : json_null());
	for (unsigned g = 0; g < GROUPS; g++) {
		uint64_t sum = 0;
		for (unsigned i = 0; i < 1u << KV_HIST_SUB_BITS; i++)
			sum += h->bucket[(g << KV_HIST_SUB_BITS) + i];
		if (sum)
			json_array_append_new(groups,
					      json_pack("[I, I]", g ? (json_int_t)1 << (g + KV_HIST_SUB_BITS - 1) : 0,
							(json_int_t)sum));
	}
	json_object_set_new(o, "histogram_from_ns", groups);
	return o;
}

static json_t *rows_array(const struct fabric_run *run)
{
	json_t *rows = json_array();
	for (unsigned i = 0; i < run->num_rows; i++) {
		const struct fabric_row *r = &run->row[i];
		json_t *row = json_pack("{s:s, s:I, s:o}", "op", fabric_op_name(r->op), "size", (json_int_t)r->size,
					"latency_ns", latency_object(&r->latency));
		if (row && r->bytes_per_s > 0)
			json_object_set_new(row, "bytes_per_s", json_real(r->bytes_per_s));
		json_array_append_new(rows, row);
	}
	return rows;
}

json_t *fabric_json(const struct fabric_run *run)
{
	const struct te_info *i = &run->info;
	const struct report_conditions c = conditions_of(run);
	double jitter = fabric_jitter(run);
	return json_pack("{s:s, s:s, s:b, s:{s:s, s:s, s:s, s:s, s:I}, s:{s:b, s:b, "
			 "s:i, s:s}, s:o, s:i, s:i, s:I, s:s?, s:f, s:o, s:o, s:o}",
			 "schema", "kvbench-fabric/1", "version", KVRAIL_VERSION, "complete", run->complete, "provider",
			 "name", i->provider, "domain", i->domain, "libfabric", i->libfabric, "why", i->why,
			 "chunk_bytes", (json_int_t)i->chunk_bytes, "rdma", "in_use", run->rdma.in_use, "software",
			 run->rdma.software, "devices", (int)run->rdma.devices, "how", run->rdma.how, "conditions",
			 conditions_json(&c), "depth", (int)run->opt.depth, "pairs", (int)run->opt.pairs, "span_bytes",
			 (json_int_t)run->opt.span, "connect", run->opt.connect, "time_s",
			 (double)run->opt.time_ns / 1e9, "no_read",
			 run->no_read[0] ? json_string(run->no_read) : json_null(), "jitter_small",
			 jitter > 0 ? json_real(jitter) : json_null(), "rows", rows_array(run));
}
